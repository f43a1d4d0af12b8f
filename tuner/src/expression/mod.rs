//! Expressions of search spaces, in a part of Python.
//!
//! Names, numbers, strings, `True`, `False`; `or and not`, chained comparisons;
//! `| ^ & << >> + - * / // % **`; `a if c else b`; `abs int max min`. As in Python, operands that
//! are not evaluated may be invalid.

mod number;
mod parse;

use crate::{Error, Value};
pub(crate) use number::{Computed, ExprFault, Number};
use number::{binary, compare, unary};

/// Parsed expression over numbered *slots*, which hold the values of names.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Expr {
    /// Number, string, True or False.
    Literal(Value),
    /// Value of a name.
    Slot(usize),
    /// Operator with one operand.
    Unary(UnaryOperator, Box<Expr>),
    /// Operator with two operands.
    Binary(BinaryOperator, Box<Expr>, Box<Expr>),
    /// `a < b <= c`: the first operand, then each comparison with its right operand.
    Compare(Box<Expr>, Vec<(Comparator, Expr)>),
    /// `yes if condition else no`, in the order condition, yes, no.
    Choice(Box<[Expr; 3]>),
    /// Largest (`Greater`) or smallest (`Less`) of some operands; of equals the first.
    Extreme(Comparator, Vec<Expr>),
}

/// Operators and functions of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is its Python operator or function")]
#[non_exhaustive]
pub enum UnaryOperator {
    Minus,
    Plus,
    Not,
    Abs,
    Int,
}

/// Operators of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is its Python operator")]
#[non_exhaustive]
pub enum BinaryOperator {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is its Python operator")]
#[non_exhaustive]
pub enum Comparator {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
}

impl Expr {
    /// Parses `text`; `named` returns the slot or constant of a name.
    ///
    /// # Errors
    /// If the text is not a valid expression, with the place in bytes counted from 0, or a name is
    /// unknown.
    pub fn parse(text: &str, named: &dyn Fn(&str) -> Option<Self>) -> Result<Self, Error> {
        parse::parse(text, named).map_err(Error::format)
    }

    /// Computes the value for these values of the slots.
    ///
    /// # Errors
    /// If Python would raise an exception, or a whole number exceeds 64 bits.
    pub fn evaluate(&self, slots: &[Value]) -> Result<Value, Error> {
        let slots: Vec<Computed<'_>> = slots.iter().map(|value| Ok(value.into())).collect();
        self.compute(&slots)
            .map(Value::from)
            .map_err(|fault| Error::request(fault.to_string()))
    }

    pub(crate) fn compute<'a>(&'a self, slots: &[Computed<'a>]) -> Computed<'a> {
        match self {
            Self::Literal(value) => Ok(value.into()),
            Self::Slot(slot) => slots.get(*slot).copied().unwrap_or(Err(ExprFault::Type)),
            Self::Unary(operator, operand) => unary(*operator, operand.compute(slots)?),
            Self::Binary(operator, left, right) => {
                let left = left.compute(slots)?;
                match (operator, left.truth()) {
                    (BinaryOperator::And, false) | (BinaryOperator::Or, true) => Ok(left),
                    (BinaryOperator::And, true) | (BinaryOperator::Or, false) => {
                        right.compute(slots)
                    }
                    _ => binary(*operator, left, right.compute(slots)?),
                }
            }
            Self::Compare(first, rest) => {
                let mut left = first.compute(slots)?;
                for (comparison, operand) in rest {
                    let right = operand.compute(slots)?;
                    if !compare(*comparison, std::mem::replace(&mut left, right), right)? {
                        return Ok(Number::Bool(false));
                    }
                }
                Ok(Number::Bool(true))
            }
            Self::Choice(parts) => {
                let [condition, yes, no] = &**parts;
                if condition.compute(slots)?.truth() {
                    yes.compute(slots)
                } else {
                    no.compute(slots)
                }
            }
            Self::Extreme(better, operands) => {
                let mut values = operands.iter().map(|operand| operand.compute(slots));
                let first = values.next().unwrap_or(Err(ExprFault::Type))?;
                values.try_fold(first, |best, next| {
                    let next = next?;
                    Ok(if compare(*better, next, best)? {
                        next
                    } else {
                        best
                    })
                })
            }
        }
    }

    /// Calls `look` with this expression and all parts of it.
    pub(crate) fn visit(&self, look: &mut dyn FnMut(&Self)) {
        look(self);
        match self {
            Self::Literal(_) | Self::Slot(_) => {}
            Self::Unary(_, operand) => operand.visit(look),
            Self::Binary(_, left, right) => {
                left.visit(look);
                right.visit(look);
            }
            Self::Compare(first, rest) => {
                first.visit(look);
                for (_, operand) in rest {
                    operand.visit(look);
                }
            }
            Self::Choice(parts) => parts.iter().for_each(|part| part.visit(look)),
            Self::Extreme(_, operands) => operands.iter().for_each(|operand| operand.visit(look)),
        }
    }
}
