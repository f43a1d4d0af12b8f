//! Stage 1: reads the headers of an event's banks: how many hits each lane has, and where they are.
//!
//! The banks nearly always come from the same boards in the same order as in the event before:
//! lanes are looked up once, and then only compared. All other checks are collected and decided
//! once.
//!
//! Where anything is unexpected, [`bank_by_bank`] goes through the event again as the policy says
//! (`docs/policy.md`): a bank that is skipped or dropped costs the event nothing else.
//!
//! No other stage looks at the batch's tables; this one reads them in safe code but for places that
//! it has checked.
//!
//! # Why checks are collected
//!
//! A branch per bank and check would be some thousand branches per event, nearly all of which say
//! "fine". So each check becomes a bit that is joined to the bits of the other banks with `|`, and
//! one branch at the end asks whether any bit is set. The compiler turns these loops into vector
//! code. The price is that the loop does not know *which* bank was wrong; the second, slower way
//! through the event finds that out.
//!
//! # The two layouts
//!
//! In Allen layout everything about an event lies together, and an event is checked as a whole. In
//! MEP layout the entries of one event are a row apart in each table (the tables go by bank first),
//! and to collect them for a single event would touch a cache line for each bank and table. So the
//! tables of a block of events are looked at together: each line that is fetched serves all events
//! of the block.

use ut_format::bank::COUNT_BYTES;

use super::bank_order::{BankBoard, BankOrder};
use super::banks::BankList;
use super::policy::{HIT_BANKS, NeedsFallback, v4_words, v5_counts};
use super::prefetch::{LINE, Prefetch};
use super::scratch::{BLOCK, EventBlock, FoundLanes, READ_AHEAD, Scratch};
use super::setup::Setup;
use super::simd::Simd;
use ut_data::detector::{BankVersion, LANES_PER_BOARD, MAX_BOARDS};
use ut_data::input::{BatchView, Layout};
use ut_data::{Count, EventReport};

/// Notes the lanes of an event, and counts its banks. The events up to `end` will be next.
#[inline(always)]
pub fn find_lanes<S: Simd>(
    s: S,
    setup: &Setup,
    scratch: &mut Scratch,
    batch: BatchView<'_>,
    (event, end): (usize, usize),
) -> Result<EventReport, NeedsFallback> {
    let Scratch {
        found: lanes,
        bank_order: order,
        block,
        ..
    } = &mut *scratch;
    lanes.begin();
    let n_banks = match batch.layout {
        Layout::Allen => find_allen(s, setup, lanes, order, batch, event),
        Layout::Mep => find_mep(s, setup, lanes, order, block, batch, (event, end)),
    };
    let mut report = EventReport::default();
    match n_banks {
        Some(n_banks) => report.add(Count::Banks, n_banks as u32),
        None => report = bank_by_bank(s, setup, scratch, batch, event)?,
    }
    let lanes = &mut scratch.found;
    let beyond = &mut lanes.counts[setup.lanes.n_connected..setup.lanes.n_ranks()];
    let mut any = 0;
    for &count in &*beyond {
        any |= count;
    }
    if any != 0 {
        report.add(
            Count::UnconnectedHits,
            beyond.iter().map(|&count| u32::from(count)).sum(),
        );
        beyond.fill(0);
    }
    Ok(report)
}

