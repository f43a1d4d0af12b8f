//! State of the machine during measurements, and the states that spoil them.
//!
//! Samples taken under throttled clocks or other load are discarded and counted; the state is kept
//! with the others.
//!
//! A statistical test cannot tell a slow kernel from a kernel that ran while a compiler used the
//! machine. So the machine is looked at after each pair of rounds. If others took more than a
//! quarter of it, or the clock was throttled by heat or power, both rounds are dropped. If too many
//! are dropped, there is no verdict, and the message says what to wait for. A value that cannot be
//! read spoils nothing: in a container without `/proc/stat` measuring must still work.

pub mod cpu;

use serde::{Deserialize, Serialize};

/// State of the machine at a look; `None` for unknown values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Clock of the device in MHz, for a CPU the clock of the slowest core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_mhz: Option<f64>,
    /// Temperature of the device in degrees Celsius.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Share of the machine's time that others took since the last look, 0..=1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<f64>,
    /// Reasons of a throttled clock, in the words of their source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttled: Vec<String>,
}

/// Limits beyond which a sample is spoilt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Largest share of the machine's time that others may take. Default 0.25.
    pub others: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { others: 0.25 }
    }
}

impl State {
    /// Describes other load and throttling, as far as they are known.
    pub fn in_words(&self) -> String {
        let others = self.others.map(|share| {
            format!(
                "other processes take {:.0} % of this machine",
                100.0 * share
            )
        });
        others
            .into_iter()
            .chain(self.throttled.iter().cloned())
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// Describes a disturbed state, and what helps against it.
    pub fn trouble(&self, limits: &Limits) -> String {
        let remedy = match self.others {
            Some(share) if share > limits.others => format!(
                " and {:.0} % are allowed: wait until it is quiet, or allow more, as with --others {:.0}",
                100.0 * limits.others,
                (10.0 * share + 1.0).ceil().min(10.0) * 10.0
            ),
            _ => ": wait until its clock is free".to_owned(),
        };
        self.in_words() + &remedy
    }

    /// Returns true if the clock is throttled, or others take too much. Unknown values spoil
    /// nothing.
    pub fn is_disturbed(&self, limits: &Limits) -> bool {
        !self.throttled.is_empty() || self.others.is_some_and(|share| share > limits.others)
    }
}

/// Looks at the machine.
pub trait Watch {
    /// Returns the state since the last look (or since the watch was made).
    fn look(&mut self) -> State;

    /// Returns the limits beyond which a sample is spoilt.
    fn limits(&self) -> Limits {
        Limits::default()
    }
}

/// Watches nothing: every state is good.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWatch;

impl Watch for NoWatch {
    fn look(&mut self) -> State {
        State::default()
    }
}
