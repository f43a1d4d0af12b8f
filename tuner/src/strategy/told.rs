//! A Bayesian search that is told beforehand what only the whole space can teach.
//!
//! Length-scales and noise are learned from a recording of the space, not from the few configurations that a search has
//! measured; the times themselves stay unknown. How well this search does is what one that goes by the same model could
//! reach if it learned perfectly from the first evaluation on: the ceiling that a score is to be compared with.

use super::bayesian::{Bayesian, Encoding, cap_of, capped};
use super::draw::Draw;
use super::gp::{Hyper, Point};
use super::gp_learn::Learner;
use crate::space::{ConfigIndex, Space};

/// Configurations that are learned from: the fastest, and others at random.
const FASTEST: usize = 100;
const OTHERS: usize = 300;

/// Steps of learning; more change nothing.
const STEPS: usize = 60;

/// What a recording teaches about its times.
#[derive(Clone, Debug)]
pub struct Lesson(Hyper);

impl Lesson {
    /// From a time for each configuration of `space`, `None` where it failed.
    pub fn of(space: &Space, times: &[Option<f64>]) -> Self {
        let encoding = Encoding::new(space);
        let logs = times.iter().enumerate().filter_map(|(index, time)| Some((index, time.as_ref()?.ln())));
        let mut valid: Vec<(ConfigIndex, f64)> = logs.collect();
        valid.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        let cap = cap_of(&valid.iter().map(|(_, log)| *log).collect::<Vec<_>>());
        let rest = valid.len().saturating_sub(FASTEST);
        let others = Draw::new(0, 0).sample(OTHERS.min(rest), rest).into_iter().map(|at| FASTEST + at);
        let chosen: Vec<usize> = (0..FASTEST.min(valid.len())).chain(others).collect();
        let points: Vec<Point> = chosen.iter().map(|&at| encoding.point(space, valid[at].0)).collect();
        let points: Vec<&Point> = points.iter().collect();
        let values: Vec<f64> = chosen.iter().map(|&at| capped(valid[at].1, cap)).collect();
        let mut learner = Learner::new(encoding.categories());
        for _ in 0..STEPS {
            learner.step(&points, &values);
        }
        Self(learner.hyper)
    }

    /// The search that knows it.
    pub fn search<'a>(&self, space: &'a Space, seed: u64) -> Bayesian<'a> {
        Bayesian::new(space, seed).told(self.0.clone())
    }
}
