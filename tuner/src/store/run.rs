//! Runs: tunings as they happen, measurement by measurement.
//!
//! A run belongs to a task (device, tunable thing, workload, space) and a plan (strategy, seed, budget). Each completed
//! measurement is one transaction. A run that was killed is found again by its task and plan and continued: replaying
//! its observations to the same strategy with the same seed gives the same next proposal. A lock on a file beside the
//! store, which the system releases when its process dies, keeps two processes from continuing one run.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rusqlite::{ErrorCode, OptionalExtension, Transaction, params};

use super::rows::{
    NOW, configuration_row, device_row, hash_of, json_of, kind_of, measurement_row, parameters_of, space_row, times_of,
    tunable_row, word_of, workload_row,
};
use super::{DeviceIdentity, Refusal, Store, StoreError, TunableIdentity, Workload};
use crate::compare::Decision;
use crate::goals::Front;
use crate::space::Space;
use crate::statistics;
use crate::{Config, Failure, Outcome};

/// What is tuned.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// On which device.
    pub device: &'a DeviceIdentity,
    /// Which tunable thing.
    pub tunable: &'a TunableIdentity,
    /// For which workload.
    pub workload: &'a Workload,
    /// Over which configurations.
    pub space: &'a Space,
}

/// How it is tuned.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Plan {
    /// The strategy's name and settings.
    pub strategy: String,
    /// The seed of all that is random.
    pub seed: u64,
    /// When it ends, in words.
    pub budget: String,
}

/// One completed measurement.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Observation {
    /// What was measured.
    pub config: Config,
    /// How many launches were requested.
    pub launches: usize,
    /// What came.
    pub outcome: Outcome,
    /// What the measurement took altogether, compilation and warm-up included, in ms.
    pub took_ms: f64,
    /// The costs behind the times, a list for each objective; empty where there is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Vec<f64>>,
}

/// A configuration and what is known of its time, in a decision.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Contender {
    /// The configuration.
    pub config: Config,
    /// The estimate of its time, in ms.
    pub time_ms: f64,
    /// Its 95 % interval, in ms, where there are samples enough.
    pub interval_ms: Option<(f64, f64)>,
    /// Samples behind it.
    pub samples: usize,
}

impl Contender {
    /// The median of samples, and an interval of their mean's width about it.
    pub(crate) fn of_samples(config: &Config, times: &[f64]) -> Self {
        let time_ms = statistics::median(times);
        let count = statistics::effective_count(times);
        let interval_ms = (times.len() >= 5 && count > 2.0).then(|| {
            // A mean's standard error from the robust spread, times what a median loses against a mean on normal noise.
            let error = 1.2533 * statistics::robust_spread(times) / count.sqrt();
            let half = statistics::student_critical(0.05, count - 1.0) * error;
            (time_ms - half, time_ms + half)
        });
        Self { config: config.clone(), time_ms, interval_ms, samples: times.len() }
    }
}

/// Why a configuration was chosen.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Evidence {
    /// The chosen one.
    pub chosen: Contender,
    /// What is used where nothing is tuned, if it was measured.
    pub default: Option<Contender>,
    /// The best of the others.
    pub runner_up: Option<Contender>,
    /// Configurations that were tried, failed ones included.
    pub tried: usize,
    /// Of those, the failed ones.
    pub failed: usize,
    /// Valid configurations of the space.
    pub valid: usize,
    /// Launches altogether.
    pub launches: usize,
    /// Why the search ended.
    pub stopped: String,
    /// How much more was to be expected of searching on, as a share of the time, where the strategy can tell.
    pub expected_gain: Option<f64>,
    /// How the chosen one compares with the default, in words.
    pub verdict: String,
    /// How it came to that; `None` in results of programs that did not keep it.
    #[serde(default)]
    pub details: Option<Box<Details>>,
}

