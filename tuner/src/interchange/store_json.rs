//! A store as JSON: exported, read back, and as a recording that can be replayed.
//!
//! One object: `format`, `version` and `runs` (each with device, tunable thing, workload, space, plan, all measurements
//! and the decision). Every number reads back as the same bits.

use std::collections::HashMap;
use std::io::{self, Write};

use super::{InterchangeError, assemble, failed, key_of, samples};
use crate::fnv::Fnv;
use crate::replay::{Measured, Record, Recording};
use crate::store::contents::{RunRecord, SpaceRecord};
use crate::store::{DeviceIdentity, Observation, Plan, Store, StoreError, TunableIdentity, UNKNOWN, Workload};
use crate::{FailureKind, Outcome};

/// Value of `format`.
pub const FORMAT: &str = "tuning store";

/// Version of the format.
pub const VERSION: u32 = 1;

/// The strategy of a run that is an imported recording.
pub const RECORDED: &str = "recorded";

/// A store, or some of its runs.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Export {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The runs, with their measurements.
    pub runs: Vec<RunRecord>,
}

/// Takes runs out of a store: those that are named, or all.
///
/// # Errors
/// Those of reading; a run that is not there.
pub fn export(store: &Store, runs: &[i64]) -> Result<Export, StoreError> {
    let numbers: Vec<i64> = match runs {
        [] => store.runs()?.iter().map(|summary| summary.record.run).collect(),
        named => named.to_vec(),
    };
    let records = numbers.iter().map(|&run| store.run_record(run)).collect::<Result<_, _>>()?;
    Ok(Export { format: FORMAT.to_owned(), version: VERSION, runs: records })
}

/// Writes an export, one run a line.
///
/// # Errors
/// Those of `to`.
pub fn write(export: &Export, to: &mut impl Write) -> io::Result<()> {
    write!(to, "{{\"format\": {FORMAT:?}, \"version\": {VERSION}, \"runs\": [")?;
    for (at, run) in export.runs.iter().enumerate() {
        to.write_all(if at == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *to, run)?;
    }
    writeln!(to, "]}}")
}

/// Reads an export from its text.
///
/// # Errors
/// If it is not JSON of this form, with line and column; another format or version.
pub fn parse(text: &str) -> Result<Export, String> {
    #[derive(serde::Deserialize)]
    struct Head {
        format: String,
        version: u32,
    }
    let head: Head = serde_json::from_str(text).map_err(|error| format!("store export: {error}"))?;
    if head.format != FORMAT {
        return Err(format!("store export: the format is {:?}, not {FORMAT:?}", head.format));
    }
    if head.version != VERSION {
        return Err(format!(
            "store export: version {} of the format, but this program reads version {VERSION}",
            head.version
        ));
    }
    serde_json::from_str(text).map_err(|error| format!("store export: {error}"))
}

/// Returns the outcome of a configuration of a recording; of a summary, one sample.
fn outcome_of(record: &Record) -> Outcome {
    match &record.measured {
        Measured::Samples(times) => Outcome::Times(times.clone()),
        Measured::Summary(summary) => Outcome::Times(vec![summary.mean_ms]),
        Measured::Failed(failure) => Outcome::Failed(failure.clone()),
    }
}

/// Returns a hash of a recording's contents (64-bit FNV-1a, in hexadecimal).
pub fn fingerprint(recording: &Recording) -> String {
    let mut hash = Fnv::default();
    let head = (&recording.device, &recording.kernel, &recording.problem, &recording.fixed);
    hash.take(format!("{head:?}").as_bytes());
    for (index, record) in recording.records.iter().enumerate() {
        hash.take(format!("{:?}{:?}", recording.space.config(index), outcome_of(record)).as_bytes());
    }
    hash.to_string()
}

/// The key of a workload that is the problem of a recording.
const PROBLEM: &str = "problem_size";

/// Returns the workload of a recording: the problem, and what was fixed.
///
/// # Errors
/// [`StoreError::BadKey`] for names that are empty or twice there, and numbers that are not finite.
pub fn workload_of(recording: &Recording) -> Result<Workload, StoreError> {
    let mut workload = Workload::new();
    if !recording.problem.is_empty() {
        workload = workload.with(PROBLEM, recording.problem.as_str())?;
    }
    for (name, value) in &recording.fixed {
        workload = workload.with(name.as_str(), value.clone())?;
    }
    Ok(workload)
}

/// A recording as one run, so that a store can take it in. What has only a summary counts as one sample, its mean.
pub(super) fn export_of(recording: &Recording) -> Result<Export, StoreError> {
    let mut measurements = Vec::new();
    for (index, record) in recording.records.iter().enumerate() {
        let outcome = outcome_of(record);
        let launches = if let Outcome::Times(times) = &outcome { times.len() } else { 1 };
        let config = recording.space.config(index);
        measurements.push(Observation { config, launches, outcome, took_ms: 0.0 });
    }
    let run = RunRecord {
        run: 1,
        // The same recording again is the same run.
        uid: format!("imported-{}", fingerprint(recording)),
        device: DeviceIdentity::named(recording.device.clone(), "recorded"),
        tunable: TunableIdentity::new(recording.kernel.clone(), 0),
        workload: workload_of(recording)?,
        space: SpaceRecord::of(&recording.space)?,
        plan: Plan { strategy: RECORDED.to_owned(), ..Plan::default() },
        started: UNKNOWN.to_owned(),
        finished: Some(UNKNOWN.to_owned()),
        decision: None,
        measurements,
    };
    Ok(Export { format: FORMAT.to_owned(), version: VERSION, runs: vec![run] })
}

