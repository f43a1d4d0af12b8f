//! Errors of boards and geometry files, and the reader and writer of files that both share.

use std::fmt::Display;
use std::io::Read;
use std::path::Path;

use crate::error_kind::ErrorKind;

/// Reason to refuse a boards or geometry table, with the file, the field and the byte offset in the
/// file. A table that was not read from a file has the offsets that its file would have.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says it")]
#[non_exhaustive]
pub enum TablesError {
    #[error("{file}: {source}")]
    Io {
        file: String,
        source: std::io::Error,
    },
    #[error("{file}: {what}")]
    Bad {
        file: String,
        byte: Option<u64>,
        what: String,
    },
}

impl TablesError {
    /// Makes the error for a fault at byte `byte` of `file`, or at no single byte.
    pub(super) fn bad(file: &str, byte: Option<usize>, what: String) -> Self {
        Self::Bad {
            file: file.to_owned(),
            byte: byte.map(|byte| byte as u64),
            what,
        }
    }

    /// Makes the error for the value `value` of the field `field` at byte `byte`.
    pub(super) fn value(
        file: &str,
        field: &str,
        byte: usize,
        value: impl Display,
        why: &str,
    ) -> Self {
        Self::bad(
            file,
            Some(byte),
            format!("{field} at byte {byte} is {value}: {why}"),
        )
    }

    /// Returns the kind: [`ErrorKind::File`] or [`ErrorKind::Tables`].
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { .. } => ErrorKind::File,
            Self::Bad { .. } => ErrorKind::Tables,
        }
    }

    /// Returns the name of the file in messages.
    pub fn file(&self) -> &str {
        match self {
            Self::Io { file, .. } | Self::Bad { file, .. } => file,
        }
    }

    /// Returns the byte of the file at which the fault lies; `None` if it lies at no single byte.
    pub const fn byte(&self) -> Option<u64> {
        match self {
            Self::Io { .. } => None,
            Self::Bad { byte, .. } => *byte,
        }
    }
}

/// Size in bytes beyond which a file is not a table. The largest tables have a few dozen kB.
const MAX_FILE: u64 = 1 << 24;

pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, TablesError> {
    let read = || {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?
            .take(MAX_FILE + 1)
            .read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(std::io::Error::other(format!(
                "more than {} MiB: not a table",
                MAX_FILE >> 20
            )));
        }
        Ok(bytes)
    };
    read().map_err(|source| TablesError::Io {
        file: path.display().to_string(),
        source,
    })
}

pub(super) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), TablesError> {
    std::fs::write(path, bytes).map_err(|source| TablesError::Io {
        file: path.display().to_string(),
        source,
    })
}

/// Checks that `bytes` is as long as its header says.
pub(super) fn check_length(bytes: &[u8], file: &str, needed: usize) -> Result<(), TablesError> {
    let len = bytes.len();
    if len < needed {
        return Err(too_short(file, len, needed));
    }
    if len > needed {
        let what = format!("{} bytes too many from byte {needed}", len - needed);
        return Err(TablesError::bad(file, Some(needed), what));
    }
    Ok(())
}

fn too_short(file: &str, len: usize, needed: usize) -> TablesError {
    TablesError::bad(
        file,
        Some(len),
        format!("too short: it ends at byte {len}; the table takes {needed} bytes"),
    )
}

/// Returns the header word at byte `4 * index`.
pub(super) fn header_word(bytes: &[u8], file: &str, index: usize) -> Result<u32, TablesError> {
    word(bytes, index).ok_or_else(|| too_short(file, bytes.len(), 4 * (index + 1)))
}

/// Returns the little-endian word with this index, if the bytes have it.
pub(super) fn word(bytes: &[u8], index: usize) -> Option<u32> {
    Some(u32::from_le_bytes(
        bytes.get(4 * index..)?.first_chunk().copied()?,
    ))
}
