//! Reads T4, the autotuning community's form for results (schema 1.0.0).
//!
//! In real files the unit of time is spelt "miliseconds", a failure's value is a string, and a
//! configuration may occur more than once: its samples are joined, a later failure replaces them,
//! and later times replace a failure.

use serde_json::Value as Json;
use tuner::program::unit_ms;
use tuner::{FailureKind, Outcome, Value};

use super::{Ordered, RecordingRows, failed, times_of, value_of};
use crate::replay::Recording;

#[derive(serde::Deserialize)]
struct File {
    #[serde(default)]
    metadata: Metadata,
    results: Vec<T4Entry>,
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Metadata {
    timeunit: Option<String>,
    device: Option<String>,
    kernel: Option<String>,
    problem: Option<String>,
}

#[derive(serde::Deserialize)]
struct T4Entry {
    configuration: Ordered<Json>,
    times: Option<Times>,
    invalidity: String,
    #[serde(default)]
    measurements: Vec<T4Measurement>,
}

#[derive(serde::Deserialize)]
struct Times {
    runtimes: Option<Vec<Json>>,
}

#[derive(serde::Deserialize)]
struct T4Measurement {
    name: String,
    value: Json,
    unit: Option<String>,
}

/// Reads a T4 file from its text.
///
/// # Errors
/// If the text is not JSON of this form, a result cannot be understood, or a unit of time is
/// unknown.
pub fn parse(text: &str) -> Result<Recording, String> {
    let file: File = serde_json::from_str(text).map_err(|error| format!("T4: {error}"))?;
    let of_file = unit_of(file.metadata.timeunit.as_deref(), 1.0)
        .map_err(|error| format!("metadata: {error}"))?;
    let mut names: Option<Vec<String>> = None;
    let mut rows = RecordingRows::default();
    for (at, entry) in file.results.into_iter().enumerate() {
        let wrong = |what: String| format!("result {at}: {what}");
        let outcome = outcome(&entry, of_file).map_err(wrong)?;
        let parameters = entry.configuration.0;
        let names =
            names.get_or_insert_with(|| parameters.iter().map(|(name, _)| name.clone()).collect());
        if parameters.len() != names.len() {
            return Err(wrong(format!(
                "{} parameters, the first has {}",
                parameters.len(),
                names.len()
            )));
        }
        let value = |name: &String| {
            parameters
                .iter()
                .find(|(other, _)| other == name)
                .map(|(_, value)| value_of(value))
        };
        let values: Option<Vec<Value>> = names.iter().map(value).collect();
        let values =
            values.ok_or_else(|| wrong("has other parameters than the first".to_owned()))?;
        rows.add(values, outcome, |earlier, later| match (earlier, later) {
            (Outcome::Times(times), Outcome::Times(more)) => times.extend(more),
            (earlier, later) => *earlier = later,
        });
    }
    let head = Recording {
        device: file.metadata.device.unwrap_or_default(),
        kernel: file.metadata.kernel.unwrap_or_default(),
        problem: file.metadata.problem.unwrap_or_default(),
        ..Recording::default()
    };
    rows.recording(head, &names.unwrap_or_default())
}

/// Returns a unit of time in ms; `otherwise` if there is no name.
fn unit_of(name: Option<&str>, otherwise: f64) -> Result<f64, String> {
    match name {
        None | Some("") => Ok(otherwise),
        Some(name) => unit_ms(name).ok_or_else(|| format!("unknown unit of time {name:?}")),
    }
}

fn outcome(entry: &T4Entry, of_file: f64) -> Result<Outcome, String> {
    let time = entry
        .measurements
        .iter()
        .find(|measurement| measurement.name == "time");
    let kind = match entry.invalidity.as_str() {
        "correct" => None,
        "timeout" => Some(FailureKind::TimeOut),
        "compile" => Some(FailureKind::Compile),
        "runtime" => Some(FailureKind::Launch),
        "correctness" => Some(FailureKind::WrongResult),
        "constraints" => Some(FailureKind::Constraint),
        other => return Err(format!("unknown invalidity {other:?}")),
    };
    if let Some(kind) = kind {
        let word = time
            .and_then(|time| time.value.as_str())
            .unwrap_or(&entry.invalidity);
        return Ok(failed(kind, format!("recorded: {word}")));
    }
    if let Some(runtimes) = entry
        .times
        .as_ref()
        .and_then(|times| times.runtimes.as_ref())
        && !runtimes.is_empty()
    {
        return times_of(runtimes, of_file).map_err(|error| format!("runtimes: {error}"));
    }
    let Some(time) = time else {
        return Ok(failed(
            FailureKind::Launch,
            "the recording has no time for this configuration".to_owned(),
        ));
    };
    let unit_ms = unit_of(time.unit.as_deref(), of_file)?;
    let times = time
        .value
        .as_array()
        .map_or_else(|| std::slice::from_ref(&time.value), Vec::as_slice);
    times_of(times, unit_ms).map_err(|error| format!("time: {error}"))
}