/// Returns the recording of one task in a store.
pub(super) fn recording_of_store(store: &Store, run: Option<i64>) -> Result<Recording, InterchangeError> {
    let content = |what: String| InterchangeError::Content { file: store.file().to_owned(), what };
    let mut heads: Vec<RunRecord> = store.runs()?.into_iter().map(|summary| summary.record).collect();
    let chosen = choose(&mut heads, run).map_err(content)?;
    let runs = chosen.iter().map(|head| store.run_record(head.run)).collect::<Result<Vec<_>, _>>()?;
    recording_of(&runs).map_err(content)
}

/// Returns the recording of one task (or of one run) in an export.
///
/// # Errors
/// Runs of several tasks, of which none is named; a run that is not there.
pub fn recording_of_export(export: &Export, run: Option<i64>) -> Result<Recording, String> {
    let mut runs = export.runs.clone();
    recording_of(choose(&mut runs, run)?)
}

/// The run that is asked for, or all runs if they are of one task.
fn choose(runs: &mut Vec<RunRecord>, run: Option<i64>) -> Result<&[RunRecord], String> {
    if let Some(number) = run {
        runs.retain(|record| record.run == number);
        return if runs.is_empty() { Err(format!("there is no run {number}")) } else { Ok(runs) };
    }
    let Some(first) = runs.first() else { return Err("there is no run in it".to_owned()) };
    // Two cards of one model share their results; other drivers have others.
    let device = |run: &RunRecord| DeviceIdentity { uuid: String::new(), ..run.device.clone() };
    let same = |other: &RunRecord| {
        (&device(other), &other.tunable, &other.workload, &other.space.hash)
            == (&device(first), &first.tunable, &first.workload, &first.space.hash)
    };
    if runs.iter().all(same) {
        return Ok(runs);
    }
    let words = |run: &RunRecord| format!("#{}: {} for {} on {}", run.run, run.tunable, run.workload, run.device);
    let named = runs.iter().map(words);
    let named: Vec<String> = named.take(20).collect();
    Err(format!("it holds runs of several things; name one as FILE#RUN: {}", named.join("; ")))
}

/// One recording of runs of one task: samples are joined, a failure replaces what was before and times replace a failure.
///
/// # Errors
/// Configurations of several lengths; values that are not finite; times below 0, which no format of recordings has.
pub fn recording_of(runs: &[RunRecord]) -> Result<Recording, String> {
    let Some(first) = runs.first() else { return Ok(Recording::default()) };
    let names: Vec<String> = first.space.parameters.iter().map(|(name, _)| name.clone()).collect();
    let mut rows: Vec<(Vec<_>, Measured)> = Vec::new();
    let mut seen = HashMap::new();
    for (run, measurement) in runs.iter().flat_map(|run| run.measurements.iter().map(move |of| (run.run, of))) {
        if let Outcome::Times(times) = &measurement.outcome
            && let Some(time) = times.iter().find(|time| **time < 0.0)
        {
            return Err(format!("run {run}: {time} ms is not a time"));
        }
        let place = *seen.entry(key_of(&measurement.config.0)).or_insert_with(|| {
            rows.push((measurement.config.0.clone(), Measured::Samples(Vec::new())));
            rows.len() - 1
        });
        match (&mut rows[place].1, &measurement.outcome) {
            (Measured::Samples(times), Outcome::Times(more)) => times.extend(more),
            (measured, Outcome::Times(times)) => *measured = Measured::Samples(times.clone()),
            (measured, Outcome::Failed(failure)) => *measured = Measured::Failed(failure.clone()),
        }
    }
    let record = |measured: Measured| match measured {
        Measured::Samples(times) if times.is_empty() => failed(FailureKind::Launch, "no sample".to_owned()),
        Measured::Samples(times) => samples(times),
        other => other,
    };
    let rows =
        rows.into_iter().map(|(values, measured)| (values, Record { measured: record(measured), compile_ms: None }));
    // The inverse of `workload_of`, so that a recording is exported as it was imported. Other workloads become text.
    let keys = first.workload.keys();
    let (problem, fixed) = match keys.get(PROBLEM) {
        Some(problem) => {
            let fixed = keys.iter().filter(|(name, _)| *name != PROBLEM);
            (problem.to_string(), fixed.map(|(name, value)| (name.clone(), value.clone())).collect())
        }
        None => (first.workload.to_string(), Vec::new()),
    };
    let recording = Recording {
        device: first.device.name.clone(),
        kernel: first.tunable.name.clone(),
        problem,
        fixed,
        ..Recording::default()
    };
    assemble(recording, &names, rows.collect())
}
