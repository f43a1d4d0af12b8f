//! Tuning session: settings, progress, result.

use std::fmt::Write as _;
use std::time::Duration;

use crate::budget::{Budget, Spent};
use crate::compare;
use crate::store::{Evidence, Plan, StoreError, Task};
use crate::strategy::StrategyKind;
use crate::verdict::Rules;
use crate::{Config, Error, ErrorKind, Failure, SpaceReport};

/// Settings of a tuning.
#[derive(Clone, Debug)]
pub struct Session<'a> {
    /// Device, tunable, workload and space, under which the store keeps the result.
    pub task: Task<'a>,
    /// Kind of strategy, which proposes configurations after `default` and `seeds`.
    pub strategy: StrategyKind,
    /// Seed of all random choices.
    pub seed: u64,
    /// Limits of the search; limits of launches and time include race and final rounds.
    pub budget: Budget,
    /// Number of launches of each configuration in the search.
    pub launches: usize,
    /// Configuration to beat, measured first; `None` gives this role to the fastest one found.
    pub default: Option<Config>,
    /// Measured sample, where the workload does not name it. A run of another sample is not
    /// continued; lookups ignore it.
    pub sample: String,
    /// Configurations that are tried first, as the best of other devices. A continued run keeps the
    /// ones that it began with.
    pub seeds: Vec<Config>,
    /// Maximum number of configurations that race for the places in the final rounds, if that is
    /// more than there are places.
    pub racers: usize,
    /// Number of configurations in the final rounds; 0: the search alone decides.
    pub finalists: usize,
    /// Plan of the final rounds; its seed is not used.
    pub rounds: compare::Plan,
    /// Time in all that the final rounds wait while others use the machine, before nothing is
    /// decided.
    pub patience: Duration,
    /// Begins a run even if an unfinished one could be continued.
    pub fresh: bool,
}

impl<'a> Session<'a> {
    /// Makes a session with all other settings at their defaults.
    pub fn new(task: Task<'a>, strategy: StrategyKind, seed: u64, budget: Budget) -> Self {
        // Small blocks and two looks: some 200 launches where the case is clear.
        let rules = Rules {
            looks: vec![10, 20],
            ..Rules::default()
        };
        let rounds = compare::Plan {
            rules,
            rounds: 2,
            warm_up: 1,
            ..compare::Plan::default()
        };
        Self {
            task,
            strategy,
            seed,
            budget,
            launches: 3,
            default: None,
            sample: String::new(),
            seeds: Vec::new(),
            racers: 16,
            finalists: 3,
            rounds,
            patience: Duration::from_mins(1),
            fresh: false,
        }
    }

    /// Returns the plan, which determines the proposals.
    pub(super) fn plan(&self) -> Plan {
        let looks: Vec<String> = self
            .rounds
            .rules
            .looks
            .iter()
            .map(ToString::to_string)
            .collect();
        let mut strategy = format!(
            "{}, {} launches, {} finalists",
            self.strategy, self.launches, self.finalists
        );
        if self.finalists > 0 {
            let (racers, rounds, looks) = (self.racers, self.rounds.rounds, looks.join("/"));
            let _ = write!(
                strategy,
                " of {racers} raced, {rounds} rounds in {looks} blocks"
            );
        }
        if let Some(default) = &self.default {
            let values: Vec<String> = default.0.iter().map(ToString::to_string).collect();
            let _ = write!(strategy, ", default {}", values.join("/"));
        }
        let (sample, budget) = (self.sample.clone(), self.budget.to_string());
        Plan {
            strategy,
            sample,
            seeds: self.seeds.clone(),
            seed: self.seed,
            budget,
        }
    }
}

/// Phase of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Search for good configurations, with a few launches of each.
    Searching,
    /// Race between the best configurations of the search, for places in the final rounds.
    Racing,
    /// Final rounds.
    Deciding,
    /// Final rounds that wait because others use the machine.
    Waiting,
}

/// Progress of a session.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// Evaluations, launches and time so far, including an earlier process of the run.
    pub spent: Spent,
    /// Best configuration so far, and its time in ms in the search.
    pub best: Option<(&'a Config, f64)>,
    /// Maximum time left in ms, race and final rounds included, if known; only during the search.
    pub left_ms: Option<f64>,
    /// Phase of the last measurement, or `Waiting` until the next one is possible.
    pub phase: Phase,
    /// State of the machine and the remedy, if others used it during the last measurement: the
    /// search goes on, the final rounds wait.
    pub trouble: Option<&'a str>,
    /// True if an earlier process made the measurement.
    pub replayed: bool,
    /// Number of the run in the store.
    pub run: i64,
}

/// Result of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    /// Number of the run in the store.
    pub run: i64,
    /// Decision, which the store keeps if there is one.
    pub evidence: Evidence,
    /// False if others used the machine, or the evidence could not tell: then the default stays for
    /// now, and the store keeps only the measurements.
    pub decided: bool,
    /// Number of measurements that an earlier process made.
    pub resumed: usize,
}

/// Reason why a tuning ended without a decision.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum TuneError {
    /// The store cannot be read or written. It has all earlier measurements.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No configuration worked.
    #[error("all {tried} configurations that were tried failed; the last: {}", last.message)]
    AllFailed { tried: usize, last: Failure },
    /// The default failed.
    #[error("the default fails: {}", .0.message)]
    DefaultFailed(Failure),
    /// The space has no valid configuration.
    #[error("the space has no valid configuration: {}", .0.to_string().trim_end())]
    EmptySpace(SpaceReport),
    /// The caller ended the tuning.
    #[error("interrupted; run {run} keeps what was measured and can be continued")]
    Interrupted { run: i64 },
}

impl TuneError {
    /// Returns the kind.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(error) => error.kind(),
            Self::AllFailed { .. } | Self::DefaultFailed(_) => ErrorKind::Device,
            Self::EmptySpace(_) => ErrorKind::Request,
            Self::Interrupted { .. } => ErrorKind::Interrupted,
        }
    }
}

impl From<TuneError> for Error {
    fn from(error: TuneError) -> Self {
        Self::new(error.kind(), error.to_string())
    }
}
