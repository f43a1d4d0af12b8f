//! A file of hits that appears under its name only when it is complete; what stood there stays if
//! writing fails.
//!
//! Hits go to a [`NewFile`], so a file at the path itself was always written to its end. When the
//! *input* breaks off, what came before is kept: the file is finished with
//! [`Provenance::incomplete`] set, which a Parquet file carries in its metadata; a CSV file has no
//! place for it, so there the message and the exit code say it. When *writing* fails (a full disk),
//! nothing appears at the path.
//!
//! Encoding takes longer than writing, and is done by [`Encoder`]s, one per thread.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ut_data::error::{ErrorKind, WorkError};

use super::parquet::{Form, ParquetWriter, RowGroup, output_error as parquet_error};
use super::{Columns, CsvRows, NewFile, Rows, quoted};

/// Origin of hits: what a file of hits says of itself, as far as its format can.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Names and values: options, versions, tables, inputs.
    pub entries: Vec<(String, String)>,
    /// Reason that hits are missing at the end; `None` if none are.
    pub incomplete: Option<String>,
}

/// Reason that hits could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// No format is known for the extension.
    #[error("{}: the extension says the format: .csv or .parquet", .0.display())]
    Format(PathBuf),
    /// Parquet is asked of a program without the feature `parquet`.
    #[error(
        "{}: this program is built without Parquet: write .csv, or build it with everything (cargo build --release --features full)",
        .0.display()
    )]
    NotBuilt(PathBuf),
    /// Writing failed.
    #[error("cannot write {}", called(file))]
    Io {
        /// The file.
        file: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The Parquet library returned an error.
    #[error("cannot write {}", called(file))]
    Parquet {
        /// The file.
        file: PathBuf,
        /// Error of the writer.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl OutputError {
    /// Returns the kind: [`ErrorKind::Request`] without a format to write, else
    /// [`ErrorKind::File`].
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Format(_) | Self::NotBuilt(_) => ErrorKind::Request,
            Self::Io { .. } | Self::Parquet { .. } => ErrorKind::File,
        }
    }
}

impl From<OutputError> for WorkError {
    fn from(error: OutputError) -> Self {
        Self::Output(Box::new(error))
    }
}

/// Formats of hit files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HitFormat {
    /// Comma-separated values.
    Csv,
    /// Parquet.
    Parquet,
}

impl HitFormat {
    /// Returns the format that the extension of a path says, or [`OutputError::Format`].
    pub fn of(path: &Path) -> Result<Self, OutputError> {
        let extension = path
            .extension()
            .and_then(|extension| extension.to_str())
            .map(str::to_ascii_lowercase);
        match extension.as_deref() {
            Some("csv") => Ok(Self::Csv),
            Some("parquet") if cfg!(feature = "parquet") => Ok(Self::Parquet),
            Some("parquet") => Err(OutputError::NotBuilt(path.to_path_buf())),
            _ => Err(OutputError::Format(path.to_path_buf())),
        }
    }

    /// Returns the name, which is also the extension of its files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Parquet => "parquet",
        }
    }
}

impl FromStr for HitFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "csv" => Ok(Self::Csv),
            "parquet" if cfg!(feature = "parquet") => Ok(Self::Parquet),
            "parquet" => Err(OutputError::NotBuilt(name.into()).to_string()),
            _ => Err(format!("{name} is not a format: csv or parquet")),
        }
    }
}

pub(super) enum FileWriter {
    Csv(NewFile),
    Parquet(Box<ParquetWriter<NewFile>>),
}

/// Format and columns of files of hits. Files of one style take what its encoders make.
#[derive(Clone)]
pub struct HitStyle {
    path: PathBuf,
    format: HitFormat,
    form: Form,
    /// The inputs' names as the files have them.
    names: Vec<String>,
    columns: Columns,
}

/// A file of hits in the making. Dropped without [`Self::finish`], it leaves nothing behind.
pub struct HitFile {
    path: PathBuf,
    writer: FileWriter,
}

/// Hits of a batch in the form of a file.
///
/// Batches of one input become rows or row groups in the order of the events, whichever thread
/// encoded them.
pub enum Encoded {
    /// Rows of text.
    Text(Vec<u8>),
    /// A row group; `None` without hits.
    RowGroup(Option<Box<RowGroup>>),
}

/// Brings the hits of batches into the form of a file.
pub struct Encoder {
    style: HitStyle,
    rows: CsvRows,
}

impl HitStyle {
    /// Returns the files for the hits of `inputs`, with `columns` in addition to the columns that
    /// the format always has; `path` is what messages call the output while nothing is written to a
    /// file.
    pub fn new(
        path: impl Into<PathBuf>,
        format: HitFormat,
        inputs: &[PathBuf],
        columns: Columns,
    ) -> Result<Self, OutputError> {
        let path = path.into();
        let form = Form::new(&columns.detector, Vec::new())
            .map_err(|source| parquet_error(&path, source))?;
        let mut names: Vec<String> = inputs
            .iter()
            .map(|input| input.display().to_string())
            .collect();
        if format == HitFormat::Csv {
            for name in &mut names {
                *name = quoted(name);
            }
        }
        Ok(Self {
            path,
            format,
            form,
            names,
            columns,
        })
    }

