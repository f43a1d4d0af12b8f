//! The expressions of search spaces: the part of Python that conditions on parameters are written in.
//!
//! Names, numbers, strings, `True`, `False`; `or and not`, chained comparisons, `in` a list; `| ^ & << >> + - * / // % **`;
//! `a if c else b`; `abs int max min`; and for lists of values `[…]`, `+`, `range`, `list` and comprehensions. This file
//! parses; `program` compiles what has one value, and `list` evaluates what is a list.

pub(crate) mod list;
pub mod number;
pub(crate) mod program;

use crate::Value;

pub use crate::expression::program::Program;

/// Longer expressions are refused.
const LONGEST: usize = 1 << 16;
/// Deeper nesting is refused: the parser recurses.
const DEEPEST: usize = 64;
/// More operators and brackets are refused: they bound the depth of the tree, over which the compiler recurses.
const MOST_SYMBOLS: usize = 1000;

/// What is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// It does not parse.
    #[error("{message} at character {at} of {text:?}")]
    Syntax {
        /// The expression.
        text: String,
        /// Byte offset, counted from 0.
        at: usize,
        /// What was found or missed.
        message: String,
    },
    /// It names something that is neither a parameter nor a constant nor derived before.
    #[error("{0:?} is not defined")]
    Unknown(String),
    /// It has one value where a list is wanted, or the other way round.
    #[error("{0}")]
    Shape(String),
    /// It cannot be computed.
    #[error("{0}")]
    Fault(number::Fault),
}

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A number, a string, True or False.
    Literal(Value),
    /// A parameter, a constant or a derived value.
    Name(String),
    /// One operand.
    Unary(Unary, Box<Expr>),
    /// Two operands.
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `a < b <= c`: the first operand, then each comparison with its right one.
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    /// `yes if condition else no`, in the order condition, yes, no.
    Choice(Box<Expr>, Box<Expr>, Box<Expr>),
    /// A call of a function.
    Call(Function, Vec<Expr>),
    /// A list, or a tuple.
    List(Vec<Expr>),
    /// `[item for name in over if condition]`.
    Comprehension {
        /// What each element is.
        item: Box<Expr>,
        /// The running name.
        name: String,
        /// The list that it runs over.
        over: Box<Expr>,
        /// Which elements are kept.
        condition: Option<Box<Expr>>,
    },
}

/// Operators of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unary {
    /// `-a`
    Minus,
    /// `+a`
    Plus,
    /// `not a`
    Not,
}

/// Operators of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is its Python operator")]
pub enum Binary {
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
    Power,
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is its Python operator")]
pub enum Comparison {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    In,
    NotIn,
}

impl Comparison {
    const fn is_in(self) -> bool {
        matches!(self, Self::In | Self::NotIn)
    }
}

/// Functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is its Python function")]
pub enum Function {
    Abs,
    Int,
    Max,
    Min,
    List,
    Range,
    Sum,
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Literal(Value),
    Name(String),
    Symbol(&'static str),
    End,
}

/// Longer symbols first: the first that fits is taken.
const SYMBOLS: [&str; 23] = [
    "**", "//", "<<", ">>", "<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "/", "%", "&", "|", "^", "(", ")", "[",
    "]", ",",
];

impl Expr {
    /// Parses `text`.
    ///
    /// # Errors
    /// Where it is not an expression of the kind above.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let tokens = tokens(text)?;
        let mut parser = Parser { text, tokens, at: 0, depth: 0 };
        let expr = parser.expression()?;
        match parser.peek() {
            Token::End => Ok(expr),
            _ => Err(parser.wrong("the expression should end here")),
        }
    }

    /// The names it uses, each once, in the order of their first use.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.collect(&mut names);
        names
    }

    fn collect<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Self::Literal(_) => {}
            Self::Name(name) => {
                if !names.contains(&name.as_str()) {
                    names.push(name);
                }
            }
            Self::Unary(_, operand) => operand.collect(names),
            Self::Binary(_, left, right) => [left, right].into_iter().for_each(|side| side.collect(names)),
            Self::Compare(first, rest) => {
                first.collect(names);
                for (_, operand) in rest {
                    operand.collect(names);
                }
            }
            Self::Choice(condition, yes, no) => [condition, yes, no].into_iter().for_each(|part| part.collect(names)),
            Self::Call(_, operands) | Self::List(operands) => operands.iter().for_each(|part| part.collect(names)),
            Self::Comprehension { item, name, over, condition } => {
                let mut inner = Vec::new();
                item.collect(&mut inner);
                if let Some(condition) = condition {
                    condition.collect(&mut inner);
                }
                over.collect(names);
                for used in inner.into_iter().filter(|used| used != name) {
                    if !names.contains(&used) {
                        names.push(used);
                    }
                }
            }
        }
    }
}