/// Reads an event of Allen layout. Returns its number of banks, all decoded; `None` if anything is
/// unexpected.
#[inline(always)]
fn find_allen<S: Simd>(
    s: S,
    setup: &Setup,
    lanes: &mut FoundLanes,
    order: &mut BankOrder,
    batch: BatchView<'_>,
    event: usize,
) -> Option<usize> {
    let raw = batch.raw;
    let begin = *batch.offsets.get(event)? as usize;
    let (n_banks, block) = raw.get(begin..)?.split_first_chunk::<4>()?;
    let n_banks = u32::from_le_bytes(*n_banks) as usize;
    if n_banks > setup.lanes.n_boards() {
        return None;
    }
    let (table, fragments) = block.split_at_checked(4 * (n_banks + 1))?;
    let table = table.as_chunks::<4>().0;
    let sizes = row::<u16>(batch.sizes, event)?.get(..n_banks)?;
    let kinds = row::<u8>(batch.types, event)?.get(..n_banks)?;
    let mut bad = false;
    for &kind in kinds {
        bad |= is_other(kind);
    }
    if let Some(versions) = batch.versions {
        let versions = row::<u8>(versions, event)?.get(..n_banks)?;
        let version = setup.lanes.version.byte();
        for &byte in versions {
            bad |= byte != version;
        }
    }
    // Each fragment has room for its sourceID and its payload, and ends at or before the begin of
    // the next one. If all begin below 2³¹, no sum goes beyond 2³².
    let end = u32::from_le_bytes(table[n_banks]) as usize;
    let smallest = smallest(setup.lanes.version);
    // `high` joins the begins, so that its highest bit tells whether any begin is at 2³¹ or above.
    // `least` is the smallest size, to be compared once with the smallest payload.
    let (mut high, mut least) = (0, u16::MAX);
    for ((begin, end), &size) in table.iter().zip(&table[1..]).zip(sizes) {
        let (begin, end) = (u32::from_le_bytes(*begin), u32::from_le_bytes(*end));
        bad |= begin.wrapping_add(u32::from(size)).wrapping_add(4) > end;
        high |= begin;
        least = least.min(size);
    }
    if bad || high >> 31 != 0 || n_banks > 0 && least < smallest || end > fragments.len() {
        return None;
    }
    let base = raw.len() - fragments.len();
    let payloads_begin = raw.as_ptr().wrapping_add(base + 4);
    // The last banks of the last event are copied, so that reading ahead stays inside the batch.
    let reach = fragments.len().saturating_sub(READ_AHEAD);
    // The banks before `n_direct` can be read in place.
    let mut n_direct = n_banks;
    while n_direct > 0 && u32::from_le_bytes(table[n_direct]) as usize > reach {
        n_direct -= 1;
    }
    let fragment = move |begin: &[u8; 4]| {
        let begin = u32::from_le_bytes(*begin) as usize;
        debug_assert!(begin + 4 <= end && base + end <= raw.len());
        let payload = payloads_begin.wrapping_add(begin);
        // SAFETY: `begin` is where one of the `n_banks` fragments begins. They have at least four
        // bytes each, ascend, and end within `fragments`, the part of `raw` from `base` on: all
        // checked above.
        (
            u32::from_le_bytes(unsafe { payload.wrapping_sub(4).cast::<[u8; 4]>().read() }),
            payload,
        )
    };
    loop {
        let banks = order.banks();
        if banks.len() == n_banks {
            let (mut different, mut bad) = (0, false);
            let (mut notes, headers) = Notes::of(lanes);
            let direct = table[..n_direct].iter().zip(&banks[..n_direct]);
            match setup.lanes.version {
                BankVersion::V5 => {
                    let mut ahead = Prefetch::next_event(batch, event);
                    for ((begin, bank), header) in direct.zip(&mut headers[..n_direct]) {
                        s.prefetch_far(ahead);
                        ahead = ahead.wrapping_add(LINE);
                        let (source_id, payload) = fragment(begin);
                        different |= source_id ^ bank.source_id;
                        // SAFETY: the smallest v5 payload, of 8 bytes, is there: the loop over the
                        // table checked it.
                        *header = unsafe { notes.take_v5(bank, payload) };
                    }
                }
                BankVersion::V4 => {
                    // (No prefetch: with one in it, this loop takes twice as long.)
                    for ((begin, bank), &size) in direct.zip(sizes) {
                        let (source_id, payload) = fragment(begin);
                        different |= source_id ^ bank.source_id;
                        // SAFETY: `size` bytes, at least the smallest, and READ_AHEAD more are in
                        // `raw`: the loop over the table checked the fragment, one of the first
                        // `n_direct`, which end at or before `reach`.
                        let (good, beyond) = unsafe { notes.take_v4(s, bank, payload, size) };
                        bad |= !good | (beyond != 0);
                    }
                }
            }
            for i in n_direct..n_banks {
                let (source_id, payload) = fragment(&table[i]);
                different |= source_id ^ banks[i].source_id;
                let at = payload.addr() - raw.as_ptr().addr();
                let payload = lanes.readable(raw, at, usize::from(sizes[i]))?;
                let (mut notes, headers) = Notes::of(lanes);
                // SAFETY: `readable` gives READ_AHEAD bytes more than asked for; the loop checked
                // the smallest size.
                unsafe {
                    match setup.lanes.version {
                        BankVersion::V5 => headers[i] = notes.take_v5(&banks[i], payload),
                        BankVersion::V4 => {
                            bad |= notes.take_v4(s, &banks[i], payload, sizes[i]) != (true, 0);
                        }
                    }
                }
            }
            if different == 0 {
                bad |= setup.lanes.version == BankVersion::V5
                    && !v5_hits_are_there(&lanes.headers[..n_banks], sizes);
                return (!bad).then_some(n_banks);
            }
        }
        // The boards differ from the event before, as they do in the first event: look them up, and
        // go through the banks again. That cannot happen twice for the same event, because the
        // order then agrees.
        order
            .look_up(
                &setup.lanes.boards,
                table[..n_banks].iter().map(|begin| fragment(begin).0),
            )
            .ok()?;
        lanes.begin();
    }
}

