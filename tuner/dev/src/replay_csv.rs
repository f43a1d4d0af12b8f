//! Compact form of a recorded space: CSV, one row a configuration.
//!
//! The first lines may be comments (`# device=…; kernel=…; problem_size=…; fixed={…}`). The header
//! follows, in any order: `status` (`ok`, `compile`, `runtime` or `invalid`), `mean_ms`, and the
//! names of the parameters. The columns `median_ms,min_ms,sd_ms,n,compile_ms` are not read; `n`
//! stands behind `status`.

use std::collections::HashMap;

use tuner::{Failure, FailureKind, Outcome, Value};

use crate::replay::Recording;

/// Columns that are not parameters.
const KNOWN: [&str; 7] = [
    "status",
    "mean_ms",
    "median_ms",
    "min_ms",
    "sd_ms",
    "n",
    "compile_ms",
];

/// Reads a recorded space from the text of the compact form.
///
/// # Errors
/// If a line cannot be understood; the error names it (counted from 1).
pub fn parse_csv(text: &str) -> Result<Recording, String> {
    let mut recording = Recording::default();
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line.trim_end_matches('\r')));
    let header = loop {
        match lines.next() {
            Some((at, line)) if line.starts_with('#') => {
                comment(line.trim_start_matches('#'), &mut recording)
                    .map_err(|error| format!("line {at}: {error}"))?;
            }
            Some((_, line)) if line.trim().is_empty() => {}
            Some((_, line)) => break line,
            None => return Err("no header".to_owned()),
        }
    };
    let columns: Vec<&str> = header.split(',').map(str::trim).collect();
    let place = |name: &str| columns.iter().position(|&column| column == name);
    let needed =
        |name: &str| place(name).ok_or_else(|| format!("the header has no column {name:?}"));
    let (status, mean) = (needed("status")?, needed("mean_ms")?);
    let twice = |name: &&&str| columns.iter().filter(|&column| column == *name).count() > 1;
    if let Some(name) = KNOWN.iter().find(twice) {
        return Err(format!("the header names the column {name:?} twice"));
    }
    // A parameter of this name would be taken for the number of samples.
    if place("n").is_some_and(|n| n < status) {
        let why = "\"n\" is the number of samples, and stands behind \"status\"; a parameter needs another name";
        return Err(format!(
            "the header has a column \"n\" before \"status\": {why}"
        ));
    }
    let parameters: Vec<usize> = (0..columns.len())
        .filter(|&column| !KNOWN.contains(&columns[column]))
        .collect();
    let names: Vec<String> = parameters
        .iter()
        .map(|&column| columns[column].to_owned())
        .collect();
    let (mut cells, mut outcomes, mut at_line) = (Vec::<Vec<&str>>::new(), Vec::new(), Vec::new());
    for (at, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        if fields.len() != columns.len() {
            return Err(format!(
                "line {at}: {} fields, the header has {}",
                fields.len(),
                columns.len()
            ));
        }
        let failed = |kind, words: &str| {
            Outcome::Failed(Failure {
                kind,
                message: format!("recorded: {words}"),
            })
        };
        outcomes.push(match fields[status] {
            "ok" => match fields[mean].parse::<f64>() {
                Ok(mean) if mean.is_finite() && mean > 0.0 => Outcome::Times(vec![mean]),
                _ => {
                    return Err(format!(
                        "line {at}: status ok, but no mean_ms above 0: {:?}",
                        fields[mean]
                    ));
                }
            },
            "compile" => failed(FailureKind::Compile, "does not compile"),
            "runtime" => failed(FailureKind::Launch, "does not launch or dies"),
            "invalid" => failed(FailureKind::Constraint, "a constraint forbids it"),
            other => {
                return Err(format!(
                    "line {at}: status {other:?} is none of ok, compile, runtime, invalid"
                ));
            }
        });
        cells.push(parameters.iter().map(|&column| fields[column]).collect());
        at_line.push(at);
    }

    let kinds: Vec<fn(&str) -> Option<Value>> = (0..parameters.len())
        .map(|column| kind_of(&cells.iter().map(|row| row[column]).collect::<Vec<_>>()))
        .collect();
    // Every cell parses: the column's kind was chosen for that.
    let values = |row: &Vec<&str>| {
        row.iter()
            .zip(&kinds)
            .filter_map(|(cell, kind)| kind(cell))
            .collect()
    };
    let rows: Vec<Vec<Value>> = cells.iter().map(values).collect();
    let mut lines = HashMap::new();
    for (row, at) in rows.iter().zip(&at_line) {
        if let Some(first) = lines.insert(row.iter().map(Value::key).collect::<Vec<_>>(), at) {
            return Err(format!(
                "lines {first} and {at} hold the same configuration"
            ));
        }
    }
    recording
        .with_rows(&names, &rows, outcomes)
        .map_err(|error| error.to_string())
}

/// Returns the parser of the narrowest kind that all cells of a column have.
fn kind_of(cells: &[&str]) -> fn(&str) -> Option<Value> {
    let int = |cell: &str| cell.parse().ok().map(Value::Int);
    let float = |cell: &str| {
        cell.parse()
            .ok()
            .filter(|value: &f64| value.is_finite())
            .map(Value::Float)
    };
    let boolean = |cell: &str| match cell {
        "true" | "True" => Some(Value::Bool(true)),
        "false" | "False" => Some(Value::Bool(false)),
        _ => None,
    };
    let kinds: [fn(&str) -> Option<Value>; 3] = [int, float, boolean];
    let all = |kind: &fn(&str) -> Option<Value>| cells.iter().all(|cell| kind(cell).is_some());
    kinds
        .into_iter()
        .find(all)
        .unwrap_or(|cell| Some(Value::Text(cell.to_owned())))
}

/// Reads the comment's `key=value; key=value`.
fn comment(text: &str, recording: &mut Recording) -> Result<(), String> {
    for part in text.split("; ") {
        let Some((key, value)) = part.split_once('=') else {
            continue;
        };
        let value = value.trim();
        match key.trim() {
            "device" => value.clone_into(&mut recording.device),
            "kernel" => value.clone_into(&mut recording.kernel),
            "problem_size" => value.clone_into(&mut recording.problem),
            "fixed" => {
                let fixed: std::collections::BTreeMap<String, Value> =
                    serde_json::from_str(value).map_err(|error| format!("fixed: {error}"))?;
                recording.fixed = fixed.into_iter().collect();
            }
            "time_unit" if value != "ms" => {
                return Err(format!("the times are in {value:?}, not in ms"));
            }
            _ => {}
        }
    }
    Ok(())
}
