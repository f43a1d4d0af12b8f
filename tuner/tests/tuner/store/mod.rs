//! The store: decisions found again by the same and by other processes, and files that are shared,
//! old, damaged, foreign, or whose writer was killed.

mod files;
mod keeping;
mod lookup;
pub mod processes;

use std::path::PathBuf;

use tuner::space::Space;
use tuner::store::{
    Contender, DeviceIdentity, Evidence, Observation, Plan, Store, Task, TunableIdentity, Workload,
};
use tuner::{Config, Outcome, Value};

pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self) -> PathBuf {
        self.path("tune.sqlite")
    }

    pub fn store(&self) -> Store {
        Store::open(&self.file()).unwrap()
    }

    /// Counts the locks of runs.
    fn locks(&self) -> usize {
        let names = std::fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        names
            .filter(|name| name.as_encoded_bytes().ends_with(b".lock"))
            .count()
    }
}

/// Makes a new store and the key of a task.
pub fn place() -> (Folder, Key, Store) {
    let folder = Folder::new();
    let store = folder.store();
    (folder, Key::new(), store)
}

fn h200() -> DeviceIdentity {
    DeviceIdentity {
        name: "NVIDIA H200".to_owned(),
        uuid: "GPU-1".to_owned(),
        compute_capability: "9.0".to_owned(),
        sm_count: 132,
        driver: "580.1".to_owned(),
        runtime: "13.0".to_owned(),
        platform: "CUDA".to_owned(),
    }
}

fn space() -> Space {
    let names = ["block", "mode"].map(str::to_owned);
    let rows: Vec<Vec<Value>> = [32, 64, 128]
        .iter()
        .flat_map(|&b| ["a", "b"].map(|mode| vec![Value::Int(b), Value::from(mode)]))
        .collect();
    Space::recorded(&names, &rows).unwrap().0
}

pub fn config(block: i64, mode: &str) -> Config {
    Config(vec![Value::Int(block), Value::from(mode)])
}

pub fn plan() -> Plan {
    Plan {
        strategy: "random".to_owned(),
        seed: 7,
        budget: "10 evaluations".to_owned(),
        ..Plan::default()
    }
}

pub fn times(config: Config, times: &[f64]) -> Observation {
    Observation {
        config,
        launches: times.len(),
        outcome: Outcome::Times(times.to_vec()),
        took_ms: 1.5,
    }
}

pub fn evidence(config: Config, time_ms: f64) -> Evidence {
    Evidence {
        chosen: Contender {
            config,
            time_ms,
            interval_ms: Some((time_ms * 0.9, time_ms * 1.1)),
            samples: 5,
        },
        default: None,
        runner_up: None,
        tried: 3,
        failed: 1,
        valid: 6,
        launches: 15,
        stopped: "the budget".to_owned(),
        verdict: "better".to_owned(),
        details: None,
    }
}

/// Everything a task needs, to be changed one thing at a time.
#[derive(Clone)]
pub struct Key {
    pub device: DeviceIdentity,
    pub tunable: TunableIdentity,
    pub workload: Workload,
    pub space: Space,
}

impl Key {
    fn new() -> Self {
        let workload = Workload::new()
            .with("events", 1000)
            .unwrap()
            .with("layout", "mep")
            .unwrap();
        Self {
            device: h200(),
            tunable: TunableIdentity::new("decode", 3),
            workload,
            space: space(),
        }
    }

    pub fn task(&self) -> Task<'_> {
        Task {
            device: &self.device,
            tunable: &self.tunable,
            workload: &self.workload,
            space: &self.space,
        }
    }

    /// Decides for a configuration.
    fn decided(&self, store: &mut Store, block: i64) -> i64 {
        let mut run = store.begin(&self.task(), &plan()).unwrap();
        store
            .record(&mut run, &times(config(block, "a"), &[1.0, 1.25]))
            .unwrap();
        let id = run.id();
        store
            .finish(run, Some(&evidence(config(block, "a"), 1.0)))
            .unwrap();
        id
    }

    /// Returns the block size of the decision found first, and the conditions that were relaxed.
    fn found(&self, store: &Store) -> Option<(Value, Vec<(u8, String)>)> {
        let found = store.find(&self.task()).unwrap().into_iter().next()?;
        Some((found.config.0[0].clone(), found.relaxed))
    }
}
