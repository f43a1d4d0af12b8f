//! The store: decisions found again by the same and by other processes, and files that are shared,
//! old, damaged, foreign, or whose writer was killed.

mod files;
mod lookup;
pub mod processes;

use std::path::PathBuf;

use rusqlite::Connection;
use tuner::store::{Contender, Evidence, Observation, Plan, Run};

use crate::prelude::*;

pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn file(&self) -> PathBuf {
        self.path("tune.sqlite")
    }

    pub fn locations(&self) -> Locations {
        Locations { user: self.file() }
    }

    pub fn store(&self) -> Store {
        Store::open(&self.file()).unwrap()
    }

    pub fn sql(&self) -> Connection {
        Connection::open(self.file()).unwrap()
    }

    /// Counts the locks of runs.
    fn locks(&self) -> usize {
        let names = std::fs::read_dir(self.0.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name());
        names
            .filter(|name| name.as_encoded_bytes().ends_with(b".lock"))
            .count()
    }
}

/// Makes a new store and the key of a task.
fn place() -> (Folder, Key, Store) {
    let folder = Folder::new();
    let store = folder.store();
    (folder, Key::new(), store)
}

/// The space of three blocks and two modes, without some rows.
fn without(left_out: &[(i64, &str)]) -> Space {
    let rows = [32, 64, 128]
        .into_iter()
        .flat_map(|block| ["a", "b"].map(|mode| (block, mode)));
    let rows = rows.filter(|row| !left_out.contains(row));
    let rows: Vec<Vec<Value>> = rows.map(|(block, mode)| config(block, mode).0).collect();
    Space::recorded(&["block", "mode"].map(str::to_owned), &rows)
        .unwrap()
        .0
}

fn config(block: i64, mode: &str) -> Config {
    Config(vec![block.into(), mode.into()])
}

fn plan() -> Plan {
    Plan {
        strategy: "random".to_owned(),
        seed: 7,
        budget: "10 evaluations".to_owned(),
        ..Plan::default()
    }
}

fn times(config: Config, times: &[f64]) -> Observation {
    Observation {
        config,
        launches: times.len(),
        outcome: Times(times.to_vec()),
        took_ms: 1.5,
    }
}

/// One launch of a block.
fn launch(block: i64) -> Observation {
    times(config(block, "a"), &[1.0])
}

fn evidence(config: Config, time_ms: f64) -> Evidence {
    let interval_ms = Some((time_ms * 0.9, time_ms * 1.1));
    Evidence {
        chosen: Contender {
            config,
            time_ms,
            interval_ms,
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

impl Key {
    fn new() -> Self {
        let device = DeviceIdentity {
            uuid: "GPU-1".to_owned(),
            compute_capability: "9.0".to_owned(),
            sm_count: 132,
            driver: "580.1".to_owned(),
            runtime: "13.0".to_owned(),
            ..DeviceIdentity::named("NVIDIA H200", "CUDA")
        };
        let key = Self {
            device,
            ..Self::of(without(&[]))
        };
        key.with("events", 1000).with("layout", "mep")
    }

    /// Adds to the workload.
    fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.workload = self.workload.with(name, value).unwrap();
        self
    }

    fn begin(&self, store: &mut Store) -> Run {
        store.begin(&self.task(), &plan()).unwrap()
    }

    /// Decides for a block.
    fn decided(&self, store: &mut Store, block: i64) -> i64 {
        let mut run = self.begin(store);
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