    /// Takes out columns of Parquet: `run`, and those from `lhcb_id` to `weight`.
    pub fn without(mut self, names: Vec<String>) -> Result<Self, OutputError> {
        let form = Form::new(&self.columns.detector, names);
        self.form = form.map_err(|source| parquet_error(&self.path, source))?;
        Ok(self)
    }

    /// Begins a file.
    pub fn create(&self, path: impl Into<PathBuf>) -> Result<HitFile, OutputError> {
        let path = path.into();
        let mut file = NewFile::create(&path)?;
        let writer = match self.format {
            HitFormat::Csv => {
                let header = CsvRows::header(&self.columns);
                file.write_all(header.as_bytes())
                    .map_err(|source| io_error(&path, source))?;
                FileWriter::Csv(file)
            }
            HitFormat::Parquet => {
                let writer = ParquetWriter::of_hits(file, &self.form)
                    .map_err(|source| parquet_error(&path, source))?;
                FileWriter::Parquet(Box::new(writer))
            }
        };
        Ok(HitFile { path, writer })
    }

    /// Returns an encoder for these files.
    pub fn encoder(&self) -> Encoder {
        Encoder {
            style: self.clone(),
            rows: CsvRows::default(),
        }
    }
}

impl HitFile {
    /// Returns what the file will be called.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the hits of a batch, as an [`Encoder`] of its style made them.
    pub fn append(&mut self, encoded: Encoded) -> Result<(), OutputError> {
        match (&mut self.writer, encoded) {
            (FileWriter::Csv(file), Encoded::Text(text)) => file
                .write_all(&text)
                .map_err(|source| io_error(&self.path, source)),
            (FileWriter::Parquet(writer), Encoded::RowGroup(Some(group))) => writer
                .append(*group)
                .map_err(|source| parquet_error(&self.path, source)),
            _ => Ok(()),
        }
    }

    /// Completes the file and gives it its name; if that fails, nothing is left behind.
    pub fn finish(self, provenance: &Provenance) -> Result<(), OutputError> {
        let file = match self.writer {
            FileWriter::Csv(file) => file,
            FileWriter::Parquet(writer) => writer
                .finish(provenance)
                .map_err(|source| parquet_error(&self.path, source))?,
        };
        file.finish()
    }
}

impl Encoder {
    /// Encodes the hits of a batch whose events come from `rows`.
    pub fn encode(&mut self, rows: &Rows<'_>) -> Result<Encoded, OutputError> {
        let HitStyle {
            path,
            format,
            form,
            names,
            ..
        } = &self.style;
        match format {
            HitFormat::Csv => Ok(Encoded::Text(self.text(rows))),
            HitFormat::Parquet => {
                let rows = Rows {
                    files: names,
                    ..*rows
                };
                let group =
                    RowGroup::encode(form, &rows).map_err(|source| parquet_error(path, source))?;
                Ok(Encoded::RowGroup(group.map(Box::new)))
            }
        }
    }

    fn text(&mut self, rows: &Rows<'_>) -> Vec<u8> {
        let HitStyle {
            names,
            columns:
                Columns {
                    run,
                    event_number,
                    file,
                    detector,
                },
            ..
        } = &self.style;
        // A mean row has 70 bytes.
        let mut text = Vec::with_capacity((80 + 4 * detector.len()) * rows.hits.len());
        let of_events: Vec<String> = (0..rows.origins.len())
            .map(|e| {
                let meta = rows.meta.get(e).copied().unwrap_or_default();
                let mut fields = String::new();
                if *file {
                    fields = fields + "," + &names[rows.origins[e].file as usize];
                }
                for (_, value) in [(run, meta.run.map(u64::from)), (event_number, meta.event)]
                    .iter()
                    .filter(|f| *f.0)
                {
                    fields.push(',');
                    fields.extend(value.map(|value| value.to_string()));
                }
                fields
            })
            .collect();
        let columns: Vec<_> = detector
            .iter()
            .map(|column| column.values(rows.tables, rows.hits))
            .collect();
        self.rows.append(
            rows.hits,
            |e| (rows.origins[e].event, &of_events[e]),
            &columns,
            &mut text,
        );
        text
    }
}

fn called(path: &Path) -> String {
    if path.as_os_str() == "-" {
        "to standard output".to_owned()
    } else {
        path.display().to_string()
    }
}

fn io_error(path: &Path, source: io::Error) -> OutputError {
    OutputError::Io {
        file: path.to_path_buf(),
        source,
    }
}
