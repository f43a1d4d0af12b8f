//! Opens a store file, and writes nothing before the file is known to be a store; and the tables.
//!
//! One row of `measurements` is one completed call of a device: an
//! [`Observation`](super::Observation) as JSON, with all digits of its times. Identities, spaces,
//! plans and decisions are JSON too.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::StoreError;

/// SQLite's `application_id` of a store: "UTdt". A file with another one is never written.
const APPLICATION_ID: i32 = 0x5554_6474;

/// Version of the schema.
const SCHEMA_VERSION: i32 = 3;

/// Numbers of runs are never given again, so that a process cannot write into the run that follows
/// a removed one.
const SCHEMA: &str = "
    CREATE TABLE runs (
        id       INTEGER PRIMARY KEY AUTOINCREMENT,
        device   TEXT NOT NULL,
        tunable  TEXT NOT NULL,
        workload TEXT NOT NULL,
        space    TEXT NOT NULL,
        plan     TEXT NOT NULL,
        started  TEXT NOT NULL,
        finished TEXT,
        ended    INTEGER,
        evidence TEXT
    ) STRICT;
    CREATE INDEX runs_of ON runs (tunable, workload);

    CREATE TABLE measurements (
        run_id      INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        sequence    INTEGER NOT NULL,
        observation TEXT NOT NULL,
        PRIMARY KEY (run_id, sequence)
    ) STRICT, WITHOUT ROWID;";

/// Turns an error of SQLite into a [`StoreError`].
pub(super) fn failure(file: &Path, wait: Duration, error: rusqlite::Error) -> StoreError {
    let to = file.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked {
            file: to,
            waited_ms: wait.as_millis(),
        },
        Some(ErrorCode::DatabaseCorrupt) => damaged(file, &error),
        Some(ErrorCode::NotADatabase) => foreign(file, "not an SQLite file"),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            StoreError::cannot_open(file, error)
        }
        _ => StoreError::Sqlite {
            file: to,
            source: error,
        },
    }
}

fn unusable(file: &Path, what: String) -> StoreError {
    StoreError::Unusable {
        file: file.to_owned(),
        what,
    }
}

fn foreign(file: &Path, what: &str) -> StoreError {
    let what = format!("{what}; it is left unchanged: name another store");
    unusable(file, what)
}

fn damaged(file: &Path, what: &dyn std::fmt::Display) -> StoreError {
    let what = format!("damaged: {what}; move it away, or mend it with sqlite3's .recover");
    unusable(file, what)
}

/// Returns true if the file is not empty. Reads only its first bytes: SQLite may roll back or merge
/// journals on opening it.
fn look(file: &Path) -> Result<bool, StoreError> {
    let cannot = |error: std::io::Error| StoreError::cannot_open(file, error);
    // Opening a pipe waits for its writer.
    if file
        .metadata()
        .is_ok_and(|there| !there.is_file() && !there.is_dir())
    {
        return Err(StoreError::cannot_open(file, "it is not a file"));
    }
    let mut header = Vec::new();
    match File::open(file) {
        Ok(opened) => opened.take(100).read_to_end(&mut header).map_err(cannot)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(cannot(error)),
    };
    if header.is_empty() {
        return Ok(false);
    }
    if !header.starts_with(b"SQLite format 3\0") {
        return Err(foreign(file, "not an SQLite file"));
    }
    // The application id, big-endian (SQLite's file format, section 1.3). 0: it may still be in the
    // journal.
    if let Some(&[a, b, c, d]) = header.get(68..72) {
        let id = i32::from_be_bytes([a, b, c, d]);
        if id != 0 && id != APPLICATION_ID {
            return Err(foreign(file, "an SQLite file of another program"));
        }
    }
    Ok(true)
}

