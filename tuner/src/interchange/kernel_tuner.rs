//! Kernel Tuner's cache files, read.
//!
//! One object with the device, the kernel, the parameters and their values, and `cache`: an entry for every
//! configuration that was tried. What real files do, and what is made of it here:
//!
//! - a failure is a string (`CompilationFailedConfig`, `RuntimeFailedConfig`, `InvalidConfig`) in `time`, or in the
//!   objective's own member, `time` then missing; very old files have the time 1e20 instead;
//! - `device_name` is empty or missing; `problem_size` is a number, a list or any text;
//! - an entry that occurs twice counts as its last occurrence, as it does for Python.
//!
//! Times are ms. `compile_time` is kept as it is: old versions wrote seconds for some entries.

use std::collections::HashMap;

use serde_json::{Map, Value as Json};

use super::{Ordered, assemble, failed, key_of, mean_only, samples, time_of, value_of};
use crate::replay::{Measured, Record, Recording};
use crate::{FailureKind, Value};

/// Old versions wrote this as the time of what has none.
const NO_TIME: f64 = 1e20;

#[derive(serde::Deserialize)]
struct Cache {
    device_name: Option<String>,
    kernel_name: Option<String>,
    problem_size: Option<Json>,
    tune_params_keys: Vec<String>,
    objective: Option<String>,
    #[serde(rename = "cache")]
    entries: Ordered<Map<String, Json>>,
}

/// Reads a cache from its text.
///
/// # Errors
/// If it is not JSON of this form, with line and column; the entry and the member that cannot be understood.
pub fn parse(text: &str) -> Result<Recording, String> {
    let cache: Cache = serde_json::from_str(text).map_err(|error| format!("Kernel Tuner cache: {error}"))?;
    let objective = cache.objective.unwrap_or_else(|| "time".to_owned());
    let mut rows: Vec<(Vec<Value>, Record)> = Vec::with_capacity(cache.entries.0.len());
    let mut seen = HashMap::new();
    for (key, entry) in cache.entries.0 {
        let wrong = |what: String| format!("cache entry {key:?}: {what}");
        let mut values = Vec::with_capacity(cache.tune_params_keys.len());
        for name in &cache.tune_params_keys {
            let value = entry.get(name).ok_or_else(|| wrong(format!("has no parameter {name:?}")))?;
            values.push(value_of(value));
        }
        let measured = measured(&entry, &objective).map_err(wrong)?;
        let compile_ms = entry.get("compile_time").and_then(Json::as_f64).filter(|time| *time >= 0.0);
        let row = (values, Record { measured, compile_ms });
        match seen.insert(key_of(&row.0), rows.len()) {
            Some(earlier) => {
                seen.insert(key_of(&row.0), earlier);
                rows[earlier] = row;
            }
            None => rows.push(row),
        }
    }
    let recording = Recording {
        device: cache.device_name.unwrap_or_default(),
        kernel: cache.kernel_name.unwrap_or_default(),
        problem: problem_text(cache.problem_size.as_ref()),
        ..Recording::default()
    };
    assemble(recording, &cache.tune_params_keys, rows)
}

/// Prints the problem as Python does, which is what the compact form has.
fn problem_text(problem: Option<&Json>) -> String {
    match problem {
        None | Some(Json::Null) => String::new(),
        Some(Json::String(text)) => text.clone(),
        Some(Json::Array(sizes)) => {
            let sizes: Vec<String> = sizes.iter().map(Json::to_string).collect();
            format!("[{}]", sizes.join(", "))
        }
        Some(other) => other.to_string(),
    }
}

fn measured(entry: &Map<String, Json>, objective: &str) -> Result<Measured, String> {
    if let Some(word) = ["time", objective].into_iter().find_map(|name| entry.get(name)?.as_str()) {
        return Ok(failed(kind_of(word), format!("recorded: {word}")));
    }
    if let Some(Json::Array(times)) = entry.get("times")
        && !times.is_empty()
    {
        // A null counts as no number.
        let times = times.iter().filter(|time| !time.is_null()).map(|time| time_of(time, 1.0));
        let times = times.collect::<Result<Vec<f64>, String>>().map_err(|error| format!("times: {error}"))?;
        if times.is_empty() {
            return Ok(failed(FailureKind::Launch, "recorded without a time".to_owned()));
        }
        return Ok(samples(times));
    }
    match entry.get("time") {
        Some(Json::Null) | None => Ok(failed(FailureKind::Launch, "recorded without a time".to_owned())),
        Some(time) => match time_of(time, 1.0).map_err(|error| format!("time: {error}"))? {
            NO_TIME.. => Ok(failed(FailureKind::Launch, "recorded: no time".to_owned())),
            time => Ok(mean_only(time)),
        },
    }
}

/// Kernel Tuner's word for a failure.
fn kind_of(word: &str) -> FailureKind {
    match word {
        "CompilationFailedConfig" => FailureKind::Compile,
        "InvalidConfig" => FailureKind::Constraint,
        // RuntimeFailedConfig, and whatever else did not end with a time.
        _ => FailureKind::Launch,
    }
}
