//! Devices that are not hardware, and how to keep a device in a separate process.

pub(crate) mod group;
pub mod process;
pub mod replay;
mod replay_csv;
