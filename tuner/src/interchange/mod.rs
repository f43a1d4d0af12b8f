//! Recorded spaces in other programs' forms.
//!
//! [`read_recording`] takes any of them and tells them apart by their content: the compact CSV, a Kernel Tuner cache
//! ([`kernel_tuner`]), a T4 file ([`t4`]), a store or its JSON export ([`store_json`]). All may be gzipped.

pub mod kernel_tuner;
pub mod store_json;
pub mod t4;

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::replay::{Measured, Record, Recording, Summary};
use super::space::Space;
use super::store::{Store, StoreError};
use super::{Config, Failure, FailureKind, Value, replay};

/// Larger files are refused, also after unpacking: a recorded space has some MB.
const LARGEST: u64 = 256 << 20;

/// Bytes that a byte of a gzipped file may unpack to: recordings reach 20, empty space 1000.
const MOST_PACKED: u64 = 200;

/// Error of a file.
#[derive(Debug, thiserror::Error)]
pub enum InterchangeError {
    /// It cannot be read or written.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not what it should be.
    #[error("{}: {what}", file.display())]
    Content {
        /// The file.
        file: PathBuf,
        /// Reason, and place.
        what: String,
    },
    /// It is a store, and that cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Reads a recorded space in any of the known forms.
///
/// A store that holds several runs needs to be told which: `FILE#RUN`, with the number that `store list` shows.
///
/// # Errors
/// The file, and in it the line, entry or field that cannot be understood.
pub fn read_recording(path: &Path) -> Result<Recording, InterchangeError> {
    let (file, run) = split_run(path);
    if starts_as_store(&file) {
        return store_json::recording_of_store(&Store::open_read_only(&file)?, run);
    }
    recording_of(&read_text(&file)?, &file, run)
}

/// Reads a recorded space from the text of a file.
///
/// # Errors
/// As [`read_recording`].
pub fn recording_of(text: &str, file: &Path, run: Option<i64>) -> Result<Recording, InterchangeError> {
    let content = |what: String| InterchangeError::Content { file: file.to_owned(), what };
    if !text.trim_start().starts_with('{') {
        return replay::parse_csv(text).map_err(content);
    }
    match probe(text).map_err(content)? {
        Form::KernelTuner => kernel_tuner::parse(text).map_err(content),
        Form::T4 => t4::parse(text).map_err(content),
        Form::StoreExport => {
            let export = store_json::parse(text).map_err(content)?;
            store_json::recording_of_export(&export, run).map_err(content)
        }
    }
}

/// Reads runs for a store: another store, an export, or a recorded space in any of the other forms as one run.
///
/// # Errors
/// As [`read_recording`].
pub fn read_import(file: &Path) -> Result<store_json::Export, InterchangeError> {
    if starts_as_store(file) {
        return Ok(store_json::export(&Store::open_read_only(file)?, &[])?);
    }
    let content = |what: String| InterchangeError::Content { file: file.to_owned(), what };
    let text = read_text(file)?;
    if text.trim_start().starts_with('{')
        && let Form::StoreExport = probe(&text).map_err(content)?
    {
        return store_json::parse(&text).map_err(content);
    }
    Ok(store_json::export_of(&recording_of(&text, file, None)?)?)
}

/// `FILE#RUN`, unless a file of that whole name is there.
fn split_run(path: &Path) -> (PathBuf, Option<i64>) {
    let whole = || (path.to_owned(), None);
    if path.exists() {
        return whole();
    }
    let Some((file, run)) = path.to_str().and_then(|text| text.rsplit_once('#')) else { return whole() };
    run.parse().map_or_else(|_| whole(), |run| (PathBuf::from(file), Some(run)))
}

/// Returns true if the file begins as SQLite's do. Pipes do not: they can be read only once.
fn starts_as_store(path: &Path) -> bool {
    let mut magic = [0; 16];
    path.is_file()
        && std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && &magic == b"SQLite format 3\0"
}

/// The JSON forms.
enum Form {
    KernelTuner,
    T4,
    StoreExport,
}

fn probe(text: &str) -> Result<Form, String> {
    #[derive(serde::Deserialize)]
    struct Probe {
        cache: Option<IgnoredAny>,
        results: Option<IgnoredAny>,
        format: Option<IgnoredAny>,
    }
    let probe: Probe = serde_json::from_str(text).map_err(|error| format!("JSON: {error}"))?;
    match probe {
        Probe { cache: Some(_), .. } => Ok(Form::KernelTuner),
        Probe { results: Some(_), .. } => Ok(Form::T4),
        Probe { format: Some(_), .. } => Ok(Form::StoreExport),
        _ => {
            Err("neither a Kernel Tuner cache (\"cache\"), a T4 file (\"results\") nor a store (\"format\")".to_owned())
        }
    }
}

/// Reads a whole file as text, unpacked if it is gzipped.
///
/// # Errors
/// Those of reading; a file that is too large, or no UTF-8.
pub fn read_text(path: &Path) -> Result<String, InterchangeError> {
    let io = |source| InterchangeError::Io { file: path.to_owned(), source };
    let content = |what: &str| InterchangeError::Content { file: path.to_owned(), what: what.to_owned() };
    let mut bytes = Vec::new();
    std::fs::File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes)).map_err(io)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let most = LARGEST.min(MOST_PACKED * bytes.len() as u64);
        let mut plain = Vec::new();
        flate2::read::MultiGzDecoder::new(bytes.as_slice()).take(most + 1).read_to_end(&mut plain).map_err(io)?;
        if plain.len() as u64 > most {
            return Err(content("it unpacks to more than 200 times its size, or 256 MiB"));
        }
        bytes = plain;
    }
    if bytes.len() as u64 > LARGEST {
        return Err(content("larger than 256 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| content("not UTF-8"))
}

/// A JSON object whose members stay in the file's order, which is the order of the parameters.
pub(super) struct Ordered<T>(pub Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = Ordered<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Ordered(members))
            }
        }
        deserializer.deserialize_map(Members(std::marker::PhantomData))
    }
}

