//! Between the two layouts of a batch: event-major (Allen) and bank-major (MEP).
//!
//! A MEP batch holds events with the same sequence of sourceIDs, so one Allen batch becomes one MEP
//! batch or several: a new one begins where the sequence differs. Nothing is added, dropped or
//! reordered. What contradicts itself (see [`BatchView`]) is given up on the way, from there to the
//! end of the event, and the event is marked as broken: the decoders then count on the copy what
//! they would have counted on the original.

use std::ops::ControlFlow;

use super::builder::table;
use super::room::make_room;
use super::{Bank, BatchBuilder, BatchView, BuildError, EventBatch, EventMeta, Layout};

/// Collects the banks of event `e` of the arrays; of a broken event those before the break, and
/// returns false.
pub fn banks_of<'a>(batch: BatchView<'a>, e: usize, banks: &mut Vec<Bank<'a>>) -> bool {
    banks.clear();
    let push = |bank| {
        banks.push(bank);
        ControlFlow::Continue(())
    };
    each_bank(batch, e, push).is_some()
}

/// Hands over the banks of event `e` of the arrays until `take` ends it; `None` for a broken event,
/// after the banks before the break.
pub fn each_bank<'a>(
    batch: BatchView<'a>,
    e: usize,
    take: impl FnMut(Bank<'a>) -> ControlFlow<()>,
) -> Option<()> {
    match batch.layout {
        Layout::Allen => allen_banks(batch, e, take),
        Layout::Mep => mep_banks(batch, e, take),
    }
}

fn allen_banks<'a>(
    batch: BatchView<'a>,
    e: usize,
    mut take: impl FnMut(Bank<'a>) -> ControlFlow<()>,
) -> Option<()> {
    let block = *batch.offsets.get(e)? as usize;
    let n_banks = word(batch.raw, block)? as usize;
    let rel = block.checked_add(4)?;
    let base = rel.checked_add(n_banks.checked_add(1)?.checked_mul(4)?)?;
    batch.raw.get(..base)?;
    for bank in 0..n_banks {
        let from = base.checked_add(word(batch.raw, rel + 4 * bank)? as usize)?;
        let to = base.checked_add(word(batch.raw, rel + 4 * bank + 4)? as usize)?;
        let fragment = batch.raw.get(from..to)?;
        let (size, kind, version) = entry(batch, e, bank)?;
        let payload = fragment.get(4..4 + size)?;
        if take(Bank {
            kind,
            version,
            source_id: word(fragment, 0)?,
            payload,
        })
        .is_break()
        {
            break;
        }
    }
    Some(())
}

fn mep_banks<'a>(
    batch: BatchView<'a>,
    e: usize,
    mut take: impl FnMut(Bank<'a>) -> ControlFlow<()>,
) -> Option<()> {
    let n_banks = *batch.offsets.first()? as usize;
    batch.offsets.get(..n_banks.checked_add(2)?)?;
    let row = n_banks.checked_mul(e.checked_add(1)?)?.checked_add(2)?;
    batch.offsets.get(..row.checked_add(n_banks)?)?;
    for bank in 0..n_banks {
        let from = batch.offsets[row + bank] as usize;
        let (size, kind, version) = entry(batch, bank, e)?;
        let payload = batch.raw.get(from..from.checked_add(size)?)?;
        if take(Bank {
            kind,
            version,
            source_id: batch.offsets[2 + bank],
            payload,
        })
        .is_break()
        {
            break;
        }
    }
    Some(())
}

