//! Runs: tunings in progress, kept measurement by measurement.
//!
//! Each completed measurement is one transaction. A killed run is found again by its task and plan
//! and continued: the same strategy with the same seed, told the same observations, makes the same
//! next proposal. A lock on a file next to the store, which the system releases when the process
//! dies, keeps two processes from continuing one run.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{ErrorCode, Transaction, params};

use super::contents::{RunRecord, SpaceRecord, json};
use super::{DeviceIdentity, NOW, Store, StoreError, TunableIdentity, Workload, json_of};
use crate::compare::Decision;
use crate::fnv::Fnv;
use crate::space::Space;
use crate::{Config, Outcome, Value, statistics};

/// Pause between looks at a lock that another process holds.
const TURN: Duration = Duration::from_millis(20);

/// Subject of a tuning.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// Device to tune for.
    pub device: &'a DeviceIdentity,
    /// Program, decoder or kernel to tune.
    pub tunable: &'a TunableIdentity,
    /// Workload to tune for; a lookup finds only equal ones.
    pub workload: &'a Workload,
    /// Parameters, their values and the valid configurations.
    pub space: &'a Space,
}

/// Plan of a tuning.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Plan {
    /// Name and settings of the strategy.
    pub strategy: String,
    /// Measured sample, where the workload does not name it. A run of another sample is not
    /// continued.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sample: String,
    /// Configurations that the search began with, besides the default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seeds: Vec<Config>,
    /// Seed of all random choices.
    pub seed: u64,
    /// Budget, as text.
    pub budget: String,
}

/// Completed measurement.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Observation {
    /// Measured configuration, in the order of the run's space.
    pub config: Config,
    /// Number of launches requested.
    pub launches: usize,
    /// Times in ms, or costs of another objective; else the failure.
    pub outcome: Outcome,
    /// Duration of the measurement in ms, with compilation and warm-up.
    pub took_ms: f64,
}

/// Configuration with an estimate of its time, as a decision saw it.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Contender {
    /// Configuration that was measured.
    pub config: Config,
    /// Median of the samples in ms, or the median cost under another objective.
    pub time_ms: f64,
    /// 95 % interval in ms; `None` with too few samples, and for a time from the search.
    pub interval_ms: Option<(f64, f64)>,
    /// Number of samples that the estimate rests on.
    pub samples: usize,
}

impl Contender {
    /// Estimates the time by the median, in an interval as wide as the mean's.
    pub(crate) fn of_samples(config: &Config, times: &[f64]) -> Self {
        let time_ms = statistics::median(times);
        let count = statistics::effective_count(times);
        let interval_ms = (times.len() >= 5 && count > 2.0).then(|| {
            // 1.2533: a median's standard error over a mean's, on normal noise.
            let error = 1.2533 * statistics::robust_spread(times) / count.sqrt();
            let half = statistics::student_critical(0.05, count - 1.0) * error;
            (time_ms - half, time_ms + half)
        });
        Self {
            config: config.clone(),
            time_ms,
            interval_ms,
            samples: times.len(),
        }
    }
}

/// Chosen configuration, and the reasons for it.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Evidence {
    /// Configuration that the tuning chose, with the estimate of its time.
    pub chosen: Contender,
    /// Configuration in use before; `None` if no measurement gave a time.
    pub default: Option<Contender>,
    /// Best configuration but for `chosen` and `default`; in a session, of the finalists only.
    pub runner_up: Option<Contender>,
    /// Number of configurations tried, failed ones included.
    pub tried: usize,
    /// Number of failed configurations among `tried`.
    pub failed: usize,
    /// Number of valid configurations of the space.
    pub valid: usize,
    /// Number of launches; in a session, of search, race and final rounds together.
    pub launches: usize,
    /// Reason why the search ended.
    pub stopped: String,
    /// Comparison of the chosen configuration with the default, in words.
    pub verdict: String,
    /// Details of a session's decision; `None` for other runs.
    #[serde(default)]
    pub details: Option<Box<Details>>,
}

/// Details of a session's decision.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Details {
    /// Number of launches of the search.
    pub search_launches: usize,
    /// Race for the places in the final rounds, if there was one.
    pub race: Option<RaceDetails>,
    /// Number of launches of the final rounds.
    pub final_launches: usize,
    /// Final rounds. The last element decided; there is more than one only if the default failed in
    /// them.
    pub decisions: Vec<Decision>,
}

