//! Device code of `ut-decoding`: decoding of LHCb Upstream Tracker (UT) raw banks into hits, `no_std` and without allocation.
//!
//! [`allen`] and [`fused`] are the pipelines: a file a kernel, and the order of launches in `pipeline.rs`. They share the
//! rest: [`bank`] reads raw banks and checks them, [`clustering`] finds clusters, [`hit`] makes hits of them. By way of
//! [`simt`] a kernel runs on an NVIDIA GPU and on the CPU alike. [`detector`] and [`report`] have the types of the host.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
// On the device nothing may stay a call: methods of `Block` become single instructions only where they are inlined.
#![allow(clippy::inline_always)]

pub mod allen;
pub mod bank;
pub mod clustering;
pub mod detector;
pub mod fused;
pub mod hit;
pub mod report;
pub mod status;
pub mod switches;
pub mod tables;

#[cfg(target_arch = "nvptx64")]
mod entries;
