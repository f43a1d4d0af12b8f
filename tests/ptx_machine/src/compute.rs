//! What instructions without side effects give.

use super::parse::{Cmp, Float, Op, Type};

/// What an instruction without side effects gives; registers hold their values zero-extended.
pub fn compute(op: Op, ty: Type, [a, b, c, _]: [u64; 4]) -> u64 {
    let bits = ty.bits;
    let low = |value: u64| if bits == 64 { value } else { value & ((1 << bits) - 1) };
    let signed = |value: u64| (value << (64 - bits)) as i64 >> (64 - bits);
    let (a, b) = (low(a), low(b));
    let float = |value: u64| f32::from_bits(value as u32);
    match op {
        Op::Move => a,
        Op::Add => low(a.wrapping_add(b)),
        Op::Sub => low(a.wrapping_sub(b)),
        Op::Mul => low(a.wrapping_mul(b)),
        Op::MulWide if ty.signed => (signed(a) * signed(b)) as u64 & (u64::MAX >> (64 - 2 * bits)),
        Op::MulWide => a * b,
        Op::MulHigh => ((u128::from(a) * u128::from(b)) >> bits) as u64,
        Op::Mad => low(a.wrapping_mul(b).wrapping_add(c)),
        Op::Div => a / b,
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
        Op::LeadingZeros => u64::from(a.leading_zeros()) - (64 - u64::from(bits)),
        Op::Shl => u32::try_from(b).ok().and_then(|b| a.checked_shl(b)).map_or(0, low),
        Op::Shr if ty.signed => low((signed(a) >> b.min(63)) as u64),
        Op::Shr => u32::try_from(b).ok().and_then(|b| a.checked_shr(b)).unwrap_or(0),
        Op::BitField => (a >> (b & 0xFF)) & ((1 << (c & 0xFF)) - 1),
        Op::CountOnes => u64::from(a.count_ones()),
        Op::Select => {
            if c != 0 {
                a
            } else {
                b
            }
        }
        Op::Convert(from) if from.signed => {
            low(((a_of(from, a) << (64 - from.bits)) as i64 >> (64 - from.bits)) as u64)
        }
        Op::Convert(from) => a_of(from, a),
        Op::IntToFloat(from) => u64::from((a_of(from, a) as f32).to_bits()),
        Op::Float(op) => {
            let (a, b) = (float(a), float(b));
            u64::from(
                match op {
                    Float::Add => a + b,
                    Float::Sub => a - b,
                    Float::Mul => a * b,
                    Float::Div => a / b,
                }
                .to_bits(),
            )
        }
        Op::Compare(cmp) if ty.signed => cmp_of(cmp, &signed(a), &signed(b)),
        Op::Compare(cmp) => cmp_of(cmp, &a, &b),
    }
}

/// The value as the source type of a conversion has it.
fn a_of(from: Type, a: u64) -> u64 {
    if from.bits == 64 { a } else { a & ((1 << from.bits) - 1) }
}

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
