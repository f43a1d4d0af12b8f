//! Hits out of Parquet files: the columns of a row group side by side, page by page.
//!
//! The library that reads them panics on some files that are damaged, and believes others more than memory allows: it is
//! called where its panics are caught, after [`check`] has seen the file.

mod check;

use std::cell::Cell as Flag;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::Path;
use std::sync::Once;

use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::{AsBytes, DataType};
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{FileReader, SerializedFileReader};

use super::{Cell, LastName, Names, PIECE, Piece, ReadColumn, Source, Values, known};

thread_local! {
    static IS_CAUGHT: Flag<bool> = const { Flag::new(false) };
}

/// Calls the library; a panic is an error.
fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let before = IS_CAUGHT.replace(true);
    // What a panic leaves behind is not used again.
    let result = catch_unwind(AssertUnwindSafe(work));
    IS_CAUGHT.set(before);
    result.unwrap_or_else(|_| Err("it is damaged".to_owned()))
}

/// Keeps panics of the library, which are caught, from being printed.
pub fn silence_caught_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_CAUGHT.get() {
                hook(panic);
            }
        }));
    });
}

/// A Parquet file.
pub struct ParquetSource {
    file: SerializedFileReader<File>,
    /// The same, to check it.
    raw: File,
    columns: Vec<ReadColumn>,
    /// By column: its place in the file. The file's names last, if it has them.
    places: Vec<usize>,
    has_names: bool,
    name: LastName,
    /// The row group after this one.
    next_group: usize,
    /// Of the row group: readers as `places`, and rows that are left.
    readers: Vec<(ColumnReader, bool)>,
    left: usize,
    /// What is wrong with the file, once that is known.
    wrong: Option<String>,
}

/// The library names the feature it was built without; a user needs to know what to do.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn in_words(error: ParquetError) -> String {
    let text = error.to_string();
    if text.contains("Disabled feature") {
        return format!("its compression is not supported ({text}); rewrite it with snappy, zstd or lz4");
    }
    text
}

impl ParquetSource {
    /// Opens a file.
    pub fn open(path: &Path, names: &Names) -> Result<Self, String> {
        let raw = File::open(path).map_err(|error| error.to_string())?;
        check::footer(&raw)?;
        caught(|| Self::of(raw, names))
    }

    fn of(raw: File, names: &Names) -> Result<Self, String> {
        let again = raw.try_clone().map_err(|error| error.to_string())?;
        let file = SerializedFileReader::new(again).map_err(|error| error.to_string())?;
        let schema = file.metadata().file_metadata().schema_descr_ptr();
        // Columns inside lists have several values a row.
        let flat = |name: &&str| {
            let mut columns = schema.columns().iter();
            columns.position(|column| column.max_rep_level() == 0 && column.path().string() == **name)
        };
        let place = |name: &str| names.of(name).find_map(|name| flat(&name));
        let fields = schema.root_schema().get_fields();
        let (mut columns, mut places) = (Vec::new(), Vec::new());
        for column in known() {
            if let Some(at) = place(column.name) {
                columns.push(column);
                places.push(at);
            } else if let Some(field) =
                fields.iter().find(|field| names.of(column.name).any(|name| name == field.name()))
            {
                return Err(format!("column {} holds lists or structs, not one number per row", field.name()));
            }
        }
        let names = place("file");
        places.extend(names);
        let (name, readers) = (LastName::default(), Vec::new());
        let (next_group, left, wrong) = (0, 0, None);
        Ok(Self { file, raw, columns, places, has_names: names.is_some(), name, next_group, readers, left, wrong })
    }

