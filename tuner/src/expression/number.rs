//! Python's arithmetic on 64-bit whole numbers, doubles, truth values and strings.

use std::cmp::Ordering;

use super::{Binary, Comparison, Unary};
use crate::Value;

/// Reason why an expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
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
pub(crate) type Computed<'a> = Result<Number<'a>, Fault>;

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
    value.map(Int).ok_or(Fault::Overflow)
}

fn real<'a>(value: f64) -> Computed<'a> {
    if value.is_nan() { Err(Fault::Domain) } else { Ok(Real(value)) }
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
        if let Bool(value) = self { Int(i64::from(value)) } else { self }
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
pub(crate) fn unary(operator: Unary, operand: Number<'_>) -> Computed<'_> {
    match (operator, operand.plain()) {
        (Unary::Not, _) => Ok(Bool(!operand.truth())),
        (Unary::Minus, Int(value)) => whole_or_overflow(value.checked_neg()),
        (Unary::Minus, Real(value)) => Ok(Real(-value)),
        (Unary::Abs, Int(value)) => whole_or_overflow(value.checked_abs()),
        (Unary::Abs, Real(value)) => Ok(Real(value.abs())),
        // Towards zero. 2^63 itself is out of range; both bounds are exact doubles.
        (Unary::Int, Real(value)) if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) => {
            Ok(Int(value as i64))
        }
        (Unary::Int, Real(_)) => Err(Fault::Overflow),
        (Unary::Plus, number @ (Int(_) | Real(_))) | (Unary::Int, number @ Int(_)) => Ok(number),
        (_, Text(_) | Bool(_)) => Err(Fault::Type),
    }
}

/// Computes `a operator b`; `and` and `or` are evaluated by the caller.
#[inline]
pub(crate) fn binary<'a>(operator: Binary, a: Number<'a>, b: Number<'a>) -> Computed<'a> {
    match (a.plain(), b.plain()) {
        (Int(a), Int(b)) => whole(operator, a, b),
        (a, b) => match (a.double(), b.double()) {
            (Some(a), Some(b)) => fraction(operator, a, b),
            _ => Err(Fault::Type),
        },
    }
}

#[inline]
fn whole<'a>(operator: Binary, a: i64, b: i64) -> Computed<'a> {
    match operator {
        Binary::Add => whole_or_overflow(a.checked_add(b)),
        Binary::Subtract => whole_or_overflow(a.checked_sub(b)),
        Binary::Multiply => whole_or_overflow(a.checked_mul(b)),
        Binary::Divide | Binary::FloorDivide | Binary::Modulo if b == 0 => Err(Fault::DivisionByZero),
        Binary::Divide => Ok(Real(a as f64 / b as f64)),
        // Rust rounds towards zero, Python down: they differ if the remainder's sign is not the divisor's.
        Binary::FloorDivide => match (a.checked_div(b), a.checked_rem(b)) {
            (Some(quotient), Some(rest)) => Ok(Int(quotient - i64::from(rest != 0 && (rest < 0) != (b < 0)))),
            _ => Err(Fault::Overflow),
        },
        Binary::Modulo => {
            let rest = a.wrapping_rem(b);
            Ok(Int(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }))
        }
        Binary::Power if b < 0 => fraction(operator, a as f64, b as f64),
        Binary::Power => whole_or_overflow(u32::try_from(b).ok().and_then(|b| a.checked_pow(b))),
        Binary::BitOr => Ok(Int(a | b)),
        Binary::BitXor => Ok(Int(a ^ b)),
        Binary::BitAnd => Ok(Int(a & b)),
        Binary::ShiftLeft | Binary::ShiftRight if b < 0 => Err(Fault::Domain),
        Binary::ShiftRight => Ok(Int(a >> b.min(63))),
        Binary::ShiftLeft => whole_or_overflow(if b < 63 { a.checked_mul(1 << b) } else { None }),
        Binary::And | Binary::Or => Err(Fault::Type),
    }
}

fn fraction<'a>(operator: Binary, a: f64, b: f64) -> Computed<'a> {
    match operator {
        Binary::Add => real(a + b),
        Binary::Subtract => real(a - b),
        Binary::Multiply => real(a * b),
        Binary::Divide | Binary::FloorDivide | Binary::Modulo if b == 0.0 => Err(Fault::DivisionByZero),
        Binary::Divide => real(a / b),
        Binary::Modulo => real(floor_rest(a, b)),
        // All but a rounding is whole after the rest is taken away.
        Binary::FloorDivide => real(((a - floor_rest(a, b)) / b).round()),
        Binary::Power if a == 0.0 && b < 0.0 => Err(Fault::DivisionByZero),
        Binary::Power => match a.powf(b) {
            result if result.is_infinite() && a.is_finite() && b.is_finite() => Err(Fault::Overflow),
            result => real(result),
        },
        _ => Err(Fault::Type),
    }
}

/// Computes `a % b` of doubles, with the divisor's sign.
fn floor_rest(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
}

/// Computes `a comparison b`. Strings have no order.
#[inline]
pub(crate) fn compare(comparison: Comparison, a: Number<'_>, b: Number<'_>) -> Result<bool, Fault> {
    let order = match (a.plain(), b.plain()) {
        (Int(a), Int(b)) => a.cmp(&b),
        (a, b) => match (a.double(), b.double(), comparison) {
            (Some(a), Some(b), _) => a.partial_cmp(&b).ok_or(Fault::Domain)?,
            (.., Comparison::Equal) => return Ok(a == b),
            (.., Comparison::NotEqual) => return Ok(a != b),
            _ => return Err(Fault::Type),
        },
    };
    Ok(match comparison {
        Comparison::Less => order == Ordering::Less,
        Comparison::LessEqual => order != Ordering::Greater,
        Comparison::Greater => order == Ordering::Greater,
        Comparison::GreaterEqual => order != Ordering::Less,
        Comparison::Equal => order == Ordering::Equal,
        Comparison::NotEqual => order != Ordering::Equal,
    })
}
