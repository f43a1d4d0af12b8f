//! Threads that share work, run in every order that matters, on the sources as they are ([`build.rs`](../build.rs)):
//!
//! - the pipeline of files, `host/pipeline.rs`: random orders of its threads' steps (`shuttle`);
//! - the CPU decoder's chunks and turns, `host/decoder/cpu/schedule.rs`: all orders with few switches, and all values that
//!   the memory model lets a thread see (`loom`).
//!
//! `cargo test --manifest-path tests/model/Cargo.toml`

#[cfg(test)]
mod pipeline;
#[cfg(test)]
mod schedule;

// What the sources call by these names.
#[cfg(test)]
mod decoder {
    pub use ut_decoding::decoder::{Cluster, DecodeError, EventReport, UtHitsMut};
}
#[cfg(test)]
mod input {
    pub use ut_decoding::BatchView;
}
