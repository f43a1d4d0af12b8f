//! Errors of input files.
//!
//! Two degrees (`docs/policy.md`, "Files"): an [`InputError`] ends the reading, because there is no telling where the
//! next event would begin; a [`Damage`] costs the rest of one event, and the next one follows.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Place in the inputs: file, event of that file, byte of that file. Events and bytes count from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// Event of the file.
    pub event: u64,
    /// Byte of the file at which the event begins.
    pub byte: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: event {} at byte {}", self.file.display(), self.event, self.byte)
    }
}

/// Why a file cannot be read further. What was read before stays good.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says it")]
pub enum InputError {
    #[error("cannot open {}", file.display())]
    Open { file: PathBuf, source: io::Error },
    #[error("{place}: cannot read")]
    Read { place: Place, source: io::Error },
    #[error("{place}: the file ends after {left} of the 12 bytes of the event's size words: truncated?")]
    CutHeader { place: Place, left: usize },
    #[error("{place}: the three size words differ ({}, {}, {}): not an MDF file, or damaged", sizes[0], sizes[1], sizes[2])]
    UnequalSizes { place: Place, sizes: [u32; 3] },
    #[error("{place}: an event size of {size} bytes is less than the {headers} bytes of its headers")]
    TooSmall { place: Place, size: u32, headers: u32 },
    #[error(
        "{place}: an event size of {size} bytes reaches beyond the file, which has {left} bytes from there: truncated?"
    )]
    BeyondFile { place: Place, size: u32, left: u64 },
    #[error("{place}: the file ends here, but had {left} more bytes when it was opened")]
    Shrunk { place: Place, left: u64 },
    #[error("{place}: {what}, which cannot be read")]
    Compressed { place: Place, what: &'static str },
    #[error("{place}, a compressed MEP packet")]
    Unpack { place: Place, source: super::UnpackError },
    #[error("{}: {what}", file.display())]
    NotTaken { file: PathBuf, what: &'static str },
    #[error("{place}, in a MEP packet at its byte {byte}: {what}")]
    Packet { place: Place, byte: u64, what: String },
    #[error("{place}: data type {data_type}; only 1 (raw banks) and 2 (a MEP packet) can be read")]
    DataType { place: Place, data_type: u8 },
    #[error("{}: a table of {banks} banks needs {needed} bytes, the file has {length}: not an Allen-layout dump, or truncated", file.display())]
    DumpTable { file: PathBuf, banks: u64, needed: u64, length: u64 },
    #[error("{}: the first word announces {banks} banks, an event has at most {most}: not an Allen-layout dump", file.display())]
    DumpBanks { file: PathBuf, banks: u64, most: u64 },
    #[error("{}: the table of {banks} banks ends at byte {end}, the file goes on: not an Allen-layout dump of one event", file.display())]
    DumpTrailing { file: PathBuf, banks: u64, end: u64 },
    #[error("{place}")]
    Batch { place: Place, source: super::BuildError },
}

impl InputError {
    /// The event at which reading ended; `None` where it did not come to one.
    pub const fn place(&self) -> Option<&Place> {
        match self.at() {
            Ok(place) => Some(place),
            Err(_) => None,
        }
    }

    /// The file.
    pub fn file(&self) -> &Path {
        self.at().map_or_else(|file| file, |place| &place.file)
    }

    const fn at(&self) -> Result<&Place, &PathBuf> {
        match self {
            Self::Read { place, .. }
            | Self::CutHeader { place, .. }
            | Self::UnequalSizes { place, .. }
            | Self::TooSmall { place, .. }
            | Self::BeyondFile { place, .. }
            | Self::Shrunk { place, .. }
            | Self::Compressed { place, .. }
            | Self::Packet { place, .. }
            | Self::DataType { place, .. }
            | Self::Unpack { place, .. }
            | Self::Batch { place, .. } => Ok(place),
            Self::Open { file, .. }
            | Self::NotTaken { file, .. }
            | Self::DumpTable { file, .. }
            | Self::DumpBanks { file, .. }
            | Self::DumpTrailing { file, .. } => Err(file),
        }
    }
}

/// Why the rest of an event is given up. Bytes count from the beginning of the event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says it; banks count from 0")]
pub enum Damage {
    #[error("checksum 0x{stored:08x} in the header, 0x{computed:08x} computed: no bank of the event is taken")]
    Checksum { stored: u32, computed: u32 },
    #[error("bank {bank} at byte {byte} of the event begins with 0x{magic:04x} instead of 0xcbcb")]
    Magic { bank: usize, byte: usize, magic: u16 },
    #[error("bank {bank} at byte {byte} of the event has a size of {size} bytes, less than its header of 8")]
    BankTooSmall { bank: usize, byte: usize, size: u16 },
    #[error("bank {bank} at byte {byte} of the event needs {needed} bytes, the event has {left} from there")]
    BankBeyond { bank: usize, byte: usize, needed: u64, left: u64 },
    #[error("{0}")]
    Unpack(#[from] super::unpack::UnpackError),
    #[error(
        "MFP {mfp} of the packet, sourceID 0x{source_id:04x}: {what}; the board is left out of the packet's events"
    )]
    Fragments { mfp: usize, source_id: u16, what: String },
    #[error("its TAEHeader, bank {bank}, does not say where the banks of the central crossing are")]
    Tae { bank: usize },
    #[error(
        "bank {bank} at byte {byte} of the event has {length} bytes by the table of banks; 4 to 65539 are possible"
    )]
    Entry { bank: usize, byte: usize, length: i64 },
}

impl Damage {
    /// The bank at which the event ends, from 0; `None` where it is no single one.
    pub const fn bank(&self) -> Option<usize> {
        match self {
            Self::Magic { bank, .. }
            | Self::BankTooSmall { bank, .. }
            | Self::BankBeyond { bank, .. }
            | Self::Tae { bank }
            | Self::Entry { bank, .. } => Some(*bank),
            Self::Checksum { .. } | Self::Unpack(_) | Self::Fragments { .. } => None,
        }
    }
}
