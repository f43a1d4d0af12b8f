//! Tunes an operation when a machine first uses it, after katsdpsigproc's `tune`.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::budget::Budget;
use crate::compare::{self, compare};
use crate::session::{Session, TuneError};
use crate::space::{Named, Space};
use crate::store::{
    DeviceIdentity, Found, Locations, Matching, Store, StoreError, Task, TunableIdentity, Workload,
};
use crate::strategy::StrategyKind;
use crate::verdict::{Side, Verdict};
use crate::watch::NoWatch;
use crate::{Config, Device, FailureKind, Outcome, from_fn, tune};

/// Most near matches that are checked before the operation is tuned.
const MOST_CHECKED: usize = 3;

/// True once this process answers with test values.
static STUBBED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static FORCED: Cell<bool> = const { Cell::new(false) };
}

/// Lets [`tuned`] answer at once with the operation's test value, in this process and from now on.
///
/// Tests call it first, so that they depend neither on the stores of the machine nor on its speed.
pub fn stub() {
    STUBBED.store(true, Ordering::Relaxed);
}

/// Runs `work`, in which [`tuned`] tunes whatever a store or [`stub`] says, and keeps nothing.
///
/// For tests of the measurement itself. Only calls on this thread are forced.
pub fn forced<T>(work: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            FORCED.set(self.0);
        }
    }
    let _restore = Restore(FORCED.replace(true));
    work()
}

/// Operation, and the way in which its configuration is found.
#[derive(Clone, Debug)]
pub struct Operation<'a> {
    /// Program that asks. Its name gives the environment variables: `MY_TOOL_TUNE_DB` names the
    /// store of `my-tool`, `MY_TOOL_TUNE_MATCH` the [`Matching`].
    pub program: &'a str,
    /// Name of the operation, under which the store keeps its results.
    pub name: &'a str,
    /// Version of the operation. Results of other versions stay in the store and are used again on
    /// going back.
    pub version: u32,
    /// Device, platform and driver. Results belong to these three.
    pub device: &'a DeviceIdentity,
    /// Arguments of the operation: results for others are never used.
    pub arguments: Workload,
    /// Configurations.
    pub space: &'a Space,
    /// Configuration that the user asked for. It is the answer, whatever a store knows.
    pub given: Option<Config>,
    /// Configuration that stays unless another is shown to be faster. Without one the fastest is
    /// taken.
    pub default: Option<Config>,
    /// Answer in a [stubbed](stub) process; `None`: the default, or the space's first
    /// configuration.
    pub test: Option<Config>,
    /// Store; `None`: the store that the environment names, else the user's.
    pub stores: Option<Locations>,
    /// Match that a stored result must have.
    pub matching: Matching,
    /// Budget of a tuning. Default 100 evaluations.
    pub budget: Budget,
}

impl<'a> Operation<'a> {
    /// Makes an operation without arguments, with the matching that the environment asks for.
    pub fn new(
        program: &'a str,
        name: &'a str,
        version: u32,
        device: &'a DeviceIdentity,
        space: &'a Space,
    ) -> Self {
        Self {
            program,
            name,
            version,
            device,
            arguments: Workload::new(),
            space,
            given: None,
            default: None,
            test: None,
            stores: None,
            matching: Matching::choose(program),
            budget: Budget::evaluations(100),
        }
    }
}

/// Origin of a configuration.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Source {
    /// The user gave it.
    Given,
    /// Test value of a [stubbed](stub) process.
    Test,
    /// A store had it, for this device or, if the matching allows it, for another.
    Found(Box<Found>),
    /// It was tuned now, and is in the store unless the tuning was [forced].
    Tuned,
    /// It was tuned now, but could not be distinguished from the others, for the reason in words.
    /// The store keeps no decision.
    Undecided(String),
}

