//! The store: measurements, and the decisions that rest on them, in one SQLite file.
//!
//! Several processes may use one file at once (write-ahead log; writers wait for each other's
//! lock). Each measurement is committed when it is complete, so a killed program loses at most the
//! one in progress. On network file systems (NFS, AFS), which have no shared memory, SQLite falls
//! back to its rollback journal. [`run`] is the place to read on.
//!
//! Why a database and not a text file: several jobs on a machine tune and look up at the same time,
//! any of them may be killed at any moment, and a decision must never be seen without the
//! measurements on which it rests. SQLite's transactions give this. And a user can look at the file
//! with any SQLite tool.

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
pub use locations::{Locations, Matching, variable};
pub use lookup::Found;
pub use recorder::Recorder;
pub use run::{Contender, Details, Evidence, Observation, Plan, RaceDetails, Run, RunLock, Task};

/// Strategy of a run that is an imported recording, which decided nothing.
pub const RECORDED: &str = "recorded";

/// Time that a process waits for another's lock before it gives up.
///
/// Writers hold the lock for milliseconds. Twenty seconds are only reached if a process that holds
/// it is stopped.
pub const WAIT: Duration = Duration::from_secs(20);

/// SQL expression for the present time: UTC with milliseconds.
const NOW: &str = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";

/// Open store file.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    file: PathBuf,
    wait: Duration,
}

impl Store {
    /// Opens the store, and makes file and folder if they are missing.
    ///
    /// # Errors
    /// If the file is not a store of this version, is damaged, locked, or cannot be opened. It
    /// stays unchanged.
    pub fn open(file: &Path) -> Result<Self, StoreError> {
        Self::open_waiting(file, WAIT)
    }

    /// Opens the store like [`open`](Self::open); its operations wait for locks up to `wait`.
    ///
    /// # Errors
    /// Same errors as [`open`](Self::open).
    pub fn open_waiting(file: &Path, wait: Duration) -> Result<Self, StoreError> {
        Ok(Self {
            connection: open::read_write(file, wait)?,
            file: file.to_owned(),
            wait,
        })
    }

    /// Opens an existing store for reading; if a killed program left something unfinished, after
    /// rolling that back.
    ///
    /// # Errors
    /// Same errors as [`open`](Self::open), and [`StoreError::Missing`].
    pub fn open_existing(file: &Path) -> Result<Self, StoreError> {
        match open::read_only(file, WAIT) {
            Ok(connection) => Ok(Self {
                connection,
                file: file.to_owned(),
                wait: WAIT,
            }),
            Err(StoreError::CannotOpen { .. }) => Self::open(file),
            Err(error) => Err(error),
        }
    }

    /// Returns the path of the file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Adds the file, and the meaning, to an error of SQLite.
    fn located<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        result.map_err(|error| match error {
            StoreError::Sqlite { source, .. } => open::failure(&self.file, self.wait, source),
            error => error,
        })
    }

    /// Returns the error of a row that cannot be understood.
    fn bad_row(&self, row: &str, what: &dyn std::fmt::Display) -> StoreError {
        StoreError::Unusable {
            file: self.file.clone(),
            what: format!("{row}: {what}"),
        }
    }

    /// Runs `work` in one transaction that holds the write lock from its beginning.
    fn write<T>(
        &mut self,
        work: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let result = (|| -> Result<T, StoreError> {
            let transaction = self
                .connection
                .transaction_with_behavior(TransactionBehavior::Immediate)?;
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

/// Writes a value as JSON, for columns of the store.
fn json_of(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}
