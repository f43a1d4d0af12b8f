//! Memory that an on-line tuner starts from and reports to: the store, or anything like it.

use super::{OnlineError, Report, Tuner};
use crate::Config;

/// Contents of a memory for this kernel, device and workload.
#[derive(Clone, Debug, PartialEq)]
pub enum Recalled {
    /// Tuned for exactly this: used at once, without a first scan.
    Exact(Config),
    /// Tuned for something like this, and what was relaxed: used while the first scan checks it.
    Nearest {
        /// The configuration.
        config: Config,
        /// Differences, in words.
        relaxed: String,
    },
}

/// A place for tuned configurations. It may block: no launch waits for it.
pub trait Memory {
    /// Returns what is known, if anything.
    ///
    /// # Errors
    /// Whatever keeps the memory from being read.
    fn recall(&mut self) -> Result<Option<Recalled>, Box<dyn std::error::Error + Send + Sync>>;

    /// Keeps what the tuner found.
    ///
    /// # Errors
    /// Whatever keeps the memory from being written.
    fn keep(&mut self, report: &Report) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
}

impl Tuner {
    /// Starts from what `memory` knows; returns it. A configuration that is not one of the tuner's is ignored: the
    /// space has changed since it was kept.
    ///
    /// # Errors
    /// The memory's own.
    pub fn start_from(&self, memory: &mut dyn Memory) -> Result<Option<Recalled>, OnlineError> {
        let recalled = memory.recall().map_err(OnlineError::Memory)?;
        let used = match &recalled {
            Some(Recalled::Exact(config)) => self.set(config),
            Some(Recalled::Nearest { config, .. }) => self.prefer(config),
            None => return Ok(None),
        };
        match used {
            Ok(()) => Ok(recalled),
            Err(OnlineError::Unknown(_) | OnlineError::Banned { .. }) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Gives `memory` what has been found, once tuning is complete; whether it did.
    ///
    /// # Errors
    /// The memory's own.
    pub fn report_to(&self, memory: &mut dyn Memory) -> Result<bool, OnlineError> {
        match self.report() {
            Some(report) => memory.keep(&report).map(|()| true).map_err(OnlineError::Memory),
            None => Ok(false),
        }
    }
}
