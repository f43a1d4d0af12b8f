//! Measuring: how many events a second a decoder makes.

mod machine;
mod statistics;
pub mod throughput;

pub use machine::Machine;
pub use statistics::Spread;
