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

/// The hits of a batch with what is known of its events.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Names of the inputs.
    pub files: &'a [String],
    /// File and place of each event.
    pub origins: &'a [Origin],
    /// Other facts about the events; empty, or one an event.
    pub meta: &'a [EventMeta],
    /// The hits.
    pub hits: &'a UtHits,
    /// The tables that they were decoded with.
    pub tables: &'a DetectorTables,
}
