//! Stage 1: reads the headers of an event's banks: how many hits each lane has, and where they are; and lays the first
//! four hits of each lane out for stage 2.
//!
//! The banks of an event come from the same boards in the same order as those of the event before, nearly always. Which
//! lanes they have is looked up once, and from then on it is only made sure that they are the same.
//!
//! Whatever `docs/policy.md` counts as trouble ends this stage, and with it the fast path for the event. So
//! does every byte that is not there: this is the only stage that looks at the batch's tables, in safe code but for the
//! reads from places that it has checked itself.

use super::bank_order::{BankBoard, BankOrder};
use super::copy::{Ahead, LINE};
use super::fast::{Fast, Unusual};
use super::lanes::V5_COUNTS;
use super::ordinary::HIT_BANKS;
use super::scratch::{BLOCK, Block, Lanes, READ_AHEAD, Scratch};
use super::simd::{Simd, lane_ends_by_words};
use crate::detector::{BankVersion, LANES_PER_BOARD, MAX_BOARDS};
use crate::input::{BatchView, Layout};

/// The `n` entries from `column` on of row `row`.
#[inline(always)]
fn part<T: bytemuck::AnyBitPattern>(words: &[u32], index: usize, column: usize, n: usize) -> Result<&[T], Unusual> {
    row::<T>(words, index)?.get(column..).and_then(|part| part.get(..n)).ok_or(Unusual)
}

/// Bytes of `words` from entry `row` on, of a table whose first words say where each row begins, in units of `T`.
#[inline]
fn row<T: bytemuck::AnyBitPattern>(words: &[u32], row: usize) -> Result<&[T], Unusual> {
    let begin = *words.get(row).ok_or(Unusual)? as usize;
    bytemuck::cast_slice::<u32, T>(words).get(begin..).ok_or(Unusual)
}

impl Fast {
    /// The stage: notes the lanes of an event. The events up to `end` will be next.
    ///
    /// # Safety
    /// CPU as for [`Simd`].
    #[inline(always)]
    pub unsafe fn find_lanes<S: Simd>(&self, scratch: &mut Scratch, batch: BatchView<'_>, event: usize, end: usize) {
        let n_ranks = self.lanes.n_ranks();
        let Scratch { found: lanes, bank_order: order, block, .. } = scratch;
        lanes.begin(n_ranks);
        // SAFETY: the caller's.
        let n_banks = unsafe {
            match batch.layout {
                Layout::Allen => self.find_allen::<S>(lanes, order, batch, event),
                Layout::Mep => self.find_mep::<S>(lanes, order, block, batch, (event, end)),
            }
        };
        // Hits of lanes that nothing is connected to.
        let beyond = lanes.counts[self.lanes.n_connected..n_ranks].iter().fold(0, |any, count| any | count);
        lanes.n_banks = n_banks.ok().filter(|_| beyond == 0);
    }

