//! What is in a store: listed, exported, imported, pinned, pruned.

use std::path::PathBuf;

use rusqlite::{OptionalExtension, params};

use super::lookup::device_of;
use super::rows::{
    NOW, ParameterRow, UNKNOWN, configuration_row, device_row, hash_of, json_of, measurement_row, parameters_of,
    space_row, tunable_row, workload_row,
};
use super::{DeviceIdentity, Evidence, Observation, Plan, Refusal, Store, StoreError, TunableIdentity, Workload};
use crate::Config;
use crate::space::Space;

/// A space as the store keeps it.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SpaceRecord {
    /// What tells it from others.
    pub hash: String,
    /// Parameters with their values, in order.
    pub parameters: Vec<ParameterRow>,
    /// Valid configurations.
    pub valid: u64,
}

impl SpaceRecord {
    /// What a store keeps of `space`.
    ///
    /// # Errors
    /// Values that no text can be made of.
    pub fn of(space: &Space) -> Result<Self, StoreError> {
        let bad = |error: rusqlite::Error| StoreError::BadKey { what: "a space".to_owned(), why: error.to_string() };
        let hash = hash_of(space).map_err(bad)?;
        Ok(Self { hash, parameters: parameters_of(space), valid: space.len() as u64 })
    }
}

/// A run and all that it belongs to.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RunRecord {
    /// Its number in the store that it comes from.
    pub run: i64,
    /// What tells it from every other run, in whatever store.
    pub uid: String,
    /// On which device.
    pub device: DeviceIdentity,
    /// Which tunable thing.
    pub tunable: TunableIdentity,
    /// For which workload.
    pub workload: Workload,
    /// Over which space.
    pub space: SpaceRecord,
    /// How.
    #[serde(flatten)]
    pub plan: Plan,
    /// When it began (UTC).
    pub started: String,
    /// When it ended; `None` if it is not over.
    pub finished: Option<String>,
    /// What it concluded.
    pub decision: Option<Evidence>,
    /// All that it measured, in order; empty if only the head was requested.
    pub measurements: Vec<Observation>,
}

/// A run in one line.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    /// The run, without its measurements.
    pub record: RunRecord,
    /// Measurements.
    pub measured: usize,
    /// Of those, failures.
    pub failed: usize,
    /// Whether a newer version of the tunable thing, or other code of the same version that was measured later, has
    /// retired it.
    pub retired: bool,
}

/// A pinned configuration.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct PinRecord {
    /// Its number in the store that it comes from.
    pub pin: i64,
    /// For which device.
    pub device: DeviceIdentity,
    /// Which tunable thing.
    pub tunable: TunableIdentity,
    /// For which workload.
    pub workload: Workload,
    /// Of which space.
    pub space: SpaceRecord,
    /// The configuration.
    pub config: Config,
    /// Why.
    pub reason: String,
    /// When (UTC).
    pub at: String,
}

/// Which runs to remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prune {
    /// These.
    pub runs: Vec<i64>,
    /// Those that are retired.
    pub retired: bool,
    /// Those that are not over and that no living process continues.
    pub unfinished: bool,
    /// Those that began more than this many days ago. Imported recordings, which do not say when, are none of them.
    pub older_than_days: Option<u32>,
    /// Only of this tunable thing.
    pub tunable: Option<String>,
}

/// Locks of runs that are held at a time: each is an open file, of which a process may have few.
const MOST_LOCKS: usize = 200;

/// A run that may be removed.
struct Prunable {
    run: i64,
    tunable: String,
    finished: bool,
    retired: bool,
}

/// What an import did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Runs that were new.
    pub runs: usize,
    /// Measurements that were new.
    pub measurements: usize,
    /// Pins that were new.
    pub pins: usize,
}

