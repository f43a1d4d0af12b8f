//! Several processes at one store, and processes that are killed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tuner::store::{Observation, Plan, Recorder};
use tuner_score::synthetic::Synthetic;

use super::{Folder, config, evidence, launch, place, plan, times};
use crate::prelude::*;

/// This test program again, as another process that runs one of the helpers below.
pub fn helper(name: &str, file: &Path, environment: &[(&str, &str)]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            name,
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("TUNING_STORE_HELPER", file)
        .envs(environment.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Returns the store that this helper process should use, or nothing if this process is not a
/// helper.
pub fn asked() -> Option<PathBuf> {
    std::env::var_os("TUNING_STORE_HELPER").map(PathBuf::from)
}

/// Returns what a helper printed, which must succeed.
pub fn printed(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    text
}

const STEPS: usize = 120;

/// Proposals that depend on every bit of everything observed before.
fn next(seed: u64, seen: &[Outcome], configurations: usize) -> usize {
    let bytes = seen
        .iter()
        .flat_map(|outcome| serde_json::to_vec(outcome).unwrap());
    let mix = |hash: u64, byte| {
        (hash ^ u64::from(byte))
            .wrapping_mul(0x0100_0000_01b3)
            .rotate_left(23)
    };
    (bytes.fold(seed, mix) % configurations as u64) as usize
}

/// Tunes, continuing an unfinished session, and reports each completed measurement to `said`.
fn tune(file: &Path, mut said: impl FnMut(usize)) -> Vec<Outcome> {
    let spec = "seed=11,noise=0.05,outliers=0.02,fail=0.1,wrong=0.05";
    let synthetic = Synthetic::new(spec.parse().unwrap());
    let key = Key {
        space: synthetic.space().clone(),
        ..Key::new()
    };
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
    let file = asked().expect("another test starts this one");
    tune(&file, |done| println!("\ndone {done}"));
    println!("\nfinished");
}

#[test]
fn kills_at_random_moments_lose_no_completed_measurement() {
    let undisturbed = tune(&Folder::new().file(), |_| {});
    let (mut chance, mut kills) = (Chance(12345), 0);
    while kills < 200 {
        let folder = Folder::new();
        let mut done = 0;
        loop {
            let mut child = helper("store::processes::helper_that_tunes", &folder.file(), &[]);
            let output = BufReader::new(child.stdout.take().unwrap());
            let moment = Duration::from_micros((30_000.0 * chance.next()) as u64);
            let killer = std::thread::spawn(move || {
                std::thread::sleep(moment);
                child.kill().unwrap();
                child.wait().unwrap()
            });
            let mut finished = false;
            for line in output.lines().map_while(Result::ok) {
                finished |= line == "finished";
                let number = line
                    .strip_prefix("done ")
                    .and_then(|number| number.parse().ok());
                done = number.unwrap_or(done);
            }
            killer.join().unwrap();
            kills += 1;
            if !folder.file().exists() {
                continue;
            }
            let store = folder.store();
            let runs = store.runs().unwrap();
            assert!(runs.len() <= 1, "it was started again");
            let Some(run) = runs.first() else {
                assert_eq!(done, 0);
                continue;
            };
            let kept = store.observations(run.record.run).unwrap();
            assert!(
                kept.len() >= done,
                "{done} were done and {} kept",
                kept.len()
            );
            assert!(
                kept.iter()
                    .zip(&undisturbed)
                    .all(|(kept, undisturbed)| kept.outcome == *undisturbed)
            );
            if finished || run.record.finished.is_some() {
                assert_eq!(kept.len(), STEPS);
                break;
            }
        }
    }
}

const WRITTEN: usize = 50;

/// What the process of this number writes.
fn written(number: i64) -> Vec<Observation> {
    let one = |at| times(config(32, "b"), &[number as f64, at as f64]);
    (0..WRITTEN).map(one).collect()
}

#[test]
#[ignore = "started by another test, in a process of its own"]
fn helper_that_writes() {
    let file = asked().expect("another test starts this one");
    let number: i64 = std::env::var("TUNING_STORE_NUMBER")
        .unwrap()
        .parse()
        .unwrap();
    let key = Key::new().with("process", number);
    let mut store = Store::open(&file).unwrap();
    let mut run = key.begin(&mut store);
    for observation in written(number) {
        store.record(&mut run, &observation).unwrap();
    }
    store
        .finish(run, Some(&evidence(config(32, "b"), 1.0)))
        .unwrap();
}

#[test]
fn eight_processes_write_one_new_store_at_once() {
    let folder = Folder::new();
    let start = |number: usize| {
        let number = [("TUNING_STORE_NUMBER", &*number.to_string())];
        helper(
            "store::processes::helper_that_writes",
            &folder.file(),
            &number,
        )
    };
    for child in (0..8).map(start).collect::<Vec<_>>() {
        printed(child);
    }
    let store = folder.store();
    let runs = store.runs().unwrap();
    assert_eq!(runs.len(), 8);
    for run in runs {
        let number = number(&Config(vec![run.record.workload.keys()["process"].clone()]));
        assert_eq!(store.observations(run.record.run).unwrap(), written(number));
    }
}

#[test]
fn a_run_that_a_living_process_continues_is_not_taken() {
    let (folder, key, mut one) = place();
    let mut other = folder.store();
    let mut run = key.begin(&mut one);
    one.record(&mut run, &launch(64)).unwrap();
    assert!(other.resume(&key.task(), &plan()).unwrap().is_none());
    drop(run);
    let another = Plan { seed: 8, ..plan() };
    assert!(other.resume(&key.task(), &another).unwrap().is_none());
    let (_, observations) = other.resume(&key.task(), &plan()).unwrap().unwrap();
    assert_eq!(observations, [launch(64)]);
}

#[test]
fn a_run_that_was_removed_or_continued_meanwhile_is_not_written_to() {
    // As another process does where the file system has no locks.
    for change in [
        "DELETE FROM runs",
        "INSERT INTO measurements SELECT run_id, sequence + 1, observation FROM measurements",
    ] {
        let (folder, key, mut store) = place();
        let taken = |result: Result<(), StoreError>| {
            let error = result.unwrap_err();
            assert!(
                matches!(error, StoreError::RunTaken { run: 1, .. }),
                "{error}"
            );
        };
        let mut run = key.begin(&mut store);
        store.record(&mut run, &launch(32)).unwrap();
        folder.sql().execute_batch(change).unwrap();
        assert_eq!(key.begin(&mut store).id(), 2, "no number is given again");
        taken(store.record(&mut run, &launch(64)));
        if change.starts_with("DELETE") {
            taken(store.finish(run, Some(&evidence(config(32, "a"), 1.0))));
        }
        let run = store.runs().unwrap().pop().unwrap();
        assert_eq!((run.measured, run.record.finished), (0, None));
    }
}

#[test]
fn only_an_unfinished_run_with_the_same_budget_is_continued() {
    let (_folder, key, mut store) = place();
    let of = |budget: &str| Plan {
        budget: budget.to_owned(),
        ..plan()
    };
    let budgets = ["10 evaluations", "8 evaluations"];
    for budget in budgets {
        let mut run = store.begin(&key.task(), &of(budget)).unwrap();
        store.record(&mut run, &launch(32)).unwrap();
    }
    for (budget, id) in budgets.into_iter().zip(1..) {
        let (run, _) = store.resume(&key.task(), &of(budget)).unwrap().unwrap();
        assert_eq!(run.id(), id);
    }
    let mut never = made(|config, _| panic!("{config:?} is measured again"));
    let longer = of("12 evaluations");
    let mut recorder =
        Recorder::start(&mut never, &mut store, &key.task(), &longer, false).unwrap();
    assert_eq!((recorder.run(), recorder.resumed()), (2, 1));
    assert!(matches!(recorder.measure(&config(64, "a"), 1), Failed(_)));
    let error = recorder.finish(None).unwrap_err().to_string();
    assert!(error.contains("begin a fresh run"), "{error}");
    says(error, "another budget than 8 evaluations");
    assert_eq!(store.observations(2).unwrap().len(), 1);
}
