//! Decoders: several backends of the trait [`Decoder`], the same bits from each of them. A [`HitReader`] reads files as
//! hits.

pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "emulated")]
pub mod emulated;
#[cfg(feature = "device")]
pub mod hit_records;
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
    BatchReport, CapacityError, Cause, Cluster, Count, DecodeError, DecodeOptions, Decoder, EventReport, Flip, Hit,
    Kind, Loss, LostPart, N_LOSS, Position, UtHits, UtHitsMut, check_selected,
};
