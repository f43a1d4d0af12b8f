//! Errors of a store.

use std::path::PathBuf;

/// Error of opening, reading or writing a store. The file is unchanged.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum StoreError {
    /// Not an SQLite file, or an SQLite file of another program.
    #[error("{}: {what}; it is left alone: name another store", file.display())]
    Foreign { file: PathBuf, what: String },
    /// Written by a newer version of this program.
    #[error("{}: its schema is version {found}, this program knows up to {known}; use a newer version of it", file.display())]
    Newer { file: PathBuf, found: i32, known: i32 },
    /// Damaged.
    #[error("{}: damaged: {what}; move it away, or mend it with sqlite3's .recover", file.display())]
    Corrupt { file: PathBuf, what: String },
    /// Another process held the lock for longer than the time-out.
    #[error("{}: locked by another process for more than {waited_ms} ms", file.display())]
    Locked { file: PathBuf, waited_ms: u128 },
    /// The file cannot be opened or made.
    #[error("{}: {what}", file.display())]
    CannotOpen { file: PathBuf, what: String },
    /// A row cannot be understood.
    #[error("{}: {row}: {what}", file.display())]
    BadRow { file: PathBuf, row: String, what: String },
    /// An environment variable has an invalid value.
    #[error("{what}: {why}")]
    BadSetting { what: String, why: String },
    /// A number, a name or a key that cannot be stored.
    #[error("{what} cannot be stored: {why}")]
    BadKey { what: String, why: String },
    /// No store, run or other thing of that name or number exists.
    #[error("{}: there is no {what}", file.display())]
    Missing { file: PathBuf, what: String },
    /// Another living process measures the run.
    #[error("{}: run {run} is being continued by another process", file.display())]
    RunTaken { file: PathBuf, run: i64 },
    /// Another process measures: each would disturb the other.
    #[error("another tuning is measuring on this machine")]
    Measuring,
    /// Any other error of SQLite.
    #[error("{}: {source}", file.display())]
    Sqlite { file: PathBuf, source: rusqlite::Error },
}

impl From<rusqlite::Error> for StoreError {
    /// Leaves the file empty; `Store` fills it in.
    fn from(source: rusqlite::Error) -> Self {
        Self::Sqlite { file: PathBuf::new(), source }
    }
}
