//! Local search: from where it stands, the neighbours (one parameter changed) in a random order; the first that is faster
//! is where it stands next; where none is, it starts again at random. No model, no arithmetic: for very large spaces and
//! as a check of the Bayesian search.

use super::draw::Draw;
use super::{Strategy, search_time};
use crate::Outcome;
use crate::space::{ConfigIndex, Space};

/// Goes to faster neighbours, from random starts.
#[derive(Debug)]
pub struct LocalSearch<'a> {
    space: &'a Space,
    seed: u64,
    seen: Vec<bool>,
    observed: usize,
    /// Random starts, the ones used up left out by `next`.
    starts: Vec<ConfigIndex>,
    next: usize,
    here: Option<(ConfigIndex, f64)>,
    /// Neighbours of `here`, the next one last.
    open: Vec<ConfigIndex>,
}

impl<'a> LocalSearch<'a> {
    /// Over `space`, with the starts of `seed`.
    pub fn new(space: &'a Space, seed: u64) -> Self {
        let starts = Draw::new(seed, 0).sample(space.len(), space.len());
        Self { space, seed, seen: vec![false; space.len()], observed: 0, starts, next: 0, here: None, open: Vec::new() }
    }
}

impl Strategy for LocalSearch<'_> {
    fn propose(&mut self) -> Option<ConfigIndex> {
        while let Some(&near) = self.open.last() {
            if !self.seen[near] {
                return Some(near);
            }
            self.open.pop();
        }
        // A local optimum, or a failed start: whatever is measured next is the new place.
        self.here = None;
        while self.seen[*self.starts.get(self.next)?] {
            self.next += 1;
        }
        Some(self.starts[self.next])
    }

    fn observe(&mut self, index: ConfigIndex, outcome: &Outcome) {
        if index >= self.seen.len() {
            return;
        }
        // Whether the neighbours are used up must not depend on whether a proposal was asked for.
        if self.open.iter().all(|&near| self.seen[near]) {
            self.here = None;
        }
        self.seen[index] = true;
        self.observed += 1;
        let Some(time) = search_time(outcome) else { return };
        if self.here.is_none_or(|(_, best)| time < best) {
            self.here = Some((index, time));
            self.open = self.space.neighbours(index);
            let order = Draw::new(self.seed, self.observed).sample(self.open.len(), self.open.len());
            self.open = order.into_iter().map(|at| self.open[at]).collect();
        }
    }
}
