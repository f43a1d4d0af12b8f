//! One tuning from beginning to end: search, final rounds, decision; everything kept in the store as it happens.
//!
//! The default configuration is measured first, then seeds (configurations that were good elsewhere), then what the
//! strategy proposes, until the budget ends. A search ranks by few samples and has looked at many, so its winner is lucky:
//! the best of the search are raced on fresh samples ([`racing`](super::racing)), the fastest of the race and the default
//! are measured once more, and only these last samples decide ([`compare::decide`]). The default is replaced only by what
//! is shown to be faster, twice.
//!
//! The race may take a third as many launches as the search, and the budget is for both: a search whose launches or time
//! are limited ends early enough for the race. The final rounds are not part of the budget.
//!
//! Nothing here looks at a clock, at the state of the machine or at chance beyond the seed: what happens is a function of
//! the samples, so a killed session that is begun again repeats itself from the store's record and goes on.

use std::fmt::Write as _;

use super::ending;
use crate::tuning::budget::{Budget, Spent};
use crate::tuning::compare;
use crate::tuning::space::ConfigIndex;
use crate::tuning::statistics;
use crate::tuning::store::{Contender, Details, Evidence, Plan, Recorder, Store, StoreError, Task};
use crate::tuning::strategy::{StrategyKind, search_time};
use crate::tuning::verdict::Rules;
use crate::tuning::{Config, Device, Failure, FailureKind, Outcome};

/// A strategy is asked what is still to be gained every so many evaluations.
const ASK_EVERY: usize = 8;

/// How to tune.
#[derive(Clone, Debug)]
pub struct Session<'a> {
    /// What is tuned.
    pub task: Task<'a>,
    /// Which strategy searches.
    pub strategy: StrategyKind,
    /// The seed of all that is random.
    pub seed: u64,
    /// When the search ends.
    pub budget: Budget,
    /// Launches of a configuration while searching.
    pub launches: usize,
    /// What is used where nothing is tuned.
    pub default: Option<Config>,
    /// Configurations that were good elsewhere, to be tried first.
    pub seeds: Vec<Config>,
    /// The best so many of the search are raced for the places in the final rounds, if that is more than there are places;
    /// fewer where the search took few launches.
    pub racers: usize,
    /// The best so many take part in the final rounds; 0: none are held, and the search alone decides.
    pub finalists: usize,
    /// How the final rounds are held; the seed in it is not used.
    pub rounds: compare::Plan,
    /// Whether an unfinished run is left alone instead of continued.
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
            seeds: Vec::new(),
            racers: 16,
            finalists: 3,
            rounds,
            fresh: false,
        }
    }

    /// The plan: all of what determines the proposals.
    fn plan(&self) -> Plan {
        let looks: Vec<String> = self.rounds.rules.looks.iter().map(ToString::to_string).collect();
        let mut strategy = format!("{}, {} launches, {} finalists", self.strategy, self.launches, self.finalists);
        if self.finalists > 0 {
            let _ = write!(
                strategy,
                " of {} raced, {} rounds in {} blocks",
                self.racers,
                self.rounds.rounds,
                looks.join("/")
            );
        }
        for (word, configs) in [("default", self.default.as_slice()), ("seeds", &self.seeds)] {
            if !configs.is_empty() {
                let values = |config: &Config| config.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("/");
                let configs: Vec<String> = configs.iter().map(values).collect();
                let _ = write!(strategy, ", {word} {}", configs.join(" "));
            }
        }
        Plan { strategy, seed: self.seed, budget: self.budget.to_string() }
    }
}

/// What a session is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Searching.
    Searching,
    /// Racing the best of the search.
    Racing,
    /// Holding the final rounds.
    Deciding,
}

/// How a session is getting on.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// What was spent so far; evaluations are those of the search.
    pub spent: Spent,
    /// The best so far with its time in ms, by the samples of the search.
    pub best: Option<(&'a Config, f64)>,
    /// What is left, in ms, where that can be told.
    pub left_ms: Option<f64>,
    /// What it is doing.
    pub phase: Phase,
    /// Whether this was measured by an earlier process.
    pub replayed: bool,
    /// The run in the store.
    pub run: i64,
}

