//! Errors of a store.

use std::path::PathBuf;

/// Why a store cannot be opened, read or written. Whatever it is, the file has been left as it was.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Not an SQLite file, or an SQLite file of another program.
    #[error("{}: {what}; it is left alone: name another store", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
        /// Kind of file found.
        what: String,
    },
    /// Written by a newer version of this program.
    #[error("{}: its schema is version {found}, this program knows up to {known}; use a newer version of it", file.display())]
    Newer {
        /// The file.
        file: PathBuf,
        /// Version found.
        found: i32,
        /// The newest version known here.
        known: i32,
    },
    /// Damaged.
    #[error("{}: damaged: {what}; move it away, or mend it with sqlite3's .recover", file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// Message of SQLite.
        what: String,
    },
    /// Another process held it for longer than the time-out.
    #[error("{}: locked by another process for more than {waited_ms} ms", file.display())]
    Locked {
        /// The file.
        file: PathBuf,
        /// Time that this one waited.
        waited_ms: u128,
    },
    /// It cannot be opened or made.
    #[error("{}: {what}", file.display())]
    CannotOpen {
        /// The file.
        file: PathBuf,
        /// Why.
        what: String,
    },
    /// A row that is not what the schema promises.
    #[error("{}: {row}: {what}", file.display())]
    BadRow {
        /// The file.
        file: PathBuf,
        /// Table and row.
        row: String,
        /// Reason.
        what: String,
    },
    /// An environment variable for stores has an invalid value.
    #[error("{what}: {why}")]
    BadSetting {
        /// The variable.
        what: String,
        /// Reason.
        why: String,
    },
    /// A number, a name or a key that cannot be stored.
    #[error("{what} cannot be stored: {why}")]
    BadKey {
        /// Item.
        what: String,
        /// Why.
        why: String,
    },
    /// Nothing of that name or number.
    #[error("{}: there is no {what}", file.display())]
    Missing {
        /// The file.
        file: PathBuf,
        /// Request.
        what: String,
    },
    /// A run that another living process continues.
    #[error("{}: run {run} is being continued by another process", file.display())]
    RunTaken {
        /// The file.
        file: PathBuf,
        /// The run.
        run: i64,
    },
    /// Another process measures: neither would measure what it means to.
    #[error("another tuning is measuring on this machine")]
    Measuring,
    /// Anything else that SQLite reports.
    #[error("{}: {source}", file.display())]
    Sqlite {
        /// The file.
        file: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
}
