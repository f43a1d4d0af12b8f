//! Device code of `ut-decoding`: LHCb Upstream Tracker (UT) raw banks to hits, `no_std`, without
//! allocation.
//!
//! [`ranked`] and [`allen`] are the pipelines: a file a kernel, and the order of launches in
//! `pipeline.rs`. They share the rest: [`bank`] reads and checks raw banks, [`clustering`] finds
//! clusters, [`hit`] makes hits. A kernel runs on an NVIDIA GPU and, in [`simt`]'s executor, on the
//! CPU. [`detector`] and [`report`] are shared with the CPU decoder.
//!
//! With the feature `ptx`, the module `ptx` has the kernels as PTX, so that users need no compiler
//! for it.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
// On the device nothing may stay a call: methods of `Block` become single instructions only where
// they are inlined.
#![allow(clippy::inline_always)]

pub mod allen;
pub mod bank;
pub mod clustering;
pub mod hit;
#[cfg(feature = "ptx")]
pub mod ptx;
pub mod ranked;
pub mod status;
pub mod switches;
pub mod tables;

#[cfg(target_arch = "nvptx64")]
mod entries;

pub use ut_format::{detector, report};
