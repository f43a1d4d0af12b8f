//! Kernel Tuner's cache files, read and written.
//!
//! One object with the device, the kernel, the parameters and their values, and `cache`: an entry for every
//! configuration that was tried. What real files do, and what is made of it here:
//!
//! - a failure is a string (`CompilationFailedConfig`, `RuntimeFailedConfig`, `InvalidConfig`) in `time`, or in the
//!   objective's own member, `time` then missing; very old files have the time 1e20 instead;
//! - the file is not closed after a kill: it ends at the last complete entry;
//! - `device_name` is empty or missing; `problem_size` is a number, a list or any text;
//! - `NaN` and `Infinity` count as no number;
//! - an entry that occurs twice counts as its last occurrence, as it does for Python.
//!
//! Times are ms. `compile_time` is kept as it is: old versions wrote seconds for some entries.

use std::collections::HashMap;
use std::io::{self, Write};

use serde_json::{Map, Value as Json, json};

use super::{Ordered, assemble, failed, key_of, mean_only, samples, time_of, value_of};
use crate::replay::{Measured, Record, Recording, Summary};
use crate::space::Parameter;
use crate::{Failure, FailureKind, Value};

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

/// As Python prints it, which is what the compact form has.
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
    // What `write` adds for what Kernel Tuner has no word for.
    if let Some(failure) = entry.get("failure") {
        return Ok(Measured::Failed(
            serde_json::from_value(failure.clone()).map_err(|error| format!("failure: {error}"))?,
        ));
    }
    if let Some(summary) = entry.get("summary") {
        let wrong = |error: String| format!("summary: {error}");
        // What it lacks, and what is no number of samples, is refused when it is read.
        let read: Summary = serde_json::from_value(summary.clone()).map_err(|error| wrong(error.to_string()))?;
        for name in ["mean_ms", "median_ms", "min_ms", "sd_ms"] {
            time_of(&summary[name], 1.0).map_err(|error| wrong(format!("{name}: {error}")))?;
        }
        if read.mean_ms == 0.0 {
            return Err(wrong("mean_ms: it is 0".to_owned()));
        }
        return Ok(Measured::Summary(read));
    }
    if let Some(word) = ["time", objective].into_iter().find_map(|name| entry.get(name)?.as_str()) {
        return Ok(failed(kind_of(word), format!("recorded: {word}")));
    }
    if let Some(Json::Array(times)) = entry.get("times")
        && !times.is_empty()
    {
        // NaN became null; it counts as no number.
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

fn word_of(failure: &Failure) -> &'static str {
    match failure.kind {
        FailureKind::Compile => "CompilationFailedConfig",
        FailureKind::Constraint | FailureKind::Declined => "InvalidConfig",
        FailureKind::Launch | FailureKind::WrongResult | FailureKind::TimeOut => "RuntimeFailedConfig",
    }
}

/// Writes a recording as a cache that Kernel Tuner reads, one entry a line.
///
/// What Kernel Tuner has no member for goes into members of our own, which it ignores: `failure` (kind and message)
/// and `summary` (where the samples are not known). Fixed parameters become parameters of one value.
///
/// # Errors
/// Those of `to`.
pub fn write(recording: &Recording, to: &mut impl Write) -> io::Result<()> {
    let names: Vec<&str> = recording.space.parameters().iter().map(Parameter::name).collect();
    let fixed = recording.fixed.iter().filter(|(name, _)| !names.contains(&name.as_str()));
    let fixed: Vec<&(String, Value)> = fixed.collect();
    let keys: Vec<&str> = names.iter().copied().chain(fixed.iter().map(|(name, _)| name.as_str())).collect();

    if let Some(name) = keys.iter().find(|name| MEMBERS.contains(name)) {
        let why =
            format!("a parameter is called {name}, and so is a result in Kernel Tuner's caches: export t4 or json");
        return Err(io::Error::other(why));
    }
    let mut params = Vec::new();
    for parameter in recording.space.parameters() {
        params.push(format!("{}: {}", json!(parameter.name()), json!(parameter.values())));
    }
    params.extend(fixed.iter().map(|(name, value)| format!("{}: {}", json!(name), json!([value]))));
    // Inside the cache a value is one level deeper than alone. If that is one too many for the JSON reader, it goes in as text.
    let problem = serde_json::from_str(&format!("[{}]", recording.problem));
    let problem = problem.map_or_else(|_| json!(recording.problem), |[problem]: [Json; 1]| problem);

    writeln!(to, "{{\n\"device_name\": {},", json!(recording.device))?;
    writeln!(to, "\"kernel_name\": {},", json!(recording.kernel))?;
    writeln!(to, "\"problem_size\": {problem},")?;
    writeln!(to, "\"tune_params_keys\": {},", json!(keys))?;
    writeln!(to, "\"tune_params\": {{{}}},", params.join(", "))?;
    write!(to, "\"objective\": \"time\",\n\"cache\": {{")?;
    for (index, record) in recording.records.iter().enumerate() {
        let values: Vec<Value> =
            recording.space.config(index).0.into_iter().chain(fixed.iter().map(|(_, value)| value.clone())).collect();
        let key: Vec<String> = values.iter().map(ToString::to_string).collect();
        let members = keys.iter().zip(&values).map(|(name, value)| format!("{}: {}", json!(name), json!(value)));
        let members: Vec<String> = members.chain(result_members(record)).collect();
        write!(to, "{}\n{}: {{{}}}", if index == 0 { "" } else { "," }, json!(key.join(",")), members.join(", "))?;
    }
    writeln!(to, "}}\n}}")
}

/// The results in an entry of the cache; its parameters stand beside them, so none can have such a name.
const MEMBERS: [&str; 10] = [
    "time",
    "times",
    "summary",
    "failure",
    "compile_time",
    "verification_time",
    "benchmark_time",
    "strategy_time",
    "framework_time",
    "timestamp",
];

fn result_members(record: &Record) -> Vec<String> {
    let mut members = match &record.measured {
        Measured::Samples(times) => {
            vec![format!("\"time\": {}", json!(record.mean_ms())), format!("\"times\": {}", json!(times))]
        }
        Measured::Summary(summary) => {
            vec![format!("\"time\": {}", json!(summary.mean_ms)), format!("\"summary\": {}", json!(summary))]
        }
        Measured::Failed(failure) => {
            vec![format!("\"time\": {}", json!(word_of(failure))), format!("\"failure\": {}", json!(failure))]
        }
    };
    if let Some(compile_ms) = record.compile_ms {
        members.push(format!("\"compile_time\": {}", json!(compile_ms)));
    }
    // Members that Kernel Tuner's own readers ask for.
    members.extend(
        ["verification_time", "benchmark_time", "strategy_time", "framework_time"].map(|name| format!("\"{name}\": 0")),
    );
    members.push("\"timestamp\": \"\"".to_owned());
    members
}
