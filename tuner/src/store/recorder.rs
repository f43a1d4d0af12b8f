//! A device that remembers: what it measures goes into a run of the store, and what the run already holds is not measured
//! again. So a killed tuning resumes by simply starting again: as long as it makes the same requests as the last time, it
//! gets the recorded answers, at once.

use std::collections::VecDeque;
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
    /// The budget that was asked for, where the run was begun with another one.
    other_budget: Option<String>,
    /// Configurations that were given up after as long as the device waits now, and the number of their launches.
    hangs: Vec<(Config, usize)>,
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
            Some(unfinished) => unfinished,
            None => (store.begin(task, plan)?, Vec::new()),
        };
        let given_up = device.time_out().map(|limit| Outcome::Failed(Failure::timed_out(limit)));
        let hangs = store.hangs(&run)?.into_iter().filter(|hang| Some(&hang.outcome) == given_up.as_ref());
        let hangs = hangs.map(|hang| (hang.config, hang.launches)).collect();
        let other_budget = (run.plan().budget != plan.budget).then(|| plan.budget.clone());
        Ok(Self {
            device,
            store,
            run,
            resumed: recorded.len(),
            spent_ms: 0.0,
            recorded: recorded.into(),
            other_budget,
            hangs,
            error: None,
        })
    }

    /// The run's number.
    pub fn run(&self) -> i64 {
        self.run.id()
    }

    /// The plan with which the run was begun.
    pub fn plan(&self) -> &Plan {
        self.run.plan()
    }

    /// Measurements that an earlier process made.
    pub fn resumed(&self) -> usize {
        self.resumed
    }

    /// Returns the time that all measurements so far took, in ms, recorded ones with the time that they took then: so a
    /// budget of time ends where it would have ended without the interruption.
    pub fn spent_ms(&self) -> f64 {
        self.spent_ms
    }

    /// Returns true if the next measurement is a new one, and not an earlier one's repetition.
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
        self.store.finish(self.run, evidence)?;
        Ok(id)
    }

    /// Measures like [`Device::measure`]; a new measurement that does not `count` afterwards is not kept, and gives `None`.
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
        // Fewer launches than those that were given up may still come to an end.
        let hung = self.hangs.iter().any(|(other, least)| other == config && *least <= launches);
        let outcome = match self.device.time_out().filter(|_| hung) {
            Some(limit) => Outcome::Failed(Failure::timed_out(limit)),
            None => usable(self.device.measure(config, launches)),
        };
        let took_ms = begun.elapsed().as_secs_f64() * 1e3;
        if !counts() {
            return None;
        }
        self.spent_ms += took_ms;
        let observation = Observation { config: config.clone(), launches, outcome, took_ms };
        if let Err(error) = self.store.record(&mut self.run, &observation) {
            self.error = Some(error);
        }
        if matches!(&observation.outcome, Outcome::Failed(failure) if failure.kind == FailureKind::TimeOut) {
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
        // Another version of this program proposed otherwise, another budget ends the search elsewhere, or the data is
        // another. Mixing the two would not be a run of either.
        self.error = Some(StoreError::BadRow {
            file: self.store.file().to_owned(),
            row: format!("run {}", self.run.id()),
            what: match &self.other_budget {
                None => format!(
                    "it was begun by another version: it continued with {:?}, this one proposes {config:?}; begin a \
                     fresh run",
                    next.config
                ),
                Some(budget) => format!(
                    "it was begun with the budget {}, and goes on otherwise than with {budget}: give the budget that it \
                     was begun with, or begin a fresh run",
                    self.run.plan().budget
                ),
            },
        });
        Some(failed("the run cannot be continued"))
    }
}

/// Turns infinite times and NaN, which no store keeps, into a failed launch.
fn usable(outcome: Outcome) -> Outcome {
    let times = if let Outcome::Times(times) = &outcome { &times[..] } else { &[] };
    match times.iter().find(|number| !number.is_finite()) {
        Some(number) => {
            Outcome::Failed(Failure { kind: FailureKind::Launch, message: format!("it ran and gave {number}") })
        }
        None => outcome,
    }
}

impl Device for Recorder<'_> {
    fn name(&self) -> String {
        self.device.name()
    }

    fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
        self.measure_if(config, launches, &mut || true).unwrap_or_else(|| failed("it does not count"))
    }
}

fn failed(message: &str) -> Outcome {
    Outcome::Failed(Failure { kind: FailureKind::Declined, message: message.to_owned() })
}
