//! Stand-in for the watch over a GPU without the feature `nvml`: none can be opened.

use std::convert::Infallible;

use tuner::watch::{Limits, State, Watch};

use crate::link::Link;

/// Watch over a GPU, which cannot exist without the feature `nvml`.
#[derive(Debug)]
pub struct GpuWatch(Infallible);

impl GpuWatch {
    /// Returns the error that the feature is missing.
    pub fn open(_: &str, _: Limits) -> Result<Self, String> {
        Err("clocks and temperature are not watched: this program is built without NVML (cargo build --features full)"
            .to_owned())
    }

    pub fn link(&self) -> Option<Link> {
        match self.0 {}
    }
}

impl Watch for GpuWatch {
    fn look(&mut self) -> State {
        match self.0 {}
    }

    fn limits(&self) -> Limits {
        match self.0 {}
    }
}
