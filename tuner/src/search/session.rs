//! A tuning session: the request, its progress, its result.

use std::fmt::Write as _;
use std::time::Duration;

use crate::budget::{Budget, Spent};
use crate::compare;
use crate::store::{Evidence, Plan, StoreError, Task};
use crate::strategy::StrategyKind;
use crate::verdict::Rules;
use crate::{Config, Failure, SpaceReport};

/// Settings of tuning.
#[derive(Clone, Debug)]
pub struct Session<'a> {
    /// Task that is tuned.
    pub task: Task<'a>,
    /// Strategy of the search.
    pub strategy: StrategyKind,
    /// The seed of all that is random.
    pub seed: u64,
    /// When the search ends.
    pub budget: Budget,
    /// Launches of a configuration while searching.
    pub launches: usize,
    /// Configuration used where nothing is tuned.
    pub default: Option<Config>,
    /// Sample that is measured, where the workload does not say it: a run of another sample is not continued. Lookups do not
    /// ask for it.
    pub sample: String,
    /// Configurations that are tried first, as those that are good on other devices. A run that is continued keeps those that
    /// it began with.
    pub seeds: Vec<Config>,
    /// This many of the best of the search are raced for the places in the final rounds, if that is more than there are
    /// places; fewer where the search took few launches.
    pub racers: usize,
    /// This many of the best take part in the final rounds; 0: none are held, and the search alone decides.
    pub finalists: usize,
    /// Plan of the final rounds; the seed in it is not used.
    pub rounds: compare::Plan,
    /// Time that the final rounds wait in all for a machine that others use, before nothing is decided.
    pub patience: Duration,
    /// Leaves an unfinished run alone instead of continuing it.
    pub fresh: bool,
}

impl<'a> Session<'a> {
    /// A session with everything else at its default.
    pub fn new(task: Task<'a>, strategy: StrategyKind, seed: u64, budget: Budget) -> Self {
        // Small blocks and two looks: some 200 launches where the case is clear.
        let rules = Rules { looks: vec![10, 20], ..Rules::default() };
        let rounds = compare::Plan { rules, rounds: 2, warm_up: 1, ..compare::Plan::default() };
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

    /// The plan: all of what determines the proposals, but for the seeds.
    pub(super) fn plan(&self) -> Plan {
        let looks: Vec<String> = self.rounds.rules.looks.iter().map(ToString::to_string).collect();
        let mut strategy = format!("{}, {} launches, {} finalists", self.strategy, self.launches, self.finalists);
        if self.finalists > 0 {
            let (racers, rounds, looks) = (self.racers, self.rounds.rounds, looks.join("/"));
            let _ = write!(strategy, " of {racers} raced, {rounds} rounds in {looks} blocks");
        }
        if let Some(default) = &self.default {
            let values: Vec<String> = default.0.iter().map(ToString::to_string).collect();
            let _ = write!(strategy, ", default {}", values.join("/"));
        }
        let (sample, budget) = (self.sample.clone(), self.budget.to_string());
        Plan { strategy, sample, seeds: self.seeds.clone(), seed: self.seed, budget }
    }
}

/// Phase of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Searching.
    Searching,
    /// Racing the best of the search.
    Racing,
    /// Holding the final rounds.
    Deciding,
    /// Waiting in the final rounds, because others use the machine.
    Waiting,
}

/// Progress of a session.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// Budget spent so far; evaluations are those of the search.
    pub spent: Spent,
    /// The best so far with its time in ms, by the samples of the search.
    pub best: Option<(&'a Config, f64)>,
    /// Time left of search, race and final rounds at most, in ms, if known; only while it searches.
    pub left_ms: Option<f64>,
    /// Phase of the session.
    pub phase: Phase,
    /// True if this was measured by an earlier process.
    pub replayed: bool,
    /// The run in the store.
    pub run: i64,
}

/// Result of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    /// The run in the store.
    pub run: i64,
    /// The decision.
    pub evidence: Evidence,
    /// Measurements that an earlier process had made.
    pub resumed: usize,
}

/// Why there is no decision.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum TuneError {
    /// The store cannot be read or written. What was measured before is in it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No configuration worked.
    #[error("all {tried} configurations that were tried failed; the last: {}", last.message)]
    AllFailed { tried: usize, last: Failure },
    /// The default does not work: there is nothing that could stay.
    #[error("the default fails: {}", .0.message)]
    DefaultFailed(Failure),
    /// There is nothing to choose from.
    #[error("the space has no valid configuration: {}", .0.to_string().trim_end())]
    EmptySpace(SpaceReport),
    /// The one who asked wants to end.
    #[error("interrupted; run {run} keeps what was measured and can be continued")]
    Interrupted { run: i64 },
}
