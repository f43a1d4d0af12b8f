//! Stage 1: reads the headers of an event's banks: how many hits each lane has, and where they are.
//!
//! Whatever the policy of spec section 6 counts as trouble ends this stage, and with it the fast path for the event. So
//! does every byte that is not there: this is the only stage that looks at the batch's tables, in safe code but for the
//! reads from places that it has checked itself.

use super::fast::{Fast, Unusual};
use super::lanes::BoardRanks;
use super::ordinary::board_of;
use super::scratch::{READ_AHEAD, Scratch};
use crate::detector::{BankVersion, LANES_PER_BOARD};
use crate::input::{BatchView, Layout};

/// Bytes of `words` from entry `row` on, of a table whose first words say where each row begins, in units of `T`.
#[inline]
fn row<T: bytemuck::AnyBitPattern>(words: &[u32], row: usize) -> Result<&[T], Unusual> {
    let begin = *words.get(row).ok_or(Unusual)? as usize;
    bytemuck::cast_slice::<u32, T>(words).get(begin..).ok_or(Unusual)
}

impl Fast {
    /// The stage, for either layout. Gives the number of banks.
    #[inline(always)]
    pub fn find_lanes(&self, scratch: &mut Scratch, batch: BatchView<'_>, event: usize) -> Result<usize, Unusual> {
        let n_ranks = self.lanes.n_ranks();
        scratch.begin_event(n_ranks + 1, self.lanes.n_pointers());
        let n_banks = match batch.layout {
            Layout::Allen => self.find_allen(scratch, batch, event)?,
            Layout::Mep => self.find_mep(scratch, batch, event)?,
        };
        // Hits of lanes that nothing is connected to; the last count is of v4 channels beyond the lanes.
        if scratch.counts[self.lanes.n_connected..=n_ranks].iter().fold(0, |any, count| any | count) != 0 {
            return Err(Unusual);
        }
        Ok(n_banks)
    }

    #[inline(always)]
    fn find_allen(&self, scratch: &mut Scratch, batch: BatchView<'_>, event: usize) -> Result<usize, Unusual> {
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
        let readable_end = batch.raw.as_ptr_range().end as usize;
        for (begin, &size) in table.iter().zip(sizes) {
            // SAFETY: the fragments ascend and the last one ends within the batch, as checked above.
            let (source_id, payload) = unsafe {
                let fragment = fragments.as_ptr().add(u32::from_le_bytes(*begin) as usize);
                (u32::from_le_bytes(fragment.cast::<[u8; 4]>().read()), fragment.add(4))
            };
            // SAFETY: `size` bytes of payload are there.
            unsafe { self.take_bank(scratch, source_id, payload, usize::from(size), readable_end)? };
        }
        Ok(n_banks)
    }

    #[inline(always)]
    fn find_mep(&self, scratch: &mut Scratch, batch: BatchView<'_>, event: usize) -> Result<usize, Unusual> {
        let n_banks = *batch.offsets.first().ok_or(Unusual)? as usize;
        if n_banks > self.lanes.n_boards() {
            return Err(Unusual);
        }
        let source_ids = batch.offsets.get(2..2 + n_banks).ok_or(Unusual)?;
        let row = n_banks.checked_mul(event).ok_or(Unusual)?.checked_add(2 + n_banks).ok_or(Unusual)?;
        let rows = batch.offsets.get(row..).ok_or(Unusual)?;
        let begins = rows.get(..n_banks).ok_or(Unusual)?;
        let size_rows = batch.sizes.get(..n_banks).ok_or(Unusual)?;
        let kind_rows = batch.types.get(..n_banks).ok_or(Unusual)?;
        let sizes: &[u16] = bytemuck::cast_slice(batch.sizes);
        let kinds: &[u8] = bytemuck::cast_slice(batch.types);
        let version_rows = match batch.versions {
            Some(versions) => {
                Some((versions.get(..n_banks).ok_or(Unusual)?, bytemuck::cast_slice::<u32, u8>(versions)))
            }
            None => None,
        };
        let version = self.lanes.version.byte();
        let readable_end = batch.raw.as_ptr_range().end as usize;
        for bank in 0..n_banks {
            let size = usize::from(*sizes.get(size_rows[bank] as usize + event).ok_or(Unusual)?);
            if is_other(*kinds.get(kind_rows[bank] as usize + event).ok_or(Unusual)?) {
                return Err(Unusual);
            }
            if let Some((rows, versions)) = version_rows
                && *versions.get(rows[bank] as usize + event).ok_or(Unusual)? != version
            {
                return Err(Unusual);
            }
            let payload = batch.raw.get(begins[bank] as usize..).and_then(|from| from.get(..size)).ok_or(Unusual)?;
            // SAFETY: `size` bytes of payload are there.
            unsafe { self.take_bank(scratch, source_ids[bank], payload.as_ptr(), size, readable_end)? };
        }
        Ok(n_banks)
    }

