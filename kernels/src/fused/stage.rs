//! The event's bytes in shared memory: each is read from global memory once, by neighbouring threads side by side.
//!
//! Read in place, the words of a bank would be fetched one by one, a sector of 32 bytes for each. What does not fit the
//! stage, and what damaged offsets lead to elsewhere, is read in place: the stage changes no result.
//!
//! In Allen layout an event is one piece, and is copied as one. In MEP layout its fragments lie apart, those of an
//! event between those of others: eight threads copy a fragment, a sector at a time, and no sector that only has what
//! no lane reads. Where a fragment is then is its place in the stage; what is not staged has its place in the batch,
//! moved up by the size of the stage.

use super::gather::{BankWord, State};
use crate::bank::bytes::Bytes;
use crate::bank::layout::{Bank, Banks, Batch, FoundEvent};
use crate::bank::{UT, v5};
use crate::detector::BankVersion;
use crate::switches::{Layout, Switches};
use simt::primitives::warp_scan::warp_exclusive;
use simt::{Block, FULL_MASK, Global, Scalar, Shared, WARP_SIZE};

/// Copies begin at multiples of this many bytes, so that each access of a warp is four whole sectors.
const LINE: u32 = 128;

/// Lanes that copy a fragment: the words of a sector.
const COPIERS: u32 = 8;

/// The bytes of a batch, some of them nearer.
#[derive(Clone, Copy, Debug)]
pub struct Staged<'a> {
    raw: Global<'a, u8>,
    words: Shared<u32>,
    /// The first place that is in `words`.
    first: u32,
    /// How many are.
    len: u32,
    /// By how much the places of the others are moved up.
    beyond: u32,
}

impl<'a> Staged<'a> {
    /// Copies the bytes from `begin` to `end`, as far as there are such and `words` has room. All threads of the block
    /// call; a barrier must follow.
    #[inline(always)]
    pub fn fill<B: Block>(block: &B, raw: Global<'a, u8>, words: Shared<u32>, (begin, end): (u32, u32)) -> Self {
        let first = begin / LINE * LINE;
        // Whole words only, of those that are there.
        let there = raw.len().saturating_sub(first) / 4;
        let n_words = end.saturating_sub(first).div_ceil(4).min(there).min(words.len());
        let mut i = block.thread();
        while i < n_words {
            block.shared_store(words, i, block.load_bytes::<u32>(raw, first + 4 * i));
            i += block.threads();
        }
        Self { raw, words, first, len: 4 * n_words, beyond: 0 }
    }

    /// Nothing yet: for fragments, which [`StagedBanks`] brings.
    #[inline(always)]
    pub const fn fragments(raw: Global<'a, u8>, words: Shared<u32>) -> Self {
        let len = 4 * words.len();
        // Moved up, all places must fit 32 bits; if they do not, nothing is staged.
        let len = if raw.len() <= u32::MAX - len { len } else { 0 };
        Self { raw, words, first: 0, len, beyond: len }
    }
}

impl<B: Block> Bytes<B> for Staged<'_> {
    #[inline(always)]
    #[track_caller]
    fn load<T: Scalar>(self, block: &B, at: u32) -> T {
        const { assert!(size_of::<T>() <= 4) };
        let size = size_of::<T>() as u32;
        // Far beyond the end where `at` lies before the first byte.
        let from = at.wrapping_sub(self.first);
        if from >= self.len || size > self.len - from {
            return block.load_bytes(self.raw, at - self.beyond);
        }
        let (i, byte) = (from / 4, from % 4);
        let mut bits = u64::from(block.shared_load(self.words, i));
        if byte + size > 4 {
            bits |= u64::from(block.shared_load(self.words, i + 1)) << 32;
        }
        T::from_bits(bits >> (8 * byte))
    }
}

