//! All configurations in a random order: for spaces that can be tried whole, and as the baseline of
//! other strategies. A search that ends early has tried a fair sample.

use super::Strategy;
use super::draw::Draw;
use crate::Outcome;
use crate::space::{ConfigIndex, Space};

/// Proposes every configuration once, in a random order.
#[derive(Debug)]
pub struct Shuffled {
    order: Vec<ConfigIndex>,
    seen: Vec<bool>,
    next: usize,
}

impl Shuffled {
    /// Draws an order of `space` by `seed`.
    pub fn new(space: &Space, seed: u64) -> Self {
        Self {
            order: Draw::new(seed, 0).sample(space.len(), space.len()),
            seen: vec![false; space.len()],
            next: 0,
        }
    }
}

impl Strategy for Shuffled {
    fn propose(&mut self) -> Option<ConfigIndex> {
        while self.seen[*self.order.get(self.next)?] {
            self.next += 1;
        }
        self.order.get(self.next).copied()
    }

    fn observe(&mut self, index: ConfigIndex, _outcome: &Outcome) {
        if let Some(seen) = self.seen.get_mut(index) {
            *seen = true;
        }
    }
}
