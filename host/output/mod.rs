//! Hits into files: CSV and Parquet, batch by batch.
//!
//! [`CsvWriter`] writes to whatever can be written to. Files, and Parquet, come with the feature `cli`.

mod csv;
#[cfg(feature = "cli")]
mod file;
#[cfg(feature = "cli")]
mod new_file;
#[cfg(feature = "cli")]
mod parquet;

pub use csv::CsvWriter;
#[cfg(feature = "cli")]
pub use file::{HitFile, OutputError, Provenance};
#[cfg(feature = "cli")]
pub use new_file::{NewFile, remove_unfinished};
#[cfg(feature = "cli")]
pub use parquet::ParquetWriter;