/// Checks that the content is a store's; returns false if there is none.
fn is_store(connection: &Connection, file: &Path, wait: Duration) -> Result<bool, StoreError> {
    // One query, so that all four belong to the same state of the file. A virtual table has no root
    // page.
    let (id, version, tables, strange): (i32, i32, i64, Option<String>) = connection
        .query_row(
            "SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),
                    (SELECT count(*) FROM sqlite_schema),
                    (SELECT min(type || ' ' || name) FROM sqlite_schema
                     WHERE type NOT IN ('table', 'index') OR type = 'table' AND rootpage = 0)",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
        )
        .map_err(|error| failure(file, wait, error))?;
    if id == 0 && version == 0 && tables == 0 {
        return Ok(false);
    }
    if id != APPLICATION_ID {
        return Err(foreign(file, "an SQLite file of another program"));
    }
    if version != SCHEMA_VERSION {
        let what = format!(
            "its schema is version {version}, this program's is {SCHEMA_VERSION}: use that program, or move the file away"
        );
        return Err(unusable(file, what));
    }
    // A view could compute forever, and a trigger could change what the tuner writes.
    if let Some(strange) = strange {
        return Err(damaged(
            file,
            &format!("it has the {strange}, and no store has one"),
        ));
    }
    Ok(true)
}

/// Runs SQLite's own check of the file's structure.
fn check(connection: &Connection, file: &Path, wait: Duration) -> Result<(), StoreError> {
    let answer: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(|error| failure(file, wait, error))?;
    if answer == "ok" {
        Ok(())
    } else {
        Err(damaged(file, &answer))
    }
}

fn connect(file: &Path, wait: Duration, flags: OpenFlags) -> Result<Connection, StoreError> {
    let failure = |error| failure(file, wait, error);
    let connection = Connection::open_with_flags(file, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(failure)?;
    connection.busy_timeout(wait).map_err(failure)?;
    // The file may come from anywhere: nothing in its schema is run.
    for (setting, on) in [
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
    ] {
        connection.set_db_config(setting, on).map_err(failure)?;
    }
    Ok(connection)
}

pub(super) fn read_write(file: &Path, wait: Duration) -> Result<Connection, StoreError> {
    let failure = |error| failure(file, wait, error);
    if look(file)? {
        // Through a read-only connection, so that another program's file keeps even its journals.
        let reader = connect(file, wait, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        match is_store(&reader, file, wait) {
            Ok(true) => check(&reader, file, wait)?,
            // A file without tables, or with a killed program's journal, which only a writer can
            // roll back.
            Ok(false) | Err(StoreError::CannotOpen { .. }) => {}
            Err(error) => return Err(error),
        }
    } else if let Some(folder) = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder).map_err(|error| StoreError::cannot_open(file, error))?;
    }
    let mut connection = connect(
        file,
        wait,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
    )?;
    if !is_store(&connection, file, wait)? {
        // Before the switch to the write-ahead log, so that the application id is in the file's
        // header.
        make(&mut connection).map_err(failure)?;
    }
    write_ahead(&connection, wait).map_err(failure)?;
    connection
        .pragma_update(None, "synchronous", "FULL")
        .map_err(failure)?;
    connection
        .pragma_update(None, "foreign_keys", true)
        .map_err(failure)?;
    Ok(connection)
}

/// Makes the tables, unless another process has made them.
fn make(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: i32 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version == 0 {
        transaction.execute_batch(SCHEMA)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    }
    transaction.commit()
}

/// Switches to the write-ahead log, and waits for locks, which SQLite does not do here. On some
/// file systems the rollback journal stays, which is correct as well.
fn write_ahead(connection: &Connection, wait: Duration) -> rusqlite::Result<()> {
    let begun = Instant::now();
    loop {
        match connection.query_row("PRAGMA journal_mode = WAL", [], |row| {
            row.get::<_, String>(0)
        }) {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && begun.elapsed() < wait =>
            {
                std::thread::sleep(Duration::from_millis(2));
            }
            switched => return switched.map(|_| ()),
        }
    }
}

pub(super) fn read_only(file: &Path, wait: Duration) -> Result<Connection, StoreError> {
    let missing = || StoreError::Missing {
        file: file.to_owned(),
        what: "store".to_owned(),
    };
    if !look(file)? {
        return Err(missing());
    }
    let reader = connect(file, wait, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    if is_store(&reader, file, wait)? {
        Ok(reader)
    } else {
        Err(missing())
    }
}
