//! Devices that are no hardware, and how to keep a device in a process of its own.

pub mod process;
pub mod replay;
mod replay_csv;
pub mod synthetic;
