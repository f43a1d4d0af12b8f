//! Order between blocks: the accesses of other blocks that a thread may rely on, and the values
//! that may still be on their way to it.
//!
//! Blocks have no barrier. They are ordered by release and acquire alone: a release attaches to an
//! element all accesses that its thread is ordered after, and an acquire that reads the value adds
//! these to the accesses that its own thread is ordered after.
//!
//! On hardware, a relaxed load may give an older value for a while, and mostly does not, which is
//! why such bugs survive tests. Here, as long as a thread is not ordered after the latest atomic
//! write of an element, and its block has not read that write, half of the loads give the value
//! before it: a kernel that relies on luck fails. An element keeps its last two values, and
//! successive loads of a block never go backwards.
//!
//! # Example: a flag that publishes a sum
//!
//! ```text
//! block 0                                block 1
//! store(sums, 0, 17)
//! atomic_store_release(flags, 0, 1)      while atomic_load_acquire(flags, 0) == 0 { pause() }
//!                                        load_mut(sums, 0)
//! ```
//!
//! The release attaches to `flags[0]` that block 0's store to `sums[0]` is over. The acquire that
//! reads the 1 adds this to what the thread of block 1 knows. So the load that follows is ordered
//! after the store. With a relaxed store of the flag nothing would be attached, and the load would
//! be reported as a race with the store; and if `sums` were accessed by relaxed atomics as well,
//! there would be no race, but half of the loads would give the value before 17.

use std::panic::Location;
use std::sync::Arc;

use super::block::{LaunchState, ThreadState};
use super::shadow::{AccessRecord, Sharers, Touch};
use super::violation::describe;

/// Accesses of one block that a thread is ordered after.
#[derive(Clone, Debug)]
struct Over {
    serial: u32,
    /// Number of barriers of the block passed so far: all accesses before the last one are over.
    epoch: u32,
    /// Warps with accesses since that barrier, each with the clock of each lane up to which they
    /// are over.
    warps: Vec<(u16, [u32; 32])>,
}

impl Over {
    /// Adds the accesses of the same block that another thread is ordered after.
    fn add(&mut self, other: &Self) {
        if other.epoch > self.epoch {
            self.clone_from(other);
        } else if other.epoch == self.epoch {
            for (warp, clocks) in &other.warps {
                match self.warps.iter_mut().find(|own| own.0 == *warp) {
                    Some((_, own)) => own
                        .iter_mut()
                        .zip(clocks)
                        .for_each(|(own, &clock)| *own = clock.max(*own)),
                    None => self.warps.push((*warp, *clocks)),
                }
            }
        }
    }
}

/// Accesses of all blocks that a thread is ordered after, sorted by the serial of the block.
#[derive(Clone, Debug, Default)]
pub struct Knowledge(Vec<Over>);

impl Knowledge {
    /// Returns true if the record's accesses are over.
    pub fn covers(&self, record: &AccessRecord) -> bool {
        let Ok(place) = self
            .0
            .binary_search_by_key(&record.serial(), |over| over.serial)
        else {
            return false;
        };
        let Over { epoch, warps, .. } = &self.0[place];
        if record.epoch() != *epoch {
            return record.epoch() < *epoch;
        }
        let clocks = warps
            .iter()
            .find(|(warp, _)| *warp == record.thread() / 32)
            .map(|(_, clocks)| clocks);
        clocks.is_some_and(|clocks| match record.sharers() {
            Sharers::One => record.clock() <= clocks[usize::from(record.thread() % 32)],
            Sharers::LanesOfAWarp => clocks.iter().all(|&clock| record.clock() <= clock),
            Sharers::Warps | Sharers::Blocks => false,
        })
    }
}

/// Knowledge that threads share until one thread learns more; usually `None`, which means no
/// knowledge.
pub type Known = Option<Arc<Knowledge>>;

/// Adds `other` to `known`.
pub fn join(known: &mut Known, other: &Known) {
    let Some(more) = other else { return };
    let Some(own) = known else {
        known.clone_from(other);
        return;
    };
    if !Arc::ptr_eq(own, more) {
        let own = Arc::make_mut(own);
        for over in &more.0 {
            match own.0.binary_search_by_key(&over.serial, |own| own.serial) {
                Ok(place) => own.0[place].add(over),
                Err(place) => own.0.insert(place, over.clone()),
            }
        }
    }
}

