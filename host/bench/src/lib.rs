//! Measurements: events per second of a decoder, the gain of each of its optimisations, and the
//! best parameters.

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
