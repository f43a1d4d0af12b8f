//! The store: everything that was measured, and what was concluded from it, in one SQLite file.
//!
//! Several processes may use one file at once (write-ahead log; a writer waits for the other's lock). A measurement is
//! committed when it is complete, so a killed program loses at most the one in progress. On file systems without
//! shared memory between machines (NFS, AFS) SQLite falls back to its rollback journal; a local disk is better.

pub mod contents;
mod error;
pub mod finding;
pub mod identity;
mod locations;
pub mod lookup;
mod open;
pub mod recorder;
pub mod run;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};

pub use error::StoreError;
pub use finding::{Finding, Kept};
pub use identity::{DeviceIdentity, TunableIdentity, Workload};
pub use locations::{Application, Locations};
pub use lookup::{Found, Matching, Relaxed};
pub use open::{APPLICATION_ID, SCHEMA_VERSION};
pub use recorder::Recorder;
pub use run::{Contender, Details, Evidence, Observation, Plan, RaceDetails, Run, RunLock, Task};

/// Time that a process waits for another's lock before it gives up.
pub const WAIT: Duration = Duration::from_secs(20);

/// The time that goes into rows: UTC with milliseconds.
const NOW: &str = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";

/// The time of what does not say when it was.
pub(crate) const UNKNOWN: &str = "1970-01-01T00:00:00.000Z";

/// One store file.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    file: PathBuf,
    wait: Duration,
}

impl Store {
    /// Opens the store, making file and folder if they are not there.
    ///
    /// # Errors
    /// [`StoreError::Foreign`], [`Newer`](StoreError::Newer), [`Corrupt`](StoreError::Corrupt),
    /// [`Locked`](StoreError::Locked), [`CannotOpen`](StoreError::CannotOpen); the file is then as it was.
    pub fn open(file: &Path) -> Result<Self, StoreError> {
        Self::open_waiting(file, WAIT)
    }

    /// Opens the store like [`open`](Self::open), with another patience for locks.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_waiting(file: &Path, wait: Duration) -> Result<Self, StoreError> {
        Ok(Self { connection: open::read_write(file, wait)?, file: file.to_owned(), wait })
    }

    /// Opens a store that is there, and never writes it.
    ///
    /// # Errors
    /// As [`open`](Self::open), and [`StoreError::Missing`].
    pub fn open_read_only(file: &Path) -> Result<Self, StoreError> {
        Ok(Self { connection: open::read_only(file, WAIT)?, file: file.to_owned(), wait: WAIT })
    }

    /// Opens a store that is there, for reading; what a killed program left unfinished is rolled back first.
    ///
    /// # Errors
    /// As [`open_read_only`](Self::open_read_only).
    pub fn open_existing(file: &Path) -> Result<Self, StoreError> {
        match Self::open_read_only(file) {
            Err(StoreError::CannotOpen { .. }) => Self::open(file),
            store => store,
        }
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Says of which file an error of SQLite is, and what it means.
    fn located<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        result.map_err(|error| match error {
            StoreError::Sqlite { source, .. } => open::failure(&self.file, self.wait, source),
            error => error,
        })
    }

    /// A row that cannot be understood.
    fn bad_row(&self, row: impl Into<String>, what: &dyn std::fmt::Display) -> StoreError {
        StoreError::BadRow { file: self.file.clone(), row: row.into(), what: what.to_string() }
    }

    /// Does `work` in one transaction that holds the write lock from its beginning.
    fn write<T>(
        &mut self,
        work: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let result = (|| -> Result<T, StoreError> {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = work(&transaction)?;
            transaction.commit()?;
            Ok(value)
        })();
        self.located(result)
    }

    /// Reads all rows of a query.
    fn rows<T>(
        &self,
        query: &str,
        values: &[&dyn rusqlite::ToSql],
        row: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let read = || -> Result<Vec<T>, StoreError> {
            let mut statement = self.connection.prepare_cached(query)?;
            let rows = statement.query_map(values, row)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        };
        self.located(read())
    }
}

/// Writes JSON of what always serialises: values that are finite, names.
fn json_of(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}
