//! The PCIe link between host and GPU, and its peak rate.

use serde::{Deserialize, Serialize};

/// The link between host and GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Generation of PCIe, from 1.
    pub generation: u32,
    /// Number of lanes.
    pub width: u32,
}

impl Link {
    /// Returns the peak rate in one direction in bytes per second, packet headers included: lanes
    /// times transfers per second, less the line code. `None` if the generation is unknown.
    pub fn peak_bandwidth(self) -> Option<f64> {
        let gigabits = match self.generation {
            1 => 2.5 * 0.8,
            2 => 5.0 * 0.8,
            3 => 8.0 * 128.0 / 130.0,
            4 => 16.0 * 128.0 / 130.0,
            5 => 32.0 * 128.0 / 130.0,
            // 242 of the 256 bytes of a flit.
            6 => 64.0 * 242.0 / 256.0,
            _ => return None,
        };
        (self.width > 0).then(|| gigabits * 1e9 / 8.0 * f64::from(self.width))
    }
}