/// A parameter's value as JSON has it. A list or null becomes its text.
pub(super) fn value_of(json: &serde_json::Value) -> Value {
    serde_json::from_value(json.clone()).unwrap_or_else(|_| Value::Text(json.to_string()))
}

/// `time` as a time in ms: a number that is finite and not negative.
pub(super) fn time_of(json: &serde_json::Value, unit_ms: f64) -> Result<f64, String> {
    match json.as_f64().map(|time| time * unit_ms) {
        Some(time) if time.is_finite() && time >= 0.0 => Ok(time),
        _ => Err(format!("{json} is not a time")),
    }
}

/// Samples as they were recorded; times that are all 0 tell nothing, and neither do those without a mean.
pub(super) fn samples(times: Vec<f64>) -> Measured {
    if !times.iter().sum::<f64>().is_finite() {
        failed(FailureKind::Launch, "the recorded times are too long to be real".to_owned())
    } else if times.iter().any(|&time| time > 0.0) {
        Measured::Samples(times)
    } else {
        failed(FailureKind::Launch, "recorded without a time above 0".to_owned())
    }
}

/// A mean of which nothing more is known.
pub(super) fn mean_only(mean_ms: f64) -> Measured {
    if mean_ms > 0.0 {
        Measured::Summary(Summary { mean_ms, median_ms: mean_ms, min_ms: mean_ms, sd_ms: 0.0, samples: 1 })
    } else {
        failed(FailureKind::Launch, "recorded without a time above 0".to_owned())
    }
}

pub(super) fn failed(kind: FailureKind, message: String) -> Measured {
    Measured::Failed(Failure { kind, message })
}

/// A recording of `rows`, of which no two are equal; `recording` brings what belongs to all of them.
pub(super) fn assemble(
    mut recording: Recording,
    names: &[String],
    rows: Vec<(Vec<Value>, Record)>,
) -> Result<Recording, String> {
    let (values, records): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
    let (space, indices) = Space::recorded(names, &values).map_err(|error| error.to_string())?;
    let mut placed: Vec<Option<Record>> = vec![None; records.len()];
    for (record, index) in records.into_iter().zip(indices) {
        placed[index] = Some(record);
    }
    recording.space = space;
    recording.records = placed.into_iter().flatten().collect();
    Ok(recording)
}

/// A text by which equal configurations are recognised.
pub(super) fn key_of(values: &[Value]) -> String {
    // -0.0 equals 0.0 and is written differently.
    let plain = |value: &Value| match value {
        Value::Float(number) => Value::Float(number + 0.0),
        other => other.clone(),
    };
    serde_json::to_string(&Config(values.iter().map(plain).collect())).unwrap_or_default()
}