/// Size, type and version at place `column` of row `row` of the batch's tables.
fn entry(batch: BatchView<'_>, row: usize, column: usize) -> Option<(usize, u8, Option<u8>)> {
    let sizes: &[u16] = bytemuck::cast_slice(batch.sizes);
    let size = *sizes.get((*batch.sizes.get(row)? as usize).checked_add(column)?)?;
    let byte = |words: &[u32]| {
        let bytes: &[u8] = bytemuck::cast_slice(words);
        bytes
            .get((*words.get(row)? as usize).checked_add(column)?)
            .copied()
    };
    let version = match batch.versions {
        None => batch.version,
        Some(versions) => Some(byte(versions)?),
    };
    Some((usize::from(size), byte(batch.types)?, version))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// Returns the index in the arrays of event `e` of a batch, and the facts about that event.
fn place(batch: BatchView<'_>, e: usize) -> (usize, EventMeta) {
    // Beyond all arrays, the event is broken.
    let place = batch.first_event.saturating_add(e);
    (place, batch.meta_of(place))
}

/// Returns true if the copy of a batch has version bytes.
fn is_versioned(batch: BatchView<'_>) -> Result<bool, BuildError> {
    if batch.selected.is_some() {
        return Err(BuildError::Selected);
    }
    Ok(batch.versions.is_some() || batch.version.is_some())
}

/// Returns the events from `first_event` on in MEP layout; a new batch begins where the sequence of
/// sourceIDs changes.
///
/// # Errors
/// [`BuildError::Full`] if an event exceeds 4 GiB, as overlapping fragments can;
/// [`BuildError::Selected`] if events are listed.
pub fn to_mep(batch: BatchView<'_>) -> Result<Vec<EventBatch>, BuildError> {
    let versioned = is_versioned(batch)?;
    let mut batches = Vec::new();
    let mut rows: Vec<Vec<Bank<'_>>> = Vec::new();
    let mut meta = Vec::new();
    let mut bytes = 0u64;
    for e in 0..batch.n_events {
        let mut banks = Vec::new();
        let (e, known) = place(batch, e);
        let whole = banks_of(batch, e, &mut banks);
        let needed = banks
            .iter()
            .map(|bank| bank.payload.len().next_multiple_of(4) as u64)
            .sum::<u64>();
        let same = rows.last().is_none_or(|row| {
            row.iter()
                .map(|bank| bank.source_id)
                .eq(banks.iter().map(|bank| bank.source_id))
        });
        if !same || bytes + needed > u64::from(u32::MAX) {
            batches.push(mep_batch(&rows, std::mem::take(&mut meta), versioned)?);
            rows.clear();
            bytes = 0;
        }
        bytes += needed;
        rows.push(banks);
        meta.push(EventMeta {
            broken: known.broken || !whole,
            ..known
        });
    }
    if !rows.is_empty() {
        batches.push(mep_batch(&rows, meta, versioned)?);
    }
    Ok(batches)
}

/// Makes one MEP batch of events that have the same sequence of sourceIDs.
fn mep_batch(
    rows: &[Vec<Bank<'_>>],
    meta: Vec<EventMeta>,
    versioned: bool,
) -> Result<EventBatch, BuildError> {
    let (n_events, n_banks) = (rows.len(), rows.first().map_or(0, Vec::len));
    if n_events.saturating_mul(n_banks) > u32::MAX as usize / 2 {
        return Err(BuildError::Full);
    }
    let mut offsets = vec![n_banks as u32, 0];
    offsets.extend(
        rows.first()
            .into_iter()
            .flatten()
            .map(|bank| bank.source_id),
    );
    offsets.resize(2 + n_banks * (1 + n_events), 0);
    let mut raw = Vec::new();
    make_room(
        &mut raw,
        rows.iter()
            .flatten()
            .map(|bank| bank.payload.len().next_multiple_of(4))
            .sum(),
    );
    let (mut sizes, mut types, mut versions) = (Vec::new(), Vec::new(), Vec::new());
    for b in 0..n_banks {
        for (e, row) in rows.iter().enumerate() {
            let bank = row[b];
            offsets[2 + n_banks * (1 + e) + b] =
                u32::try_from(raw.len()).map_err(|_| BuildError::Full)?;
            raw.extend(bank.payload);
            raw.resize(raw.len().next_multiple_of(4), 0);
            sizes.push(bank.payload.len() as u16);
            types.push(bank.kind);
            versions.push(bank.version.unwrap_or_default());
        }
    }
    let mut mep = EventBatch {
        layout: Layout::Mep,
        n_events,
        raw,
        offsets,
        meta,
        ..EventBatch::default()
    };
    let first =
        |per_word: usize| (0..n_banks).map(move |b| (per_word * n_banks + b * n_events) as u32);
    table(&mut mep.sizes, first(2), &sizes);
    table(&mut mep.types, first(4), &types);
    if versioned {
        table(mep.versions.get_or_insert_default(), first(4), &versions);
    }
    Ok(mep)
}

/// Converts the events of a batch of either layout to Allen layout, from `first_event` on.
///
/// # Errors
/// [`BuildError::Full`] if the events exceed 4 GiB; [`BuildError::Selected`] if the batch lists a
/// selection of events.
pub fn to_allen(batch: BatchView<'_>) -> Result<EventBatch, BuildError> {
    let mut builder = BatchBuilder::keeping_all(is_versioned(batch)?);
    let mut banks = Vec::new();
    for e in 0..batch.n_events {
        let (e, known) = place(batch, e);
        let whole = banks_of(batch, e, &mut banks);
        builder.push(
            EventMeta {
                broken: known.broken || !whole,
                ..known
            },
            banks.iter().copied(),
        )?;
    }
    let mut allen = EventBatch::default();
    builder.finish(&mut allen);
    Ok(allen)
}
