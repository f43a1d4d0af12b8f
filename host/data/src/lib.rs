//! Input and output of decoders: the detector, raw banks and the files they come from, hits, and
//! hits as text.
//!
//! Nothing here decodes. [`hits::Decoder`] is the trait that all decoders have; they are in
//! `ut-decoders`. [`job`] decodes files on several threads, whatever is made of the hits.

pub mod detector;
pub mod error;
mod error_kind;
mod hash;
pub mod hits;
pub mod input;
pub mod job;
pub mod memory;
mod named;
pub mod output;
pub mod pipeline;
#[cfg(feature = "synth")]
pub mod synth;

#[doc(no_inline)]
pub use detector::{
    BankVersion, Boards, ChannelId, DetectorTables, Geometry, Grouping, LhcbId, TablesError,
};
#[doc(no_inline)]
pub use error_kind::ErrorKind;
pub use hash::hash;
#[doc(no_inline)]
pub use hits::{
    BatchReport, CapacityError, Cluster, Count, DecodeError, DecodeOptions, Decoder, EventReport,
    Flip, Hit, Kind, Loss, Position, UtHits, UtHitsMut,
};
#[doc(no_inline)]
pub use input::{
    Bank, BatchBuilder, BatchView, BuildError, EventBatch, EventMeta, Events, InputError, Layout,
};
pub use named::UnknownName;
#[doc(no_inline)]
pub use output::CsvWriter;