/// The banks of an event. In MEP layout they were gathered before, and are staged as they are looked at.
#[derive(Clone, Copy, Debug)]
pub struct StagedBanks<'a> {
    pub switches: Switches,
    pub found: FoundEvent,
    pub staged: Staged<'a>,
    /// As [`FusedInput::bank_words`](super::FusedInput::bank_words).
    pub bank_words: Global<'a, u32>,
    /// Words of the stage that are taken.
    pub taken: Shared<u32>,
}

impl<B: Block> Banks<B> for StagedBanks<'_> {
    #[inline(always)]
    fn n_banks(self) -> u32 {
        Banks::<B>::n_banks(self.found)
    }

    #[inline(always)]
    fn bank(self, block: &B, batch: &Batch<'_>, raw: impl Bytes<B>, layout: Layout, bank: u32) -> Option<Bank> {
        if matches!(self.switches.layout, Layout::Allen) {
            return self.found.bank(block, batch, raw, layout, bank);
        }
        let (number, payload) = batch.fragment(block, &self.found.banks, bank)?;
        if number >= self.bank_words.len() {
            return None;
        }
        let word = BankWord(block.load(self.bank_words, number));
        let right = self.switches.version.byte();
        let (kind, version) = match word.state() {
            State::Missing => return None,
            State::OtherType => (0, right),
            State::WrongVersion => (UT, !right),
            State::Good => (UT, right),
        };
        let (size, board) = (word.size(), word.board());
        let is_there = payload.checked_add(size).is_some_and(|end| end <= batch.raw.len());
        is_there.then_some(Bank { kind, version: Some(version), board, payload, size })
    }

    #[inline(always)]
    fn bring(self, block: &B, bank: Option<Bank>) -> Option<Bank> {
        if matches!(self.switches.layout, Layout::Allen) {
            return bank;
        }
        let Staged { raw, words, len, beyond, .. } = self.staged;
        let (mut first, mut n) = (0, 0);
        if let Some(Bank { payload, size, .. }) = bank {
            let used = match self.switches.version {
                BankVersion::V4 => size,
                // Rows end after 32, 64, … bytes: eight of header before, eight that belong to no lane not read.
                BankVersion::V5 => (size / 32 * 32).max(size.min(v5::HEADER)),
            };
            // (The payload is there: this is no more than the batch's length.)
            let end = (payload + used).div_ceil(4);
            // Whole words only.
            if used > 0 && end <= raw.len() / 4 {
                first = payload / 4;
                n = end - first;
            }
        }
        let before = warp_exclusive::<32, B>(block, n);
        let all = block.shuffle_idx_sync(FULL_MASK, before + n, WARP_SIZE - 1);
        let mut at = 0;
        if block.lane_id() == 0 {
            // At most as many banks as boards, and 2¹⁴ words each: it cannot wrap.
            at = block.shared_atomic_add(self.taken, 0, all);
        }
        let at = block.shuffle_idx_sync(FULL_MASK, at, 0) + before;
        if at + n > len / 4 {
            n = 0;
        }
        let mut turn = 0;
        while turn < COPIERS {
            // (Four fragments at a time.)
            let of = 4 * turn + block.lane_id() / COPIERS;
            let first = block.shuffle_idx_sync(FULL_MASK, first, of);
            let end = first + block.shuffle_idx_sync(FULL_MASK, n, of);
            let at = block.shuffle_idx_sync(FULL_MASK, at, of);
            let mut word = first / COPIERS * COPIERS + block.lane_id() % COPIERS;
            while word < end {
                // (The words before the fragment are in its first sector: read, so that the threads stay converged.)
                let value = block.load_bytes::<u32>(raw, 4 * word);
                if word >= first {
                    block.shared_store(words, at + (word - first), value);
                }
                word += COPIERS;
            }
            turn += 1;
        }
        // Each thread's fragment is there.
        block.sync_warp(FULL_MASK);
        bank.map(|bank| Bank { payload: if n > 0 { 4 * at + bank.payload % 4 } else { bank.payload + beyond }, ..bank })
    }
}
