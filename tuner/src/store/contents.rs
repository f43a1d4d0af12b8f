//! Contents of a store: listing, importing and pruning runs.

use rusqlite::{OptionalExtension, Transaction, params};

use super::run::{check, insert_measurement, insert_run};
use super::{DeviceIdentity, Evidence, Observation, Plan, Store, StoreError, TunableIdentity, Workload};
use super::{NOW, json_of};
use crate::fnv::Fnv;
use crate::space::Space;
use crate::{Config, Value};

/// Name and values of a parameter.
pub type ParameterRow = (String, Vec<Value>);

/// Space, as the store keeps it.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SpaceRecord {
    /// Hash of parameters, values and valid configurations (64-bit FNV-1a, in hexadecimal).
    pub hash: String,
    /// Parameters with their values, in order.
    pub parameters: Vec<ParameterRow>,
    /// Number of valid configurations.
    pub valid: u64,
}

impl SpaceRecord {
    /// Describes `space`.
    ///
    /// # Errors
    /// If a value cannot be written as JSON.
    pub fn of(space: &Space) -> Result<Self, StoreError> {
        let rows =
            space.parameters().iter().map(|parameter| (parameter.name().to_owned(), parameter.values().to_vec()));
        let parameters: Vec<ParameterRow> = rows.collect();
        let bad = |error: serde_json::Error| StoreError::BadKey { what: "a space".to_owned(), why: error.to_string() };
        let mut hash = Fnv::default();
        hash.take(&serde_json::to_vec(&parameters).map_err(bad)?);
        for index in 0..space.len() {
            for parameter in 0..parameters.len() {
                hash.take(&(space.code(index, parameter) as u32).to_le_bytes());
            }
        }
        Ok(Self { hash: hash.to_string(), parameters, valid: space.len() as u64 })
    }

    /// Returns true if the configuration has one of the known values for each parameter.
    fn has(&self, config: &Config) -> bool {
        config.0.len() == self.parameters.len()
            && self.parameters.iter().zip(&config.0).all(|((_, values), value)| values.contains(value))
    }
}

/// Run with its task, plan, measurements and decision.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct RunRecord {
    /// Number in its store.
    pub run: i64,
    /// Identifier that is unique among all stores.
    pub uid: String,
    pub device: DeviceIdentity,
    pub tunable: TunableIdentity,
    pub workload: Workload,
    pub space: SpaceRecord,
    #[serde(flatten)]
    pub plan: Plan,
    /// Time of the beginning (UTC).
    pub started: String,
    /// Time of the end (UTC); `None` if the run is unfinished.
    pub finished: Option<String>,
    pub decision: Option<Evidence>,
    /// Measurements in order; empty if only the head was read.
    pub measurements: Vec<Observation>,
}

/// Run, with the numbers of its measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    /// Run without its measurements.
    pub record: RunRecord,
    /// Number of measurements.
    pub measured: usize,
    /// Number of failures among them.
    pub failed: usize,
}

/// Choice of the runs to remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prune {
    /// Runs by number.
    pub runs: Vec<i64>,
    /// Unfinished runs that no living process measures.
    pub unfinished: bool,
    /// Only runs of this tunable.
    pub tunable: Option<String>,
}

/// Numbers of new runs and measurements of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Imported {
    pub runs: usize,
    pub measurements: usize,
}

const HEADS: &str = "SELECT runs.id, uid, device, tunable, version, kernel_hash, workload, hash, parameters, valid,
        strategy, sample, seeds, seed, budget, started, finished, evidence
     FROM runs JOIN spaces ON spaces.id = space_id";

