//! Hits into files, batch by batch: CSV and Parquet.
//!
//! [`CsvWriter`] writes to whatever can be written to. Files come with the feature `parquet`.

mod columns;
mod csv;
#[cfg(feature = "parquet")]
mod file;
#[cfg(feature = "parquet")]
mod new_file;
#[cfg(feature = "parquet")]
mod parquet;

pub use columns::{ColumnType, Columns, DetectorColumn, NULL};
pub use csv::CsvWriter;
#[cfg(feature = "cli")]
pub(crate) use csv::quoted;
#[cfg(feature = "parquet")]
pub use file::{Encoded, Encoder, HitFile, HitFormat, HitStyle, OutputError, Provenance};
#[cfg(feature = "parquet")]
pub use new_file::{NewFile, remove_abandoned, remove_unfinished};
#[cfg(feature = "cli")]
pub(crate) use new_file::{names_stdout, place_of};
#[cfg(feature = "parquet")]
pub use parquet::Packing;

use crate::decoder::UtHits;
use crate::detector::DetectorTables;
use crate::input::{EventMeta, Origin};

/// The hits of a batch with what is known of its events.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Names of the inputs.
    pub files: &'a [String],
    /// Where each event comes from.
    pub origins: &'a [Origin],
    /// What else is known of the events; empty, or one an event.
    pub meta: &'a [EventMeta],
    /// The hits.
    pub hits: &'a UtHits,
    /// The tables that they were decoded with.
    pub tables: &'a DetectorTables,
}
