//! The random numbers behind synthetic events: measured spectra as small tables, and how to draw
//! from them.
//!
//! The tables are rounded fits to 20 simulated minimum-bias events (mean 1132 clusters). Drawing
//! takes only additions, multiplications, divisions and square roots, so that a seed gives the same
//! events on every machine.

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};

/// Random numbers of one event.
///
/// The seed is the key of the generator and the event is its stream, so event 1,000,000 costs no
/// more than event 0, and threads can make events in any order. The constant in the key keeps these
/// numbers apart from other uses of the same seed.
pub(super) struct Dice(ChaCha8Rng);

impl Dice {
    /// Returns the random numbers of event `event` of a seed. They do not depend on what was drawn
    /// for other events.
    pub fn new(seed: u64, event: u64) -> Self {
        let mut key = *b"........ut-decoding synth events";
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(event);
        Self(rng)
    }

    /// Draws a number from 0 to 1, 1 excluded.
    pub fn unit(&mut self) -> f64 {
        unit(self.0.next_u64())
    }

    /// Draws a number from 0 to `n`, `n` excluded.
    pub fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.0.next_u32()) * u64::from(n)) >> 32) as u32
    }

    /// Draws an index into a table of weights, with a probability in proportion to the weight.
    fn place(&mut self, weights: &[u16]) -> usize {
        let mut left = self.below(weights.iter().map(|&w| u32::from(w)).sum());
        for (i, &weight) in weights.iter().enumerate() {
            match left.checked_sub(weight.into()) {
                Some(rest) => left = rest,
                None => return i,
            }
        }
        weights.len() - 1
    }

    /// Draws the number of strips in a cluster, 1 to 76; the mean is 1.5.
    pub fn cluster_size(&mut self) -> u16 {
        /// Sizes 1 to 11, and everything from 12 on, in 1/10000.
        const SIZES: [u16; 12] = [7440, 1664, 490, 167, 73, 50, 27, 21, 15, 11, 10, 32];
        /// Sizes of the tail fall with the square, from the first to before the last.
        const TAIL: (f64, f64) = (12.0, 77.0);
        let size = self.place(&SIZES) + 1;
        if size < SIZES.len() {
            return size as u16;
        }
        let (first, last) = TAIL;
        // The inverse of the cumulative distribution of 1/size²: 12 for 0, and nearly 77 for nearly
        // 1.
        (first / (1.0 - self.unit() * (1.0 - first / last))) as u16
    }

    /// Draws the ADC count of a strip of a cluster with `size` strips.
    pub fn adc(&mut self, size: u16) -> u8 {
        /// Counts 6 to 31 in 1/1000. The first is the threshold, the last the saturation.
        const FIRST: u8 = 6;
        const ALONE: [u16; 26] = [
            74, 12, 7, 4, 75, 6, 9, 9, 15, 24, 39, 51, 66, 75, 76, 75, 65, 56, 40, 32, 28, 19, 17,
            14, 12, 100,
        ];
        const PAIR: [u16; 26] = [
            87, 77, 72, 68, 62, 57, 56, 52, 50, 48, 40, 34, 30, 27, 24, 22, 18, 16, 13, 12, 10, 9,
            7, 6, 5, 98,
        ];
        const MORE: [u16; 26] = [
            80, 72, 69, 63, 61, 54, 46, 41, 38, 36, 29, 24, 26, 25, 17, 16, 15, 13, 12, 9, 8, 6, 6,
            5, 5, 219,
        ];
        FIRST
            + self.place(match size {
                1 => &ALONE,
                2 => &PAIR,
                _ => &MORE,
            }) as u8
    }

    /// Draws the charge that the front end finds on the two strips next to a v4 cluster.
    pub fn neighbour_sum(&mut self) -> i8 {
        /// Sums −3 to 8 in 1/1000.
        const SUMS: [u16; 12] = [12, 32, 74, 126, 151, 154, 138, 117, 89, 48, 27, 32];
        self.place(&SUMS) as i8 - 3
    }
}

/// Returns how much busier than the mean event `event` of a seed is; 1 on average.
///
/// Events take their places in the distribution in steps of the golden ratio from where the seed
/// says: that spreads them so evenly that even a few dozen events in a row have nearly the mean of
/// the profile.
///
/// For protons the result is between 0.32 and 2.09, for ions between 0.08 and 3.6.
pub(super) fn activity(seed: u64, event: u64, ions: bool) -> f64 {
    /// Deciles of the number of clusters in units of its mean.
    const DECILES: [f64; 11] = [
        0.30, 0.42, 0.58, 0.68, 0.77, 0.86, 0.97, 1.10, 1.34, 1.62, 1.98,
    ];
    /// 2⁶⁴ divided by the golden ratio.
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
    let steps = (DECILES.len() - 1) as f64;
    let mean = DECILES
        .windows(2)
        .map(|d| f64::midpoint(d[0], d[1]))
        .sum::<f64>()
        / steps;
    let mean_square = DECILES
        .windows(2)
        .map(|d| (d[0] * d[0] + d[0] * d[1] + d[1] * d[1]) / 3.0)
        .sum::<f64>()
        / steps;
    let start = Dice::new(seed, u64::MAX).0.next_u64();
    let at = unit(start.wrapping_add(event.wrapping_mul(STEP))) * steps;
    let i = at as usize;
    let x = DECILES[i] + (at - i as f64) * (DECILES[i + 1] - DECILES[i]);
    // Ions: the square, which is wider and steeper.
    if ions { x * x / mean_square } else { x / mean }
}

/// Returns the upper 53 bits of `bits` as a number from 0 to 1, 1 excluded.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// Returns the density of clusters per area, in arbitrary units, from the square of the distance to
/// the beam in mm². It falls with the distance to the power 1.625, and less steeply within 5 cm.
pub(super) fn density(radius2: f64) -> f64 {
    let root = (radius2 + 2500.0).sqrt();
    // root^1.625
    1.0 / (root * root.sqrt() * root.sqrt().sqrt().sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_dozen_consecutive_events_have_the_mean_activity() {
        for seed in 0..20 {
            for first in (0..2000).step_by(100) {
                let mean = (first..first + 40)
                    .map(|event| activity(seed, event, false))
                    .sum::<f64>()
                    / 40.0;
                assert!(
                    (mean - 1.0).abs() < 0.06,
                    "seed {seed}, from event {first}: {mean}"
                );
            }
        }
    }
}
