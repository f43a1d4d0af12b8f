//! Results of instructions without side effects.
//!
//! A result must have the bits that a GPU gives, since the hits are compared bit by bit. Three
//! things are easy to get wrong: registers are wider than most types, so each operand is cut to its
//! type first and each result last; shifts by more than the width give 0 or the sign in PTX, where
//! Rust panics or wraps; and conversions round as their name says, and clamp.

use std::cmp::Ordering;

use super::parse::{Cmp, Float, Op, Round, Type};

/// Returns the result of an instruction without side effects; registers hold their values
/// zero-extended.
pub fn compute(op: Op, ty: Type, [a, b, c, d]: [u64; 4]) -> u64 {
    let bits = ty.bits;
    let low = |value| lowest(bits, value);
    let signed = |value| signed_of(bits, value);
    // The source of a conversion may be wider than the type of the result.
    let whole = a;
    let (a, b) = (low(a), low(b));
    let wide = |a: u64, b: u64| {
        if ty.signed {
            (signed(a) * signed(b)) as u64
        } else {
            a * b
        }
    };
    let twice = u64::MAX >> (64 - 2 * bits.min(32));
    match op {
        Op::Move => a,
        Op::Add => low(a.wrapping_add(b)),
        Op::Sub => low(a.wrapping_sub(b)),
        Op::Mul => low(a.wrapping_mul(b)),
        Op::MulWide => wide(a, b) & twice,
        Op::MadWide => wide(a, b).wrapping_add(c) & twice,
        Op::MulHigh if ty.signed => {
            low(((i128::from(signed(a)) * i128::from(signed(b))) >> bits) as u64)
        }
        Op::MulHigh => ((u128::from(a) * u128::from(b)) >> bits) as u64,
        Op::Mad => low(a.wrapping_mul(b).wrapping_add(c)),
        Op::Div if ty.signed => low(signed(a).wrapping_div(signed(b)) as u64),
        Op::Div => a / b,
        Op::Rem if ty.signed => low(signed(a).wrapping_rem(signed(b)) as u64),
        Op::Rem => a % b,
        Op::Min if ty.signed => low(signed(a).min(signed(b)) as u64),
        Op::Min => a.min(b),
        Op::Max if ty.signed => low(signed(a).max(signed(b)) as u64),
        Op::Max => a.max(b),
        Op::And => a & b,
        Op::Or => a | b,
        Op::Xor => a ^ b,
        Op::Not => low(!a),
        Op::Negate => low(a.wrapping_neg()),
        Op::Abs => low(signed(a).unsigned_abs()),
        Op::LeadingZeros => u64::from(a.leading_zeros()) - (64 - u64::from(bits)),
        Op::Reverse => a.reverse_bits() >> (64 - bits),
        Op::Shl => u32::try_from(b)
            .ok()
            .and_then(|b| a.checked_shl(b))
            .map_or(0, low),
        Op::Shr if ty.signed => low((signed(a) >> b.min(63)) as u64),
        Op::Shr => u32::try_from(b)
            .ok()
            .and_then(|b| a.checked_shr(b))
            .unwrap_or(0),
        Op::FunnelShift(..) | Op::BitField | Op::InsertBits | Op::Permute => {
            move_bits(op, ty, [a, b, c, d])
        }
        Op::CountOnes => u64::from(a.count_ones()),
        Op::Select => {
            if c != 0 {
                a
            } else {
                b
            }
        }
        Op::Pack => low(b << (bits / 2) | a & ((1 << (bits / 2)) - 1)),
        Op::Exchange => b,
        Op::CompareExchange => {
            if a == b {
                low(c)
            } else {
                a
            }
        }
        Op::Convert(_) | Op::IntToFloat(_) | Op::FloatToInt(..) | Op::FloatToFloat(_) => {
            convert(op, ty, whole)
        }
        Op::Float(op) if bits == 32 => {
            u64::from(single(op, [a, b, low(c)].map(|bits| f32::from_bits(bits as u32))).to_bits())
        }
        Op::Float(op) => long(op, [a, b, c].map(f64::from_bits)).to_bits(),
        Op::CompareFloat(cmp, unordered) => {
            let (a, b) = (double(bits, a), double(bits, b));
            a.partial_cmp(&b).map_or(u64::from(unordered), |order| {
                cmp_of(cmp, &order, &Ordering::Equal)
            })
        }
        Op::AreNumbers(wanted) => {
            let are = !double(bits, a).is_nan() && !double(bits, b).is_nan();
            u64::from(are == wanted)
        }
        Op::Compare(cmp) if ty.signed => cmp_of(cmp, &signed(a), &signed(b)),
        Op::Compare(cmp) => cmp_of(cmp, &a, &b),
    }
}

/// Returns the low `bits` bits of a value.
fn lowest(bits: u32, value: u64) -> u64 {
    if bits == 64 {
        value
    } else {
        value & ((1 << bits) - 1)
    }
}

/// Returns the low `bits` bits of a value as a signed number.
fn signed_of(bits: u32, value: u64) -> i64 {
    (value << (64 - bits)) as i64 >> (64 - bits)
}

