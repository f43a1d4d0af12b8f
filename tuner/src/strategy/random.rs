//! All configurations, in a random order: what the others are measured against.

use super::Strategy;
use super::draw::Draw;
use crate::Outcome;
use crate::space::{ConfigIndex, Space};

/// Proposes every configuration once, in a random order.
#[derive(Debug)]
pub struct Random {
    order: Vec<ConfigIndex>,
    seen: Vec<bool>,
    next: usize,
}

impl Random {
    /// Over `space`, in the order of `seed`.
    pub fn new(space: &Space, seed: u64) -> Self {
        let order = Draw::new(seed, 0).sample(space.len(), space.len());
        Self { order, seen: vec![false; space.len()], next: 0 }
    }
}

impl Strategy for Random {
    fn propose(&mut self) -> Option<ConfigIndex> {
        while self.seen[*self.order.get(self.next)?] {
            self.next += 1;
        }
        Some(self.order[self.next])
    }

    fn observe(&mut self, index: ConfigIndex, _outcome: &Outcome) {
        if let Some(seen) = self.seen.get_mut(index) {
            *seen = true;
        }
    }
}