    /// # Safety
    /// CPU as for [`Simd`].
    #[inline(always)]
    unsafe fn find_allen<S: Simd>(
        &self,
        lanes: &mut Lanes,
        order: &mut BankOrder,
        batch: BatchView<'_>,
        event: usize,
    ) -> Result<usize, Unusual> {
        let begin = *batch.offsets.get(event).ok_or(Unusual)? as usize;
        let block = batch.raw.get(begin..).ok_or(Unusual)?;
        let (n_banks, block) = block.split_first_chunk::<4>().ok_or(Unusual)?;
        let n_banks = u32::from_le_bytes(*n_banks) as usize;
        if n_banks > self.lanes.n_boards() {
            return Err(Unusual);
        }
        let (table, fragments) = block.split_at_checked(4 * (n_banks + 1)).ok_or(Unusual)?;
        let table = table.as_chunks::<4>().0;
        let sizes = row::<u16>(batch.sizes, event)?.get(..n_banks).ok_or(Unusual)?;
        let kinds = row::<u8>(batch.types, event)?.get(..n_banks).ok_or(Unusual)?;
        let mut bad = kinds.iter().fold(false, |bad, &kind| bad | is_other(kind));
        if let Some(versions) = batch.versions {
            let versions = row::<u8>(versions, event)?.get(..n_banks).ok_or(Unusual)?;
            let version = self.lanes.version.byte();
            bad |= versions.iter().fold(false, |bad, &byte| bad | (byte != version));
        }
        // Each fragment has room for its sourceID and its payload, and begins where or after the one before ends.
        let end = u32::from_le_bytes(table[n_banks]) as usize;
        let smallest = self.smallest();
        for (pair, &size) in table.array_windows().zip(sizes) {
            let [begin, end] = pair.map(u32::from_le_bytes);
            bad |= (end < begin) | (end.wrapping_sub(begin) < u32::from(size) + 4) | (size < smallest);
        }
        let fragments = fragments.get(..end).ok_or(Unusual)?;
        if bad {
            return Err(Unusual);
        }
        let to_raw_end = batch.raw.as_ptr_range().end as usize - fragments.as_ptr_range().end as usize;
        let raw_end = (to_raw_end < READ_AHEAD).then_some(batch.raw.as_ptr_range().end as usize);
        // SAFETY: the fragments ascend and the last one ends within the batch, as checked above; each has four bytes
        // before its payload.
        let fragment = |begin: &[u8; 4]| unsafe {
            let fragment = fragments.as_ptr().add(u32::from_le_bytes(*begin) as usize);
            (u32::from_le_bytes(fragment.cast::<[u8; 4]>().read()), fragment.add(4))
        };
        loop {
            let (source_ids, banks) = order.banks();
            if banks.len() == n_banks {
                let mut different = 0;
                let of_banks = table.iter().zip(sizes).zip(source_ids).zip(banks);
                let mut ahead = Ahead::next_event(batch, event);
                for (((begin, &size), expected), bank) in of_banks {
                    S::prefetch_far(ahead);
                    ahead = ahead.wrapping_add(LINE);
                    let (source_id, payload) = fragment(begin);
                    different |= source_id ^ expected;
                    // SAFETY: `size` bytes of payload are there, at least as many as the smallest has.
                    bad |= unsafe { self.take_bank::<S>(lanes, bank, payload, size, raw_end) };
                }
                if different == 0 {
                    return if bad { Err(Unusual) } else { Ok(n_banks) };
                }
            }
            order.look_up(&self.lanes.boards, table[..n_banks].iter().map(|begin| fragment(begin).0))?;
            lanes.begin(self.lanes.n_ranks());
            bad = false;
        }
    }

    /// # Safety
    /// CPU as for [`Simd`].
    #[inline(always)]
    unsafe fn find_mep<S: Simd>(
        &self,
        lanes: &mut Lanes,
        order: &mut BankOrder,
        block: &mut Block,
        batch: BatchView<'_>,
        (event, end): (usize, usize),
    ) -> Result<usize, Unusual> {
        if !block.events.contains(&event) {
            block.events = event..end.min(event + BLOCK);
            block.unusual.fill(false);
            if self.look_at_tables(order, block, batch).is_err() {
                block.unusual.fill(true);
            }
        }
        let of_block = event - block.events.start;
        if block.unusual[of_block] {
            return Err(Unusual);
        }
        let (_, banks) = order.banks();
        let n_banks = banks.len();
        let row = |event: usize| {
            let begin = n_banks.checked_mul(event)?.checked_add(2 + n_banks)?;
            batch.offsets.get(begin..)?.get(..n_banks)
        };
        let begins = row(event).ok_or(Unusual)?;
        let ahead = row(event + 1).unwrap_or(begins);
        let (raw, smallest) = (batch.raw, self.smallest());
        let sizes = &block.sizes[of_block * MAX_BOARDS..][..n_banks];
        let mut bad = false;
        for (((&begin, &size), bank), &ahead) in begins.iter().zip(sizes).zip(banks).zip(ahead) {
            // The fragment of the next event, and what is read beyond it.
            for line in 0..=READ_AHEAD / LINE {
                S::prefetch_far(raw.as_ptr().wrapping_add(ahead as usize + LINE * line));
            }
            let there = raw.len().checked_sub(begin as usize).ok_or(Unusual)?;
            if there < usize::from(size) || size < smallest {
                return Err(Unusual);
            }
            let near = there < usize::from(u16::MAX) + READ_AHEAD;
            let raw_end = near.then_some(raw.as_ptr_range().end as usize);
            // SAFETY: `size` bytes of payload are there, as just checked.
            bad |= unsafe { self.take_bank::<S>(lanes, bank, raw.as_ptr().add(begin as usize), size, raw_end) };
        }
        if bad { Err(Unusual) } else { Ok(n_banks) }
    }