/// Reads a cell of JSON.
fn json<T: serde::de::DeserializeOwned>(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<T> {
    let text: String = row.get(at)?;
    serde_json::from_str(&text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(at, rusqlite::types::Type::Text, Box::new(error)))
}

fn head(row: &rusqlite::Row<'_>) -> rusqlite::Result<RunRecord> {
    let evidence: Option<String> = row.get(17)?;
    Ok(RunRecord {
        run: row.get(0)?,
        uid: row.get(1)?,
        device: json(row, 2)?,
        tunable: TunableIdentity { name: row.get(3)?, version: row.get(4)?, kernel_hash: row.get(5)? },
        workload: json(row, 6)?,
        space: SpaceRecord { hash: row.get(7)?, parameters: json(row, 8)?, valid: row.get::<_, i64>(9)? as u64 },
        plan: Plan {
            strategy: row.get(10)?,
            sample: row.get(11)?,
            seeds: json(row, 12)?,
            seed: row.get::<_, i64>(13)? as u64,
            budget: row.get(14)?,
        },
        started: row.get(15)?,
        finished: row.get(16)?,
        decision: if evidence.is_some() { Some(json(row, 17)?) } else { None },
        measurements: Vec::new(),
    })
}

impl Store {
    /// Reads runs without their measurements; `rest` ends the query.
    pub(super) fn heads(&self, rest: &str, values: &[&dyn rusqlite::ToSql]) -> Result<Vec<RunRecord>, StoreError> {
        // The error of an unreadable run names its number, which prune needs.
        let numbered = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, head(row)));
        let named =
            |(run, head): (i64, rusqlite::Result<_>)| head.map_err(|error| self.bad_row(format!("run {run}"), &error));
        self.rows(&format!("{HEADS} {rest}"), values, numbered)?.into_iter().map(named).collect()
    }

    /// Lists all runs, the oldest first, without their measurements.
    ///
    /// # Errors
    /// If the store cannot be read, or a row not be understood.
    pub fn runs(&self) -> Result<Vec<RunSummary>, StoreError> {
        let counts = "SELECT count(*), count(failure) FROM measurements WHERE run_id = ?1";
        let summary = |record: RunRecord| {
            let of_run = self.rows(counts, &[&record.run], |row| Ok([row.get::<_, i64>(0)?, row.get(1)?]))?;
            let [measured, failed] = of_run.concat()[..] else {
                return Err(self.bad_row("measurements", &"no number"));
            };
            Ok(RunSummary { record, measured: measured as usize, failed: failed as usize })
        };
        self.heads("ORDER BY runs.id", &[])?.into_iter().map(summary).collect()
    }

    /// Reads one run with its measurements.
    ///
    /// # Errors
    /// [`StoreError::Missing`]; if the store cannot be read, or a row not be understood.
    pub fn run_record(&self, run: i64) -> Result<RunRecord, StoreError> {
        let missing = || StoreError::Missing { file: self.file.clone(), what: format!("run {run}") };
        let mut record = self.heads("WHERE runs.id = ?1", &[&run])?.pop().ok_or_else(missing)?;
        record.measurements = self.observations(run)?;
        Ok(record)
    }

    /// Removes runs and the spaces that only they use, and returns the runs' numbers. A run that a living process
    /// measures stays.
    ///
    /// # Errors
    /// [`StoreError::Missing`] for a named run that does not exist, [`StoreError::RunTaken`] for a named one that a
    /// living process measures; if the store cannot be written. Nothing is removed then.
    pub fn prune(&mut self, prune: &Prune) -> Result<Vec<i64>, StoreError> {
        // Reads no JSON: an unreadable run must be removable too.
        let query = "SELECT id, tunable, finished IS NOT NULL FROM runs ORDER BY id";
        let entry = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let entries: Vec<(i64, String, bool)> = self.rows(query, &[], entry)?;
        if let Some(missing) = prune.runs.iter().find(|&&named| entries.iter().all(|(known, ..)| *known != named)) {
            return Err(StoreError::Missing { file: self.file.clone(), what: format!("run {missing}") });
        }
        let mut removed = Vec::new();
        // Held until the rows are gone, so that no process resumes a run that is being removed.
        let mut locks = Vec::new();
        for (run, tunable, finished) in entries {
            let named = prune.runs.contains(&run);
            let chosen = prune.tunable.as_ref().is_none_or(|name| *name == tunable)
                && (if prune.unfinished { !finished } else { prune.tunable.is_some() });
            if !named && !chosen {
                continue;
            }
            // No process continues a finished run.
            if !finished {
                match self.lock_run(run) {
                    Ok(lock) => locks.push(lock),
                    Err(StoreError::RunTaken { .. }) if !named => continue,
                    Err(error) => return Err(error),
                }
            }
            removed.push(run);
        }
        self.write(|transaction| {
            for run in &removed {
                transaction.execute("DELETE FROM runs WHERE id = ?1", [run])?;
            }
            Ok(transaction.execute("DELETE FROM spaces WHERE id NOT IN (SELECT space_id FROM runs)", [])?)
        })?;
        Ok(removed)
    }

    /// Imports runs of another store, except those that this store has already.
    ///
    /// # Errors
    /// [`StoreError::BadKey`] for a run that contradicts itself or a space of this store; if the store cannot be
    /// written. Nothing is imported then.
    pub fn import(&mut self, runs: &[RunRecord]) -> Result<Imported, StoreError> {
        runs.iter().try_for_each(check_record)?;
        self.write(|transaction| {
            let mut imported = Imported::default();
            for run in runs {
                let known = "SELECT 1 FROM runs WHERE uid = ?1";
                if transaction.query_row(known, [&run.uid], |_| Ok(())).optional()?.is_some() {
                    continue;
                }
                let id = insert_run(transaction, run)?;
                for (sequence, measurement) in run.measurements.iter().enumerate() {
                    insert_measurement(transaction, id, sequence as i64, measurement, Some(&run.started))?;
                }
                transaction.execute("UPDATE runs SET finished = ?2 WHERE id = ?1", params![id, run.finished])?;
                if let Some(decision) = &run.decision {
                    decide(transaction, id, decision)?;
                }
                imported.runs += 1;
                imported.measurements += run.measurements.len();
            }
            Ok(imported)
        })
    }
}

