//! T4, the autotuning community's form for results (schema 1.0.0), read.
//!
//! What real files do: the unit of time is spelt "miliseconds"; a failure's value is a string; the compilation's time is
//! called `compilation`, not `compilation_time` as in the schema; a configuration may occur more than once (its samples
//! are then joined; a later failure replaces them, and later times replace a failure).

use std::collections::HashMap;

use serde_json::Value as Json;

use super::{Ordered, assemble, failed, key_of, mean_only, samples, time_of, value_of};
use crate::replay::{Measured, Record, Recording};
use crate::{FailureKind, Value};

#[derive(serde::Deserialize)]
struct File {
    #[serde(default)]
    metadata: Metadata,
    results: Vec<Entry>,
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
struct Entry {
    configuration: Ordered<Json>,
    times: Option<Times>,
    invalidity: String,
    #[serde(default)]
    measurements: Vec<Measurement>,
}

#[derive(serde::Deserialize)]
struct Times {
    #[serde(alias = "compilation")]
    compilation_time: Option<f64>,
    runtimes: Option<Vec<Json>>,
}

#[derive(serde::Deserialize)]
struct Measurement {
    name: String,
    value: Json,
    unit: Option<String>,
}

/// Reads a T4 file from its text.
///
/// # Errors
/// If it is not JSON of this form, with line and column; the result (counted from 0) and the member that cannot be
/// understood; an unknown unit of time.
pub fn parse(text: &str) -> Result<Recording, String> {
    let file: File = serde_json::from_str(text).map_err(|error| format!("T4: {error}"))?;
    let unit = file.metadata.timeunit.as_deref();
    let unit_ms = match unit {
        Some(unit) => unit_ms(unit).ok_or_else(|| format!("metadata: unknown unit of time {unit:?}"))?,
        None => 1.0,
    };
    let mut names: Option<Vec<String>> = None;
    let mut rows: Vec<(Vec<Value>, Record)> = Vec::with_capacity(file.results.len());
    let mut seen = HashMap::new();
    for (at, entry) in file.results.into_iter().enumerate() {
        let wrong = |what: String| format!("result {at}: {what}");
        let compile_ms = entry.times.as_ref().and_then(|times| Some(times.compilation_time? * unit_ms));
        let record = Record {
            measured: measured(&entry, unit_ms).map_err(wrong)?,
            compile_ms: compile_ms.filter(|ms| *ms >= 0.0 && ms.is_finite()),
        };
        let names = names.get_or_insert_with(|| entry.configuration.0.iter().map(|(name, _)| name.clone()).collect());
        if entry.configuration.0.len() != names.len() {
            return Err(wrong(format!("{} parameters, the first has {}", entry.configuration.0.len(), names.len())));
        }
        let find = |name: &String| entry.configuration.0.iter().find(|(other, _)| other == name);
        let values: Option<Vec<Value>> =
            names.iter().map(|name| find(name).map(|(_, value)| value_of(value))).collect();
        let values = values.ok_or_else(|| wrong("has other parameters than the first".to_owned()))?;
        if let Some(&earlier) = seen.get(&key_of(&values)) {
            join(&mut rows, earlier, record);
        } else {
            seen.insert(key_of(&values), rows.len());
            rows.push((values, record));
        }
    }
    let recording = Recording {
        device: file.metadata.device.unwrap_or_default(),
        kernel: file.metadata.kernel.unwrap_or_default(),
        problem: file.metadata.problem.unwrap_or_default(),
        ..Recording::default()
    };
    assemble(recording, &names.unwrap_or_default(), rows)
}

/// A configuration again.
fn join(rows: &mut [(Vec<Value>, Record)], earlier: usize, later: Record) {
    let earlier = &mut rows[earlier].1;
    match (&mut earlier.measured, later.measured) {
        (Measured::Samples(times), Measured::Samples(more)) => times.extend(more),
        (measured, later) => *measured = later,
    }
    earlier.compile_ms = earlier.compile_ms.or(later.compile_ms);
}

/// Returns the milliseconds of one unit.
fn unit_ms(unit: &str) -> Option<f64> {
    match unit.trim().to_ascii_lowercase().as_str() {
        "" | "ms" | "millisecond" | "milliseconds" | "milisecond" | "miliseconds" => Some(1.0),
        "s" | "sec" | "second" | "seconds" => Some(1e3),
        "us" | "µs" | "microsecond" | "microseconds" => Some(1e-3),
        "ns" | "nanosecond" | "nanoseconds" => Some(1e-6),
        _ => None,
    }
}

fn measured(entry: &Entry, file_unit_ms: f64) -> Result<Measured, String> {
    let time = entry.measurements.iter().find(|measurement| measurement.name == "time");
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
        let word = time.and_then(|time| time.value.as_str()).unwrap_or(&entry.invalidity);
        return Ok(failed(kind, format!("recorded: {word}")));
    }
    if let Some(runtimes) = entry.times.as_ref().and_then(|times| times.runtimes.as_ref())
        && !runtimes.is_empty()
    {
        let times: Result<Vec<f64>, String> = runtimes.iter().map(|time| time_of(time, file_unit_ms)).collect();
        return times.map(samples).map_err(|error| format!("runtimes: {error}"));
    }
    let Some(time) = time else {
        return Ok(failed(FailureKind::Launch, "recorded without a time".to_owned()));
    };
    let unit = match time.unit.as_deref() {
        None | Some("") => file_unit_ms,
        Some(unit) => unit_ms(unit).ok_or_else(|| format!("unknown unit of time {unit:?}"))?,
    };
    match &time.value {
        Json::Array(times) => {
            let times: Result<Vec<f64>, String> = times.iter().map(|time| time_of(time, unit)).collect();
            times.map(samples).map_err(|error| format!("time: {error}"))
        }
        value => time_of(value, unit).map(mean_only).map_err(|error| format!("time: {error}")),
    }
}
