//! A tuning from beginning to end: search, race, final rounds, decision. The store keeps every
//! measurement at once.
//!
//! The search measures the default, then seeds (configurations that were good elsewhere), then the
//! strategy's proposals, until the budget ends. Its winner of few samples may be lucky: the best
//! configurations are raced on fresh samples ([`racing`](super::racing)), the fastest of the race
//! and the default are measured once more, and only these last samples decide
//! ([`decide`](crate::compare::decide)).
//!
//! A budget of launches or time includes race and final rounds. If too little is left for them, the
//! default stays. All steps are a function of the kept samples, so a killed session repeats itself
//! from the store and goes on.

use super::bench::Bench;
use super::ending;
use super::session::{Phase, Progress, Session, TuneError, Tuning};
use crate::space::ConfigIndex;
use crate::store::{Details, Evidence, Recorder, Store};
use crate::watch::{NoWatch, Watch};
use crate::{Config, Device, FailureKind};

/// Tunes. `tell` is called after every measurement, and ends the session by returning false.
///
/// ```
/// use tuner::session::Session;
/// use tuner::store::{DeviceIdentity, Store, Task, TunableIdentity, Workload};
/// use tuner::strategy::StrategyKind;
/// use tuner::{Config, Outcome, SpaceBuilder, Value, from_fn, tune};
///
/// let space = SpaceBuilder::new().powers_of_two("block", 32, 1024).build()?;
/// // Launches a kernel with blocks of this many threads; here the times are made up.
/// let mut kernel = from_fn("kernel", |config, launches| match config.0[0] {
///     Value::Int(block) => Outcome::Times(vec![1.0 + (block - 128).abs() as f64 / 100.0; launches]),
///     _ => unreachable!("the space has whole numbers"),
/// });
///
/// let (gpu, transpose) = (DeviceIdentity::named("NVIDIA H200", "CUDA"), TunableIdentity::new("transpose", 1));
/// let rows = Workload::new().with("rows", 4096)?;
/// let task = Task { device: &gpu, tunable: &transpose, workload: &rows, space: &space };
/// let default = Some(Config(vec![Value::Int(256)]));
/// let session = Session { default, ..Session::new(task, StrategyKind::Exhaustive, 1, "10min".parse()?) };
/// # let folder = tempfile::tempdir()?;
/// let mut store = Store::open(&folder.path().join("tune.sqlite"))?;
/// let tuning = tune(&session, &mut kernel, &mut store, &mut |_| true)?;
/// assert_eq!(tuning.evidence.chosen.config, Config(vec![Value::Int(128)]));
/// println!("{}", tuning.evidence.verdict);
/// // The next program finds it.
/// assert_eq!(store.find(&task)?[0].config, tuning.evidence.chosen.config);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`TuneError`]; the store keeps all completed measurements.
pub fn tune(
    session: &Session<'_>,
    device: &mut dyn Device,
    store: &mut Store,
    tell: &mut dyn FnMut(&Progress<'_>) -> bool,
) -> Result<Tuning, TuneError> {
    tune_watched(session, device, store, &mut NoWatch, tell)
}

/// Tunes like [`tune`], and decides on samples that `watch` finds undisturbed: while others use the
/// machine, the final rounds wait, and after [`Session::patience`] nothing is decided.
///
/// # Errors
/// Same errors as [`tune`].
pub fn tune_watched(
    session: &Session<'_>,
    device: &mut dyn Device,
    store: &mut Store,
    watch: &mut dyn Watch,
    tell: &mut dyn FnMut(&Progress<'_>) -> bool,
) -> Result<Tuning, TuneError> {
    if session.task.space.is_empty() {
        return Err(TuneError::EmptySpace(session.task.space.report().clone()));
    }
    let plan = session.plan();
    let recorder = Recorder::start(device, store, &session.task, &plan, session.fresh)?;
    let (seeds, resumed) = (recorder.plan().seeds.clone(), recorder.resumed());
    let mut bench = Bench::new(session, recorder, watch);
    let stopped = match search(&mut bench, &seeds, tell) {
        Err(error @ TuneError::DefaultFailed(_)) => {
            bench.recorder.finish(None)?;
            return Err(error);
        }
        searched => searched?,
    };
    bench.searched = bench.spent.launches;
    let (race, finalists) = ending::race(&mut bench, tell)?;
    let raced = bench.spent.launches;
    if finalists.is_empty() {
        let tried = bench.spent.evaluations;
        let nothing = FailureKind::Declined.because("nothing was tried");
        let last = bench.last_failure.take().unwrap_or(nothing);
        bench.recorder.finish(None)?;
        return Err(TuneError::AllFailed { tried, last });
    }
    bench.begin_final_rounds();
    let mut decisions = Vec::new();
    let ending = ending::end(&mut bench, &finalists, &mut decisions, tell)?;
    let evidence = Evidence {
        chosen: ending.chosen,
        default: ending.default,
        runner_up: ending.runner_up,
        tried: bench.spent.evaluations,
        failed: bench.failed,
        valid: session.task.space.len(),
        launches: bench.spent.launches,
        stopped,
        verdict: ending.verdict,
        details: Some(Box::new(Details {
            search_launches: bench.searched,
            race,
            final_launches: bench.spent.launches - raced,
            decisions,
        })),
    };
    let decided = ending.decided;
    let run = bench.recorder.finish(decided.then_some(&evidence))?;
    Ok(Tuning {
        run,
        evidence,
        decided,
        resumed,
    })
}

/// Searches: default, seeds, and the strategy's proposals. Returns the reason of the end.
fn search(
    bench: &mut Bench<'_, '_>,
    seeds: &[Config],
    tell: &mut dyn FnMut(&Progress<'_>) -> bool,
) -> Result<String, TuneError> {
    let session = bench.session;
    let space = session.task.space;
    let mut strategy = session.strategy.start(space, session.seed);
    let mut first: Vec<ConfigIndex> = Vec::new();
    for index in session
        .default
        .iter()
        .chain(seeds)
        .filter_map(|config| space.index_of(config))
    {
        if !first.contains(&index) {
            first.push(index);
        }
    }
    let mut first = first.into_iter();
    loop {
        if let Some(stopped) = session.budget.reached(&bench.with_ending()) {
            return Ok(format!("the budget was spent ({stopped})"));
        }
        let Some(index) = first.next().or_else(|| strategy.propose()) else {
            return Ok("everything was tried".to_owned());
        };
        if bench.measured.contains(&index) {
            return Ok("the strategy has nothing new to propose".to_owned());
        }
        let outcome = bench.evaluate(index)?;
        let is_default = session
            .default
            .as_ref()
            .is_some_and(|default| space.index_of(default) == Some(index));
        if let (true, 0, Some(failure)) = (is_default, bench.seen.len(), &bench.last_failure) {
            return Err(TuneError::DefaultFailed(failure.clone()));
        }
        strategy.observe(index, &outcome);
        bench.tell(Phase::Searching, tell)?;
    }
}
