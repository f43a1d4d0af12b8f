//! Stand-in for the watch over a GPU without the feature `nvml`: none can be opened.

use std::convert::Infallible;

use tuner::watch::{Limits, State, Watch};

use crate::environment::Link;

/// A watch that does not exist.
#[derive(Debug)]
pub struct GpuWatch(Infallible);

#[derive(Debug, thiserror::Error)]
#[error("clocks and temperature are not watched: this program is built without NVML (cargo build --features full)")]
pub struct GpuWatchError;

impl GpuWatch {
    /// Fails.
    pub fn open(_: &str, _: Limits) -> Result<Self, GpuWatchError> {
        Err(GpuWatchError)
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

/// Reads the version of the NVIDIA driver from its kernel module, where it tells it: the same as NVML's.
pub fn driver_version() -> Option<String> {
    version_in(&std::fs::read_to_string("/proc/driver/nvidia/version").ok()?)
}

fn version_in(text: &str) -> Option<String> {
    let is_version = |word: &&str| word.contains('.') && word.split('.').all(|part| part.parse::<u32>().is_ok());
    text.lines().next()?.split_whitespace().find(is_version).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_modules_first_line_tells_the_version() {
        let open =
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build\nGCC version: 12.2.0";
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023";
        assert_eq!(super::version_in(open).as_deref(), Some("560.35.03"));
        assert_eq!(super::version_in(closed).as_deref(), Some("535.104.05"));
        assert_eq!(super::version_in("GCC version: unknown"), None);
    }
}
