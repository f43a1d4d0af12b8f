//! Choices of a schedule, drawn from a seed.

/// One draw in this many gives a block's turn to another, or holds a warp or a block back.
const RARELY: u64 = 4;

/// Series of choices. Choice 0 is the plain one: blocks, warps and lanes by number, the latest value of an element.
#[derive(Clone, Debug, Default)]
pub struct Order {
    seed: u64,
    made: u64,
    drawn: Drawn,
    /// Number and meaning of choices other than 0, if not all are drawn.
    noted: Vec<(u64, String)>,
}

/// Choices that are drawn, by number; the others are 0.
#[derive(Clone, Debug, Default)]
pub enum Drawn {
    #[default]
    All,
    First(u64),
    /// Choices of an ascending list.
    These(Vec<u64>),
}

impl Order {
    pub const fn new(seed: u64, drawn: Drawn) -> Self {
        Self { seed, made: 0, drawn, noted: Vec::new() }
    }

    /// SplitMix64: small, fast, and each number is had without the ones before it.
    pub fn next(&mut self) -> u64 {
        let number = self.made;
        self.made += 1;
        let is_drawn = match &self.drawn {
            Drawn::All => true,
            Drawn::First(n) => number < *n,
            Drawn::These(numbers) => numbers.binary_search(&number).is_ok(),
        };
        if !is_drawn {
            return 0;
        }
        let mut z = self.seed.wrapping_add(self.made.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Draws a number below `n`, which is not 0. `meaning` tells the effect of numbers other than 0.
    pub fn below(&mut self, n: u32, meaning: impl FnOnce(u32) -> String) -> u32 {
        let choice = (((self.next() >> 32) * u64::from(n)) >> 32) as u32;
        if choice != 0 {
            self.note(|| meaning(choice));
        }
        choice
    }

    /// Draws a number below `n`, which is not 0, one time in [`RARELY`]. `meaning` tells its effect.
    pub fn rarely(&mut self, n: u32, meaning: impl FnOnce(u32) -> String) -> Option<u32> {
        let drawn = self.next();
        let choice = (drawn % RARELY == 1).then_some((((drawn >> 32) * u64::from(n)) >> 32) as u32)?;
        self.note(|| meaning(choice));
        Some(choice)
    }

    /// Notes the latest choice's effect.
    pub fn note(&mut self, meaning: impl FnOnce() -> String) {
        if !matches!(self.drawn, Drawn::All) {
            self.noted.push((self.made - 1, meaning()));
        }
    }

    pub const fn made(&self) -> u64 {
        self.made
    }

    pub fn noted(&self) -> &[(u64, String)] {
        &self.noted
    }
}
