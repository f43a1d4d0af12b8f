//! Tunes a kernel when a machine first uses it, in one call.

use crate::budget::Budget;
use crate::session::{Session, TuneError};
use crate::space::{Named, Space};
use crate::store::{DeviceIdentity, Locations, Store, Task, TunableIdentity, Workload};
use crate::strategy::StrategyKind;
use crate::{Failure, FailureKind, Outcome, from_fn, tune};

/// Returns the fastest configuration of `kernel` on this machine, at the place of this call.
///
/// It is the store's, else the one with the smallest time by `measure` (in ms, or the reason of a failure), which the
/// store then keeps. Configurations found for something similar, say with another driver, are measured first.
///
/// ```
/// use tuner::store::Locations;
/// use tuner::{SpaceBuilder, first_use};
///
/// # let folder = tempfile::tempdir()?;
/// # let mut launches = 0;
/// # let mut launch = |tile: i64| { launches += 1; Ok::<f64, String>((tile - 16).abs() as f64 + 1.0) };
/// // Or Locations::choose("my-tool"): the user's store, by the environment.
/// let stores = Locations { user: folder.path().join("tune.sqlite") };
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
/// If the store cannot be read or written, the space is empty, or no configuration can be measured.
#[track_caller]
pub fn first_use(
    stores: &Locations,
    kernel: &str,
    version: u32,
    space: &Space,
    mut measure: impl FnMut(&Named) -> Result<f64, String>,
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
    let mut closure = from_fn("closure", |config, launches| {
        let named = space.named(config);
        match (0..launches).map(|_| measure(&named)).collect() {
            Ok(times) => Outcome::Times(times),
            Err(message) => Outcome::Failed(Failure { kind: FailureKind::Launch, message }),
        }
    });
    let mut store = Store::open(&stores.user)?;
    let tuning = tune(&session, &mut closure, &mut store, &mut |_| true)?;
    Ok(space.named(&tuning.evidence.chosen.config))
}
