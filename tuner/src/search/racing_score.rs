//! How good racing is: over random choices of a recording's configurations, against the recorded truth.

use rayon::prelude::*;

use crate::Outcome;
use crate::racing::{RaceRules, race};
use crate::replay::{Measured, Noise, Record, Recording, Replay};
use crate::score::Estimate;
use crate::strategy::draw::Draw;

/// How racing did on one space.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct RaceRow {
    /// The space, as the caller names it.
    pub space: String,
    /// `race`, or how many launches of each candidate a plain comparison took.
    pub method: String,
    /// Candidates of a race.
    pub candidates: usize,
    /// The share of its time that the winner of each race loses against the truly fastest candidate.
    pub regrets: Vec<f64>,
    /// Launches of each race.
    pub launches: Vec<usize>,
}

impl RaceRow {
    /// The mean regret, as a share.
    pub fn regret(&self) -> Estimate {
        Estimate::of(&self.regrets)
    }

    /// Mean launches.
    pub fn mean_launches(&self) -> f64 {
        self.launches.iter().sum::<usize>() as f64 / self.launches.len() as f64
    }
}

/// Races `candidates` random valid configurations of a recording with samples, `races` times; then picks the smallest
/// mean, and the smallest median, of `plain` launches for comparison. The truth is the mean of a configuration's samples
/// without the first; `first` says whether a configuration's first launch is the recorded first one. `None` if the
/// recording has no samples, or fewer configurations.
pub fn score_racing(
    name: &str,
    recording: &Recording,
    candidates: usize,
    races: u64,
    plain: usize,
    first: bool,
) -> Option<Vec<RaceRow>> {
    let sampled = |record: &Record| matches!(&record.measured, Measured::Samples(samples) if samples.len() > 1);
    let valid: Vec<usize> = (0..recording.records.len()).filter(|&at| sampled(&recording.records[at])).collect();
    if valid.len() < candidates || candidates == 0 || races == 0 {
        return None;
    }
    let truth = |at: usize| recording.records[at].settled_mean_ms().unwrap_or(f64::INFINITY);
    let one = |seed: u64| {
        let drawn = Draw::new(seed, candidates).sample(candidates, valid.len());
        let drawn: Vec<usize> = drawn.into_iter().map(|at| valid[at]).collect();
        let fastest = drawn.iter().map(|&at| truth(at)).fold(f64::INFINITY, f64::min);
        let device = || Replay::new(recording.clone(), Noise::Resampled { seed, first });
        let mut replay = device();
        let raced = race(candidates, &RaceRules::default(), |at, launches| replay.measure_index(drawn[at], launches));
        let regret = |best: Option<usize>| best.map_or(f64::INFINITY, |at| truth(drawn[at]) / fastest - 1.0);
        let mut replay = device();
        let times: Vec<Vec<f64>> = drawn
            .iter()
            .map(|&at| match replay.measure_index(at, plain) {
                Outcome::Times(times) => times,
                Outcome::Failed(_) => Vec::new(),
            })
            .collect();
        let smallest = |of: fn(&[f64]) -> f64| {
            (0..candidates).filter(|&at| !times[at].is_empty()).min_by(|&a, &b| of(&times[a]).total_cmp(&of(&times[b])))
        };
        let mean = smallest(crate::statistics::mean);
        let median = smallest(crate::statistics::median);
        [(regret(raced.best), raced.launches), (regret(mean), plain * candidates), (regret(median), plain * candidates)]
    };
    let all: Vec<[(f64, usize); 3]> = (0..races).into_par_iter().map(one).collect();
    let methods = ["race".to_owned(), format!("mean of {plain}"), format!("median of {plain}")];
    let row = |(at, method): (usize, String)| RaceRow {
        space: name.to_owned(),
        method,
        candidates,
        regrets: all.iter().map(|race| race[at].0).collect(),
        launches: all.iter().map(|race| race[at].1).collect(),
    };
    Some(methods.into_iter().enumerate().map(row).collect())
}

/// The rows as a table; regrets in percent.
pub fn race_table(rows: &[RaceRow]) -> String {
    use std::fmt::Write;
    let width = rows.iter().map(|row| row.space.len()).max().unwrap_or(0).max(5);
    let mut text =
        format!("{:width$}  {:12}  {:>16}  {:>8}  {:>8}\n", "space", "method", "mean regret", "worst", "launches");
    for row in rows {
        let regret = row.regret();
        let worst = row.regrets.iter().copied().fold(0.0, f64::max);
        let _ = writeln!(
            text,
            "{:width$}  {:12}  {:6.2} % ± {:4.2} %  {:6.2} %  {:8.0}",
            row.space,
            row.method,
            100.0 * regret.mean,
            100.0 * regret.half_width,
            100.0 * worst,
            row.mean_launches()
        );
    }
    text
}
