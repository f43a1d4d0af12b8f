//! Batches with an unreadable page after their last byte: the system kills a decoder that reads on.

use std::io::Write;

use memmap2::{MmapOptions, MmapRaw};
use ut_decoding::{BatchView, EventBatch};

/// Size of at least one page on any system, in bytes.
const PAGE: usize = 1 << 16;

/// Bytes that end at the end of a file's last page. The mapping goes on for one page, for which
/// there is no file.
struct GuardedBytes {
    map: MmapRaw,
    begin: usize,
    len: usize,
}

impl GuardedBytes {
    fn new(bytes: &[u8]) -> Self {
        let size = bytes.len().next_multiple_of(PAGE).max(PAGE);
        let begin = size - bytes.len();
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(&vec![0xEE; begin]).expect("room for a page");
        file.write_all(bytes).expect("room for the batch");
        let map = MmapOptions::new()
            .len(size + PAGE)
            .map_raw_read_only(&file)
            .expect("a mapping");
        Self {
            map,
            begin,
            len: bytes.len(),
        }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY:
        // - The file has these bytes, and nothing else uses it.
        // - The mapping lives as long as the result.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(self.begin), self.len) }
    }

    fn words(&self) -> &[u32] {
        bytemuck::cast_slice(self.bytes())
    }
}

/// Batch in which each part is followed by an unreadable page.
pub struct GuardedBatch {
    batch: EventBatch,
    raw: GuardedBytes,
    offsets: GuardedBytes,
    sizes: GuardedBytes,
    types: GuardedBytes,
    versions: Option<GuardedBytes>,
}

impl GuardedBatch {
    pub fn new(batch: EventBatch) -> Self {
        let guard = |words: &[u32]| GuardedBytes::new(bytemuck::cast_slice(words));
        Self {
            raw: GuardedBytes::new(&batch.raw),
            offsets: guard(&batch.offsets),
            sizes: guard(&batch.sizes),
            types: guard(&batch.types),
            versions: batch.versions.as_deref().map(guard),
            batch,
        }
    }

    pub fn view(&self) -> BatchView<'_> {
        BatchView {
            raw: self.raw.bytes(),
            offsets: self.offsets.words(),
            sizes: self.sizes.words(),
            types: self.types.words(),
            versions: self.versions.as_ref().map(GuardedBytes::words),
            ..self.batch.view()
        }
    }
}