/// Race between the best configurations of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RaceDetails {
    /// Number of configurations that raced, the default not among them.
    pub racers: usize,
    /// Number of launches of the race; a failed measurement counts as one.
    pub launches: usize,
    /// True if the device was quiet, so that few launches were enough.
    pub quiet: bool,
}

/// Run that this process measures.
#[derive(Debug)]
pub struct Run {
    id: i64,
    next: i64,
    plan: Plan,
    _lock: Option<RunLock>,
}

impl Run {
    /// Returns the run's number in the store.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// Returns the plan with which the run was begun.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the number of measurements so far.
    pub fn measurements(&self) -> usize {
        self.next as usize
    }
}

/// Locked file next to the store, removed when this value is dropped.
#[derive(Debug)]
pub struct RunLock {
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

/// Takes the lock of this name; `Ok(None)` if the file system has no locks.
///
/// # Errors
/// `taken` if a living process holds it; if that cannot be found out.
fn lock(
    store: &Path,
    name: &str,
    taken: impl FnOnce(PathBuf) -> StoreError,
) -> Result<Option<RunLock>, StoreError> {
    let mut path = store.as_os_str().to_owned();
    path.push(format!("-{name}.lock"));
    let path = PathBuf::from(path);
    // Without locks no process can hold one. Other errors, such as too many open files, say nothing
    // about other processes.
    let without = |error: std::io::Error| match error.kind() {
        ErrorKind::Unsupported | ErrorKind::ReadOnlyFilesystem => Ok(None),
        _ => Err(StoreError::cannot_open(&path, error)),
    };
    loop {
        let file = match File::create(&path) {
            Ok(file) => file,
            Err(error) => return without(error),
        };
        match file.try_lock() {
            Ok(()) if is_at(&file, &path) => return Ok(Some(RunLock { file, path })),
            // The last holder removed the file after this process had opened it: lock the new file
            // of that name.
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(taken(store.to_owned())),
            Err(TryLockError::Error(error)) => return without(error),
        }
    }
}

/// Returns true if this open file is still the one of that name.
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

/// Locks a run, so that no other process continues it.
fn lock_run(store: &Path, run: i64) -> Result<Option<RunLock>, StoreError> {
    lock(store, &format!("run-{run}"), |file| StoreError::RunTaken {
        file,
        run,
    })
}

impl Store {
    /// Locks a run, so that no other process continues it.
    pub(super) fn lock_run(&self, run: i64) -> Result<Option<RunLock>, StoreError> {
        lock_run(&self.file, run)
    }

    /// Waits while other processes tune the same task, and lets later ones wait until the result is
    /// dropped.
    pub(crate) fn wait_for_turn(&self, task: &Task<'_>) -> Result<Option<RunLock>, StoreError> {
        let mut hash = Fnv::default();
        for part in [
            json_of(task.device)?,
            json_of(task.tunable)?,
            json_of(task.workload)?,
        ] {
            hash.take(part.as_bytes());
        }
        loop {
            match lock(&self.file, &format!("task-{hash}"), |_| {
                StoreError::Measuring
            }) {
                Err(StoreError::Measuring) => std::thread::sleep(TURN),
                lock => return lock,
            }
        }
    }

    /// Reserves measuring among the processes that use this store, until the result is dropped.
    ///
    /// # Errors
    /// [`StoreError::Measuring`] if another process measures.
    pub fn measure_alone(&self) -> Result<Option<RunLock>, StoreError> {
        lock(&self.file, "measuring", |_| StoreError::Measuring)
    }

    /// Begins a run.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn begin(&mut self, task: &Task<'_>, plan: &Plan) -> Result<Run, StoreError> {
        let file = self.file.clone();
        let (id, lock) = self.write(|transaction| {
            let id = insert_run(transaction, task, plan)?;
            // Locked before another process can see the run and continue it.
            Ok((id, lock_run(&file, id)?))
        })?;
        Ok(Run {
            id,
            next: 0,
            plan: plan.clone(),
            _lock: lock,
        })
    }

