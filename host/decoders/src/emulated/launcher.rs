//! Launches kernels in the executor, with buffers in the host's memory.

use simt::executor::{Executor, LaunchStats};
use simt::{Global, GlobalMut, Kernel, Launcher, Plain, Shape};
use ut_kernels::allen::pipeline::{AllenLauncher, StripBuffers};
use ut_kernels::hit::Cluster;

use super::failure;
use ut_data::DecodeError;

/// Launches kernels and keeps their statistics. Outputs are borrowed for `'h`.
pub(super) struct ExecutorLauncher<'h> {
    executor: &'h mut Executor,
    stats: &'h mut Vec<(&'static str, LaunchStats)>,
}

/// Memory that a kernel may write: work buffers are owned and live for one batch, and the caller's
/// arrays of hits, offsets and counters are borrowed, so that results need no copy.
pub(super) enum HostBuffer<'h, T> {
    Own(Vec<T>),
    Of(&'h mut [T]),
}

impl<T: bytemuck::Pod> HostBuffer<'_, T> {
    /// Allocates a work buffer, all bits set: no kernel may count on zeros.
    pub(super) fn of_len(len: usize) -> Result<Self, DecodeError> {
        let mut buffer = Vec::new();
        let no_memory = |_| failure(&format!("no memory for a work buffer of {len} elements"));
        buffer.try_reserve_exact(len).map_err(no_memory)?;
        let mut poison = T::zeroed();
        bytemuck::bytes_of_mut(&mut poison).fill(0xFF);
        buffer.resize(len, poison);
        Ok(Self::Own(buffer))
    }
}

impl<T> HostBuffer<'_, T> {
    pub(super) fn slice(&self) -> &[T] {
        match self {
            Self::Own(buffer) => buffer,
            Self::Of(buffer) => buffer,
        }
    }

    fn slice_mut(&mut self) -> &mut [T] {
        match self {
            Self::Own(buffer) => buffer,
            Self::Of(buffer) => buffer,
        }
    }
}

impl<'h> ExecutorLauncher<'h> {
    pub(super) fn new(
        executor: &'h mut Executor,
        stats: &'h mut Vec<(&'static str, LaunchStats)>,
    ) -> Self {
        Self { executor, stats }
    }

    pub(super) fn constant(&mut self, addresses: impl IntoIterator<Item = usize>) {
        self.executor.constant(addresses);
    }
}

impl<'h> Launcher for ExecutorLauncher<'h> {
    type Error = DecodeError;
    type Buffer<T: Plain> = HostBuffer<'h, T>;

    fn read<'a, T: Plain>(&mut self, buffer: &'a HostBuffer<'h, T>) -> Global<'a, T> {
        Global::from_slice(buffer.slice())
    }

    fn write<'a, T: Plain>(&mut self, buffer: &'a mut HostBuffer<'h, T>) -> GlobalMut<'a, T> {
        self.executor.writable(buffer.slice_mut())
    }

    fn zero<T: Plain>(&mut self, buffer: &mut HostBuffer<'h, T>) -> Result<(), DecodeError> {
        buffer.slice_mut().fill(T::zeroed());
        Ok(())
    }

    fn launch<K: Kernel>(
        &mut self,
        kernel: K,
        shape: Shape,
        arguments: K::Arguments<'_>,
    ) -> Result<(), DecodeError> {
        let Shape {
            grid,
            block,
            shared_bytes,
        } = shape;
        let run = |block: &simt::executor::EmulatedBlock<'_>| kernel.run(block, &arguments);
        let stats = self
            .executor
            .launch(K::NAME, grid, block, shared_bytes, run);
        let stats = stats.map_err(|violation| failure(&violation.to_string()))?;
        self.stats.push((K::NAME, stats));
        Ok(())
    }
}

impl AllenLauncher for ExecutorLauncher<'_> {
    /// Reserves exactly the strips that there are, so that any access beyond is found.
    fn reserve_strips(
        &mut self,
        offsets: &Self::Buffer<u32>,
        strips: &mut StripBuffers<Self>,
    ) -> Result<(), DecodeError> {
        let strips_found = offsets.slice().last().copied().unwrap_or(0);
        if strips_found == u32::MAX {
            return Err(failure("the batch has more strips than 32 bits can count"));
        }
        let n = strips_found as usize;
        strips.clusters = HostBuffer::<Cluster>::of_len(n)?;
        strips.keys = HostBuffer::of_len(n)?;
        strips.permutation = HostBuffer::of_len(n)?;
        strips.scratch = HostBuffer::of_len(n)?;
        Ok(())
    }
}
