//! Keeps recordings in a store, as runs that decided nothing.

use tuner::Outcome;
use tuner::fnv::Fnv;
use tuner::store::{
    DeviceIdentity, Observation, Plan, RECORDED, Store, StoreError, Task, TunableIdentity, Workload,
};

use crate::replay::Recording;

/// Returns a hash of a recording's contents (64-bit FNV-1a, in hexadecimal).
pub fn fingerprint(recording: &Recording) -> String {
    let mut hash = Fnv::default();
    let head = (
        &recording.device,
        &recording.kernel,
        &recording.problem,
        &recording.fixed,
    );
    hash.take(format!("{head:?}").as_bytes());
    for (index, outcome) in recording.outcomes.iter().enumerate() {
        hash.take(format!("{:?}{outcome:?}", recording.space.config(index)).as_bytes());
    }
    hash.to_string()
}

/// Returns the workload of a recording: the problem, and the fixed parameters.
///
/// # Errors
/// [`StoreError::Wrong`] for numbers that are not finite.
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

/// Keeps a recording as a run of `store`, unless the store has it, and returns the number of new
/// measurements.
///
/// # Errors
/// If the store cannot be read or written. Nothing is kept then.
pub fn import(store: &mut Store, recording: &Recording) -> Result<usize, StoreError> {
    let sample = format!("recording {}", fingerprint(recording));
    let plan = Plan {
        strategy: RECORDED.to_owned(),
        sample,
        ..Plan::default()
    };
    if store.has_plan(&plan)? {
        return Ok(0);
    }
    let device = DeviceIdentity::named(recording.device.clone(), "recorded");
    let tunable = TunableIdentity::new(recording.kernel.clone(), 0);
    let workload = workload_of(recording)?;
    let task = Task {
        device: &device,
        tunable: &tunable,
        workload: &workload,
        space: &recording.space,
    };
    let measurement = |(index, outcome): (usize, &Outcome)| Observation {
        config: recording.space.config(index),
        launches: if let Outcome::Times(times) = outcome {
            times.len()
        } else {
            1
        },
        outcome: outcome.clone(),
        took_ms: 0.0,
    };
    let measurements: Vec<Observation> = recording
        .outcomes
        .iter()
        .enumerate()
        .map(measurement)
        .collect();
    store.keep_run(&task, &plan, &measurements, None)?;
    Ok(measurements.len())
}
