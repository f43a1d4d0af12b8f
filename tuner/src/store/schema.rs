//! The tables of the store, and how an older file becomes a newer one.
//!
//! Each entry of [`MIGRATIONS`] takes a file from the version before it (an empty file has version 0) to its own: the
//! whole history is here and runs in one transaction, so a file is never between two versions. An entry that has been
//! released is never edited; a change is a new entry.
//!
//! One row of `measurements` is one completed call of a device: either its times (64-bit little-endian floats, ms) or
//! its failure. Values of parameters are JSON arrays in the order of the space's parameters.

use rusqlite::{Connection, TransactionBehavior};

/// SQLite's `application_id` of a store: "UTdt". A file with another one is not ours and is never written.
pub const APPLICATION_ID: i32 = 0x5554_6474;

/// The schema that this program writes.
pub const SCHEMA_VERSION: i32 = MIGRATIONS.len() as i32;

/// SQL that takes a file from version `index` to version `index + 1`.
pub(super) const MIGRATIONS: &[&str] = &[
    // 1: what was measured, where, and of what.
    "
    CREATE TABLE devices (
        id                 INTEGER PRIMARY KEY,
        name               TEXT NOT NULL,
        uuid               TEXT NOT NULL,
        compute_capability TEXT NOT NULL,
        sm_count           INTEGER NOT NULL,
        driver             TEXT NOT NULL,
        runtime            TEXT NOT NULL,
        platform           TEXT NOT NULL,
        UNIQUE (name, uuid, compute_capability, sm_count, driver, runtime, platform)
    ) STRICT;

    CREATE TABLE tunables (
        id          INTEGER PRIMARY KEY,
        name        TEXT NOT NULL,
        version     INTEGER NOT NULL,
        kernel_hash TEXT NOT NULL,
        UNIQUE (name, version, kernel_hash)
    ) STRICT;

    CREATE TABLE spaces (
        id         INTEGER PRIMARY KEY,
        hash       TEXT NOT NULL UNIQUE,
        parameters TEXT NOT NULL,
        valid      INTEGER NOT NULL
    ) STRICT;

    CREATE TABLE workloads (
        id    INTEGER PRIMARY KEY,
        keys  TEXT NOT NULL,
        place TEXT NOT NULL,
        UNIQUE (keys, place)
    ) STRICT;

    CREATE TABLE runs (
        id          INTEGER PRIMARY KEY,
        uid         TEXT NOT NULL UNIQUE DEFAULT (lower(hex(randomblob(16)))),
        device_id   INTEGER NOT NULL REFERENCES devices (id),
        tunable_id  INTEGER NOT NULL REFERENCES tunables (id),
        space_id    INTEGER NOT NULL REFERENCES spaces (id),
        workload_id INTEGER NOT NULL REFERENCES workloads (id),
        strategy    TEXT NOT NULL,
        seed        INTEGER NOT NULL,
        budget      TEXT NOT NULL,
        started     TEXT NOT NULL,
        finished    TEXT
    ) STRICT;
    CREATE INDEX runs_of ON runs (tunable_id, workload_id, device_id);

    CREATE TABLE configurations (
        id       INTEGER PRIMARY KEY,
        space_id INTEGER NOT NULL REFERENCES spaces (id),
        value    TEXT NOT NULL,
        UNIQUE (space_id, value)
    ) STRICT;

    CREATE TABLE measurements (
        run_id           INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        sequence         INTEGER NOT NULL,
        configuration_id INTEGER NOT NULL REFERENCES configurations (id),
        launches         INTEGER NOT NULL,
        times            BLOB,
        failure          TEXT,
        message          TEXT,
        took_ms          REAL NOT NULL,
        at               TEXT NOT NULL,
        PRIMARY KEY (run_id, sequence),
        CHECK ((times IS NULL) = (failure IS NOT NULL)),
        CHECK ((failure IS NULL) = (message IS NULL))
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX measurements_of ON measurements (configuration_id);
    ",
    // 2: what was concluded, and what a person fixed.
    "
    CREATE TABLE decisions (
        id               INTEGER PRIMARY KEY,
        run_id           INTEGER NOT NULL UNIQUE REFERENCES runs (id) ON DELETE CASCADE,
        configuration_id INTEGER NOT NULL REFERENCES configurations (id),
        evidence         TEXT NOT NULL,
        at               TEXT NOT NULL
    ) STRICT;

    CREATE TABLE pins (
        id               INTEGER PRIMARY KEY,
        device_id        INTEGER NOT NULL REFERENCES devices (id),
        tunable_id       INTEGER NOT NULL REFERENCES tunables (id),
        workload_id      INTEGER NOT NULL REFERENCES workloads (id),
        configuration_id INTEGER NOT NULL REFERENCES configurations (id),
        reason           TEXT NOT NULL,
        at               TEXT NOT NULL,
        UNIQUE (device_id, tunable_id, workload_id)
    ) STRICT;
    ",
    // 3: the costs by objective, where there are several: a JSON array of one array for each.
    "
    ALTER TABLE measurements ADD COLUMN parts TEXT;
    ",
];

/// Brings an open file of version `from` to [`SCHEMA_VERSION`], or leaves it as it is.
///
/// Another process may be doing the same: the version is read again once the lock is held.
pub(super) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    migrate_to(connection, MIGRATIONS.len())
}

