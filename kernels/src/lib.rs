//! Device code of `ut-decoding`: decoding of LHCb Upstream Tracker (UT) raw banks into hits.
//!
//! The crate is `no_std`, allocates nothing and is ordinary Rust: what a kernel does is written once and runs on an
//! NVIDIA GPU and on the CPU alike, by way of [`simt`]. The types in [`detector`] and [`report`] cross between host and device as they are.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
// On the device nothing may stay a call: methods of `Block` become single instructions only where they are inlined.
#![allow(clippy::inline_always)]

pub mod bank;
pub mod cluster_and_predecode;
pub mod clustering;
pub mod compress_and_make_keys;
pub mod count_hits;
pub mod decode_in_order;
pub mod detector;
pub mod find_permutation;
pub mod fused;
pub mod headers;
pub mod hit;
pub mod hit_parallel;
pub mod prefix_sum;
pub mod report;
pub mod status;
pub mod switches;
pub mod tables;

#[cfg(target_arch = "nvptx64")]
mod nvptx;
