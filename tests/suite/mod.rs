//! Events, batches in both layouts, and comparisons for the tests of all decoders.
//!
//! Nothing here uses the library's readers or builders: a fault in a shared reader would change the
//! expected result in the same way.
#![allow(dead_code, reason = "each test program uses a part")]

pub mod allocations;
pub mod backends;
pub mod data;
pub mod events;
#[cfg(target_os = "linux")]
pub mod guard;
pub mod nasty;
#[cfg(feature = "parquet")]
pub mod table;
