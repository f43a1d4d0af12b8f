//! Files that are not what they should be.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use tuner::store::contents::Prune;
use tuner::store::{Locations, Store, StoreError};

use super::{Folder, Key, place, plan};

/// Returns the errors of both ways to open the file, and checks that the file is unchanged.
fn refused(file: &Path) -> [StoreError; 2] {
    let before = std::fs::read(file).unwrap();
    let errors = [
        Store::open_waiting(file, Duration::from_millis(50)).unwrap_err(),
        Store::open_existing(file).unwrap_err(),
    ];
    assert_eq!(std::fs::read(file).unwrap(), before, "the file was changed");
    for error in &errors {
        assert!(
            error.to_string().starts_with(&file.display().to_string()),
            "{error}"
        );
    }
    errors
}

#[test]
fn a_file_that_is_no_store_is_left_alone() {
    let folder = Folder::new();
    let file = folder.file();
    for content in [&b"x"[..], b"# my notes\n", &[0; 4096]] {
        std::fs::write(&file, content).unwrap();
        assert!(
            refused(&file)
                .iter()
                .all(|error| error.to_string().contains("it is left alone"))
        );
    }
    // A pipe is not waited for.
    let pipe = folder.path("pipe");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    for error in [
        Store::open(&pipe).unwrap_err(),
        Store::open_existing(&pipe).unwrap_err(),
    ] {
        assert!(
            matches!(&error, StoreError::CannotOpen { what, .. } if what == "it is no file"),
            "{error}"
        );
    }
}

#[test]
fn another_programs_database_and_its_journals_are_left_alone() {
    for (id, wal) in [(0, false), (0x1234, false), (0, true)] {
        let folder = Folder::new();
        let file = folder.file();
        let connection = Connection::open(&file).unwrap();
        if wal {
            connection
                .query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))
                .unwrap();
        }
        connection
            .execute_batch("CREATE TABLE notes (text); INSERT INTO notes VALUES ('dear diary')")
            .unwrap();
        connection
            .pragma_update(None, "application_id", id)
            .unwrap();
        let log = folder.path("tune.sqlite-wal");
        let before = std::fs::read(&log).ok();
        assert!(
            refused(&file)
                .iter()
                .all(|error| error.to_string().contains("it is left alone"))
        );
        assert_eq!(std::fs::read(&log).ok(), before);
    }
}

#[test]
fn unfinished_output_of_a_killed_program_is_ignored() {
    let (theirs, folder) = (Folder::new(), Folder::new());
    let key = Key::new();
    key.decided(&mut theirs.store(), 64);
    let connection = Connection::open(theirs.file()).unwrap();
    // As on a file system without a write-ahead log; the change is in the file before it is
    // finished.
    connection
        .execute_batch(
            "PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1;
             BEGIN; UPDATE runs SET plan = hex(randomblob(100000)); UPDATE runs SET workload = 'unfinished'",
        )
        .unwrap();
    let journal = |of: &Folder| of.path("tune.sqlite-journal");
    std::fs::copy(theirs.file(), folder.file()).unwrap();
    assert!(std::fs::copy(journal(&theirs), journal(&folder)).unwrap() > 512);
    let locations = Locations {
        user: folder.file(),
    };
    assert_eq!(locations.find(&key.task()).unwrap().len(), 1);
    let record = Store::open_existing(&folder.file())
        .unwrap()
        .run_record(1)
        .unwrap();
    assert_eq!(record.plan, plan());
}

#[test]
fn a_store_of_another_schema_or_one_that_would_compute_something_is_refused_and_left_alone() {
    let strange = "no store has one";
    for (change, said) in [
        (
            "PRAGMA user_version = 1",
            "its schema is version 1, this program's is 3",
        ),
        (
            "PRAGMA user_version = 1000",
            "its schema is version 1000, this program's is 3",
        ),
        (
            "ALTER TABLE runs RENAME TO others; CREATE VIEW runs AS
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id FROM n",
            strange,
        ),
        (
            "CREATE TRIGGER more AFTER INSERT ON runs BEGIN DELETE FROM measurements; END",
            strange,
        ),
        ("CREATE VIRTUAL TABLE words USING fts5(text)", strange),
    ] {
        let folder = Folder::new();
        Key::new().decided(&mut folder.store(), 64);
        Connection::open(folder.file())
            .unwrap()
            .execute_batch(change)
            .unwrap();
        for error in refused(&folder.file()) {
            assert!(error.to_string().contains(said), "{error}");
        }
    }
}

