//! GPU kernels in ordinary Rust: write a kernel once, test it on the CPU, run it on an NVIDIA GPU.
//!
//! | module | |
//! |---|---|
//! | [`block`] | the trait [`Block`]: what a thread sees of its block; a kernel is a function generic over it |
//! | [`kernel`] | kernels as types, and the trait [`Launcher`] that runs them |
//! | [`memory`] | views of global memory, arrays in shared memory |
//! | [`primitives`] | warp and block algorithms, one a file |
//! | `nvptx` | `Block` on NVIDIA hardware; exists for the target `nvptx64-nvidia-cuda` only |
//! | `executor` | `Block` on the CPU, with checks for races, divergence and bounds; feature `executor` |
//! | `ptx` | compiles a crate of kernels to PTX and assembles it; feature `ptx-build` |
//!
//! The README goes from an empty crate to a kernel that runs on a GPU.
#![cfg_attr(not(any(feature = "executor", feature = "ptx-build")), no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(asm_experimental_arch, link_llvm_intrinsics))]
// The hardware's intrinsics have no other name.
#![cfg_attr(target_arch = "nvptx64", allow(internal_features))]
// On the device nothing may stay a call: a method of `Block` becomes one instruction only where it is inlined.
#![allow(clippy::inline_always)]

pub mod block;
pub mod kernel;
pub mod memory;
pub mod primitives;

#[cfg(feature = "executor")]
pub mod executor;
#[cfg(target_arch = "nvptx64")]
pub mod nvptx;
#[cfg(feature = "ptx-build")]
pub mod ptx;

pub use block::{Block, FULL_MASK, WARP_SIZE, blocks_of_warps};
pub use kernel::{Argument, ArgumentVisitor, Arguments, Kernel, Launcher, Shape};
pub use memory::{Global, GlobalMut, NonEmpty, Plain, Scalar, Shared, SharedLayout};

/// The README's programs run.
#[cfg(all(doctest, feature = "executor", feature = "ptx-build"))]
#[doc = include_str!("../README.md")]
struct Readme;
