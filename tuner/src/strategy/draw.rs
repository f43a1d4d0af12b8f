//! Random numbers that depend only on a seed and a count, so that a strategy that was stopped and
//! continued makes the same choices.

/// Mixes 64 bits bijectively (splitmix64's step).
pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Stream of random numbers.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// Makes the stream of `seed` after `count` observations.
    pub fn new(seed: u64, count: usize) -> Self {
        Self(mix(mix(seed) ^ count as u64))
    }

    /// Draws 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = mix(self.0);
        self.0
    }

    /// Draws a number below `limit`, which is not 0. The bias is below limit / 2^64.
    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.bits()) * limit as u128) >> 64) as usize
    }

    /// Draws the first `count` of a random order of `0..of`.
    pub fn sample(&mut self, count: usize, of: usize) -> Vec<usize> {
        // Fisher-Yates shuffle that stores only the moved entries.
        let mut moved = std::collections::HashMap::new();
        let mut drawn = Vec::with_capacity(count.min(of));
        for at in 0..count.min(of) {
            let other = at + self.below(of - at);
            drawn.push(*moved.get(&other).unwrap_or(&other));
            let here = *moved.get(&at).unwrap_or(&at);
            moved.insert(other, here);
        }
        drawn
    }
}
