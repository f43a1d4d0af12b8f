//! Sort of a group in which the lanes' static order is not the order of x: by key, and by strip if two keys are equal.

use simt::{Block, FULL_MASK, WARP_SIZE};

/// Returns true if a hit with key `a` comes before one with key `b`; `tie` decides when they are equal.
#[inline(always)]
pub(super) fn is_before<T: Copy + Ord>(a: T, b: T, tie: impl FnOnce() -> bool) -> bool {
    if a == b { tie() } else { a < b }
}

/// Sorts `n` elements in place, by bitonic merges that all point upwards, so that any number works. `exchange` puts
/// elements `i` < `j` in order. About n·log²n/64 steps, whatever the elements are. The whole warp calls.
///
/// ```text
/// runs of 2:   0–1 2–3 4–5 6–7
/// runs of 4:   0–3 1–2 4–7 5–6   0–1 2–3 4–5 6–7
/// runs of 8:   0–7 1–6 2–5 3–4   0–2 1–3 4–6 5–7   0–1 2–3 4–5 6–7
/// ```
#[inline(always)]
pub(super) fn warp_sort_in_place<B: Block>(block: &B, n: u32, exchange: impl Fn(u32, u32)) {
    // Pairs of a pass: half of the next power of two. Places beyond the end count as larger than everything.
    let pairs = if n < 2 { 0 } else { 1 << (n - 1).ilog2() };
    let mut half = 1;
    while half <= pairs {
        // First mirrored in the middle of each run, then at falling distances.
        let mut distance = half;
        while distance > 0 {
            let mut pair = block.lane_id();
            while pair < pairs {
                let (run, place) = (pair / distance * (2 * distance), pair % distance);
                let other = if distance == half { run + 2 * distance - 1 - place } else { run + distance + place };
                if other < n {
                    exchange(run + place, other);
                }
                pair += WARP_SIZE;
            }
            // Every pair is in order before the next are looked at.
            block.sync_warp(FULL_MASK);
            distance /= 2;
        }
        half *= 2;
    }
}