/// Reads an event of MEP layout, as [`find_allen`] does.
#[inline(always)]
fn find_mep<S: Simd>(
    s: S,
    setup: &Setup,
    lanes: &mut FoundLanes,
    order: &mut BankOrder,
    block: &mut EventBlock,
    batch: BatchView<'_>,
    (event, end): (usize, usize),
) -> Option<usize> {
    if !block.events.contains(&event) {
        block.events = event..end.min(event + BLOCK);
        block.unexpected.fill(false);
        if look_at_tables(setup, order, block, batch).is_none() {
            block.unexpected.fill(true);
        }
    }
    let of_block = event - block.events.start;
    if block.unexpected[of_block] {
        return None;
    }
    let banks = order.banks();
    let n_banks = banks.len();
    // Begins of the fragments of an event, one word per bank.
    let row = |event: usize| {
        let begin = n_banks.checked_mul(event)?.checked_add(2 + n_banks)?;
        batch.offsets.get(begin..)?.get(..n_banks)
    };
    let begins = row(event)?;
    let ahead = row(event + 1).unwrap_or(begins);
    let (raw, smallest) = (batch.raw, smallest(setup.lanes.version));
    let sizes = &block.sizes[of_block][..n_banks];
    let mut bad = false;
    for &size in sizes {
        bad |= size < smallest;
    }
    if bad {
        return None;
    }
    let fragments = begins.iter().zip(sizes).zip(banks).zip(ahead);
    let bad = match setup.lanes.version {
        BankVersion::V4 => {
            for (((&begin, &size), bank), &ahead) in fragments {
                prefetch_fragment(s, raw, ahead);
                let payload = lanes.readable(raw, begin as usize, usize::from(size))?;
                // SAFETY: `readable` gives READ_AHEAD bytes more than asked for; the smallest size
                // was checked above.
                bad |= unsafe { Notes::of(lanes).0.take_v4(s, bank, payload, size) } != (true, 0);
            }
            bad
        }
        BankVersion::V5 => {
            for (i, (((&begin, &size), bank), &ahead)) in fragments.enumerate() {
                prefetch_fragment(s, raw, ahead);
                let payload = lanes.readable(raw, begin as usize, usize::from(size))?;
                let (mut notes, headers) = Notes::of(lanes);
                // SAFETY: see v4 above.
                headers[i] = unsafe { notes.take_v5(bank, payload) };
            }
            !v5_hits_are_there(&lanes.headers[..n_banks], sizes)
        }
    };
    (!bad).then_some(n_banks)
}

/// MEP: prefetches a line of a board's fragment of the next event. Its first was asked for with the
/// events before, as the lines behind it will be now: each in several events, and far ahead.
#[inline(always)]
fn prefetch_fragment<S: Simd>(s: S, raw: &[u8], begin: u32) {
    for line in 1..=READ_AHEAD / LINE {
        s.prefetch_far(raw.as_ptr().wrapping_add(begin as usize + LINE * line));
    }
}

