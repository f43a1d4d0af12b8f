//! A device that remembers: what it measures goes into a run of the store, and what the run already holds is not
//! measured again.
//!
//! This is how a killed tuning resumes. A strategy with the same seed and the same times makes the same proposals; so
//! the program simply starts again, and as long as it makes the same requests as the last time it gets the recorded
//! answers, at once. Where the record ends, measuring begins.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use super::{Evidence, Observation, Plan, Run, Store, StoreError, Task};
use crate::{Config, Device, Failure, FailureKind, Outcome};

/// A device, and the run that its measurements go into.
pub struct Recorder<'a> {
    device: &'a mut dyn Device,
    store: &'a mut Store,
    run: Run,
    recorded: VecDeque<Observation>,
    resumed: usize,
    spent_ms: f64,
    /// The costs of the last measurement by objective.
    parts: Vec<Vec<f64>>,
    /// Configurations that were given up, and after how many ms.
    hangs: HashMap<String, (Failure, f64)>,
    error: Option<StoreError>,
}

impl<'a> Recorder<'a> {
    /// Continues the unfinished run of this task and plan if there is one (and `fresh` does not forbid it), else begins
    /// one.
    ///
    /// # Errors
    /// Those of the store.
    pub fn start(
        device: &'a mut dyn Device,
        store: &'a mut Store,
        task: &Task<'_>,
        plan: &Plan,
        fresh: bool,
    ) -> Result<Self, StoreError> {
        let unfinished = if fresh { None } else { store.resume(task, plan)? };
        let (run, recorded) = match unfinished {
            Some((run, observations)) => (run, observations),
            None => (store.begin(task, plan)?, Vec::new()),
        };
        let mut hangs: HashMap<String, (Failure, f64)> = HashMap::new();
        for (config, failure, waited_ms) in store.hangs(&run)? {
            let known = hangs.entry(key_of(&config)).or_insert_with(|| (failure, 0.0));
            known.1 = known.1.max(waited_ms);
        }
        Ok(Self {
            device,
            store,
            run,
            resumed: recorded.len(),
            spent_ms: 0.0,
            parts: Vec::new(),
            recorded: recorded.into(),
            hangs,
            error: None,
        })
    }

    /// The run's number.
    pub fn run(&self) -> i64 {
        self.run.id()
    }

    /// Measurements that an earlier process made.
    pub fn resumed(&self) -> usize {
        self.resumed
    }

    /// What all measurements so far took, in ms, recorded ones with the time that they took then: so a budget of time
    /// ends where it would have ended without the interruption.
    pub fn spent_ms(&self) -> f64 {
        self.spent_ms
    }

    /// Whether the next measurement is a new one, and not an earlier one's repetition.
    pub fn is_live(&self) -> bool {
        self.recorded.is_empty()
    }

    /// Why nothing can be kept any more, if so. [`Device::measure`] has no way to say it: the one who drives the tuning
    /// asks after every measurement, and stops.
    pub fn take_error(&mut self) -> Option<StoreError> {
        self.error.take()
    }

    /// Ends the run, with a decision if there is one.
    ///
    /// # Errors
    /// Those of writing, also an earlier one that was not taken.
    pub fn finish(mut self, evidence: Option<&Evidence>) -> Result<i64, StoreError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let id = self.run.id();
        match evidence {
            Some(evidence) => self.store.decide(self.run, evidence)?,
            None => self.store.end(self.run)?,
        }
        Ok(id)
    }

    fn recorded_outcome(&mut self, config: &Config, launches: usize) -> Option<Outcome> {
        let next = self.recorded.front()?;
        if (&next.config, next.launches) == (config, launches) {
            let observation = self.recorded.pop_front()?;
            self.spent_ms += observation.took_ms;
            self.parts = observation.parts;
            return Some(observation.outcome);
        }
        // Another version of this program proposed otherwise, or the data is another. Mixing the two would not be a run
        // of either.
        self.error = Some(StoreError::BadRow {
            file: self.store.file().to_owned(),
            row: format!("run {}", self.run.id()),
            what: format!(
                "it was begun by another version: it continued with {:?}, this one proposes {config:?}; begin a fresh run",
                next.config
            ),
        });
        Some(failed("the run cannot be continued"))
    }
}

impl Device for Recorder<'_> {
    fn name(&self) -> String {
        self.device.name()
    }

    fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
        if self.error.is_some() {
            return failed("the store cannot be written");
        }
        if let Some(outcome) = self.recorded_outcome(config, launches) {
            return outcome;
        }
        let begun = Instant::now();
        // What was given up sooner than it would be now may still come to an end.
        let limit_ms = self.device.time_out().map_or(0.0, |limit| limit.as_secs_f64() * 1e3);
        let known = self.hangs.get(&key_of(config)).filter(|(_, waited_ms)| *waited_ms >= 0.9 * limit_ms);
        let (outcome, remembered, parts) = match known {
            Some((failure, waited_ms)) => (Outcome::Failed(failure.clone()), Some(*waited_ms), Vec::new()),
            None => (self.device.measure(config, launches), None, self.device.parts()),
        };
        let took_ms = begun.elapsed().as_secs_f64() * 1e3;
        self.spent_ms += took_ms;
        self.parts.clone_from(&parts);
        let observation = Observation { config: config.clone(), launches, outcome, took_ms, parts };
        if let Err(error) = self.store.record(&mut self.run, &observation) {
            self.error = Some(error);
        }
        if let Outcome::Failed(failure) = &observation.outcome
            && failure.kind == FailureKind::TimeOut
        {
            self.hangs.insert(key_of(config), (failure.clone(), remembered.unwrap_or(took_ms)));
        }
        observation.outcome
    }

    fn parts(&mut self) -> Vec<Vec<f64>> {
        self.parts.clone()
    }
}

fn failed(message: &str) -> Outcome {
    Outcome::Failed(Failure { kind: FailureKind::Declined, message: message.to_owned() })
}

fn key_of(config: &Config) -> String {
    serde_json::to_string(config).unwrap_or_default()
}
