//! Several processes at one store, and processes that are killed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tuner::store::{Observation, Plan, Recorder, Store, StoreError};
use tuner::{Device, Outcome, Value};
use tuner_score::synthetic::Synthetic;

use super::{Folder, Key, config, evidence, place, plan, times};
use crate::made;

/// This test program again, as another process that runs one of the helpers below.
pub fn helper(name: &str, file: &Path, change: impl FnOnce(&mut Command)) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            name,
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("TUNING_STORE_HELPER", file)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    change(&mut command);
    command.spawn().unwrap()
}

/// Returns the store that this helper process should use, or nothing if this process is not a
/// helper.
fn asked() -> Option<PathBuf> {
    std::env::var_os("TUNING_STORE_HELPER").map(PathBuf::from)
}

const STEPS: usize = 120;

fn synthetic_key() -> (Key, Synthetic) {
    let synthetic = Synthetic::new(
        "seed=11,noise=0.05,outliers=0.02,fail=0.1,wrong=0.05"
            .parse()
            .unwrap(),
    );
    let key = Key {
        space: synthetic.space().clone(),
        ..Key::new()
    };
    (key, synthetic)
}

/// Proposals that depend on every bit of everything observed before.
fn next(seed: u64, seen: &[Outcome], configurations: usize) -> usize {
    let mut hash = seed;
    for byte in seen
        .iter()
        .flat_map(|outcome| serde_json::to_vec(outcome).unwrap())
    {
        hash = (hash ^ u64::from(byte))
            .wrapping_mul(0x0100_0000_01b3)
            .rotate_left(23);
    }
    (hash % configurations as u64) as usize
}

/// Tunes, continuing an unfinished session, and reports each completed measurement to `said`.
fn tune(file: &Path, mut said: impl FnMut(usize)) -> Vec<Outcome> {
    let (key, synthetic) = synthetic_key();
    // Samples do not depend on what was measured before, as a real device's hardly do.
    let mut device = made(|config, launches| {
        std::thread::sleep(Duration::from_micros(300));
        synthetic.clone().measure(config, launches)
    });
    let mut store = Store::open(file).unwrap();
    let mut recorder =
        Recorder::start(&mut device, &mut store, &key.task(), &plan(), false).unwrap();
    let mut seen = Vec::new();
    while seen.len() < STEPS {
        let config = key.space.config(next(plan().seed, &seen, key.space.len()));
        let live = recorder.is_live();
        seen.push(recorder.measure(&config, 3));
        if let Some(error) = recorder.take_error() {
            panic!("{error}");
        }
        if live {
            said(seen.len());
        }
    }
    recorder
        .finish(Some(&evidence(key.space.config(0), 1.0)))
        .unwrap();
    seen
}

#[test]
#[ignore = "started by another test, in a process of its own"]
fn helper_that_tunes() {
    if let Some(file) = asked() {
        tune(&file, |done| println!("\ndone {done}"));
        println!("\nfinished");
    }
}

#[test]
fn killed_at_random_moments_no_completed_measurement_is_lost_and_it_goes_on_as_if_nothing_had_been()
{
    if asked().is_some() {
        return;
    }
    let undisturbed = tune(&Folder::new().file(), |_| {});
    let mut random = 12345u64;
    let mut kills = 0;
    while kills < 200 {
        let folder = Folder::new();
        let mut done = 0;
        loop {
            let mut child = helper(
                "store::processes::helper_that_tunes",
                &folder.file(),
                |_| {},
            );
            let output = BufReader::new(child.stdout.take().unwrap());
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let microseconds = (random >> 33) % 30_000;
            let killer = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_micros(microseconds));
                child.kill().unwrap();
                child.wait().unwrap()
            });
            let mut finished = false;
            for line in output.lines().map_while(Result::ok) {
                finished |= line == "finished";
                if let Some(number) = line
                    .strip_prefix("done ")
                    .and_then(|number| number.parse().ok())
                {
                    done = number;
                }
            }
            killer.join().unwrap();
            if !folder.file().exists() {
                kills += 1;
                continue;
            }
            let store = folder.store();
            let runs = store.runs().unwrap();
            assert!(runs.len() <= 1, "it was started again");
            let Some(run) = runs.first() else {
                assert_eq!(done, 0);
                kills += 1;
                continue;
            };
            let kept = store.observations(run.record.run).unwrap();
            assert!(
                kept.len() >= done,
                "{done} were done and {} kept",
                kept.len()
            );
            for (kept, undisturbed) in kept.iter().zip(&undisturbed) {
                assert_eq!(&kept.outcome, undisturbed);
            }
            if finished || run.record.finished.is_some() {
                assert_eq!(kept.len(), STEPS);
                break;
            }
            kills += 1;
        }
    }
}

