//! Stage 1: reads the headers of an event's banks: how many hits each lane has, and where they are; and lays the first four
//! hits of each lane out for stage 2.
//!
//! The banks of an event come from the same boards in the same order as those of the event before, nearly always. Which
//! lanes they have is looked up once, and from then on it is only made sure that they are the same.
//!
//! Whatever the policy of spec section 6 counts as trouble ends this stage, and with it the fast path for the event. So
//! does every byte that is not there: this is the only stage that looks at the batch's tables, in safe code but for the
//! reads from places that it has checked itself.

use super::bank_order::{BankBoard, BankOrder};
use super::copy::{Ahead, LINE};
use super::fast::{Fast, Unusual};
use super::ordinary::HIT_BANKS;
use super::scratch::{BLOCK, Lanes, READ_AHEAD, Scratch};
use super::simd::{Simd, lane_ends_by_words};
use crate::detector::{BankVersion, LANES_PER_BOARD};
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
    /// The stage: notes the lanes of events from `first` on. In Allen layout of this one; in MEP layout, where events
    /// lie side by side, of a block of events before `end`, board by board.
    ///
    /// # Safety
    /// CPU as for [`Simd`].
    #[inline(always)]
    pub unsafe fn find_lanes<S: Simd>(&self, scratch: &mut Scratch, batch: BatchView<'_>, first: usize, end: usize) {
        let n_events = match batch.layout {
            Layout::Allen => 1,
            Layout::Mep => (end - first).min(BLOCK),
        };
        scratch.block = first..first + n_events;
        let n_ranks = self.lanes.n_ranks();
        let found = &mut scratch.found[..n_events];
        let order = &mut scratch.bank_order;
        for lanes in &mut *found {
            lanes.begin(n_ranks);
        }
        // SAFETY: the caller's.
        unsafe {
            match batch.layout {
                Layout::Allen => found[0].n_banks = self.find_allen::<S>(&mut found[0], order, batch, first).ok(),
                // Where the tables are too short, no event is found to be usual.
                Layout::Mep => self.find_mep::<S>(found, order, batch, first).unwrap_or_default(),
            }
        }
        for lanes in found {
            // Hits of lanes that nothing is connected to.
            if lanes.counts[self.lanes.n_connected..n_ranks].iter().fold(0, |any, count| any | count) != 0 {
                lanes.n_banks = None;
            }
        }
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
        // SAFETY: the fragments ascend and the last one ends within the batch, as checked above; each has four bytes before
        // its payload.
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

    /// All fragments of a board are read before those of the next, since they lie together: the fragments of one event
    /// lie on as many pages as there are boards.
    ///
    /// # Safety
    /// CPU as for [`Simd`].
    #[inline(always)]
    unsafe fn find_mep<S: Simd>(
        &self,
        found: &mut [Lanes],
        order: &mut BankOrder,
        batch: BatchView<'_>,
        first: usize,
    ) -> Result<(), Unusual> {
        let n_events = found.len();
        let n_banks = *batch.offsets.first().ok_or(Unusual)? as usize;
        if n_banks > self.lanes.n_boards() {
            return Err(Unusual);
        }
        let source_ids = batch.offsets.get(2..2 + n_banks).ok_or(Unusual)?;
        let begins = n_banks.checked_mul(first).ok_or(Unusual)?.checked_add(2 + n_banks).ok_or(Unusual)?;
        let begins = batch.offsets.get(begins..).and_then(|rows| rows.get(..n_banks * n_events)).ok_or(Unusual)?;
        let version = self.lanes.version.byte();
        let (raw, raw_end) = (batch.raw, batch.raw.as_ptr_range().end as usize);
        let smallest = self.smallest();
        if order.banks().0 != source_ids {
            order.look_up(&self.lanes.boards, source_ids.iter().copied())?;
        }
        let mut bad = [false; BLOCK];
        for (bank, board) in order.banks().1.iter().enumerate() {
            let sizes = part::<u16>(batch.sizes, bank, first, n_events)?;
            let kinds = part::<u8>(batch.types, bank, first, n_events)?;
            if kinds.first_chunk() != Some(&[HIT_BANKS[0]; BLOCK]) {
                for (bad, &kind) in bad.iter_mut().zip(kinds) {
                    *bad |= is_other(kind);
                }
            }
            if let Some(versions) = batch.versions {
                let versions = part::<u8>(versions, bank, first, n_events)?;
                if versions.first_chunk() != Some(&[version; BLOCK]) {
                    for (bad, &byte) in bad.iter_mut().zip(versions) {
                        *bad |= byte != version;
                    }
                }
            }
            for (i, lanes) in found.iter_mut().enumerate() {
                let size = sizes[i];
                let begin = begins[i * n_banks + bank] as usize;
                if begin > raw.len() || raw.len() - begin < usize::from(size) || size < smallest {
                    bad[i] = true;
                    continue;
                }
                // SAFETY: `size` bytes of payload are there, as just checked.
                bad[i] |= unsafe { self.take_bank::<S>(lanes, board, raw.as_ptr().add(begin), size, Some(raw_end)) };
            }
        }
        for (lanes, bad) in found.iter_mut().zip(bad) {
            lanes.n_banks = (!bad).then_some(n_banks);
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
    // Every other byte of a header that is a count, and one more byte.
    const COUNTS: u64 = 0x00FF_00FF_0000_00FF;
    const EACH: u64 = 0x0001_0001_0001_0001;
    // SAFETY: the caller's.
    unsafe {
        let board = usize::from(bank.board);
        *lanes.payloads.get_unchecked_mut(board) = payload;
        S::v5_heads(payload, bank.reversed, lanes.heads.get_unchecked_mut(board).0.as_mut_ptr());
        let header = payload.cast::<[u8; 8]>().read();
        let by_rank = lanes.counts.as_mut_ptr();
        for (lane, byte) in [4, 5, 6, 7, 0, 1].into_iter().enumerate() {
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