/// [`migrate`], but stops at `version`: how tests make old files.
pub(super) fn migrate_to(connection: &mut Connection, version: usize) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let from: i32 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    if from < version {
        for step in &MIGRATIONS[from..version] {
            transaction.execute_batch(step)?;
        }
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", version as i32)?;
    }
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::super::{Contender, Evidence, Matching, Plan, Store, StoreError, Task, TunableIdentity, Workload};
    use super::super::{DeviceIdentity, rows};
    use super::*;
    use crate::space::Space;
    use crate::{Config, Outcome, Value};

    /// What version 1 held of an unfinished run: written as that version wrote it.
    fn old_file(file: &std::path::Path, version: usize, space: &Space) {
        let mut connection = Connection::open(file).unwrap();
        migrate_to(&mut connection, version).unwrap();
        let hash = rows::hash_of(space).unwrap();
        connection
            .execute_batch(&format!(
                "INSERT INTO devices VALUES (1, 'gpu', '', '9.0', 132, '1', '2', 'CUDA');
                 INSERT INTO tunables VALUES (1, 'decode', 1, '');
                 INSERT INTO spaces VALUES (1, '{hash}', '[[\"block\",[32,64]]]', 2);
                 INSERT INTO workloads VALUES (1, '{{\"n\":5}}', '');
                 INSERT INTO runs VALUES (1, 'u', 1, 1, 1, 1, 'random', 7, '', '2026-01-01T00:00:00.000Z', NULL);
                 INSERT INTO configurations VALUES (1, 1, '[64]');
                 INSERT INTO measurements (run_id, sequence, configuration_id, launches, times, took_ms, at)
                     VALUES (1, 0, 1, 1, x'000000000000f83f', 2.0, '2026-01-01T00:00:00.000Z');"
            ))
            .unwrap();
    }

    #[test]
    fn a_decision_that_was_kept_without_its_details_is_read() {
        let contender = Contender { config: Config(vec![]), time_ms: 1.5, interval_ms: None, samples: 1 };
        let old = r#"{"chosen":{"config":[],"time_ms":1.5,"interval_ms":null,"samples":1},"default":null,
            "runner_up":null,"tried":1,"failed":0,"valid":2,"launches":1,"stopped":"","expected_gain":null,"verdict":""}"#;
        let read: Evidence = serde_json::from_str(old).unwrap();
        assert_eq!((read.chosen, read.details), (contender, None));
    }

    #[test]
    fn every_earlier_schema_is_brought_to_this_one_with_all_it_holds() {
        let space = Space::recorded(&["block".to_owned()], &[vec![Value::Int(32)], vec![Value::Int(64)]]).unwrap().0;
        for version in 1..=MIGRATIONS.len() {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("tune.sqlite");
            old_file(&file, version, &space);
            if version < MIGRATIONS.len() {
                let before = std::fs::read(&file).unwrap();
                let error = Store::open_read_only(&file).unwrap_err();
                assert!(matches!(error, StoreError::Older { .. }), "{error}");
                assert_eq!(std::fs::read(&file).unwrap(), before);
            }
            let mut store = Store::open(&file).unwrap();
            let device = DeviceIdentity {
                compute_capability: "9.0".to_owned(),
                sm_count: 132,
                driver: "1".to_owned(),
                runtime: "2".to_owned(),
                ..DeviceIdentity::named("gpu", "CUDA")
            };
            let (tunable, workload) = (TunableIdentity::new("decode", 1), Workload::new().with("n", 5).unwrap());
            let task = Task { device: &device, tunable: &tunable, workload: &workload, space: &space };
            let plan = Plan { strategy: "random".to_owned(), seed: 7, budget: String::new() };
            let (run, observations) = store.resume(&task, &plan).unwrap().unwrap();
            assert_eq!(observations.len(), 1);
            assert_eq!(observations[0].outcome, Outcome::Times(vec![1.5]));
            let chosen =
                Contender { config: Config(vec![Value::Int(64)]), time_ms: 1.5, interval_ms: None, samples: 1 };
            let evidence = Evidence {
                chosen: chosen.clone(),
                default: None,
                runner_up: None,
                tried: 1,
                failed: 0,
                valid: 2,
                launches: 1,
                stopped: String::new(),
                expected_gain: None,
                verdict: String::new(),
                details: None,
            };
            store.decide(run, &evidence).unwrap();
            assert_eq!(store.find(&task, Matching::Exact).unwrap()[0].config, chosen.config);
            let version: i32 =
                Connection::open(&file).unwrap().query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
            assert_eq!(version, SCHEMA_VERSION);
        }
    }
}
