//! Export of a store as JSON.
//!
//! One object: `format`, `version` and `runs` (each with device, tunable, workload, space, plan, measurements and
//! decision). Every number reads back as the same bits.

use std::io::{self, Write};

use crate::Outcome;
use crate::fnv::Fnv;
use crate::replay::Recording;
use crate::store::contents::{RunRecord, SpaceRecord};
use crate::store::{DeviceIdentity, Observation, Plan, Store, StoreError, TunableIdentity, UNKNOWN, Workload};

/// Value of `format`.
pub const FORMAT: &str = "tuning store";

/// Version of the format.
pub const VERSION: u32 = 1;

/// Strategy of a run that is an imported recording.
pub const RECORDED: &str = "recorded";

/// Exported runs.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Export {
    pub format: String,
    pub version: u32,
    pub runs: Vec<RunRecord>,
}

impl Export {
    fn of(runs: Vec<RunRecord>) -> Self {
        Self { format: FORMAT.to_owned(), version: VERSION, runs }
    }
}

/// Exports runs of a store by number, or all runs.
///
/// # Errors
/// If the store cannot be read, or a run does not exist.
pub fn export(store: &Store, runs: &[i64]) -> Result<Export, StoreError> {
    let numbers: Vec<i64> = match runs {
        [] => store.runs()?.iter().map(|summary| summary.record.run).collect(),
        named => named.to_vec(),
    };
    numbers.iter().map(|&run| store.run_record(run)).collect::<Result<_, _>>().map(Export::of)
}

/// Writes an export, one run a line.
///
/// # Errors
/// If `to` cannot be written.
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
/// If the text is not JSON of this form, format and version.
pub fn parse(text: &str) -> Result<Export, String> {
    #[derive(serde::Deserialize)]
    struct Head {
        format: String,
        version: u32,
    }
    let Head { format, version } = serde_json::from_str(text).map_err(|error| format!("store export: {error}"))?;
    if format != FORMAT {
        return Err(format!("store export: the format is {format:?}, not {FORMAT:?}"));
    }
    if version != VERSION {
        return Err(format!("store export: version {version} of the format, but this program reads version {VERSION}"));
    }
    serde_json::from_str(text).map_err(|error| format!("store export: {error}"))
}

/// Returns a hash of a recording's contents (64-bit FNV-1a, in hexadecimal).
pub fn fingerprint(recording: &Recording) -> String {
    let mut hash = Fnv::default();
    let head = (&recording.device, &recording.kernel, &recording.problem, &recording.fixed);
    hash.take(format!("{head:?}").as_bytes());
    for (index, outcome) in recording.outcomes.iter().enumerate() {
        hash.take(format!("{:?}{outcome:?}", recording.space.config(index)).as_bytes());
    }
    hash.to_string()
}

/// Returns the workload of a recording: the problem, and the fixed parameters.
///
/// # Errors
/// [`StoreError::BadKey`] for numbers that are not finite.
pub fn workload_of(recording: &Recording) -> Result<Workload, StoreError> {
    let mut workload = Workload::new();
    if !recording.problem.is_empty() {
        workload = workload.with("problem_size", recording.problem.as_str())?;
    }
    for (name, value) in &recording.fixed {
        workload = workload.with(name.as_str(), value.clone())?;
    }
    Ok(workload)
}

/// Makes an export with one run from a recording.
pub(super) fn export_of(recording: &Recording) -> Result<Export, StoreError> {
    let measurement = |(index, outcome): (usize, &Outcome)| Observation {
        config: recording.space.config(index),
        launches: if let Outcome::Times(times) = outcome { times.len() } else { 1 },
        outcome: outcome.clone(),
        took_ms: 0.0,
    };
    Ok(Export::of(vec![RunRecord {
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
        measurements: recording.outcomes.iter().enumerate().map(measurement).collect(),
    }]))
}
