//! All configurations, in a random order: for spaces that are small enough to be tried whole, and what other strategies
//! are measured against. A budget that ends before all were tried has then seen a fair sample of them.

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
    /// Searches `space`, in the order of `seed`.
    pub fn new(space: &Space, seed: u64) -> Self {
        Self { order: Draw::new(seed, 0).sample(space.len(), space.len()), seen: vec![false; space.len()], next: 0 }
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