#[test]
fn a_damaged_file_is_refused_and_left_alone() {
    let folder = Folder::new();
    let key = Key::new();
    for _ in 0..40 {
        key.decided(&mut folder.store(), 64);
    }
    let whole = std::fs::read(folder.file()).unwrap();
    assert!(!folder.path("tune.sqlite-wal").exists());
    let file = folder.file();
    let (mut errors, mut found_on_opening) = (0, 0);
    for cut in [whole.len() - 4096, whole.len() / 2, 4096, 1000, 200] {
        std::fs::write(&file, &whole[..cut]).unwrap();
        let error = Store::open(&file).unwrap_err();
        assert!(
            matches!(error, StoreError::Unusable { .. }),
            "cut to {cut}: {error}"
        );
        assert_eq!(std::fs::read(&file).unwrap(), &whole[..cut]);
    }
    // Whatever page is overwritten: an error, or (a free or unused place) a store; never a panic,
    // and never a change.
    for page in 0..whole.len() / 4096 {
        let mut damaged = whole.clone();
        damaged[page * 4096 + 100..(page + 1) * 4096].fill(0xa5);
        std::fs::write(&file, &damaged).unwrap();
        let opened = Store::open(&file);
        found_on_opening += usize::from(opened.is_err());
        if let Err(error) = opened.and_then(|store| store.runs()) {
            assert!(
                matches!(error, StoreError::Unusable { .. }),
                "page {page}: {error}"
            );
            assert_eq!(std::fs::read(&file).unwrap(), damaged);
            errors += 1;
        }
    }
    assert!(errors > whole.len() / 4096 / 2, "{errors}");
    // Before anything is written.
    assert!(
        found_on_opening > whole.len() / 4096 / 2,
        "{found_on_opening} of {errors}"
    );
}

#[test]
fn a_locked_file_is_reported_as_locked_and_works_again_afterwards() {
    let folder = Folder::new();
    let key = Key::new();
    key.decided(&mut folder.store(), 64);
    let holder = Connection::open(folder.file()).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut store = Store::open_waiting(&folder.file(), Duration::from_millis(30)).unwrap();
    let error = store.begin(&key.task(), &plan()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("locked by another process for more than 30 ms"),
        "{error}"
    );
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
    let deep = folder.path("a/b/tune.sqlite");
    drop(Store::open(&deep).unwrap());
    std::fs::write(folder.path("plain"), "").unwrap();
    let error = Store::open(&folder.path("plain/tune.sqlite")).unwrap_err();
    assert!(matches!(error, StoreError::CannotOpen { .. }), "{error}");
    assert!(matches!(
        Store::open_existing(&folder.file()),
        Err(StoreError::Missing { .. })
    ));
    // An empty file is what a program that was killed at once leaves.
    std::fs::write(folder.file(), "").unwrap();
    drop(folder.store());
}

#[test]
fn unreadable_records_are_named_and_can_be_pruned() {
    let (folder, key, mut store) = place();
    let run = key.decided(&mut store, 64);
    let unreadable = key.decided(&mut store, 32);
    let connection = Connection::open(folder.file()).unwrap();
    connection
        .execute(
            "UPDATE measurements SET observation = substr(observation, 1, 15)",
            [],
        )
        .unwrap();
    let error = store.observations(run).unwrap_err().to_string();
    assert!(
        error.contains("measurement 0 of run 1: ") && error.contains("EOF"),
        "{error}"
    );
    let broken = "UPDATE runs SET evidence = replace(evidence, '\"time_ms\":1.0', '\"time_ms\":null') WHERE id = ?1";
    assert_eq!(connection.execute(broken, [unreadable]).unwrap(), 1);
    for error in [
        store.runs().unwrap_err(),
        store.run_record(unreadable).unwrap_err(),
    ] {
        assert!(
            error.to_string().contains(": run 2: ") && error.to_string().contains("null"),
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
