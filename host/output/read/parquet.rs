//! Hits out of Parquet files: the columns of a row group side by side, page by page.

use std::fs::File;
use std::path::Path;

use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::{AsBytes, DataType};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::ColumnChunkMetaData;
use ::parquet::file::reader::{FileReader, SerializedFileReader};

use super::{Cell, FileNumber, Names, PIECE, Piece, ReadColumn, Source, Values, known};

/// A Parquet file.
pub struct ParquetSource {
    file: SerializedFileReader<File>,
    columns: Vec<ReadColumn>,
    /// By column: its place in the file. The file's names last, if it has them.
    places: Vec<usize>,
    has_names: bool,
    numbers: FileNumber,
    /// The row group after this one.
    next_group: usize,
    /// Of the row group: readers as `places`, and rows that are left.
    readers: Vec<(ColumnReader, bool)>,
    left: usize,
}

/// Refuses a column that lies before the file's beginning, which the library takes for impossible.
fn check_place(column: &ColumnChunkMetaData) -> Result<(), ParquetError> {
    let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
    if start < 0 || column.compressed_size() < 0 {
        return Err(ParquetError::General(format!("column {} has a negative place or size", column.column_path())));
    }
    Ok(())
}

/// The library names the feature it was built without; a user needs to know what to do.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn in_words(error: ParquetError) -> String {
    let text = error.to_string();
    if text.contains("Disabled feature") {
        return format!("its compression is not supported ({text}); rewrite it with zstd or lz4");
    }
    text
}

impl ParquetSource {
    /// Opens a file.
    pub fn open(path: &Path, names: &Names) -> Result<Self, String> {
        let open = || SerializedFileReader::new(File::open(path)?);
        let file = open().map_err(|error: ParquetError| error.to_string())?;
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
        let (numbers, readers) = (FileNumber::default(), Vec::new());
        Ok(Self { file, columns, places, has_names: names.is_some(), numbers, next_group: 0, readers, left: 0 })
    }

    fn open_group(&mut self) -> Result<(), ParquetError> {
        let group = self.file.get_row_group(self.next_group)?;
        self.left = usize::try_from(group.metadata().num_rows()).unwrap_or_default();
        self.next_group += 1;
        let reader = |&place: &usize| {
            check_place(group.metadata().column(place))?;
            let nullable = group.metadata().column(place).column_descr().max_def_level() > 0;
            Ok((group.get_column_reader(place)?, nullable))
        };
        self.readers = self.places.iter().map(reader).collect::<Result<_, ParquetError>>()?;
        Ok(())
    }

    fn read_rows(&mut self, piece: &mut Piece) -> Result<(), String> {
        while self.left == 0 {
            if self.next_group == self.file.num_row_groups() {
                return Ok(());
            }
            self.open_group().map_err(in_words)?;
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
            let number = |name: Option<&::parquet::data_type::ByteArray>| {
                self.numbers.of(name.map_or(&[][..], AsBytes::as_bytes))
            };
            piece.files = values(reader, *nullable, n, number).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

impl Source for ParquetSource {
    fn columns(&self) -> &[ReadColumn] {
        &self.columns
    }

    fn read(&mut self, piece: &mut Piece) -> Result<(), String> {
        self.read_rows(piece)
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