const HEADS: &str =
    "SELECT runs.id AS run, devices.name, uuid, compute_capability, sm_count, driver, runtime, platform,
        tunables.name AS tunable, version, kernel_hash, keys, place, hash, parameters, valid,
        strategy, seed, budget, started, finished, evidence, uid,
        (SELECT count(*) FROM measurements WHERE run_id = runs.id),
        (SELECT count(*) FROM measurements WHERE run_id = runs.id AND failure IS NOT NULL),
        EXISTS (SELECT 1 FROM tunables AS newer WHERE newer.name = tunables.name
                AND (newer.version > tunables.version
                     OR newer.version = tunables.version AND
                        ((SELECT max(started) FROM runs WHERE tunable_id = newer.id),
                         (SELECT max(id) FROM runs WHERE tunable_id = newer.id))
                        > ((SELECT max(started) FROM runs WHERE tunable_id = tunables.id),
                           (SELECT max(id) FROM runs WHERE tunable_id = tunables.id)))) AS retired
     FROM runs JOIN devices ON devices.id = device_id JOIN tunables ON tunables.id = tunable_id
     JOIN workloads ON workloads.id = workload_id JOIN spaces ON spaces.id = space_id
     LEFT JOIN decisions ON decisions.run_id = runs.id";

/// Cells that are JSON.
fn json<T: serde::de::DeserializeOwned>(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<T> {
    let text: String = row.get(at)?;
    serde_json::from_str(&text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(at, rusqlite::types::Type::Text, Box::new(error)))
}

fn workload_of(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<Workload> {
    let keys: std::collections::BTreeMap<String, crate::Value> = json(row, at)?;
    let place: String = row.get(at + 1)?;
    let workload = keys.into_iter().try_fold(Workload::new(), |workload, (name, value)| workload.with(name, value));
    workload.map(|workload| workload.at(place)).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(at, rusqlite::types::Type::Text, error.to_string().into())
    })
}

