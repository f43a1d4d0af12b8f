//! Parser of expressions.

use regex_lite::Regex;

use super::{BinaryOperator, Comparator, Expr, UnaryOperator};
use crate::Value;

/// Deepest nesting, over which the parser recurses.
const DEEPEST: usize = 64;
/// Maximum number of operators and brackets, which bounds the depth of the tree, over which the
/// evaluation recurses.
const MOST_SYMBOLS: usize = 1000;

#[derive(Clone, Debug, PartialEq)]
enum Token<'a> {
    Literal(Value),
    Name(&'a str),
    Symbol(&'a str),
    End,
}

/// Number, word (with dots, for the parameters of a chain), string in either quotes, symbol (the
/// longer ones first).
const TOKEN: &str = concat!(
    r"^(?:((?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9][0-9_]*)?)",
    r"|([A-Za-z_\x{80}-\x{10FFFF}][0-9A-Za-z_.\x{80}-\x{10FFFF}]*)",
    r#"|"([^"\\]*)"|'([^'\\]*)'"#,
    r"|(\*\*|//|<<|>>|[<>=!]=|[-+*/%&|^<>(),]))",
);

const KEYWORDS: [&str; 5] = ["or", "and", "not", "if", "else"];

const COMPARISONS: [(&str, Comparator); 6] = [
    ("<", Comparator::Less),
    ("<=", Comparator::LessEqual),
    (">", Comparator::Greater),
    (">=", Comparator::GreaterEqual),
    ("==", Comparator::Equal),
    ("!=", Comparator::NotEqual),
];

/// Operators of two operands by precedence, the weakest first, without `**` and the comparisons.
const LEVELS: [&[(&str, BinaryOperator)]; 6] = [
    &[("|", BinaryOperator::BitOr)],
    &[("^", BinaryOperator::BitXor)],
    &[("&", BinaryOperator::BitAnd)],
    &[
        ("<<", BinaryOperator::ShiftLeft),
        (">>", BinaryOperator::ShiftRight),
    ],
    &[("+", BinaryOperator::Add), ("-", BinaryOperator::Subtract)],
    &[
        ("*", BinaryOperator::Multiply),
        ("/", BinaryOperator::Divide),
        ("//", BinaryOperator::FloorDivide),
        ("%", BinaryOperator::Modulo),
    ],
];

pub(super) fn parse(text: &str, named: &dyn Fn(&str) -> Option<Expr>) -> Result<Expr, String> {
    let tokens = tokens(text)?;
    let mut parser = ExprParser {
        text,
        named,
        tokens,
        at: 0,
        depth: 0,
    };
    let expr = parser.expression()?;
    match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(parser.wrong("the expression should end here")),
    }
}

fn syntax(text: &str, at: usize, message: &str) -> String {
    format!(
        "{message} at character {at} of {:?}",
        text.chars().take(200).collect::<String>()
    )
}

fn tokens(text: &str) -> Result<Vec<(usize, Token<'_>)>, String> {
    let wrong = |at: usize, message: &str| syntax(text, at, message);
    let pattern = Regex::new(TOKEN).map_err(|error| error.to_string())?;
    let (mut tokens, mut symbols, mut rest) = (Vec::new(), 0, text.trim_start());
    while !rest.is_empty() {
        let at = text.len() - rest.len();
        let found = pattern
            .captures(rest)
            .ok_or_else(|| wrong(at, "an unexpected character, or a string without an end"))?;
        let part = |group: usize| found.get(group).map(|part| part.as_str());
        let token = match (part(1), part(2), part(3).or(part(4))) {
            (Some(digits), ..) => {
                let value = number(digits)
                    .ok_or_else(|| wrong(at, "not a number, or one beyond 64 bits"))?;
                Token::Literal(value)
            }
            (_, Some("True"), _) => Token::Literal(Value::Bool(true)),
            (_, Some("False"), _) => Token::Literal(Value::Bool(false)),
            (_, Some(word), _) if KEYWORDS.contains(&word) => Token::Symbol(word),
            (_, Some(word), _) => Token::Name(word),
            (.., Some(quoted)) => Token::Literal(Value::Text(quoted.to_owned())),
            _ => Token::Symbol(part(5).unwrap_or_default()),
        };
        symbols += usize::from(matches!(token, Token::Symbol(symbol) if symbol != ","));
        if symbols > MOST_SYMBOLS {
            return Err(wrong(at, "more than 1000 operators and brackets"));
        }
        tokens.push((at, token));
        rest = rest[part(0).map_or(0, str::len)..].trim_start();
    }
    tokens.push((text.len(), Token::End));
    Ok(tokens)
}

/// Reads a number; `None` if it does not fit 64 bits.
fn number(text: &str) -> Option<Value> {
    let digits = text.replace('_', "");
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return digits.parse().ok().map(Value::Int);
    }
    digits
        .parse()
        .ok()
        .filter(|value: &f64| value.is_finite())
        .map(Value::Float)
}

