//! GPU kernels in ordinary Rust: write a kernel once, test it on the CPU, run it on an NVIDIA GPU.
//!
//! | module | |
//! |---|---|
//! | [`block`] | the trait [`Block`]: what a thread sees of its block; a kernel is a function generic over it |
//! | [`atomics`] | what atomics do, and on which numbers |
//! | [`math`] | functions of floats |
//! | [`kernel`] | kernels as types, and the trait [`Launcher`] that runs them |
//! | [`memory`] | views of global memory, arrays in shared memory |
//! | [`primitives`] | warp and block algorithms, one a file |
//! | `nvptx` | `Block` on NVIDIA hardware; exists for the target `nvptx64-nvidia-cuda` only |
//! | `executor` | `Block` on the CPU, with checks for races, divergence and bounds; feature `executor` |
//! | `ptx` | compiles a crate of kernels to PTX and assembles it; feature `ptx-build` |
//!
//! ```
//! use simt::primitives::block_reduce::block_reduce;
//! use simt::{Block, Global, GlobalMut, SharedLayout};
//!
//! /// Adds the block's part of `values` to `sum`: on a GPU through `nvptx`, in tests through `executor`.
//! #[inline(always)]
//! fn add_up<B: Block>(block: &B, values: Global<'_, u32>, sum: GlobalMut<'_, u32>) {
//!     let warps = SharedLayout::new().array(32);
//!     let i = block.block_idx_x() * block.threads() + block.thread();
//!     let own = if i < values.len() { block.load(values, i) } else { 0 };
//!     let all = block_reduce(block, warps, own, 0, u32::wrapping_add);
//!     if block.thread() == 0 {
//!         block.atomic_add(sum, 0, all);
//!     }
//! }
//! ```
//!
//! The README goes from an empty crate to a kernel that runs on a GPU.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(asm_experimental_arch, link_llvm_intrinsics)
)]
// The hardware's intrinsics have no other name.
#![cfg_attr(target_arch = "nvptx64", allow(internal_features))]
// On the device nothing may stay a call: a method of `Block` becomes one instruction only where it
// is inlined.
#![allow(clippy::inline_always)]

pub mod atomics;
pub mod block;
pub mod kernel;
pub mod math;
pub mod memory;
pub mod primitives;

#[cfg(feature = "executor")]
pub mod executor;
#[cfg(target_arch = "nvptx64")]
pub mod nvptx;
#[cfg(feature = "ptx-build")]
pub mod ptx;

pub use atomics::{AtomicScalar, Update};
pub use block::{Block, FULL_MASK, Shuffle, WARP_SIZE, blocks_of_warps};
pub use kernel::{Argument, ArgumentVisitor, Arguments, Kernel, Launcher, Shape};
pub use memory::{Global, GlobalMut, NonEmpty, Plain, Scalar, Shared, SharedLayout};

/// The README's programs run.
#[cfg(all(doctest, feature = "executor", feature = "ptx-build"))]
#[doc = include_str!("../README.md")]
struct Readme;
