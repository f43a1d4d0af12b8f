//! A Bayesian search that is told beforehand what only the whole space can teach.
//!
//! Length-scales and noise are learned from a recording of the space, not from the few configurations that a search has
//! measured; the times themselves stay unknown. How well this search does is what one that goes by the same model could
//! reach if it learned perfectly from the first evaluation on: the ceiling that a score is to be compared with.

use tuner::strategy::draw::Draw;
use tuner::strategy::{Bayesian, Scales};
use tuner::{ConfigIndex, Space};

/// Configurations that are learned from: the fastest, and others at random.
const FASTEST: usize = 100;
const OTHERS: usize = 300;

/// Steps of learning; more change nothing.
const STEPS: usize = 60;

/// What a recording teaches about its times.
#[derive(Clone, Debug)]
pub struct Lesson(Scales);

impl Lesson {
    /// From a time for each configuration of `space`, `None` where it failed.
    pub fn of(space: &Space, times: &[Option<f64>]) -> Self {
        let logs = times.iter().enumerate().filter_map(|(index, time)| Some((index, time.as_ref()?.ln())));
        let mut valid: Vec<(ConfigIndex, f64)> = logs.collect();
        valid.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        let rest = valid.len().saturating_sub(FASTEST);
        let others = Draw::new(0, 0).sample(OTHERS.min(rest), rest).into_iter().map(|at| FASTEST + at);
        let chosen: Vec<_> = (0..FASTEST.min(valid.len())).chain(others).map(|at| valid[at]).collect();
        let all: Vec<f64> = valid.iter().map(|(_, log)| *log).collect();
        Self(Scales::learned(space, &chosen, &all, STEPS))
    }

    /// The search that knows it.
    pub fn search<'a>(&self, space: &'a Space, seed: u64) -> Bayesian<'a> {
        Bayesian::new(space, seed).told(self.0.clone())
    }
}