/// How a session came to its decision.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Details {
    /// Launches of the search.
    pub search_launches: usize,
    /// How the best of the search were raced for the places in the final rounds, if they were.
    pub race: Option<RaceDetails>,
    /// Launches of the final rounds.
    pub final_launches: usize,
    /// What the final rounds measured and concluded, if they were held: the last one decided. There is more than one
    /// only where the default failed in them.
    pub decisions: Vec<Decision>,
    /// What there is to choose from where there are several objectives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub front: Option<Front>,
}

/// A race of the best of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RaceDetails {
    /// Configurations that took part.
    pub racers: usize,
    /// Launches.
    pub launches: usize,
    /// Whether the device was quiet: then few launches were enough.
    pub quiet: bool,
}

/// What stands before the seeds of a search at the end of a plan's strategy. They are not part of what a run is looked
/// for by: what is a good seed changes with every run that is kept.
pub(crate) const SEEDS: &str = ", seeds ";

/// What stands in a plan before the sample, and before the default that follows it.
pub(crate) const SAMPLE: &str = ", on ";
pub(crate) const DEFAULT: &str = ", default ";

/// The sample that a plan's strategy names; empty if none.
fn sample_of(strategy: &str) -> &str {
    let (before, _) = strategy.rsplit_once(SEEDS).unwrap_or((strategy, ""));
    let (before, _) = before.rsplit_once(DEFAULT).unwrap_or((before, ""));
    before.split_once(SAMPLE).map_or("", |(_, sample)| sample)
}

/// A run that may be continued.
struct Unfinished {
    id: i64,
    space: i64,
    budget: String,
    strategy: String,
}

/// A run that this process measures.
#[derive(Debug)]
pub struct Run {
    id: i64,
    /// A number is given again once its run is pruned; this is not.
    uid: String,
    space: i64,
    next: i64,
    budget: String,
    _lock: Option<RunLock>,
}

impl Run {
    /// Its number in the store.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// The budget that it was begun with, in words.
    pub fn budget(&self) -> &str {
        &self.budget
    }

    /// Measurements so far.
    pub fn measurements(&self) -> usize {
        self.next as usize
    }
}

/// A locked file beside the store; it goes when the run ends.
#[derive(Debug)]
pub(super) struct RunLock {
    file: File,
    path: PathBuf,
}

impl Drop for RunLock {
    fn drop(&mut self) {
        // Removed while still locked: a process that opens the name later makes a new file.
        let _ = std::fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

fn lock_path(store: &Path, run: i64) -> PathBuf {
    let mut path = store.as_os_str().to_owned();
    path.push(format!("-run-{run}.lock"));
    PathBuf::from(path)
}

/// The lock of a run; `Ok(None)` where the file system has no locks, `Err` if a living process holds it, or if that
/// cannot be found out.
fn lock(store: &Path, run: i64) -> Result<Option<RunLock>, StoreError> {
    let path = lock_path(store, run);
    // No process can hold a lock there. Anything else, as too many open files, says nothing of other processes.
    let without = |error: std::io::Error| match error.kind() {
        ErrorKind::Unsupported | ErrorKind::ReadOnlyFilesystem => Ok(None),
        _ => Err(StoreError::CannotOpen { file: path.clone(), what: error.to_string() }),
    };
    loop {
        let file = match File::create(&path) {
            Ok(file) => file,
            // Perhaps another user's, who may be measuring: to lock it, reading is enough.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return without(error),
            },
            Err(error) => return without(error),
        };
        match file.try_lock() {
            Ok(()) if is_at(&file, &path) => return Ok(Some(RunLock { file, path })),
            // Its last holder removed it after this process had opened it: others lock another file of the name.
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::RunTaken { file: store.to_owned(), run }),
            Err(TryLockError::Error(error)) => return without(error),
        }
    }
}

/// Whether this open file is still the one of that name.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let node = |metadata: &std::fs::Metadata| (metadata.dev(), metadata.ino());
    matches!((file.metadata(), path.metadata()), (Ok(open), Ok(named)) if node(&open) == node(&named))
}

