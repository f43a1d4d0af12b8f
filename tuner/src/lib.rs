//! Finding good launch parameters, and keeping them.
//!
//! Whatever has a space of parameters and a way to measure one configuration can be tuned: a kernel, a program, a
//! replayed recording, a synthetic device.

#[cfg(feature = "cli")]
pub mod cli;
mod decide;
mod device;
pub mod expression;
pub mod fnv;
pub mod goals;
pub mod interchange;
mod minimise;
pub mod objective;
pub mod online;
pub mod program;
pub mod report;
mod search;
pub mod space;
pub mod store;
pub mod strategy;
pub mod tuned;
pub mod watch;

use std::fmt;
use std::time::Duration;

pub use decide::{chain, compare, cost, drift, groups, samples, statistics, verdict, workloads};
pub use device::replay::{Noise, Recording, Replay};
pub use device::{process, replay, synthetic};
pub use minimise::minimise;
pub use search::tune::tune;
pub use search::{budget, racing, racing_score, rounds, score, session};
pub use space::builder::{DeviceLimits, Footprint, SpaceBuilder};
pub use space::file::{parse_toml, read_space, read_toml};
pub use space::t1::{parse_t1, read_t1};
pub use space::{ConfigIndex, ConstraintReport, Named, Parameter, Space, SpaceError, SpaceReport};

/// The value of one parameter.
#[derive(Clone, Debug, PartialEq, PartialOrd, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A yes or no.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A real number.
    Float(f64),
    /// One of several names.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
        }
    }
}

/// One configuration: a value for each parameter of a space, in the space's order.
#[derive(Clone, Debug, PartialEq, PartialOrd, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Config(pub Vec<Value>);

/// Why a configuration has no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// A constraint of the space or of the device forbids it.
    Constraint,
    /// It does not compile.
    Compile,
    /// It does not launch, or dies while running.
    Launch,
    /// It runs and its result is not the reference's.
    WrongResult,
    /// It was killed because it took too long.
    TimeOut,
    /// The builder declined to make it (katsdpsigproc's "return nothing").
    Declined,
}

/// A failed measurement.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Failure {
    /// What went wrong.
    pub kind: FailureKind,
    /// The cause, in words.
    pub message: String,
}

impl Failure {
    /// That of a measurement which was given up after `limit`.
    pub(crate) fn timed_out(limit: Duration) -> Self {
        Self { kind: FailureKind::TimeOut, message: format!("killed after {:.3} s", limit.as_secs_f64()) }
    }

    /// After how many seconds a measurement was given up, where the failure says it. That is not what the measurement
    /// took, which may include a build, a check, and the start of a process.
    pub(crate) fn given_up_after_s(&self) -> Option<f64> {
        let seconds = self.message.strip_prefix("killed after ")?.strip_suffix(" s")?.parse().ok()?;
        (self.kind == FailureKind::TimeOut).then_some(seconds)
    }
}

/// What measuring a configuration gave.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// One time a launch, in ms, in the order of the launches.
    Times(Vec<f64>),
    /// No time, and why.
    Failed(Failure),
}

/// Something that measures configurations.
pub trait Device {
    /// What the device calls itself: the key of the store.
    fn name(&self) -> String;

    /// Runs `config` `launches` times. A failure is an outcome, never a panic.
    fn measure(&mut self, config: &Config, launches: usize) -> Outcome;

    /// The costs behind the times of the last measurement, a list for each objective, where there are several
    /// ([`goals`]).
    fn parts(&mut self) -> Vec<Vec<f64>> {
        Vec::new()
    }

    /// How long one measurement may take before it is given up; `None` where it may take any time. A configuration that
    /// was given up earlier, after less than this, is tried again.
    fn time_out(&self) -> Option<Duration> {
        None
    }
}
