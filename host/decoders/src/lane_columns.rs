//! The lanes' constants as `cluster_unusual` reads them: one column for each.

use ut_kernels::ranked::lane_tables::LaneTables;

use super::placer::Placer;

/// Constants of the connected lanes in the order of the ranks, and the ranks of all lanes.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "as in `LaneTables`")]
pub struct LaneColumns {
    pub ranks: Vec<u16>,
    pub first_ranks: Vec<u32>,
    pub strips_per_hybrid: Vec<u32>,
    pub chan_ids: Vec<u32>,
    pub first_channels: Vec<u32>,
    pub p0_x: Vec<f32>,
    pub p0_y: Vec<f32>,
    pub p0_z: Vec<f32>,
    pub classes: Vec<u16>,
    pub constants: Vec<u32>,
}

impl LaneColumns {
    pub(crate) fn placed<'t, 'v>(&'t self, by: &mut impl Placer<'t, 'v>) -> LaneTables<'v> {
        LaneTables {
            ranks: by.place(&self.ranks),
            first_ranks: by.place(&self.first_ranks),
            strips_per_hybrid: by.place(&self.strips_per_hybrid),
            chan_ids: by.place(&self.chan_ids),
            first_channels: by.place(&self.first_channels),
            p0_x: by.place(&self.p0_x),
            p0_y: by.place(&self.p0_y),
            p0_z: by.place(&self.p0_z),
            classes: by.place(&self.classes),
            constants: by.place(&self.constants),
        }
    }
}
