//! Atomics on all numbers of four and eight bytes, as operations on their bits. Each is one
//! instruction, and gives the same bits on the device and on the CPU, but for sums of floats: these
//! depend on the order of the additions, and a device takes subnormal sums in global memory for 0.

use crate::memory::Scalar;

/// Change of an element by one atomic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Update<T> {
    /// Adds; integers wrap.
    Add(T),
    /// Keeps the smaller value. Of floats −0 is the smaller zero, and a NaN counts as beyond the
    /// infinity of its sign.
    Min(T),
    /// Keeps the larger value.
    Max(T),
    /// Keeps the bits that both have.
    And(T),
    /// Sets bits.
    Or(T),
    /// Flips bits.
    Xor(T),
    /// Replaces the value.
    Exchange(T),
    /// Replaces the value if it equals `expected` bit for bit.
    CompareExchange {
        /// Value that must be there.
        expected: T,
        /// Value that replaces it.
        new: T,
    },
}

/// Update of 4 or 8 bytes as an instruction, for implementations of [`Block`](crate::Block).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitUpdate<T> {
    /// The instruction.
    pub op: BitOp,
    /// Operand.
    pub value: T,
    /// Value that must be there, for [`BitOp::CompareExchange`].
    pub expected: T,
}

/// Atomic instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum BitOp {
    Add,
    AddFloat,
    MinUnsigned,
    MinSigned,
    MaxUnsigned,
    MaxSigned,
    And,
    Or,
    Xor,
    Exchange,
    CompareExchange,
}

/// Number of 4 or 8 bytes, on which atomics work.
pub trait AtomicScalar: Scalar {
    /// Instruction of an update.
    fn lower(update: Update<Self>) -> BitUpdate<Self>;

    /// Sum of two values, as atomics add them.
    #[must_use]
    fn sum(self, other: Self) -> Self;
}

macro_rules! lower {
    ($update:ident, $add:ident, $min:expr, $max:expr) => {{
        let (op, value, expected) = match $update {
            Update::Add(value) => (BitOp::$add, value, value),
            Update::Min(value) => ($min(value), value, value),
            Update::Max(value) => ($max(value), value, value),
            Update::And(value) => (BitOp::And, value, value),
            Update::Or(value) => (BitOp::Or, value, value),
            Update::Xor(value) => (BitOp::Xor, value, value),
            Update::Exchange(value) => (BitOp::Exchange, value, value),
            Update::CompareExchange { expected, new } => (BitOp::CompareExchange, new, expected),
        };
        BitUpdate {
            op,
            value,
            expected,
        }
    }};
}

macro_rules! atomic_integers {
    ($($t:ty, $min:ident, $max:ident;)*) => {$(
        impl AtomicScalar for $t {
            #[inline(always)]
            fn lower(update: Update<Self>) -> BitUpdate<Self> {
                lower!(update, Add, |_| BitOp::$min, |_| BitOp::$max)
            }
            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        }
    )*};
}
atomic_integers! {
    u32, MinUnsigned, MaxUnsigned; u64, MinUnsigned, MaxUnsigned; i32, MinSigned, MaxSigned; i64, MinSigned, MaxSigned;
}

macro_rules! atomic_floats {
    ($($t:ty)*) => {$(
        impl AtomicScalar for $t {
            #[inline(always)]
            fn lower(update: Update<Self>) -> BitUpdate<Self> {
                // (As integers, the bits of positive floats rise with the floats, those of negative
                // ones fall.)
                let min = |value: $t| if value.is_sign_negative() { BitOp::MaxUnsigned } else { BitOp::MinSigned };
                let max = |value: $t| if value.is_sign_negative() { BitOp::MinUnsigned } else { BitOp::MaxSigned };
                lower!(update, AddFloat, min, max)
            }
            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                self + other
            }
        }
    )*};
}
atomic_floats!(f32 f64);

impl<T: AtomicScalar> BitUpdate<T> {
    /// Returns the element's value after the update.
    #[must_use]
    pub fn apply(self, before: T) -> T {
        let (a, b) = (before.to_bits(), self.value.to_bits());
        let shift = 64 - 8 * size_of::<T>();
        let signed = |bits: u64| (bits << shift) as i64;
        let is_new = match self.op {
            BitOp::Add | BitOp::AddFloat => return before.sum(self.value),
            BitOp::And => return T::from_bits(a & b),
            BitOp::Or => return T::from_bits(a | b),
            BitOp::Xor => return T::from_bits(a ^ b),
            BitOp::MinUnsigned => b < a,
            BitOp::MaxUnsigned => b > a,
            BitOp::MinSigned => signed(b) < signed(a),
            BitOp::MaxSigned => signed(b) > signed(a),
            BitOp::Exchange => true,
            BitOp::CompareExchange => a == self.expected.to_bits(),
        };
        if is_new { self.value } else { before }
    }
}

#[cfg(test)]
mod tests {
    use super::{AtomicScalar, Update};

    #[test]
    fn the_least_and_the_greatest_float_are_found_by_their_bits() {
        let values = [
            f32::NEG_INFINITY,
            -7.5,
            -1.0e-40,
            -0.0,
            0.0,
            1.0e-40,
            2.0,
            f32::INFINITY,
        ];
        for (i, a) in values.into_iter().enumerate() {
            for (j, b) in values.into_iter().enumerate() {
                let (low, high) = (values[i.min(j)], values[i.max(j)]);
                assert_eq!(
                    f32::lower(Update::Min(b)).apply(a).to_bits(),
                    low.to_bits(),
                    "{a} {b}"
                );
                assert_eq!(
                    f32::lower(Update::Max(b)).apply(a).to_bits(),
                    high.to_bits(),
                    "{a} {b}"
                );
                let (a, b, low) = (f64::from(a), f64::from(b), f64::from(low));
                assert_eq!(f64::lower(Update::Min(b)).apply(a).to_bits(), low.to_bits());
            }
        }
    }
}
