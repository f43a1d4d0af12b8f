//! The state of the machine while samples are taken, and which states spoil them.
//!
//! A sample taken while the clock was throttled, or while another process had the device, measures that. Such samples are
//! discarded and counted; the state is kept with those that stay.

pub mod cpu;

use serde::{Deserialize, Serialize};

/// State of the machine at a look; `None` where it cannot be known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Clock of the device (CPU: the slowest core that may be used), MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_mhz: Option<f64>,
    /// Temperature of the device, degrees Celsius.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Share of the machine's time that others took since the last look, 0..=1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<f64>,
    /// Why the clock is being held down, in the words of its source; empty if it is not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttled: Vec<String>,
}

/// Trouble that spoils a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// The clock is held down by heat, power or a limit.
    Throttled,
    /// Others use the machine.
    Busy,
}

/// Limits beyond which there is trouble.
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
    /// Describes what others do to the machine; nothing where that is not known.
    pub fn in_words(&self) -> String {
        let others = self.others.map(|share| format!("others take {:.0} % of this machine", 100.0 * share));
        others.into_iter().chain(self.throttled.iter().cloned()).collect::<Vec<_>>().join("; ")
    }

    /// Returns what is wrong with this state, if anything. What is unknown does not count against it.
    pub fn trouble(&self, limits: &Limits) -> Option<Trouble> {
        if !self.throttled.is_empty() {
            Some(Trouble::Throttled)
        } else if self.others.is_some_and(|share| share > limits.others) {
            Some(Trouble::Busy)
        } else {
            None
        }
    }
}

/// Looks at the machine.
pub trait Watch {
    /// The state since the last look (or since the watch was made).
    fn look(&mut self) -> State;

    /// Returns the limits beyond which there is trouble here.
    fn limits(&self) -> Limits {
        Limits::default()
    }
}

/// Looks at nothing: every state is good.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWatch;

impl Watch for NoWatch {
    fn look(&mut self) -> State {
        State::default()
    }
}
