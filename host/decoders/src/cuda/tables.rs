//! The tables of a detector on a device.

use ut_kernels::tables::Tables;

use super::buffer::{Buffer, HostBuffer};
use super::device::{Device, TransferBytes};
use crate::DecodeError;
use crate::plan::DeviceTables;

/// The tables, once copied and never changed.
pub(super) struct TablesOnDevice<D: Device> {
    /// The same in the host's memory.
    pub(super) host: DeviceTables,
    buffers: [Buffer<D>; 6],
}

impl<D: Device> TablesOnDevice<D> {
    /// Copies them, and waits.
    pub(super) fn new(
        device: &mut D,
        stream: &D::Stream,
        tables: DeviceTables,
        moved: &mut TransferBytes,
    ) -> Result<Self, DecodeError> {
        let mut put = |bytes: &[u8]| write_all(device, stream, &[(0, bytes)], moved);
        let buffers = [
            put(bytemuck::cast_slice(&tables.slots))?,
            put(bytemuck::cast_slice(&tables.board_lanes))?,
            put(bytemuck::cast_slice(&tables.groups))?,
            put(bytemuck::cast_slice(&tables.sectors))?,
            put(bytemuck::cast_slice(&tables.strips_per_hybrid))?,
            put(bytemuck::cast_slice(&tables.layer_groups))?,
        ];
        Ok(Self { host: tables, buffers })
    }

    pub(super) fn bytes(&self) -> usize {
        self.buffers.iter().map(Buffer::bytes).sum()
    }

    /// For kernels.
    pub(super) fn view(&self) -> Tables<'static> {
        let [slots, board_lanes, groups, sectors, strips_per_hybrid, layer_groups] = &self.buffers;
        let tables = &self.host;
        Tables {
            slots: slots.global(tables.slots.len()),
            board_lanes: board_lanes.global(tables.board_lanes.len()),
            groups: groups.global(tables.groups.len()),
            sectors: sectors.global(tables.sectors.len()),
            strips_per_hybrid: strips_per_hybrid.global(tables.strips_per_hybrid.len()),
            layer_groups: layer_groups.global(tables.layer_groups.len()),
            n_groups: tables.n_groups,
        }
    }
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
