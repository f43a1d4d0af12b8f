//! The `emulated` backend: the device kernels on the CPU, checked.
//!
//! [`Executor`] runs any kernel that is generic over [`Block`](ut_kernels::block::Block): every lane is a coroutine that
//! runs until it needs the others. It finds and names, with kernel, block, lane and place in the source:
//! - a collective that not all lanes of its mask reach, or a shuffle from a lane outside;
//! - a barrier that not all threads of the block reach;
//! - a read of shared memory that nobody wrote;
//! - two threads that race on an element of shared or global memory, without a barrier or atomics between them;
//! - an access out of bounds.
//!
//! The order of blocks, warps and lanes comes from a seed, so that a test can try many; `active_mask` answers with any
//! part of the lanes that wait.

mod decoder;
mod executor;
mod fused;
mod hit_parallel;
mod lane;
mod schedule;
mod shadow;
mod stats;
mod violation;

pub use decoder::{EmulatedConfig, EmulatedDecoder};
pub use executor::Executor;
pub use lane::EmulatedBlock;
pub use stats::LaunchStats;
pub use violation::{Fault, Violation};