fn tokens(text: &str) -> Result<Vec<(usize, Token)>, ExpressionError> {
    let wrong = |at: usize, message: &str| ExpressionError::Syntax {
        text: text.chars().take(200).collect(),
        at,
        message: message.to_owned(),
    };
    if text.len() > LONGEST {
        return Err(wrong(LONGEST, "the expression is longer than 64 KiB"));
    }
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
                let value = match digits.parse::<i64>() {
                    Ok(value) => Value::Int(value),
                    Err(_) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                        return Err(wrong(at, "a whole number beyond 64 bits"));
                    }
                    Err(_) => match digits.parse::<f64>() {
                        Ok(value) if value.is_finite() => Value::Float(value),
                        _ => return Err(wrong(at, "not a number")),
                    },
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
                match SYMBOLS.iter().find(|&&symbol| rest.starts_with(symbol)) {
                    Some(symbol) => (Token::Symbol(symbol), symbol.len()),
                    None => return Err(wrong(at, "an unexpected character")),
                }
            };
        symbols += usize::from(!matches!(token, Token::Literal(_) | Token::Name(_) | Token::Symbol(",")));
        if symbols > MOST_SYMBOLS {
            return Err(wrong(at, "more than 1000 operators and brackets"));
        }
        tokens.push((at, token));
        rest = &rest[length..];
    }
}

const KEYWORDS: [&str; 7] = ["or", "and", "not", "in", "if", "else", "for"];

/// Length of the number that `text` begins with: digits, a fraction, an exponent.
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
    tokens: Vec<(usize, Token)>,
    at: usize,
    depth: usize,
}

