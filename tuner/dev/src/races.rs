//! Scores racing over random choices of a recording's configurations, against the recorded truth.

use rayon::prelude::*;

use tuner::Outcome;
use tuner::racing::{RaceRules, race};
use tuner::replay::{Noise, Recording, Replay};
use tuner::strategy::draw::Draw;

use crate::score::Estimate;

/// Scores of races on one space.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct RaceRow {
    /// Name of the space.
    pub space: String,
    /// Number of candidates of a race.
    pub candidates: usize,
    /// Relative time of each race's winner beyond the truly fastest candidate.
    pub regrets: Vec<f64>,
    /// Launches of each race.
    pub launches: Vec<usize>,
}

impl RaceRow {
    /// Returns the mean regret, as a share.
    pub fn regret(&self) -> Estimate {
        Estimate::of(&self.regrets)
    }

    /// Returns the mean launches.
    pub fn mean_launches(&self) -> f64 {
        self.launches.iter().sum::<usize>() as f64 / self.launches.len() as f64
    }
}

/// Races `candidates` random valid configurations of a recording with samples, `races` times. The truth is the mean of a
/// configuration's samples without the first. With `first`, a configuration's first launch replays the recorded first
/// one. `None` if the recording has no samples, or fewer configurations.
pub fn score_racing(name: &str, recording: &Recording, candidates: usize, races: u64, first: bool) -> Option<RaceRow> {
    let settled = |outcome: &Outcome| match outcome {
        Outcome::Times(samples) if samples.len() > 1 => {
            Some(samples[1..].iter().sum::<f64>() / (samples.len() - 1) as f64)
        }
        _ => None,
    };
    let truths: Vec<Option<f64>> = recording.outcomes.iter().map(settled).collect();
    let valid: Vec<usize> = (0..truths.len()).filter(|&at| truths[at].is_some()).collect();
    if valid.len() < candidates || candidates == 0 || races == 0 {
        return None;
    }
    let truth = |at: usize| truths[at].unwrap_or(f64::INFINITY);
    let one = |seed: u64| {
        let drawn = Draw::new(seed, candidates).sample(candidates, valid.len());
        let drawn: Vec<usize> = drawn.into_iter().map(|at| valid[at]).collect();
        let fastest = drawn.iter().map(|&at| truth(at)).fold(f64::INFINITY, f64::min);
        let mut replay = Replay::new(recording.clone(), Noise::Resampled { seed, first });
        let raced = race(candidates, &RaceRules::default(), |at, launches| replay.measure_index(drawn[at], launches));
        (raced.best.map_or(f64::INFINITY, |at| truth(drawn[at]) / fastest - 1.0), raced.launches)
    };
    let (regrets, launches) = (0..races).into_par_iter().map(one).unzip();
    Some(RaceRow { space: name.to_owned(), candidates, regrets, launches })
}

/// Writes the rows as a table; regrets in percent.
pub fn race_table(rows: &[RaceRow]) -> String {
    use std::fmt::Write;
    let width = rows.iter().map(|row| row.space.len()).max().unwrap_or(0).max(5);
    let mut text = format!("{:width$}  {:>16}  {:>8}  {:>8}\n", "space", "mean regret", "worst", "launches");
    for row in rows {
        let regret = row.regret();
        let worst = row.regrets.iter().copied().fold(0.0, f64::max);
        let _ = writeln!(
            text,
            "{:width$}  {:6.2} % ± {:4.2} %  {:6.2} %  {:8.0}",
            row.space,
            100.0 * regret.mean,
            100.0 * regret.half_width,
            100.0 * worst,
            row.mean_launches()
        );
    }
    text
}