    fn open_group(&mut self) -> Result<(), String> {
        let group = self.file.get_row_group(self.next_group).map_err(in_words)?;
        check::pages(&self.raw, self.places.iter().map(|&place| group.metadata().column(place)))?;
        let rows = group.metadata().num_rows();
        let other =
            self.places.iter().map(|&place| group.metadata().column(place)).find(|column| column.num_values() != rows);
        if let Some(column) = other {
            let (name, n) = (column.column_path().string(), column.num_values());
            return Err(format!("column {name} has {n} values in a group of {rows} rows: it is damaged"));
        }
        self.left = usize::try_from(rows).map_err(|_| "it is damaged")?;
        self.next_group += 1;
        let reader = |&place: &usize| {
            let nullable = group.metadata().column(place).column_descr().max_def_level() > 0;
            Ok((group.get_column_reader(place).map_err(in_words)?, nullable))
        };
        self.readers = self.places.iter().map(reader).collect::<Result<_, String>>()?;
        Ok(())
    }

    fn read_rows(&mut self, piece: &mut Piece) -> Result<(), String> {
        while self.left == 0 {
            if self.next_group == self.file.num_row_groups() {
                return Ok(());
            }
            self.open_group()?;
        }
        let n = self.left.min(PIECE);
        self.left -= n;
        let (readers, names) = self.readers.split_at_mut(self.columns.len());
        for (((reader, nullable), column), to) in readers.iter_mut().zip(&self.columns).zip(&mut piece.columns) {
            let read = cells(reader, *nullable, column.values, n, to).map_err(in_words)?;
            if !read || to.len() != n {
                return Err(format!("column {} is of another type, or too short", column.name));
            }
        }
        if let (true, Some((ColumnReader::ByteArrayColumnReader(reader), nullable))) =
            (self.has_names, names.first_mut())
        {
            let name =
                |name: Option<&::parquet::data_type::ByteArray>| self.name.of(name.map_or(&[][..], AsBytes::as_bytes));
            let files = values(reader, *nullable, n, name).map_err(|error| error.to_string())?;
            piece.files = files.into_iter().collect::<Result<_, _>>()?;
            if piece.files.len() != n {
                return Err("column file is too short".to_owned());
            }
        }
        Ok(())
    }
}

impl Source for ParquetSource {
    fn columns(&self) -> &[ReadColumn] {
        &self.columns
    }

    fn has_names(&self) -> bool {
        self.has_names
    }

    fn read(&mut self, piece: &mut Piece) -> Result<(), String> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        let result = caught(|| self.read_rows(piece));
        self.wrong = result.as_ref().err().cloned();
        result
    }
}

/// The next `n` values of a column, fewer where it ends, each as `of` has it.
fn values<T: DataType, V>(
    reader: &mut ColumnReaderImpl<T>,
    nullable: bool,
    n: usize,
    mut of: impl FnMut(Option<&T::T>) -> V,
) -> Result<Vec<V>, ParquetError> {
    let (mut values, mut levels) = (Vec::with_capacity(n), Vec::new());
    let (records, ..) = reader.read_records(n, nullable.then_some(&mut levels), None, &mut values)?;
    if !nullable {
        return Ok(values.iter().map(|value| of(Some(value))).collect());
    }
    let mut values = values.iter();
    Ok(levels.iter().take(records).map(|&level| of(if level > 0 { values.next() } else { None })).collect())
}

