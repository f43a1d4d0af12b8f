//! Batches on the device, and on the way to it.

use std::sync::Arc;

use simt::Global;
use ut_kernels::bank::layout::Batch;

use super::buffer::{Buffer, HostBuffer, LINE};
use super::device::Device;
use crate::decoder::DecodeError;
use crate::input::{BatchView, EventMeta, Layout};

/// A batch in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceBatch {
    /// Which of the two layouts.
    pub layout: Layout,
    /// Number of events.
    pub n_events: usize,
    /// Where [`BatchView::raw`] is, which may be any address, and its bytes.
    pub raw: (u64, usize),
    /// Where [`BatchView::offsets`] is, a multiple of 4, and its words.
    pub offsets: (u64, usize),
    /// The same of [`BatchView::sizes`].
    pub sizes: (u64, usize),
    /// The same of [`BatchView::types`].
    pub types: (u64, usize),
    /// The same of [`BatchView::versions`].
    pub versions: Option<(u64, usize)>,
}

impl DeviceBatch {
    pub(super) fn view(&self) -> Batch<'static> {
        // SAFETY: the host never follows these; whoever made the batch promised that the device can.
        let words = |(address, len): (u64, usize)| unsafe { Global::new(address as usize as *const u32, len as u32) };
        Batch {
            // SAFETY: as above.
            raw: unsafe { Global::new(self.raw.0 as usize as *const u8, self.raw.1 as u32) },
            offsets: words(self.offsets),
            sizes: words(self.sizes),
            types: words(self.types),
            versions: words(self.versions.unwrap_or((self.types.0, 0))),
            has_versions: u32::from(self.versions.is_some()),
        }
    }

    pub(super) fn most_words(&self) -> usize {
        let words = [self.offsets, self.sizes, self.types, self.versions.unwrap_or_default()];
        words.map(|(_, len)| len).into_iter().max().unwrap_or(0)
    }
}

/// How the parts of a batch lie one behind the other in one piece of memory, so that one copy takes them all: offsets,
/// sizes, types and versions, then the raw bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packing {
    layout: Layout,
    n_events: usize,
    words: [(usize, usize); 4],
    has_versions: bool,
    raw: (usize, usize),
    /// Bytes of it all.
    pub(super) bytes: usize,
}

impl Packing {
    pub(super) fn of(batch: &BatchView<'_>) -> Self {
        let mut end = 0;
        let words = Self::words_of(batch).map(|words| {
            let at = end;
            end += size_of_val(words).next_multiple_of(LINE);
            (at, words.len())
        });
        Self {
            layout: batch.layout,
            n_events: batch.n_events,
            words,
            has_versions: batch.versions.is_some(),
            raw: (end, batch.raw.len()),
            bytes: end + batch.raw.len(),
        }
    }

    const fn words_of<'a>(batch: &BatchView<'a>) -> [&'a [u32]; 4] {
        let versions = match batch.versions {
            Some(versions) => versions,
            None => &[],
        };
        [batch.offsets, batch.sizes, batch.types, versions]
    }

    /// The parts that are to be there, and where.
    pub(super) fn parts<'a>(&self, batch: &BatchView<'a>) -> [(usize, &'a [u8]); 5] {
        let [a, b, c, d] = Self::words_of(batch).map(bytemuck::cast_slice);
        let at = |i: usize| self.words[i].0;
        [(at(0), a), (at(1), b), (at(2), c), (at(3), d), (self.raw.0, batch.raw)]
    }

    /// The batch, if it begins at `address` of the device.
    pub(super) fn at(&self, address: u64) -> DeviceBatch {
        let words = |i: usize| (address + self.words[i].0 as u64, self.words[i].1);
        DeviceBatch {
            layout: self.layout,
            n_events: self.n_events,
            raw: (address + self.raw.0 as u64, self.raw.1),
            offsets: words(0),
            sizes: words(1),
            types: words(2),
            versions: self.has_versions.then(|| words(3)),
        }
    }
}

/// A batch in pinned memory of the host, from where the device takes it without a copy by the CPU.
pub struct PinnedBatch<D: Device> {
    pub(super) memory: HostBuffer<D>,
    pub(super) packing: Packing,
    pub(super) meta: Vec<EventMeta>,
}

impl<D: Device> PinnedBatch<D> {
    pub(super) fn new(device: &mut D, batch: &BatchView<'_>) -> Result<Self, DecodeError> {
        let packing = Packing::of(batch);
        let mut memory = HostBuffer::new();
        memory.reserve(device, packing.bytes)?;
        for (at, part) in packing.parts(batch) {
            // SAFETY: the device does not know this memory yet.
            unsafe { memory.put(at, part) };
        }
        Ok(Self { memory, packing, meta: batch.meta.to_vec() })
    }

    /// Events.
    pub const fn n_events(&self) -> usize {
        self.packing.n_events
    }

    /// Bytes that go to the device.
    pub const fn bytes(&self) -> usize {
        self.packing.bytes
    }
}

/// A batch that lies on the device, for good.
pub struct ResidentBatch<D: Device> {
    pub(super) memory: Buffer<D>,
    pub(super) batch: DeviceBatch,
    pub(super) meta: Vec<EventMeta>,
}

impl<D: Device> ResidentBatch<D> {
    /// Where it lies. Valid as long as this lives.
    pub const fn batch(&self) -> DeviceBatch {
        self.batch
    }

    /// Events.
    pub const fn n_events(&self) -> usize {
        self.batch.n_events
    }

    /// Bytes that it takes on the device.
    pub const fn bytes(&self) -> usize {
        self.memory.bytes()
    }
}

/// Where a batch is before it is decoded.
pub enum Source<'a, D: Device> {
    /// In the host's memory: the CPU copies it to pinned memory, piece by piece, and the device takes each piece while
    /// the next one is copied.
    Host(BatchView<'a>),
    /// In pinned memory.
    Pinned(Arc<PinnedBatch<D>>),
    /// On the device.
    Resident(Arc<ResidentBatch<D>>),
}

impl<'a, D: Device> From<BatchView<'a>> for Source<'a, D> {
    fn from(batch: BatchView<'a>) -> Self {
        Self::Host(batch)
    }
}

impl<D: Device> From<&Arc<PinnedBatch<D>>> for Source<'_, D> {
    fn from(batch: &Arc<PinnedBatch<D>>) -> Self {
        Self::Pinned(Arc::clone(batch))
    }
}

impl<D: Device> From<&Arc<ResidentBatch<D>>> for Source<'_, D> {
    fn from(batch: &Arc<ResidentBatch<D>>) -> Self {
        Self::Resident(Arc::clone(batch))
    }
}
