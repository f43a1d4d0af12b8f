//! All configurations, in a random order: for spaces that are small enough. A budget that ends before all were tried has
//! then seen a fair sample of them.

use super::Strategy;
use super::draw::Draw;
use crate::Outcome;
use crate::space::{ConfigIndex, Space};

/// Proposes every configuration once.
#[derive(Debug)]
pub struct Exhaustive {
    order: Vec<ConfigIndex>,
    seen: Vec<bool>,
    next: usize,
}

impl Exhaustive {
    /// Over `space`, in the order of a seed.
    pub fn new(space: &Space, seed: u64) -> Self {
        Self { order: Draw::new(seed, 0).sample(space.len(), space.len()), seen: vec![false; space.len()], next: 0 }
    }
}

impl Strategy for Exhaustive {
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
