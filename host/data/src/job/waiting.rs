//! Limits the memory of results that wait to be written: where the output is slower than the
//! decoding, or one piece takes longer than those after it, fetching stops. (The pipeline bounds
//! the number of pieces, but one can become very many hits.)

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::sleep;
use std::time::Duration;

/// Maximum number of bytes per thread; ordinary events stay far below.
const BYTES_OF_THREAD: u64 = 64 << 20;

/// Interval at which a waiting thread looks.
const LOOK: Duration = Duration::from_millis(1);

/// Bytes that were encoded and wait to be written.
pub struct Waiting {
    bytes: AtomicU64,
    most: u64,
    /// True if nothing is written any more.
    ended: AtomicBool,
}

impl Waiting {
    pub const fn new(n_workers: usize) -> Self {
        Self {
            bytes: AtomicU64::new(0),
            most: BYTES_OF_THREAD * n_workers as u64,
            ended: AtomicBool::new(false),
        }
    }

    pub fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, SeqCst);
    }

    /// Waits while too many bytes wait. A thread that waits here holds no piece, so that the others
    /// can finish theirs.
    pub fn wait(&self) {
        while self.bytes.load(SeqCst) > self.most && !self.ended.load(SeqCst) {
            sleep(LOOK);
        }
    }

    /// Writes a piece and takes its bytes off. Returns what `write` returns: true to go on.
    pub fn write(&self, bytes: u64, write: impl FnOnce() -> bool) -> bool {
        /// Ends the waiting even if writing panics.
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

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::{SeqCst, Waiting};

    /// Has more bytes waiting than a thread may add to.
    fn full() -> Waiting {
        let waiting = Waiting::new(1);
        waiting.bytes.store(waiting.most + 1, SeqCst);
        waiting
    }

    #[test]
    fn written_items_no_longer_wait() {
        let waiting = full();
        assert!(waiting.write(waiting.most, || true));
        assert_eq!(
            (waiting.bytes.load(SeqCst), waiting.ended.load(SeqCst)),
            (1, false)
        );
        waiting.wait();
    }

    #[test]
    fn an_output_that_has_ended_blocks_no_thread() {
        let waiting = full();
        assert!(!waiting.write(1, || false));
        assert!(waiting.ended.load(SeqCst));
        waiting.wait();
        let waiting = full();
        catch_unwind(AssertUnwindSafe(|| {
            waiting.write(1, || panic!("on purpose"))
        }))
        .unwrap_err();
        assert!(waiting.ended.load(SeqCst));
        waiting.wait();
    }
}
