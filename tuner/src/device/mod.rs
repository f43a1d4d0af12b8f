//! Replayed recordings as devices, and devices in a process of their own.

pub(crate) mod group;
pub mod process;
pub mod replay;
mod replay_csv;