/// Returns the result of an instruction that moves bits or bytes to other places.
///
/// For example:
///
/// * `shf.l` of `a` = 0x80000000 and `b` = 1 by 1: the two words as one are 0x1_80000000, shifted
///   0x3_00000000, and the upper word is 3.
/// * `bfe` of 0xABC from bit 4 with 8 bits is 0xAB, or as a signed number 0xAB - 0x100 = -85.
/// * `bfi` of 0xF into 0 at bit 4 with 4 bits is 0xF0.
/// * `prmt` with the selector 0x4321 takes bytes 1, 2 and 3 of `a` and byte 0 of `b`, from the
///   lowest on: it moves `a` down by a byte and fills up from `b`.
fn move_bits(op: Op, ty: Type, [a, b, c, d]: [u64; 4]) -> u64 {
    let bits = ty.bits;
    let low = |value| lowest(bits, value);
    match op {
        Op::FunnelShift(left, wraps) => {
            let distance = if wraps { c & 31 } else { c.min(32) };
            let both = b << 32 | a;
            if left {
                low((both << distance) >> 32)
            } else {
                low(both >> distance)
            }
        }
        Op::BitField => {
            let (start, length) = ((b & 0xFF).min(63), c & 0xFF);
            let (shift, length) = (64 - length.min(64 - start), length.min(64));
            match (length, ty.signed) {
                (0, _) => 0,
                (_, true) => low((((signed_of(bits, a) >> start) << shift) >> shift) as u64),
                (_, false) => (a >> start) << shift >> shift,
            }
        }
        Op::InsertBits => {
            let mask = low(((1u128 << (d & 0xFF).min(64)) - 1) as u64)
                .checked_shl((c & 0xFF) as u32)
                .map_or(0, low);
            b & !mask | a.checked_shl((c & 0xFF) as u32).unwrap_or(0) & mask
        }
        Op::Permute => {
            let bytes = (b << 32 | a).to_le_bytes();
            let byte = |i: u32| {
                let selector = (c >> (4 * i)) as usize;
                let byte = bytes[selector & 7];
                u64::from(if selector & 8 == 0 {
                    byte
                } else {
                    ((byte as i8) >> 7) as u8
                }) << (8 * i)
            };
            (0..4).map(byte).sum()
        }
        _ => unreachable!("the caller sorts the operations"),
    }
}

/// Returns the result of a conversion to `ty`. The source may be wider than the result, so `whole`
/// is its register.
fn convert(op: Op, ty: Type, whole: u64) -> u64 {
    let bits = ty.bits;
    let low = |value| lowest(bits, value);
    match op {
        Op::Convert(from) if from.signed => low(signed_of(from.bits, whole) as u64),
        Op::Convert(from) => low(lowest(from.bits, whole)),
        Op::IntToFloat(from) => {
            let (unsigned, signed) = (lowest(from.bits, whole), signed_of(from.bits, whole));
            match (bits, from.signed) {
                (32, false) => u64::from((unsigned as f32).to_bits()),
                (32, true) => u64::from((signed as f32).to_bits()),
                (_, false) => (unsigned as f64).to_bits(),
                (_, true) => (signed as f64).to_bits(),
            }
        }
        Op::FloatToInt(from, round) => {
            let value = rounded(round, double(from, whole));
            // PTX clamps to the range of the integer type, and turns NaN into 0.
            match (ty.signed, bits) {
                (true, 64) => value as i64 as u64,
                (true, _) => {
                    low((value as i64).clamp(-1 << (bits - 1), (1 << (bits - 1)) - 1) as u64)
                }
                (false, _) => (value as u64).min(u64::MAX >> (64 - bits)),
            }
        }
        Op::FloatToFloat(from) if bits == 32 => u64::from((double(from, whole) as f32).to_bits()),
        Op::FloatToFloat(from) => double(from, whole).to_bits(),
        _ => unreachable!("the caller sorts the operations"),
    }
}

/// Returns the value of a float with this number of bits, 32 or 64.
fn double(bits: u32, value: u64) -> f64 {
    if bits == 32 {
        f32::from_bits(value as u32).into()
    } else {
        f64::from_bits(value)
    }
}

fn rounded(round: Round, value: f64) -> f64 {
    match round {
        Round::Nearest => value.round_ties_even(),
        Round::Zero => value.trunc(),
        Round::Down => value.floor(),
        Round::Up => value.ceil(),
    }
}

macro_rules! float_operations {
    ($($name:ident $t:ty;)*) => {$(
        fn $name(op: Float, [a, b, c]: [$t; 3]) -> $t {
            match op {
                Float::Add => a + b,
                Float::Sub => a - b,
                Float::Mul => a * b,
                Float::Div => a / b,
                Float::Fma => a.mul_add(b, c),
                Float::Min => simt::math::min(a, b),
                Float::Max => simt::math::max(a, b),
                Float::Negate => -a,
                Float::Abs => a.abs(),
                Float::Sqrt => a.sqrt(),
                // Hardware only approximates it; a kernel must not depend on the last bits.
                Float::ReciprocalSqrt => 1.0 / a.sqrt(),
                Float::Reciprocal => 1.0 / a,
                Float::Round(round) => rounded(round, a.into()) as $t,
            }
        }
    )*};
}
float_operations! { single f32; long f64; }

/// Returns 1 if the comparison of two values holds, and 0 otherwise.
fn cmp_of<T: Ord>(cmp: Cmp, a: &T, b: &T) -> u64 {
    u64::from(match cmp {
        Cmp::Eq => a == b,
        Cmp::Ne => a != b,
        Cmp::Lt => a < b,
        Cmp::Le => a <= b,
        Cmp::Gt => a > b,
        Cmp::Ge => a >= b,
    })
}
