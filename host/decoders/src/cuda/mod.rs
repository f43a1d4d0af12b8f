//! NVIDIA GPUs, with nothing but the driver: `libcuda` is opened at run time, so that the program
//! starts everywhere.
//!
//! [`CudaDecoder`] has several streams with buffers of their own, so that copies and kernels of
//! different batches overlap. [`CudaDecoder`] is that without CUDA. From below:
//!
//! - `device`: the trait of a device; `driver`: calls of the CUDA driver; `gpu`: a device by these
//!   calls;
//! - `start`: whether there is a GPU; `facts`, `identity`: which one; `interop`: a caller's context
//!   and streams;
//! - `buffer`, `tables`, `batch`, `output`: memory and its contents; `setup`: what all launches
//!   share;
//! - `allen`, `ranked`: a batch's launches by either pipeline; `work`: one of the two;
//! - `upload`: a batch on its way to the device; `stream`: a batch in flight; `decoder`: several
//!   streams; `passes`: many batches in turn;
//! - `sequence`: a stage of a sequence whose memory and streams are the caller's; `staged`: one
//!   with a caller around it.

mod allen;
mod batch;
mod buffer;
#[cfg(feature = "cust")]
mod cust;
mod decoder;
mod device;
mod driver;
mod facts;
mod gpu;
mod identity;
mod interop;
mod launcher;
mod output;
mod passes;
mod ranked;
mod sequence;
mod setup;
mod staged;
mod start;
mod stream;
mod tables;
mod upload;
mod work;

pub use batch::{DeviceBatch, PinnedBatch, ResidentBatch, Source};
pub use decoder::{CudaConfig, CudaDecoder, Ticket};
pub use device::{Argument, CopyRows, TransferBytes};
pub use driver::{CudaHost, CudaMemory, CudaStream};
pub use facts::Facts;
pub use gpu::{CudaDevice, events_at_once};
pub use identity::{GpuIdentity, identify};
pub use output::{DeviceHits, HostHits};
pub use sequence::{
    CudaSequence, HITS_OVERFLOW, NO_SUCH_EVENT, STRIPS_OVERFLOW, SequenceHits, SequenceWork,
    WRONG_VERSION,
};
pub use staged::CudaSequenceDecoder;
pub use start::{Gpu, StartError, choose};
pub use stream::Readback;

use super::ptx::Kernel;
use super::{DecodeError, DecodeOptions};
use ut_data::detector::DetectorTables;

impl CudaConfig {
    fn device(&self) -> Result<CudaDevice, DecodeError> {
        let launch = &self.launch;
        Ok(CudaDevice::new(self.ordinal, launch.registers())?.with_carve_out(launch.carve_out()))
    }
}

impl CudaDecoder {
    /// Creates a decoder for one detector and one set of options.
    pub fn new(
        tables: &DetectorTables,
        options: DecodeOptions,
        config: CudaConfig,
    ) -> Result<Self, DecodeError> {
        let device = config.device()?;
        let streams = (0..config.streams())
            .map(|_| device.stream())
            .collect::<Result<_, _>>()?;
        Self::on_checked_streams(device, streams, tables, options, config)
    }

    /// Begins or ends timing each kernel: see [`CudaDevice::time_kernels`].
    pub fn time_kernels(&mut self, on: bool) {
        self.device.time_kernels(on);
    }

    /// Milliseconds of each kernel since the last time: see [`CudaDevice::take_times`].
    pub fn take_times(&mut self) -> Result<Vec<(Kernel, f32)>, DecodeError> {
        self.device.take_times()
    }
}
