//! NVIDIA GPUs, by the driver alone: `libcuda` is opened at run time, so that the program starts everywhere.
//!
//! [`CudaDecoder`] decodes on one stream; decoders of several threads have a stream and buffers each, so that copies
//! and kernels of different batches overlap.

mod device;
mod facts;
mod identity;
mod pipeline;
mod resident;
mod start;

pub use device::{CudaDevice, CudaMemory};
pub use facts::{Compiled, Facts};
pub use identity::{GpuIdentity, identify};
pub use pipeline::{Argument, Capacity, Device, DeviceBatch, DeviceDecoder, DeviceHits};
pub use resident::Resident;
pub use start::{Cuda, Driver, Gpu, StartError, choose};

use super::launch::LaunchParams;
use super::{DecodeError, DecodeOptions};
use crate::detector::DetectorTables;

/// How a [`CudaDecoder`] works; nothing here changes its results.
#[derive(Clone, Debug, Default)]
pub struct CudaConfig {
    /// Which GPU, numbered from 0.
    pub ordinal: usize,
    /// Block shapes and the like.
    pub launch: LaunchParams,
    /// What is allocated at once.
    pub capacity: Capacity,
    /// A variant of [`Unit::LADDER`](super::ptx::Unit::LADDER) in place of production: for v5 in Allen layout.
    pub rung: Option<String>,
}

/// Decodes on a GPU.
pub type CudaDecoder = DeviceDecoder<CudaDevice>;

impl CudaDecoder {
    /// A decoder for one detector and one set of options.
    ///
    /// # Errors
    /// When there is no GPU that can run the kernels (the message says why and what to do), the launch parameters
    /// contradict each other, or the buffers do not fit.
    pub fn new(tables: &DetectorTables, options: DecodeOptions, config: CudaConfig) -> Result<Self, DecodeError> {
        let CudaConfig { ordinal, launch, capacity, rung } = config;
        Self::on("cuda", CudaDevice::new(ordinal)?, tables, options, launch, capacity, rung)
    }
}
