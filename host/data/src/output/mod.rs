//! Hits as text, and their columns. `ut-files` writes whole files.

mod columns;
mod csv;
mod events;

pub use columns::{ColumnType, Columns, DetectorColumn, NULL};
pub use csv::{CsvRows, CsvWriter, quoted};
pub use events::{EventColumn, EventColumnType, EventRow};

use crate::detector::DetectorTables;
use crate::hits::UtHits;
use crate::input::{EventMeta, Origin};

/// Hits of a batch with the facts about its events.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Names of the inputs.
    pub files: &'a [String],
    /// File and place of each event.
    pub origins: &'a [Origin],
    /// Other facts about the events; empty, or one entry per event.
    pub meta: &'a [EventMeta],
    /// Hits of the batch.
    pub hits: &'a UtHits,
    /// Tables that the hits were decoded with.
    pub tables: &'a DetectorTables,
}
