//! Hits into files: CSV and Parquet, batch by batch.
//!
//! [`CsvWriter`] writes to whatever can be written to. Files, and Parquet, come with the feature `parquet`.

mod csv;
#[cfg(feature = "parquet")]
mod file;
#[cfg(feature = "parquet")]
mod new_file;
#[cfg(feature = "parquet")]
mod parquet;

pub use csv::CsvWriter;
#[cfg(feature = "parquet")]
pub use file::{HitFile, OutputError, Provenance};
#[cfg(feature = "parquet")]
pub use new_file::{NewFile, remove_unfinished};
#[cfg(feature = "parquet")]
pub use parquet::ParquetWriter;
