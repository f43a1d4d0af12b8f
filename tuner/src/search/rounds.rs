//! Exhaustive search in rounds: each round visits every configuration once, in a random order of its own.
//!
//! Slow changes of the machine affect a round's configurations alike, and no configuration always follows the same
//! other one, so a round is a block of any comparison. Every visit is in the store before the next begins, so a killed
//! process continues where it stopped. The run stays unfinished: more rounds may be added later.

use chacha20::ChaCha8Rng;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;

use super::session::TuneError;
use crate::space::ConfigIndex;
use crate::store::{Plan, Recorder, Store, Task};
use crate::{Device, Outcome};

/// Visits of configurations.
#[derive(Clone, Debug)]
pub struct Rounds<'a> {
    /// Task to measure.
    pub task: Task<'a>,
    /// Number of visits of each configuration.
    pub rounds: usize,
    /// Launches of a visit.
    pub launches: usize,
    /// Seed of the orders.
    pub seed: u64,
}

impl Rounds<'_> {
    /// Returns the order of a round.
    fn order(&self, round: usize) -> Vec<ConfigIndex> {
        let mut order: Vec<ConfigIndex> = (0..self.task.space.len()).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(round as u64);
        order.shuffle(&mut rng);
        order
    }

    fn plan(&self) -> Plan {
        Plan {
            strategy: format!("exhaustive in rounds, {} launches", self.launches),
            seed: self.seed,
            budget: format!("{} rounds", self.rounds),
            ..Plan::default()
        }
    }

    /// Returns the number of visits that an earlier process has made.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn done(&self, store: &mut Store) -> Result<usize, TuneError> {
        Ok(store.resume(&self.task, &self.plan())?.map_or(0, |(run, _)| run.measurements()))
    }

    /// Makes the visits that the store does not have. Returns the outcomes of each configuration, round by round; one
    /// that fails is not visited again. `tell` is told how many visits are over, and ends the search by returning
    /// false.
    ///
    /// # Errors
    /// If the store cannot be read or written; [`TuneError::Interrupted`].
    pub fn measure(
        &self,
        device: &mut dyn Device,
        store: &mut Store,
        tell: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Vec<Vec<Outcome>>, TuneError> {
        let space = self.task.space;
        let mut recorder = Recorder::start(device, store, &self.task, &self.plan(), false)?;
        let mut outcomes: Vec<Vec<Outcome>> = vec![Vec::new(); space.len()];
        for round in 0..self.rounds {
            for (visited, index) in self.order(round).into_iter().enumerate() {
                if matches!(outcomes[index].last(), Some(Outcome::Failed(_))) {
                    continue;
                }
                let outcome = recorder.measure(&space.config(index), self.launches);
                if let Some(error) = recorder.take_error() {
                    return Err(error.into());
                }
                outcomes[index].push(outcome);
                if !tell(round * space.len() + visited + 1) {
                    return Err(TuneError::Interrupted { run: recorder.run() });
                }
            }
        }
        Ok(outcomes)
    }
}
