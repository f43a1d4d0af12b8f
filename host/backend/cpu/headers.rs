//! Stage 1: reads the headers of an event's banks: how many hits each lane has, and where they are.
//!
//! Whatever the policy of spec section 6 counts as trouble ends this stage, and with it the fast path for the event. So
//! does every byte that is not there: this is the only stage that looks at the batch's tables, in safe code but for the
//! reads from places that it has checked itself.

use super::fast::{Fast, Unusual};
use super::lanes::BoardRanks;
use super::ordinary::{HIT_BANKS, board_of};
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
        for lanes in &mut *found {
            lanes.begin(n_ranks + 1, self.lanes.n_pointers());
        }
        match batch.layout {
            // SAFETY: the caller's.
            Layout::Allen => found[0].n_banks = unsafe { self.find_allen::<S>(&mut found[0], batch, first).ok() },
            // Where the tables are too short, no event is found to be usual.
            // SAFETY: the caller's.
            Layout::Mep => unsafe { self.find_mep::<S>(found, batch, first).unwrap_or_default() },
        }
        for lanes in found {
            // Hits of lanes that nothing is connected to; the last count is of v4 channels beyond the lanes.
            if lanes.counts[self.lanes.n_connected..=n_ranks].iter().fold(0, |any, count| any | count) != 0 {
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
        for (pair, &size) in table.array_windows().zip(sizes) {
            let [begin, end] = pair.map(u32::from_le_bytes);
            bad |= (end < begin) | (end.wrapping_sub(begin) < u32::from(size) + 4);
        }
        let fragments = fragments.get(..end).ok_or(Unusual)?;
        if bad {
            return Err(Unusual);
        }
        let raw_end = batch.raw.as_ptr_range().end as usize;
        for (begin, &size) in table.iter().zip(sizes) {
            // SAFETY: the fragments ascend and the last one ends within the batch, as checked above.
            let (source_id, payload) = unsafe {
                let fragment = fragments.as_ptr().add(u32::from_le_bytes(*begin) as usize);
                (u32::from_le_bytes(fragment.cast::<[u8; 4]>().read()), fragment.add(4))
            };
            let (board, ranks) = self.board(source_id)?;
            let size = usize::from(size);
            if size < self.smallest() {
                return Err(Unusual);
            }
            // SAFETY: `size` bytes of payload are there.
            unsafe { self.take_bank::<S>(lanes, board, ranks, payload, size, raw_end)? };
        }
        Ok(n_banks)
    }

    /// All fragments of a board are read before those of the next, since they lie together: the fragments of one event
    /// lie on as many pages as there are boards.
    ///
    /// # Safety
    /// CPU as for [`Simd`].
    #[inline(always)]
    unsafe fn find_mep<S: Simd>(&self, found: &mut [Lanes], batch: BatchView<'_>, first: usize) -> Result<(), Unusual> {
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
        let mut bad = [false; BLOCK];
        for bank in 0..n_banks {
            let (board, ranks) = self.board(source_ids[bank])?;
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
                let size = usize::from(sizes[i]);
                let begin = begins[i * n_banks + bank] as usize;
                if begin > raw.len() || raw.len() - begin < size || size < self.smallest() {
                    bad[i] = true;
                    continue;
                }
                // SAFETY: `size` bytes of payload are there, as just checked.
                bad[i] |= unsafe {
                    self.take_bank::<S>(lanes, board, ranks, raw.as_ptr().add(begin), size, raw_end).is_err()
                };
            }
        }
        for (lanes, bad) in found.iter_mut().zip(bad) {
            lanes.n_banks = (!bad).then_some(n_banks);
        }
        Ok(())
    }

    /// The board that a sourceID names, and its lanes.
    #[inline(always)]
    fn board(&self, source_id: u32) -> Result<(usize, &BoardRanks), Unusual> {
        let board = board_of(source_id).ok_or(Unusual)? as usize;
        let ranks = self.lanes.boards.get(board).ok_or(Unusual)?;
        if ranks.in_use { Ok((board, ranks)) } else { Err(Unusual) }
    }

    /// Bytes of the smallest payload that has a header.
    #[inline(always)]
    fn smallest(&self) -> usize {
        if self.lanes.version == BankVersion::V5 { 8 } else { 4 }
    }

    /// Notes the lanes of one bank.
    ///
    /// # Safety
    /// - `size` bytes are at `payload`, as many as the smallest has;
    /// - all up to `raw_end` can be read;
    /// - CPU as for [`Simd`].
    #[inline(always)]
    unsafe fn take_bank<S: Simd>(
        &self,
        lanes: &mut Lanes,
        board: usize,
        ranks: &BoardRanks,
        payload: *const u8,
        size: usize,
        raw_end: usize,
    ) -> Result<(), Unusual> {
        let payload = if raw_end - payload as usize >= size + READ_AHEAD {
            payload
        } else {
            // SAFETY: the caller's.
            lanes.copy_tail(unsafe { std::slice::from_raw_parts(payload, size) }).ok_or(Unusual)?
        };
        // SAFETY:
        // - as many bytes are there as a header has: the caller's;
        // - there are as many pointers as boards, or slots, and as many counts as ranks.
        unsafe {
            match self.lanes.version {
                BankVersion::V5 => take_v5(lanes, board, ranks, payload, size),
                BankVersion::V4 => take_v4::<S>(lanes, board, ranks, payload, size),
            }
        }
    }
}

