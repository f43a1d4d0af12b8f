//! Files that are not what they should be.
//!
//! The store is a database that programs open by themselves to look a result up. So a file that is
//! not a store, one of another version, or a damaged one must be an error that names the file, and
//! the file must keep every byte: an attempt to repair someone's data could cost all of it. SQLite
//! writes by itself in several ways (journals, write-ahead logs, triggers), and each has a test.

use std::path::Path;
use std::process::Command;

use tuner::store::contents::Prune;

use super::{Folder, place, plan};
use crate::prelude::*;

/// Returns the errors of both ways to open the file, and checks that the file is unchanged.
#[track_caller]
fn refused(file: &Path, said: &str) {
    let before = std::fs::read(file).unwrap();
    for error in [
        Store::open_waiting(file, Duration::from_millis(50)).unwrap_err(),
        Store::open_existing(file).unwrap_err(),
    ] {
        says(&error, &format!("{}", file.display()));
        says(&error, said);
    }
    assert_eq!(std::fs::read(file).unwrap(), before, "the file was changed");
}

#[test]
fn a_file_that_is_not_a_store_stays_unchanged() {
    let folder = Folder::new();
    for content in [&b"x"[..], b"# my notes\n", &[0; 4096]] {
        std::fs::write(folder.file(), content).unwrap();
        refused(&folder.file(), "it is left unchanged");
    }
    // A pipe is not waited for.
    let pipe = folder.path("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    for opened in [Store::open(&pipe), Store::open_existing(&pipe)] {
        let error = opened.unwrap_err();
        assert!(matches!(error, StoreError::CannotOpen { .. }), "{error}");
        says(error, "it is not a file");
    }
}

#[test]
fn another_programs_database_and_journals_stay_unchanged() {
    for (id, wal) in [(0, false), (0x1234, false), (0, true)] {
        let folder = Folder::new();
        let connection = folder.sql();
        if wal {
            connection
                .query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))
                .unwrap();
        }
        let notes = "CREATE TABLE notes (text); INSERT INTO notes VALUES ('dear diary')";
        connection.execute_batch(notes).unwrap();
        connection
            .pragma_update(None, "application_id", id)
            .unwrap();
        let log = folder.path("tune.sqlite-wal");
        let before = std::fs::read(&log).ok();
        refused(&folder.file(), "it is left unchanged");
        assert_eq!(std::fs::read(&log).ok(), before);
    }
}

#[test]
fn unfinished_output_of_a_killed_program_is_ignored() {
    let (theirs, key, mut store) = place();
    let folder = Folder::new();
    key.decided(&mut store, 64);
    drop(store);
    // As on a file system without a write-ahead log; the change is in the file before it is
    // finished.
    let connection = theirs.sql();
    connection
        .execute_batch(
            "PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1; \
             BEGIN; UPDATE runs SET plan = hex(randomblob(100000)); \
             UPDATE runs SET workload = 'unfinished'",
        )
        .unwrap();
    let journal = |of: &Folder| of.path("tune.sqlite-journal");
    std::fs::copy(theirs.file(), folder.file()).unwrap();
    assert!(std::fs::copy(journal(&theirs), journal(&folder)).unwrap() > 512);
    assert_eq!(folder.locations().find(&key.task()).unwrap().len(), 1);
    let store = Store::open_existing(&folder.file()).unwrap();
    assert_eq!(store.run_record(1).unwrap().plan, plan());
}

#[test]
fn a_store_with_another_schema_views_or_triggers_is_refused_unchanged() {
    let strange = "no store has one";
    let view = "ALTER TABLE runs RENAME TO others; CREATE VIEW runs AS WITH RECURSIVE n(i) AS \
                (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id FROM n";
    for (change, said) in [
        (
            "PRAGMA user_version = 1",
            "its schema is version 1, this program's is 3",
        ),
        (
            "PRAGMA user_version = 1000",
            "its schema is version 1000, this program's is 3",
        ),
        (view, strange),
        (
            "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM measurements; END",
            strange,
        ),
        ("CREATE VIRTUAL TABLE words USING fts5(text)", strange),
    ] {
        let (folder, key, mut store) = place();
        key.decided(&mut store, 64);
        drop(store);
        folder.sql().execute_batch(change).unwrap();
        refused(&folder.file(), said);
    }
}

