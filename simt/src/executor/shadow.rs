//! Latest accesses of each element: the records by which races are found.
//!
//! Each element of writable global memory and of shared memory has a [`Shadow`]: its last write,
//! atomics and reads. Two accesses race if different threads make them, at least one writes, not
//! both are atomic, and nothing orders them. Three things order accesses:
//! - `sync_threads`, among all threads of a block: the *epoch* of a block counts its barriers.
//! - `sync_warp`, among the lanes of its mask: each thread has a *clock*, and keeps for each other
//!   thread of its warp the clock up to which it has *seen* that thread's accesses.
//! - A release and the acquire that reads it, among blocks (`known.rs`).
//!
//! A full vector clock for 1024 threads would cost 4 KiB per element. A record is one access with
//! the threads that it stands for: if several threads read an element without order between them,
//! the record keeps the latest and notes that others share it ([`Sharers`]). A later write must
//! then be ordered after every thread that may share it, which errs on the side of a report.
//!
//! Blocks are numbered through all launches of an executor (*serial*). Records with a serial before
//! the launch's first count as none, so that shadows need not be cleared between launches.

use std::panic::Location;

use super::known::Knowledge;

/// Kind of access to memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Touch {
    #[default]
    Read,
    Write,
    Atomic,
}

impl Touch {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Atomic => "atomic",
        }
    }
}

/// Threads whose accesses a record stands for.
///
/// The more threads share a record, the less is known about each: a record of one thread is
/// compared with its clock, a record of several lanes with the clocks of all 32, and a record of
/// several warps only ends with a barrier of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharers {
    One,
    LanesOfAWarp,
    Warps,
    Blocks,
}

/// One access, or several without order among them.
#[derive(Clone, Copy, Debug)]
pub struct AccessRecord {
    serial: u32,
    epoch: u32,
    clock: u32,
    thread: u16,
    sharers: Sharers,
    touch: Touch,
    location: Option<&'static Location<'static>>,
}

const NO_RECORD: AccessRecord = AccessRecord {
    serial: 0,
    epoch: 0,
    clock: 0,
    thread: 0,
    sharers: Sharers::One,
    touch: Touch::Read,
    location: None,
};

impl AccessRecord {
    pub const fn is_atomic(&self) -> bool {
        matches!(self.touch, Touch::Atomic)
    }
    pub const fn is_write(&self) -> bool {
        !matches!(self.touch, Touch::Read)
    }
    pub const fn is_of_block(&self) -> bool {
        !matches!(self.sharers, Sharers::Blocks)
    }
    pub const fn thread(&self) -> u16 {
        self.thread
    }
    pub const fn serial(&self) -> u32 {
        self.serial
    }
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }
    pub const fn clock(&self) -> u32 {
        self.clock
    }
    pub const fn sharers(&self) -> Sharers {
        self.sharers
    }
    pub const fn one(
        serial: u32,
        epoch: u32,
        clock: u32,
        thread: u16,
        touch: Touch,
        location: &'static Location<'static>,
    ) -> Self {
        Self {
            serial,
            epoch,
            clock,
            thread,
            sharers: Sharers::One,
            touch,
            location: Some(location),
        }
    }
    pub const fn location(&self) -> Option<&'static Location<'static>> {
        self.location
    }
}

/// Thread that touches, and the accesses that it is ordered after.
#[derive(Clone, Copy, Debug)]
pub struct Toucher<'a> {
    /// Serial of the launch's first block.
    pub oldest: u32,
    pub serial: u32,
    pub epoch: u32,
    pub clock: u32,
    pub thread: u16,
    /// For each thread of the warp, clock up to which this thread is ordered after it.
    pub seen: &'a [u32; 32],
    pub known: Option<&'a Knowledge>,
    pub location: &'static Location<'static>,
}

impl Toucher<'_> {
    /// Returns true if this thread is ordered after the record's accesses.
    #[inline]
    fn is_after(&self, record: &AccessRecord) -> bool {
        if record.serial < self.oldest {
            return true;
        }
        if record.sharers == Sharers::Blocks {
            return false;
        }
        if self.known.is_some_and(|known| known.covers(record)) {
            return true;
        }
        if record.serial != self.serial {
            return false;
        }
        if record.epoch < self.epoch {
            return true;
        }
        let same_warp = record.thread / 32 == self.thread / 32;
        match record.sharers {
            Sharers::One => {
                record.thread == self.thread
                    || (same_warp && record.clock <= self.seen[usize::from(record.thread % 32)])
            }
            Sharers::LanesOfAWarp => {
                let own = usize::from(self.thread % 32);
                same_warp
                    && self
                        .seen
                        .iter()
                        .enumerate()
                        .all(|(lane, &seen)| lane == own || record.clock <= seen)
            }
            Sharers::Warps | Sharers::Blocks => false,
        }
    }

    const fn record(&self, touch: Touch) -> AccessRecord {
        AccessRecord::one(
            self.serial,
            self.epoch,
            self.clock,
            self.thread,
            touch,
            self.location,
        )
    }

    /// Returns the record with this thread's access.
    #[inline]
    fn enter(&self, record: &AccessRecord, touch: Touch) -> AccessRecord {
        if self.is_after(record) {
            return self.record(touch);
        }
        let sharers = if record.serial != self.serial {
            Sharers::Blocks
        } else if record.thread / 32 == self.thread / 32 && record.sharers != Sharers::Warps {
            Sharers::LanesOfAWarp
        } else {
            Sharers::Warps
        };
        let sharers = if record.sharers == Sharers::Blocks {
            Sharers::Blocks
        } else {
            sharers
        };
        AccessRecord {
            sharers,
            clock: self.clock.max(record.clock),
            ..self.record(touch)
        }
    }
}

/// Latest accesses of one element. Writes and atomics are kept apart since atomics do not race with
/// each other.
#[derive(Clone, Copy, Debug)]
pub struct Shadow {
    write: AccessRecord,
    atomic: AccessRecord,
    read: AccessRecord,
}

impl Default for Shadow {
    fn default() -> Self {
        Self {
            write: NO_RECORD,
            atomic: NO_RECORD,
            read: NO_RECORD,
        }
    }
}

impl Shadow {
    /// Records an access, or returns an earlier one that races with it.
    #[inline]
    pub fn touch(&mut self, toucher: &Toucher<'_>, touch: Touch) -> Option<AccessRecord> {
        if !toucher.is_after(&self.write) {
            return Some(self.write);
        }
        if touch != Touch::Atomic && !toucher.is_after(&self.atomic) {
            return Some(self.atomic);
        }
        if touch != Touch::Read && !toucher.is_after(&self.read) {
            return Some(self.read);
        }
        match touch {
            Touch::Read => self.read = toucher.enter(&self.read, touch),
            Touch::Atomic => self.atomic = toucher.enter(&self.atomic, touch),
            Touch::Write => self.write = toucher.record(touch),
        }
        None
    }
}
