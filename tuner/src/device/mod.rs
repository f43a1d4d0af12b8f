//! Devices in a process of their own.

pub(crate) mod group;
pub(crate) mod keeper;
pub mod process;