    /// Notes the lanes of one bank.
    ///
    /// # Safety
    /// `size` bytes are at `payload`.
    #[inline(always)]
    unsafe fn take_bank(
        &self,
        scratch: &mut Scratch,
        source_id: u32,
        payload: *const u8,
        size: usize,
        readable_end: usize,
    ) -> Result<(), Unusual> {
        let board = board_of(source_id).ok_or(Unusual)? as usize;
        let ranks = self.lanes.boards.get(board).ok_or(Unusual)?;
        let smallest = if self.lanes.version == BankVersion::V5 { 8 } else { 4 };
        if !ranks.in_use || size < smallest {
            return Err(Unusual);
        }
        let readable = if readable_end - payload as usize >= size + READ_AHEAD {
            payload
        } else {
            // SAFETY: the caller's.
            scratch.copy_tail(unsafe { std::slice::from_raw_parts(payload, size) })?
        };
        // SAFETY:
        // - as many bytes are there as a header has;
        // - there are as many pointers as boards, or slots, and as many counts as ranks.
        unsafe {
            match self.lanes.version {
                BankVersion::V5 => take_v5(scratch, board, ranks, readable, size),
                BankVersion::V4 => take_v4(scratch, board, ranks, readable, size),
            }
        }
    }
}

/// # Safety
/// - `size` bytes are at `payload`, 8 at least;
/// - `scratch` has a pointer for the board, and a count for each of the ranks.
#[inline(always)]
unsafe fn take_v5(
    scratch: &mut Scratch,
    board: usize,
    ranks: &BoardRanks,
    payload: *const u8,
    size: usize,
) -> Result<(), Unusual> {
    // SAFETY: the caller's.
    unsafe {
        let pointer = scratch.pointers.get_unchecked_mut(board);
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
        for (lane, count) in counts.into_iter().enumerate() {
            *scratch.counts.get_unchecked_mut(usize::from(ranks.ranks[lane])) = count;
        }
    }
    Ok(())
}

/// # Safety
/// - `size` bytes are at `payload`, 4 at least;
/// - `scratch` has a pointer for each of the board's slots, and a count for each of the ranks.
#[inline(always)]
unsafe fn take_v4(
    scratch: &mut Scratch,
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
        if n_words > 254 || size < 4 + 2 * n_words || !scratch.pointers.get_unchecked(first_slot).is_null() {
            return Err(Unusual);
        }
        let words = payload.add(4);
        // The lanes' counts, a byte each.
        let mut counts = 0u64;
        let mut before = 0;
        let mut unsorted = false;
        for i in 0..n_words {
            // Eight times the lane.
            let lane = u16::from_le_bytes(words.add(2 * i).cast::<[u8; 2]>().read()) >> 8 & 0x38;
            unsorted |= lane < before;
            before = lane;
            counts += 1 << lane;
        }
        if unsorted {
            return Err(Unusual);
        }
        // Byte i: clusters of lanes 0 to i.
        let ends = counts.wrapping_mul(0x0101_0101_0101_0101);
        for lane in 0..LANES_PER_BOARD {
            let count = (counts >> (8 * lane)) as u8;
            let end = (ends >> (8 * lane)) as u8;
            *scratch.counts.get_unchecked_mut(usize::from(ranks.ranks[lane])) = count;
            *scratch.pointers.get_unchecked_mut(first_slot + lane) = words.add(2 * usize::from(end - count));
        }
        *scratch.counts.get_unchecked_mut(usize::from(ranks.ranks[6])) |= (counts >> 48) as u8 | (counts >> 56) as u8;
    }
    Ok(())
}

/// Whether a bank of this type holds no hits.
#[inline]
fn is_other(kind: u8) -> bool {
    (kind != 66) & (kind != 68)
}