/// # Safety
/// - `size` bytes are at `payload`, 8 at least;
/// - `lanes` has a pointer for the board, and a count for each of the ranks.
#[inline(always)]
unsafe fn take_v5(
    lanes: &mut Lanes,
    board: usize,
    ranks: &BoardRanks,
    payload: *const u8,
    size: usize,
) -> Result<(), Unusual> {
    // SAFETY: the caller's.
    unsafe {
        let pointer = lanes.pointers.get_unchecked_mut(board);
        if !pointer.is_null() {
            return Err(Unusual);
        }
        *pointer = payload;
        let header = payload.cast::<[u8; 8]>().read();
        let counts = [header[4], header[5], header[6], header[7], header[0], header[1]];
        // Two hits of a lane take 32 bytes; a count of 255 is trouble.
        let most = (size / 32 * 2).min(254) as u8;
        if counts.into_iter().fold(false, |bad, count| bad | (count > most)) {
            return Err(Unusual);
        }
        let by_rank = lanes.counts.as_mut_ptr();
        for (lane, count) in counts.into_iter().enumerate() {
            by_rank.add(usize::from(ranks.ranks[lane])).write(count);
        }
    }
    Ok(())
}

/// # Safety
/// - `size` bytes are at `payload`, 4 at least, and READ_AHEAD more can be read;
/// - `lanes` has a pointer for each of the board's slots, and a count for each of the ranks;
/// - CPU as for [`Simd`].
#[inline(always)]
unsafe fn take_v4<S: Simd>(
    lanes: &mut Lanes,
    board: usize,
    ranks: &BoardRanks,
    payload: *const u8,
    size: usize,
) -> Result<(), Unusual> {
    // SAFETY: the caller's; the words are within the payload, as checked before they are read.
    unsafe {
        let n_words = usize::from(u16::from_le_bytes(payload.cast::<[u8; 2]>().read()));
        let first_slot = board * LANES_PER_BOARD;
        // What counts in bytes holds.
        if n_words > 254 || size < 4 + 2 * n_words || !lanes.pointers.get_unchecked(first_slot).is_null() {
            return Err(Unusual);
        }
        let words = payload.add(4);
        // Byte i: clusters of lanes 0 to i.
        let ends = if n_words <= 32 { S::lane_ends(words, n_words) } else { lane_ends_by_words(words, n_words) };
        let ends = ends.ok_or(Unusual)?;
        // They do not fall: no byte borrows from the next.
        let counts = ends - (ends << 8);
        for lane in 0..LANES_PER_BOARD {
            let count = (counts >> (8 * lane)) as u8;
            let end = (ends >> (8 * lane)) as u8;
            *lanes.counts.get_unchecked_mut(usize::from(ranks.ranks[lane])) = count;
            *lanes.pointers.get_unchecked_mut(first_slot + lane) = words.add(2 * usize::from(end - count));
        }
        *lanes.counts.get_unchecked_mut(usize::from(ranks.ranks[6])) |= (counts >> 48) as u8 | (counts >> 56) as u8;
    }
    Ok(())
}

/// Whether a bank of this type holds no hits.
#[inline]
fn is_other(kind: u8) -> bool {
    (kind != HIT_BANKS[0]) & (kind != HIT_BANKS[1])
}
