//! Hits as Parquet: one row per hit, in output order, and one row group per batch.
//!
//! A row group is encoded apart from its file, by [`RowGroup::encode`], so that several threads can
//! do it.
//!
//! A row group of 256 events of `pp-nominal` has about 280,000 rows. Readers skip row groups by the
//! statistics in the metadata of the file, and hold one in memory at a time.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::writer::{ColumnCloseResult, get_column_writer, get_typed_column_writer};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, FloatType, Int32Type, Int64Type,
};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, SchemaDescPtr, SchemaDescriptor, TypePtr};

use ut_data::output::{EventColumn, EventColumnType, EventRow};

use super::{ColumnType, DetectorColumn, NULL, OutputError, Provenance, Rows};

/// The columns of the CSV output with where the event comes from; null where the input does not
/// contain it. `event` is the event's place in its file. Detector columns follow.
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
    required binary file (STRING);";

/// Columns of integers whose neighbours are close.
const DELTA: [&str; 4] = ["event", "run", "event_number", "group"];

/// Columns with many values whose bytes are alike at the same place; for others a dictionary is
/// smallest. In generated pp-nominal events a hit takes, by byte, by difference and in a
/// dictionary: `lhcb_id` 2.1, 2.7 and 4.2 bytes, `charge` 0.7, 1.1 and 0.9.
const SPLIT: [&str; 8] = [
    "lhcb_id",
    "x_at_y_eq0",
    "y_begin",
    "y_end",
    "board",
    "charge",
    "n_strips",
    "sector_id",
];

/// The schema and how columns are written: shared by a file and those who encode its row groups.
#[derive(Clone)]
pub struct Form {
    /// Columns of the schema that the file does not have.
    left_out: Vec<String>,
    schema: TypePtr,
    columns: SchemaDescPtr,
    properties: WriterPropertiesPtr,
    detector: Vec<DetectorColumn>,
}

impl Form {
    /// Returns the layout of hit files with the `detector` columns last and without the columns in
    /// `left_out`.
    pub fn new(detector: &[DetectorColumn], left_out: Vec<String>) -> Result<Self> {
        let name = |line: &str| {
            line.split_whitespace()
                .nth(2)
                .map(|name| name.trim_end_matches(';').to_owned())
        };
        let plain = SCHEMA
            .lines()
            .filter(|line| name(line).is_none_or(|name| !left_out.contains(&name)));
        let fields = detector.iter().map(|column| {
            let presence = if column.may_be_null() {
                "optional"
            } else {
                "required"
            };
            let kind = match column.kind() {
                ColumnType::U8 => ("int32", " (INTEGER(8,false))"),
                ColumnType::U16 => ("int32", " (INTEGER(16,false))"),
                ColumnType::Bool => ("boolean", ""),
            };
            format!("    {presence} {} {}{};", kind.0, column.name(), kind.1)
        });
        let lines: Vec<String> = plain
            .map(str::to_owned)
            .chain(fields)
            .chain(["}".to_owned()])
            .collect();
        let schema = Arc::new(parse_message_type(&lines.join("\n"))?);
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            // The library would keep it, of every page, until the file ends.
            .set_offset_index_disabled(true)
            .set_created_by(concat!("ut-decoding version ", env!("CARGO_PKG_VERSION")).to_owned());
        let delta = DELTA.map(|column| (column, Encoding::DELTA_BINARY_PACKED));
        for (column, encoding) in SPLIT
            .map(|column| (column, Encoding::BYTE_STREAM_SPLIT))
            .into_iter()
            .chain(delta)
        {
            let path = ColumnPath::from(column);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, encoding);
        }
        let columns = Arc::new(SchemaDescriptor::new(Arc::clone(&schema)));
        Ok(Self {
            left_out,
            schema,
            columns,
            properties: Arc::new(properties.build()),
            detector: detector.to_vec(),
        })
    }
}

pub struct RowGroup {
    columns: Vec<(Bytes, ColumnCloseResult)>,
}

