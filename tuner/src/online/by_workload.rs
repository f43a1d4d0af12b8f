//! An on-line tuner for each workload: the batches say which of them is at work. The time of one workload must not be compared
//! with that of another, which would mistake an easier batch for a better configuration: a launch whose batch turns out to
//! look more like another workload is not counted.

use super::{OnlineError, Tuner};
use crate::workloads::{Features, Picker, Tuned};

/// On-line tuners of several workloads, each with the set of its workload as its default.
///
/// ```
/// # use tuner::{Config, Value, online::{ByWorkload, Elapsed, Options, Tuner}, workloads::{Features, Tuned}};
/// let configs = vec![Config(vec![Value::Int(64)]), Config(vec![Value::Int(256)])];
/// let of = |workload: &str, hits: f64, default: usize| -> Result<_, tuner::online::OnlineError> {
///     let set = Tuned {
///         config: configs[default].clone(),
///         device: "here".to_owned(),
///         workload: workload.to_owned(),
///         features: Features::from([("hits", hits)]),
///     };
///     Ok((set, Tuner::new(configs.clone(), default, Options::default())?))
/// };
/// let mut tuners = ByWorkload::new(vec![of("quiet", 100.0, 0)?, of("busy", 5000.0, 1)?], "here")?;
/// let mut workers: Vec<_> = tuners.tuners().iter().map(Tuner::worker::<Elapsed>).collect();
/// for hits in [100.0, 110.0, 4900.0, 5100.0, 5000.0, 5050.0] {
///     let (_, number) = tuners.current();
///     let config = workers[number].begin();
///     // … launch with `config` …
///     let fit = tuners.fit(&Features::from([("hits", hits)]));
///     if fit.nearest == number {
///         workers[number].end(Elapsed(1.0)); // else the time is of another workload
///     }
/// }
/// assert_eq!(tuners.current(), ("busy", 1));
/// # Ok::<(), tuner::online::OnlineError>(())
/// ```
pub struct ByWorkload {
    /// None where there is one tuner for everything.
    picker: Option<Picker>,
    names: Vec<String>,
    tuners: Vec<Tuner>,
    current: usize,
}

/// The tuner for a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Number of the set.
    pub number: usize,
    /// The number of the workload that the batch looked most like.
    pub nearest: usize,
    /// True if it is another one than for the batch before.
    pub changed: bool,
    /// The batch looks like none of the workloads: no set was tuned for it.
    pub strange: bool,
}

impl From<Tuner> for ByWorkload {
    /// One tuner, whatever the batches look like.
    fn from(tuner: Tuner) -> Self {
        Self { picker: None, names: vec![String::new()], tuners: vec![tuner], current: 0 }
    }
}

impl ByWorkload {
    /// A tuner for each set, on the device `here`. The first one is used until batches say otherwise.
    ///
    /// # Errors
    /// [`OnlineError::Sets`]: no sets, or those of another device.
    pub fn new(tuners: Vec<(Tuned, Tuner)>, here: &str) -> Result<Self, OnlineError> {
        let (sets, tuners): (Vec<Tuned>, _) = tuners.into_iter().unzip();
        let names = sets.iter().map(|set| set.workload.clone()).collect();
        Ok(Self { picker: Some(Picker::new(sets, here)?), names, tuners, current: 0 })
    }

    /// The tuner for the next batch, after one that looked like `features`. It changes only when several batches in a row
    /// look clearly more like another workload.
    pub fn fit(&mut self, features: &Features) -> Fit {
        let Some(picker) = &mut self.picker else {
            return Fit { number: 0, nearest: 0, changed: false, strange: false };
        };
        let pick = picker.pick(features);
        self.current = pick.number;
        Fit { number: pick.number, nearest: pick.nearest, changed: pick.changed, strange: pick.strange }
    }

    /// The workload in use, and its number.
    pub fn current(&self) -> (&str, usize) {
        (&self.names[self.current], self.current)
    }

    /// The workloads, in the order of the sets; one without a name where there is one tuner for everything.
    pub fn workloads(&self) -> &[String] {
        &self.names
    }

    /// The tuners, in the order of the sets.
    pub fn tuners(&self) -> &[Tuner] {
        &self.tuners
    }
}
