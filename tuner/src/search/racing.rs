//! Race: finds the fastest of given candidates with few launches.
//!
//! All candidates are launched once, the fastest fifth again; the differences of its pairs tell a
//! quiet device from a noisy one (with a third launch if all first ones were slow). On a **quiet**
//! device a few more launches of ever fewer candidates decide. On a **noisy** one all are launched
//! three times before three quarters drop out, and the last few are launched up to 24 times. Rounds
//! alternate in direction (A B C C B A), so that a drift affects all alike.
//!
//! The estimate is a mean, because of a kernel with two modes the median tells only the more
//! frequent one. It leaves out the slowest tenth, because few launches do not tell the share of
//! rare outliers, and a first launch that was the slowest, which pays for caches and clocks.
//!
//! Why a race at all: the search launches each configuration only a few times, so that its best are
//! partly the lucky ones. The final comparison, which is strict, costs hundreds of launches per
//! candidate. The race lies in between: with two to five launches per candidate on average it finds
//! the few that deserve the final.
//!
//! For 64 candidates on a noisy device: 64 are launched 3 times, the fastest 15 are brought to 6
//! launches, the fastest 7 to 12, and the fastest 5 to 24, together about 340 launches. On a quiet
//! device: 64 once, 12 twice, 7 three times, 5 six times, about 100 launches. If launches are left
//! then, up to one and a half per candidate, they go to the first two as long as these cannot be
//! told apart.

use crate::decide::runoff::{Statistic, undecided};
use crate::objective::is_cost;
use crate::{Failure, FailureKind, Outcome};

/// Result of a race.
#[derive(Clone, Debug, PartialEq)]
pub struct RaceResult {
    /// Candidates that were raced to the end, the fastest first.
    pub ranked: Vec<usize>,
    /// Samples in ms, by candidate.
    pub samples: Vec<Vec<f64>>,
    /// Failed candidates.
    pub failures: Vec<(usize, Failure)>,
    /// Number of launches, failed ones included.
    pub launches: usize,
    /// True if the device was quiet.
    pub quiet: bool,
}

/// Shares of the candidates that stay in the race, and the launches of each by then, on a noisy and
/// on a quiet device.
const NOISY: [(f64, usize); 4] = [(1.0, 3), (0.22, 6), (0.094, 12), (0.04, 24)];
const QUIET: [(f64, usize); 2] = [(0.094, 3), (0.04, 6)];
/// Share of the candidates that are launched twice to tell how noisy the device is.
///
/// Three sixteenths. The fastest are probed, because their launches are needed in any case.
const PROBED: f64 = 0.1875;
/// Relative difference between two launches above which they are noisy.
///
/// The differences among good configurations are a few per cent; below 1.5 % of noise a few
/// launches resolve them.
const NOISE: f64 = 0.015;
/// Number of candidates that are always raced to the end.
const FEWEST: usize = 5;
/// Share of the time below which a tie on a quiet device does not matter.
///
/// It is less than the zone of indifference of the final rounds (0.2 %), so that the race leaves
/// the last word to them.
const TIE: f64 = 0.0005;

/// Races the candidates `0..count` in at most `most` launches, or one each if that is more.
/// `measure` launches one the given number of times.
pub fn race(count: usize, most: usize, measure: impl FnMut(usize, usize) -> Outcome) -> RaceResult {
    let most = most.max(count);
    let result = RaceResult {
        ranked: Vec::new(),
        samples: vec![Vec::new(); count],
        failures: Vec::new(),
        launches: 0,
        quiet: false,
    };
    let mut race = Race {
        measure,
        result,
        alive: (0..count).collect(),
        most,
        backward: false,
    };
    race.level(1);
    race.keep(PROBED, count);
    // On a noisy device the others come back: one launch drops no candidate.
    race.level(2);
    race.result.quiet = race.quiet(0);
    if !race.result.quiet && race.slow_start() {
        // If only the first launches are slow, the next ones agree.
        race.level(3);
        race.result.quiet = race.quiet(1);
    }
    if race.result.quiet {
        for (share, launches) in QUIET {
            race.keep(share, count);
            race.level(launches);
        }
        // A quiet race is short.
        race.most = (count + count / 2).max(FEWEST * 6).min(most);
        while let Some(tie) = race.tie() {
            race.alive = tie;
            race.level(race.fewest_samples() + 1);
        }
    } else {
        race.alive = (0..count).filter(|&at| !race.failed(at)).collect();
        for (share, launches) in NOISY {
            if share < 1.0 {
                race.keep(share, count);
            }
            race.level(launches);
        }
    }
    race.keep(0.0, count);
    race.result.ranked = race.alive;
    race.result
}