    /// Continues the latest unfinished run of the same task, strategy, sample and seed, with its
    /// observations in order.
    ///
    /// Runs that a living process measures are passed over. A run with the same budget comes first;
    /// one with another budget makes the same requests until one of the two budgets ends. Seed
    /// configurations may differ: they change with every run that is kept.
    ///
    /// # Errors
    /// If the store cannot be read, or a row is malformed.
    pub fn resume(
        &mut self,
        task: &Task<'_>,
        plan: &Plan,
    ) -> Result<Option<(Run, Vec<Observation>)>, StoreError> {
        let space = SpaceRecord::of(task.space)?;
        let mut unfinished = self.heads(
            "WHERE finished IS NULL AND device = ?1 AND tunable = ?2 AND workload = ?3 ORDER BY id DESC",
            params![json_of(task.device)?, json_of(task.tunable)?, json_of(task.workload)?],
        )?;
        let same = |of: &Plan| {
            (&of.strategy, &of.sample, of.seed) == (&plan.strategy, &plan.sample, plan.seed)
        };
        unfinished.retain(|run| run.space == space && same(&run.plan));
        unfinished.sort_by_key(|run| run.plan.budget != plan.budget);
        for RunRecord {
            run: id,
            plan: begun,
            ..
        } in unfinished
        {
            let lock = match self.lock_run(id) {
                Ok(lock) => lock,
                Err(StoreError::RunTaken { .. }) => continue,
                Err(error) => return Err(error),
            };
            // Between the query and the lock, another process may have finished or pruned the run.
            if self
                .rows(
                    "SELECT 1 FROM runs WHERE id = ?1 AND finished IS NULL",
                    &[&id],
                    |_| Ok(()),
                )?
                .is_empty()
            {
                continue;
            }
            let observations = self.observations(id)?;
            let next = observations.len() as i64;
            return Ok(Some((
                Run {
                    id,
                    next,
                    plan: begun,
                    _lock: lock,
                },
                observations,
            )));
        }
        Ok(None)
    }

    /// Commits one completed measurement.
    ///
    /// # Errors
    /// If the store cannot be written; [`StoreError::RunTaken`] if another process has continued or
    /// removed the run (only on file systems without locks); [`StoreError::Wrong`] for times or
    /// parameters that are not finite.
    pub fn record(&mut self, run: &mut Run, observation: &Observation) -> Result<(), StoreError> {
        match self.write(|transaction| insert(transaction, run.id, run.next, observation)) {
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

    /// Ends a run, with its decision if there is one.
    ///
    /// # Errors
    /// If the store cannot be written; [`StoreError::RunTaken`] if another process has removed the
    /// run.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the run is over: its lock goes with it"
    )]
    pub fn finish(&mut self, run: Run, evidence: Option<&Evidence>) -> Result<(), StoreError> {
        match self.write(|transaction| end(transaction, run.id, evidence))? {
            0 => Err(StoreError::RunTaken {
                file: self.file.clone(),
                run: run.id,
            }),
            _ => Ok(()),
        }
    }

    /// Keeps a whole run, and returns its number.
    pub fn keep_run(
        &mut self,
        task: &Task<'_>,
        plan: &Plan,
        observations: &[Observation],
        evidence: Option<&Evidence>,
    ) -> Result<i64, StoreError> {
        self.write(|transaction| {
            let id = insert_run(transaction, task, plan)?;
            for (sequence, observation) in (0..).zip(observations) {
                insert(transaction, id, sequence, observation)?;
            }
            end(transaction, id, evidence)?;
            Ok(id)
        })
    }

    /// Reads the observations of a run in order.
    ///
    /// # Errors
    /// If the store cannot be read, or a row is malformed.
    pub fn observations(&self, run: i64) -> Result<Vec<Observation>, StoreError> {
        self.select_observations("WHERE run_id = ?1 ORDER BY sequence", &[&run])
    }

    /// Lists measurements that timed out, in all runs with the same device, code, workload, space
    /// and sample as `run`.
    ///
    /// # Errors
    /// If the store cannot be read, or a row is malformed.
    pub fn hangs(&self, run: &Run) -> Result<Vec<Observation>, StoreError> {
        let of = |run: &str| {
            format!(
                "({run}.device, {run}.tunable, {run}.workload, {run}.space, {run}.plan ->> 'sample')"
            )
        };
        let alike = format!(
            "SELECT other.id FROM runs AS other, runs AS this WHERE this.id = ?1 AND {} IS {}",
            of("other"),
            of("this")
        );
        self.select_observations(
            &format!(
                "WHERE run_id IN ({alike}) AND observation ->> '$.outcome.failed.kind' = 'time-out'
                 ORDER BY run_id, sequence"
            ),
            &[&run.id],
        )
    }