    /// Goes through the tables of a MEP batch for the events of a block, which lie side by side there, board by board.
    #[inline(always)]
    fn look_at_tables(&self, order: &mut BankOrder, block: &mut Block, batch: BatchView<'_>) -> Result<(), Unusual> {
        let (first, n_events) = (block.events.start, block.events.len());
        let n_banks = *batch.offsets.first().ok_or(Unusual)? as usize;
        if n_banks > self.lanes.n_boards() {
            return Err(Unusual);
        }
        let source_ids = batch.offsets.get(2..2 + n_banks).ok_or(Unusual)?;
        if order.banks().0 != source_ids {
            order.look_up(&self.lanes.boards, source_ids.iter().copied())?;
        }
        let version = self.lanes.version.byte();
        for bank in 0..n_banks {
            for (i, &size) in part::<u16>(batch.sizes, bank, first, n_events)?.iter().enumerate() {
                block.sizes[i * MAX_BOARDS + bank] = size;
            }
            let kinds = part::<u8>(batch.types, bank, first, n_events)?;
            if kinds.first_chunk() != Some(&[HIT_BANKS[0]; BLOCK]) {
                for (unusual, &kind) in block.unusual.iter_mut().zip(kinds) {
                    *unusual |= is_other(kind);
                }
            }
            if let Some(versions) = batch.versions {
                let versions = part::<u8>(versions, bank, first, n_events)?;
                if versions.first_chunk() != Some(&[version; BLOCK]) {
                    for (unusual, &byte) in block.unusual.iter_mut().zip(versions) {
                        *unusual |= byte != version;
                    }
                }
            }
        }
        Ok(())
    }

    /// Bytes of the smallest payload that has a header.
    #[inline(always)]
    fn smallest(&self) -> u16 {
        if self.lanes.version == BankVersion::V5 { 8 } else { 4 }
    }

    /// Notes the lanes of one bank. Whether it has trouble.
    ///
    /// # Safety
    /// - `size` bytes are at `payload`, as many as the smallest has;
    /// - all up to `raw_end` can be read; `None`: READ_AHEAD bytes behind them can;
    /// - CPU as for [`Simd`].
    #[inline(always)]
    unsafe fn take_bank<S: Simd>(
        &self,
        lanes: &mut Lanes,
        bank: &BankBoard,
        mut payload: *const u8,
        size: u16,
        raw_end: Option<usize>,
    ) -> bool {
        if let Some(raw_end) = raw_end
            && raw_end - (payload as usize) < usize::from(size) + READ_AHEAD
        {
            // SAFETY: the caller's.
            let bytes = unsafe { std::slice::from_raw_parts(payload, usize::from(size)) };
            let Some(copy) = lanes.copy_tail(bytes) else { return true };
            payload = copy;
        }
        // SAFETY:
        // - as many bytes are there as a header has: the caller's; and READ_AHEAD more can be read;
        // - there are as many payloads, begins and heads as boards can be, and as many counts as ranks.
        unsafe {
            match self.lanes.version {
                BankVersion::V5 => take_v5::<S>(lanes, bank, payload, size),
                BankVersion::V4 => take_v4::<S>(lanes, bank, payload, size),
            }
        }
    }
}