#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

impl Store {
    /// Holds a run, so that no other process continues it.
    pub(super) fn lock_run(&self, run: i64) -> Result<Option<RunLock>, StoreError> {
        lock(&self.file, run)
    }

    /// Begins a run.
    ///
    /// # Errors
    /// Those of writing.
    pub fn begin(&mut self, task: &Task<'_>, plan: &Plan) -> Result<Run, StoreError> {
        let hash = hash_of(task.space).map_err(|error| self.failure(error))?;
        let file = self.file.clone();
        let (id, uid, space, lock) = self.write_or_refuse(|transaction| {
            let space = space_row(transaction, &hash, &parameters_of(task.space), task.space.len() as u64)?;
            transaction.execute(
                // Not before the others, also where the clock was ahead when those began: the latest one's code counts.
                &format!(
                    "INSERT INTO runs (device_id, tunable_id, space_id, workload_id, strategy, seed, budget, started)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, max({NOW}, (SELECT coalesce(max(started), '') FROM runs)))"
                ),
                params![
                    device_row(transaction, task.device)?,
                    tunable_row(transaction, task.tunable)?,
                    space,
                    workload_row(transaction, task.workload)?,
                    plan.strategy,
                    plan.seed as i64,
                    plan.budget
                ],
            )?;
            let id = transaction.last_insert_rowid();
            let uid = transaction.query_row("SELECT uid FROM runs WHERE id = ?1", [id], |row| row.get(0))?;
            // Before any other process can see the run, and continue it.
            Ok((id, uid, space, lock(&file, id)?))
        })?;
        Ok(Run { id, uid, space, next: 0, budget: plan.budget.clone(), _lock: lock })
    }

    /// The latest unfinished run of the same task, strategy and seed that no living process continues, with its
    /// observations in the order in which they were made; `None` if there is none. One with the same budget comes
    /// first. Another budget leads to the same requests as long as the search goes on with both.
    ///
    /// # Errors
    /// Those of reading; rows that cannot be understood.
    pub fn resume(&mut self, task: &Task<'_>, plan: &Plan) -> Result<Option<(Run, Vec<Observation>)>, StoreError> {
        for Unfinished { id, space, budget, strategy } in self.unfinished(task, plan)? {
            if strategy != plan.strategy {
                continue;
            }
            let lock = match self.lock_run(id) {
                Ok(lock) => lock,
                Err(StoreError::RunTaken { .. }) => continue,
                Err(error) => return Err(error),
            };
            let unfinished: Option<String> = self
                .connection
                .query_row("SELECT uid FROM runs WHERE id = ?1 AND finished IS NULL", [id], |row| row.get(0))
                .optional()
                .map_err(|error| self.failure(error))?;
            // Between the query and the lock its process may have ended it, or pruned it away.
            let Some(uid) = unfinished else { continue };
            let observations = self.observations(id)?;
            let next = observations.len() as i64;
            return Ok(Some((Run { id, uid, space, next, budget, _lock: lock }, observations)));
        }
        Ok(None)
    }

