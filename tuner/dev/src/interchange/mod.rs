//! Files of recorded spaces.
//!
//! [`read_recording`] tells the forms apart by their content: compact CSV, Kernel Tuner cache, T4
//! file. All may be gzipped. [`import()`] keeps a recording in a store.

mod import;
mod kernel_tuner;
mod t4;

use std::collections::HashMap;
use std::fmt;
use std::io::Read;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

pub use import::{fingerprint, import, workload_of};

use tuner::{Error, ErrorKind, Failure, FailureKind, Outcome, Value};

use crate::replay::Recording;
use crate::replay_csv::parse_csv;

/// Largest size of a file, also after unpacking: a recorded space has some MB.
const LARGEST: u64 = 256 << 20;

/// Largest factor by which a file may unpack: recordings reach 20, blanks 1000.
const MOST_PACKED: u64 = 200;

/// Reads a recorded space in any of the known forms.
///
/// # Errors
/// If the file cannot be read, or a line, entry or field not be understood.
pub fn read_recording(file: &Path) -> Result<Recording, Error> {
    let wrong = |what: String| Error::new(ErrorKind::Format, what);
    let read = read_text(file).and_then(|text| recording_of(&text).map_err(wrong));
    read.map_err(|error| error.of(file.display()))
}

fn recording_of(text: &str) -> Result<Recording, String> {
    #[derive(serde::Deserialize)]
    struct Probe {
        cache: Option<IgnoredAny>,
        results: Option<IgnoredAny>,
    }
    if !text.trim_start().starts_with('{') {
        return parse_csv(text);
    }
    match serde_json::from_str(text).map_err(|error| format!("JSON: {error}"))? {
        Probe { cache: Some(_), .. } => kernel_tuner::parse(text),
        Probe {
            results: Some(_), ..
        } => t4::parse(text),
        _ => Err("neither a Kernel Tuner cache (\"cache\") nor a T4 file (\"results\")".to_owned()),
    }
}

/// Reads a whole file as text, unpacked if it is gzipped.
fn read_text(path: &Path) -> Result<String, Error> {
    let io = |error: std::io::Error| Error::new(ErrorKind::File, error.to_string());
    let wrong = |what: &str| Error::new(ErrorKind::Format, what);
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
        .map_err(io)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let most = LARGEST.min(MOST_PACKED * bytes.len() as u64);
        let mut plain = Vec::new();
        flate2::read::MultiGzDecoder::new(bytes.as_slice())
            .take(most + 1)
            .read_to_end(&mut plain)
            .map_err(io)?;
        if plain.len() as u64 > most {
            return Err(wrong(
                "it unpacks to more than 200 times its size, or 256 MiB",
            ));
        }
        bytes = plain;
    }
    if bytes.len() as u64 > LARGEST {
        return Err(wrong("larger than 256 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| wrong("not UTF-8"))
}

/// Members of a JSON object in the file's order, which is the order of the parameters.
struct Ordered<T>(Vec<(String, T)>);

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

/// Converts a parameter's value from JSON. A list or null becomes its text.
fn value_of(json: &serde_json::Value) -> Value {
    serde_json::from_value(json.clone()).unwrap_or_else(|_| Value::Text(json.to_string()))
}

/// Reads times, finite numbers that are not negative; `unit_ms` is their unit in ms. Times that are
/// all 0, or whose sum is infinite, become a failure.
fn times_of<'a>(
    json: impl IntoIterator<Item = &'a serde_json::Value>,
    unit_ms: f64,
) -> Result<Outcome, String> {
    let time = |json: &serde_json::Value| match json.as_f64().map(|time| time * unit_ms) {
        Some(time) if time.is_finite() && time >= 0.0 => Ok(time),
        _ => Err(format!("{json} is not a time")),
    };
    let times = json
        .into_iter()
        .map(time)
        .collect::<Result<Vec<f64>, String>>()?;
    Ok(if !times.iter().sum::<f64>().is_finite() {
        failed(
            FailureKind::Launch,
            "the recorded times are too long to be real".to_owned(),
        )
    } else if times.iter().all(|&time| time == 0.0) {
        failed(
            FailureKind::Launch,
            "the recording has no positive time for this configuration".to_owned(),
        )
    } else {
        Outcome::Times(times)
    })
}

fn failed(kind: FailureKind, message: String) -> Outcome {
    Outcome::Failed(Failure { kind, message })
}

/// Rows of a recording, one for each configuration.
#[derive(Default)]
struct RecordingRows {
    values: Vec<Vec<Value>>,
    outcomes: Vec<Outcome>,
    places: HashMap<Vec<String>, usize>,
}

impl RecordingRows {
    /// Adds the outcome of a configuration, or merges it by `again` into the earlier outcome.
    fn add(&mut self, values: Vec<Value>, outcome: Outcome, again: fn(&mut Outcome, Outcome)) {
        let key = values.iter().map(Value::key).collect();
        if let Some(&place) = self.places.get(&key) {
            again(&mut self.outcomes[place], outcome);
        } else {
            self.places.insert(key, self.values.len());
            self.values.push(values);
            self.outcomes.push(outcome);
        }
    }

    fn recording(self, head: Recording, names: &[String]) -> Result<Recording, String> {
        head.with_rows(names, &self.values, self.outcomes)
            .map_err(|error| error.to_string())
    }
}