/// What a session found.
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
pub enum TuneError {
    /// The store cannot be read or written. What was measured before is in it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No configuration worked.
    #[error("all {tried} configurations that were tried failed; the last: {}", last.message)]
    AllFailed {
        /// How many.
        tried: usize,
        /// The last failure.
        last: Failure,
    },
    /// There is nothing to choose from.
    #[error("the space has no valid configuration")]
    EmptySpace,
    /// The one who asked wants to end.
    #[error("interrupted; run {run} keeps what was measured and can be continued")]
    Interrupted {
        /// The run.
        run: i64,
    },
}

/// A configuration that worked, and what the search measured of it.
pub(super) struct Seen {
    pub index: ConfigIndex,
    pub time_ms: f64,
    samples: usize,
}

/// What a session does while it runs.
pub(super) struct Bench<'s, 'a> {
    pub session: &'s Session<'a>,
    pub recorder: Recorder<'s>,
    pub spent: Spent,
    pub seen: Vec<Seen>,
    measured: std::collections::HashSet<ConfigIndex>,
    failed: usize,
    last_failure: Option<Failure>,
}

impl Bench<'_, '_> {
    pub fn measure(&mut self, config: &Config, launches: usize) -> Result<Outcome, TuneError> {
        let outcome = self.recorder.measure(config, launches);
        if let Some(error) = self.recorder.take_error() {
            return Err(error.into());
        }
        self.spent.ms = self.recorder.spent_ms();
        if let Outcome::Times(times) = &outcome {
            self.spent.launches += times.len();
        }
        Ok(outcome)
    }

    /// Measures a configuration for the search.
    fn evaluate(&mut self, index: ConfigIndex) -> Result<Outcome, TuneError> {
        let outcome = self.measure(&self.session.task.space.config(index), self.session.launches)?;
        self.measured.insert(index);
        self.spent.evaluations += 1;
        self.spent.without_gain += 1;
        match (&outcome, search_time(&outcome)) {
            (Outcome::Times(times), Some(time_ms)) => {
                if self.seen.iter().all(|seen| time_ms < seen.time_ms) {
                    self.spent.without_gain = 0;
                }
                self.seen.push(Seen { index, time_ms, samples: times.len() });
            }
            (Outcome::Failed(failure), _) => {
                self.failed += 1;
                self.last_failure = Some(failure.clone());
            }
            (Outcome::Times(_), None) => {
                self.failed += 1;
                let message = "it ran and gave no time".to_owned();
                self.last_failure = Some(Failure { kind: FailureKind::Launch, message });
            }
        }
        Ok(outcome)
    }

    /// What the search alone knows of a configuration.
    pub fn searched(&self, config: &Config) -> Contender {
        let index = self.session.task.space.index_of(config);
        let seen = self.seen.iter().find(|seen| Some(seen.index) == index);
        let (time_ms, samples) = seen.map_or((f64::MAX, 0), |seen| (seen.time_ms, seen.samples));
        Contender { config: config.clone(), time_ms, interval_ms: None, samples }
    }

    /// What will be spent once the race is over, if the search ends now.
    fn with_race(&self) -> Spent {
        let race = ending::race_launches(self);
        let ms = self.spent.ms * (1.0 + race as f64 / self.spent.launches.max(1) as f64);
        Spent { launches: self.spent.launches + race, ms, ..self.spent }
    }

    fn best(&self) -> Option<&Seen> {
        self.seen.iter().min_by(|a, b| a.time_ms.total_cmp(&b.time_ms))
    }