/// Operators of two operands by their precedence, the weakest first; `**` and the comparisons are apart.
const LEVELS: [&[(&str, Binary)]; 6] = [
    &[("|", Binary::BitOr)],
    &[("^", Binary::BitXor)],
    &[("&", Binary::BitAnd)],
    &[("<<", Binary::ShiftLeft), (">>", Binary::ShiftRight)],
    &[("+", Binary::Add), ("-", Binary::Subtract)],
    &[("*", Binary::Multiply), ("/", Binary::Divide), ("//", Binary::FloorDivide), ("%", Binary::Modulo)],
];

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].1
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Token::Symbol(here) if *here == symbol);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), ExpressionError> {
        if self.take(symbol) { Ok(()) } else { Err(self.wrong(&format!("{symbol:?} is missing"))) }
    }

    fn wrong(&self, message: &str) -> ExpressionError {
        ExpressionError::Syntax {
            text: self.text.chars().take(200).collect(),
            at: self.tokens[self.at].0,
            message: message.to_owned(),
        }
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, ExpressionError>) -> Result<T, ExpressionError> {
        if self.depth == DEEPEST {
            return Err(self.wrong("nested too deeply"));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn expression(&mut self) -> Result<Expr, ExpressionError> {
        self.deeper(|parser| {
            let yes = parser.either()?;
            if !parser.take("if") {
                return Ok(yes);
            }
            let condition = parser.either()?;
            parser.expect("else")?;
            let no = parser.expression()?;
            Ok(Expr::Choice(Box::new(condition), Box::new(yes), Box::new(no)))
        })
    }

    fn either(&mut self) -> Result<Expr, ExpressionError> {
        self.chain(&[("or", Binary::Or)], |parser| parser.chain(&[("and", Binary::And)], Self::negation))
    }

    /// Operands of the next stronger kind between operators of one precedence, grouped from the left.
    fn chain(
        &mut self,
        operators: &[(&str, Binary)],
        operand: impl Fn(&mut Self) -> Result<Expr, ExpressionError>,
    ) -> Result<Expr, ExpressionError> {
        let mut left = operand(self)?;
        while let Some(&(_, operator)) = operators.iter().find(|(symbol, _)| self.take(symbol)) {
            left = Expr::Binary(operator, Box::new(left), Box::new(operand(self)?));
        }
        Ok(left)
    }

    fn negation(&mut self) -> Result<Expr, ExpressionError> {
        if self.take("not") {
            let operand = self.deeper(Self::negation)?;
            return Ok(Expr::Unary(Unary::Not, Box::new(operand)));
        }
        let first = self.level(0)?;
        let mut rest = Vec::new();
        while let Some(comparison) = self.comparison()? {
            rest.push((comparison, self.level(0)?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Compare(Box::new(first), rest) })
    }

    fn comparison(&mut self) -> Result<Option<Comparison>, ExpressionError> {
        let found = match self.peek() {
            Token::Symbol("<") => Comparison::Less,
            Token::Symbol("<=") => Comparison::LessEqual,
            Token::Symbol(">") => Comparison::Greater,
            Token::Symbol(">=") => Comparison::GreaterEqual,
            Token::Symbol("==") => Comparison::Equal,
            Token::Symbol("!=") => Comparison::NotEqual,
            Token::Symbol("in") => Comparison::In,
            Token::Symbol("not") => {
                self.at += 1;
                self.expect("in")?;
                return Ok(Some(Comparison::NotIn));
            }
            _ => return Ok(None),
        };
        self.at += 1;
        Ok(Some(found))
    }

    fn level(&mut self, level: usize) -> Result<Expr, ExpressionError> {
        match LEVELS.get(level) {
            Some(operators) => self.chain(operators, |parser| parser.level(level + 1)),
            None => self.factor(),
        }
    }

    fn factor(&mut self) -> Result<Expr, ExpressionError> {
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
        // Binds tighter than a minus on its left and looser than one on its right, and groups from the right.
        let exponent = self.deeper(Self::factor)?;
        Ok(Expr::Binary(Binary::Power, Box::new(base), Box::new(exponent)))
    }

    fn atom(&mut self) -> Result<Expr, ExpressionError> {
        match self.peek().clone() {
            Token::Literal(value) => {
                self.at += 1;
                Ok(Expr::Literal(value))
            }
            Token::Name(name) => {
                self.at += 1;
                if !self.take("(") {
                    return Ok(Expr::Name(name));
                }
                let function = match name.as_str() {
                    "abs" => Function::Abs,
                    "int" => Function::Int,
                    "max" => Function::Max,
                    "min" => Function::Min,
                    "list" => Function::List,
                    "range" => Function::Range,
                    "sum" => Function::Sum,
                    _ => {
                        self.at -= 2;
                        return Err(self.wrong("an unknown function"));
                    }
                };
                Ok(Expr::Call(function, self.items(")")?))
            }
            Token::Symbol("(") => {
                self.at += 1;
                let first = self.expression()?;
                if self.take(")") {
                    return Ok(first);
                }
                self.expect(",")?;
                let mut items = vec![first];
                items.extend(self.items(")")?);
                Ok(Expr::List(items))
            }
            Token::Symbol("[") => {
                self.at += 1;
                if self.take("]") {
                    return Ok(Expr::List(Vec::new()));
                }
                let first = self.expression()?;
                if self.take("for") {
                    let comprehension = self.comprehension(first)?;
                    self.expect("]")?;
                    return Ok(comprehension);
                }
                let mut items = vec![first];
                if self.take(",") {
                    items.extend(self.items("]")?);
                } else {
                    self.expect("]")?;
                }
                Ok(Expr::List(items))
            }
            _ => Err(self.wrong("a value is missing")),
        }
    }

    /// `name in over [if condition]`, after `for`.
    fn comprehension(&mut self, item: Expr) -> Result<Expr, ExpressionError> {
        let Token::Name(name) = self.peek().clone() else { return Err(self.wrong("a name is missing")) };
        self.at += 1;
        self.expect("in")?;
        let over = Box::new(self.either()?);
        let condition = if self.take("if") { Some(Box::new(self.either()?)) } else { None };
        Ok(Expr::Comprehension { item: Box::new(item), name, over, condition })
    }

    /// Expressions between commas, up to and with `end`; a comma may stand before it.
    fn items(&mut self, end: &'static str) -> Result<Vec<Expr>, ExpressionError> {
        let mut items = Vec::new();
        while !self.take(end) {
            items.push(self.expression()?);
            if !self.take(",") {
                self.expect(end)?;
                break;
            }
        }
        Ok(items)
    }
}
