//! Errors of a store.

use std::path::PathBuf;

/// Why a store cannot be opened, read or written. Whatever it is, the file has been left as it was.
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
    /// Another process held it for longer than the time-out.
    #[error("{}: locked by another process for more than {waited_ms} ms", file.display())]
    Locked { file: PathBuf, waited_ms: u128 },
    /// It cannot be opened or made.
    #[error("{}: {what}", file.display())]
    CannotOpen { file: PathBuf, what: String },
    /// A row that is not what the schema promises.
    #[error("{}: {row}: {what}", file.display())]
    BadRow { file: PathBuf, row: String, what: String },
    /// An environment variable for stores has an invalid value.
    #[error("{what}: {why}")]
    BadSetting { what: String, why: String },
    /// A number, a name or a key that cannot be stored.
    #[error("{what} cannot be stored: {why}")]
    BadKey { what: String, why: String },
    /// Nothing of that name or number.
    #[error("{}: there is no {what}", file.display())]
    Missing { file: PathBuf, what: String },
    /// A run that another living process continues.
    #[error("{}: run {run} is being continued by another process", file.display())]
    RunTaken { file: PathBuf, run: i64 },
    /// Another process measures: neither would measure what it means to.
    #[error("another tuning is measuring on this machine")]
    Measuring,
    /// Anything else that SQLite reports.
    #[error("{}: {source}", file.display())]
    Sqlite { file: PathBuf, source: rusqlite::Error },
}

impl From<rusqlite::Error> for StoreError {
    /// An error of a file that is filled in later.
    fn from(source: rusqlite::Error) -> Self {
        Self::Sqlite { file: PathBuf::new(), source }
    }
}
