//! Treatment of each bank (`docs/policy.md`), for both paths: the fallback path asks for every
//! bank, the fast path if an event is unexpected.
//!
//! The rules are in one place, so that both paths count the same troubles. The order of the checks
//! is part of the policy: a bank with several faults is counted for the first fault only. The
//! reference has its own copy, written from the document, and tests compare the two.

use ut_format::bank::COUNT_BYTES;
use ut_format::bank::board_of;

use super::banks::Bank;
use ut_data::detector::{BankVersion, DetectorTables, LANES_PER_BOARD};
use ut_data::{Count, EventReport};

/// Sends an event to the fallback path: see [`fast`](super::fast).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeedsFallback;

/// Bank types with hits: UT and UTError.
pub const HIT_BANKS: [u8; 2] = [66, 68];

/// Detector type UT in the top bits of an LHCbID.
pub const UT_ID: u32 = 3 << 28;

#[derive(Clone, Debug)]
pub struct Policy {
    version: BankVersion,
    board_in_use: Vec<bool>,
    /// Boards named so far in the event.
    seen: Vec<bool>,
    /// Number of banks with hits so far in the event.
    hit_banks: usize,
}

impl Policy {
    pub fn new(tables: &DetectorTables) -> Self {
        let boards = tables.boards();
        Self {
            version: boards.version,
            board_in_use: boards
                .strips_per_hybrid
                .iter()
                .map(|&strips| strips != 0)
                .collect(),
            seen: vec![false; boards.n_boards()],
            hit_banks: 0,
        }
    }

    pub fn begin_event(&mut self) {
        self.seen.fill(false);
        self.hit_banks = 0;
    }

    /// Returns the board of the event's next bank, with a slot for each lane in the tables; `None`
    /// if the bank is skipped.
    pub fn board(&mut self, bank: &Bank<'_>, report: &mut EventReport) -> Option<usize> {
        let mut skipped = |count| {
            report.add(count, 1);
            None
        };
        if !HIT_BANKS.contains(&bank.kind) {
            return skipped(Count::OtherTypes);
        }
        self.hit_banks += 1;
        if self.hit_banks > self.board_in_use.len() {
            return skipped(Count::SurplusBanks);
        }
        if bank
            .version
            .is_some_and(|version| version != self.version.byte())
        {
            return skipped(Count::WrongVersion);
        }
        let board = board_of(bank.source_id).map_or(usize::MAX, |board| board as usize);
        if !self.board_in_use.get(board).is_some_and(|&in_use| in_use) {
            return skipped(Count::UnknownBoard);
        }
        if std::mem::replace(&mut self.seen[board], true) {
            report.add(Count::RepeatedBoard, 1);
        }
        Some(board)
    }
}

/// Returns the hits of each lane of a v5 bank, at most 254, all in the payload; `None` if it has
/// none or is dropped.
///
/// The six counts lie in the first eight bytes of the payload ([`COUNT_BYTES`]). A row has 32
/// bytes, with room for two hits of each lane; the counts fill what is left of the first row. So a
/// lane with 5 hits needs 3 rows, 96 bytes. A count of 255 cannot be: the front end sends 254 hits
/// at most.
pub fn v5_counts(payload: &[u8], report: &mut EventReport) -> Option<[u8; LANES_PER_BOARD]> {
    if payload.len() < 24 {
        let claims_hits = COUNT_BYTES
            .iter()
            .any(|&byte| payload.get(byte).is_some_and(|&count| count != 0));
        report.add(
            if claims_hits {
                Count::Short
            } else {
                Count::Banks
            },
            1,
        );
        return None;
    }
    let counts = COUNT_BYTES.map(|byte| payload[byte]);
    let longest = counts.into_iter().max().unwrap_or(0);
    let (count, counts) = if longest == 255 {
        (Count::BadHeader, None)
    } else if payload.len() < 32 * usize::from(longest).div_ceil(2) {
        (Count::Truncated, None)
    } else {
        (Count::Banks, Some(counts))
    };
    report.add(count, 1);
    counts
}

/// Returns the cluster words of a v4 bank; `None` if it is dropped.
pub fn v4_words<'a>(payload: &'a [u8], report: &mut EventReport) -> Option<&'a [[u8; 2]]> {
    let words = payload
        .split_first_chunk::<4>()
        .and_then(|(header, words)| {
            words.get(..2 * usize::from(u16::from_le_bytes([header[0], header[1]])))
        });
    report.add(
        if words.is_some() {
            Count::Banks
        } else {
            Count::Truncated
        },
        1,
    );
    words.map(|words| words.as_chunks().0)
}
