//! All configurations, in the order of the space: for spaces that are small enough.

use super::Strategy;
use crate::Outcome;
use crate::space::{ConfigIndex, Space};

/// Proposes every configuration once, in the order of the space.
#[derive(Debug)]
pub struct Exhaustive {
    seen: Vec<bool>,
    next: usize,
}

impl Exhaustive {
    /// Over `space`.
    pub fn new(space: &Space) -> Self {
        Self { seen: vec![false; space.len()], next: 0 }
    }
}

impl Strategy for Exhaustive {
    fn propose(&mut self) -> Option<ConfigIndex> {
        while *self.seen.get(self.next)? {
            self.next += 1;
        }
        Some(self.next)
    }

    fn observe(&mut self, index: ConfigIndex, _outcome: &Outcome) {
        if let Some(seen) = self.seen.get_mut(index) {
            *seen = true;
        }
    }
}
