//! A file of hits, whole or not at all: what is at the path when something fails.
//!
//! Hits go to `PATH.part` first, and only [`HitFile::finish`] gives the file its name. So a file at the path itself was
//! always written to its end. When the *input* breaks off, what came before is kept: the file is finished with
//! [`Provenance::incomplete`] set, which a Parquet file carries in its metadata; a CSV file has no place for it, so
//! there the message and the exit code say it. When *writing* fails (a full disk), the `.part` file is removed and
//! nothing appears at the path; whoever is killed leaves a `.part`.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use super::{CsvWriter, ParquetWriter};

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
    Csv(CsvWriter<BufWriter<File>>),
    Parquet(ParquetWriter<BufWriter<File>>),
}

/// A file of hits in the making. Dropped without [`Self::finish`], it leaves nothing behind.
pub struct HitFile {
    path: PathBuf,
    part: PathBuf,
    writer: Option<Writer>,
    finished: bool,
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
        let mut part = path.clone().into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        let cannot = |source| OutputError::Io { file: path.clone(), source };
        if path.is_dir() {
            return Err(cannot(io::ErrorKind::IsADirectory.into()));
        }
        let file = BufWriter::with_capacity(1 << 18, File::create(&part).map_err(cannot)?);
        let mut this = Self { path: path.clone(), part, writer: None, finished: false };
        this.writer = Some(match format {
            Format::Csv => Writer::Csv(CsvWriter::new(file).map_err(cannot)?),
            Format::Parquet => Writer::Parquet(ParquetWriter::new(file).map_err(|source| this.parquet_error(source))?),
        });
        Ok(this)
    }

    fn parquet_error(&self, source: ::parquet::errors::ParquetError) -> OutputError {
        OutputError::Parquet { file: self.path.clone(), source: source.into() }
    }

    fn io_error(&self, source: io::Error) -> OutputError {
        OutputError::Io { file: self.path.clone(), source }
    }

    /// Writes the hits of a batch. `first_event` is the number of the batch's first event over all inputs; `meta`
    /// what is known of the events, one each or empty.
    ///
    /// # Errors
    /// When writing fails.
    pub fn write(&mut self, first_event: u64, meta: &[EventMeta], hits: &UtHits) -> Result<(), OutputError> {
        match self.writer.take() {
            None => Ok(()),
            Some(Writer::Csv(mut writer)) => {
                let result = writer.write(first_event, hits);
                self.writer = Some(Writer::Csv(writer));
                result.map_err(|source| self.io_error(source))
            }
            Some(Writer::Parquet(mut writer)) => {
                let result = writer.write(first_event, meta, hits);
                self.writer = Some(Writer::Parquet(writer));
                result.map_err(|source| self.parquet_error(source))
            }
        }
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// When writing or renaming fails; nothing is left then.
    pub fn finish(mut self, provenance: &Provenance) -> Result<(), OutputError> {
        match self.writer.take() {
            None => {}
            Some(Writer::Csv(writer)) => {
                let file = writer.finish().map_err(|source| self.io_error(source))?;
                file.into_inner().map_err(|error| self.io_error(error.into_error()))?;
            }
            Some(Writer::Parquet(writer)) => {
                let file = writer.finish(provenance).map_err(|source| self.parquet_error(source))?;
                file.into_inner().map_err(|error| self.io_error(error.into_error()))?;
            }
        }
        std::fs::rename(&self.part, &self.path).map_err(|source| self.io_error(source))?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for HitFile {
    fn drop(&mut self) {
        if !self.finished {
            self.writer = None;
            // Nobody is left to tell, and the name says what the file is.
            let _ = std::fs::remove_file(&self.part);
        }
    }
}
