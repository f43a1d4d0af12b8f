//! Hits as Parquet: one row a hit, in output order, a row group a batch.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{FloatType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::Provenance;
use crate::decoder::UtHits;
use crate::input::EventMeta;

/// The columns of the CSV output with `run` and `event_number` behind `event`; null where the input does not tell them.
const SCHEMA: &str = "message hits {
    required int64 event (INTEGER(64,false));
    optional int32 run (INTEGER(32,false));
    optional int64 event_number (INTEGER(64,false));
    required int32 group (INTEGER(16,false));
    required int32 lhcb_id (INTEGER(32,false));
    required float x_at_y_eq0;
    required float z_at_y_eq0;
    required float y_begin;
    required float y_end;
    required float dx_dy;
    required float weight;
}";

/// Writes hits as Parquet.
pub struct ParquetWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
}

impl<W: Write + Send> ParquetWriter<W> {
    /// A writer on `output`.
    ///
    /// # Errors
    /// When writing fails.
    pub fn new(output: W) -> Result<Self> {
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("ut-decoding version ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        Ok(Self { file: SerializedFileWriter::new(output, schema, Arc::new(properties))? })
    }

    /// Writes the hits of a batch whose first event has the number `first_event`; `meta` is empty or one an event.
    ///
    /// # Errors
    /// When writing fails.
    pub fn write(&mut self, first_event: u64, meta: &[EventMeta], hits: &UtHits) -> Result<()> {
        if hits.is_empty() {
            return Ok(());
        }
        let mut columns = Columns { group: self.file.next_row_group()?, hits };
        columns.of_event::<Int64Type>(|e| Some((first_event + e as u64) as i64), false)?;
        columns.of_event::<Int32Type>(|e| Some(meta.get(e)?.run? as i32), true)?;
        columns.of_event::<Int64Type>(|e| Some(meta.get(e)?.event? as i64), true)?;
        let sizes = hits.offsets().windows(2).map(|ends| (ends[1] - ends[0]) as usize);
        let groups = sizes.enumerate().flat_map(|(i, n)| std::iter::repeat_n((i % hits.n_groups()) as i32, n));
        columns.next::<Int32Type>(&groups.collect::<Vec<_>>(), None)?;
        columns.next::<Int32Type>(bytemuck::cast_slice(hits.id()), None)?;
        let floats = [hits.x_at_y_eq0(), hits.z_at_y_eq0(), hits.y_begin(), hits.y_end(), hits.dx_dy(), hits.weight()];
        for array in floats {
            columns.next::<FloatType>(array, None)?;
        }
        columns.group.close()?;
        Ok(())
    }

    /// Writes the metadata, under keys that begin with `ut-decode.`, closes the file and hands the output back.
    ///
    /// # Errors
    /// When writing fails.
    pub fn finish(mut self, provenance: &Provenance) -> Result<W> {
        let complete = [("complete".to_owned(), provenance.incomplete.is_none().to_string())];
        let incomplete = provenance.incomplete.iter().map(|why| ("incomplete".to_owned(), why.clone()));
        for (key, value) in provenance.entries.iter().cloned().chain(complete).chain(incomplete) {
            self.file.append_key_value_metadata(KeyValue::new(format!("ut-decode.{key}"), value));
        }
        self.file.into_inner()
    }
}

/// The columns of a row group, written one after the other.
struct Columns<'a, W: Write + Send> {
    group: SerializedRowGroupWriter<'a, W>,
    hits: &'a UtHits,
}

impl<W: Write + Send> Columns<'_, W> {
    fn next<T: parquet::data_type::DataType>(&mut self, values: &[T::T], present: Option<&[i16]>) -> Result<()> {
        if let Some(mut column) = self.group.next_column()? {
            column.typed::<T>().write_batch(values, present, None)?;
            column.close()?;
        }
        Ok(())
    }

    /// A column that has the same value in every hit of an event.
    fn of_event<T: parquet::data_type::DataType>(
        &mut self,
        value: impl Fn(usize) -> Option<T::T>,
        optional: bool,
    ) -> Result<()> {
        let (mut values, mut present) = (Vec::new(), Vec::new());
        let groups = self.hits.n_groups();
        for e in 0..self.hits.n_events() {
            let n = (self.hits.offsets()[(e + 1) * groups] - self.hits.offsets()[e * groups]) as usize;
            let value = value(e);
            present.extend(std::iter::repeat_n(i16::from(value.is_some()), n));
            values.extend(value.into_iter().flat_map(|value| std::iter::repeat_n(value, n)));
        }
        self.next::<T>(&values, optional.then_some(&present))
    }
}
