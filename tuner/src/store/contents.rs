//! Contents of a store: listing and pruning runs.

use super::{
    DeviceIdentity, Evidence, Observation, Plan, Store, StoreError, TunableIdentity, Workload,
    json_of,
};
use crate::Value;
use crate::fnv::Fnv;
use crate::space::Space;

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
        let rows = space
            .parameters()
            .iter()
            .map(|parameter| (parameter.name().to_owned(), parameter.values().to_vec()));
        let parameters: Vec<ParameterRow> = rows.collect();
        let mut hash = Fnv::default();
        hash.take(json_of(&parameters)?.as_bytes());
        for index in 0..space.len() {
            for parameter in 0..parameters.len() {
                hash.take(&(space.code(index, parameter) as u32).to_le_bytes());
            }
        }
        Ok(Self {
            hash: hash.to_string(),
            parameters,
            valid: space.len() as u64,
        })
    }
}

/// Run with its task, plan, measurements and decision.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// Number in its store, which no other run gets.
    pub run: i64,
    /// Device that the run was measured on.
    pub device: DeviceIdentity,
    /// Program, decoder or kernel that was tuned.
    pub tunable: TunableIdentity,
    /// Measured workload; samples are times unless the key `objective` says otherwise.
    pub workload: Workload,
    /// Parameters and values, with a hash and the number of valid configurations.
    pub space: SpaceRecord,
    /// Strategy, sample, seeds and budget at the beginning of the run.
    pub plan: Plan,
    /// Time of the beginning (UTC).
    pub started: String,
    /// Time of the end (UTC); `None` if the run is unfinished.
    pub finished: Option<String>,
    /// Decision, with the evidence; `None` if the run is unfinished or decided nothing.
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
}

const HEADS: &str =
    "SELECT id, device, tunable, workload, space, plan, started, finished, evidence FROM runs";

/// Reads a cell of JSON; a missing one as null.
pub(super) fn json<T: serde::de::DeserializeOwned>(
    row: &rusqlite::Row<'_>,
    at: usize,
) -> rusqlite::Result<T> {
    let text: Option<String> = row.get(at)?;
    serde_json::from_str(text.as_deref().unwrap_or("null")).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(at, rusqlite::types::Type::Text, Box::new(error))
    })
}

fn head(row: &rusqlite::Row<'_>) -> rusqlite::Result<RunRecord> {
    Ok(RunRecord {
        run: row.get(0)?,
        device: json(row, 1)?,
        tunable: json(row, 2)?,
        workload: json(row, 3)?,
        space: json(row, 4)?,
        plan: json(row, 5)?,
        started: row.get(6)?,
        finished: row.get(7)?,
        decision: json(row, 8)?,
        measurements: Vec::new(),
    })
}

impl Store {
    /// Reads runs without their measurements; `rest` ends the query.
    pub(super) fn heads(
        &self,
        rest: &str,
        values: &[&dyn rusqlite::ToSql],
    ) -> Result<Vec<RunRecord>, StoreError> {
        // The error of an unreadable run names its number, which prune needs.
        let numbered = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, head(row)));
        let named = |(run, head): (i64, rusqlite::Result<_>)| {
            head.map_err(|error| self.bad_row(&format!("run {run}"), &error))
        };
        self.rows(&format!("{HEADS} {rest}"), values, numbered)?
            .into_iter()
            .map(named)
            .collect()
    }

    /// Returns true if a run has this plan.
    pub fn has_plan(&self, plan: &Plan) -> Result<bool, StoreError> {
        Ok(!self
            .rows(
                "SELECT 1 FROM runs WHERE plan = ?1",
                &[&json_of(plan)?],
                |_| Ok(()),
            )?
            .is_empty())
    }

    /// Lists all runs, the oldest first, without their measurements.
    ///
    /// # Errors
    /// If the store cannot be read, or a row is malformed.
    pub fn runs(&self) -> Result<Vec<RunSummary>, StoreError> {
        // Reads a measurement that is no JSON as well: its run must be removable.
        let failed = "CASE WHEN json_valid(observation) THEN observation -> '$.outcome.failed' END";
        let query = format!("SELECT count(*), count({failed}) FROM measurements WHERE run_id = ?1");
        let summary = |record: RunRecord| {
            let counts = self.rows(&query, &[&record.run], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
            })?;
            let (measured, failed) = counts.first().copied().unwrap_or_default();
            Ok(RunSummary {
                record,
                measured: measured as usize,
                failed: failed as usize,
            })
        };
        self.heads("ORDER BY id", &[])?
            .into_iter()
            .map(summary)
            .collect()
    }

    /// Reads one run with its measurements.
    ///
    /// # Errors
    /// [`StoreError::Missing`]; if the store cannot be read, or a row not be understood.
    pub fn run_record(&self, run: i64) -> Result<RunRecord, StoreError> {
        let missing = || StoreError::Missing {
            file: self.file.clone(),
            what: format!("run {run}"),
        };
        let mut record = self
            .heads("WHERE id = ?1", &[&run])?
            .pop()
            .ok_or_else(missing)?;
        record.measurements = self.observations(run)?;
        Ok(record)
    }

    /// Removes runs, and returns their numbers. A run that a living process measures stays.
    ///
    /// # Errors
    /// [`StoreError::Missing`] for a named run that does not exist, [`StoreError::RunTaken`] for a
    /// named one that a living process measures; if the store cannot be written. Nothing is removed
    /// then.
    pub fn prune(&mut self, prune: &Prune) -> Result<Vec<i64>, StoreError> {
        // Reads no JSON: an unreadable run must be removable too.
        let query = "SELECT id, finished IS NOT NULL FROM runs ORDER BY id";
        let entries: Vec<(i64, bool)> =
            self.rows(query, &[], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if let Some(missing) = prune
            .runs
            .iter()
            .find(|&&named| entries.iter().all(|(known, _)| *known != named))
        {
            return Err(StoreError::Missing {
                file: self.file.clone(),
                what: format!("run {missing}"),
            });
        }
        let mut removed = Vec::new();
        // Held until the rows are gone, so that no process resumes a run that is being removed.
        let mut locks = Vec::new();
        for (run, finished) in entries {
            let named = prune.runs.contains(&run);
            if !named && (finished || !prune.unfinished) {
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
            Ok(())
        })?;
        Ok(removed)
    }
}
