//! Memory for columns: grows in place, lies on huge pages, and can be used again.
//!
//! A column can have gigabytes: growing must not copy it, and a page fault every 4 kB takes as long
//! as writing.

use std::io;
use std::sync::{Arc, Mutex, Weak};

use memmap2::{Advice, MmapMut, RemapOptions};
use ut_decoding::UtHits;
use ut_decoding::memory::{self, TooMuchMemory};

/// Size of a huge page in bytes.
const HUGE: usize = 1 << 21;

/// Size of a column in bytes from which the available memory is checked first.
const LARGE: usize = 1 << 28;

/// Maximum number of maps to keep for later columns.
const KEPT: usize = 16;

/// Hits of batches that are out of use.
pub type Spare = Mutex<Vec<UtHits>>;

/// Maximum number of batches whose memory the caller's hits leave for the next ones.
const KEPT_HITS: usize = 8;

/// Maps that are out of use, with their pages.
#[derive(Default)]
pub struct Pool(Mutex<Vec<Used>>);

/// A map, and how many of its bytes were written once, so that they take memory already.
type Used = (MmapMut, usize);

pub struct Pages {
    map: MmapMut,
    len: usize,
    touched: usize,
    pool: Weak<Pool>,
}

impl Pages {
    /// Makes an empty column of about `bytes` bytes.
    pub fn new(bytes: usize, pool: Weak<Pool>) -> io::Result<Self> {
        let used = pool
            .upgrade()
            .and_then(|pool| pool.0.try_lock().ok()?.pop());
        let (map, touched) = match used {
            Some(used) => used,
            None => (of_size(bytes)?, 0),
        };
        Ok(Self {
            map,
            len: 0,
            touched,
            pool,
        })
    }

    pub fn extend(&mut self, bytes: &[u8]) -> io::Result<()> {
        let end = self.len + bytes.len();
        if end > self.touched {
            // There is room for all hits, but pages take memory when written; without any the
            // system ends the process.
            if end / LARGE > self.touched / LARGE {
                // The other columns grow with this one.
                memory::check("the hits", 8 * LARGE as u64).map_err(too_much)?;
            }
            self.touched = end;
        }
        if end > self.map.len() {
            self.grow(end)?;
        }
        self.map[self.len..end].copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }

    fn grow(&mut self, needed: usize) -> io::Result<()> {
        // Room that is not written takes no memory.
        let wanted = rounded(needed.max(2 * self.map.len()));
        let options = RemapOptions::new().may_move(true);
        // SAFETY:
        // - there is no file behind the map, beyond whose end it could reach;
        // - there is no pointer into it: that takes a shared reference, and this one is not shared.
        unsafe { self.map.remap(wanted, options) }?;
        advise(&self.map);
        Ok(())
    }
}

/// Returns the refusal as an error of a file in memory.
pub fn too_much(error: TooMuchMemory) -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, error)
}

/// Huge pages are filled from their beginning; a page for a handful of hits would waste one.
fn rounded(bytes: usize) -> usize {
    bytes.next_multiple_of(if bytes < HUGE { 1 << 14 } else { HUGE })
}

fn of_size(bytes: usize) -> io::Result<MmapMut> {
    let map = MmapMut::map_anon(rounded(bytes.max(1)))?;
    advise(&map);
    Ok(map)
}

fn advise(map: &MmapMut) {
    if map.len() >= HUGE {
        // Without huge pages everything works, a little slower.
        let _ = map.advise(Advice::HugePage);
    }
}

impl AsRef<[u8]> for Pages {
    fn as_ref(&self) -> &[u8] {
        &self.map[..self.len]
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let Some(pool) = self.pool.upgrade() else {
            return;
        };
        let Ok(empty) = MmapMut::map_anon(1) else {
            return;
        };
        // Without waiting: in a forked process, the thread that would open the lock may be gone.
        if let Ok(mut maps) = pool.0.try_lock()
            && maps.len() < KEPT
        {
            maps.push((std::mem::replace(&mut self.map, empty), self.touched));
        }
    }
}

/// Hits of a batch where the decoder wrote them. When their last column is dropped, their memory is
/// used again.
pub struct Lent {
    hits: Option<UtHits>,
    spare: Weak<Spare>,
}

impl Lent {
    pub fn new(hits: UtHits, spare: &Arc<Spare>) -> Arc<Self> {
        Arc::new(Self {
            hits: Some(hits),
            spare: Arc::downgrade(spare),
        })
    }

    /// Returns a column.
    pub fn bytes(&self, of: fn(&UtHits) -> &[u8]) -> &[u8] {
        self.hits.as_ref().map_or(&[], of)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(spare) = self.spare.upgrade() else {
            return;
        };
        // Without waiting: in a forked process, the thread that would open the lock may be gone.
        if let Ok(mut spare) = spare.try_lock()
            && spare.len() < KEPT_HITS
        {
            spare.extend(self.hits.take());
        }
    }
}
