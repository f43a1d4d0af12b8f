//! Reads Kernel Tuner's cache files.
//!
//! One object with the device, the kernel, the parameters and their values, and `cache`: an entry
//! for every configuration that was tried. Real files have these quirks:
//!
//! - a failure is a string (`CompilationFailedConfig`, `RuntimeFailedConfig`, `InvalidConfig`) in
//!   `time`, or in the objective's own member, `time` then missing; very old files have the time
//!   1e20 instead;
//! - `device_name` is empty or missing; `problem_size` is a number, a list or any text;
//! - an entry that occurs twice counts as its last occurrence, as it does for Python.
//!
//! Times are ms.

use serde_json::{Map, Value as Json};
use tuner::{FailureKind, Outcome, Value};

use super::{Ordered, RecordingRows, failed, times_of, value_of};
use crate::replay::Recording;

/// Time that old versions wrote for a failure.
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
/// If the text is not JSON of this form, or an entry cannot be understood.
pub fn parse(text: &str) -> Result<Recording, String> {
    let cache: Cache =
        serde_json::from_str(text).map_err(|error| format!("Kernel Tuner cache: {error}"))?;
    let objective = cache.objective.unwrap_or_else(|| "time".to_owned());
    let mut rows = RecordingRows::default();
    for (key, entry) in cache.entries.0 {
        let wrong = |what: String| format!("cache entry {key:?}: {what}");
        let value = |name: &String| {
            entry
                .get(name)
                .map(value_of)
                .ok_or_else(|| format!("has no parameter {name:?}"))
        };
        let values = cache
            .tune_params_keys
            .iter()
            .map(value)
            .collect::<Result<Vec<Value>, _>>()
            .map_err(wrong)?;
        rows.add(
            values,
            outcome(&entry, &objective).map_err(wrong)?,
            |earlier, later| *earlier = later,
        );
    }
    let head = Recording {
        device: cache.device_name.unwrap_or_default(),
        kernel: cache.kernel_name.unwrap_or_default(),
        problem: problem_text(cache.problem_size.as_ref()),
        ..Recording::default()
    };
    rows.recording(head, &cache.tune_params_keys)
}

/// Prints the problem as Python does, like the compact form.
fn problem_text(problem: Option<&Json>) -> String {
    match problem {
        None | Some(Json::Null) => String::new(),
        Some(Json::String(text)) => text.clone(),
        Some(Json::Array(sizes)) => format!(
            "[{}]",
            sizes
                .iter()
                .map(Json::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        ),
        Some(other) => other.to_string(),
    }
}

fn outcome(entry: &Map<String, Json>, objective: &str) -> Result<Outcome, String> {
    if let Some(word) = ["time", objective]
        .into_iter()
        .find_map(|name| entry.get(name)?.as_str())
    {
        return Ok(failed(kind_of(word), format!("recorded: {word}")));
    }
    let without = || {
        Ok(failed(
            FailureKind::Launch,
            "the recording has no time for this configuration".to_owned(),
        ))
    };
    if let Some(Json::Array(times)) = entry.get("times")
        && !times.is_empty()
    {
        // A null counts as no number.
        let times: Vec<&Json> = times.iter().filter(|time| !time.is_null()).collect();
        return if times.is_empty() {
            without()
        } else {
            times_of(times, 1.0).map_err(|error| format!("times: {error}"))
        };
    }
    match entry.get("time") {
        Some(Json::Null) | None => without(),
        Some(time) if time.as_f64().is_some_and(|time| time >= NO_TIME) => without(),
        Some(time) => times_of([time], 1.0).map_err(|error| format!("time: {error}")),
    }
}

/// Translates Kernel Tuner's word for a failure.
fn kind_of(word: &str) -> FailureKind {
    match word {
        "CompilationFailedConfig" => FailureKind::Compile,
        "InvalidConfig" => FailureKind::Constraint,
        // RuntimeFailedConfig, and any other word.
        _ => FailureKind::Launch,
    }
}
