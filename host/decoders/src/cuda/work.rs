//! The launches of a batch and the buffers between them, by either pipeline.

use ut_kernels::status;

use super::allen::AllenWork;
use super::batch::DeviceBatch;
use super::device::Device;
use super::fused::{self, FusedWork, Task};
use super::output::Output;
use super::setup::Setup;
use crate::plan::Plan;
use ut_data::DecodeError;

/// The buffers of a stream, but for what comes out.
pub(super) enum Work<D: Device> {
    Allen(AllenWork<D>),
    Fused(FusedWork<D>),
}

impl<D: Device> Work<D> {
    pub(super) const fn new(fused: bool) -> Self {
        if fused { Self::Fused(FusedWork::new()) } else { Self::Allen(AllenWork::new()) }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Allen(work) => work.bytes(),
            Self::Fused(work) => work.bytes(),
        }
    }

    /// Room for the events of any batch that has that many.
    pub(super) fn reserve_events(&mut self, device: &mut D, plan: &Plan) -> Result<(), DecodeError> {
        match self {
            Self::Allen(work) => work.reserve_events(device, plan),
            Self::Fused(work) => work.reserve(device, plan, &DeviceBatch::default()),
        }
    }

    /// Room for what is gathered of a batch beside that.
    pub(super) fn reserve_batch(
        &mut self,
        device: &mut D,
        plan: &Plan,
        batch: &DeviceBatch,
    ) -> Result<(), DecodeError> {
        match self {
            // It reads everything where it is.
            Self::Allen(_) => Ok(()),
            Self::Fused(work) => work.reserve(device, plan, batch),
        }
    }

    pub(super) fn reserve_strips(&mut self, device: &mut D, strips: usize) -> Result<(), DecodeError> {
        match self {
            Self::Allen(work) => work.reserve_strips(device, strips),
            // Its clusters never leave a block, but to become hits.
            Self::Fused(_) => Ok(()),
        }
    }

    /// The bit of the status word that asks for more room.
    pub(super) const fn overflow(&self) -> u32 {
        match self {
            Self::Allen(_) => status::STRIPS_OVERFLOW,
            Self::Fused(_) => status::HITS_OVERFLOW,
        }
    }

    /// Returns the address of the number of strips of the batch, valid once the kernels have run, and the room for strips;
    /// `None` if strips are not kept.
    pub(super) fn strips_found(&self, plan: &Plan) -> Option<(u64, usize)> {
        match self {
            Self::Allen(work) => Some((work.strips_found(plan), work.strips)),
            Self::Fused(_) => None,
        }
    }

    /// All kernels, without waiting for any.
    ///
    /// # Safety
    /// - `batch` can be read by the device, for as many elements as it says, until the stream has done this.
    /// - The buffers are reserved for the plan and the batch, here and in `output`, and its status word is 0 by then.
    pub(super) unsafe fn launch(
        &self,
        device: &mut D,
        stream: &D::Stream,
        setup: &Setup<D>,
        plan: &Plan,
        batch: &DeviceBatch,
        output: &Output<D>,
    ) -> Result<(), DecodeError> {
        match self {
            // SAFETY:
            // - the device can read `batch` until the stream has done this, by this function's first precondition;
            // - the buffers are reserved for the plan, and the status word is 0 by then, by its second: those here are
            //   `work`'s.
            Self::Allen(work) => unsafe { work.launch(device, stream, setup, plan, batch, output) },
            Self::Fused(work) => {
                let output = output.views(plan);
                // SAFETY:
                // - the device can read `batch` until the stream has done this, by this function's first precondition;
                // - the buffers are reserved for plan and batch, and the status word is 0 by then, by its second: `work`
                //   has them, from a multiple of a line on.
                unsafe { fused::launch(device, stream, setup, Task::Decode, plan, batch, work.base(), output) }
            }
        }
    }
}
