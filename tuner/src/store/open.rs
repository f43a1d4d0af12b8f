//! Opening a store file, so that nothing is written before it is known to be ours.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::StoreError;
use super::schema::{APPLICATION_ID, MIGRATIONS, SCHEMA_VERSION, migrate};

/// SQLite's error, seen from the outside.
pub(super) fn failure(file: &Path, wait: Duration, error: rusqlite::Error) -> StoreError {
    let file = file.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Locked { file, waited_ms: wait.as_millis() }
        }
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Corrupt { file, what: error.to_string() },
        Some(ErrorCode::NotADatabase) => StoreError::Foreign { file, what: "not an SQLite file".to_owned() },
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            StoreError::CannotOpen { file, what: error.to_string() }
        }
        _ => StoreError::Sqlite { file, source: error },
    }
}

/// What the first bytes tell without SQLite, which on opening a file might already roll back or merge its journals:
/// whether there is anything in it.
fn look(file: &Path) -> Result<bool, StoreError> {
    let cannot = |error: std::io::Error| StoreError::CannotOpen { file: file.to_owned(), what: error.to_string() };
    // To open a pipe is to wait for somebody who writes to it.
    if file.metadata().is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        return Err(StoreError::CannotOpen { file: file.to_owned(), what: "it is no file".to_owned() });
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
    let foreign = |what: String| Err(StoreError::Foreign { file: file.to_owned(), what });
    if !header.starts_with(b"SQLite format 3\0") {
        return foreign("not an SQLite file".to_owned());
    }
    // The application id, big-endian (SQLite's file format, section 1.3). 0: perhaps only in the journal yet.
    if let Some(&[a, b, c, d]) = header.get(68..72) {
        let id = i32::from_be_bytes([a, b, c, d]);
        if id != 0 && id != APPLICATION_ID {
            return foreign(format!("an SQLite file of another program (application id {id:#010x})"));
        }
    }
    Ok(true)
}

/// Looks at the content through a connection: its version if it is ours; 0 if there is nothing in it.
fn version(connection: &Connection, file: &Path, wait: Duration) -> Result<i32, StoreError> {
    let failure = |error| failure(file, wait, error);
    // One read transaction: all four belong to the same state of the file. Of what a store never has, a virtual table is
    // one without a page.
    let (id, version, tables, strange) = connection
        .query_row(
            "SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),
                    (SELECT count(*) FROM sqlite_schema),
                    (SELECT min(type || ' ' || name) FROM sqlite_schema
                     WHERE type NOT IN ('table', 'index') OR type = 'table' AND rootpage = 0)",
            [],
            |row| Ok((row.get::<_, i32>(0)?, row.get::<_, i32>(1)?, row.get::<_, i64>(2)?, row.get(3)?)),
        )
        .map_err(failure)?;
    if id == 0 && version == 0 && tables == 0 {
        return Ok(0);
    }
    if id != APPLICATION_ID {
        let what = format!("an SQLite file of another program (application id {id:#010x}, {tables} tables)");
        return Err(StoreError::Foreign { file: file.to_owned(), what });
    }
    if version > SCHEMA_VERSION {
        return Err(StoreError::Newer { file: file.to_owned(), found: version, known: SCHEMA_VERSION });
    }
    let corrupt = |what: String| Err(StoreError::Corrupt { file: file.to_owned(), what });
    if version < 1 {
        return corrupt(format!("its schema has the version {version}"));
    }
    // It could compute without end, or change what is written.
    if let Some::<String>(strange) = strange {
        return corrupt(format!("it has the {strange}, and no store has one"));
    }
    Ok(version)
}

/// SQLite's own check of the file's structure.
fn check(connection: &Connection, file: &Path, wait: Duration) -> Result<(), StoreError> {
    let answer: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(|error| failure(file, wait, error))?;
    if answer == "ok" { Ok(()) } else { Err(StoreError::Corrupt { file: file.to_owned(), what: answer }) }
}

fn connect(file: &Path, wait: Duration, flags: OpenFlags) -> Result<Connection, StoreError> {
    let failure = |error| failure(file, wait, error);
    let connection = Connection::open_with_flags(file, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(failure)?;
    connection.busy_timeout(wait).map_err(failure)?;
    // The file may come from anybody: what its schema says is not to be run.
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
        // Through a connection that cannot write, so that another program's file keeps even its journals.
        let reader = connect(file, wait, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        match version(&reader, file, wait) {
            // A file without tables, or a killed program's journal that a reader may not roll back: the writer decides.
            Ok(0) | Err(StoreError::CannotOpen { .. }) => {}
            Ok(_) => check(&reader, file, wait)?,
            Err(error) => return Err(error),
        }
    } else if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .map_err(|error| StoreError::CannotOpen { file: file.to_owned(), what: error.to_string() })?;
    }
    let mut connection = connect(file, wait, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    let found = version(&connection, file, wait)?;
    if found < SCHEMA_VERSION {
        // Before the switch to the write-ahead log, so that the file's own header says whose it is.
        migrate(&mut connection).map_err(failure)?;
    }
    write_ahead(&connection, wait).map_err(failure)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(failure)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(failure)?;
    Ok(connection)
}

/// Switches to the write-ahead log. SQLite does not wait for locks here, so this does. A file system that cannot do it
/// keeps the rollback journal, which is correct as well.
fn write_ahead(connection: &Connection, wait: Duration) -> rusqlite::Result<()> {
    let begun = Instant::now();
    loop {
        match connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)) {
            Ok(_) => return Ok(()),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && begun.elapsed() < wait => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(error) => return Err(error),
        }
    }
}

pub(super) fn read_only(file: &Path, wait: Duration) -> Result<Connection, StoreError> {
    if !look(file)? {
        return Err(StoreError::Missing { file: file.to_owned(), what: "store".to_owned() });
    }
    let reader = connect(file, wait, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let (connection, found) = match version(&reader, file, wait) {
        Ok(found) => (reader, found),
        // A folder in which SQLite may not make its shared memory. If no journal waits, the file is all.
        Err(StoreError::CannotOpen { .. }) if !journal_waits(file) => {
            let connection = connect_immutable(file, wait)?;
            let found = version(&connection, file, wait)?;
            (connection, found)
        }
        Err(error) => return Err(error),
    };
    if (found as usize) < MIGRATIONS.len() {
        return Err(StoreError::Older { file: file.to_owned(), found, needed: SCHEMA_VERSION });
    }
    Ok(connection)
}

/// Whether there is a log to be merged, or half a transaction of a killed program to be rolled back.
fn journal_waits(file: &Path) -> bool {
    ["-wal", "-journal"].iter().any(|end| {
        let mut journal = file.as_os_str().to_owned();
        journal.push(end);
        std::fs::metadata(journal).is_ok_and(|journal| journal.len() > 0)
    })
}

fn connect_immutable(file: &Path, wait: Duration) -> Result<Connection, StoreError> {
    let absolute = std::path::absolute(file)
        .map_err(|error| StoreError::CannotOpen { file: file.to_owned(), what: error.to_string() })?;
    let escaped = |byte: u8| match byte {
        b'/' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    let path: String = absolute.to_string_lossy().bytes().map(escaped).collect();
    let uri = format!("file://{path}?immutable=1");
    connect(Path::new(&uri), wait, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI)
}
