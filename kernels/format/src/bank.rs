//! Raw banks: their types, boards and layouts (docs/format.md).

use crate::detector::LANES_PER_BOARD;

/// Bank type of ordinary UT banks.
pub const UT: u8 = 66;

/// Bank type of error banks, decoded like ordinary ones.
pub const UT_ERROR: u8 = 68;

/// Returns true if banks of this type are decoded.
pub const fn is_ut(kind: u8) -> bool {
    kind == UT || kind == UT_ERROR
}

/// Board of a sourceID (docs/format.md, "From sourceID to board"), which may be beyond the table.
/// `None`: no board.
#[inline(always)]
pub const fn board_of(source_id: u32) -> Option<u32> {
    if source_id >> 11 == 0 {
        return Some(source_id);
    }
    match source_id & 0xFF {
        0 => None,
        tell40 => Some((tell40 - 1) * 2 + ((source_id >> 10) & 1)),
    }
}

/// By lane, the byte of a v5 bank's header that says how many hits it has.
pub const COUNT_BYTES: [usize; LANES_PER_BOARD] = [4, 5, 6, 7, 0, 1];

/// Layout of the banks of a batch in memory (docs/format.md, "Batches in memory").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Event-major: the block of event `e` is at `raw + offsets[e]`.
    #[default]
    Allen,
    /// Bank-major: the fragment of bank `b` of event `e` is at
    /// `raw + offsets[2 + n_banks * (1 + e) + b]`.
    Mep,
}

#[cfg(test)]
mod tests {
    use super::board_of;

    #[test]
    fn source_ids_map_to_boards_as_the_spec_says() {
        assert_eq!(board_of(0), Some(0));
        assert_eq!(board_of(2047), Some(2047));
        assert_eq!(board_of(5 << 11 | 1), Some(0));
        assert_eq!(board_of(5 << 11 | 1 << 10 | 1), Some(1));
        assert_eq!(board_of(6 << 11 | 1 << 10 | 0x6C), Some(215));
        assert_eq!(board_of(6 << 11), None);
        assert_eq!(board_of(u32::MAX), Some(254 * 2 + 1));
    }
}