#[test]
#[ignore = "started by another test, in a process of its own"]
fn helper_that_writes() {
    let Some(file) = asked() else { return };
    let number: i64 = std::env::var("TUNING_STORE_NUMBER")
        .unwrap()
        .parse()
        .unwrap();
    let mut key = Key::new();
    key.workload = key.workload.with("process", number).unwrap();
    let mut store = Store::open(&file).unwrap();
    let mut run = store.begin(&key.task(), &plan()).unwrap();
    for at in 0..50 {
        store
            .record(
                &mut run,
                &times(config(32, "b"), &[number as f64, f64::from(at)]),
            )
            .unwrap();
    }
    store
        .finish(run, Some(&evidence(config(32, "b"), 1.0)))
        .unwrap();
}

#[test]
fn eight_processes_write_one_new_store_at_once() {
    if asked().is_some() {
        return;
    }
    let folder = Folder::new();
    let start = |number: i64| {
        helper(
            "store::processes::helper_that_writes",
            &folder.file(),
            |command| {
                command.env("TUNING_STORE_NUMBER", number.to_string());
            },
        )
    };
    let children: Vec<Child> = (0..8).map(start).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
    let store = folder.store();
    let runs = store.runs().unwrap();
    assert_eq!(runs.len(), 8);
    for run in runs {
        let number = match run.record.workload.keys()["process"] {
            Value::Int(number) => number as f64,
            ref other => panic!("{other}"),
        };
        let kept = store.observations(run.record.run).unwrap();
        let expected: Vec<Observation> = (0..50)
            .map(|at| times(config(32, "b"), &[number, f64::from(at)]))
            .collect();
        assert_eq!(kept, expected);
    }
}

#[test]
fn a_run_that_a_living_process_continues_is_not_taken() {
    let folder = Folder::new();
    let key = Key::new();
    let (mut one, mut other) = (folder.store(), folder.store());
    let mut run = one.begin(&key.task(), &plan()).unwrap();
    let observation = times(config(64, "b"), &[1.0]);
    one.record(&mut run, &observation).unwrap();
    assert!(other.resume(&key.task(), &plan()).unwrap().is_none());
    let another = Plan { seed: 8, ..plan() };
    drop(run);
    assert!(other.resume(&key.task(), &another).unwrap().is_none());
    let (_, observations) = other.resume(&key.task(), &plan()).unwrap().unwrap();
    assert_eq!(observations, [observation]);
}

#[test]
fn a_run_that_was_removed_meanwhile_is_not_written_into_the_next_one() {
    let (folder, key, mut store) = place();
    let taken = |error: StoreError| {
        assert!(
            matches!(error, StoreError::RunTaken { run: 1, .. }),
            "{error}"
        );
    };
    let mut run = store.begin(&key.task(), &plan()).unwrap();
    // As another process does where the file system has no locks.
    rusqlite::Connection::open(folder.file())
        .unwrap()
        .execute_batch("DELETE FROM runs")
        .unwrap();
    assert_eq!(
        store.begin(&key.task(), &plan()).unwrap().id(),
        2,
        "no number is given again"
    );
    taken(
        store
            .record(&mut run, &times(config(32, "a"), &[1.0]))
            .unwrap_err(),
    );
    taken(
        store
            .finish(run, Some(&evidence(config(32, "a"), 1.0)))
            .unwrap_err(),
    );
    let runs = store.runs().unwrap();
    assert_eq!(
        (runs.len(), runs[0].measured, &runs[0].record.finished),
        (1, 0, &None)
    );
}

