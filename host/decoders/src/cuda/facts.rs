//! Facts of a GPU for reports, which decoding does not need.

use super::driver;
use super::start::{Gpu, StartError, choose};

/// Facts about a GPU; `None` where the driver gives none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Ordinal, model, compute capability and sizes, which are always known.
    pub gpu: Gpu,
    /// Newest CUDA release that the driver knows: 1000 · major + 10 · minor.
    pub driver: Option<i32>,
    /// PCI bus id, as NVML takes it.
    pub bus: String,
    /// Highest clock of the multiprocessors, kHz.
    pub clock: Option<u32>,
    /// Highest clock of the memory, kHz.
    pub memory_clock: Option<u32>,
    /// Width of the memory's bus, bits.
    pub memory_bus: Option<u32>,
}

impl Facts {
    /// Asks for the facts of GPU `ordinal`.
    pub fn of(ordinal: usize) -> Result<Self, StartError> {
        let gpu = choose(ordinal)?;
        let found = driver::describe(ordinal)?;
        let [domain, bus, device] = found.pci.map(Option::unwrap_or_default);
        Ok(Self {
            gpu,
            driver: driver::version().ok(),
            bus: format!("{domain:08X}:{bus:02X}:{device:02X}.0"),
            clock: found.clock,
            memory_clock: found.memory_clock,
            memory_bus: found.memory_bus,
        })
    }

    /// Peak rate of the memory in bytes per second: two transfers per clock over the whole bus.
    pub fn peak_bandwidth(&self) -> Option<f64> {
        Some(2.0 * 1e3 * f64::from(self.memory_clock?) * f64::from(self.memory_bus?) / 8.0)
    }
}
