//! Tuning in ten lines: a space, a budget, and a closure that measures.
//!
//! ```
//! use tuner::budget::Budget;
//! use tuner::{SpaceBuilder, minimise};
//!
//! let space = SpaceBuilder::new().ints("tile", [8, 16, 32, 64]).ints("threads", [1, 2, 4]).build()?;
//! // At most 200 calls of the closure, which gives a time in ms.
//! let best = minimise(&space, Budget::launches(200), |config| {
//!     Ok(100.0 / config.int("threads") as f64 + (config.int("tile") - 32).abs() as f64)
//! })?;
//! assert_eq!((best.int("tile"), best.int("threads")), (32, 4));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::budget::Budget;
use crate::session::{Session, TuneError};
use crate::space::{Named, Space};
use crate::store::{DeviceIdentity, Locations, Store, StoreError, Task, TunableIdentity, Workload};
use crate::strategy::StrategyKind;
use crate::{Config, Device, Failure, FailureKind, Outcome, tune};

/// A closure as a device.
struct Closure<'s, F> {
    space: &'s Space,
    measure: F,
}

impl<F: FnMut(&Named) -> Result<f64, String>> Device for Closure<'_, F> {
    fn name(&self) -> String {
        "closure".to_owned()
    }

    fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
        let named = self.space.named(config);
        match (0..launches).map(|_| (self.measure)(&named)).collect() {
            Ok(times) => Outcome::Times(times),
            Err(message) => Outcome::Failed(Failure { kind: FailureKind::Launch, message }),
        }
    }
}

/// Returns the configuration for which `measure` (a time in ms, or why there is none) is smallest. Nothing is kept; see
/// [`first_use`] for that.
///
/// # Errors
/// An empty space; no configuration that can be measured.
pub fn minimise(
    space: &Space,
    budget: Budget,
    measure: impl FnMut(&Named) -> Result<f64, String>,
) -> Result<Named, TuneError> {
    let (device, tunable) = (DeviceIdentity::named("closure", "closure"), TunableIdentity::new("closure", 0));
    let workload = Workload::new();
    let task = Task { device: &device, tunable: &tunable, workload: &workload, space };
    let kind = StrategyKind::default_for(space.len(), budget.most_evaluations());
    let session = Session { launches: 1, ..Session::new(task, kind, 1, budget) };
    let failed = |error: std::io::Error| StoreError::CannotOpen { file: std::env::temp_dir(), what: error.to_string() };
    let folder = tempfile::tempdir().map_err(failed)?;
    let mut store = Store::open(&folder.path().join("tune.sqlite"))?;
    let tuning = tune(&session, &mut Closure { space, measure }, &mut store, &mut |_| true)?;
    Ok(space.named(&tuning.evidence.chosen.config))
}

/// Returns the fastest configuration of `kernel` on this machine, at the place of this call: what was found before and is
/// in the store, else the one for which `measure` (a time in ms, or why there is none) is smallest now, which is kept.
/// What was found for something alike, say with another driver, is among the first that are measured.
///
/// ```
/// use tuner::store::{Locations, Matching};
/// use tuner::{SpaceBuilder, first_use};
///
/// # let folder = tempfile::tempdir()?;
/// # let mut launches = 0;
/// # let mut launch = |tile: i64| { launches += 1; Ok::<f64, String>((tile - 16).abs() as f64 + 1.0) };
/// // Or Locations::choose(Application("my-tool"), None, None): the user's store, by the environment.
/// let stores = Locations { user: folder.path().join("tune.sqlite"), matching: Matching::Exact };
/// let space = SpaceBuilder::new().ints("tile", [8, 16, 32, 64]).build()?;
/// # for _ in 0..2 {
/// let best = first_use(&stores, "my kernel", 1, &space, |config| launch(config.int("tile")))?;
/// assert_eq!(best.int("tile"), 16);
/// # }
/// # assert!(launches < 100, "it was tuned twice");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of the store; an empty space; no configuration that can be measured.
#[track_caller]
pub fn first_use(
    stores: &Locations,
    kernel: &str,
    version: u32,
    space: &Space,
    measure: impl FnMut(&Named) -> Result<f64, String>,
) -> Result<Named, TuneError> {
    let name = crate::watch::cpu::model().unwrap_or_else(|| "this machine".to_owned());
    let (device, tunable) = (DeviceIdentity::named(name, "closure"), TunableIdentity::new(kernel, version));
    let workload = Workload::new().at_caller();
    let task = Task { device: &device, tunable: &tunable, workload: &workload, space };
    let found = stores.find(&task)?;
    if let Some(exact) = found.iter().find(|found| found.step() == 0) {
        return Ok(space.named(&exact.config));
    }
    let budget = Budget::evaluations(100);
    let kind = StrategyKind::default_for(space.len(), budget.most_evaluations());
    let session = Session {
        launches: 1,
        default: (!space.is_empty()).then(|| space.config(0)),
        seeds: found.into_iter().take(2).map(|found| found.config).collect(),
        ..Session::new(task, kind, 1, budget)
    };
    let mut store = Store::open(&stores.user)?;
    let tuning = tune(&session, &mut Closure { space, measure }, &mut store, &mut |_| true)?;
    Ok(space.named(&tuning.evidence.chosen.config))
}
