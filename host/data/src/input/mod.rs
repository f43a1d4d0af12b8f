//! Raw banks in memory ([`EventBatch`]) and the files they come from.
//!
//! [`Events`] goes through files, MDF, MEP packets or Allen-layout dumps, event by event or in
//! batches that a decoder takes. It has two halves, for programs with several threads: [`Chunks`]
//! cuts the files, and a [`Parser`] a thread takes the pieces apart. [`to_mep`] and [`to_allen`]
//! change the layout of a batch.

mod ahead;
mod allen_dump;
mod batch;
mod builder;
mod checksums;
mod chunks;
mod error;
mod event;
mod events;
mod file_at;
mod fragments;
mod frames;
mod mdf;
mod mdf_format;
mod mdf_writer;
mod mep;
mod mep_writer;
mod odin;
mod packet;
mod parser;
mod part;
mod pool;
mod recognise;
mod room;
mod seen;
mod select;
mod unpack;
mod versions;

pub use allen_dump::write_allen_dump;
pub use batch::{BatchView, EventBatch, EventMeta};
pub use builder::{BatchBuilder, BuildError};
pub use chunks::{Chunk, Chunks, Origin, count_events, count_readable};
pub use error::{Damage, InputError, Place};
pub use event::{
    Bank, BankEntry, Format, GENERATED_MASK, MARKED_BYTE, Maker, RawEvent, generated_mark, kind,
};
pub use events::Events;
pub use mdf_format::checksum;
pub use mdf_writer::{EventHeader, MAX_PAYLOAD, MdfWriter, WriteError};
pub(crate) use mep::each_bank;
pub use mep::{banks_of, to_allen, to_mep};
pub use mep_writer::MepWriter;
pub use odin::{Crossing, Odin, OdinFacts, Tae, from_utc, utc};
pub use parser::{Parser, Part};
pub use part::{InputPart, Section, sections};
pub use recognise::{check_file, is_table, without_compression};
pub use seen::Seen;
pub use select::{Places, Select};
pub use ut_format::bank::Layout;
pub(crate) use versions::MANY;
pub use versions::{FileVersions, Stranger, shape_of, version_in_words};