    /// What the unfinished run that [`resume`](Self::resume) would continue began with, whatever that is: `plan` is
    /// without seeds. `None` if there is no such run.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) fn seeds_begun_with(&self, task: &Task<'_>, plan: &Plan) -> Result<Option<Vec<Config>>, StoreError> {
        for Unfinished { id, strategy, .. } in self.unfinished(task, plan)? {
            let Some(rest) = strategy.strip_prefix(plan.strategy.as_str()) else { continue };
            let seeds = match rest.strip_prefix(SEEDS) {
                None => Vec::new(),
                // Older versions wrote the seeds otherwise.
                Some(json) => match serde_json::from_str(json) {
                    Ok(seeds) => seeds,
                    Err(_) => continue,
                },
            };
            match self.lock_run(id) {
                Ok(_) => return Ok(Some(seeds)),
                Err(StoreError::RunTaken { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The unfinished runs of the same task, strategy and seed, whatever seeds they began with; the one to continue
    /// comes first.
    fn unfinished(&self, task: &Task<'_>, plan: &Plan) -> Result<Vec<Unfinished>, StoreError> {
        let hash = hash_of(task.space).map_err(|error| self.failure(error))?;
        let device = task.device;
        let candidates: rusqlite::Result<Vec<Unfinished>> = (|| {
            let mut statement = self.connection.prepare(
                "SELECT runs.id, runs.space_id, budget, strategy FROM runs
                 JOIN devices ON devices.id = device_id JOIN tunables ON tunables.id = tunable_id
                 JOIN spaces ON spaces.id = space_id JOIN workloads ON workloads.id = workload_id
                 WHERE finished IS NULL AND devices.name = ?1 AND uuid = ?2 AND compute_capability = ?3
                 AND sm_count = ?4 AND driver = ?5 AND runtime = ?6 AND platform = ?7
                 AND tunables.name = ?8 AND version = ?9 AND kernel_hash = ?10 AND hash = ?11
                 AND keys = ?12 AND place = ?13 AND seed = ?15
                 AND (strategy = ?14 OR substr(strategy, 1, length(?14) + length(?17)) = ?14 || ?17)
                 ORDER BY budget = ?16 DESC, runs.id DESC",
            )?;
            let keys = json_of(task.workload.keys())?;
            let rows = statement.query_map(
                params![
                    device.name,
                    device.uuid,
                    device.compute_capability,
                    device.sm_count,
                    device.driver,
                    device.runtime,
                    device.platform,
                    task.tunable.name,
                    task.tunable.version,
                    task.tunable.kernel_hash,
                    hash,
                    keys,
                    task.workload.place(),
                    plan.strategy,
                    plan.seed as i64,
                    plan.budget,
                    SEEDS
                ],
                |row| {
                    Ok(Unfinished { id: row.get(0)?, space: row.get(1)?, budget: row.get(2)?, strategy: row.get(3)? })
                },
            )?;
            rows.collect()
        })();
        candidates.map_err(|error| self.failure(error))
    }

    /// Keeps one completed measurement. When this returns, it is safe.
    ///
    /// # Errors
    /// Those of writing; [`StoreError::RunTaken`] if another process has continued or removed the run (only possible
    /// where the file system has no locks); [`StoreError::BadKey`] for times or parameters that are not finite.
    pub fn record(&mut self, run: &mut Run, observation: &Observation) -> Result<(), StoreError> {
        check(observation)?;
        let sequence = run.next;
        let file = self.file.clone();
        let written = self.write_or_refuse(|transaction| {
            check_held(transaction, run, &file)?;
            Ok(measurement_row(transaction, (run.id, run.space), sequence, observation, None)?)
        });
        match written {
            Ok(()) => {
                run.next += 1;
                Ok(())
            }
            Err(StoreError::Sqlite { file, source })
                if source.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) =>
            {
                Err(StoreError::RunTaken { file, run: run.id })
            }
            Err(error) => Err(error),
        }
    }

    /// Ends a run with a decision.
    ///
    /// # Errors
    /// Those of writing; [`StoreError::RunTaken`] if another process has removed the run.
    #[expect(clippy::needless_pass_by_value, reason = "the run is over: its lock goes with it")]
    pub fn decide(&mut self, run: Run, evidence: &Evidence) -> Result<(), StoreError> {
        let file = self.file.clone();
        self.write_or_refuse(|transaction| {
            check_held(transaction, &run, &file)?;
            let configuration = configuration_row(transaction, run.space, &evidence.chosen.config)?;
            transaction.execute(
                // Not before the others, also where the clock was ahead when those were made: the latest one counts.
                &format!(
                    "INSERT INTO decisions (run_id, configuration_id, evidence, at)
                     VALUES (?1, ?2, ?3, max({NOW}, (SELECT coalesce(max(at), '') FROM decisions)))"
                ),
                params![run.id, configuration, json_of(evidence)?],
            )?;
            Ok(transaction.execute(&format!("UPDATE runs SET finished = {NOW} WHERE id = ?1"), [run.id])?)
        })?;
        Ok(())
    }

    /// Ends a run in which nothing worked: without a decision.
    ///
    /// # Errors
    /// Those of writing; [`StoreError::RunTaken`] if another process has removed the run.
    #[expect(clippy::needless_pass_by_value, reason = "the run is over: its lock goes with it")]
    pub fn end(&mut self, run: Run) -> Result<(), StoreError> {
        let file = self.file.clone();
        self.write_or_refuse(|transaction| {
            check_held(transaction, &run, &file)?;
            Ok(transaction.execute(&format!("UPDATE runs SET finished = {NOW} WHERE id = ?1"), [run.id])?)
        })?;
        Ok(())
    }

    /// The observations of a run, in their order.
    ///
    /// # Errors
    /// Those of reading; rows that cannot be understood.
    pub fn observations(&self, run: i64) -> Result<Vec<Observation>, StoreError> {
        self.select_observations("WHERE run_id = ?1 ORDER BY sequence", &[&run])
    }

    /// Measurements that had to be killed, for the same device and driver, code, workload, sample and parameters as a run: as
    /// many launches of their configurations need not be waited for as long again.
    ///
    /// # Errors
    /// Those of reading; rows that cannot be understood.
    pub fn hangs(&self, run: &Run) -> Result<Vec<Observation>, StoreError> {
        let alike: rusqlite::Result<Vec<(i64, String)>> = (|| {
            let mut statement = self.connection.prepare_cached(
                "SELECT runs.id, runs.strategy FROM runs JOIN runs AS this ON this.id = ?1
                 WHERE runs.device_id = this.device_id AND runs.tunable_id = this.tunable_id
                 AND runs.workload_id = this.workload_id AND runs.space_id = this.space_id",
            )?;
            statement.query_map([run.id], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })();
        let alike = alike.map_err(|error| self.failure(error))?;
        let sample = alike.iter().find(|(id, _)| *id == run.id).map(|(_, strategy)| sample_of(strategy));
        let same = alike.iter().filter(|(_, strategy)| Some(sample_of(strategy)) == sample).map(|(id, _)| *id);
        let same = serde_json::json!(same.collect::<Vec<i64>>()).to_string();
        self.select_observations(
            "WHERE failure = ?2 AND run_id IN (SELECT value FROM json_each(?1)) ORDER BY run_id, sequence",
            &[&same, &word_of(crate::FailureKind::TimeOut)],
        )
    }

    fn select_observations(&self, rest: &str, values: &[&dyn rusqlite::ToSql]) -> Result<Vec<Observation>, StoreError> {
        type Cells = (i64, i64, String, i64, Option<Vec<u8>>, Option<String>, Option<String>, f64, Option<String>);
        let rows: rusqlite::Result<Vec<Cells>> = (|| {
            let mut statement = self.connection.prepare_cached(&format!(
                "SELECT run_id, sequence, value, launches, times, failure, message, took_ms, parts
                 FROM measurements JOIN configurations ON configurations.id = configuration_id {rest}"
            ))?;
            let rows = statement.query_map(values, |row| {
                Ok((
                    row.get(0)?,
                    row.get(1)?,
                    row.get(2)?,
                    row.get(3)?,
                    row.get(4)?,
                    row.get(5)?,
                    row.get(6)?,
                    row.get(7)?,
                    row.get(8)?,
                ))
            })?;
            rows.collect()
        })();
        let rows = rows.map_err(|error| self.failure(error))?;
        let understood =
            rows.into_iter().map(|(run, sequence, config, launches, times, failure, message, took_ms, parts)| {
                let wrong = |what: String| self.bad_row(format!("measurement {sequence} of run {run}"), &what);
                let config = serde_json::from_str(&config).map_err(|error| wrong(format!("configuration: {error}")))?;
                let outcome = match (times, failure) {
                    (Some(blob), None) => Outcome::Times(
                        times_of(&blob).ok_or_else(|| wrong(format!("{} bytes are not times", blob.len())))?,
                    ),
                    (None, Some(word)) => {
                        let kind = kind_of(&word).ok_or_else(|| wrong(format!("unknown failure {word:?}")))?;
                        Outcome::Failed(Failure { kind, message: message.unwrap_or_default() })
                    }
                    _ => return Err(wrong("neither times nor a failure".to_owned())),
                };
                let launches = usize::try_from(launches).map_err(|error| wrong(error.to_string()))?;
                let parts = parts.map_or(Ok(Vec::new()), |parts| serde_json::from_str(&parts));
                let parts = parts.map_err(|error| wrong(format!("costs by objective: {error}")))?;
                Ok(Observation { config, launches, outcome, took_ms, parts })
            });
        understood.collect()
    }
}

/// Whether the row of this number is still this run: once a run is pruned, the next one gets its number.
fn check_held(transaction: &Transaction<'_>, run: &Run, file: &Path) -> Result<(), Refusal> {
    let uid: Option<String> =
        transaction.query_row("SELECT uid FROM runs WHERE id = ?1", [run.id], |row| row.get(0)).optional()?;
    if uid.as_ref() == Some(&run.uid) {
        return Ok(());
    }
    Err(StoreError::RunTaken { file: file.to_owned(), run: run.id }.into())
}

/// What JSON and SQLite would turn into something else.
pub(super) fn check(observation: &Observation) -> Result<(), StoreError> {
    let bad = |what: &str, number: f64| {
        Err(StoreError::BadKey { what: format!("{what} of {:?}", observation.config), why: format!("{number}") })
    };
    for value in &observation.config.0 {
        if let crate::Value::Float(number) = value
            && !number.is_finite()
        {
            return bad("a parameter", *number);
        }
    }
    if let Outcome::Times(times) = &observation.outcome
        && let Some(&time) = times.iter().find(|time| !time.is_finite())
    {
        return bad("a time", time);
    }
    if let Some(&cost) = observation.parts.iter().flatten().find(|cost| !cost.is_finite()) {
        return bad("a cost", cost);
    }
    if i64::try_from(observation.launches).is_err() {
        return bad("the number of launches", observation.launches as f64);
    }
    if observation.took_ms.is_finite() { Ok(()) } else { bad("the duration", observation.took_ms) }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_median_is_students_with_the_robust_spread_and_none_of_fewer_than_five() {
        // Median 4, deviations of median 2; neighbours lie on opposite sides, so that all seven count.
        let of = |times: &[f64]| Contender::of_samples(&Config(Vec::new()), times);
        let seven = of(&[4.0, 1.0, 7.0, 2.0, 6.0, 3.0, 5.0]);
        let (low, high) = seven.interval_ms.unwrap();
        // 2.4469 (t of 6 degrees) times 1.2533 times 2 · 1.4826 / √7.
        assert!((low - (4.0 - 3.437)).abs() < 1e-3 && (high - (4.0 + 3.437)).abs() < 1e-3, "{seven:?}");
        assert_eq!((seven.time_ms, seven.samples), (4.0, 7));
        assert!(of(&[1.0, 2.0, 1.0, 2.0, 1.0]).interval_ms.is_some());
        assert!(of(&[1.0, 2.0, 1.0, 2.0]).interval_ms.is_none());
    }

    #[test]
    fn a_lock_file_that_its_last_holder_removed_holds_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let open = || File::create(&path).unwrap();
        let removed = open();
        assert!(is_at(&removed, &path));
        std::fs::remove_file(&path).unwrap();
        assert!(!is_at(&removed, &path), "there is none of the name");
        let new = open();
        assert!(!is_at(&removed, &path) && is_at(&new, &path), "another process has made another one");
    }
}
