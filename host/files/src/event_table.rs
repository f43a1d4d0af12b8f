//! A table of events as CSV or Parquet: one row per event, including events without hits.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

use ut_data::input::utc;
use ut_data::output::{EventColumn, EventColumnType, EventRow};

use super::file::FileWriter;
use super::parquet::{ParquetWriter, output_error};
use super::{HitFormat, NewFile, OutputError, Provenance, quoted};

/// Number of rows of a row group. Events have few columns, so a row group of one batch would be
/// mostly headers. Rows wait until there are this many, or the table ends.
const ROWS: usize = 1 << 16;

/// Writes a table of events. Dropped without [`Self::finish`], it leaves nothing behind.
pub struct EventTable {
    path: PathBuf,
    names: Vec<String>,
    waiting: Vec<EventRow>,
    writer: FileWriter,
}

impl EventTable {
    /// Begins the table of the events of `inputs`, in the format that the extension says.
    ///
    /// # Errors
    /// If the extension says no format, or the file cannot be created.
    pub fn create(path: &Path, inputs: &[PathBuf]) -> Result<Self, OutputError> {
        let format = HitFormat::of(path)?;
        let mut file = NewFile::create(path)?;
        let writer = match format {
            HitFormat::Csv => {
                let names: Vec<&str> = EventColumn::all().map(|column| column.name).collect();
                writeln!(file, "file,{}", names.join(",")).map_err(|source| file.cannot(source))?;
                FileWriter::Csv(file)
            }
            HitFormat::Parquet => {
                let groups =
                    ParquetWriter::of_events(file).map_err(|source| output_error(path, source))?;
                FileWriter::Parquet(Box::new(groups))
            }
        };
        let names = inputs
            .iter()
            .map(|input| input.display().to_string())
            .collect();
        Ok(Self {
            path: path.to_path_buf(),
            names,
            waiting: Vec::new(),
            writer,
        })
    }

    /// Adds rows, in the order of the inputs.
    pub fn append(&mut self, rows: &[EventRow]) -> Result<(), OutputError> {
        self.waiting.extend_from_slice(rows);
        if self.waiting.len() < ROWS {
            Ok(())
        } else {
            self.write()
        }
    }

    fn write(&mut self) -> Result<(), OutputError> {
        let rows = std::mem::take(&mut self.waiting);
        match &mut self.writer {
            FileWriter::Csv(file) => {
                let mut text = String::new();
                for row in &rows {
                    push_row(&mut text, row, &self.names);
                }
                file.write_all(text.as_bytes())
                    .map_err(|source| file.cannot(source))
            }
            FileWriter::Parquet(groups) => groups
                .append_events(&rows, &self.names)
                .map_err(|source| output_error(&self.path, source)),
        }
    }

    /// Completes the table and gives it its name; if that fails, nothing is left behind.
    pub fn finish(mut self, provenance: &Provenance) -> Result<(), OutputError> {
        self.write()?;
        let file = match self.writer {
            FileWriter::Csv(file) => file,
            FileWriter::Parquet(groups) => groups
                .finish(provenance)
                .map_err(|source| output_error(&self.path, source))?,
        };
        file.finish()
    }
}

fn push_row(text: &mut String, row: &EventRow, names: &[String]) {
    *text += &names
        .get(row.origin.file as usize)
        .map(|name| quoted(name))
        .unwrap_or_default();
    for column in EventColumn::all() {
        text.push(',');
        let _ = match (column.value(row), column.kind) {
            (None, _) => Ok(()),
            (Some(value), EventColumnType::Integer(_)) => write!(text, "{value}"),
            (Some(value), EventColumnType::Time) => write!(text, "{}", utc(value)),
            (Some(value), EventColumnType::Text(texts)) => {
                write!(text, "{}", texts[value as usize])
            }
        };
    }
    text.push('\n');
}
