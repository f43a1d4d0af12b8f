//! Prefix sums over 8, 16 or 32 lanes of a warp. Sums saturate at 2³² − 1, which keeps them
//! associative: a total that does not fit shows as that number and can be refused; it never wraps
//! to a number that looks right.
//!
//! ```text
//! warp lane            0  1  2  3  4  5  6  7 │ 8  9 …
//! value                3  1  0  2  1  1  0  4 │ 5  1 …
//! inclusive, WIDTH 8   3  4  4  6  7  8  8 12 │ 5  6 …
//! exclusive, WIDTH 8   0  3  4  4  6  7  8  8 │ 0  5 …
//! ```
//!
//! Cost: widths 8, 16 and 32 take 3, 4 and 5 shuffles; the exclusive sum takes one more.

use crate::{Block, FULL_MASK, WARP_SIZE};

/// Inclusive sum over the thread's aligned segment of `WIDTH` warp lanes (8, 16 or 32). The whole
/// warp calls.
#[inline(always)]
pub fn warp_inclusive<const WIDTH: u32, B: Block>(block: &B, value: u32) -> u32 {
    const { assert!(WIDTH.is_power_of_two() && WIDTH <= WARP_SIZE) };
    let place = block.lane_id() % WIDTH;
    let mut sum = value;
    let mut delta = 1;
    while delta < WIDTH {
        let below = block.shuffle_up_sync(FULL_MASK, sum, delta);
        if place >= delta {
            sum = sum.saturating_add(below);
        }
        delta *= 2;
    }
    sum
}

/// Exclusive sum over the thread's aligned segment of `WIDTH` warp lanes. The whole warp calls.
#[inline(always)]
pub fn warp_exclusive<const WIDTH: u32, B: Block>(block: &B, value: u32) -> u32 {
    let inclusive = warp_inclusive::<WIDTH, B>(block, value);
    let below = block.shuffle_up_sync(FULL_MASK, inclusive, 1);
    if block.lane_id().is_multiple_of(WIDTH) {
        0
    } else {
        below
    }
}