struct ExprParser<'a> {
    text: &'a str,
    named: &'a dyn Fn(&str) -> Option<Expr>,
    tokens: Vec<(usize, Token<'a>)>,
    at: usize,
    depth: usize,
}

impl<'a> ExprParser<'a> {
    fn peek(&self) -> &Token<'a> {
        &self.tokens[self.at].1
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Token::Symbol(here) if *here == symbol);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), String> {
        if self.take(symbol) {
            Ok(())
        } else {
            Err(self.wrong(&format!("{symbol:?} is missing")))
        }
    }

    fn wrong(&self, message: &str) -> String {
        syntax(self.text, self.tokens[self.at].0, message)
    }

    fn deeper<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        if self.depth == DEEPEST {
            return Err(self.wrong("nested too deeply"));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn expression(&mut self) -> Result<Expr, String> {
        self.deeper(|parser| {
            let yes = parser.either()?;
            if !parser.take("if") {
                return Ok(yes);
            }
            let condition = parser.either()?;
            parser.expect("else")?;
            Ok(Expr::Choice(Box::new([
                condition,
                yes,
                parser.expression()?,
            ])))
        })
    }

    fn either(&mut self) -> Result<Expr, String> {
        self.chain(&[("or", BinaryOperator::Or)], |parser| {
            parser.chain(&[("and", BinaryOperator::And)], Self::negation)
        })
    }

    /// Parses operands of the next stronger kind between operators of one precedence, grouped from
    /// the left.
    fn chain(
        &mut self,
        operators: &[(&str, BinaryOperator)],
        operand: impl Fn(&mut Self) -> Result<Expr, String>,
    ) -> Result<Expr, String> {
        let mut left = operand(self)?;
        while let Some(&(_, operator)) = operators.iter().find(|(symbol, _)| self.take(symbol)) {
            left = Expr::Binary(operator, Box::new(left), Box::new(operand(self)?));
        }
        Ok(left)
    }

    fn negation(&mut self) -> Result<Expr, String> {
        if self.take("not") {
            let operand = self.deeper(Self::negation)?;
            return Ok(Expr::Unary(UnaryOperator::Not, Box::new(operand)));
        }
        let first = self.level(0)?;
        let mut rest: Vec<(Comparator, Expr)> = Vec::new();
        while let Some(&(_, comparison)) = COMPARISONS.iter().find(|(symbol, _)| self.take(symbol))
        {
            rest.push((comparison, self.level(0)?));
        }
        Ok(if rest.is_empty() {
            first
        } else {
            Expr::Compare(Box::new(first), rest)
        })
    }

    fn level(&mut self, level: usize) -> Result<Expr, String> {
        match LEVELS.get(level) {
            Some(operators) => self.chain(operators, |parser| parser.level(level + 1)),
            None => self.factor(),
        }
    }

    fn factor(&mut self) -> Result<Expr, String> {
        for (symbol, operator) in [("-", UnaryOperator::Minus), ("+", UnaryOperator::Plus)] {
            if self.take(symbol) {
                let operand = self.deeper(Self::factor)?;
                return Ok(Expr::Unary(operator, Box::new(operand)));
            }
        }
        let base = self.atom()?;
        if !self.take("**") {
            return Ok(base);
        }
        // `**` binds tighter than a minus on its left, looser than one on its right, and groups
        // from the right.
        let exponent = self.deeper(Self::factor)?;
        Ok(Expr::Binary(
            BinaryOperator::Power,
            Box::new(base),
            Box::new(exponent),
        ))
    }

    fn atom(&mut self) -> Result<Expr, String> {
        match self.peek().clone() {
            Token::Literal(value) => {
                self.at += 1;
                Ok(Expr::Literal(value))
            }
            Token::Name(name) => {
                self.at += 1;
                if self.take("(") {
                    return self.call(name);
                }
                (self.named)(name).ok_or_else(|| format!("{name:?} is not defined"))
            }
            Token::Symbol("(") => {
                self.at += 1;
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            _ => Err(self.wrong("a value is missing")),
        }
    }

    /// Parses the operands of a function, after its `(`.
    fn call(&mut self, name: &str) -> Result<Expr, String> {
        if !["abs", "int", "max", "min"].contains(&name) {
            self.at -= 2;
            return Err(self.wrong("an unknown function"));
        }
        let mut operands = Vec::new();
        while !self.take(")") {
            operands.push(self.expression()?);
            if !self.take(",") {
                self.expect(")")?;
                break;
            }
        }
        match (name, operands.len()) {
            ("max", 1..) => Ok(Expr::Extreme(Comparator::Greater, operands)),
            ("min", 1..) => Ok(Expr::Extreme(Comparator::Less, operands)),
            ("abs", 1) => Ok(Expr::Unary(
                UnaryOperator::Abs,
                Box::new(operands.remove(0)),
            )),
            ("int", 1) => Ok(Expr::Unary(
                UnaryOperator::Int,
                Box::new(operands.remove(0)),
            )),
            _ => Err(self.wrong("a function with the wrong number of operands")),
        }
    }
}