#[test]
fn a_run_of_a_space_with_other_valid_configurations_is_not_continued() {
    let (_folder, key, mut store) = place();
    drop(store.begin(&key.task(), &plan()).unwrap());
    // The same parameters and values.
    let names = ["block", "mode"].map(str::to_owned);
    let of = |left_out: &[(i64, &str)]| {
        let all = [32, 64, 128]
            .into_iter()
            .flat_map(|block| ["a", "b"].map(|mode| (block, mode)));
        let rows = all
            .filter(|row| !left_out.contains(row))
            .map(|(block, mode)| vec![Value::Int(block), mode.into()]);
        tuner::space::Space::recorded(&names, &rows.collect::<Vec<_>>())
            .unwrap()
            .0
    };
    for (left_out, is_same) in [
        (&[][..], true),
        (&[(64, "b")], false),
        (&[(128, "b")], false),
    ] {
        let other = Key {
            space: of(left_out),
            ..key.clone()
        };
        assert_eq!(
            store.resume(&other.task(), &plan()).unwrap().is_some(),
            is_same,
            "without {left_out:?}"
        );
    }
    // As many configurations, but others.
    let one = Key {
        space: of(&[(64, "b")]),
        ..key.clone()
    };
    drop(store.begin(&one.task(), &plan()).unwrap());
    let other = Key {
        space: of(&[(128, "b")]),
        ..key
    };
    assert!(store.resume(&other.task(), &plan()).unwrap().is_none());
    assert!(store.resume(&one.task(), &plan()).unwrap().is_some());
}

#[test]
fn a_run_that_another_process_has_continued_is_taken() {
    let (folder, key, mut store) = place();
    let mut run = store.begin(&key.task(), &plan()).unwrap();
    store
        .record(&mut run, &times(config(32, "a"), &[1.0]))
        .unwrap();
    // As another process does where the file system has no locks.
    let next =
        "INSERT INTO measurements SELECT run_id, sequence + 1, observation FROM measurements";
    rusqlite::Connection::open(folder.file())
        .unwrap()
        .execute_batch(next)
        .unwrap();
    let error = store
        .record(&mut run, &times(config(64, "a"), &[1.0]))
        .unwrap_err();
    assert!(
        matches!(error, StoreError::RunTaken { run: 1, .. }),
        "{error}"
    );
}

#[test]
fn of_unfinished_runs_the_one_with_the_same_budget_is_continued_and_never_mixed_with_other_requests()
 {
    let (_folder, key, mut store) = place();
    let other = Plan {
        budget: "8 evaluations".to_owned(),
        ..plan()
    };
    for plan in [plan(), other.clone()] {
        let mut run = store.begin(&key.task(), &plan).unwrap();
        store
            .record(&mut run, &times(config(32, "a"), &[1.0]))
            .unwrap();
    }
    for (plan, run) in [(plan(), 1), (other, 2)] {
        assert_eq!(
            store.resume(&key.task(), &plan).unwrap().unwrap().0.id(),
            run
        );
    }
    let mut never = made(|config, _| panic!("{config:?} is measured again"));
    let longer = Plan {
        budget: "12 evaluations".to_owned(),
        ..plan()
    };
    let mut recorder =
        Recorder::start(&mut never, &mut store, &key.task(), &longer, false).unwrap();
    assert_eq!((recorder.run(), recorder.resumed()), (2, 1));
    assert!(matches!(
        recorder.measure(&config(64, "a"), 1),
        Outcome::Failed(_)
    ));
    let error = recorder.finish(None).unwrap_err().to_string();
    assert!(
        error.contains("another budget than 8 evaluations") && error.contains("begin a fresh run"),
        "{error}"
    );
    assert_eq!(store.observations(2).unwrap().len(), 1);
}
