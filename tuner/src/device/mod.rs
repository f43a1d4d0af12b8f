//! Devices in a process of their own.

pub(crate) mod group;
pub(crate) mod keeper;
pub(crate) mod launch;
pub mod process;
