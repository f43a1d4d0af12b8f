//! Scores a strategy by replaying it over a recorded space, against random draws.
//!
//! An evaluation is a distinct configuration, failures included. `B(n)` is the exact expected best
//! of n draws without replacement from all rows, with a failure as slow as the slowest valid one.
//! The score of a run is the mean over n = 20 … budget of `(B(n) − best(n)) / (B(n) − optimum)`,
//! where best(n) is B(1) before the first valid configuration, and a strategy that stops early
//! keeps its best. Random draws score 0, the optimum at once 1.

use rayon::prelude::*;

use tuner::Outcome;
use tuner::statistics::{mean, student_critical, variance};
use tuner::strategy::StrategyKind;

use crate::replay::{Noise, Recording, Replay, mean_ms};

/// First evaluation that counts for the score.
const FIRST: usize = 20;

/// Scores of a strategy on one space.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ScoreRow {
    /// Name of the recorded space.
    pub space: String,
    /// Name of the strategy that proposed the configurations.
    pub strategy: String,
    /// Number of evaluations of a run.
    pub budget: usize,
    /// Runs with different seeds.
    pub runs: Vec<Run>,
}

/// Score of one run.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Run {
    /// Seed of the strategy; the first run has 0.
    pub seed: u64,
    /// Score: 0 like random draws, 1 for the optimum at once, negative if worse than random.
    pub score: f64,
    /// Best time after 50 evaluations (or the budget) over the optimum.
    pub at_50: f64,
    /// Best time after the whole budget over the optimum.
    pub at_end: f64,
    /// Longest duration of a proposal with its observation, in ms.
    pub slowest_proposal_ms: f64,
}

/// Mean with the half width of its 95 % confidence interval, which is 0 for a single value.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Estimate {
    /// Mean, the centre of the interval.
    pub mean: f64,
    /// Distance from `mean` to either end of the interval.
    pub half_width: f64,
}

impl Estimate {
    /// Estimates the mean of independent `values`, by Student's t.
    pub fn of(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let width = || student_critical(0.05, n - 1.0) * (variance(values) / n).sqrt();
        Self {
            mean: mean(values),
            half_width: if values.len() < 2 { 0.0 } else { width() },
        }
    }

    /// Averages independent estimates.
    pub fn mean_of(estimates: &[Self]) -> Self {
        let n = estimates.len() as f64;
        Self {
            mean: estimates.iter().map(|estimate| estimate.mean).sum::<f64>() / n,
            half_width: estimates
                .iter()
                .map(|estimate| estimate.half_width.powi(2))
                .sum::<f64>()
                .sqrt()
                / n,
        }
    }
}

impl std::fmt::Display for Estimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:+.3} ± {:.3}", self.mean, self.half_width)
    }
}

impl ScoreRow {
    /// Returns the mean score.
    pub fn score(&self) -> Estimate {
        Estimate::of(&self.runs.iter().map(|run| run.score).collect::<Vec<_>>())
    }

    /// Returns the mean time over the optimum after 50 evaluations.
    pub fn at_50(&self) -> Estimate {
        Estimate::of(&self.runs.iter().map(|run| run.at_50).collect::<Vec<_>>())
    }

    /// Returns the mean time over the optimum at the end.
    pub fn at_end(&self) -> Estimate {
        Estimate::of(&self.runs.iter().map(|run| run.at_end).collect::<Vec<_>>())
    }

    /// Returns the share of the runs that end within 5 % of the optimum.
    pub fn within_5_percent(&self) -> f64 {
        self.runs.iter().filter(|run| run.at_end <= 1.05).count() as f64 / self.runs.len() as f64
    }

    /// Returns the longest duration of a proposal in ms.
    pub fn slowest_proposal_ms(&self) -> f64 {
        self.runs
            .iter()
            .map(|run| run.slowest_proposal_ms)
            .fold(0.0, f64::max)
    }
}

/// Computes the expected best of n draws without replacement, for n = 1 … `most`, from `sorted`
/// times.
fn expected_best(sorted: &[f64], most: usize) -> Vec<f64> {
    let rows = sorted.len() as f64;
    let best = |n: usize| {
        // P(the i-th is the best) = C(N−i, n−1) / C(N, n), from one i to the next by their ratio.
        let mut probability = n as f64 / rows;
        let mut expected = 0.0;
        for (i, time) in sorted.iter().enumerate() {
            expected += probability * time;
            let left = rows - (i + 1) as f64;
            if left <= 0.0 {
                break;
            }
            probability *= ((left - n as f64 + 1.0) / left).max(0.0);
        }
        expected
    };
    (1..=most).map(|n| best(n.min(sorted.len()))).collect()
}

