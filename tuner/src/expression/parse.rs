//! Parser of expressions.

use super::{Binary, Comparison, Expr, Unary};
use crate::Value;

/// Deepest nesting, over which the parser recurses.
const DEEPEST: usize = 64;
/// Most operators and brackets. They bound the depth of the tree, over which the evaluation recurses.
const MOST_SYMBOLS: usize = 1000;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Literal(Value),
    Name(String),
    Symbol(&'static str),
    End,
}

/// Symbols, the longer ones first: the first that fits is taken.
const SYMBOLS: [&str; 21] =
    ["**", "//", "<<", ">>", "<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "/", "%", "&", "|", "^", "(", ")", ","];

const KEYWORDS: [&str; 5] = ["or", "and", "not", "if", "else"];

const COMPARISONS: [(&str, Comparison); 6] = [
    ("<", Comparison::Less),
    ("<=", Comparison::LessEqual),
    (">", Comparison::Greater),
    (">=", Comparison::GreaterEqual),
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
];

/// Operators of two operands by precedence, the weakest first, without `**` and the comparisons.
const LEVELS: [&[(&str, Binary)]; 6] = [
    &[("|", Binary::BitOr)],
    &[("^", Binary::BitXor)],
    &[("&", Binary::BitAnd)],
    &[("<<", Binary::ShiftLeft), (">>", Binary::ShiftRight)],
    &[("+", Binary::Add), ("-", Binary::Subtract)],
    &[("*", Binary::Multiply), ("/", Binary::Divide), ("//", Binary::FloorDivide), ("%", Binary::Modulo)],
];

pub(super) fn parse(text: &str, named: &dyn Fn(&str) -> Option<Expr>) -> Result<Expr, String> {
    let tokens = tokens(text)?;
    let mut parser = Parser { text, named, tokens, at: 0, depth: 0 };
    let expr = parser.expression()?;
    match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(parser.wrong("the expression should end here")),
    }
}

fn syntax(text: &str, at: usize, message: &str) -> String {
    format!("{message} at character {at} of {:?}", text.chars().take(200).collect::<String>())
}

fn tokens(text: &str) -> Result<Vec<(usize, Token)>, String> {
    let wrong = |at: usize, message: &str| syntax(text, at, message);
    let mut tokens = Vec::new();
    let mut symbols = 0;
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let at = text.len() - rest.len();
        let Some(first) = rest.chars().next() else {
            tokens.push((at, Token::End));
            return Ok(tokens);
        };
        let (token, length) =
            if first.is_ascii_digit() || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
                let length = number_length(rest);
                let digits = rest[..length].replace('_', "");
                let value = match (digits.parse::<i64>(), digits.parse::<f64>()) {
                    (Ok(value), _) => Value::Int(value),
                    _ if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                        return Err(wrong(at, "a whole number beyond 64 bits"));
                    }
                    (_, Ok(value)) if value.is_finite() => Value::Float(value),
                    _ => return Err(wrong(at, "not a number")),
                };
                (Token::Literal(value), length)
            } else if first.is_alphabetic() || first == '_' {
                let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                let token = match &rest[..length] {
                    "True" => Token::Literal(Value::Bool(true)),
                    "False" => Token::Literal(Value::Bool(false)),
                    word => match KEYWORDS.iter().find(|&&keyword| keyword == word) {
                        Some(keyword) => Token::Symbol(keyword),
                        None => Token::Name(word.to_owned()),
                    },
                };
                (token, length)
            } else if first == '"' || first == '\'' {
                let inner = &rest[1..];
                let end = inner.find(first).ok_or_else(|| wrong(at, "a string without an end"))?;
                if inner[..end].contains('\\') {
                    return Err(wrong(at, "a string with a backslash"));
                }
                (Token::Literal(Value::Text(inner[..end].to_owned())), end + 2)
            } else {
                let symbol = SYMBOLS.iter().find(|&&symbol| rest.starts_with(symbol));
                let symbol = symbol.ok_or_else(|| wrong(at, "an unexpected character"))?;
                (Token::Symbol(symbol), symbol.len())
            };
        symbols += usize::from(!matches!(token, Token::Literal(_) | Token::Name(_) | Token::Symbol(",")));
        if symbols > MOST_SYMBOLS {
            return Err(wrong(at, "more than 1000 operators and brackets"));
        }
        tokens.push((at, token));
        rest = &rest[length..];
    }
}

/// Returns the length of the number at the beginning of `text`: digits, fraction, exponent.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(|&byte| byte.is_ascii_digit() || byte == b'_') {
            at += 1;
        }
        at
    };
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        if bytes.get(end + 1 + sign).is_some_and(u8::is_ascii_digit) {
            end = digits(end + 1 + sign);
        }
    }
    end
}

struct Parser<'a> {
    text: &'a str,
    named: &'a dyn Fn(&str) -> Option<Expr>,
    tokens: Vec<(usize, Token)>,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].1
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Token::Symbol(here) if *here == symbol);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), String> {
        if self.take(symbol) { Ok(()) } else { Err(self.wrong(&format!("{symbol:?} is missing"))) }
    }

    fn wrong(&self, message: &str) -> String {
        syntax(self.text, self.tokens[self.at].0, message)
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
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
            Ok(Expr::Choice(Box::new([condition, yes, parser.expression()?])))
        })
    }

    fn either(&mut self) -> Result<Expr, String> {
        self.chain(&[("or", Binary::Or)], |parser| parser.chain(&[("and", Binary::And)], Self::negation))
    }

    /// Parses operands of the next stronger kind between operators of one precedence, grouped from the left.
    fn chain(
        &mut self,
        operators: &[(&str, Binary)],
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
            return Ok(Expr::Unary(Unary::Not, Box::new(operand)));
        }
        let first = self.level(0)?;
        let mut rest: Vec<(Comparison, Expr)> = Vec::new();
        while let Some(&(_, comparison)) = COMPARISONS.iter().find(|(symbol, _)| self.take(symbol)) {
            rest.push((comparison, self.level(0)?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Compare(Box::new(first), rest) })
    }

    fn level(&mut self, level: usize) -> Result<Expr, String> {
        match LEVELS.get(level) {
            Some(operators) => self.chain(operators, |parser| parser.level(level + 1)),
            None => self.factor(),
        }
    }

    fn factor(&mut self) -> Result<Expr, String> {
        for (symbol, operator) in [("-", Unary::Minus), ("+", Unary::Plus)] {
            if self.take(symbol) {
                let operand = self.deeper(Self::factor)?;
                return Ok(Expr::Unary(operator, Box::new(operand)));
            }
        }
        let base = self.atom()?;
        if !self.take("**") {
            return Ok(base);
        }
        // `**` binds tighter than a minus on its left, looser than one on its right, and groups from the right.
        let exponent = self.deeper(Self::factor)?;
        Ok(Expr::Binary(Binary::Power, Box::new(base), Box::new(exponent)))
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
                    return self.call(&name);
                }
                (self.named)(&name).ok_or_else(|| format!("{name:?} is not defined"))
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
            ("max", 1..) => Ok(Expr::Extreme(Comparison::Greater, operands)),
            ("min", 1..) => Ok(Expr::Extreme(Comparison::Less, operands)),
            ("abs", 1) => Ok(Expr::Unary(Unary::Abs, Box::new(operands.remove(0)))),
            ("int", 1) => Ok(Expr::Unary(Unary::Int, Box::new(operands.remove(0)))),
            _ => Err(self.wrong("a function with the wrong number of operands")),
        }
    }
}
