//! A device that keeps its measurements in a run of the store, and answers from the run while it
//! has answers.
//!
//! A killed tuning resumes by starting again: as long as it makes the same requests as before, it
//! gets the recorded answers at once.

use std::collections::VecDeque;
use std::time::Instant;

use super::{Evidence, Observation, Plan, Run, Store, StoreError, Task};
use crate::{Config, Device, Failure, FailureKind, Outcome};

/// Device with the run that keeps its measurements.
pub struct Recorder<'a> {
    device: &'a mut dyn Device,
    store: &'a mut Store,
    run: Run,
    recorded: VecDeque<Observation>,
    resumed: usize,
    spent_ms: f64,
    /// Configurations, with their launches, that exceeded the device's present time limit.
    hangs: Vec<(Config, usize)>,
    error: Option<StoreError>,
}

impl<'a> Recorder<'a> {
    /// Continues the unfinished run of this task and plan, unless there is none or `fresh` is set;
    /// else begins a run.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub fn start(
        device: &'a mut dyn Device,
        store: &'a mut Store,
        task: &Task<'_>,
        plan: &Plan,
        fresh: bool,
    ) -> Result<Self, StoreError> {
        let unfinished = if fresh {
            None
        } else {
            store.resume(task, plan)?
        };
        let (run, recorded) = match unfinished {
            Some(unfinished) => unfinished,
            None => (store.begin(task, plan)?, Vec::new()),
        };
        let given_up = device
            .time_out()
            .map(|limit| Outcome::Failed(Failure::timed_out(limit)));
        let hangs = store
            .hangs(&run)?
            .into_iter()
            .filter(|hang| Some(&hang.outcome) == given_up.as_ref());
        let hangs = hangs.map(|hang| (hang.config, hang.launches)).collect();
        Ok(Self {
            device,
            store,
            run,
            resumed: recorded.len(),
            spent_ms: 0.0,
            recorded: recorded.into(),
            hangs,
            error: None,
        })
    }

    /// Returns the number of the run.
    pub fn run(&self) -> i64 {
        self.run.id()
    }

    /// Returns the plan with which the run was begun.
    pub fn plan(&self) -> &Plan {
        self.run.plan()
    }

    /// Returns the number of measurements that an earlier process made.
    pub fn resumed(&self) -> usize {
        self.resumed
    }

    /// Returns the duration of all measurements so far in ms, also in an earlier process: an
    /// interruption does not prolong a budget of time.
    pub fn spent_ms(&self) -> f64 {
        self.spent_ms
    }

    /// Returns true if the next measurement is new, not recorded.
    pub fn is_live(&self) -> bool {
        self.recorded.is_empty()
    }

    /// Takes the error of the store, which [`Device::measure`] cannot return. The caller asks after
    /// every measurement, and stops if there is one.
    pub fn take_error(&mut self) -> Option<StoreError> {
        self.error.take()
    }

    /// Ends the run, with its decision if there is one.
    ///
    /// # Errors
    /// If the store cannot be written, now or earlier.
    pub fn finish(mut self, evidence: Option<&Evidence>) -> Result<i64, StoreError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let id = self.run.id();
        self.store.finish(self.run, evidence)?;
        Ok(id)
    }

    /// Measures like [`Device::measure`]. Drops a new measurement, and returns `None`, if `counts`
    /// then returns false.
    pub fn measure_if(
        &mut self,
        config: &Config,
        launches: usize,
        counts: &mut dyn FnMut() -> bool,
    ) -> Option<Outcome> {
        if self.error.is_some() {
            return Some(failed("the store cannot be written"));
        }
        if let Some(outcome) = self.recorded_outcome(config, launches) {
            return Some(outcome);
        }
        let begun = Instant::now();
        // Fewer launches than timed out before may finish in time.
        let hung = self
            .hangs
            .iter()
            .any(|(other, least)| other == config && *least <= launches);
        let outcome = match self.device.time_out().filter(|_| hung) {
            Some(limit) => Outcome::Failed(Failure::timed_out(limit)),
            None => usable(self.device.measure(config, launches)),
        };
        let took_ms = begun.elapsed().as_secs_f64() * 1e3;
        if !counts() {
            return None;
        }
        self.spent_ms += took_ms;
        let observation = Observation {
            config: config.clone(),
            launches,
            outcome,
            took_ms,
        };
        if let Err(error) = self.store.record(&mut self.run, &observation) {
            self.error = Some(error);
        }
        if matches!(&observation.outcome, Outcome::Failed(failure) if failure.kind == FailureKind::TimeOut)
        {
            self.hangs.push((observation.config, launches));
        }
        Some(observation.outcome)
    }

    fn recorded_outcome(&mut self, config: &Config, launches: usize) -> Option<Outcome> {
        let next = self.recorded.front()?;
        if (&next.config, next.launches) == (config, launches) {
            let observation = self.recorded.pop_front()?;
            self.spent_ms += observation.took_ms;
            return Some(observation.outcome);
        }
        // Another version of this program, or another budget. Mixing the two would not be a run of
        // either.
        let what = format!(
            "it was begun by another version, or with another budget than {}: it continued with {:?}, now {config:?} is \
             proposed; give that budget, or begin a fresh run",
            self.run.plan().budget,
            next.config
        );
        self.error = Some(self.store.bad_row(&format!("run {}", self.run.id()), &what));
        Some(failed("the run cannot be continued"))
    }
}

/// Turns infinite times and NaN, which a store cannot keep, into a failed launch.
fn usable(outcome: Outcome) -> Outcome {
    let times = if let Outcome::Times(times) = &outcome {
        &times[..]
    } else {
        &[]
    };
    match times.iter().find(|number| !number.is_finite()) {
        Some(number) => {
            Outcome::Failed(FailureKind::Launch.because(format!("it ran and gave {number}")))
        }
        None => outcome,
    }
}

impl Device for Recorder<'_> {
    fn name(&self) -> String {
        self.device.name()
    }

    fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
        self.measure_if(config, launches, &mut || true)
            .unwrap_or_else(|| failed("it does not count"))
    }
}

fn failed(message: &str) -> Outcome {
    Outcome::Failed(FailureKind::Declined.because(message))
}
