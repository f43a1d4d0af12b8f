//! Arithmetic as Python does it, on 64-bit whole numbers, doubles, truth values and strings.
//!
//! What goes wrong (a division by zero, a result beyond 64 bits) is itself a value, `Number::Bad`, which every operation
//! hands on, except that `and`, `or` and a choice never look at the side that Python would not evaluate. So a whole
//! expression can be computed without jumps and still fails exactly where Python would.

use std::cmp::Ordering;

use crate::expression::{Binary, Comparison};

/// Why an expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Fault {
    /// Python's ZeroDivisionError.
    #[error("a division by zero")]
    DivisionByZero,
    /// A whole number beyond 64 bits, or a double beyond its range.
    #[error("a number beyond 64 bits")]
    Overflow,
    /// Python's TypeError: an operation on a string, or a fraction where a whole number must be.
    #[error("an operation that its operands do not have")]
    Type,
    /// A negative number to a fractional power, a shift by a negative number, a fraction that is not a number.
    #[error("a result that is not a real number")]
    Domain,
}

/// A value while it is computed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Int(i64),
    Real(f64),
    Bool(bool),
    /// The number of a string in its program's table; the empty one has the number 0.
    Text(u32),
    Bad(Fault),
}

use Number::{Bad, Bool, Int, Real, Text};

/// By identity, not by Python's equality: so that equal parts of a program can be computed once.
impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Int(a), Int(b)) => a == b,
            (Real(a), Real(b)) => a.to_bits() == b.to_bits(),
            (Bool(a), Bool(b)) => a == b,
            (Text(a), Text(b)) => a == b,
            (Bad(a), Bad(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Number {}

impl std::hash::Hash for Number {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Int(value) => value.hash(state),
            Real(value) => value.to_bits().hash(state),
            Bool(value) => value.hash(state),
            Text(value) => value.hash(state),
            Bad(value) => value.hash(state),
        }
    }
}

fn or_overflow(value: Option<i64>) -> Number {
    value.map_or(Bad(Fault::Overflow), Int)
}

fn real(value: f64) -> Number {
    if value.is_nan() { Bad(Fault::Domain) } else { Real(value) }
}

impl Number {
    /// Truth as `if` sees it.
    #[inline]
    pub(crate) fn truth(self) -> Result<bool, Fault> {
        match self {
            Bool(value) => Ok(value),
            Int(value) => Ok(value != 0),
            Real(value) => Ok(value != 0.0),
            Text(value) => Ok(value != 0),
            Bad(fault) => Err(fault),
        }
    }

    /// A truth value as the whole number that it is in arithmetic.
    #[inline]
    fn plain(self) -> Self {
        match self {
            Bool(value) => Int(i64::from(value)),
            other => other,
        }
    }

    #[inline]
    pub(crate) fn not(self) -> Self {
        self.truth().map_or_else(Bad, |truth| Bool(!truth))
    }

    pub(crate) fn minus(self) -> Self {
        match self.plain() {
            Int(value) => or_overflow(value.checked_neg()),
            Real(value) => Real(-value),
            Bad(fault) => Bad(fault),
            _ => Bad(Fault::Type),
        }
    }

    pub(crate) fn plus(self) -> Self {
        match self.plain() {
            Text(_) => Bad(Fault::Type),
            other => other,
        }
    }

    pub(crate) fn abs(self) -> Self {
        match self.plain() {
            Int(value) => or_overflow(value.checked_abs()),
            Real(value) => Real(value.abs()),
            Bad(fault) => Bad(fault),
            _ => Bad(Fault::Type),
        }
    }

    /// `int(x)`: towards zero.
    pub(crate) fn int(self) -> Self {
        match self.plain() {
            // 2^63 itself is out of range; both bounds are exact doubles.
            Real(value) if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) => {
                Int(value as i64)
            }
            Real(_) => Bad(Fault::Overflow),
            Text(_) => Bad(Fault::Type),
            other => other,
        }
    }

    /// The smaller (`least`) or the larger one; of equals the first.
    pub(crate) fn extreme(self, other: Self, least: bool) -> Self {
        let comparison = if least { Comparison::Less } else { Comparison::Greater };
        match compare(comparison, other, self) {
            Bool(true) => other,
            Bool(false) => self,
            bad => bad,
        }
    }
}

/// `a operator b`. `and` and `or` give one of their operands, as in Python.
#[inline]
pub(crate) fn binary(operator: Binary, a: Number, b: Number) -> Number {
    match operator {
        Binary::And => match a.truth() {
            Ok(true) => return b,
            _ => return a,
        },
        Binary::Or => match a.truth() {
            Ok(false) => return b,
            _ => return a,
        },
        _ => {}
    }
    match (a, b) {
        (Int(a), Int(b)) => whole(operator, a, b),
        (Bad(fault), _) | (_, Bad(fault)) => Bad(fault),
        (Text(_), _) | (_, Text(_)) => Bad(Fault::Type),
        (a, b) => mixed(operator, a, b),
    }
}

