//! The `emulated` backend: the device kernels in the executor, on the CPU, checked.

mod decoder;
mod fused;
mod hit_parallel;

pub use decoder::{EmulatedConfig, EmulatedDecoder};
pub use simt::executor::{LaunchStats, Violation};
