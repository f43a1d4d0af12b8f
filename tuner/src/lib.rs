//! Finds good launch parameters, and keeps them.
//!
//! A kernel, a program or a replayed recording can be tuned: it needs a [`Space`] of parameters and
//! a [`Device`] that measures one configuration. [`tuned()`] tunes an operation when a machine
//! first uses it, [`tune()`] is a whole tuning, [`online`] tunes during real work, [`store`] keeps
//! results.

pub mod chain;
mod decide;
mod device;
mod error;
pub mod expression;
pub mod fnv;
pub mod objective;
pub mod online;
pub mod program;
#[cfg(feature = "store")]
mod search;
pub mod space;
#[cfg(feature = "store")]
pub mod store;
pub mod strategy;
#[cfg(feature = "store")]
mod tuned;
pub mod watch;

use std::fmt;
use std::time::Duration;

pub use chain::{cost, workloads};
pub use decide::{compare, drift, statistics, verdict};
pub use device::process;
pub use error::{Error, ErrorKind};
#[cfg(feature = "store")]
pub use search::{
    budget, racing, session,
    tune::{tune, tune_watched},
};
pub use space::builder::SpaceBuilder;
pub use space::file::{parse_toml, read_space, space_of_table};
pub use space::{ConfigIndex, ConstraintReport, Named, Parameter, Space, SpaceReport};
#[cfg(feature = "store")]
pub use tuned::{Operation, Source, Tuned, forced, stub, tuned};

/// Value of one parameter.
#[derive(Clone, Debug, PartialEq, PartialOrd, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Value {
    /// Truth value, for a feature that is on or off.
    Bool(bool),
    /// Whole number, such as a number of threads.
    Int(i64),
    /// Floating-point number; 2.0 does not equal the `Int` 2.
    Float(f64),
    /// Choice by name, such as a layout.
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

impl Value {
    /// Returns a text that equal values share, and other values do not.
    pub fn key(&self) -> String {
        match self {
            // -0.0 equals 0.0 and is written differently.
            Self::Float(number) => format!("{:?}", number + 0.0),
            Self::Text(text) => format!("{text:?}"),
            other => other.to_string(),
        }
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

/// Value of each parameter of a space, in the space's order.
#[derive(Clone, Debug, PartialEq, PartialOrd, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Config(pub Vec<Value>);

/// Kind of a failed measurement.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FailureKind {
    /// A constraint of the space or of the device forbids it.
    Constraint,
    /// The configuration does not compile.
    Compile,
    /// The configuration does not launch, or dies while running.
    Launch,
    /// The result differs from the reference.
    WrongResult,
    /// The measurement took too long and was killed.
    TimeOut,
    /// The builder declined to make it (katsdpsigproc's "return nothing").
    Declined,
}

impl FailureKind {
    /// Returns the name by which stores and reports know it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Constraint => "constraint",
            Self::Compile => "compile",
            Self::Launch => "launch",
            Self::WrongResult => "wrong-result",
            Self::TimeOut => "time-out",
            Self::Declined => "declined",
        }
    }

    /// Makes a failure of this kind.
    pub fn because(self, cause: impl fmt::Display) -> Failure {
        Failure {
            kind: self,
            message: cause.to_string(),
        }
    }
}

/// A failed measurement.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Failure {
    /// Kind of failure.
    pub kind: FailureKind,
    /// The cause, in words.
    pub message: String,
}

impl Failure {
    /// Returns the failure of a measurement which was given up after `limit`.
    pub(crate) fn timed_out(limit: Duration) -> Self {
        FailureKind::TimeOut.because(format_args!("killed after {:.3} s", limit.as_secs_f64()))
    }

    /// Returns the failure with the name of what failed.
    pub(crate) fn of(self, name: &str) -> Self {
        self.kind.because(format_args!("{name}: {}", self.message))
    }
}

/// Result of measuring a configuration.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Time of each launch in ms, in the order of the launches.
    Times(Vec<f64>),
    /// Cause of the missing times.
    Failed(Failure),
}

/// Makes a device of a closure, which measures like [`Device::measure`].
pub fn from_fn(name: &str, measure: impl FnMut(&Config, usize) -> Outcome) -> impl Device {
    struct Closure<F>(String, F);
    impl<F: FnMut(&Config, usize) -> Outcome> Device for Closure<F> {
        fn name(&self) -> String {
            self.0.clone()
        }

        fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
            (self.1)(config, launches)
        }
    }
    Closure(name.to_owned(), measure)
}

/// Measures configurations.
pub trait Device {
    /// Returns the device's name.
    fn name(&self) -> String;

    /// Runs `config` `launches` times. A failure is an outcome, never a panic.
    fn measure(&mut self, config: &Config, launches: usize) -> Outcome;

    /// Returns the time limit of one measurement, if there is one. A configuration that exceeded
    /// another limit before is measured again.
    fn time_out(&self) -> Option<Duration> {
        None
    }
}
