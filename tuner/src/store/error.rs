//! Errors of a store.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use crate::{Error, ErrorKind};

/// Error of opening, reading or writing a store. The file is unchanged.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum StoreError {
    /// The file is damaged, of another program or version, or has a row that cannot be understood.
    #[error("{}: {what}", file.display())]
    Unusable { file: PathBuf, what: String },
    /// Another process has locked the file for too long.
    #[error("{}: locked by another process for more than {waited_ms} ms", file.display())]
    Locked { file: PathBuf, waited_ms: u128 },
    /// The file cannot be opened or made.
    #[error("{}: {what}", file.display())]
    CannotOpen { file: PathBuf, what: String },
    /// A setting is wrong, or a number, a name or a key cannot be stored.
    #[error("{0}")]
    Wrong(String),
    /// No store or run of that name or number exists.
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
    Sqlite {
        file: PathBuf,
        source: rusqlite::Error,
    },
}

impl StoreError {
    pub(crate) fn cannot_open(file: &Path, what: impl Display) -> Self {
        Self::CannotOpen {
            file: file.to_owned(),
            what: what.to_string(),
        }
    }

    /// Returns the kind.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Unusable { .. } => ErrorKind::Format,
            Self::CannotOpen { .. } | Self::Sqlite { .. } => ErrorKind::File,
            Self::Wrong(_) | Self::Missing { .. } => ErrorKind::Request,
            Self::Locked { .. } | Self::RunTaken { .. } | Self::Measuring => ErrorKind::Busy,
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::new(error.kind(), error.to_string())
    }
}

impl From<rusqlite::Error> for StoreError {
    /// Leaves the file empty; `Store` fills it in.
    fn from(source: rusqlite::Error) -> Self {
        Self::Sqlite {
            file: PathBuf::new(),
            source,
        }
    }
}