/// The same as cells; false: the column has another type.
fn cells(
    reader: &mut ColumnReader,
    nullable: bool,
    kind: Values,
    n: usize,
    to: &mut Vec<Cell>,
) -> Result<bool, ParquetError> {
    let bits = |value: f32| u64::from(value.to_bits());
    *to = match (kind, reader) {
        (Values::Integers, ColumnReader::Int32ColumnReader(reader)) => {
            values(reader, nullable, n, |value| value.map(|&value| u64::from(value as u32)))?
        }
        (Values::Integers, ColumnReader::Int64ColumnReader(reader)) => {
            values(reader, nullable, n, |value| value.map(|&value| value as u64))?
        }
        (Values::Integers, ColumnReader::BoolColumnReader(reader)) => {
            values(reader, nullable, n, |value| value.map(|&value| value.into()))?
        }
        (Values::Floats, ColumnReader::FloatColumnReader(reader)) => {
            values(reader, nullable, n, |value| value.map(|&value| bits(value)))?
        }
        (Values::Floats, ColumnReader::DoubleColumnReader(reader)) => {
            values(reader, nullable, n, |value| value.map(|&value| bits(value as f32)))?
        }
        _ => return Ok(false),
    };
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::Arc;

    use ::parquet::column::writer::ColumnCloseResult;
    use ::parquet::data_type::{BoolType, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
    use ::parquet::file::properties::WriterProperties;
    use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
    use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
    use ::parquet::schema::parser::parse_message_type;
    use tempfile::NamedTempFile;

    use crate::output::read::{EventOfFile, HitReader, Names};

    type Group<'a> = SerializedRowGroupWriter<'a, File>;

    fn column<T: DataType>(group: &mut Group<'_>, values: &[T::T], levels: Option<&[i16]>, repeated: Option<&[i16]>) {
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<T>().write_batch(values, levels, repeated).unwrap();
        column.close().unwrap();
    }

    /// The same for a column with fewer or more values than it should have: `alone` is its declaration, `rows` what it claims.
    fn short_column<T: DataType>(group: &mut Group<'_>, alone: &str, values: &[T::T], rows: u64) {
        let file = written(alone, &[&|group: &mut Group<'_>| column::<T>(group, values, None, None)]);
        let file = file.reopen().unwrap();
        let reader = SerializedFileReader::new(file.try_clone().unwrap()).unwrap();
        let metadata = reader.metadata().row_group(0).column(0).clone();
        let bytes_written = metadata.compressed_size() as u64;
        let (bloom_filter, column_index, offset_index) = (None, None, None);
        let rows_written = rows;
        let close =
            ColumnCloseResult { bytes_written, rows_written, metadata, bloom_filter, column_index, offset_index };
        group.append_column(&file, close).unwrap();
    }

    /// A file with these columns and row groups.
    fn written(columns: &str, groups: &[&dyn Fn(&mut Group<'_>)]) -> NamedTempFile {
        let file = NamedTempFile::new().unwrap();
        let schema = Arc::new(parse_message_type(&format!("message hits {{ {columns} }}")).unwrap());
        let properties = Arc::new(WriterProperties::builder().build());
        let mut writer = SerializedFileWriter::new(file.reopen().unwrap(), schema, properties).unwrap();
        for write in groups {
            let mut group = writer.next_row_group().unwrap();
            write(&mut group);
            group.close().unwrap();
        }
        writer.close().unwrap();
        file
    }

    /// The same, opened.
    fn open(columns: &str, groups: &[&dyn Fn(&mut Group<'_>)]) -> Result<HitReader, String> {
        HitReader::open(written(columns, groups).path(), &Names::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn columns_of_other_types_are_read_through_row_groups_with_and_without_rows() {
        let columns = "required int64 event; required int32 lhcb_id; optional int32 run; required boolean flipped;
            required double weight; required binary file;";
        let rows = |events: &'static [i64]| {
            move |group: &mut Group<'_>| {
                column::<Int64Type>(group, events, None, None);
                // The highest bit is one of the number.
                column::<Int32Type>(group, &vec![-2; events.len()], None, None);
                let levels: Vec<i16> = (0..events.len()).map(|row| i16::from(row > 0)).collect();
                column::<Int32Type>(group, &vec![5; events.len().saturating_sub(1)], Some(&levels), None);
                let flipped: Vec<bool> = events.iter().map(|event| event % 2 == 0).collect();
                column::<BoolType>(group, &flipped, None, None);
                column::<DoubleType>(group, &vec![0.1; events.len()], None, None);
                let files: Vec<_> = events.iter().map(|event| if *event < 5 { "a" } else { "b" }.into()).collect();
                column::<ByteArrayType>(group, &files, None, None);
            }
        };
        let (none, first, second) = (rows(&[]), rows(&[2, 3, 3]), rows(&[7]));
        let mut reader = open(columns, &[&none, &first, &none, &second, &none]).unwrap();
        let names: Vec<_> = reader.columns().iter().map(|column| column.name).collect();
        assert_eq!(names, ["event", "run", "lhcb_id", "flipped", "weight"]);
        let (mut found, mut event) = (Vec::new(), EventOfFile::default());
        while reader.next_event(&mut event).unwrap() {
            found.push((event.place, event.columns[1].clone(), event.columns[3].clone()));
            let n = event.columns[0].len();
            assert_eq!(event.columns[2], vec![Some(u64::from(u32::MAX - 1)); n]);
            assert_eq!(event.columns[4], vec![Some(0.1_f32.to_bits().into()); n]);
        }
        let [yes, no] = [Some(1), Some(0)];
        let expected = [
            ((0, 2), vec![None], vec![yes]),
            ((0, 3), vec![Some(5), Some(5)], vec![no, no]),
            ((1, 7), vec![None], vec![no]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_column_that_ends_before_the_others_is_named() {
        let columns = ["required int64 event;", "required int32 lhcb_id;", "required binary file;"];
        for (short, name) in ["event", "lhcb_id", "file"].into_iter().enumerate() {
            let group = |group: &mut Group<'_>| {
                let of = |column| if column == short { 2 } else { 3 };
                short_column::<Int64Type>(group, columns[0], &[4; 3][..of(0)], 3);
                short_column::<Int32Type>(group, columns[1], &[7; 3][..of(1)], 3);
                short_column::<ByteArrayType>(group, columns[2], &vec!["a".into(); of(2)], 3);
            };
            let mut reader = open(&columns.concat(), &[&group]).unwrap();
            let error = reader.next_event(&mut EventOfFile::default()).unwrap_err().to_string();
            assert!(error.contains(&format!("column {name} has 2 values in a group of 3 rows")), "{error}");
        }
    }

    #[test]
    fn a_row_group_that_says_fewer_rows_than_it_holds_is_refused() {
        let columns = ["required int64 event;", "required int32 lhcb_id;"];
        let group = |group: &mut Group<'_>| {
            short_column::<Int64Type>(group, columns[0], &[4; 3], 2);
            short_column::<Int32Type>(group, columns[1], &[7; 3], 2);
        };
        let mut reader = open(&columns.concat(), &[&group]).unwrap();
        let error = reader.next_event(&mut EventOfFile::default()).unwrap_err().to_string();
        assert!(error.contains("column event has 3 values in a group of 2 rows"), "{error}");
    }

    #[test]
    fn a_file_name_that_no_file_can_have_is_refused() {
        let columns = "required int64 event; required int32 lhcb_id; required binary file;";
        let of = |length: usize| {
            let group = move |group: &mut Group<'_>| {
                column::<Int64Type>(group, &[4], None, None);
                column::<Int32Type>(group, &[7], None, None);
                column::<ByteArrayType>(group, &["a".repeat(length).as_str().into()], None, None);
            };
            let mut reader = open(columns, &[&group]).unwrap();
            reader.next_event(&mut EventOfFile::default()).map_err(|error| error.to_string())
        };
        assert_eq!(of(8192), Ok(true));
        assert!(of(8193).unwrap_err().contains("a file name of 8193 bytes"));
    }

    #[test]
    fn a_column_of_lists_is_refused() {
        let lists = |group: &mut Group<'_>| {
            column::<Int64Type>(group, &[1, 2], Some(&[1, 1]), Some(&[0, 1]));
            column::<Int32Type>(group, &[7], None, None);
        };
        let error = open("repeated int64 event; required int32 lhcb_id;", &[&lists]).err().unwrap();
        assert!(error.contains("column event holds lists or structs"), "{error}");
    }
}
