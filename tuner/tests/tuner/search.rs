//! Searches on a line of configurations whose times are known.

use tuner::session::{Session, TuneError, Tuning};
use tuner::store::{DeviceIdentity, Store, Task, TunableIdentity, Workload};
use tuner::strategy::StrategyKind;
use tuner::{Config, Outcome, Space, SpaceBuilder, Value, tune};

use crate::made;
use crate::store::Folder;

pub(crate) fn line(most: i64) -> Space {
    SpaceBuilder::new().range("x", 0, most, 1).build().unwrap()
}

pub(crate) fn at(x: i64) -> Config {
    Config(vec![Value::Int(x)])
}

/// Searches the line exhaustively with one launch each, unless `change` says otherwise. `time` is
/// told the number and how many launches there were before.
fn searched(
    space: &Space,
    budget: &str,
    store: &mut Store,
    mut time: impl FnMut(i64, usize) -> f64,
    change: impl FnOnce(&mut Session<'_>),
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Tuning, TuneError> {
    let (device, tunable) = (
        DeviceIdentity::named("line", "test"),
        TunableIdentity::new("line", 1),
    );
    let workload = Workload::new();
    let task = Task {
        device: &device,
        tunable: &tunable,
        workload: &workload,
        space,
    };
    let mut session = Session::new(task, StrategyKind::Exhaustive, 1, budget.parse().unwrap());
    session.launches = 1;
    change(&mut session);
    let mut launched = 0;
    let mut device = made(|config, launches| {
        let Value::Int(x) = config.0[0] else {
            panic!("{config:?}")
        };
        launched += launches;
        Outcome::Times(
            (launched - launches..launched)
                .map(|before| time(x, before))
                .collect(),
        )
    });
    tune(&session, &mut device, store, &mut |_| go_on())
}

pub(crate) fn whole(
    space: &Space,
    budget: &str,
    time: impl FnMut(i64, usize) -> f64,
    change: impl FnOnce(&mut Session<'_>),
) -> Tuning {
    searched(
        space,
        budget,
        &mut Folder::new().store(),
        time,
        change,
        &mut || true,
    )
    .unwrap()
}

#[test]
fn the_runner_up_is_the_next_best_and_not_the_default() {
    // The default comes second.
    let time = |x: i64, _: usize| {
        if x > 7 {
            1.15 + x as f64 / 100.0
        } else {
            1.0 + 0.1 * (7 - x) as f64
        }
    };
    let evidence = whole(&line(9), "10", time, |session| {
        session.default = Some(at(6));
    })
    .evidence;
    assert_eq!(
        (&evidence.chosen.config, &evidence.default.unwrap().config),
        (&at(7), &at(6))
    );
    assert_eq!(evidence.runner_up.unwrap().config, at(5));
}

#[test]
fn final_rounds_are_left_what_they_can_use_and_not_half_of_a_large_budget() {
    let time = |x: i64, _: usize| 1.0 + x as f64 / 1000.0;
    let evidence = whole(&line(999), "launches=800", time, |session| {
        session.default = Some(at(500));
    })
    .evidence;
    // Four sides of 41 launches, two of as many once more, and a race of 120: the search has the
    // rest.
    let searched = evidence.details.unwrap().search_launches;
    assert!(
        searched >= 800 - 6 * 41 - 120 && evidence.launches <= 800,
        "{searched} of {}",
        evidence.launches
    );
}

#[test]
fn launches_of_an_earlier_process_count_towards_the_budget() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tune.sqlite");
    let run = |most: usize| {
        let mut measured = 0;
        let mut go_on = || {
            measured += 1;
            measured < most
        };
        let mut store = Store::open(&file).unwrap();
        let change = |session: &mut Session<'_>| session.finalists = 0;
        searched(
            &line(19),
            "time=3600",
            &mut store,
            |_, _| 1.0,
            change,
            &mut go_on,
        )
    };
    assert!(matches!(run(3), Err(TuneError::Interrupted { .. })));
    // Three measurements of 25 minutes are more than an hour, two are not.
    let changed = rusqlite::Connection::open(&file).unwrap().execute(
        "UPDATE measurements SET observation = json_set(observation, '$.took_ms', 1.5e6)",
        [],
    );
    assert_eq!(changed.unwrap(), 3);
    let tuning = run(usize::MAX).unwrap();
    assert_eq!(
        (tuning.resumed, tuning.evidence.tried),
        (3, 3),
        "{:?}",
        tuning.evidence
    );
}