impl RowGroup {
    /// Encodes the hits of a batch; `None` where there are none.
    pub fn encode(form: &Form, rows: &Rows<'_>) -> Result<Option<Self>> {
        let hits = rows.hits;
        if hits.is_empty() {
            return Ok(None);
        }
        let mut columns = Columns {
            form,
            rows,
            done: Vec::new(),
        };
        columns.of_event::<Int64Type>(|e| Some(rows.origins[e].event as i64), false)?;
        let has = |name: &str| !form.left_out.iter().any(|other| other == name);
        if has("run") {
            columns.of_event::<Int32Type>(|e| Some(rows.meta.get(e)?.run? as i32), true)?;
        }
        columns.of_event::<Int64Type>(|e| Some(rows.meta.get(e)?.event? as i64), true)?;
        let sizes = hits
            .offsets()
            .windows(2)
            .map(|ends| (ends[1] - ends[0]) as usize);
        let mut groups = Vec::with_capacity(hits.len());
        for (i, n) in sizes.enumerate() {
            groups.resize(groups.len() + n, (i % hits.n_groups()) as i32);
        }
        columns.next::<Int32Type>(&groups, None)?;
        if has("lhcb_id") {
            columns.next::<Int32Type>(bytemuck::cast_slice(hits.id()), None)?;
        }
        let floats = [
            hits.x_at_y_eq0(),
            hits.z_at_y_eq0(),
            hits.y_begin(),
            hits.y_end(),
            hits.dx_dy(),
            hits.weight(),
        ];
        let names = [
            "x_at_y_eq0",
            "z_at_y_eq0",
            "y_begin",
            "y_end",
            "dx_dy",
            "weight",
        ];
        for (array, _) in floats.into_iter().zip(names).filter(|(_, name)| has(name)) {
            columns.next::<FloatType>(array, None)?;
        }
        let names: Vec<ByteArray> = rows
            .files
            .iter()
            .map(|name| ByteArray::from(name.as_str()))
            .collect();
        columns.of_event::<ByteArrayType>(
            |e| names.get(rows.origins[e].file as usize).cloned(),
            false,
        )?;
        for column in &form.detector {
            columns.of_detector(*column)?;
        }
        Ok(Some(Self {
            columns: columns.done,
        }))
    }
}

/// The columns of a row group, encoded one after the other.
///
/// The number of columns done says which column is next, so they must come in the order of the
/// schema. Two columns of the same type that change places are not noticed by the library: only
/// their names would be wrong.
struct Columns<'a> {
    form: &'a Form,
    rows: &'a Rows<'a>,
    done: Vec<(Bytes, ColumnCloseResult)>,
}

impl Columns<'_> {
    fn next<T: DataType>(&mut self, values: &[T::T], present: Option<&[i16]>) -> Result<()> {
        let mut bytes = TrackedWrite::new(Vec::new());
        let pages = Box::new(SerializedPageWriter::new(&mut bytes));
        let column = self.form.columns.column(self.done.len());
        let mut writer = get_typed_column_writer::<T>(get_column_writer(
            column,
            Arc::clone(&self.form.properties),
            pages,
        ));
        writer.write_batch(values, present, None)?;
        let close = writer.close()?;
        self.done.push((Bytes::from(bytes.into_inner()?), close));
        Ok(())
    }

    fn of_detector(&mut self, column: DetectorColumn) -> Result<()> {
        let values = column.values(self.rows.tables, self.rows.hits);
        let present: Option<Vec<i16>> = column.may_be_null().then(|| {
            values
                .iter()
                .map(|&value| i16::from(value != NULL))
                .collect()
        });
        let values = values.into_iter().filter(|&value| value != NULL);
        if column.kind() == ColumnType::Bool {
            let values: Vec<bool> = values.map(|value| value != 0).collect();
            return self.next::<BoolType>(&values, present.as_deref());
        }
        let values: Vec<i32> = values.map(i32::from).collect();
        self.next::<Int32Type>(&values, present.as_deref())
    }

    /// Writes a column that has the same value in every hit of an event.
    fn of_event<T: DataType>(
        &mut self,
        value: impl Fn(usize) -> Option<T::T>,
        optional: bool,
    ) -> Result<()> {
        let hits = self.rows.hits;
        let (mut values, mut present) = (Vec::with_capacity(hits.len()), Vec::new());
        let groups = hits.n_groups();
        for e in 0..hits.n_events() {
            let n = (hits.offsets()[(e + 1) * groups] - hits.offsets()[e * groups]) as usize;
            let value = value(e);
            if optional {
                present.resize(present.len() + n, i16::from(value.is_some()));
            }
            if let Some(value) = value {
                values.resize(values.len() + n, value);
            }
        }
        self.next::<T>(&values, optional.then_some(&present))
    }
}

/// A file of hits or of events.
pub struct ParquetWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
}

impl<W: Write + Send> ParquetWriter<W> {
    pub fn of_hits(output: W, form: &Form) -> Result<Self> {
        let (schema, properties) = (Arc::clone(&form.schema), Arc::clone(&form.properties));
        Ok(Self {
            file: SerializedFileWriter::new(output, schema, properties)?,
        })
    }

