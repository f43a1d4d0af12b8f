//! Decoding of LHCb Upstream Tracker (UT) raw banks into hits, on NVIDIA GPUs and on CPUs, with the same bits everywhere.
//!
//! The way of the data: [`input`] brings raw banks into an [`EventBatch`]; a [`Decoder`] with its
//! [`DetectorTables`] turns the batch into [`UtHits`] and a [`BatchReport`]; [`output`] writes them to a file, or the
//! next stage of a trigger sequence takes them.

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod bench;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
pub mod decoder;
pub mod detector;
pub mod input;
pub mod memory;
pub mod output;
pub mod pipeline;
#[cfg(feature = "synth")]
pub mod synth;

#[cfg(feature = "device")]
pub use decoder::Backend;
pub use decoder::{BatchReport, DecodeError, DecodeOptions, Decoder, Flip, Position, UtHits};
pub use detector::{DetectorTables, Grouping};
pub use input::{BatchView, EventBatch, EventMeta, Layout};

/// The README's program compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
