//! The tables of a detector on a device: all in one piece of memory, which is written once.

use simt::{Global, Plain};
use ut_kernels::fused::hit_tables::HitTables;
use ut_kernels::fused::pipeline::FusedTables;
use ut_kernels::fused::tables::LaneTables;
use ut_kernels::tables::Tables;

use super::buffer::{Buffer, HostBuffer, LINE};
use super::device::{Device, TransferBytes};
use crate::plan::DeviceTables;
use crate::rank_tables::RankTables;
use ut_data::DecodeError;

/// The tables, copied once and never changed.
pub(super) struct TablesOnDevice<D: Device> {
    /// The same in the host's memory.
    pub(super) host: DeviceTables,
    /// The tables by rank, for the fused pipeline.
    pub(super) ranks: Option<RankTables>,
    memory: Buffer<D>,
    /// Byte where each part begins.
    places: Vec<usize>,
}

impl<D: Device> TablesOnDevice<D> {
    /// Copies them, and waits.
    pub(super) fn new(
        device: &mut D,
        stream: &D::Stream,
        host: DeviceTables,
        ranks: Option<RankTables>,
        moved: &mut TransferBytes,
    ) -> Result<Self, DecodeError> {
        let mut parts = Vec::new();
        let mut end = 0;
        for part in bytes_of(&host).into_iter().chain(ranks.iter().flat_map(bytes_of_ranks)) {
            parts.push((end, part));
            end += part.len().next_multiple_of(LINE);
        }
        let memory = write_all(device, stream, &parts, moved)?;
        let places = parts.into_iter().map(|(at, _)| at).collect();
        Ok(Self { host, ranks, memory, places })
    }

    pub(super) const fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Part `i`, which is as long as `of`.
    fn part<T: Plain>(&self, i: usize, of: &[T]) -> Global<'static, T> {
        self.memory.view(self.places[i], of.len())
    }

    /// For kernels.
    pub(super) fn view(&self) -> Tables<'static> {
        let tables = &self.host;
        Tables {
            slots: self.part(0, &tables.slots),
            board_lanes: self.part(1, &tables.board_lanes),
            groups: self.part(2, &tables.groups),
            sectors: self.part(3, &tables.sectors),
            strips_per_hybrid: self.part(4, &tables.strips_per_hybrid),
            layer_groups: self.part(5, &tables.layer_groups),
            n_groups: tables.n_groups,
        }
    }

    /// The tables by rank, for kernels.
    pub(super) fn rank_view(&self) -> Option<FusedTables<'static>> {
        let RankTables { lanes, records } = self.ranks.as_ref()?;
        Some(FusedTables {
            lanes: LaneTables {
                ranks: self.part(6, &lanes.ranks),
                first_ranks: self.part(7, &lanes.first_ranks),
                strips_per_hybrid: self.part(8, &lanes.strips_per_hybrid),
                chan_ids: self.part(9, &lanes.chan_ids),
                first_channels: self.part(10, &lanes.first_channels),
                p0_x: self.part(11, &lanes.p0_x),
                p0_y: self.part(12, &lanes.p0_y),
                p0_z: self.part(13, &lanes.p0_z),
                classes: self.part(14, &lanes.classes),
                constants: self.part(15, &lanes.constants),
            },
            records: HitTables {
                boards: self.part(16, &records.boards),
                lanes: self.part(17, &records.lanes),
                groups: self.part(18, &records.groups),
                classes: self.part(19, &records.classes),
                n_groups: records.n_groups,
                fits: u32::from(records.fits),
                overlaps: u32::from(records.overlaps),
            },
        })
    }
}

/// Parts 0 to 5.
fn bytes_of(tables: &DeviceTables) -> [&[u8]; 6] {
    [
        bytemuck::cast_slice(&tables.slots),
        bytemuck::cast_slice(&tables.board_lanes),
        bytemuck::cast_slice(&tables.groups),
        bytemuck::cast_slice(&tables.sectors),
        bytemuck::cast_slice(&tables.strips_per_hybrid),
        bytemuck::cast_slice(&tables.layer_groups),
    ]
}

/// Parts 6 to 19.
fn bytes_of_ranks(tables: &RankTables) -> [&[u8]; 14] {
    let RankTables { lanes, records } = tables;
    [
        bytemuck::cast_slice(&lanes.ranks),
        bytemuck::cast_slice(&lanes.first_ranks),
        bytemuck::cast_slice(&lanes.strips_per_hybrid),
        bytemuck::cast_slice(&lanes.chan_ids),
        bytemuck::cast_slice(&lanes.first_channels),
        bytemuck::cast_slice(&lanes.p0_x),
        bytemuck::cast_slice(&lanes.p0_y),
        bytemuck::cast_slice(&lanes.p0_z),
        bytemuck::cast_slice(&lanes.classes),
        bytemuck::cast_slice(&lanes.constants),
        bytemuck::cast_slice(&records.boards),
        bytemuck::cast_slice(&records.lanes),
        bytemuck::cast_slice(&records.groups),
        bytemuck::cast_slice(&records.classes),
    ]
}

/// Fresh device memory with these parts at these places, in order. Returns when they are there.
pub(super) fn write_all<D: Device>(
    device: &mut D,
    stream: &D::Stream,
    parts: &[(usize, &[u8])],
    moved: &mut TransferBytes,
) -> Result<Buffer<D>, DecodeError> {
    let bytes = parts.last().map_or(0, |(at, part)| at + part.len());
    let (mut buffer, mut staging) = (Buffer::new(), HostBuffer::new());
    buffer.reserve(device, bytes)?;
    staging.reserve(device, bytes)?;
    for (at, part) in parts {
        // SAFETY: the memory was allocated just now: no copy from it or to it was put on a stream.
        unsafe { staging.put(*at, part) };
    }
    moved.to_device += bytes as u64;
    if bytes > 0 {
        // SAFETY: stream and memory are this device's; both sides have so many bytes, and live until the stream was waited
        // for below, before which the host does not write there; where it could not be, they are never given back.
        let written = unsafe { device.write(stream, buffer.address(), staging.start(), bytes) };
        if let Err(error) = device.synchronize(stream) {
            // The copy may still go on.
            std::mem::forget((buffer, staging));
            return written.and(Err(error));
        }
        written?;
    }
    Ok(buffer)
}