#[inline]
fn whole(operator: Binary, a: i64, b: i64) -> Number {
    match operator {
        Binary::Add => or_overflow(a.checked_add(b)),
        Binary::Subtract => or_overflow(a.checked_sub(b)),
        Binary::Multiply => or_overflow(a.checked_mul(b)),
        Binary::Divide | Binary::FloorDivide | Binary::Modulo if b == 0 => Bad(Fault::DivisionByZero),
        Binary::Divide => Real(a as f64 / b as f64),
        // What / and % give towards zero, moved to the floor where the remainder's sign is not the divisor's.
        Binary::FloorDivide => match (a.checked_div(b), a.checked_rem(b)) {
            (Some(quotient), Some(rest)) => Int(quotient - i64::from(rest != 0 && (rest < 0) != (b < 0))),
            _ => Bad(Fault::Overflow),
        },
        Binary::Modulo => {
            let rest = a.wrapping_rem(b);
            Int(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
        }
        Binary::Power => power(a, b),
        Binary::BitOr => Int(a | b),
        Binary::BitXor => Int(a ^ b),
        Binary::BitAnd => Int(a & b),
        Binary::ShiftLeft | Binary::ShiftRight if b < 0 => Bad(Fault::Domain),
        Binary::ShiftRight => Int(a >> b.min(63)),
        Binary::ShiftLeft if a == 0 => Int(0),
        Binary::ShiftLeft => or_overflow(if b < 63 { a.checked_mul(1 << b) } else { None }),
        Binary::And | Binary::Or => Bad(Fault::Type),
    }
}

fn power(a: i64, b: i64) -> Number {
    match (a, b) {
        (0, ..0) => Bad(Fault::DivisionByZero),
        (_, ..0) => real((a as f64).powf(b as f64)),
        (0, 1..) => Int(0),
        (1, _) | (_, 0) => Int(1),
        (-1, _) => Int(if b % 2 == 0 { 1 } else { -1 }),
        _ => or_overflow(u32::try_from(b).ok().and_then(|b| a.checked_pow(b))),
    }
}

fn mixed(operator: Binary, a: Number, b: Number) -> Number {
    // Two truth values: & | ^ keep them so; everything else computes with 0 and 1.
    if let (Bool(a), Bool(b)) = (a, b) {
        match operator {
            Binary::BitOr => return Bool(a | b),
            Binary::BitXor => return Bool(a ^ b),
            Binary::BitAnd => return Bool(a & b),
            _ => {}
        }
    }
    let (a, b) = match (a.plain(), b.plain()) {
        (Int(a), Int(b)) => return whole(operator, a, b),
        (Real(a), Real(b)) => (a, b),
        (Real(a), Int(b)) => (a, b as f64),
        (Int(a), Real(b)) => (a as f64, b),
        _ => return Bad(Fault::Type),
    };
    match operator {
        Binary::Add => real(a + b),
        Binary::Subtract => real(a - b),
        Binary::Multiply => real(a * b),
        Binary::Divide | Binary::FloorDivide | Binary::Modulo if b == 0.0 => Bad(Fault::DivisionByZero),
        Binary::Divide => real(a / b),
        Binary::Modulo => real(floor_rest(a, b)),
        Binary::FloorDivide => {
            let quotient = (a - floor_rest(a, b)) / b;
            let floor = quotient.floor();
            real(if quotient - floor > 0.5 { floor + 1.0 } else { floor })
        }
        Binary::Power if a == 0.0 && b < 0.0 => Bad(Fault::DivisionByZero),
        Binary::Power => match a.powf(b) {
            result if result.is_infinite() && a.is_finite() && b.is_finite() => Bad(Fault::Overflow),
            result => real(result),
        },
        _ => Bad(Fault::Type),
    }
}

/// `a % b` of doubles: the sign is the divisor's.
fn floor_rest(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest == 0.0 {
        0.0f64.copysign(b)
    } else if (rest < 0.0) != (b < 0.0) {
        rest + b
    } else {
        rest
    }
}

/// `a comparison b`; `in` is resolved before.
#[inline]
pub(crate) fn compare(comparison: Comparison, a: Number, b: Number) -> Number {
    let order = match (a, b) {
        (Int(a), Int(b)) => a.cmp(&b),
        (Bad(fault), _) | (_, Bad(fault)) => return Bad(fault),
        _ => match other_order(comparison, a, b) {
            Ok(order) => order,
            Err(result) => return result,
        },
    };
    Bool(match comparison {
        Comparison::Less => order == Ordering::Less,
        Comparison::LessEqual => order != Ordering::Greater,
        Comparison::Greater => order == Ordering::Greater,
        Comparison::GreaterEqual => order != Ordering::Less,
        Comparison::Equal => order == Ordering::Equal,
        Comparison::NotEqual => order != Ordering::Equal,
        Comparison::In | Comparison::NotIn => return Bad(Fault::Type),
    })
}

/// The order of two values that are not both whole; `Err` with the result where there is none. Strings are equal or not,
/// to each other and to numbers; they are not ordered here.
fn other_order(comparison: Comparison, a: Number, b: Number) -> Result<Ordering, Number> {
    match (a.plain(), b.plain()) {
        (Int(a), Int(b)) => Ok(a.cmp(&b)),
        (Real(a), Real(b)) => a.partial_cmp(&b).ok_or(Bad(Fault::Domain)),
        (Int(a), Real(b)) => Ok(int_to_real(a, b)),
        (Real(a), Int(b)) => Ok(int_to_real(b, a).reverse()),
        (a, b) => match (comparison, a, b) {
            (Comparison::Equal, Text(a), Text(b)) => Err(Bool(a == b)),
            (Comparison::NotEqual, Text(a), Text(b)) => Err(Bool(a != b)),
            (Comparison::Equal, ..) => Err(Bool(false)),
            (Comparison::NotEqual, ..) => Err(Bool(true)),
            _ => Err(Bad(Fault::Type)),
        },
    }
}

/// Exact, also where a double cannot hold the whole number. `b` is not NaN.
fn int_to_real(a: i64, b: f64) -> Ordering {
    match (a as f64).partial_cmp(&b) {
        // Equal after rounding: b is then whole and within i64's range or 2^63, which i128 holds.
        Some(Ordering::Equal) | None => i128::from(a).cmp(&(b as i128)),
        Some(order) => order,
    }
}
