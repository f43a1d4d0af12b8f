//! Layout of the two tables files: where each array begins, how long a file must be by its header,
//! and so which of the two it is. `docs/format.md` describes both.
//!
//! The kind of a file follows from its first words together with its length. The two options that
//! name the files are easily swapped, and a swapped pair should be called that, not "a bad number
//! of boards". No file can pass as both kinds: a geometry begins with 1048 in its low half, which
//! is not a valid number of boards.

use ut_format::detector::{BankVersion, LANES_PER_BOARD, MAX_SLOTS};

use super::N_SECTORS;
use super::error::{TablesError, word};

/// Maximum number of boards in a table: the kernels are dimensioned for it.
pub const MAX_BOARDS: usize = MAX_SLOTS / LANES_PER_BOARD;

/// Name of a boards file in messages.
pub const BOARDS: &str = "a boards file";

/// Name of a geometry file in messages.
pub const GEOMETRY: &str = "a geometry file";

/// Number of bytes before `stripsPerHybrid` in a boards file.
pub const BOARDS_HEADER: usize = 8;

/// Number of bytes before the first array of a geometry file.
const GEOMETRY_HEADER: usize = 4;

/// Arrays of a boards file with one word per slot, in the order of the file.
pub const LANE_ARRAYS: [&str; 8] = [
    "sector", "module", "face", "stave", "layer", "side", "type", "chanID",
];

/// Arrays of a geometry file, in its order; `dxDy` only from version 1 on.
pub const SECTOR_ARRAYS: [&str; 11] = [
    "firstStrip",
    "pitch",
    "dy",
    "dp0diX",
    "dp0diY",
    "dp0diZ",
    "p0X",
    "p0Y",
    "p0Z",
    "cos",
    "dxDy",
];

/// Returns the byte of a boards file at which a slot's word of an array begins.
pub const fn lane_offset(n_boards: usize, array: usize, slot: usize) -> usize {
    BOARDS_HEADER + 4 * (n_boards + array * LANES_PER_BOARD * n_boards + slot)
}

/// Returns the byte of a geometry file at which a sector's word of an array begins.
pub const fn sector_offset(array: usize, sector: usize) -> usize {
    GEOMETRY_HEADER + 4 * (array * N_SECTORS + sector)
}

/// Returns the number of arrays in a geometry file of a version.
pub const fn n_sector_arrays(version: u16) -> usize {
    if version == 0 {
        SECTOR_ARRAYS.len() - 1
    } else {
        SECTOR_ARRAYS.len()
    }
}

/// Returns the length of the boards file that begins with `header`; `None` if it cannot be one.
fn boards_bytes(header: &[u8]) -> Option<usize> {
    let n_boards = word(header, 0)
        .map(|n| n as usize)
        .filter(|n| (1..=MAX_BOARDS).contains(n))?;
    word(header, 1).and_then(|version| BankVersion::from_byte(u8::try_from(version).ok()?))?;
    Some(lane_offset(n_boards, LANE_ARRAYS.len(), 0))
}

/// Returns the length of the geometry file that begins with `header`; `None` if it cannot be one.
fn geometry_bytes(header: &[u8]) -> Option<usize> {
    let header = word(header, 0).filter(|word| (word & 0xFFFF) as usize == N_SECTORS)?;
    Some(sector_offset(n_sector_arrays((header >> 16) as u16), 0))
}

/// Refuses bytes that are a whole table of another kind than `wanted`.
pub fn check_kind(bytes: &[u8], file: &str, wanted: &'static str) -> Result<(), TablesError> {
    match table_of(bytes, bytes.len() as u64) {
        Some(found) if found != wanted => {
            let what = format!("this is {found}, but {wanted} is expected: are the two swapped?");
            Err(TablesError::bad(file, None, what))
        }
        _ => Ok(()),
    }
}

/// Returns the kind of table that a file of `length` bytes holds, by its header.
pub fn table_of(header: &[u8], length: u64) -> Option<&'static str> {
    let has = |bytes: Option<usize>| bytes.is_some_and(|bytes| bytes as u64 == length);
    if has(boards_bytes(header)) {
        return Some(BOARDS);
    }
    has(geometry_bytes(header)).then_some(GEOMETRY)
}