/// Latest atomic write of an element, with the value before it, which others may still see.
#[derive(Debug)]
pub struct LatestWrite {
    record: AccessRecord,
    /// Accesses that the write released.
    released: Known,
    /// Bits of the value before, and the accesses released with it.
    before: (u64, Known),
    /// Serials of other blocks that have read the new value.
    read_by: Vec<u32>,
}

impl ThreadState {
    /// Returns the accesses that a release by this thread, `thread` of block `serial`, publishes.
    fn release(&mut self, thread: u32, serial: u32, epoch: u32) -> Known {
        let mut clocks = self.seen;
        clocks[(thread % 32) as usize] = self.clock;
        self.clock += 1;
        let over = Over {
            serial,
            epoch,
            warps: vec![((thread / 32) as u16, clocks)],
        };
        let mut known = self.known.clone();
        join(&mut known, &Some(Arc::new(Knowledge(vec![over]))));
        known
    }
}

impl LaunchState {
    /// Returns the bits that an atomic load gives: `latest`, which memory holds, or the value
    /// before.
    pub fn read(&mut self, thread: u32, element: (u32, u32), latest: u64, acquire: bool) -> u64 {
        let Some(write) = self.atomics.get_mut(&element) else {
            return latest;
        };
        let serial = self.block.serial;
        let own = &mut self.block.threads[thread as usize];
        let known = own.known.as_deref();
        let is_seen = write.record.serial() == serial
            || write.read_by.contains(&serial)
            || known.is_some_and(|known| known.covers(&write.record));
        let name = |serial: u32| self.numbers[(serial - self.oldest) as usize];
        let older = |_| {
            let write = describe(&write.record, name(write.record.serial()));
            format!(
                "thread {thread} of block {} reads what was there before the {write}",
                name(serial)
            )
        };
        let (value, released) = if is_seen || self.luck.below(2, older) == 0 {
            if !is_seen {
                write.read_by.push(serial);
            }
            (latest, &write.released)
        } else {
            // The newer value is on its way: a block that waits for it must get another turn.
            self.writes += 1;
            (write.before.0, &write.before.1)
        };
        join(
            if acquire {
                &mut own.known
            } else {
                &mut own.pending
            },
            released,
        );
        value
    }

    /// Records an atomic write of an element that had the bits `before`. `reads`: the thread
    /// receives them, too; `release`: the write releases.
    pub fn write(
        &mut self,
        thread: u32,
        element: (u32, u32),
        before: u64,
        (reads, release): (bool, bool),
        location: &'static Location<'static>,
    ) {
        self.writes += 1;
        let (serial, epoch) = (self.block.serial, self.block.epoch);
        let own = &mut self.block.threads[thread as usize];
        let record = AccessRecord::one(
            serial,
            epoch,
            own.clock,
            thread as u16,
            Touch::Atomic,
            location,
        );
        let mut released = if release {
            own.release(thread, serial, epoch)
        } else {
            own.fenced.clone()
        };
        let earlier = self
            .atomics
            .remove(&element)
            .and_then(|write| write.released);
        if reads {
            // A read-modify-write continues the release sequence: whoever acquires its value also
            // acquires what was released with the value before.
            join(&mut own.pending, &earlier);
            join(&mut released, &earlier);
        }
        self.atomics.insert(
            element,
            LatestWrite {
                record,
                released,
                before: (before, earlier),
                read_by: Vec::new(),
            },
        );
    }

    /// Orders a thread's accesses as a fence does: acquires what its relaxed loads have read, and
    /// lets its later relaxed stores release what came before.
    pub fn fence(&mut self, thread: u32) {
        let (serial, epoch) = (self.block.serial, self.block.epoch);
        let own = &mut self.block.threads[thread as usize];
        let pending = own.pending.take();
        join(&mut own.known, &pending);
        own.fenced = own.release(thread, serial, epoch);
    }
}
