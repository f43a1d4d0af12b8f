//! Choices of a schedule, drawn from a seed.
//!
//! Two properties make a failing schedule shrinkable. Each choice has a number and is a function of
//! the seed and that number alone, so that leaving one out does not change the others; and the
//! value 0 always means the plain choice, so that a choice that is left out is 0.
//!
//! For example, a schedule with seed 7 makes 5000 choices and fails. Run again with only the first
//! 2500 drawn, it still fails; with the first 1250 it does not, and so on, until choice 1873 turns
//! out to be the last that matters. Then runs of choices are left out, until perhaps two remain:
//! "block 1 begins first" and "warp 3 of block 0 waits until no other can go on". These two
//! sentences describe the bug.

/// One draw in this many gives a block's turn to another, or holds a warp or a block back.
const RARELY: u64 = 4;

/// Series of choices. The value 0 is the plain choice: blocks, warps and lanes in the order of
/// their numbers, and the latest value of an element.
#[derive(Clone, Debug, Default)]
pub struct Order {
    seed: u64,
    /// Number of choices so far.
    made: u64,
    drawn: DrawnChoices,
    /// Number and meaning of each choice other than 0. Empty with `DrawnChoices::All`: only the search for
    /// fewer choices reads them.
    noted: Vec<(u64, String)>,
}

/// Selection of the choices that are drawn; the others are 0.
#[derive(Clone, Debug, Default)]
pub enum DrawnChoices {
    #[default]
    All,
    /// Choices with a number below this.
    First(u64),
    /// Choices with these numbers, in ascending order.
    These(Vec<u64>),
}

impl Order {
    pub const fn new(seed: u64, drawn: DrawnChoices) -> Self {
        Self {
            seed,
            made: 0,
            drawn,
            noted: Vec::new(),
        }
    }

    /// Draws 64 bits by SplitMix64, which gives each number without the numbers before it.
    pub fn next(&mut self) -> u64 {
        let number = self.made;
        self.made += 1;
        let is_drawn = match &self.drawn {
            DrawnChoices::All => true,
            DrawnChoices::First(n) => number < *n,
            DrawnChoices::These(numbers) => numbers.binary_search(&number).is_ok(),
        };
        if !is_drawn {
            return 0;
        }
        let mut z = self
            .seed
            .wrapping_add(self.made.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Draws a number below `n`, where `n > 0`. `meaning` describes the effect of a number other
    /// than 0.
    pub fn below(&mut self, n: u32, meaning: impl FnOnce(u32) -> String) -> u32 {
        let choice = (((self.next() >> 32) * u64::from(n)) >> 32) as u32;
        if choice != 0 {
            self.note(|| meaning(choice));
        }
        choice
    }

    /// Draws a number below `n`, where `n > 0`, one time in [`RARELY`]; `meaning` describes its
    /// effect. Otherwise, and as the plain choice, returns `None`.
    pub fn rarely(&mut self, n: u32, meaning: impl FnOnce(u32) -> String) -> Option<u32> {
        let drawn = self.next();
        let choice =
            (drawn % RARELY == 1).then_some((((drawn >> 32) * u64::from(n)) >> 32) as u32)?;
        self.note(|| meaning(choice));
        Some(choice)
    }

    /// Records the effect of the latest choice.
    pub fn note(&mut self, meaning: impl FnOnce() -> String) {
        if !matches!(self.drawn, DrawnChoices::All) {
            self.noted.push((self.made - 1, meaning()));
        }
    }

    /// Returns the number of choices so far.
    pub const fn made(&self) -> u64 {
        self.made
    }

    /// Returns number and effect of the choices that differ from the plain order.
    pub fn noted(&self) -> &[(u64, String)] {
        &self.noted
    }
}