/// Configuration to use, and its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuned {
    /// Configuration, with the names of the parameters.
    pub config: Named,
    /// Origin: the user, a test value, a store or a tuning.
    pub source: Source,
}

impl fmt::Display for Tuned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.config)?;
        match &self.source {
            Source::Given => f.write_str("given by the user"),
            Source::Test => f.write_str("the value for tests"),
            Source::Found(found) => f.write_str(&found.in_words()),
            Source::Tuned => f.write_str("tuned now"),
            Source::Undecided(why) => write!(f, "not kept: {why}"),
        }
    }
}

/// Returns the configuration to use for an operation, and tunes it if nothing is known.
///
/// The first of these answers: the user's configuration; in a [stubbed](stub) process, the test
/// value; the store's result for the same name, version, arguments, device, platform and driver;
/// the nearest result, if the [`Matching`] allows it; a tuning, whose result the store keeps. Two
/// processes that ask for the same at once tune once: the second waits for the first.
///
/// `measure` returns the time of one launch in ms (on a GPU by its events), `None` to skip a
/// combination, or an error if it fails; it is called several times for each. Combinations that
/// fail are skipped, the first and the default included.
///
/// ```
/// use tuner::store::{DeviceIdentity, Locations};
/// use tuner::{Operation, SpaceBuilder, tuned};
///
/// let gpu = DeviceIdentity { driver: "580.1".to_owned(), ..DeviceIdentity::named("NVIDIA H200", "CUDA") };
/// let space = SpaceBuilder::new().ints("tile", [8, 16, 32, 64]).build()?;
/// let mut transpose = Operation::new("my-tool", "transpose", 1, &gpu, &space);
/// transpose.arguments = transpose.arguments.with("type", "float")?.with("rows", 4096)?;
/// # let folder = tempfile::tempdir()?;
/// # transpose.stores = Some(Locations { user: folder.path().join("tune.sqlite") });
/// # let mut launches = 0;
/// # let mut launch = |tile: i64| { launches += 1; Ok::<f64, String>((tile - 16).abs() as f64 + 1.0) };
/// # for _ in 0..2 {
/// let best = tuned(&transpose, |config| Ok::<_, String>(Some(launch(config.int("tile"))?)))?;
/// assert_eq!(best.config.int("tile"), 16);
/// # }
/// # assert!(launches < 300, "it was tuned twice");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the store cannot be read or written, the space is empty, the given configuration has another
/// number of values than the space has parameters, or no combination works; then the error says
/// what the last one failed of.
pub fn tuned<E: ToString>(
    operation: &Operation<'_>,
    mut measure: impl FnMut(&Named) -> Result<Option<f64>, E>,
) -> Result<Tuned, TuneError> {
    let space = operation.space;
    let answer = |config: &Config, source| {
        Ok(Tuned {
            config: space.named(config),
            source,
        })
    };
    if let Some(given) = &operation.given {
        let (values, parameters) = (given.0.len(), space.parameters().len());
        if values != parameters {
            let what = format!(
                "the configuration given has {values} values, the space {parameters} parameters"
            );
            return Err(StoreError::Wrong(what).into());
        }
        return answer(given, Source::Given);
    }
    if space.is_empty() {
        return Err(TuneError::EmptySpace(space.report().clone()));
    }
    let forced = FORCED.get();
    if STUBBED.load(Ordering::Relaxed) && !forced {
        let first = || space.config(0);
        let test = operation
            .test
            .clone()
            .or_else(|| operation.default.clone())
            .unwrap_or_else(first);
        return answer(&test, Source::Test);
    }
    let mut device = from_fn(&operation.device.name, |config, launches| {
        let named = space.named(config);
        match (0..launches)
            .map(|_| measure(&named))
            .collect::<Result<Option<Vec<f64>>, E>>()
        {
            Ok(Some(times)) => Outcome::Times(times),
            Ok(None) => Outcome::Failed(FailureKind::Declined.because("it was skipped")),
            Err(error) => Outcome::Failed(FailureKind::Launch.because(error.to_string())),
        }
    });
    let tunable = TunableIdentity::new(operation.name, operation.version);
    let task = Task {
        device: operation.device,
        tunable: &tunable,
        workload: &operation.arguments,
        space,
    };
    if forced {
        let folder = tempfile::tempdir()
            .map_err(|error| StoreError::cannot_open(&std::env::temp_dir(), error))?;
        let mut store = Store::open(&folder.path().join("tune.sqlite"))?;
        let (config, source) = tune_now(operation, task, Vec::new(), &mut device, &mut store)?;
        return answer(&config, source);
    }
    let stores = operation
        .stores
        .clone()
        .map_or_else(|| Locations::choose(operation.program), Ok)?;
    if let Some(found) = known(operation, stores.find(&task)?, &mut device) {
        return answer(&found.config.clone(), Source::Found(Box::new(found)));
    }
    let mut store = Store::open(&stores.user)?;
    // Another process may be tuning the same: its result is waited for.
    let _turn = store.wait_for_turn(&task)?;
    let found = store.find(&task)?;
    if let Some(exact) = found.iter().find(|found| found.step() == 0) {
        return answer(&exact.config, Source::Found(Box::new(exact.clone())));
    }
    // Measured first, and used only if they are found again.
    let seeds = found
        .into_iter()
        .take(2)
        .map(|found| found.config)
        .collect();
    let (config, source) = tune_now(operation, task, seeds, &mut device, &mut store)?;
    answer(&config, source)
}

