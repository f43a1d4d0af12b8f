//! Errors of boards and geometry files, and the little-endian reader and writer that both files share.

use std::io::Read;
use std::path::Path;

/// Reason to refuse a boards or geometry table, with the file, the field and the byte offset in the file. A table that
/// was not read from a file has the offsets that its file would have.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says it")]
pub enum TablesError {
    #[error("{file}: {source}")]
    Io { file: String, source: std::io::Error },
    #[error("{file}: too short: it ends at byte {len}, inside {field}; the table takes {needed} bytes")]
    TooShort { file: String, field: String, len: usize, needed: usize },
    #[error("{file}: {extra} bytes too many after the last field {field}, from byte {offset}")]
    TrailingBytes { file: String, field: String, offset: usize, extra: usize },
    #[error("{file}: {field} at byte {offset} is {value}, but must be {expected}")]
    WrongCount { file: String, field: String, offset: usize, value: u64, expected: String },
    #[error("{file}: version at byte {offset} is {value}, but must be {expected}")]
    WrongVersion { file: String, offset: usize, value: u32, expected: &'static str },
    #[error("{file}: {field} at byte {offset} is {value}: {why}")]
    BadValue { file: String, field: String, offset: usize, value: String, why: String },
    #[error("{file}: this is {found}, and {wanted} is wanted here: are the two swapped?")]
    Swapped { file: String, found: &'static str, wanted: &'static str },
    #[error("{file}: does not fit boards of format {version}: {why}")]
    Unfit { file: String, version: &'static str, why: String },
}

impl TablesError {
    /// The file, as messages call it.
    pub fn file(&self) -> &str {
        match self {
            Self::Io { file, .. }
            | Self::TooShort { file, .. }
            | Self::TrailingBytes { file, .. }
            | Self::WrongCount { file, .. }
            | Self::WrongVersion { file, .. }
            | Self::BadValue { file, .. }
            | Self::Swapped { file, .. }
            | Self::Unfit { file, .. } => file,
        }
    }

    /// Byte of the file at which the fault lies; `None` if it lies at no single byte.
    pub const fn byte(&self) -> Option<u64> {
        match self {
            Self::Io { .. } | Self::Swapped { .. } | Self::Unfit { .. } => None,
            Self::TooShort { len: byte, .. }
            | Self::TrailingBytes { offset: byte, .. }
            | Self::WrongCount { offset: byte, .. }
            | Self::WrongVersion { offset: byte, .. }
            | Self::BadValue { offset: byte, .. } => Some(*byte as u64),
        }
    }
}

/// Refuses bytes that are a whole table of another kind than `wanted`.
pub(super) fn check_kind(bytes: &[u8], file: &str, wanted: &'static str) -> Result<(), TablesError> {
    match table_of(bytes, bytes.len() as u64) {
        Some(found) if found != wanted => Err(TablesError::Swapped { file: file.into(), found, wanted }),
        _ => Ok(()),
    }
}

/// The kind of table that a file of `length` bytes holds, by its header.
pub(crate) fn table_of(header: &[u8], length: u64) -> Option<&'static str> {
    let has = |bytes: Option<usize>| bytes.is_some_and(|bytes| bytes as u64 == length);
    if has(super::boards::n_bytes(header)) {
        return Some(BOARDS);
    }
    has(super::geometry::n_bytes(header)).then_some(GEOMETRY)
}

pub(super) const BOARDS: &str = "a boards file";
pub(super) const GEOMETRY: &str = "a geometry file";

/// Bytes beyond which a file is not a table; the largest has a few dozen kB.
const MAX_FILE: u64 = 1 << 24;

pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, TablesError> {
    let read = || {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(std::io::Error::other(format!("more than {} MiB: not a table", MAX_FILE >> 20)));
        }
        Ok(bytes)
    };
    read().map_err(|source| TablesError::Io { file: path.display().to_string(), source })
}

pub(super) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), TablesError> {
    std::fs::write(path, bytes).map_err(|source| TablesError::Io { file: path.display().to_string(), source })
}

/// One array of a table file: name and number of 32-bit words.
#[derive(Clone, Copy)]
pub(super) struct Array {
    pub name: &'static str,
    pub len: usize,
}

/// Checks that `bytes` is as long as its header and `arrays` together.
pub(super) fn check_length(bytes: &[u8], file: &str, header: usize, arrays: &[Array]) -> Result<(), TablesError> {
    let needed = header + arrays.iter().map(|a| 4 * a.len).sum::<usize>();
    if bytes.len() < needed {
        let mut start = header;
        let mut field = String::new();
        for array in arrays {
            if bytes.len() < start + 4 * array.len {
                field = format!("{}[{}]", array.name, (bytes.len() - start) / 4);
                break;
            }
            start += 4 * array.len;
        }
        return Err(TablesError::TooShort { file: file.into(), field, len: bytes.len(), needed });
    }
    if bytes.len() > needed {
        let field = arrays.last().map_or("", |a| a.name).into();
        let extra = bytes.len() - needed;
        return Err(TablesError::TrailingBytes { file: file.into(), field, offset: needed, extra });
    }
    Ok(())
}

/// The header word `field` at byte `4 * index`.
pub(super) fn header_word(bytes: &[u8], file: &str, index: usize, field: &str) -> Result<u32, TablesError> {
    word(bytes, index).ok_or_else(|| TablesError::TooShort {
        file: file.into(),
        field: field.into(),
        len: bytes.len(),
        needed: 4 * (index + 1),
    })
}

/// The little-endian word number `index`.
pub(super) fn word(bytes: &[u8], index: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(4 * index..)?.first_chunk().copied()?))
}
