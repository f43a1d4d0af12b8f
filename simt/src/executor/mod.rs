//! Kernels on the CPU, checked.
//!
//! [`Executor`] runs any kernel that is generic over [`Block`](crate::Block). Every thread is a
//! coroutine that runs until it needs other threads. The executor reports, with kernel, block,
//! thread and place in the source:
//! - a collective that not all lanes of its mask reach, or a shuffle from a lane outside the mask;
//! - a barrier that not all threads of the block reach;
//! - a read of shared memory that no thread wrote;
//! - a race: two threads access an element of shared or global memory, at least one writes, and no
//!   barrier, atomics, or release and acquire order them;
//! - an access out of bounds;
//! - blocks that wait for each other forever, and loops without end.
//!
//! A missing release or acquire shows as a wrong result: half of the loads that are not ordered
//! after another block's store give the value before it.
//!
//! The order of blocks, warps and threads comes from a seed, so that a test can try many schedules;
//! `active_mask` answers with an arbitrary part of the lanes that wait. Some warps and blocks are
//! held back until no other can go on. [`explore`] tries seeds, and shrinks a failing schedule to
//! the few choices that matter. A kernel that recurses without end overflows its thread's stack,
//! whose guard page ends the process.

mod block;
mod explore;
mod known;
mod launch;
mod order;
mod schedule;
mod shadow;
mod stats;
mod violation;

pub use block::EmulatedBlock;
pub use explore::{Failure, explore};
pub use launch::{Executor, Grid};
pub use stats::LaunchStats;
pub use violation::{Fault, Violation};
