//! Decoders: several backends of the trait [`Decoder`], which all give the same bits. A
//! [`HitReader`] reads hits from files.
//!
//! [`cpu::CpuDecoder`] is the one to begin with. Every backend is used in the same way:
//! ```
//! use ut_data::synth::{Generator, Profile};
//! use ut_data::{Bank, BankVersion, BatchBuilder, DetectorTables, EventBatch, EventMeta, Grouping};
//! use ut_decoders::cpu::CpuDecoder;
//! use ut_decoders::{BatchReport, Count, DecodeOptions, Decoder, UtHits};
//!
//! // Three generated events of the synthetic detector, in one batch.
//! let tables = ut_data::synth::tables(BankVersion::V5, Grouping::YRows);
//! let (mut builder, mut batch) = (BatchBuilder::new(), EventBatch::default());
//! for event in Generator::new(Profile::PpLow, BankVersion::V5, 1).take(3) {
//!     let banks = event.banks.iter().map(|(id, payload)| Bank {
//!         kind: 66,
//!         version: Some(4),
//!         source_id: (*id).into(),
//!         payload,
//!     });
//!     builder.push(EventMeta::default(), banks)?;
//! }
//! builder.finish(&mut batch);
//!
//! let mut decoder = CpuDecoder::new(&tables, DecodeOptions::default());
//! let mut hits = UtHits::with_capacity(3, tables.n_groups(), batch.view().max_hits());
//! let mut report = BatchReport::new();
//! decoder.decode(batch.view(), &mut hits, &mut report)?;
//! assert_eq!((hits.n_events(), report.total(Count::Banks)), (3, 3 * 216));
//! assert!(!hits.is_empty() && !report.has_trouble());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "emulated")]
pub mod emulated;
#[cfg(feature = "device")]
mod kind;
#[cfg(feature = "device")]
pub mod lane_columns;
#[cfg(feature = "device")]
pub mod occupancy;
#[cfg(feature = "device")]
pub mod parameters;
#[cfg(feature = "device")]
mod pipeline;
#[cfg(feature = "device")]
mod placer;
#[cfg(feature = "device")]
pub mod plan;
#[cfg(feature = "device")]
pub mod ptx;
#[cfg(feature = "device")]
pub mod rank_tables;
#[cfg(feature = "device")]
pub mod ranked_records;
mod reader;
pub mod reference;

#[cfg(feature = "device")]
pub use kind::{Backend, threads};
#[cfg(feature = "device")]
pub use parameters::{ParameterError, Parameters};
#[cfg(feature = "device")]
pub use pipeline::Pipeline;
pub use reader::HitReader;
#[doc(no_inline)]
pub use ut_data::hits::{
    BatchReport, CapacityError, Cause, Cluster, Count, DecodeError, DecodeOptions, Decoder,
    EventReport, Flip, Hit, Kind, Loss, LostPart, N_LOSS, Position, UtHits, UtHitsMut,
    check_selected,
};