/// Checks a MEP batch's tables for the events of a block, which lie side by side there, board by
/// board.
#[inline(always)]
fn look_at_tables(
    setup: &Setup,
    order: &mut BankOrder,
    block: &mut EventBlock,
    batch: BatchView<'_>,
) -> Option<()> {
    let (first, n_events) = (block.events.start, block.events.len());
    let n_banks = *batch.offsets.first()? as usize;
    if n_banks > setup.lanes.n_boards() {
        return None;
    }
    let source_ids = batch.offsets.get(2..2 + n_banks)?;
    if !order
        .banks()
        .iter()
        .map(|bank| bank.source_id)
        .eq(source_ids.iter().copied())
    {
        order
            .look_up(&setup.lanes.boards, source_ids.iter().copied())
            .ok()?;
    }
    let version = setup.lanes.version.byte();
    for bank in 0..n_banks {
        for (of_event, &size) in
            block
                .sizes
                .iter_mut()
                .zip(part::<u16>(batch.sizes, bank, first, n_events)?)
        {
            of_event[bank] = size;
        }
        let kinds = part::<u8>(batch.types, bank, first, n_events)?;
        if kinds.first_chunk() != Some(&[HIT_BANKS[0]; BLOCK]) {
            for (unexpected, &kind) in block.unexpected.iter_mut().zip(kinds) {
                *unexpected |= is_other(kind);
            }
        }
        if let Some(versions) = batch.versions {
            let versions = part::<u8>(versions, bank, first, n_events)?;
            if versions.first_chunk() != Some(&[version; BLOCK]) {
                for (unexpected, &byte) in block.unexpected.iter_mut().zip(versions) {
                    *unexpected |= byte != version;
                }
            }
        }
    }
    Some(())
}

/// Takes an event bank by bank, each as the policy says. Returns the number of banks.
#[inline(always)]
fn bank_by_bank<S: Simd>(
    s: S,
    setup: &Setup,
    scratch: &mut Scratch,
    batch: BatchView<'_>,
    event: usize,
) -> Result<EventReport, NeedsFallback> {
    let Scratch {
        found: lanes,
        policy,
        ..
    } = scratch;
    let raw = batch.raw;
    let mut report = EventReport::default();
    let banks = BankList::new(batch, event).ok_or(NeedsFallback)?;
    lanes.begin();
    policy.begin_event();
    for bank in 0..banks.n_banks() {
        let bank = banks.bank(bank).ok_or(NeedsFallback)?;
        let Some(board) = policy.board(&bank, &mut report) else {
            continue;
        };
        if report.get(Count::RepeatedBoard) != 0 {
            return Err(NeedsFallback);
        }
        let ranks = setup.lanes.boards[board].ranks;
        let at = bank.payload.as_ptr().addr() - raw.as_ptr().addr();
        let size = bank.payload.len();
        match setup.lanes.version {
            BankVersion::V5 => {
                let Some(counts) = v5_counts(bank.payload, &mut report) else {
                    continue;
                };
                lanes.payloads[board] = lanes.readable(raw, at, size).ok_or(NeedsFallback)?;
                for (rank, count) in ranks.into_iter().zip(counts) {
                    lanes.counts[usize::from(rank)] = count;
                }
            }
            BankVersion::V4 => {
                if v4_words(bank.payload, &mut report).is_none() {
                    continue;
                }
                let payload = lanes.readable(raw, at, size).ok_or(NeedsFallback)?;
                let bank = BankBoard {
                    source_id: bank.source_id,
                    board: board as u8,
                    ranks,
                };
                // SAFETY: `readable` gives READ_AHEAD bytes more than asked for; `v4_words` checked
                // header and words.
                let (good, beyond) =
                    unsafe { Notes::of(lanes).0.take_v4(s, &bank, payload, size as u16) };
                if !good {
                    return Err(NeedsFallback);
                }
                report.add(Count::UnconnectedHits, beyond);
            }
        }
    }
    Ok(report)
}

/// Returns the number of bytes in the smallest payload that has a header.
#[inline(always)]
const fn smallest(version: BankVersion) -> u16 {
    match version {
        BankVersion::V4 => 4,
        BankVersion::V5 => 8,
    }
}

/// Destination of the lanes of stage 1, borrowed field by field, so that the compiler keeps the
/// addresses.
struct Notes<'a> {
    counts: &'a mut [u8; 1 << 16],
    payloads: &'a mut [*const u8; 1 << 8],
    begins: &'a mut [u64; 1 << 8],
}

impl<'a> Notes<'a> {
    fn of(lanes: &'a mut FoundLanes) -> (Self, &'a mut [u64; MAX_BOARDS]) {
        let FoundLanes {
            counts,
            payloads,
            begins,
            headers,
            ..
        } = lanes;
        (
            Self {
                counts,
                payloads,
                begins,
            },
            headers,
        )
    }