/// Returns the first of `found`, the closest first, that the operation's matching accepts.
fn known(operation: &Operation<'_>, found: Vec<Found>, device: &mut dyn Device) -> Option<Found> {
    let checked = |found: &Found, device: &mut dyn Device| match operation.matching {
        _ if found.step() == 0 => true,
        Matching::Exact => false,
        Matching::Nearest => true,
        Matching::NearestChecked => is_no_slower(operation.default.as_ref(), &found.config, device),
    };
    found
        .into_iter()
        .take(MOST_CHECKED)
        .find(|found| checked(found, device))
}

/// Returns true if `config` works here, and is not shown to be slower than the default.
fn is_no_slower(default: Option<&Config>, config: &Config, device: &mut dyn Device) -> bool {
    let plan = compare::Plan {
        rounds: 2,
        warm_up: 1,
        ..compare::Plan::default()
    };
    let plan = compare::Plan {
        rules: plan.rules.fixed(10),
        ..plan
    };
    let works = |device: &mut dyn Device| matches!(device.measure(config, 1), Outcome::Times(_));
    match default.map(|default| compare(device, default, config, &plan, &mut NoWatch)) {
        Some(Ok(comparison)) => comparison.judgement.verdict != Verdict::Better(Side::A),
        Some(Err(dropped)) => dropped.side == 0 && works(device),
        None => works(device),
    }
}

/// Tunes, a second time without the default if that fails.
fn tune_now(
    operation: &Operation<'_>,
    task: Task<'_>,
    seeds: Vec<Config>,
    device: &mut dyn Device,
    store: &mut Store,
) -> Result<(Config, Source), TuneError> {
    let kind = StrategyKind::default_for(task.space.len(), operation.budget.most_evaluations());
    let default = operation.default.clone();
    let mut session = Session {
        default,
        seeds,
        ..Session::new(task, kind, 1, operation.budget.clone())
    };
    let tuning = match tune(&session, device, store, &mut |_| true) {
        Err(TuneError::DefaultFailed(_)) => {
            session.default = None;
            tune(&session, device, store, &mut |_| true)
        }
        other => other,
    }?;
    let evidence = tuning.evidence;
    Ok((
        evidence.chosen.config,
        if tuning.decided {
            Source::Tuned
        } else {
            Source::Undecided(evidence.verdict)
        },
    ))
}
