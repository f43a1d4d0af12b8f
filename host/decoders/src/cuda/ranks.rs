//! The tables of the fused pipeline on a device.

use ut_kernels::fused::hit_tables::HitTables;
use ut_kernels::fused::pipeline::FusedTables;
use ut_kernels::fused::tables::LaneTables;

use super::buffer::Buffer;
use super::device::{Device, TransferBytes};
use super::tables::write_all;
use crate::DecodeError;
use crate::rank_tables::RankTables;

/// The tables by rank, once copied and never changed.
pub(super) struct RanksOnDevice<D: Device> {
    pub(super) host: RankTables,
    buffers: [Buffer<D>; 14],
}

impl<D: Device> RanksOnDevice<D> {
    /// Copies them, and waits.
    pub(super) fn new(
        device: &mut D,
        stream: &D::Stream,
        tables: RankTables,
        moved: &mut TransferBytes,
    ) -> Result<Self, DecodeError> {
        let lanes = &tables.lanes;
        let mut put = |bytes: &[u8]| write_all(device, stream, &[(0, bytes)], moved);
        let buffers = [
            put(bytemuck::cast_slice(&lanes.ranks))?,
            put(bytemuck::cast_slice(&lanes.first_ranks))?,
            put(bytemuck::cast_slice(&lanes.strips_per_hybrid))?,
            put(bytemuck::cast_slice(&lanes.chan_ids))?,
            put(bytemuck::cast_slice(&lanes.first_channels))?,
            put(bytemuck::cast_slice(&lanes.p0_x))?,
            put(bytemuck::cast_slice(&lanes.p0_y))?,
            put(bytemuck::cast_slice(&lanes.p0_z))?,
            put(bytemuck::cast_slice(&lanes.classes))?,
            put(bytemuck::cast_slice(&lanes.constants))?,
            put(bytemuck::cast_slice(&tables.records.boards))?,
            put(bytemuck::cast_slice(&tables.records.lanes))?,
            put(bytemuck::cast_slice(&tables.records.groups))?,
            put(bytemuck::cast_slice(&tables.records.classes))?,
        ];
        Ok(Self { host: tables, buffers })
    }

    pub(super) fn bytes(&self) -> usize {
        self.buffers.iter().map(Buffer::bytes).sum()
    }

    /// For kernels.
    pub(super) fn view(&self) -> FusedTables<'static> {
        let [ranks, first_ranks, strips, chan_ids, first_channels, p0_x, p0_y, p0_z, classes, constants, records @ ..] =
            &self.buffers;
        let lanes = &self.host.lanes;
        let lanes = LaneTables {
            ranks: ranks.global(lanes.ranks.len()),
            first_ranks: first_ranks.global(lanes.first_ranks.len()),
            strips_per_hybrid: strips.global(lanes.strips_per_hybrid.len()),
            chan_ids: chan_ids.global(lanes.chan_ids.len()),
            first_channels: first_channels.global(lanes.first_channels.len()),
            p0_x: p0_x.global(lanes.p0_x.len()),
            p0_y: p0_y.global(lanes.p0_y.len()),
            p0_z: p0_z.global(lanes.p0_z.len()),
            classes: classes.global(lanes.classes.len()),
            constants: constants.global(lanes.constants.len()),
        };
        let [boards, lane_records, groups, classes] = records;
        let of = &self.host.records;
        let records = HitTables {
            boards: boards.global(of.boards.len()),
            lanes: lane_records.global(of.lanes.len()),
            groups: groups.global(of.groups.len()),
            classes: classes.global(of.classes.len()),
            n_groups: of.n_groups,
            fits: u32::from(of.fits),
        };
        FusedTables { records, lanes }
    }
}