    pub fn of_events(output: W) -> Result<Self> {
        let fields = EventColumn::all().map(|column| {
            let presence = if column.may_be_null {
                "optional"
            } else {
                "required"
            };
            let kind = match column.kind {
                EventColumnType::Integer(64) => ("int64", "INTEGER(64,false)".to_owned()),
                EventColumnType::Integer(bits) => ("int32", format!("INTEGER({bits},false)")),
                EventColumnType::Time => ("int64", "TIMESTAMP(MICROS,true)".to_owned()),
                EventColumnType::Text(_) => ("binary", "STRING".to_owned()),
            };
            format!("{presence} {} {} ({});", kind.0, column.name, kind.1)
        });
        let fields: Vec<String> = fields.collect();
        let schema = format!(
            "message events {{ required binary file (STRING); {} }}",
            fields.join(" ")
        );
        let schema = parse_message_type(&schema)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            .set_created_by(concat!("ut-decoding version ", env!("CARGO_PKG_VERSION")).to_owned());
        Ok(Self {
            file: SerializedFileWriter::new(
                output,
                Arc::new(schema),
                Arc::new(properties.build()),
            )?,
        })
    }

    pub fn append(&mut self, encoded: RowGroup) -> Result<()> {
        let mut group = self.file.next_row_group()?;
        for (bytes, close) in encoded.columns {
            group.append_column(&bytes, close)?;
        }
        group.close()?;
        Ok(())
    }

    /// Writes rows of events of the inputs with these names.
    pub fn append_events(&mut self, rows: &[EventRow], names: &[String]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        let files: Vec<ByteArray> = names
            .iter()
            .map(|name| ByteArray::from(name.as_str()))
            .collect();
        let files: Vec<ByteArray> = rows
            .iter()
            .filter_map(|row| files.get(row.origin.file as usize).cloned())
            .collect();
        let mut columns = EventColumn::all();
        let mut first = true;
        while let Some(mut writer) = group.next_column()? {
            if std::mem::take(&mut first) {
                writer
                    .typed::<ByteArrayType>()
                    .write_batch(&files, None, None)?;
            } else if let Some(column) = columns.next() {
                let present: Vec<i16> = rows
                    .iter()
                    .map(|row| i16::from(column.value(row).is_some()))
                    .collect();
                let present = column.may_be_null.then_some(&present[..]);
                let values = rows.iter().filter_map(|row| column.value(row));
                match column.kind {
                    EventColumnType::Integer(64) | EventColumnType::Time => {
                        let values: Vec<i64> = values.map(|value| value as i64).collect();
                        writer
                            .typed::<Int64Type>()
                            .write_batch(&values, present, None)?;
                    }
                    EventColumnType::Integer(_) => {
                        let values: Vec<i32> = values.map(|value| value as i32).collect();
                        writer
                            .typed::<Int32Type>()
                            .write_batch(&values, present, None)?;
                    }
                    EventColumnType::Text(texts) => {
                        let values: Vec<ByteArray> =
                            values.map(|value| texts[value as usize].into()).collect();
                        writer
                            .typed::<ByteArrayType>()
                            .write_batch(&values, present, None)?;
                    }
                }
            }
            writer.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Writes the metadata, under keys that begin with `ut-decode.`, closes the file and hands the
    /// output back.
    pub fn finish(mut self, provenance: &Provenance) -> Result<W> {
        let complete = [(
            "complete".to_owned(),
            provenance.incomplete.is_none().to_string(),
        )];
        let incomplete = provenance
            .incomplete
            .iter()
            .map(|why| ("incomplete".to_owned(), why.clone()));
        for (key, value) in provenance
            .entries
            .iter()
            .cloned()
            .chain(complete)
            .chain(incomplete)
        {
            self.file
                .append_key_value_metadata(KeyValue::new(format!("ut-decode.{key}"), value));
        }
        self.file.into_inner()
    }
}

/// Says which file the library refused to write.
pub fn output_error(path: &Path, source: ParquetError) -> OutputError {
    let file = path.to_path_buf();
    let ParquetError::External(source) = source else {
        return OutputError::Parquet {
            file,
            source: source.into(),
        };
    };
    // The system's errors are reported in its own words.
    match source.downcast() {
        Ok(source) => OutputError::Io {
            file,
            source: *source,
        },
        Err(source) => OutputError::Parquet { file, source },
    }
}
