//! Random numbers that depend on a seed and a count only, so that a strategy which is told the same observations makes
//! the same choices, whether or not it was stopped in between.

/// A bijection of 64 bits that leaves no trace of its argument's structure (splitmix64's step).
pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// The stream of `seed` after `count` observations.
    pub fn new(seed: u64, count: usize) -> Self {
        Self(mix(mix(seed) ^ count as u64))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = mix(self.0);
        self.0
    }

    /// A number below `limit`, which is not 0. The bias is below limit / 2^64.
    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.bits()) * limit as u128) >> 64) as usize
    }

    /// The first `count` of a random order of `0..of`.
    pub fn sample(&mut self, count: usize, of: usize) -> Vec<usize> {
        // Fisher and Yates on a list of which only the entries that differ from their place are kept.
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
