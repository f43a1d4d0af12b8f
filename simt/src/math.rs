//! Functions of floats that are one instruction on the device, for f32 and f64.
//!
//! | | instruction | bits on the CPU |
//! |---|---|---|
//! | `+ − × ÷`, [`sqrt`], [`fma`] | `.rn` | the same: rounded to nearest, ties to even, subnormals kept |
//! | [`floor`], [`ceil`], [`trunc`], [`round`] | `cvt.rmi`, `.rpi`, `.rzi`, `.rni` | the same |
//! | [`abs`], [`min`], [`max`] | `abs`, `min`, `max` | the same |
//! | `as` from and to integers | `cvt` | the same: ties to even, and to integers towards 0, at most to the end of their range |
//! | [`rsqrt`] | `rsqrt.approx` | **others**: the device is off by up to 2⁻²²·⁹ of the value; `1.0 / sqrt(x)` has the same |
//!
//! A NaN is a NaN on both, with other bits. Sines, logarithms and powers are missing: devices
//! approximate them.

use crate::memory::Scalar;

/// `f32` or `f64`.
pub trait Float: Scalar {
    #[doc(hidden)]
    #[must_use]
    fn unary(self, function: Unary) -> Self;
    #[doc(hidden)]
    #[must_use]
    fn least(self, other: Self) -> Self;
    #[doc(hidden)]
    #[must_use]
    fn greatest(self, other: Self) -> Self;
    #[doc(hidden)]
    #[must_use]
    fn fused(self, factor: Self, summand: Self) -> Self;
}

#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Unary {
    Sqrt,
    Abs,
    Floor,
    Ceil,
    Trunc,
    Round,
}

#[cfg(target_arch = "nvptx64")]
macro_rules! float {
    ($t:ty, $class:ident, $ty:literal) => {
        impl Float for $t {
            #[inline(always)]
            fn unary(self, function: Unary) -> Self {
                macro_rules! one {
                    ($name:expr) => {{
                        let result: $t;
                        // SAFETY: computes, and touches no memory.
                        unsafe {
                            core::arch::asm!(concat!($name, $ty, " {}, {};"), out($class) result, in($class) self,
                                             options(pure, nomem, nostack));
                        }
                        result
                    }};
                }
                match function {
                    Unary::Sqrt => one!("sqrt.rn."),
                    Unary::Abs => one!("abs."),
                    Unary::Floor => one!(concat!("cvt.rmi.", $ty, ".")),
                    Unary::Ceil => one!(concat!("cvt.rpi.", $ty, ".")),
                    Unary::Trunc => one!(concat!("cvt.rzi.", $ty, ".")),
                    Unary::Round => one!(concat!("cvt.rni.", $ty, ".")),
                }
            }
            #[inline(always)]
            fn least(self, other: Self) -> Self {
                let result: $t;
                // SAFETY: computes, and touches no memory.
                unsafe {
                    core::arch::asm!(concat!("min.", $ty, " {}, {}, {};"), out($class) result, in($class) self,
                                     in($class) other, options(pure, nomem, nostack));
                }
                result
            }
            #[inline(always)]
            fn greatest(self, other: Self) -> Self {
                let result: $t;
                // SAFETY: computes, and touches no memory.
                unsafe {
                    core::arch::asm!(concat!("max.", $ty, " {}, {}, {};"), out($class) result, in($class) self,
                                     in($class) other, options(pure, nomem, nostack));
                }
                result
            }
            #[inline(always)]
            fn fused(self, factor: Self, summand: Self) -> Self {
                let result: $t;
                // SAFETY: computes, and touches no memory.
                unsafe {
                    core::arch::asm!(concat!("fma.rn.", $ty, " {}, {}, {}, {};"), out($class) result, in($class) self,
                                     in($class) factor, in($class) summand, options(pure, nomem, nostack));
                }
                result
            }
        }
    };
}

#[cfg(not(target_arch = "nvptx64"))]
macro_rules! float {
    ($t:ty, $class:ident, $ty:literal) => {
        impl Float for $t {
            fn unary(self, function: Unary) -> Self {
                match function {
                    Unary::Sqrt => self.sqrt(),
                    Unary::Abs => self.abs(),
                    Unary::Floor => self.floor(),
                    Unary::Ceil => self.ceil(),
                    Unary::Trunc => self.trunc(),
                    Unary::Round => self.round_ties_even(),
                }
            }
            fn least(self, other: Self) -> Self {
                if self.is_nan() || other < self || (other == self && other.is_sign_negative()) {
                    other
                } else {
                    self
                }
            }
            fn greatest(self, other: Self) -> Self {
                -(-self).least(-other)
            }
            fn fused(self, factor: Self, summand: Self) -> Self {
                self.mul_add(factor, summand)
            }
        }
    };
}
float!(f32, reg32, "f32");
float!(f64, reg64, "f64");

macro_rules! unary_functions {
    ($($(#[$doc:meta])* $name:ident $function:ident;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name<T: Float>(x: T) -> T {
            x.unary(Unary::$function)
        }
    )*};
}
unary_functions! {
    /// Square root, correctly rounded.
    sqrt Sqrt;
    /// Value without its sign.
    abs Abs;
    /// Largest whole number that is not above `x`.
    floor Floor;
    /// Smallest whole number that is not below `x`.
    ceil Ceil;
    /// Whole number towards 0.
    trunc Trunc;
    /// Nearest whole number; of two the even one.
    round Round;
}

/// Smaller value: −0 is below 0, and of a value and a NaN it is the value.
#[inline(always)]
pub fn min<T: Float>(a: T, b: T) -> T {
    a.least(b)
}

/// Larger value: 0 is above −0, and of a value and a NaN it is the value.
#[inline(always)]
pub fn max<T: Float>(a: T, b: T) -> T {
    a.greatest(b)
}

/// `a * b + c`, rounded once.
#[inline(always)]
pub fn fma<T: Float>(a: T, b: T, c: T) -> T {
    a.fused(b, c)
}

/// About `1 / sqrt(x)`, fast on the device, where the last bits differ from the CPU's.
#[inline(always)]
pub fn rsqrt(x: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let result: f32;
        // SAFETY: computes, and touches no memory.
        unsafe {
            core::arch::asm!("rsqrt.approx.f32 {}, {};", out(reg32) result, in(reg32) x, options(pure, nomem, nostack));
        }
        result
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        1.0 / x.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::{fma, max, min, round, rsqrt};

    #[test]
    fn negative_zero_sorts_before_zero_and_a_number_beats_nan() {
        for (a, b) in [(0.0f32, -0.0), (-0.0, 0.0)] {
            assert!(min(a, b).is_sign_negative() && max(a, b).is_sign_positive());
        }
        assert_eq!(
            (
                min(f32::NAN, 1.0),
                min(1.0, f32::NAN),
                max(f32::NAN, -1.0),
                max(2.0, 3.0)
            ),
            (1.0, 1.0, -1.0, 3.0)
        );
        assert_eq!((round(2.5), round(-1.5), rsqrt(4.0)), (2.0, -2.0, 0.5));
        let one_and_a_bit = 1.0 + 3.0 * f32::EPSILON;
        assert_ne!(
            fma(one_and_a_bit, one_and_a_bit, -1.0),
            one_and_a_bit * one_and_a_bit - 1.0
        );
    }
}
