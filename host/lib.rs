//! Decoding of LHCb Upstream Tracker (UT) raw banks into hits, on NVIDIA GPUs and on CPUs, with the
//! same bits everywhere.
//!
//! A [`HitReader`] reads files as hits. A program that holds raw banks has a [`Decoder`], made
//! once, for the [`DetectorTables`] of a detector and [`DecodeOptions`]. Batch after batch it turns
//! raw banks ([`BatchView`]) into hits ([`UtHits`]) and counts of findings and troubles
//! ([`BatchReport`]). Hits and report are the caller's, and are used again: decoding allocates
//! nothing once they are large enough.
//!
//! | step | types |
//! |---|---|
//! | detector | [`Boards`] and [`Geometry`] from files, a [`Grouping`] of sectors: [`DetectorTables`] |
//! | files as hits | [`HitReader`], batch by batch |
//! | raw banks from files | [`Events`], one by one or in batches |
//! | raw banks in memory | [`BatchView`] over the caller's bytes, without a copy; or [`BatchBuilder`] from [`Bank`]s |
//! | decoding | [`CpuDecoder`], fast; [`ReferenceDecoder`], plain; with features `cuda` and `emulated`, the device kernels |
//! | results | [`UtHits`], [`Hit`] by [`Hit`], [`BatchReport`]; [`CsvWriter`]; with `files`, [files](output) of hits |
//!
//! Damaged banks are not errors: each is skipped and counted ([`Count`]), and the rest of its event
//! is kept. Errors ([`DecodeError`]) mean that the output is too small or that a device failed.
//!
//! # Example
//!
//! ```
//! # #[cfg(feature = "synth")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use ut_decoding::{
//!     Bank, BankVersion, BatchBuilder, BatchReport, CpuDecoder, DecodeOptions, Decoder, DetectorTables, EventBatch,
//!     EventMeta, Grouping, UtHits, synth,
//! };
//!
//! // Boards::read and Geometry::read read the tables of your own detector from files.
//! let (boards, geometry) = synth::detector(BankVersion::V5, 1);
//! let tables = DetectorTables::new(boards, geometry, Grouping::YRows)?;
//! let mut decoder = CpuDecoder::new(&tables, DecodeOptions::default());
//!
//! // One event of one bank of board 0: one hit on lane 0, strip 5 with ADC 9.
//! let mut payload = [0; 32];
//! payload[4] = 1;
//! payload[28..30].copy_from_slice(&(5u16 << 5 | 9).to_le_bytes());
//! let bank = Bank { kind: 66, version: Some(BankVersion::V5.byte()), source_id: 0, payload: &payload };
//! let (mut builder, mut batch) = (BatchBuilder::new(), EventBatch::default());
//! builder.push(EventMeta::default(), [bank].into_iter())?;
//! builder.finish(&mut batch);
//!
//! let mut hits = UtHits::with_capacity(1, tables.n_groups(), batch.view().max_hits());
//! let mut report = BatchReport::new();
//! decoder.decode(batch.view(), &mut hits, &mut report)?;
//! assert_eq!(hits.len(), 1);
//! assert!(!report.has_trouble());
//! println!("x = {} mm, id {:#x}", hits.x_at_y_eq0()[0], hits.id()[0]);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "synth"))]
//! # fn main() {}
//! ```
//!
//! # Features
//!
//! `default-features = false` leaves the decoders `cpu` and `reference`, input, and hits as CSV.
//! `cuda` adds NVIDIA GPUs, `emulated` the same kernels checked on the CPU, `files` files of hits
//! as CSV, `parquet` also as Parquet, `synth` a synthetic detector with events, `serde`
//! serialisable options; `cli`, the default, is the tool `ut-decode`.

#[cfg(feature = "cli")]
#[doc(hidden)]
pub use ut_bench as bench;
#[cfg(not(feature = "files"))]
#[doc(inline)]
pub use ut_data::output;
#[cfg(feature = "synth")]
#[doc(inline)]
pub use ut_data::synth;
#[doc(inline)]
pub use ut_data::{detector, error, input, pipeline};
#[doc(hidden)]
pub use ut_data::{job, memory};
pub use ut_decoders as decoder;
#[cfg(feature = "files")]
pub use ut_files as output;
#[cfg(feature = "report")]
pub use ut_report as views;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub use ut_tool as cli;

#[cfg(any(feature = "cuda", feature = "emulated"))]
#[doc(no_inline)]
pub use decoder::Backend;
#[doc(no_inline)]
pub use decoder::HitReader;
#[doc(no_inline)]
pub use decoder::cpu::CpuDecoder;
#[doc(no_inline)]
pub use decoder::reference::ReferenceDecoder;
#[cfg(feature = "files")]
#[doc(no_inline)]
pub use output::{HitFile, HitStyle, OutputError};
#[doc(no_inline)]
pub use ut_data::{
    Bank, BankVersion, BatchBuilder, BatchReport, BatchView, Boards, BuildError, ChannelId,
    Cluster, Count, CsvWriter, DecodeError, DecodeOptions, Decoder, DetectorTables, ErrorKind,
    EventBatch, EventMeta, EventReport, Events, Flip, Geometry, Grouping, Hit, InputError, Kind,
    Layout, LhcbId, Loss, Position, TablesError, UtHits,
};

/// Compiles the README's program.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Compiles the program of the page on integration.
#[cfg(doctest)]
#[doc = include_str!("../docs/integration.md")]
struct Integration;
