//! The constants of the lanes as the fused pipeline's second kernel reads them: a column a number.

use simt::Global;
use ut_kernels::fused::tables::LaneTables;

/// The constants of the connected lanes in the order of the ranks, beside what tells the rank of a lane.
#[derive(Clone, Debug)]
pub struct LaneColumns {
    /// See [`LaneTables::ranks`].
    pub ranks: Vec<u16>,
    /// See [`LaneTables::first_ranks`].
    pub first_ranks: Vec<u32>,
    /// See [`LaneTables::strips_per_hybrid`].
    pub strips_per_hybrid: Vec<u32>,
    /// See [`LaneTables::chan_ids`].
    pub chan_ids: Vec<u32>,
    /// See [`LaneTables::first_channels`].
    pub first_channels: Vec<u32>,
    /// See [`LaneTables::p0_x`].
    pub p0_x: Vec<f32>,
    /// See [`LaneTables::p0_y`].
    pub p0_y: Vec<f32>,
    /// See [`LaneTables::p0_z`].
    pub p0_z: Vec<f32>,
    /// See [`LaneTables::classes`].
    pub classes: Vec<u16>,
    /// See [`LaneTables::constants`].
    pub constants: Vec<u32>,
}

impl LaneColumns {
    /// The columns where they are, in the host's memory.
    pub fn view(&self) -> LaneTables<'_> {
        LaneTables {
            ranks: Global::from_slice(&self.ranks),
            first_ranks: Global::from_slice(&self.first_ranks),
            strips_per_hybrid: Global::from_slice(&self.strips_per_hybrid),
            chan_ids: Global::from_slice(&self.chan_ids),
            first_channels: Global::from_slice(&self.first_channels),
            p0_x: Global::from_slice(&self.p0_x),
            p0_y: Global::from_slice(&self.p0_y),
            p0_z: Global::from_slice(&self.p0_z),
            classes: Global::from_slice(&self.classes),
            constants: Global::from_slice(&self.constants),
        }
    }
}
