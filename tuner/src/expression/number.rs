//! Python's arithmetic on 64-bit whole numbers, doubles, truth values and strings.

use std::cmp::Ordering;

use super::{BinaryOperator, Comparator, UnaryOperator};
use crate::Value;

/// Reason why an expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExprFault {
    /// Python's ZeroDivisionError.
    #[error("a division by zero")]
    DivisionByZero,
    /// Whole number beyond 64 bits, or double beyond its range.
    #[error("a number beyond 64 bits")]
    Overflow,
    /// Python's TypeError: an operation on a string, or a fraction where a whole number must be.
    #[error("an operation that its operands do not have")]
    Type,
    /// Negative number to a fractional power, shift by a negative number, or NaN.
    #[error("a result that is not a real number")]
    Domain,
}

/// Value during the computation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number<'a> {
    Int(i64),
    Real(f64),
    Bool(bool),
    Text(&'a str),
}

use Number::{Bool, Int, Real, Text};

/// Computed value, or the reason why there is none.
pub(crate) type Computed<'a> = Result<Number<'a>, ExprFault>;

impl<'a> From<&'a Value> for Number<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Bool(value) => Bool(*value),
            Value::Int(value) => Int(*value),
            Value::Float(value) => Real(*value),
            Value::Text(text) => Text(text),
        }
    }
}

impl From<Number<'_>> for Value {
    fn from(number: Number<'_>) -> Self {
        match number {
            Bool(value) => Self::Bool(value),
            Int(value) => Self::Int(value),
            Real(value) => Self::Float(value),
            Text(text) => Self::Text(text.to_owned()),
        }
    }
}

fn whole_or_overflow<'a>(value: Option<i64>) -> Computed<'a> {
    value.map(Int).ok_or(ExprFault::Overflow)
}

fn real<'a>(value: f64) -> Computed<'a> {
    if value.is_nan() {
        Err(ExprFault::Domain)
    } else {
        Ok(Real(value))
    }
}

impl Number<'_> {
    /// Returns the truth value, as `if` takes it.
    #[inline]
    pub(crate) fn truth(self) -> bool {
        match self {
            Bool(value) => value,
            Int(value) => value != 0,
            Real(value) => value != 0.0,
            Text(text) => !text.is_empty(),
        }
    }

    /// Converts a truth value to a whole number, as in arithmetic.
    #[inline]
    fn plain(self) -> Self {
        if let Bool(value) = self {
            Int(i64::from(value))
        } else {
            self
        }
    }

    /// Converts a number to a double.
    #[inline]
    fn double(self) -> Option<f64> {
        match self {
            Int(value) => Some(value as f64),
            Real(value) => Some(value),
            Bool(_) | Text(_) => None,
        }
    }
}

/// Computes an operator or a function of one operand.
pub(crate) fn unary(operator: UnaryOperator, operand: Number<'_>) -> Computed<'_> {
    match (operator, operand.plain()) {
        (UnaryOperator::Not, _) => Ok(Bool(!operand.truth())),
        (UnaryOperator::Minus, Int(value)) => whole_or_overflow(value.checked_neg()),
        (UnaryOperator::Minus, Real(value)) => Ok(Real(-value)),
        (UnaryOperator::Abs, Int(value)) => whole_or_overflow(value.checked_abs()),
        (UnaryOperator::Abs, Real(value)) => Ok(Real(value.abs())),
        // Towards zero. 2^63 itself is out of range; both bounds are exact doubles.
        (UnaryOperator::Int, Real(value))
            if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) =>
        {
            Ok(Int(value as i64))
        }
        (UnaryOperator::Int, Real(_)) => Err(ExprFault::Overflow),
        (UnaryOperator::Plus, number @ (Int(_) | Real(_)))
        | (UnaryOperator::Int, number @ Int(_)) => Ok(number),
        (_, Text(_) | Bool(_)) => Err(ExprFault::Type),
    }
}

/// Computes `a operator b`; `and` and `or` are evaluated by the caller.
#[inline]
pub(crate) fn binary<'a>(operator: BinaryOperator, a: Number<'a>, b: Number<'a>) -> Computed<'a> {
    match (a.plain(), b.plain()) {
        (Int(a), Int(b)) => whole(operator, a, b),
        (a, b) => match (a.double(), b.double()) {
            (Some(a), Some(b)) => fraction(operator, a, b),
            _ => Err(ExprFault::Type),
        },
    }
}

