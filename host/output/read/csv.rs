//! Hits out of comma-separated values.

use std::fs::File;
use std::io::{self, Chain, Cursor, Read};

use ::csv::{ByteRecord, Reader, ReaderBuilder};

use super::{Cell, LastName, Names, PIECE, Piece, ReadColumn, Source, Values, known};

/// A file of comma-separated values with a row of names.
pub struct CsvSource {
    reader: Reader<ShortRows<Chain<Cursor<Vec<u8>>, File>>>,
    columns: Vec<ReadColumn>,
    /// By column: its place in a row.
    places: Vec<usize>,
    file: Option<usize>,
    name: LastName,
    record: ByteRecord,
}

impl CsvSource {
    /// `start` was read of the file already.
    pub fn open(start: Vec<u8>, file: File, names: &Names) -> Result<Self, String> {
        let rows = ShortRows { of: Cursor::new(start).chain(file), given: 0, read: 0, last: b'\n' };
        let mut reader = ReaderBuilder::new().from_reader(rows);
        let header = reader.byte_headers().map_err(|error| error.to_string())?.clone();
        let position = |name: &str| header.iter().position(|field| field.trim_ascii() == name.as_bytes());
        let place = |name: &str| names.of(name).find_map(position);
        let (mut columns, mut places) = (Vec::new(), Vec::new());
        for column in known() {
            if let Some(at) = place(column.name) {
                columns.push(column);
                places.push(at);
            }
        }
        let file = place("file");
        Ok(Self { reader, columns, places, file, name: LastName::default(), record: ByteRecord::new() })
    }
}

/// Bytes that a row may have: the reader keeps a whole one. A file that is not text may have no end of line, and quotes that
/// are not closed go over any number of lines.
const LONGEST_ROW: u64 = 1 << 20;

/// Rows of no more than [`LONGEST_ROW`] bytes, with what the reader buffers behind them, or an error.
struct ShortRows<R> {
    of: R,
    /// Bytes that the reader was given.
    given: u64,
    /// Those of them that are rows which it has read.
    read: u64,
    /// The last byte that it was given; a newline at first, since no row has begun.
    last: u8,
}

impl<R: Read> Read for ShortRows<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let n = self.of.read(bytes)?;
        self.given += n as u64;
        self.last = bytes[..n].last().copied().unwrap_or(self.last);
        if self.given - self.read > LONGEST_ROW {
            return Err(io::Error::other("a row of more than 1 MiB: this is not a table of comma-separated values"));
        }
        Ok(n)
    }
}

impl Source for CsvSource {
    fn columns(&self) -> &[ReadColumn] {
        &self.columns
    }

    fn has_names(&self) -> bool {
        self.file.is_some()
    }

    fn may_be_cut(&self) -> bool {
        !matches!(self.reader.get_ref().last, b'\n' | b'\r')
    }

    fn read(&mut self, piece: &mut Piece) -> Result<(), String> {
        for _ in 0..PIECE {
            if !self.reader.read_byte_record(&mut self.record).map_err(|error| error.to_string())? {
                break;
            }
            let read = self.reader.position().byte();
            self.reader.get_mut().read = read;
            for ((column, &place), to) in self.columns.iter().zip(&self.places).zip(&mut piece.columns) {
                let field = self.record.get(place).unwrap_or_default().trim_ascii();
                let value = cell(column.values, field).map_err(|what| {
                    let line = self.record.position().map_or(0, ::csv::Position::line);
                    format!("line {line}: {} is \"{}\", {what}", column.name, String::from_utf8_lossy(field))
                })?;
                to.push(value);
            }
            if let Some(place) = self.file {
                let file = self.name.of(self.record.get(place).unwrap_or_default()).map_err(|what| {
                    let line = self.record.position().map_or(0, ::csv::Position::line);
                    format!("line {line}: {what}")
                })?;
                piece.files.push(file);
            }
        }
        Ok(())
    }
}

fn cell(values: Values, field: &[u8]) -> Result<Cell, &'static str> {
    if field.is_empty() {
        return Ok(None);
    }
    let text = std::str::from_utf8(field).unwrap_or_default();
    match values {
        Values::Integers => match text {
            "true" | "True" => Ok(Some(1)),
            "false" | "False" => Ok(Some(0)),
            _ => text.parse().map(Some).map_err(|_| "not an integer from 0 on"),
        },
        Values::Floats => match text.parse::<f32>() {
            Ok(value) => Ok(Some(value.to_bits().into())),
            Err(_) => Err("not a number"),
        },
    }
}
