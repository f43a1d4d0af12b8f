//! Faults that the executor finds in a kernel.

use std::panic::Location;

use super::shadow::AccessRecord;

/// Rule that a kernel broke, with place and thread.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("kernel {kernel}, block {block}, warp {}, lane {} (thread {thread}), at {}: {fault}",
    thread / 32, thread % 32, Place(*location, fault.panic_place()))]
pub struct Violation {
    /// Name of the kernel, as given to [`Executor::launch`](super::Executor::launch).
    pub kernel: String,
    /// Index of the block in the grid, x fastest.
    pub block: u32,
    /// Index of the thread in the block, x fastest.
    pub thread: u32,
    /// Place in the source; `None` if it is unknown, and for a panic, whose fault has it.
    pub location: Option<&'static Location<'static>>,
    /// The rule that was broken.
    pub fault: Fault,
}

/// Kinds of faults.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says it")]
pub enum Fault {
    /// A lane of a collective's mask never arrives.
    #[error("{operation} waits for the lanes of mask {mask:#010x}, but lane {missing} {doing}")]
    DivergentCollective {
        operation: &'static str,
        mask: u32,
        missing: u32,
        doing: String,
    },
    /// The caller of a collective is not in its own mask.
    #[error("{operation} is called with mask {mask:#010x}, which does not contain its own lane")]
    NotInMask { operation: &'static str, mask: u32 },
    /// A shuffle reads from a lane that does not take part.
    #[error("{operation} reads from lane {source_lane}, which is not in mask {mask:#010x}")]
    SourceNotInMask {
        operation: &'static str,
        mask: u32,
        source_lane: u32,
    },
    /// A thread never arrives at a barrier. `reached_by` names the threads that wait there.
    #[error(
        "sync_threads waits for all threads, and only {reached_by} reached it, so that it stands behind a condition or an \
         early return; thread {missing} {doing}"
    )]
    MissedBarrier {
        reached_by: String,
        missing: u32,
        doing: String,
    },
    /// A thread reads shared memory that no thread of the block has written.
    #[error(
        "reads shared memory at byte {byte}, which no thread wrote as an element of {size} bytes ({array})"
    )]
    UnwrittenShared { byte: u32, size: u32, array: String },
    /// Two threads access one element, at least one writes it, and nothing orders the accesses.
    #[error("{access} of {memory} {place} ({array}) races with the {other}")]
    Race {
        access: &'static str,
        memory: &'static str,
        place: u32,
        array: Box<str>,
        other: String,
    },
    /// An access is outside its array.
    #[error("{access} of {memory} element {index} of {len}")]
    OutOfBounds {
        access: &'static str,
        memory: &'static str,
        index: u32,
        len: u32,
    },
    /// The block does more than [`Executor::limit_steps`](super::Executor::limit_steps) allows.
    #[error(
        "the block is not done after {steps} accesses and collectives: a loop without end, or more work than \
         `Executor::limit_steps` allows"
    )]
    Endless { steps: u64 },
    /// A thread only reads, so that no other can run: see
    /// [`Executor::limit_steps`](super::Executor::limit_steps).
    #[error(
        "the thread has read {steps} times without a write, a collective, a barrier or `pause()`: if it waits for another \
         thread, the loop needs `pause()`, which lets others run; `Executor::limit_steps` allows more reads"
    )]
    Spinning { steps: u64 },
    /// All resident blocks wait, and none can change what the others wait for.
    #[error(
        "waits for another block forever: {waiting} blocks of {grid} have begun and wait, {finished} are done, and \
         the device holds {resident} at a time"
    )]
    Deadlock {
        waiting: u32,
        finished: u32,
        resident: u32,
        grid: u32,
    },
    /// The kernel used another launch's view, or more shared memory than the launch has.
    #[error("{0}")]
    BadLaunch(String),
    /// The kernel panicked: message, and place in the source if known.
    #[error("panicked: {0}")]
    Panicked(String, Option<String>),
}

impl Fault {
    fn panic_place(&self) -> Option<&str> {
        if let Self::Panicked(_, place) = self {
            place.as_deref()
        } else {
            None
        }
    }
}

struct Place<'a>(Option<&'static Location<'static>>, Option<&'a str>);

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.0, self.1) {
            (Some(location), _) => location.fmt(f),
            (None, place) => f.write_str(place.unwrap_or("an unknown place")),
        }
    }
}

/// Describes the earlier access, by a thread of block number `block`.
pub fn describe(record: &AccessRecord, block: u32) -> String {
    let kind = if record.is_atomic() {
        "atomic"
    } else if record.is_write() {
        "write"
    } else {
        "read"
    };
    let several = if record.is_of_block() {
        ""
    } else {
        "several blocks, the last one being "
    };
    format!(
        "{kind} by {several}thread {} of block {block} at {}",
        record.thread(),
        Place(record.location(), None)
    )
}