fn tunable_of(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<TunableIdentity> {
    Ok(TunableIdentity { name: row.get(at)?, version: row.get(at + 1)?, kernel_hash: row.get(at + 2)? })
}

fn space_of(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<SpaceRecord> {
    Ok(SpaceRecord { hash: row.get(at)?, parameters: json(row, at + 1)?, valid: row.get::<_, i64>(at + 2)? as u64 })
}

fn head(row: &rusqlite::Row<'_>) -> rusqlite::Result<RunSummary> {
    let evidence: Option<String> = row.get(21)?;
    let record = RunRecord {
        run: row.get(0)?,
        uid: row.get(22)?,
        device: device_of(row, 1)?,
        tunable: tunable_of(row, 8)?,
        workload: workload_of(row, 11)?,
        space: space_of(row, 13)?,
        plan: Plan { strategy: row.get(16)?, seed: row.get::<_, i64>(17)? as u64, budget: row.get(18)? },
        started: row.get(19)?,
        finished: row.get(20)?,
        decision: if evidence.is_some() { Some(json(row, 21)?) } else { None },
        measurements: Vec::new(),
    };
    let count = |at: usize| row.get::<_, i64>(at).map(|count| count as usize);
    Ok(RunSummary { record, measured: count(23)?, failed: count(24)?, retired: row.get(25)? })
}

impl Store {
    /// All runs, the oldest first, without their measurements.
    ///
    /// # Errors
    /// Those of reading; rows that cannot be understood.
    pub fn runs(&self) -> Result<Vec<RunSummary>, StoreError> {
        let rows = self.connection.prepare(&format!("{HEADS} ORDER BY runs.id")).and_then(|mut statement| {
            let numbered = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, head(row)));
            statement.query_map([], numbered)?.collect::<rusqlite::Result<Vec<_>>>()
        });
        let rows = rows.map_err(|error| self.failure(error))?;
        let named = |(run, head): (i64, rusqlite::Result<_>)| head.map_err(|error| self.bad_run(run, &error));
        rows.into_iter().map(named).collect()
    }

    /// A run that cannot be understood; its number is what prune needs.
    fn bad_run(&self, run: i64, error: &rusqlite::Error) -> StoreError {
        self.bad_row(format!("run {run}"), error)
    }

    /// One run with its measurements.
    ///
    /// # Errors
    /// [`StoreError::Missing`]; those of reading; rows that cannot be understood.
    pub fn run_record(&self, run: i64) -> Result<RunRecord, StoreError> {
        let query = format!("{HEADS} WHERE runs.id = ?1");
        let found = self.connection.query_row(&query, [run], |row| Ok(head(row))).optional();
        let missing = || StoreError::Missing { file: self.file.clone(), what: format!("run {run}") };
        let head = found.map_err(|error| self.failure(error))?.ok_or_else(missing)?;
        let mut record = head.map_err(|error| self.bad_run(run, &error))?.record;
        record.measurements = self.observations(run)?;
        Ok(record)
    }

    /// All pins.
    ///
    /// # Errors
    /// Those of reading; rows that cannot be understood.
    pub fn pins(&self) -> Result<Vec<PinRecord>, StoreError> {
        let query = "SELECT pins.id, devices.name, uuid, compute_capability, sm_count, driver, runtime, platform,
                tunables.name, version, kernel_hash, keys, place, hash, parameters, valid, value, reason, pins.at
             FROM pins JOIN devices ON devices.id = device_id JOIN tunables ON tunables.id = tunable_id
             JOIN workloads ON workloads.id = workload_id
             JOIN configurations ON configurations.id = configuration_id JOIN spaces ON spaces.id = space_id
             ORDER BY pins.id";
        let pin = |row: &rusqlite::Row<'_>| {
            Ok(PinRecord {
                pin: row.get(0)?,
                device: device_of(row, 1)?,
                tunable: tunable_of(row, 8)?,
                workload: workload_of(row, 11)?,
                space: space_of(row, 13)?,
                config: json(row, 16)?,
                reason: row.get(17)?,
                at: row.get(18)?,
            })
        };
        let rows = self
            .connection
            .prepare(query)
            .and_then(|mut statement| statement.query_map([], pin)?.collect::<rusqlite::Result<Vec<_>>>());
        rows.map_err(|error| self.failure(error))
    }

    /// Pins `config` for the device, tunable thing and workload of a run; what was pinned there is replaced.
    ///
    /// # Errors
    /// [`StoreError::Missing`] for a run that is not there or a configuration whose values its space does not have;
    /// those of writing.
    pub fn pin(&mut self, run: i64, config: &Config, reason: &str) -> Result<(), StoreError> {
        let record = self.run_record(run)?;
        if !fits(&record.space, config) {
            let what = format!("configuration {} in the space of run {run}", text_of(config));
            return Err(StoreError::Missing { file: self.file.clone(), what });
        }
        self.write(|transaction| {
            let space: i64 = transaction.query_row("SELECT space_id FROM runs WHERE id = ?1", [run], |row| row.get(0))?;
            let configuration = configuration_row(transaction, space, config)?;
            transaction.execute(
                &format!(
                    "INSERT INTO pins (device_id, tunable_id, workload_id, configuration_id, reason, at)
                     SELECT device_id, tunable_id, workload_id, ?2, ?3,
                            max({NOW}, (SELECT coalesce(max(at), '') FROM pins)) FROM runs WHERE id = ?1
                     ON CONFLICT (device_id, tunable_id, workload_id)
                     DO UPDATE SET configuration_id = excluded.configuration_id, reason = excluded.reason, at = excluded.at"
                ),
                params![run, configuration, reason],
            )
        })?;
        Ok(())
    }

    /// The runs that decided something, the latest decision first: the order in which lookups prefer them. A run that
    /// was begun later may have decided earlier.
    ///
    /// # Errors
    /// Those of reading.
    pub fn latest_decisions(&self) -> Result<Vec<i64>, StoreError> {
        let query = "SELECT run_id FROM decisions ORDER BY at DESC, id DESC";
        let rows = self.connection.prepare(query).and_then(|mut statement| {
            statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()
        });
        rows.map_err(|error| self.failure(error))
    }

    /// Removes a pin.
    ///
    /// # Errors
    /// [`StoreError::Missing`]; those of writing.
    pub fn unpin(&mut self, pin: i64) -> Result<(), StoreError> {
        match self.write(|transaction| transaction.execute("DELETE FROM pins WHERE id = ?1", [pin]))? {
            0 => Err(StoreError::Missing { file: self.file.clone(), what: format!("pin {pin}") }),
            _ => Ok(()),
        }
    }

    /// Removes runs with all that belongs only to them, and says which. A run that a living process continues stays,
    /// and so do pins.
    ///
    /// # Errors
    /// [`StoreError::Missing`] for a run that is named and not there, [`StoreError::RunTaken`] for one that is named and
    /// being continued; those of writing. Nothing is removed then, unless there are more than 200 unfinished
    /// runs: those go 200 at a time.
    pub fn prune(&mut self, prune: &Prune) -> Result<Vec<i64>, StoreError> {
        let old = match prune.older_than_days {
            None => Vec::new(),
            Some(days) => self.older_than(days)?,
        };
        let runs = self.prunable()?;
        if let Some(missing) = prune.runs.iter().find(|&&named| runs.iter().all(|known| known.run != named)) {
            return Err(StoreError::Missing { file: self.file.clone(), what: format!("run {missing}") });
        }
        let mut chosen = runs.iter().filter(|known| {
            prune.runs.contains(&known.run)
                || prune.tunable.as_ref().is_none_or(|name| *name == known.tunable)
                    && ((prune.retired && known.retired)
                        || (prune.unfinished && !known.finished)
                        || old.contains(&known.run)
                        || (prune.tunable.is_some()
                            && !prune.retired
                            && !prune.unfinished
                            && prune.older_than_days.is_none()))
        });
        let mut removed = Vec::new();
        loop {
            let done = removed.len();
            // Held until the rows are gone, so that no process resumes what is being removed.
            let mut locks = Vec::new();
            while locks.len() < MOST_LOCKS
                && let Some(known) = chosen.next()
            {
                // Nobody continues one that is over.
                if !known.finished {
                    match self.lock_run(known.run) {
                        Ok(lock) => locks.push(lock),
                        Err(StoreError::RunTaken { run, .. }) if !prune.runs.contains(&run) => continue,
                        Err(error) => return Err(error),
                    }
                }
                removed.push(known.run);
            }
            self.remove(&removed[done..])?;
            if locks.len() < MOST_LOCKS {
                return Ok(removed);
            }
        }
    }

    /// Removes the rows of runs, and what belonged only to them.
    fn remove(&mut self, runs: &[i64]) -> Result<(), StoreError> {
        self.write(|transaction| {
            for run in runs {
                transaction.execute("DELETE FROM runs WHERE id = ?1", [run])?;
            }
            transaction.execute_batch(
                "DELETE FROM configurations WHERE id NOT IN (SELECT configuration_id FROM measurements)
                     AND id NOT IN (SELECT configuration_id FROM decisions)
                     AND id NOT IN (SELECT configuration_id FROM pins);
                 DELETE FROM spaces WHERE id NOT IN (SELECT space_id FROM runs)
                     AND id NOT IN (SELECT space_id FROM configurations);
                 DELETE FROM workloads WHERE id NOT IN (SELECT workload_id FROM runs)
                     AND id NOT IN (SELECT workload_id FROM pins);
                 DELETE FROM tunables WHERE id NOT IN (SELECT tunable_id FROM runs)
                     AND id NOT IN (SELECT tunable_id FROM pins);
                 DELETE FROM devices WHERE id NOT IN (SELECT device_id FROM runs)
                     AND id NOT IN (SELECT device_id FROM pins);",
            )
        })
    }

    /// What prune needs to know of the runs, without what may be unreadable: such a run must be removable too.
    fn prunable(&self) -> Result<Vec<Prunable>, StoreError> {
        let query = format!("SELECT run, tunable, finished IS NOT NULL, retired FROM ({HEADS}) ORDER BY run");
        let prunable = |row: &rusqlite::Row<'_>| {
            Ok(Prunable { run: row.get(0)?, tunable: row.get(1)?, finished: row.get(2)?, retired: row.get(3)? })
        };
        let rows = self
            .connection
            .prepare(&query)
            .and_then(|mut statement| statement.query_map([], prunable)?.collect::<rusqlite::Result<Vec<_>>>());
        rows.map_err(|error| self.failure(error))
    }

    fn older_than(&self, days: u32) -> Result<Vec<i64>, StoreError> {
        let query = "SELECT id FROM runs WHERE julianday(started) < julianday('now') - ?1 AND started <> ?2";
        let rows = self.connection.prepare(query).and_then(|mut statement| {
            statement.query_map(params![days, UNKNOWN], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()
        });
        rows.map_err(|error| self.failure(error))
    }

    /// Takes in runs and pins of another store. A run that is already here gets only what it lacks; a pin that
    /// contradicts one here is left out.
    ///
    /// # Errors
    /// [`StoreError::BadKey`] for a run that contradicts itself, [`StoreError::RunTaken`] for more of a run that a living
    /// process continues here; those of writing. Nothing is imported then, unless that adds to more than 200
    /// unfinished runs: those are imported 200 at a time.
    pub fn import(&mut self, runs: &[RunRecord], pins: &[PinRecord]) -> Result<Imported, StoreError> {
        for run in runs {
            check(run)?;
        }
        if let Some(pin) = pins.iter().find(|pin| !fits(&pin.space, &pin.config)) {
            let why = "its space does not have these values".to_owned();
            return Err(StoreError::BadKey { what: format!("pin {}", pin.pin), why });
        }
        let mut imported = Imported::default();
        let mut left = runs;
        loop {
            // Held until the rows are there, so that no process continues from what is being changed.
            let mut locks = Vec::new();
            let mut count = 0;
            while locks.len() < MOST_LOCKS
                && let Some(run) = left.get(count)
            {
                if let Some(id) = self.unfinished_with_less(run)? {
                    locks.push(self.lock_run(id)?);
                }
                count += 1;
            }
            let (now, later) = left.split_at(count);
            let pins = if later.is_empty() { pins } else { &[] };
            self.take_in(now, pins, &mut imported)?;
            if later.is_empty() {
                return Ok(imported);
            }
            left = later;
        }
    }

    /// Takes in runs and pins in one transaction.
    fn take_in(&mut self, runs: &[RunRecord], pins: &[PinRecord], imported: &mut Imported) -> Result<(), StoreError> {
        self.write_or_refuse(|transaction| {
            for run in runs {
                import_run(transaction, run, imported)?;
            }
            for pin in pins {
                let space = imported_space(transaction, &pin.space, &format!("pin {}", pin.pin))?;
                imported.pins += transaction.execute(
                    "INSERT INTO pins (device_id, tunable_id, workload_id, configuration_id, reason, at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (device_id, tunable_id, workload_id) DO NOTHING",
                    params![
                        device_row(transaction, &pin.device)?,
                        tunable_row(transaction, &pin.tunable)?,
                        workload_row(transaction, &pin.workload)?,
                        configuration_row(transaction, space, &pin.config)?,
                        pin.reason,
                        pin.at
                    ],
                )?;
            }
            Ok(())
        })
    }

    /// The unfinished run here that `run` knows more of, if there is one.
    fn unfinished_with_less(&self, run: &RunRecord) -> Result<Option<i64>, StoreError> {
        let query = "SELECT id FROM runs WHERE uid = ?1 AND finished IS NULL
             AND (?2 OR (SELECT count(*) FROM measurements WHERE run_id = runs.id) < ?3)";
        let values = params![run.uid, run.finished.is_some(), run.measurements.len() as i64];
        let found = self.connection.query_row(query, values, |row| row.get(0)).optional();
        found.map_err(|error| self.failure(error))
    }

    /// Files of killed runs' locks, which prune removes; for tests and the curious.
    pub fn lock_files(&self) -> Vec<PathBuf> {
        let Some(folder) = self.file.parent() else { return Vec::new() };
        let folder = if folder.as_os_str().is_empty() { std::path::Path::new(".") } else { folder };
        let start = self.file.file_name().map(|name| format!("{}-run-", name.to_string_lossy())).unwrap_or_default();
        let ours = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start));
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(ours).collect()
    }
}