fn text_of(config: &Config) -> String {
    config.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn check_record(run: &RunRecord) -> Result<(), StoreError> {
    let wrong = |why: String| Err(StoreError::BadKey { what: format!("run {}", run.run), why });
    for (at, measurement) in run.measurements.iter().enumerate() {
        check(measurement)?;
        if !run.space.has(&measurement.config) {
            let values = text_of(&measurement.config);
            return wrong(format!("measurement {at}: its space does not have the values {values}"));
        }
    }
    match &run.decision {
        Some(decision) if !run.space.has(&decision.chosen.config) => {
            wrong(format!("its space does not have the decided values {}", text_of(&decision.chosen.config)))
        }
        Some(_) if run.finished.is_none() => wrong("decided and not finished".to_owned()),
        _ => Ok(()),
    }
}

/// Writes a decision. Of decisions with the same time of `finished`, the one with the larger `decided` counts.
pub(super) fn decide(transaction: &Transaction<'_>, run: i64, evidence: &Evidence) -> rusqlite::Result<usize> {
    transaction.execute(
        "UPDATE runs SET evidence = ?2, decided = (SELECT coalesce(max(decided), 0) + 1 FROM runs)
         WHERE id = ?1 AND evidence IS NULL",
        params![run, json_of(evidence)?],
    )
}

/// Marks a run as finished, never at an earlier time than the others: the clock may have been ahead when those
/// finished.
pub(super) fn finish(transaction: &Transaction<'_>, run: i64) -> rusqlite::Result<usize> {
    let latest = "(SELECT coalesce(max(finished), '') FROM runs)";
    transaction.execute(&format!("UPDATE runs SET finished = max({NOW}, {latest}) WHERE id = ?1"), [run])
}
