//! Batches in device memory and in pinned memory, and the layout of a batch in one piece of either.

use std::sync::Arc;

use simt::Global;
use ut_kernels::bank::layout::Batch;
use ut_kernels::detector::BankVersion;

use super::buffer::{Buffer, LINE, PinnedBuffer};
use super::device::TransferBytes;
use super::driver::CudaStream;
use super::gpu::CudaDevice;
use super::tables::write_all;
use crate::plan::{first_event_word, version_word};
use ut_data::DecodeError;
use ut_data::input::{BatchView, EventMeta, Layout};

/// A [`BatchView`] in device memory; no event by default. Arrays of words are an address, a
/// multiple of 4, and a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in `BatchView`")]
pub struct DeviceBatch {
    pub layout: Layout,
    pub n_events: usize,
    pub first_event: usize,
    /// The device leaves out an event that the batch does not have, and reports it when the batch
    /// is done.
    pub selected: Option<(u64, usize)>,
    /// An address of any alignment, and a number of bytes.
    pub raw: (u64, usize),
    pub offsets: (u64, usize),
    pub sizes: (u64, usize),
    pub types: (u64, usize),
    pub versions: Option<(u64, usize)>,
    pub version: Option<u8>,
}

impl DeviceBatch {
    /// Makes the view for kernels. `version` is the version of the tables, for a batch that states
    /// none.
    pub(super) fn view(&self, version: BankVersion) -> Batch<'static> {
        // SAFETY: the host never follows the address; kernels do, launched by unsafe calls that ask
        // for the words there.
        let words = |(address, len): (u64, usize)| unsafe {
            Global::new(address as usize as *const u32, len as u32)
        };
        Batch {
            // SAFETY: the host never follows the address; kernels do, launched by unsafe calls that
            // ask for the bytes.
            raw: unsafe { Global::new(self.raw.0 as usize as *const u8, self.raw.1 as u32) },
            offsets: words(self.offsets),
            sizes: words(self.sizes),
            types: words(self.types),
            versions: words(self.versions.unwrap_or((self.types.0, 0))),
            version: version_word(self.versions.is_some(), self.version, version),
            first_event: first_event_word(self.first_event, self.n_events),
        }
    }

    pub(super) fn most_words(&self) -> usize {
        let optional = [self.versions, self.selected].map(Option::unwrap_or_default);
        let words = [
            self.offsets,
            self.sizes,
            self.types,
            optional[0],
            optional[1],
        ];
        words.map(|(_, len)| len).into_iter().max().unwrap_or(0)
    }
}

/// Offsets of a batch's parts in one piece of memory, so that one copy takes them all: offsets,
/// sizes, types, versions and selected events, then the raw bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchOffsets {
    /// Batch without addresses.
    batch: DeviceBatch,
    words: [(usize, usize); 5],
    raw: usize,
    pub(super) bytes: usize,
}

impl BatchOffsets {
    pub(super) fn of(batch: &BatchView<'_>) -> Self {
        let mut end = 0;
        let words = batch.words().map(|words| {
            let at = end;
            end += size_of_val(words).next_multiple_of(LINE);
            (at, words.len())
        });
        Self {
            batch: DeviceBatch {
                layout: batch.layout,
                n_events: batch.n_events,
                first_event: batch.first_event,
                selected: batch.selected.map(|list| (0, list.len())),
                raw: (0, batch.raw.len()),
                versions: batch.versions.map(|versions| (0, versions.len())),
                version: batch.version,
                ..DeviceBatch::default()
            },
            words,
            raw: end,
            bytes: end + batch.raw.len(),
        }
    }

    pub(super) fn parts<'a>(&self, batch: &BatchView<'a>) -> [(usize, &'a [u8]); 6] {
        let [a, b, c, d, e] = batch.words().map(bytemuck::cast_slice);
        let at = |i: usize| self.words[i].0;
        [
            (at(0), a),
            (at(1), b),
            (at(2), c),
            (at(3), d),
            (at(4), e),
            (self.raw, batch.raw),
        ]
    }

    pub(super) fn at(&self, address: u64) -> DeviceBatch {
        let words = |i: usize| (address + self.words[i].0 as u64, self.words[i].1);
        DeviceBatch {
            raw: (address + self.raw as u64, self.batch.raw.1),
            offsets: words(0),
            sizes: words(1),
            types: words(2),
            versions: self.batch.versions.map(|_| words(3)),
            selected: self.batch.selected.map(|_| words(4)),
            ..self.batch
        }
    }
}

