//! The compact form of a recorded space: CSV, gzipped or not, one row a configuration.
//!
//! The first lines may be comments (`# device=…; kernel=…; problem_size=…; fixed={…}`); then a header, in any order:
//! `status`, `mean_ms,median_ms,min_ms,sd_ms,n,compile_ms`, of which only `mean_ms` must be there, and the names of the
//! parameters, which are all others; but `n` stands behind `status`. `status` is `ok`, `compile`, `runtime` or `invalid`.

use crate::replay::{Measured, Record, Recording, Summary};
use crate::space::{Space, SpaceError};
use crate::{Failure, FailureKind, Value};

/// The columns that are no parameters.
const KNOWN: [&str; 7] = ["status", "mean_ms", "median_ms", "min_ms", "sd_ms", "n", "compile_ms"];

/// Reads a recorded space from the text of the compact form.
///
/// # Errors
/// The line (counted from 1) and the column that cannot be understood, as words.
pub fn parse_csv(text: &str) -> Result<Recording, String> {
    let mut recording = Recording::default();
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim_end_matches('\r')));
    let header = loop {
        match lines.next() {
            Some((at, line)) if line.starts_with('#') => {
                comment(line.trim_start_matches('#'), &mut recording).map_err(|error| format!("line {at}: {error}"))?;
            }
            Some((_, line)) if line.trim().is_empty() => {}
            Some((_, line)) => break line,
            None => return Err("no header".to_owned()),
        }
    };
    let columns: Vec<&str> = header.split(',').map(str::trim).collect();
    let status = columns.iter().position(|&name| name == "status").ok_or("the header has no column \"status\"")?;
    let place = |name: &str| columns.iter().position(|&column| column == name);
    let mean = place("mean_ms").ok_or("the header has no column \"mean_ms\"")?;
    let (median, min, sd, n) = (place("median_ms"), place("min_ms"), place("sd_ms"), place("n"));
    let compile = place("compile_ms");

    let twice = |name: &&&str| columns.iter().filter(|&column| column == *name).count() > 1;
    if let Some(name) = KNOWN.iter().find(twice) {
        return Err(format!("the header has two columns {name:?}"));
    }
    // Taken for the number of samples, a parameter of this name would be lost.
    if n.is_some_and(|n| n < status) {
        let why = "\"n\" is the number of samples, and stands behind \"status\"; a parameter needs another name";
        return Err(format!("the header has a column \"n\" before \"status\": {why}"));
    }
    let parameters: Vec<usize> = (0..columns.len()).filter(|&column| !KNOWN.contains(&columns[column])).collect();
    let names: Vec<String> = parameters.iter().map(|&column| columns[column].to_owned()).collect();
    let mut cells: Vec<Vec<&str>> = Vec::new();
    let mut records = Vec::new();
    let mut at_line = Vec::new();
    for (at, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        if fields.len() != columns.len() {
            return Err(format!("line {at}: {} fields, the header has {}", fields.len(), columns.len()));
        }
        let number = |column: Option<usize>| match column.map(|column| (column, fields[column])) {
            None | Some((_, "")) => Ok(None),
            Some((column, text)) => match text.parse::<f64>() {
                Ok(value) if value.is_finite() && value >= 0.0 => Ok(Some(value)),
                _ => Err(format!("line {at}: {:?} is no {}", text, columns[column])),
            },
        };
        let failed = |kind, words: &str| Measured::Failed(Failure { kind, message: format!("recorded: {words}") });
        let measured = match fields[status] {
            "ok" => {
                let mean_ms = number(Some(mean))?.filter(|&mean| mean > 0.0);
                let mean_ms = mean_ms.ok_or_else(|| format!("line {at}: status ok, but no mean_ms above 0"))?;
                Measured::Summary(Summary {
                    mean_ms,
                    median_ms: number(median)?.unwrap_or(mean_ms),
                    min_ms: number(min)?.unwrap_or(mean_ms),
                    sd_ms: number(sd)?.unwrap_or(0.0),
                    samples: number(n)?.map_or(1, |n| n as usize),
                })
            }
            "compile" => failed(FailureKind::Compile, "does not compile"),
            "runtime" => failed(FailureKind::Launch, "does not launch or dies"),
            "invalid" => failed(FailureKind::Constraint, "a constraint forbids it"),
            other => return Err(format!("line {at}: status {other:?} is none of ok, compile, runtime, invalid")),
        };
        records.push(Record { measured, compile_ms: number(compile)? });
        cells.push(parameters.iter().map(|&column| fields[column]).collect());
        at_line.push(at);
    }

    let kinds: Vec<fn(&str) -> Option<Value>> =
        (0..parameters.len()).map(|column| kind_of(&cells.iter().map(|row| row[column]).collect::<Vec<_>>())).collect();
    let mut rows = Vec::new();
    for row in &cells {
        // The column's kind was chosen so that every cell parses.
        rows.push(row.iter().zip(&kinds).filter_map(|(cell, kind)| kind(cell)).collect::<Vec<_>>());
    }
    let (space, indices) = Space::recorded(&names, &rows).map_err(|error| match error {
        SpaceError::DuplicateRow { first, second } => {
            format!("lines {} and {} hold the same configuration", at_line[first], at_line[second])
        }
        other => other.to_string(),
    })?;
    let mut sorted: Vec<Option<Record>> = vec![None; records.len()];
    for (record, index) in records.into_iter().zip(indices) {
        sorted[index] = Some(record);
    }
    recording.space = space;
    recording.records = sorted.into_iter().flatten().collect();
    Ok(recording)
}

/// The narrowest kind that all cells of a column have.
fn kind_of(cells: &[&str]) -> fn(&str) -> Option<Value> {
    let int = |cell: &str| cell.parse().ok().map(Value::Int);
    let float = |cell: &str| cell.parse().ok().filter(|value: &f64| value.is_finite()).map(Value::Float);
    let boolean = |cell: &str| match cell {
        "true" | "True" => Some(Value::Bool(true)),
        "false" | "False" => Some(Value::Bool(false)),
        _ => None,
    };
    let kinds: [fn(&str) -> Option<Value>; 3] = [int, float, boolean];
    let all = |kind: &fn(&str) -> Option<Value>| cells.iter().all(|cell| kind(cell).is_some());
    kinds.into_iter().find(all).unwrap_or(|cell| Some(Value::Text(cell.to_owned())))
}

/// The comment's `key=value; key=value`.
fn comment(text: &str, recording: &mut Recording) -> Result<(), String> {
    for part in text.split("; ") {
        let Some((key, value)) = part.split_once('=') else { continue };
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
            "time_unit" if value != "ms" => return Err(format!("the times are in {value:?}, not in ms")),
            _ => {}
        }
    }
    Ok(())
}