    /// Notes the lanes of a v5 bank, and returns its header.
    ///
    /// # Safety
    /// At `payload` are 8 bytes.
    #[inline(always)]
    unsafe fn take_v5(&mut self, bank: &BankBoard, payload: *const u8) -> u64 {
        self.payloads[usize::from(bank.board)] = payload;
        for (&rank, byte) in bank.ranks.iter().zip(COUNT_BYTES) {
            // SAFETY: `COUNT_BYTES` names bytes below 8; 8 bytes can be read, by this function's
            // precondition.
            self.counts[usize::from(rank)] = unsafe { payload.add(byte).read() };
        }
        // SAFETY: 8 bytes can be read at `payload`, by this function's precondition.
        u64::from_le_bytes(unsafe { payload.cast::<[u8; 8]>().read() })
    }

    /// Notes the lanes of a v4 bank. Returns true if all its words are there, at most 254, and in
    /// the order of the lanes; and the number of words that name a lane no board has.
    ///
    /// # Safety
    /// At `payload` are `size` bytes, 4 at least, and [`READ_AHEAD`] more can be read.
    #[inline(always)]
    unsafe fn take_v4<S: Simd>(
        &mut self,
        s: S,
        bank: &BankBoard,
        payload: *const u8,
        size: u16,
    ) -> (bool, u32) {
        debug_assert!(size >= 4);
        // SAFETY: `size` bytes can be read, at least 4, by this function's precondition: enough for
        // these two.
        let n_words = u16::from_le_bytes(unsafe { payload.cast::<[u8; 2]>().read() });
        let there = (n_words <= 254) & (u32::from(size) >= 4 + 2 * u32::from(n_words));
        let n_words = if there { usize::from(n_words) } else { 0 };
        // Byte i: clusters of lanes 0 to i. SAFETY: the words are within the payload, as just
        // checked, and READ_AHEAD bytes more, which are more than 66.
        let (ends, sorted) = unsafe { s.lane_ends(payload.wrapping_add(4), n_words) };
        let begins = ends << 8;
        // The bytes ascend: none borrows from the next.
        let counts = ends.wrapping_sub(begins);
        for (lane, &rank) in bank.ranks.iter().enumerate() {
            self.counts[usize::from(rank)] = (counts >> (8 * lane)) as u8;
        }
        self.payloads[usize::from(bank.board)] = payload;
        self.begins[usize::from(bank.board)] = begins;
        // A word can name the lanes 6 and 7.
        let beyond = n_words as u32 - (ends >> (8 * (LANES_PER_BOARD - 1)) & 0xFF) as u32;
        (there & sorted, beyond)
    }
}

/// Returns true if v5 banks with these headers and sizes hold the hits that the headers claim.
#[inline(always)]
fn v5_hits_are_there(headers: &[u64], sizes: &[u16]) -> bool {
    // Every other count of a header: in twice the room, none borrows from another.
    const COUNTS: u64 = 0x00FF_00FF_0000_00FF;
    let mut above = 0;
    for (&header, &size) in headers.iter().zip(sizes) {
        // Two hits of a lane take 32 bytes; a count of 255 is trouble. Counts above the most leave
        // a sign.
        let most = u64::from((size / 32 * 2).min(254));
        let most = most | most << 16 | most << 32 | most << 48;
        above |= most.wrapping_sub(header & COUNTS) | most.wrapping_sub(header >> 8 & COUNTS);
    }
    above & 0x8000_8000_8000_8000 == 0
}

/// Returns the `n` entries from `column` on of row `index`.
#[inline(always)]
fn part<T: bytemuck::AnyBitPattern>(
    words: &[u32],
    index: usize,
    column: usize,
    n: usize,
) -> Option<&[T]> {
    row::<T>(words, index)?.get(column..)?.get(..n)
}

/// Returns the entries from row `row` on of a table whose first words say where each row begins, in
/// units of `T`.
#[inline]
fn row<T: bytemuck::AnyBitPattern>(words: &[u32], row: usize) -> Option<&[T]> {
    bytemuck::cast_slice::<u32, T>(words).get(*words.get(row)? as usize..)
}

/// Returns true if a bank of this type holds no hits.
#[inline]
fn is_other(kind: u8) -> bool {
    (kind != HIT_BANKS[0]) & (kind != HIT_BANKS[1])
}