    fn select_observations(
        &self,
        rest: &str,
        values: &[&dyn rusqlite::ToSql],
    ) -> Result<Vec<Observation>, StoreError> {
        let query = format!("SELECT run_id, sequence, observation FROM measurements {rest}");
        let named = |row: &rusqlite::Row<'_>| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, json(row, 2)))
        };
        let understood =
            self.rows(&query, values, named)?
                .into_iter()
                .map(|(run, sequence, observation)| {
                    observation.map_err(|what| {
                        self.bad_row(&format!("measurement {sequence} of run {run}"), &what)
                    })
                });
        understood.collect()
    }
}

/// Makes the row of a run, and returns its number.
fn insert_run(
    transaction: &Transaction<'_>,
    task: &Task<'_>,
    plan: &Plan,
) -> Result<i64, StoreError> {
    transaction.execute(
        &format!(
            "INSERT INTO runs (device, tunable, workload, space, plan, started) VALUES (?1, ?2, ?3, ?4, ?5, {NOW})"
        ),
        params![
            json_of(task.device)?,
            json_of(task.tunable)?,
            json_of(task.workload)?,
            json_of(&SpaceRecord::of(task.space)?)?,
            json_of(plan)?
        ],
    )?;
    Ok(transaction.last_insert_rowid())
}

/// Inserts the row of a measurement, unless it has numbers that JSON cannot keep.
fn insert(
    transaction: &Transaction<'_>,
    run: i64,
    sequence: i64,
    observation: &Observation,
) -> Result<(), StoreError> {
    let of_config = observation.config.0.iter().filter_map(|value| {
        if let Value::Float(x) = value {
            Some(x)
        } else {
            None
        }
    });
    let times = if let Outcome::Times(times) = &observation.outcome {
        &times[..]
    } else {
        &[]
    };
    let mut numbers = of_config.chain(times).chain([&observation.took_ms]);
    if let Some(number) = numbers.find(|number| !number.is_finite()) {
        return Err(StoreError::Wrong(format!(
            "a measurement of {:?} with {number} cannot be stored",
            observation.config
        )));
    }
    transaction
        .prepare_cached(
            "INSERT INTO measurements (run_id, sequence, observation) VALUES (?1, ?2, ?3)",
        )?
        .execute(params![run, sequence, json_of(observation)?])?;
    Ok(())
}

/// Marks a run as finished, with its decision; returns the number of runs changed. Of two
/// decisions, the one with the larger `ended` was made later, whatever the clock says.
fn end(
    transaction: &Transaction<'_>,
    run: i64,
    evidence: Option<&Evidence>,
) -> Result<usize, StoreError> {
    let ended = "(SELECT coalesce(max(ended), 0) + 1 FROM runs)";
    let set =
        format!("UPDATE runs SET finished = {NOW}, ended = {ended}, evidence = ?2 WHERE id = ?1");
    Ok(transaction.execute(&set, params![run, evidence.map(json_of).transpose()?])?)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_median_has_students_interval_with_the_robust_spread_from_five_values_on() {
        // Median 4, deviations of median 2; neighbours lie on opposite sides, so that all seven
        // count.
        let of = |times: &[f64]| Contender::of_samples(&Config(Vec::new()), times);
        let seven = of(&[4.0, 1.0, 7.0, 2.0, 6.0, 3.0, 5.0]);
        let (low, high) = seven.interval_ms.unwrap();
        // 2.4469 (t of 6 degrees) times 1.2533 times 2 · 1.4826 / √7.
        assert!(
            (low - (4.0 - 3.437)).abs() < 1e-3 && (high - (4.0 + 3.437)).abs() < 1e-3,
            "{seven:?}"
        );
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
        assert!(!is_at(&removed, &path), "there is no file of this name");
        let new = open();
        assert!(
            !is_at(&removed, &path) && is_at(&new, &path),
            "another process has made another one"
        );
    }
}