/// A batch in pinned memory of the host; the device takes it without a copy by the CPU.
pub struct PinnedBatch {
    pub(super) memory: PinnedBuffer,
    pub(super) packing: BatchOffsets,
    pub(super) meta: Vec<EventMeta>,
}

impl PinnedBatch {
    pub(super) fn new(device: &CudaDevice, batch: &BatchView<'_>) -> Result<Self, DecodeError> {
        let packing = BatchOffsets::of(batch);
        let mut memory = PinnedBuffer::new();
        memory.reserve(device, packing.bytes)?;
        for (at, part) in packing.parts(batch) {
            // SAFETY: the memory was allocated just now: no copy from it or to it was put on a
            // stream.
            unsafe { memory.put(at, part) };
        }
        Ok(Self {
            memory,
            packing,
            meta: batch.meta_of_results(),
        })
    }

    /// Returns the number of bytes that go to the device.
    pub const fn bytes(&self) -> usize {
        self.packing.bytes
    }
}

/// A batch that stays on the device.
pub struct ResidentBatch {
    pub(super) memory: Buffer,
    pub(super) batch: DeviceBatch,
    pub(super) meta: Vec<EventMeta>,
}

impl ResidentBatch {
    /// Copies a batch, whose size was checked, and waits for the copy.
    pub(super) fn new(
        device: &CudaDevice,
        stream: &CudaStream,
        batch: &BatchView<'_>,
        moved: &mut TransferBytes,
    ) -> Result<Arc<Self>, DecodeError> {
        let packing = BatchOffsets::of(batch);
        let memory = write_all(device, stream, &packing.parts(batch), moved)?;
        let there = packing.at(memory.address());
        Ok(Arc::new(Self {
            memory,
            batch: there,
            meta: batch.meta_of_results(),
        }))
    }

    /// Returns the batch's addresses on the device, valid as long as this lives.
    pub const fn batch(&self) -> DeviceBatch {
        self.batch
    }
}

/// Place of a batch before it is decoded.
pub enum Source<'a> {
    /// In the host's memory. The CPU copies it to pinned memory in pieces; the device takes each
    /// while the next is copied.
    Host(BatchView<'a>),
    /// In pinned memory.
    Pinned(Arc<PinnedBatch>),
    /// On the device.
    Resident(Arc<ResidentBatch>),
}

impl<'a> From<BatchView<'a>> for Source<'a> {
    fn from(batch: BatchView<'a>) -> Self {
        Self::Host(batch)
    }
}

impl From<&Arc<PinnedBatch>> for Source<'_> {
    fn from(batch: &Arc<PinnedBatch>) -> Self {
        Self::Pinned(Arc::clone(batch))
    }
}

impl From<&Arc<ResidentBatch>> for Source<'_> {
    fn from(batch: &Arc<ResidentBatch>) -> Self {
        Self::Resident(Arc::clone(batch))
    }
}

#[cfg(test)]
mod tests {
    use super::DeviceBatch;

    #[test]
    fn any_array_of_words_may_be_the_longest() {
        let one = |change: fn(&mut DeviceBatch)| {
            let mut batch = DeviceBatch::default();
            change(&mut batch);
            batch.most_words()
        };
        assert_eq!(one(|_| ()), 0);
        assert_eq!(one(|batch| batch.offsets.1 = 7), 7);
        assert_eq!(one(|batch| batch.sizes.1 = 7), 7);
        assert_eq!(one(|batch| batch.types.1 = 7), 7);
        assert_eq!(one(|batch| batch.versions = Some((0, 7))), 7);
        assert_eq!(one(|batch| batch.selected = Some((0, 7))), 7);
    }
}