fn text_of(config: &Config) -> String {
    config.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Whether the configuration has a value of each parameter.
fn fits(space: &SpaceRecord, config: &Config) -> bool {
    config.0.len() == space.parameters.len()
        && space.parameters.iter().zip(&config.0).all(|((_, values), value)| values.contains(value))
}

fn check(run: &RunRecord) -> Result<(), StoreError> {
    let wrong = |why: String| Err(StoreError::BadKey { what: format!("run {}", run.run), why });
    for (at, measurement) in run.measurements.iter().enumerate() {
        super::run::check(measurement)?;
        if !fits(&run.space, &measurement.config) {
            return wrong(format!(
                "measurement {at}: its space does not have the values {}",
                text_of(&measurement.config)
            ));
        }
    }
    match &run.decision {
        Some(decision) if !fits(&run.space, &decision.chosen.config) => {
            wrong(format!("its space does not have the decided values {}", text_of(&decision.chosen.config)))
        }
        Some(_) if run.finished.is_none() => wrong("decided and not finished".to_owned()),
        _ => Ok(()),
    }
}

/// The row of an imported space, which must be the space that is known by its hash.
fn imported_space(transaction: &rusqlite::Transaction<'_>, space: &SpaceRecord, of: &str) -> Result<i64, Refusal> {
    let id = space_row(transaction, &space.hash, &space.parameters, space.valid)?;
    let known: Vec<ParameterRow> =
        transaction.query_row("SELECT parameters FROM spaces WHERE id = ?1", [id], |row| json(row, 0))?;
    if known == space.parameters {
        return Ok(id);
    }
    let why = format!("the space {} has other parameters here", space.hash);
    Err(StoreError::BadKey { what: of.to_owned(), why }.into())
}

fn import_run(
    transaction: &rusqlite::Transaction<'_>,
    run: &RunRecord,
    imported: &mut Imported,
) -> Result<(), Refusal> {
    let space = imported_space(transaction, &run.space, &format!("run {}", run.run))?;
    let (device, tunable) = (device_row(transaction, &run.device)?, tunable_row(transaction, &run.tunable)?);
    let workload = workload_row(transaction, &run.workload)?;
    let known: Option<(i64, bool)> = transaction
        .query_row(
            "SELECT id, device_id = ?2 AND tunable_id = ?3 AND space_id = ?4 AND workload_id = ?5
             FROM runs WHERE uid = ?1",
            params![run.uid, device, tunable, space, workload],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let id = if let Some((id, same)) = known {
        if !same {
            let why = format!("by its uid it is run {id} here, which has another device, tunable, space or workload");
            return Err(StoreError::BadKey { what: format!("run {}", run.run), why }.into());
        }
        id
    } else {
        transaction.execute(
            "INSERT INTO runs (uid, device_id, tunable_id, space_id, workload_id, strategy, seed, budget, started)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                run.uid,
                device,
                tunable,
                space,
                workload,
                run.plan.strategy,
                run.plan.seed as i64,
                run.plan.budget,
                run.started
            ],
        )?;
        imported.runs += 1;
        transaction.last_insert_rowid()
    };
    let have: i64 =
        transaction.query_row("SELECT count(*) FROM measurements WHERE run_id = ?1", [id], |row| row.get(0))?;
    for (sequence, measurement) in run.measurements.iter().enumerate().skip(have as usize) {
        measurement_row(transaction, (id, space), sequence as i64, measurement, Some(&run.started))?;
        imported.measurements += 1;
    }
    if let Some(finished) = &run.finished {
        transaction
            .execute("UPDATE runs SET finished = coalesce(finished, ?2) WHERE id = ?1", params![id, finished])?;
        if let Some(decision) = &run.decision {
            transaction.execute(
                "INSERT INTO decisions (run_id, configuration_id, evidence, at) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (run_id) DO NOTHING",
                params![
                    id,
                    configuration_row(transaction, space, &decision.chosen.config)?,
                    json_of(decision)?,
                    finished
                ],
            )?;
        }
    }
    Ok(())
}