/// # Safety
/// - `size` bytes are at `payload`, 8 at least, and READ_AHEAD more can be read;
/// - `lanes` has a place for the board, and a count for each of the ranks;
/// - CPU as for [`Simd`].
#[inline(always)]
unsafe fn take_v5<S: Simd>(lanes: &mut Lanes, bank: &BankBoard, payload: *const u8, size: u16) -> bool {
    // Of the counts in a header, every other one: in twice the room, none borrows from another.
    const COUNTS: u64 = 0x00FF_00FF_0000_00FF;
    const EACH: u64 = 0x0001_0001_0001_0001;
    // SAFETY: the caller's.
    unsafe {
        let board = usize::from(bank.board);
        *lanes.payloads.get_unchecked_mut(board) = payload;
        S::v5_heads(payload, bank.reversed, lanes.heads.get_unchecked_mut(board).0.as_mut_ptr());
        let header = payload.cast::<[u8; 8]>().read();
        let by_rank = lanes.counts.as_mut_ptr();
        for (lane, byte) in V5_COUNTS.into_iter().enumerate() {
            by_rank.add(usize::from(bank.ranks[lane])).write(header[byte]);
        }
        // Two hits of a lane take 32 bytes; a count of 255 is trouble. Counts above the most leave a sign.
        let most = u64::from((size / 32 * 2).min(254)) * EACH;
        let counts = u64::from_le_bytes(header);
        let above = most.wrapping_sub(counts & COUNTS) | most.wrapping_sub(counts >> 8 & COUNTS);
        above & EACH << 15 != 0
    }
}

/// # Safety
/// - `size` bytes are at `payload`, 4 at least, and READ_AHEAD more can be read;
/// - `lanes` has a place for the board, and a count for each of the ranks;
/// - CPU as for [`Simd`].
#[inline(always)]
unsafe fn take_v4<S: Simd>(lanes: &mut Lanes, bank: &BankBoard, payload: *const u8, size: u16) -> bool {
    // SAFETY: the caller's; the words are within the payload, as checked before they are read.
    unsafe {
        let n_words = u16::from_le_bytes(payload.cast::<[u8; 2]>().read());
        // What counts in bytes holds.
        if n_words > 254 || size < 4 + 2 * n_words {
            return true;
        }
        let n_words = usize::from(n_words);
        let words = payload.add(4);
        // Byte i: clusters of lanes 0 to i.
        let ends = if n_words <= 32 { S::lane_ends(words, n_words) } else { lane_ends_by_words(words, n_words) };
        let Some(ends) = ends else { return true };
        let begins = ends << 8;
        // They do not fall: no byte borrows from the next.
        let counts = ends - begins;
        let by_rank = lanes.counts.as_mut_ptr();
        for lane in 0..LANES_PER_BOARD {
            by_rank.add(usize::from(bank.ranks[lane])).write((counts >> (8 * lane)) as u8);
        }
        let board = usize::from(bank.board);
        *lanes.payloads.get_unchecked_mut(board) = payload;
        *lanes.begins.get_unchecked_mut(board) = begins;
        S::v4_heads(words, n_words, ends, bank.reversed, lanes.heads.get_unchecked_mut(board).0.as_mut_ptr());
        // A word can name the lanes 6 and 7, which no board has.
        counts >> (8 * LANES_PER_BOARD) != 0
    }
}

/// Whether a bank of this type holds no hits.
#[inline]
fn is_other(kind: u8) -> bool {
    (kind != HIT_BANKS[0]) & (kind != HIT_BANKS[1])
}
