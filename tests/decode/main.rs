//! The library: files into batches, batches into hits, hits into files, on every backend.
//!
//! Begin with [`first`]: one bank as bytes, and its hits worked out by hand. Tests that are called
//! `real_…` need events of a real detector, which are not part of the repository: `UT_DECODE_DATA`
//! says where they are, and `cargo test -- --include-ignored real_` runs them.

#[path = "../suite/mod.rs"]
mod suite;

mod backends;
mod columns;
mod contradictions;
mod cpu_memory;
mod detector;
#[cfg(feature = "parquet")]
mod files;
mod first;
mod fixtures;
mod in_place;
mod input;
mod into;
mod outliers;
mod packets;
mod parts;
mod promises;
mod reading;
mod refusals;
#[cfg(feature = "cli")]
mod reports;
mod sections;
mod seen;
mod synth;
mod views;
mod worked_examples;
