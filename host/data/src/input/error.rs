//! Errors of input files.
//!
//! Two degrees (`docs/policy.md`, "Files"): an [`InputError`] ends the reading, because there is no
//! telling where the next event would begin; a [`Damage`] costs the rest of one event, and the next
//! one follows.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::error_kind::ErrorKind;

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
        write!(
            f,
            "{}: event {} at byte {}",
            self.file.display(),
            self.event,
            self.byte
        )
    }
}

impl Place {
    /// Returns the error for contents that cannot be understood.
    pub(super) fn bad(self, what: impl Into<String>) -> InputError {
        InputError::Bad {
            place: self,
            what: what.into(),
        }
    }
}

/// Reason that a file cannot be read further. Earlier events stay valid.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says it")]
#[non_exhaustive]
pub enum InputError {
    #[error("cannot open {}", file.display())]
    Open { file: PathBuf, source: io::Error },
    #[error("{place}: cannot read")]
    Read { place: Place, source: io::Error },
    #[error("{place}: {what}")]
    Bad { place: Place, what: String },
    #[error("{}: {what}", file.display())]
    NotTaken { file: PathBuf, what: String },
}

impl InputError {
    /// Returns the kind: [`ErrorKind::File`] or [`ErrorKind::Format`].
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Open { .. } | Self::Read { .. } => ErrorKind::File,
            Self::Bad { .. } | Self::NotTaken { .. } => ErrorKind::Format,
        }
    }

    /// Returns the event at which reading ended, or `None` if no event was reached.
    pub const fn place(&self) -> Option<&Place> {
        match self {
            Self::Read { place, .. } | Self::Bad { place, .. } => Some(place),
            Self::Open { .. } | Self::NotTaken { .. } => None,
        }
    }

    /// Returns the file in which reading failed.
    pub fn file(&self) -> &Path {
        match self {
            Self::Read { place, .. } | Self::Bad { place, .. } => &place.file,
            Self::Open { file, .. } | Self::NotTaken { file, .. } => file,
        }
    }
}

/// Reason that the rest of an event is given up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
#[non_exhaustive]
pub struct Damage {
    /// The bank at which the event ends, from 0; `None` if it is not at a single bank.
    pub bank: Option<usize>,
    /// Byte of the event at which that bank begins.
    pub byte: Option<u64>,
    /// Reason.
    pub what: String,
    /// True if the checksum does not match.
    pub is_checksum: bool,
    /// UT banks that are given up, as far as they can be seen; at least 1.
    pub lost_banks: u32,
}

impl Damage {
    pub(super) const fn of_event(what: String) -> Self {
        Self {
            bank: None,
            byte: None,
            what,
            is_checksum: false,
            lost_banks: 1,
        }
    }

    /// Sets the number of UT banks that are given up, at least 1.
    pub(super) fn losing(mut self, banks: usize) -> Self {
        self.lost_banks = u32::try_from(banks.max(1)).unwrap_or(u32::MAX);
        self
    }

    pub(super) fn of_bank(bank: usize, byte: usize, why: &str) -> Self {
        let what = format!("bank {bank} at byte {byte} of the event {why}");
        Self {
            bank: Some(bank),
            byte: Some(byte as u64),
            ..Self::of_event(what)
        }
    }

    /// Returns the damage of an event whose checksum is wrong, so that its banks cannot be trusted.
    pub(super) fn checksum(stored: u32, computed: u32) -> Self {
        let sums = format!("checksum 0x{stored:08x} in the header, 0x{computed:08x} computed");
        Self {
            is_checksum: true,
            ..Self::of_event(sums + ": no bank of the event is taken")
        }
    }
}
