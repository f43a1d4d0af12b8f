//! Measuring: how many events a second a decoder makes.

#[cfg(feature = "tuning")]
pub mod decoding;
mod machine;
mod statistics;
pub mod throughput;

pub use machine::Machine;
pub use statistics::Spread;
