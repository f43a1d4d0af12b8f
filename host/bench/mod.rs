//! Measuring: how many events a second a decoder makes, what its optimisations are worth, which knobs are best.

pub mod contest;
mod machine;
mod sample;
mod statistics;
pub mod throughput;

pub use machine::Machine;
pub use sample::{ENOUGH_DISTINCT, Expected, Sample};
pub use statistics::{Change, Spread};
