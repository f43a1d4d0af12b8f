//! A detector's tables on a device: all in one piece of memory, written once.

use bytemuck::NoUninit;
use simt::{Global, Plain};
use ut_kernels::ranked::pipeline::AllTables;
use ut_kernels::tables::Tables;

use super::buffer::{Buffer, LINE, PinnedBuffer};
use super::device::TransferBytes;
use super::driver::CudaStream;
use super::gpu::CudaDevice;
use crate::placer::Placer;
use crate::plan::DeviceTables;
use crate::rank_tables::RankTables;
use ut_data::DecodeError;

pub(super) struct TablesOnDevice {
    pub(super) host: DeviceTables,
    pub(super) ranks: Option<RankTables>,
    memory: Buffer,
    /// First byte of the tables by rank.
    ranks_at: usize,
}

impl TablesOnDevice {
    /// Copies the tables, and waits.
    pub(super) fn new(
        device: &CudaDevice,
        stream: &CudaStream,
        host: DeviceTables,
        ranks: Option<RankTables>,
        moved: &mut TransferBytes,
    ) -> Result<Self, DecodeError> {
        let mut parts = PackedTables {
            parts: Vec::new(),
            end: 0,
        };
        host.placed(&mut parts);
        let ranks_at = parts.end;
        if let Some(ranks) = &ranks {
            ranks.placed(&mut parts);
        }
        let memory = write_all(device, stream, &parts.parts, moved)?;
        Ok(Self {
            host,
            ranks,
            memory,
            ranks_at,
        })
    }

    pub(super) fn view(&self) -> Tables<'static> {
        self.host.placed(&mut Placed {
            memory: &self.memory,
            at: 0,
        })
    }

    pub(super) fn rank_view(&self) -> Option<AllTables<'static>> {
        Some(self.ranks.as_ref()?.placed(&mut Placed {
            memory: &self.memory,
            at: self.ranks_at,
        }))
    }
}

/// Bytes and places of the arrays; its views are empty.
struct PackedTables<'t> {
    parts: Vec<(usize, &'t [u8])>,
    end: usize,
}

impl<'t> Placer<'t, 'static> for PackedTables<'t> {
    fn place<T: Plain + NoUninit>(&mut self, array: &'t [T]) -> Global<'static, T> {
        self.parts.push((self.end, bytemuck::cast_slice(array)));
        self.end += size_of_val(array).next_multiple_of(LINE);
        Global::from_slice(&[])
    }
}

/// Arrays in the memory that was written with [`PackedTables`], from byte `at` on.
struct Placed<'d> {
    memory: &'d Buffer,
    at: usize,
}

impl<'t> Placer<'t, 'static> for Placed<'_> {
    fn place<T: Plain + NoUninit>(&mut self, array: &'t [T]) -> Global<'static, T> {
        let view = self.memory.view(self.at, array.len());
        self.at += size_of_val(array).next_multiple_of(LINE);
        view
    }
}

/// Writes parts to their places in new device memory, in order, and waits.
pub(super) fn write_all(
    device: &CudaDevice,
    stream: &CudaStream,
    parts: &[(usize, &[u8])],
    moved: &mut TransferBytes,
) -> Result<Buffer, DecodeError> {
    let bytes = parts.last().map_or(0, |(at, part)| at + part.len());
    let (mut buffer, mut staging) = (Buffer::new(), PinnedBuffer::new());
    buffer.reserve(device, bytes)?;
    staging.reserve(device, bytes)?;
    for (at, part) in parts {
        // SAFETY: the memory was allocated just now: no copy from it or to it was put on a stream.
        unsafe { staging.put(*at, part) };
    }
    moved.to_device += bytes as u64;
    if bytes > 0 {
        // SAFETY: memory of this device, with that many bytes on both sides, which live unchanged
        // until the stream was waited for below, or for good.
        let written = unsafe { stream.write(buffer.address(), staging.start(), bytes) };
        if let Err(error) = stream.synchronize() {
            // The copy may still go on.
            std::mem::forget((buffer, staging));
            return written.and(Err(error));
        }
        written?;
    }
    Ok(buffer)
}
