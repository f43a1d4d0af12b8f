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
pub enum InputError {
    /// The file cannot be opened.
    #[error("cannot open {}", file.display())]
    Open {
        /// The file.
        file: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Reading failed.
    #[error("{place}: cannot read")]
    Read {
        /// The event that was being read.
        place: Place,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file ends inside the three size words.
    #[error("{place}: the file ends after {left} of the 12 bytes of the event's size words: truncated?")]
    CutHeader {
        /// The event.
        place: Place,
        /// Bytes that are there.
        left: usize,
    },
    /// The three size words are not equal.
    #[error("{place}: the three size words differ ({}, {}, {}): not an MDF file, or damaged", sizes[0], sizes[1], sizes[2])]
    UnequalSizes {
        /// The event.
        place: Place,
        /// The three words.
        sizes: [u32; 3],
    },
    /// The event is smaller than its own headers.
    #[error("{place}: an event size of {size} bytes is less than the {headers} bytes of its headers")]
    TooSmall {
        /// The event.
        place: Place,
        /// Size in the header.
        size: u32,
        /// Bytes of header and sub-header.
        headers: u32,
    },
    /// The event is larger than what is left of the file.
    #[error(
        "{place}: an event size of {size} bytes reaches beyond the file, which has {left} bytes from there: truncated?"
    )]
    BeyondFile {
        /// The event.
        place: Place,
        /// Size in the header.
        size: u32,
        /// Bytes that are there.
        left: u64,
    },
    /// The file became shorter while it was read.
    #[error("{place}: the file ends here, but had {left} more bytes when it was opened")]
    Shrunk {
        /// The event that would have been next.
        place: Place,
        /// Bytes that are gone.
        left: u64,
    },
    /// The event is compressed in a way that cannot be unpacked.
    #[error("{place}: {what}, which cannot be read")]
    Compressed {
        /// The event.
        place: Place,
        /// Kind of file.
        what: &'static str,
    },
    /// A MEP packet that is compressed in an MDF event cannot be unpacked: how many events it holds is not known.
    #[error("{place}, a compressed MEP packet")]
    Unpack {
        /// The packet's first event.
        place: Place,
        /// Byte and reason.
        source: super::UnpackError,
    },
    /// The file is of a format that is known and not taken.
    #[error("{}: {what}", file.display())]
    NotTaken {
        /// The file.
        file: PathBuf,
        /// Kind of file, and what can be done.
        what: &'static str,
    },
    /// A MEP packet cannot be followed.
    #[error("{place}, in a MEP packet at its byte {byte}: {what}")]
    Packet {
        /// The packet's first event.
        place: Place,
        /// Byte of the packet.
        byte: u64,
        /// Reason.
        what: String,
    },
    /// The event does not hold raw banks.
    #[error("{place}: data type {data_type}; only 1 (raw banks) and 2 (a MEP packet) can be read")]
    DataType {
        /// The event.
        place: Place,
        /// The header's data type.
        data_type: u8,
    },
    /// The table of banks of an Allen-layout dump does not fit the file.
    #[error("{}: a table of {banks} banks needs {needed} bytes, the file has {length}: not an Allen-layout dump, or truncated", file.display())]
    DumpTable {
        /// The file.
        file: PathBuf,
        /// Banks that the file's first word announces.
        banks: u64,
        /// Bytes of the table.
        needed: u64,
        /// Bytes of the file.
        length: u64,
    },
    /// The first word of an Allen-layout dump announces more banks than an event can have.
    #[error("{}: the first word announces {banks} banks, an event has at most {most}: not an Allen-layout dump", file.display())]
    DumpBanks {
        /// The file.
        file: PathBuf,
        /// Banks that the first word announces.
        banks: u64,
        /// Banks that an event can have.
        most: u64,
    },
    /// An Allen-layout dump goes on after the last bank of its table.
    #[error("{}: the table of {banks} banks ends at byte {end}, the file goes on: not an Allen-layout dump of one event", file.display())]
    DumpTrailing {
        /// The file.
        file: PathBuf,
        /// Banks of the table.
        banks: u64,
        /// End of the last one, in bytes.
        end: u64,
    },
    /// The event does not fit into a batch.
    #[error("{place}")]
    Batch {
        /// The event.
        place: Place,
        /// Why.
        source: super::BuildError,
    },
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

    /// The event at which reading ended, or the file where it did not come to one.
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
pub enum Damage {
    /// The checksum in the header is not that of the bytes; no bank is taken.
    #[error("checksum 0x{stored:08x} in the header, 0x{computed:08x} computed: no bank of the event is taken")]
    Checksum {
        /// Checksum in the header.
        stored: u32,
        /// Checksum of the bytes.
        computed: u32,
    },
    /// A bank does not begin with the magic number.
    #[error("bank {bank} at byte {byte} of the event begins with 0x{magic:04x} instead of 0xcbcb")]
    Magic {
        /// Bank of the event, from 0.
        bank: usize,
        /// Byte at which it begins.
        byte: usize,
        /// Value found.
        magic: u16,
    },
    /// A bank's size is less than its header.
    #[error("bank {bank} at byte {byte} of the event has a size of {size} bytes, less than its header of 8")]
    BankTooSmall {
        /// Bank of the event, from 0.
        bank: usize,
        /// Byte at which it begins.
        byte: usize,
        /// Size.
        size: u16,
    },
    /// A bank ends beyond the event, or its header does.
    #[error("bank {bank} at byte {byte} of the event needs {needed} bytes, the event has {left} from there")]
    BankBeyond {
        /// Bank of the event, from 0.
        bank: usize,
        /// Byte at which it begins.
        byte: usize,
        /// Bytes it needs.
        needed: u64,
        /// Bytes that are there.
        left: u64,
    },
    /// The event is compressed, and cannot be unpacked from there on.
    #[error("{0}")]
    Unpack(#[from] super::unpack::UnpackError),
    /// The fragments of a source cannot be told apart; none of its banks is taken.
    #[error(
        "MFP {mfp} of the packet, sourceID 0x{source_id:04x}: {what}; the board is left out of the packet's events"
    )]
    Fragments {
        /// MFP of the packet, from 0.
        mfp: usize,
        /// SourceID.
        source_id: u16,
        /// Reason.
        what: String,
    },
    /// The header of a time alignment event does not say where the banks of the central crossing are.
    #[error("its TAEHeader, bank {bank}, does not say where the banks of the central crossing are")]
    Tae {
        /// Bank of the event, from 0.
        bank: usize,
    },
    /// Entry of a dump's table that ends before it begins, or is too short for a sourceID, or too long for a bank.
    #[error(
        "bank {bank} at byte {byte} of the event has {length} bytes by the table of banks; 4 to 65539 are possible"
    )]
    Entry {
        /// Bank of the event, from 0.
        bank: usize,
        /// Byte at which it begins.
        byte: usize,
        /// Length by the table; negative when the table descends.
        length: i64,
    },
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
