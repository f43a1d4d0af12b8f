//! Boards of an event's banks. They come in the same order event after event: looked up once, and
//! then only compared.
//!
//! To look a bank up means to map its sourceID to a board, to check that the board is in the tables
//! and has not occurred yet, and to fetch the ranks of its six lanes. With 200 banks per event that
//! would be a good part of the decoding time. Comparing 200 sourceIDs with the event before is 200
//! exclusive-ors, which are joined into one word.

use ut_format::bank::board_of;

use super::lanes::BoardRanks;
use super::policy::NeedsFallback;
use ut_data::detector::{LANES_PER_BOARD, MAX_BOARDS};

#[derive(Clone, Copy, Debug)]
pub struct BankBoard {
    pub source_id: u32,
    pub board: u8,
    pub ranks: [u16; LANES_PER_BOARD],
}

/// Boards of the last event's banks, in order and without repetitions.
#[derive(Debug)]
pub struct BankOrder {
    banks: Vec<BankBoard>,
}

impl BankOrder {
    pub fn new() -> Self {
        Self {
            banks: Vec::with_capacity(MAX_BOARDS),
        }
    }

    pub fn banks(&self) -> &[BankBoard] {
        &self.banks
    }

    /// Looks up the board of each bank; no board may come twice. Afterwards [`banks`](Self::banks)
    /// lists the banks of `source_ids`, or nothing if this failed.
    #[cold]
    pub fn look_up(
        &mut self,
        boards: &[BoardRanks],
        source_ids: impl Iterator<Item = u32>,
    ) -> Result<(), NeedsFallback> {
        self.banks.clear();
        let found = self.find(boards, source_ids);
        if found.is_err() {
            self.banks.clear();
        }
        found
    }

    /// A board that comes twice is left to the fallback. The policy says which bank counts, and the
    /// fast path has one place per lane only.
    fn find(
        &mut self,
        boards: &[BoardRanks],
        source_ids: impl Iterator<Item = u32>,
    ) -> Result<(), NeedsFallback> {
        const { assert!(MAX_BOARDS <= 1 << u8::BITS) };
        let mut seen = [false; MAX_BOARDS];
        for source_id in source_ids {
            let board = board_of(source_id).ok_or(NeedsFallback)? as usize;
            let BoardRanks { ranks, in_use } = *boards.get(board).ok_or(NeedsFallback)?;
            if !in_use || std::mem::replace(&mut seen[board], true) {
                return Err(NeedsFallback);
            }
            self.banks.push(BankBoard {
                source_id,
                board: board as u8,
                ranks,
            });
        }
        Ok(())
    }
}
