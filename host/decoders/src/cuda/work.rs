//! A batch's launches and the buffers between them, by either pipeline.

use ut_kernels::status;

use super::allen::AllenWork;
use super::batch::DeviceBatch;
use super::buffer::Buffer;
use super::driver::CudaStream;
use super::gpu::CudaDevice;
use super::output::DeviceOutput;
use super::ranked::{self, RankedPlaces};
use super::setup::LaunchSetup;
use crate::Pipeline;
use crate::plan::Plan;
use ut_data::DecodeError;

/// Buffers between the kernels of a stream.
pub(super) enum Work {
    Allen(AllenWork),
    /// Memory, and the number of records that fit into it.
    Ranked(Buffer, usize),
}

impl Work {
    pub(super) const fn new(pipeline: Pipeline) -> Self {
        match pipeline {
            Pipeline::Allen => Self::Allen(AllenWork::new()),
            Pipeline::Ranked => Self::Ranked(Buffer::new(), 0),
        }
    }

    /// Makes room for this batch and as many strips.
    pub(super) fn reserve(
        &mut self,
        device: &CudaDevice,
        plan: &Plan,
        batch: &DeviceBatch,
        strips: usize,
    ) -> Result<(), DecodeError> {
        match self {
            Self::Allen(work) => work.reserve(device, plan, strips),
            Self::Ranked(memory, records) => {
                *records = strips.max(*records);
                memory.reserve(device, RankedPlaces::of(plan, batch, *records).bytes)
            }
        }
    }

    /// Bit of the status word that asks for more room.
    pub(super) const fn overflow(&self) -> u32 {
        match self {
            Self::Allen(_) => status::STRIPS_OVERFLOW,
            Self::Ranked(..) => status::STRIPS_OVERFLOW | status::HITS_OVERFLOW,
        }
    }

    /// Returns the address of the batch's number of strips, valid once the kernels have run, and
    /// the room for strips.
    pub(super) fn strips_found(&self, plan: &Plan, batch: &DeviceBatch) -> (u64, usize) {
        match self {
            Self::Allen(work) => (work.strips_found(plan), work.strips),
            Self::Ranked(memory, records) => {
                let taken = RankedPlaces::of(plan, batch, *records).taken();
                (memory.address() + taken as u64, *records)
            }
        }
    }

    /// Launches all kernels, without waiting for any.
    ///
    /// # Safety
    /// - `batch` can be read by the device, for as many elements as it says, until the stream has
    ///   done this.
    /// - The buffers are reserved for the plan and the batch, here and in `output`, and its status
    ///   word is 0 by then.
    pub(super) unsafe fn launch(
        &self,
        device: &mut CudaDevice,
        stream: &CudaStream,
        setup: &LaunchSetup,
        plan: &Plan,
        batch: &DeviceBatch,
        output: &DeviceOutput,
    ) -> Result<(), DecodeError> {
        match self {
            // SAFETY: these are this function's preconditions.
            Self::Allen(work) => unsafe { work.launch(device, stream, setup, plan, batch, output) },
            Self::Ranked(memory, records) => {
                let (output, task) = (output.views(plan), ranked::Task::Decode);
                let memory = (memory.address(), *records);
                // SAFETY: these are this function's preconditions; `memory` is a buffer, from a
                // line on.
                unsafe { ranked::launch(device, stream, setup, task, plan, batch, memory, output) }
            }
        }
    }
}
