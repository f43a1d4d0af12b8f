//! A file of hits, whole or not at all: what is at the path when something fails.
//!
//! Hits go to a [`NewFile`], so a file at the path itself was always written to its end. When the *input* breaks off,
//! what came before is kept: the file is finished with [`Provenance::incomplete`] set, which a Parquet file carries in
//! its metadata; a CSV file has no place for it, so there the message and the exit code say it. When *writing* fails
//! (a full disk), nothing appears at the path.

use std::io;
use std::path::{Path, PathBuf};

use super::{CsvWriter, NewFile, ParquetWriter};

use crate::decoder::UtHits;
use crate::input::EventMeta;

/// Where hits come from: what a file of hits says of itself, as far as its format can.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Names and values: options, versions, tables, inputs.
    pub entries: Vec<(String, String)>,
    /// Why hits are missing at the end, if any are.
    pub incomplete: Option<String>,
}

/// Why hits could not be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// No format is known for the extension.
    #[error("{}: the extension says the format: .csv or .parquet", .0.display())]
    Format(PathBuf),
    /// Writing failed.
    #[error("cannot write {}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The Parquet library refused.
    #[error("cannot write {}", file.display())]
    Parquet {
        /// The file.
        file: PathBuf,
        /// What it says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Formats of hit files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Csv,
    Parquet,
}

impl Format {
    fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Some(Self::Csv),
            "parquet" => Some(Self::Parquet),
            _ => None,
        }
    }
}

enum Writer {
    Csv(CsvWriter<NewFile>),
    Parquet(ParquetWriter<NewFile>),
}

/// A file of hits in the making. Dropped without [`Self::finish`], it leaves nothing behind.
pub struct HitFile {
    path: PathBuf,
    writer: Writer,
}

impl HitFile {
    /// Whether the extension of `path` names a format.
    ///
    /// # Errors
    /// [`OutputError::Format`] when it does not.
    pub fn check(path: &Path) -> Result<(), OutputError> {
        Format::of(path).map(|_| ()).ok_or_else(|| OutputError::Format(path.to_path_buf()))
    }

    /// Begins a file in the format of the path's extension.
    ///
    /// # Errors
    /// When no format is known for the extension, or the file cannot be created.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, OutputError> {
        let path = path.into();
        let format = Format::of(&path).ok_or_else(|| OutputError::Format(path.clone()))?;
        let file = NewFile::create(&path)?;
        let writer = match format {
            Format::Csv => CsvWriter::new(file).map(Writer::Csv).map_err(|source| io_error(&path, source))?,
            Format::Parquet => {
                ParquetWriter::new(file).map(Writer::Parquet).map_err(|source| parquet_error(&path, source))?
            }
        };
        Ok(Self { path, writer })
    }

    /// Writes the hits of a batch. `first_event` is the number of the batch's first event over all inputs; `meta`
    /// what is known of the events, one each or empty.
    ///
    /// # Errors
    /// When writing fails.
    pub fn write(&mut self, first_event: u64, meta: &[EventMeta], hits: &UtHits) -> Result<(), OutputError> {
        match &mut self.writer {
            Writer::Csv(writer) => writer.write(first_event, hits).map_err(|source| io_error(&self.path, source)),
            Writer::Parquet(writer) => {
                writer.write(first_event, meta, hits).map_err(|source| parquet_error(&self.path, source))
            }
        }
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// When writing or renaming fails; nothing is left then.
    pub fn finish(self, provenance: &Provenance) -> Result<(), OutputError> {
        let file = match self.writer {
            Writer::Csv(writer) => writer.finish().map_err(|source| io_error(&self.path, source))?,
            Writer::Parquet(writer) => writer.finish(provenance).map_err(|source| parquet_error(&self.path, source))?,
        };
        file.finish()
    }
}

fn io_error(path: &Path, source: io::Error) -> OutputError {
    OutputError::Io { file: path.to_path_buf(), source }
}

fn parquet_error(path: &Path, source: ::parquet::errors::ParquetError) -> OutputError {
    OutputError::Parquet { file: path.to_path_buf(), source: source.into() }
}