/// Overwrites each page of 4,096 bytes in turn, from byte 100 on, behind the header of the first
/// page, and cuts the file at five places.
#[test]
fn a_damaged_file_is_refused_unchanged() {
    let (folder, key, mut store) = place();
    for _ in 0..40 {
        key.decided(&mut store, 64);
    }
    drop(store);
    assert!(!folder.path("tune.sqlite-wal").exists());
    let file = &folder.file();
    let whole = std::fs::read(file).unwrap();
    let pages = whole.len() / 4096;
    // Whatever page is overwritten: an error, or (a free or unused place) a store; never a panic,
    // and never a change.
    let overwritten = (0..pages).map(|page| {
        let mut damaged = whole.clone();
        damaged[page * 4096 + 100..(page + 1) * 4096].fill(0xa5);
        damaged
    });
    let cut = [whole.len() - 4096, whole.len() / 2, 4096, 1000, 200];
    let cut = cut.map(|cut| whole[..cut].to_vec());
    let (mut on_opening, mut later) = (0, 0);
    for (at, damaged) in cut.into_iter().chain(overwritten).enumerate() {
        std::fs::write(file, &damaged).unwrap();
        let opened = Store::open(file);
        assert!(at >= 5 || opened.is_err(), "a file that was cut");
        on_opening += usize::from(opened.is_err());
        if let Err(error) = opened.and_then(|store| store.runs()) {
            assert!(
                matches!(error, StoreError::Unusable { .. }),
                "{at}: {error}"
            );
            assert_eq!(std::fs::read(file).unwrap(), damaged);
            later += 1;
        }
    }
    // Most before anything is written.
    assert!(on_opening > 5 + pages / 2, "{on_opening} of {later}");
}

#[test]
fn a_locked_file_is_reported_as_locked_and_works_again_afterwards() {
    let (folder, key, mut store) = place();
    key.decided(&mut store, 64);
    let holder = folder.sql();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut store = Store::open_waiting(&folder.file(), Duration::from_millis(30)).unwrap();
    let error = store.begin(&key.task(), &plan()).unwrap_err();
    says(error, "locked by another process for more than 30 ms");
    assert!(
        key.found(&store).is_some(),
        "readers do not wait for a writer"
    );
    holder.execute_batch("COMMIT").unwrap();
    key.decided(&mut store, 32);
}

#[test]
fn folders_are_created_and_a_failure_to_create_one_is_reported() {
    let folder = Folder::new();
    drop(Store::open(&folder.path("a/b/tune.sqlite")).unwrap());
    std::fs::write(folder.path("plain"), "").unwrap();
    let error = Store::open(&folder.path("plain/tune.sqlite")).unwrap_err();
    assert!(matches!(error, StoreError::CannotOpen { .. }), "{error}");
    let missing = Store::open_existing(&folder.file());
    assert!(matches!(missing, Err(StoreError::Missing { .. })));
    // An empty file is what a program that was killed at once leaves.
    std::fs::write(folder.file(), "").unwrap();
    drop(folder.store());
}

#[test]
fn unreadable_records_are_named_and_can_be_pruned() {
    let (folder, key, mut store) = place();
    let run = key.decided(&mut store, 64);
    let unreadable = key.decided(&mut store, 32);
    let change = |change: &str| folder.sql().execute(change, []).unwrap();
    change("UPDATE measurements SET observation = substr(observation, 1, 15)");
    let error = store.observations(run).unwrap_err().to_string();
    assert!(
        error.contains("measurement 0 of run 1: ") && error.contains("EOF"),
        "{error}"
    );
    change(
        "UPDATE runs SET evidence = replace(evidence, '\"time_ms\":1.0', '\"time_ms\":null') \
         WHERE id = 2",
    );
    let errors = [
        store.runs().unwrap_err(),
        store.run_record(unreadable).unwrap_err(),
    ];
    for error in errors.map(|error| error.to_string()) {
        assert!(
            error.contains(": run 2: ") && error.contains("null"),
            "{error}"
        );
    }
    let prune = Prune {
        runs: vec![unreadable],
        ..Prune::default()
    };
    assert_eq!(store.prune(&prune).unwrap(), [unreadable]);
    assert_eq!(store.runs().unwrap().len(), 1);
}