    pub fn tell(&self, phase: Phase, tell: &mut dyn FnMut(&Progress<'_>) -> bool) -> Result<(), TuneError> {
        let best = self.best().map(|seen| (self.session.task.space.config(seen.index), seen.time_ms));
        let progress = Progress {
            spent: self.spent,
            best: best.as_ref().map(|(config, time)| (config, *time)),
            left_ms: self.session.budget.left_ms(&self.with_race()).filter(|_| phase == Phase::Searching),
            phase,
            replayed: !self.recorder.is_live(),
            run: self.recorder.run(),
        };
        if tell(&progress) { Ok(()) } else { Err(TuneError::Interrupted { run: self.recorder.run() }) }
    }
}

/// Tunes. `tell` is told after every measurement, and ends the session by answering `false`.
///
/// # Errors
/// [`TuneError`]; whatever it is, the measurements that were completed are in the store.
pub fn tune(
    session: &Session<'_>,
    device: &mut dyn Device,
    store: &mut Store,
    tell: &mut dyn FnMut(&Progress<'_>) -> bool,
) -> Result<Tuning, TuneError> {
    let space = session.task.space;
    if space.is_empty() {
        return Err(TuneError::EmptySpace);
    }
    let recorder = Recorder::start(device, store, &session.task, &session.plan(), session.fresh)?;
    let resumed = recorder.resumed();
    let mut bench = Bench {
        session,
        recorder,
        spent: Spent::default(),
        seen: Vec::new(),
        measured: std::collections::HashSet::new(),
        failed: 0,
        last_failure: None,
    };
    let (stopped, expected_gain) = search(&mut bench, tell)?;
    let search_launches = bench.spent.launches;
    let (race, finalists) = ending::race(&mut bench, tell)?;
    let raced = bench.spent.launches;
    if finalists.is_empty() {
        let tried = bench.spent.evaluations;
        let nothing = Failure { kind: FailureKind::Declined, message: "nothing was tried".to_owned() };
        let last = bench.last_failure.take().unwrap_or(nothing);
        bench.recorder.finish(None)?;
        return Err(TuneError::AllFailed { tried, last });
    }
    let mut decisions = Vec::new();
    let ending = ending::end(&mut bench, &finalists, &mut decisions, tell)?;
    let evidence = Evidence {
        chosen: ending.chosen,
        default: ending.default,
        runner_up: ending.runner_up,
        tried: bench.spent.evaluations,
        failed: bench.failed,
        valid: space.len(),
        launches: bench.spent.launches,
        stopped,
        expected_gain,
        verdict: ending.verdict,
        details: Some(Box::new(Details {
            search_launches,
            race,
            final_launches: bench.spent.launches - raced,
            decisions,
        })),
    };
    let run = bench.recorder.finish(Some(&evidence))?;
    Ok(Tuning { run, evidence, resumed })
}

/// The search: default, seeds, and what the strategy proposes. Returns why it ended, and what was still to be gained.
fn search(
    bench: &mut Bench<'_, '_>,
    tell: &mut dyn FnMut(&Progress<'_>) -> bool,
) -> Result<(String, Option<f64>), TuneError> {
    let session = bench.session;
    let space = session.task.space;
    let mut strategy = session.strategy.start(space, session.seed);
    let mut first: Vec<ConfigIndex> = Vec::new();
    for index in session.default.iter().chain(&session.seeds).filter_map(|config| space.index_of(config)) {
        if !first.contains(&index) {
            first.push(index);
        }
    }
    let mut first = first.into_iter();
    loop {
        if let Some(stopped) = session.budget.reached(&bench.with_race()) {
            return Ok((format!("the budget was spent ({stopped})"), strategy.remaining_gain()));
        }
        let Some(index) = first.next().or_else(|| strategy.propose()) else {
            return Ok(("everything was tried".to_owned(), Some(0.0)));
        };
        if bench.measured.contains(&index) {
            return Ok(("the strategy has nothing new to propose".to_owned(), strategy.remaining_gain()));
        }
        let outcome = bench.evaluate(index)?;
        strategy.observe(index, &outcome);
        if session.budget.asks_for_gain() && bench.spent.evaluations.is_multiple_of(ASK_EVERY) {
            bench.spent.remaining_gain = strategy.remaining_gain();
        }
        bench.tell(Phase::Searching, tell)?;
    }
}

/// The median of samples, and an interval of their mean's width about it.
pub(in crate::tuning) fn of_samples(config: &Config, times: &[f64]) -> Contender {
    let time_ms = statistics::median(times);
    let count = statistics::effective_count(times);
    let interval_ms = (times.len() >= 5 && count > 2.0).then(|| {
        // A mean's standard error from the robust spread, times what a median loses against a mean on normal noise.
        let error = 1.2533 * statistics::robust_spread(times) / count.sqrt();
        let half = statistics::student_critical(0.05, count - 1.0) * error;
        (time_ms - half, time_ms + half)
    });
    Contender { config: config.clone(), time_ms, interval_ms, samples: times.len() }
}
