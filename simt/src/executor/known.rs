//! Knowledge of other blocks: which of their accesses are over, and which values may still be on their way.
//!
//! A release attaches to an element what its thread is ordered after; an acquire that reads the value adds that to what its
//! own thread is ordered after. As long as a thread is not ordered after the latest atomic write of an element, and its block
//! has not read it, a load may give the value before: half of the time it does, so that a kernel that relies on luck
//! fails. An element keeps no more than its last two values: what a load gives never goes backwards.

use std::panic::Location;
use std::sync::Arc;

use super::block::{LaunchState, ThreadState};
use super::shadow::{Record, Sharers, Touch};
use super::violation::describe;

/// The accesses of one block that are over.
#[derive(Clone, Debug)]
struct Over {
    serial: u32,
    /// All before this epoch.
    epoch: u32,
    /// In this epoch, by warp: those of each lane up to a clock.
    warps: Vec<(u16, [u32; 32])>,
}

impl Over {
    fn add(&mut self, other: &Self) {
        if other.epoch > self.epoch {
            self.clone_from(other);
        } else if other.epoch == self.epoch {
            for (warp, clocks) in &other.warps {
                match self.warps.iter_mut().find(|own| own.0 == *warp) {
                    Some((_, own)) => own.iter_mut().zip(clocks).for_each(|(own, &clock)| *own = clock.max(*own)),
                    None => self.warps.push((*warp, *clocks)),
                }
            }
        }
    }
}

/// Accesses that a thread is ordered after besides those before its block's barriers, by serial of the block.
#[derive(Clone, Debug, Default)]
pub struct Knowledge(Vec<Over>);

impl Knowledge {
    /// Returns true if the accesses that the record stands for are over.
    pub fn covers(&self, record: &Record) -> bool {
        let Ok(place) = self.0.binary_search_by_key(&record.serial(), |over| over.serial) else { return false };
        let Over { epoch, warps, .. } = &self.0[place];
        if record.epoch() != *epoch {
            return record.epoch() < *epoch;
        }
        let clocks = warps.iter().find(|(warp, _)| *warp == record.thread() / 32).map(|(_, clocks)| clocks);
        clocks.is_some_and(|clocks| match record.sharers() {
            Sharers::One => record.clock() <= clocks[usize::from(record.thread() % 32)],
            Sharers::LanesOfAWarp => clocks.iter().all(|&clock| record.clock() <= clock),
            Sharers::Warps | Sharers::Blocks => false,
        })
    }
}

/// Knowledge that many share; most threads have none.
pub type Known = Option<Arc<Knowledge>>;

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

/// The latest atomic write of an element.
#[derive(Debug)]
pub struct LatestWrite {
    record: Record,
    /// Accesses that it handed over.
    released: Known,
    /// The value before, and what came with that.
    before: (u64, Known),
    /// Other blocks that have read it.
    read_by: Vec<u32>,
}

impl ThreadState {
    /// Returns what is over for whoever acquires a value that the thread (`thread` of block `serial`) releases now.
    fn release(&mut self, thread: u32, serial: u32, epoch: u32) -> Known {
        let mut clocks = self.seen;
        clocks[(thread % 32) as usize] = self.clock;
        self.clock += 1;
        let over = Over { serial, epoch, warps: vec![((thread / 32) as u16, clocks)] };
        let mut known = self.known.clone();
        join(&mut known, &Some(Arc::new(Knowledge(vec![over]))));
        known
    }
}

impl LaunchState {
    /// The bits that an atomic load gives, of an element that has the bits `latest`.
    pub fn read(&mut self, thread: u32, element: (u32, u32), latest: u64, acquire: bool) -> u64 {
        let Some(write) = self.atomics.get_mut(&element) else { return latest };
        let serial = self.block.serial;
        let own = &mut self.block.threads[thread as usize];
        let known = own.known.as_deref();
        let is_seen = write.record.serial() == serial
            || write.read_by.contains(&serial)
            || known.is_some_and(|known| known.covers(&write.record));
        let name = |serial: u32| self.numbers[(serial - self.oldest) as usize];
        let older = |_| {
            let write = describe(&write.record, name(write.record.serial()));
            format!("thread {thread} of block {} reads what was there before the {write}", name(serial))
        };
        let (value, released) = if is_seen || self.luck.below(2, older) == 0 {
            if !is_seen {
                write.read_by.push(serial);
            }
            (latest, &write.released)
        } else {
            // Who waits is not waiting in vain: the value is on its way.
            self.writes += 1;
            (write.before.0, &write.before.1)
        };
        join(if acquire { &mut own.known } else { &mut own.pending }, released);
        value
    }

    /// An atomic writes an element that had the bits `before`; `reads`: and gives them to its thread.
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
        let record = Record::one(serial, epoch, own.clock, thread as u16, Touch::Atomic, location);
        let mut released = if release { own.release(thread, serial, epoch) } else { own.fenced.clone() };
        let earlier = self.atomics.remove(&element).and_then(|write| write.released);
        if reads {
            // What was released is handed on with what an atomic makes of it.
            join(&mut own.pending, &earlier);
            join(&mut released, &earlier);
        }
        self.atomics.insert(element, LatestWrite { record, released, before: (before, earlier), read_by: Vec::new() });
    }

    pub fn fence(&mut self, thread: u32) {
        let (serial, epoch) = (self.block.serial, self.block.epoch);
        let own = &mut self.block.threads[thread as usize];
        let pending = own.pending.take();
        join(&mut own.known, &pending);
        own.fenced = own.release(thread, serial, epoch);
    }
}
