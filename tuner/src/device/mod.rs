//! Devices in separate processes, and the processes that they start.

pub(crate) mod group;
pub(crate) mod keeper;
pub(crate) mod launch;
pub mod process;