/// Runs `strategy` over a recorded space, once for each of the seeds `0..seeds`. `None` if nothing
/// in it is valid.
pub fn score(
    name: &str,
    recording: &Recording,
    strategy: StrategyKind,
    seeds: u64,
    budget: usize,
) -> Option<ScoreRow> {
    let mut times: Vec<f64> = recording.outcomes.iter().filter_map(mean_ms).collect();
    times.sort_by(f64::total_cmp);
    let (&optimum, &slowest) = (times.first()?, times.last()?);
    times.resize(recording.outcomes.len(), slowest);
    let expected = expected_best(&times, budget.max(1));
    let run = |seed: u64| {
        let mut device = Replay::new(recording.clone(), Noise::Mean);
        let mut strategy = strategy.start(&recording.space, seed);
        let mut best = None;
        let mut curve = Vec::with_capacity(budget);
        let mut slowest_proposal_ms = 0.0f64;
        while curve.len() < budget {
            let start = std::time::Instant::now();
            let proposed = strategy.propose();
            let spent = start.elapsed().as_secs_f64() * 1e3;
            let Some(index) = proposed else { break };
            let outcome = device.measure_index(index, 1);
            if let Outcome::Times(times) = &outcome {
                best = Some(best.map_or(times[0], |best: f64| best.min(times[0])));
            }
            let start = std::time::Instant::now();
            strategy.observe(index, &outcome);
            slowest_proposal_ms =
                slowest_proposal_ms.max(spent + start.elapsed().as_secs_f64() * 1e3);
            curve.push(best.unwrap_or(expected[0]));
        }
        let last = curve.last().copied().unwrap_or(expected[0]);
        curve.resize(budget, last);
        let gain = |n: usize| {
            let (random, best) = (expected[n - 1], curve[n - 1]);
            // If random draws have found the optimum too, nothing is left to gain.
            if random > optimum {
                (random - best) / (random - optimum)
            } else {
                1.0
            }
        };
        let counted: Vec<f64> = (FIRST..=budget).map(gain).collect();
        Run {
            seed,
            score: counted.iter().sum::<f64>() / counted.len() as f64,
            at_50: curve[49.min(budget - 1)] / optimum,
            at_end: curve[budget - 1] / optimum,
            slowest_proposal_ms,
        }
    };
    let budget_counts = budget >= FIRST;
    budget_counts.then(|| ScoreRow {
        space: name.to_owned(),
        strategy: strategy.name().to_owned(),
        budget,
        runs: (0..seeds).into_par_iter().map(run).collect(),
    })
}

/// Writes the rows as a table, with the mean over the spaces last.
pub fn table(rows: &[ScoreRow]) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    let width = rows
        .iter()
        .map(|row| row.space.len())
        .max()
        .unwrap_or(0)
        .max(5);
    let line = |text: &mut String,
                name: &str,
                kind: &str,
                score: Estimate,
                at_50: Estimate,
                at_end: Estimate,
                within: f64,
                ms: f64| {
        let _ = writeln!(
            text,
            "{name:width$}  {kind:10}  {score}  {:.3} ± {:.3}  {:.3} ± {:.3}  {within:.2}  {ms:7.2}",
            at_50.mean, at_50.half_width, at_end.mean, at_end.half_width
        );
    };
    let at_50 = format!("at {}", rows.first().map_or(50, |row| row.budget.min(50)));
    let _ = writeln!(
        text,
        "{:width$}  {:10}  {:14}  {:13}  {:13}  {:4}  {:>7}",
        "space", "strategy", "score", at_50, "at the end", "5 %", "ms"
    );
    let mut kinds: Vec<&str> = rows.iter().map(|row| row.strategy.as_str()).collect();
    kinds.dedup();
    for kind in kinds {
        let rows: Vec<&ScoreRow> = rows.iter().filter(|row| row.strategy == kind).collect();
        for row in &rows {
            let (score, at_50, at_end) = (row.score(), row.at_50(), row.at_end());
            line(
                &mut text,
                &row.space,
                kind,
                score,
                at_50,
                at_end,
                row.within_5_percent(),
                row.slowest_proposal_ms(),
            );
        }
        let mean = |of: fn(&ScoreRow) -> Estimate| {
            Estimate::mean_of(&rows.iter().map(|row| of(row)).collect::<Vec<_>>())
        };
        let within = rows.iter().map(|row| row.within_5_percent()).sum::<f64>() / rows.len() as f64;
        let ms = rows
            .iter()
            .map(|row| row.slowest_proposal_ms())
            .fold(0.0, f64::max);
        line(
            &mut text,
            "mean",
            kind,
            mean(ScoreRow::score),
            mean(ScoreRow::at_50),
            mean(ScoreRow::at_end),
            within,
            ms,
        );
    }
    text
}
