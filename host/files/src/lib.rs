//! Hits into files, batch by batch: CSV and Parquet, whole or not at all.

mod event_table;
mod file;
mod new_file;
#[cfg_attr(not(feature = "parquet"), path = "no_parquet.rs")]
mod parquet;

pub use event_table::EventTable;
pub use file::{Encoded, Encoder, HitFile, HitFormat, HitStyle, OutputError, Provenance};
pub use new_file::{NewFile, names_stdout, place_of, remove_abandoned, remove_unfinished};
#[doc(no_inline)]
pub use ut_data::output::{
    ColumnType, Columns, CsvRows, CsvWriter, DetectorColumn, EventColumn, EventColumnType,
    EventRow, NULL, Rows, quoted,
};
