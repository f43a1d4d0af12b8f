//! MEP layout: sizes, types and versions of an event's banks, gathered beforehand into a word a
//! bank.
//!
//! The batch has them side by side for all events: a block that looked up its own would read three
//! sectors of 32 bytes for four bytes of each bank. So an earlier launch transposes them.
//!
//! ```text
//! sizes, types, versions       words
//! bank 0   e0 e1 e2 … e31      e0    b0 b1 … b7 │ b8 …        a warp: 32 events of eight banks, read along the events,
//! bank 1   e0 e1 e2 … e31      e1    b0 b1 … b7 │ b8 …        turned in shared memory, written along the banks
//! ```
//!
//! Launch: [`gather_blocks`] blocks of [`GATHER_THREADS`] threads, [`gather_shared_bytes`] of
//! shared memory.

use super::tables::MAX_BOARDS;
use crate::bank::layout::Batch;
use crate::bank::{board_of, is_ut};
use crate::switches::Switches;
use simt::{Block, FULL_MASK, GlobalMut, Kernel, Shared, SharedLayout, WARP_SIZE};

/// Threads of a block.
pub const GATHER_THREADS: u32 = 256;

/// Banks that a warp takes at a time: their words fill a sector.
const BANKS: u32 = 8;

/// Words from one event to the next in shared memory: one more, so that warp lanes hit different
/// memory banks.
const STRIDE: u32 = BANKS + 1;

/// Blocks that share the banks of the same 32 events.
const SLICES: u32 = 4;

/// Blocks to launch for so many events.
pub const fn gather_blocks(n_events: u32) -> u32 {
    n_events.div_ceil(WARP_SIZE) * SLICES
}

/// Bytes of shared memory a block needs.
pub const fn gather_shared_bytes() -> u32 {
    layout().1
}

#[inline(always)]
const fn layout() -> (Shared<u32>, u32) {
    let mut layout = SharedLayout::new();
    let tile = layout.array(GATHER_THREADS * STRIDE);
    (tile, layout.bytes())
}

/// A bank in a word: size 16 bits, board 14 (all set: none), state 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankWord(pub u32);

/// State of a bank, as far as the batch says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Size, type or version are not there.
    Missing,
    /// The type is not decoded.
    OtherType,
    /// The version byte is not that of the kernel.
    WrongVersion,
    /// Decodable so far.
    Good,
}

/// More than any board: detectors have at most 65535 lane slots.
const NO_BOARD: u32 = (1 << 14) - 1;

impl BankWord {
    #[inline(always)]
    const fn new(state: State, size: u16, board: u32) -> Self {
        let state = match state {
            State::Missing => 0,
            State::OtherType => 1,
            State::WrongVersion => 2,
            State::Good => 3,
        };
        let board = if board < NO_BOARD { board } else { NO_BOARD };
        Self(size as u32 | board << 16 | state << 30)
    }

    /// Bytes of the payload.
    #[inline(always)]
    pub const fn size(self) -> u32 {
        self.0 & 0xFFFF
    }

    /// Board; one that no table has, where the sourceID names none.
    #[inline(always)]
    pub const fn board(self) -> u32 {
        self.0 >> 16 & NO_BOARD
    }

    /// State, in the highest two bits.
    #[inline(always)]
    pub const fn state(self) -> State {
        match self.0 >> 30 {
            0 => State::Missing,
            1 => State::OtherType,
            2 => State::WrongVersion,
            _ => State::Good,
        }
    }
}

/// Words that are gathered, at most, for a batch of this many events and offsets.
pub const fn bank_words(n_events: usize, n_offsets: usize) -> usize {
    let most = n_events.saturating_mul(MAX_BOARDS as usize);
    if most < n_offsets { most } else { n_offsets }
}

/// The kernel: word `event * n_banks + bank` of `words` is the bank's, as far as `words` goes.
#[derive(Clone, Copy, Debug)]
pub struct GatherBanks {
    /// Features that the kernel is compiled for.
    pub switches: Switches,
}

impl Kernel for GatherBanks {
    const NAME: &'static str = "gather_banks";
    type Arguments<'a> = (Batch<'a>, u32, GlobalMut<'a, u32>);

    #[inline(always)]
    fn run<B: Block>(self, block: &B, &(ref batch, n_events, words): &Self::Arguments<'_>) {
        let Self { switches } = self;
        // The same for all events of the batch.
        let Some(banks) = batch.event(block, switches.layout, 0) else {
            return;
        };
        let n_banks = banks.n_banks;
        let (tile, _) = layout();
        let (lane, mine) = (block.lane_id(), block.warp_id() * WARP_SIZE * STRIDE);
        let first_event = block.block_idx_x() / SLICES * WARP_SIZE;
        let event = first_event + lane;
        let mut first_bank =
            (block.block_idx_x() % SLICES * block.warps() + block.warp_id()) * BANKS;
        while first_bank < n_banks {
            let bank = first_bank + lane;
            let is_one = lane < BANKS && bank < n_banks;
            let rows = batch.rows_of_bank(block, is_one.then_some(bank));
            let source_id = if is_one {
                block.load(batch.offsets, 2 + bank)
            } else {
                0
            };
            let mut i = 0;
            while i < BANKS {
                let rows = rows.of_lane(block, i);
                let board =
                    board_of(block.shuffle_idx_sync(FULL_MASK, source_id, i)).unwrap_or(NO_BOARD);
                let word = if event < n_events {
                    match batch.entries(block, rows, batch.first_event + event) {
                        None => BankWord::new(State::Missing, 0, NO_BOARD),
                        Some((size, kind, version)) => {
                            let state = if !is_ut(kind) {
                                State::OtherType
                            } else if version != switches.version.byte() {
                                State::WrongVersion
                            } else {
                                State::Good
                            };
                            BankWord::new(state, size, board)
                        }
                    }
                } else {
                    BankWord(0)
                };
                block.shared_store(tile, mine + lane * STRIDE + i, word.0);
                i += 1;
            }
            // All words are there before other threads read them.
            block.sync_warp(FULL_MASK);
            let bank = lane % BANKS;
            let mut i = lane / BANKS;
            while i < WARP_SIZE {
                let word = block.shared_load(tile, mine + i * STRIDE + bank);
                let place = (first_event + i)
                    .checked_mul(n_banks)
                    .and_then(|place| place.checked_add(first_bank + bank));
                if let Some(place) = place
                    && first_event + i < n_events
                    && first_bank + bank < n_banks
                    && place < words.len()
                {
                    block.store(words, place, word);
                }
                i += WARP_SIZE / BANKS;
            }
            // All are read before the next ones overwrite them.
            block.sync_warp(FULL_MASK);
            first_bank += SLICES * block.warps() * BANKS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bank_is_unchanged_by_packing_into_a_word_and_back() {
        for state in [
            State::Missing,
            State::OtherType,
            State::WrongVersion,
            State::Good,
        ] {
            for (size, board) in [(0, 0), (u16::MAX, 215), (8, NO_BOARD - 1)] {
                let word = BankWord::new(state, size, board);
                assert_eq!(
                    (word.state(), word.size(), word.board()),
                    (state, u32::from(size), board)
                );
            }
        }
        assert_eq!(BankWord::new(State::Good, 1, u32::MAX).board(), NO_BOARD);
    }
}
