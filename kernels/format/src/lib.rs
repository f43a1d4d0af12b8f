//! Vocabulary of LHCb's Upstream Tracker (UT) that CPUs and GPUs share: lanes and sectors, raw
//! banks, counters.
//!
//! | module | |
//! |---|---|
//! | [`bank`] | types of banks, boards by their sourceID, layouts of a batch |
//! | [`detector`] | lane slots, sectors and their constants, versions of the bank format |
//! | [`report`] | counters of each event: what was decoded, and what was wrong |
//!
//! The crates `ut-data` and `ut-kernels` are built on it, the latter compiled for the GPU. Hence
//! `no_std`, no allocation, no dependency unless a feature asks for one: `bytemuck` derives its
//! markers, `simt` lets the types cross to the device.
//!
//! ```
//! use ut_format::detector::BankVersion;
//!
//! assert_eq!(ut_format::bank::board_of(6 << 11 | 1 << 10 | 0x6C), Some(215));
//! assert_eq!(BankVersion::from_byte(4), Some(BankVersion::V5));
//! ```
#![no_std]
// On the device nothing may stay a call.
#![allow(clippy::inline_always)]

pub mod bank;
pub mod detector;
pub mod report;