#[inline]
fn whole<'a>(operator: BinaryOperator, a: i64, b: i64) -> Computed<'a> {
    match operator {
        BinaryOperator::Add => whole_or_overflow(a.checked_add(b)),
        BinaryOperator::Subtract => whole_or_overflow(a.checked_sub(b)),
        BinaryOperator::Multiply => whole_or_overflow(a.checked_mul(b)),
        BinaryOperator::Divide | BinaryOperator::FloorDivide | BinaryOperator::Modulo if b == 0 => {
            Err(ExprFault::DivisionByZero)
        }
        BinaryOperator::Divide => Ok(Real(a as f64 / b as f64)),
        // Rust rounds towards zero, Python down: they differ if the remainder's sign is not the
        // divisor's.
        BinaryOperator::FloorDivide => match (a.checked_div(b), a.checked_rem(b)) {
            (Some(quotient), Some(rest)) => {
                Ok(Int(quotient - i64::from(rest != 0 && (rest < 0) != (b < 0))))
            }
            _ => Err(ExprFault::Overflow),
        },
        BinaryOperator::Modulo => {
            let rest = a.wrapping_rem(b);
            Ok(Int(if rest != 0 && (rest < 0) != (b < 0) {
                rest + b
            } else {
                rest
            }))
        }
        BinaryOperator::Power if b < 0 => fraction(operator, a as f64, b as f64),
        BinaryOperator::Power => {
            whole_or_overflow(u32::try_from(b).ok().and_then(|b| a.checked_pow(b)))
        }
        BinaryOperator::BitOr => Ok(Int(a | b)),
        BinaryOperator::BitXor => Ok(Int(a ^ b)),
        BinaryOperator::BitAnd => Ok(Int(a & b)),
        BinaryOperator::ShiftLeft | BinaryOperator::ShiftRight if b < 0 => Err(ExprFault::Domain),
        BinaryOperator::ShiftRight => Ok(Int(a >> b.min(63))),
        BinaryOperator::ShiftLeft => {
            whole_or_overflow(if b < 63 { a.checked_mul(1 << b) } else { None })
        }
        BinaryOperator::And | BinaryOperator::Or => Err(ExprFault::Type),
    }
}

fn fraction<'a>(operator: BinaryOperator, a: f64, b: f64) -> Computed<'a> {
    match operator {
        BinaryOperator::Add => real(a + b),
        BinaryOperator::Subtract => real(a - b),
        BinaryOperator::Multiply => real(a * b),
        BinaryOperator::Divide | BinaryOperator::FloorDivide | BinaryOperator::Modulo
            if b == 0.0 =>
        {
            Err(ExprFault::DivisionByZero)
        }
        BinaryOperator::Divide => real(a / b),
        BinaryOperator::Modulo => real(floor_rest(a, b)),
        // All but a rounding is whole after the rest is taken away.
        BinaryOperator::FloorDivide => real(((a - floor_rest(a, b)) / b).round()),
        BinaryOperator::Power if a == 0.0 && b < 0.0 => Err(ExprFault::DivisionByZero),
        BinaryOperator::Power => match a.powf(b) {
            result if result.is_infinite() && a.is_finite() && b.is_finite() => {
                Err(ExprFault::Overflow)
            }
            result => real(result),
        },
        _ => Err(ExprFault::Type),
    }
}

/// Computes `a % b` of doubles, with the divisor's sign.
fn floor_rest(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) {
        rest + b
    } else {
        rest
    }
}

/// Computes `a comparison b`. Strings have no order.
#[inline]
pub(crate) fn compare(
    comparison: Comparator,
    a: Number<'_>,
    b: Number<'_>,
) -> Result<bool, ExprFault> {
    let order = match (a.plain(), b.plain()) {
        (Int(a), Int(b)) => a.cmp(&b),
        (a, b) => match (a.double(), b.double(), comparison) {
            (Some(a), Some(b), _) => a.partial_cmp(&b).ok_or(ExprFault::Domain)?,
            (.., Comparator::Equal) => return Ok(a == b),
            (.., Comparator::NotEqual) => return Ok(a != b),
            _ => return Err(ExprFault::Type),
        },
    };
    Ok(match comparison {
        Comparator::Less => order == Ordering::Less,
        Comparator::LessEqual => order != Ordering::Greater,
        Comparator::Greater => order == Ordering::Greater,
        Comparator::GreaterEqual => order != Ordering::Less,
        Comparator::Equal => order == Ordering::Equal,
        Comparator::NotEqual => order != Ordering::Equal,
    })
}