/// Returns the mean of a candidate's samples in ms, without the slowest tenth (rounded down), and
/// without the first if it is the slowest of three or more. `None` without samples.
pub fn race_estimate(samples: &[f64]) -> Option<f64> {
    let slow_start = samples.len() >= 3 && samples[1..].iter().all(|&sample| sample < samples[0]);
    let mut sorted = samples[usize::from(slow_start)..].to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.truncate(sorted.len() - sorted.len() / 10);
    (!sorted.is_empty()).then(|| sorted.iter().sum::<f64>() / sorted.len() as f64)
}

struct Race<M> {
    measure: M,
    result: RaceResult,
    /// Candidates still in the race.
    alive: Vec<usize>,
    most: usize,
    backward: bool,
}

impl<M: FnMut(usize, usize) -> Outcome> Race<M> {
    fn failed(&self, candidate: usize) -> bool {
        self.result
            .failures
            .iter()
            .any(|(failed, _)| *failed == candidate)
    }

    /// Returns true if the launches `from` and `from + 1` agree for all but one in twelve
    /// candidates in the race.
    ///
    /// One in twelve may disagree: a machine has an interruption now and then without being noisy.
    fn quiet(&self, from: usize) -> bool {
        let apart = |&&at: &&usize| match self.result.samples[at].get(from..) {
            Some([first, second, ..]) => (first.ln() - second.ln()).abs() > NOISE,
            _ => false,
        };
        self.alive.iter().filter(apart).count() <= self.alive.len() / 12
    }

    /// Returns true if the first launch was slower than the second for all but one in twelve
    /// candidates in the race.
    fn slow_start(&self) -> bool {
        let faster = |&&at: &&usize| matches!(self.result.samples[at].as_slice(), [first, second, ..] if first <= second);
        self.alive.iter().filter(faster).count() <= self.alive.len() / 12
    }

    fn fewest_samples(&self) -> usize {
        self.alive
            .iter()
            .map(|&at| self.result.samples[at].len())
            .min()
            .unwrap_or(0)
    }

    /// Launches in interleaved rounds until each candidate in the race has `samples` samples, or no
    /// launches are left.
    fn level(&mut self, samples: usize) {
        loop {
            let mut open: Vec<usize> = self.alive.clone();
            open.retain(|&at| self.result.samples[at].len() < samples);
            if open.is_empty() {
                return;
            }
            if self.backward {
                open.reverse();
            }
            self.backward = !self.backward;
            for at in open {
                if self.result.launches == self.most {
                    return;
                }
                self.result.launches += 1;
                let failure = match (self.measure)(at, 1) {
                    Outcome::Times(times) if times.len() == 1 && is_cost(times[0]) => {
                        self.result.samples[at].push(times[0]);
                        continue;
                    }
                    Outcome::Times(times) => {
                        FailureKind::Launch.because(format!("{times:?} is not one time"))
                    }
                    Outcome::Failed(failure) => failure,
                };
                self.result.failures.push((at, failure));
                self.alive.retain(|&alive| alive != at);
            }
        }
    }

    /// Keeps the fastest candidates in the race, a share of all `count` and at least [`FEWEST`],
    /// the fastest first.
    fn keep(&mut self, share: f64, count: usize) {
        self.alive = self.ranked();
        self.alive
            .truncate(((share * count as f64).ceil() as usize).max(FEWEST));
    }

    /// Returns the two fastest candidates if they cannot be told apart yet, it matters, and
    /// launches are left.
    fn tie(&self) -> Option<Vec<usize>> {
        let samples = |&at: &usize| (at, self.result.samples[at].clone());
        let candidates: Vec<_> = self.ranked().iter().take(2).map(samples).collect();
        let open = undecided(&candidates, Statistic::Mean, TIE);
        (open.len() == 2 && self.result.launches + 2 <= self.most).then_some(open)
    }

    /// Returns the candidates in the race, the fastest first.
    fn ranked(&self) -> Vec<usize> {
        let time = |at: usize| race_estimate(&self.result.samples[at]).unwrap_or(f64::INFINITY);
        let mut ranked = self.alive.clone();
        ranked.sort_by(|&a, &b| time(a).total_cmp(&time(b)).then(a.cmp(&b)));
        ranked
    }
}
