//! Measuring: how many events a second a decoder makes, what its optimisations are worth, which parameters are best.

pub mod ablation;
pub mod chip;

pub mod decoding;
mod digest;
pub mod environment;
#[cfg_attr(not(feature = "nvml"), path = "no_gpu_watch.rs")]
mod gpu_watch;
mod link;
mod machine;
pub mod modes;
mod sample;
mod statistics;
pub mod sweep;
pub mod throughput;
pub mod timing;
pub mod tunable;
mod varied;
pub mod work;

pub use digest::Digest;
pub use machine::Machine;
pub use sample::{ENOUGH_DISTINCT, Expected, Sample};
pub use statistics::{Change, Spread};
pub use varied::{Varied, base};
