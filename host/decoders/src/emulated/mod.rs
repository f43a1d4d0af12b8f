//! The `emulated` backend: the device kernels in the executor, on the CPU, checked.

mod decoder;
mod launcher;

pub use decoder::{EmulatedConfig, EmulatedDecoder};
pub use simt::executor::{LaunchStats, Violation};

use super::DecodeError;

fn failure(message: &str) -> DecodeError {
    DecodeError::Device {
        backend: "emulated",
        message: message.to_owned(),
    }
}
