//! What waits to be written: where an output is slower than the decoding, or a piece takes longer than those after it, nothing
//! more is fetched once that takes too much memory. (The number of pieces is bounded, too, but not what becomes of one.)

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::sleep;
use std::time::Duration;

use super::work::{Batch, Done};
use crate::output::Encoded;

/// Bytes for each thread: ordinary events never have as many.
const BYTES_OF_THREAD: u64 = 64 << 20;

/// How often those who wait look.
const LOOK: Duration = Duration::from_millis(1);

/// Bytes that were encoded and wait to be written.
pub struct Waiting {
    bytes: AtomicU64,
    most: u64,
    /// Nobody takes them any more.
    ended: AtomicBool,
}

impl Waiting {
    /// None so far, of what `n_workers` threads decode.
    pub const fn new(n_workers: usize) -> Self {
        Self { bytes: AtomicU64::new(0), most: BYTES_OF_THREAD * n_workers as u64, ended: AtomicBool::new(false) }
    }

    /// Adds those of a piece.
    pub fn add(&self, done: &Done) {
        self.bytes.fetch_add(bytes_of(done), SeqCst);
    }

    /// Waits while there are too many. Who has to wait has fetched nothing, so what the others write does not need it.
    pub fn wait(&self) {
        while self.bytes.load(SeqCst) > self.most && !self.ended.load(SeqCst) {
            sleep(LOOK);
        }
    }

    /// Takes those of a piece off when `write` has written them; it says whether there is to be more.
    pub fn write(&self, bytes: u64, write: impl FnOnce() -> bool) -> bool {
        /// Also when writing panics: nobody is to wait then.
        struct End<'a>(&'a Waiting, bool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.ended.fetch_or(!self.1, SeqCst);
            }
        }
        let mut end = End(self, false);
        end.1 = write();
        self.bytes.fetch_sub(bytes, SeqCst);
        end.1
    }
}

/// Bytes of a piece that are to be written.
pub fn bytes_of(done: &Done) -> u64 {
    let of_batch = |batch: &Batch| match &batch.encoded {
        Some(Encoded::Text(text)) => text.len() as u64,
        // Seven columns, and some that were asked for.
        Some(Encoded::Arrays(_) | Encoded::RowGroup(_)) => 40 * batch.part.hits(),
        None => 0,
    };
    done.batches.iter().map(of_batch).sum()
}
