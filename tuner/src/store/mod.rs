//! The store: everything that was measured, and what was concluded from it, in one SQLite file.
//!
//! Several processes may use one file at once (write-ahead log; a writer waits for the other's lock). A measurement is
//! committed when it is complete, so a killed program loses at most the one in progress. On file systems without
//! shared memory between machines (NFS, AFS) SQLite falls back to its rollback journal; a local disk is better.
//!
//! - [`Store`]: one file; opening it checks that it is ours, whole and not newer than this program, before anything is
//!   written.
//! - [`identity`]: what a result belongs to. [`run`]: measuring. [`lookup`]: finding. [`contents`]: listing and
//!   pruning.
//! - [`layers`]: the user's store above read-only ones that were shipped.
//! - [`finding`]: keeping what was found without a session.
//! - [`memory`]: what an on-line tuner starts from and reports to.
//! - [`recorder`]: a device that remembers, which is how a killed tuning resumes.

pub mod contents;
mod error;
pub mod finding;
pub mod identity;
pub mod layers;
pub mod lookup;
pub mod memory;
mod open;
pub mod recorder;
pub(crate) mod rows;
pub mod run;
mod schema;
mod seeds;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};

pub use error::StoreError;
pub use finding::{Finding, Kept};
pub use identity::{DeviceIdentity, TunableIdentity, Workload};
pub use layers::{Application, Layers, Locations};
pub use lookup::{Found, Matching, Origin, Relaxed};
pub use memory::StoreMemory;
pub use recorder::Recorder;
pub use run::{Contender, Details, Evidence, Observation, Plan, RaceDetails, Run, Task};
pub use schema::{APPLICATION_ID, SCHEMA_VERSION};
pub use seeds::Seeds;

/// How long a process waits for another's lock before it gives up.
pub const WAIT: Duration = Duration::from_secs(20);

/// One store file.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    file: PathBuf,
    read_only: bool,
    wait: Duration,
}

impl Store {
    /// Opens the store, making file and folder if they are not there, and brings an older schema to this program's.
    ///
    /// # Errors
    /// [`StoreError::Foreign`], [`Newer`](StoreError::Newer), [`Corrupt`](StoreError::Corrupt),
    /// [`Locked`](StoreError::Locked), [`CannotOpen`](StoreError::CannotOpen); the file is then as it was.
    pub fn open(file: &Path) -> Result<Self, StoreError> {
        Self::open_waiting(file, WAIT)
    }

    /// [`open`](Self::open) with another patience for locks.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_waiting(file: &Path, wait: Duration) -> Result<Self, StoreError> {
        let connection = open::read_write(file, wait)?;
        Ok(Self { connection, file: file.to_owned(), read_only: false, wait })
    }

    /// Opens a store that is there and of this program's schema, and never writes it.
    ///
    /// # Errors
    /// As [`open`](Self::open), and [`StoreError::Older`].
    pub fn open_read_only(file: &Path) -> Result<Self, StoreError> {
        let connection = open::read_only(file, WAIT)?;
        Ok(Self { connection, file: file.to_owned(), read_only: true, wait: WAIT })
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Whether this program may not write it.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Turns SQLite's errors into ours.
    fn failure(&self, error: rusqlite::Error) -> StoreError {
        open::failure(&self.file, self.wait, error)
    }

    /// A row that cannot be understood.
    fn bad_row(&self, row: impl Into<String>, what: &dyn std::fmt::Display) -> StoreError {
        StoreError::BadRow { file: self.file.clone(), row: row.into(), what: what.to_string() }
    }

    /// Does `work` in one transaction that holds the write lock from its beginning.
    fn write<T>(
        &mut self,
        work: impl FnOnce(&rusqlite::Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.write_or_refuse(|transaction| Ok(work(transaction)?))
    }

    /// The same for work that is not only SQLite's to refuse.
    fn write_or_refuse<T>(
        &mut self,
        work: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, Refusal>,
    ) -> Result<T, StoreError> {
        let result = (|| {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = work(&transaction)?;
            transaction.commit()?;
            Ok(value)
        })();
        result.map_err(|refusal| match refusal {
            Refusal::Sqlite(error) => open::failure(&self.file, self.wait, error),
            Refusal::Store(error) => error,
        })
    }
}

/// Why a transaction does not take place.
enum Refusal {
    Sqlite(rusqlite::Error),
    Store(StoreError),
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
