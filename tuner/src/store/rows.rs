//! How things become cells and rows, and back.

use rusqlite::{OptionalExtension, Transaction, params};

use super::{DeviceIdentity, Observation, TunableIdentity, Workload};
use crate::fnv::Fnv;
use crate::space::Space;
use crate::{Config, FailureKind, Outcome, Value};

/// The time that goes into rows: UTC with milliseconds.
pub(super) const NOW: &str = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";

/// The time of what does not say when it was.
pub(crate) const UNKNOWN: &str = "1970-01-01T00:00:00.000Z";

/// A parameter and its values.
pub(super) type ParameterRow = (String, Vec<Value>);

/// Times as a blob: 64-bit little-endian floats.
fn blob_of(times: &[f64]) -> Vec<u8> {
    times.iter().flat_map(|time| time.to_le_bytes()).collect()
}

/// Times from a blob; `None` if its length is not a multiple of 8.
pub(super) fn times_of(blob: &[u8]) -> Option<Vec<f64>> {
    let (times, rest) = blob.as_chunks::<8>();
    rest.is_empty().then(|| times.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())
}

/// JSON of what always serialises: values that are finite, names.
pub(super) fn json_of(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// Costs by objective; nothing where there is one objective.
fn parts_cell(parts: &[Vec<f64>]) -> rusqlite::Result<Option<String>> {
    if parts.is_empty() { Ok(None) } else { json_of(&parts).map(Some) }
}

/// The word for a failure's kind.
pub(super) fn word_of(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Constraint => "constraint",
        FailureKind::Compile => "compile",
        FailureKind::Launch => "launch",
        FailureKind::WrongResult => "wrong-result",
        FailureKind::TimeOut => "time-out",
        FailureKind::Declined => "declined",
    }
}

/// The kind of failure of a word.
pub(super) fn kind_of(word: &str) -> Option<FailureKind> {
    use FailureKind::{Compile, Constraint, Declined, Launch, TimeOut, WrongResult};
    [Constraint, Compile, Launch, WrongResult, TimeOut, Declined].into_iter().find(|&kind| word_of(kind) == word)
}

/// What tells two spaces apart: parameters, values and which configurations are valid (64-bit FNV-1a, in hexadecimal).
pub(super) fn hash_of(space: &Space) -> rusqlite::Result<String> {
    let mut hash = Fnv::default();
    hash.take(json_of(&parameters_of(space))?.as_bytes());
    for index in 0..space.len() {
        for parameter in 0..space.parameters().len() {
            hash.take(&(space.code(index, parameter) as u32).to_le_bytes());
        }
    }
    Ok(hash.to_string())
}

pub(super) fn parameters_of(space: &Space) -> Vec<ParameterRow> {
    space.parameters().iter().map(|parameter| (parameter.name().to_owned(), parameter.values().to_vec())).collect()
}

/// The row's number, which is made if there is no such row.
fn row(
    transaction: &Transaction<'_>,
    find: &str,
    make: &str,
    values: &[&dyn rusqlite::ToSql],
) -> rusqlite::Result<i64> {
    let found = transaction.prepare_cached(find)?.query_row(values, |row| row.get(0)).optional()?;
    if let Some(id) = found {
        return Ok(id);
    }
    transaction.prepare_cached(make)?.execute(values)?;
    Ok(transaction.last_insert_rowid())
}

pub(super) fn device_row(transaction: &Transaction<'_>, device: &DeviceIdentity) -> rusqlite::Result<i64> {
    let DeviceIdentity { name, uuid, compute_capability, sm_count, driver, runtime, platform } = device;
    row(
        transaction,
        "SELECT id FROM devices WHERE name = ?1 AND uuid = ?2 AND compute_capability = ?3 AND sm_count = ?4
         AND driver = ?5 AND runtime = ?6 AND platform = ?7",
        "INSERT INTO devices (name, uuid, compute_capability, sm_count, driver, runtime, platform)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![name, uuid, compute_capability, sm_count, driver, runtime, platform],
    )
}

pub(super) fn tunable_row(transaction: &Transaction<'_>, tunable: &TunableIdentity) -> rusqlite::Result<i64> {
    row(
        transaction,
        "SELECT id FROM tunables WHERE name = ?1 AND version = ?2 AND kernel_hash = ?3",
        "INSERT INTO tunables (name, version, kernel_hash) VALUES (?1, ?2, ?3)",
        params![tunable.name, tunable.version, tunable.kernel_hash],
    )
}

pub(super) fn workload_row(transaction: &Transaction<'_>, workload: &Workload) -> rusqlite::Result<i64> {
    row(
        transaction,
        "SELECT id FROM workloads WHERE keys = ?1 AND place = ?2",
        "INSERT INTO workloads (keys, place) VALUES (?1, ?2)",
        params![json_of(workload.keys())?, workload.place()],
    )
}

pub(super) fn space_row(
    transaction: &Transaction<'_>,
    hash: &str,
    parameters: &[ParameterRow],
    valid: u64,
) -> rusqlite::Result<i64> {
    let found = transaction.query_row("SELECT id FROM spaces WHERE hash = ?1", [hash], |row| row.get(0)).optional()?;
    if let Some(id) = found {
        return Ok(id);
    }
    transaction.execute(
        "INSERT INTO spaces (hash, parameters, valid) VALUES (?1, ?2, ?3)",
        params![hash, json_of(&parameters)?, valid as i64],
    )?;
    Ok(transaction.last_insert_rowid())
}

pub(super) fn configuration_row(transaction: &Transaction<'_>, space: i64, config: &Config) -> rusqlite::Result<i64> {
    row(
        transaction,
        "SELECT id FROM configurations WHERE space_id = ?1 AND value = ?2",
        "INSERT INTO configurations (space_id, value) VALUES (?1, ?2)",
        params![space, json_of(config)?],
    )
}

/// Makes the row of a measurement of a run with this number and space; of now, unless a time is given.
pub(super) fn measurement_row(
    transaction: &Transaction<'_>,
    (run, space): (i64, i64),
    sequence: i64,
    observation: &Observation,
    at: Option<&str>,
) -> rusqlite::Result<()> {
    let (times, failure, message) = match &observation.outcome {
        Outcome::Times(times) => (Some(blob_of(times)), None, None),
        Outcome::Failed(failure) => (None, Some(word_of(failure.kind)), Some(failure.message.as_str())),
    };
    let configuration = configuration_row(transaction, space, &observation.config)?;
    transaction
        .prepare_cached(&format!(
            "INSERT INTO measurements
             (run_id, sequence, configuration_id, launches, times, failure, message, took_ms, parts, at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, coalesce(?10, {NOW}))"
        ))?
        .execute(params![
            run,
            sequence,
            configuration,
            observation.launches as i64,
            times,
            failure,
            message,
            observation.took_ms,
            parts_cell(&observation.parts)?,
            at
        ])?;
    Ok(())
}
