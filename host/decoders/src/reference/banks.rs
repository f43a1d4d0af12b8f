//! Banks of one event, found in a batch of either layout: `docs/format.md`, "Batches in memory".
//!
//! Places are added as u64 and u128, so that no sum of the batch's u32 words wraps, and every read
//! is checked. The first read that fails ends the event: banks before it are decoded, later banks
//! are not, and the event counts as broken.

use ut_data::input::{BatchView, Layout};

#[derive(Clone, Copy, Debug)]
pub struct Bank<'a> {
    pub kind: u8,
    /// Version byte, if the batch has it.
    pub version: Option<u8>,
    pub source_id: u32,
    /// Payload of the size in the batch, without padding.
    pub payload: &'a [u8],
}

/// Lists the banks of an event up to the first bank for which the batch contradicts itself; also
/// returns true if there is such a bank.
pub fn banks_of_event<'a>(batch: &BatchView<'a>, event: usize) -> (Vec<Bank<'a>>, bool) {
    let mut banks = Vec::new();
    let Some(n_banks) = n_banks(batch, event) else {
        return (banks, true);
    };
    for bank in 0..n_banks {
        let found = match batch.layout {
            Layout::Allen => allen_bank(batch, event, bank),
            Layout::Mep => mep_bank(batch, event, bank),
        };
        match found {
            Some(bank) => banks.push(bank),
            None => return (banks, true),
        }
    }
    (banks, false)
}

/// Returns the number of banks that the event claims to have; `None` if the batch ends before the
/// table of banks.
fn n_banks(batch: &BatchView<'_>, event: usize) -> Option<u64> {
    match batch.layout {
        Layout::Allen => {
            let start = u64::from(*batch.offsets.get(event)?);
            let n_banks = u64::from(word_at(batch.raw, start)?);
            let table_end = start + 4 * (n_banks + 2);
            (table_end <= batch.raw.len() as u64).then_some(n_banks)
        }
        Layout::Mep => {
            let n_banks = u64::from(*batch.offsets.first()?);
            (2 + n_banks <= batch.offsets.len() as u64).then_some(n_banks)
        }
    }
}

fn allen_bank<'a>(batch: &BatchView<'a>, event: usize, bank: u64) -> Option<Bank<'a>> {
    let start = u64::from(*batch.offsets.get(event)?);
    let n_banks = u64::from(word_at(batch.raw, start)?);
    let table = start + 4;
    let base = table + 4 * (n_banks + 1);
    let fragment = base + u64::from(word_at(batch.raw, table + 4 * bank)?);
    let fragment_end = base + u64::from(word_at(batch.raw, table + 4 * (bank + 1))?);
    let size = size_at(batch.sizes, event as u64, bank)?;
    if fragment_end < fragment
        || fragment_end - fragment < 4 + size
        || fragment_end > batch.raw.len() as u64
    {
        return None;
    }
    Some(Bank {
        kind: byte_at(batch.types, event as u64, bank)?,
        version: version_at(batch, event as u64, bank)?,
        source_id: word_at(batch.raw, fragment)?,
        payload: bytes_at(batch.raw, fragment + 4, size)?,
    })
}

fn mep_bank<'a>(batch: &BatchView<'a>, event: usize, bank: u64) -> Option<Bank<'a>> {
    let n_banks = u64::from(*batch.offsets.first()?);
    let place = 2 + u128::from(n_banks) * (1 + event as u128) + u128::from(bank);
    let fragment = *batch.offsets.get(usize::try_from(place).ok()?)?;
    let size = size_at(batch.sizes, bank, event as u64)?;
    Some(Bank {
        kind: byte_at(batch.types, bank, event as u64)?,
        version: version_at(batch, bank, event as u64)?,
        source_id: *batch.offsets.get(2 + bank as usize)?,
        payload: bytes_at(batch.raw, u64::from(fragment), size)?,
    })
}

/// Reads entry `column` of row `row` of `sizes`: word `row` is the place of the row's first entry,
/// counted in u16.
fn size_at(words: &[u32], row: u64, column: u64) -> Option<u64> {
    let first = u64::from(*words.get(usize::try_from(row).ok()?)?);
    let place = first + column;
    let word = *words.get(usize::try_from(place / 2).ok()?)?;
    Some(u64::from((word >> (16 * (place % 2))) & 0xFFFF))
}

/// Reads entry `column` of row `row` of `types` or `versions`: word `row` is the place of the row's
/// first entry, in bytes.
fn byte_at(words: &[u32], row: u64, column: u64) -> Option<u8> {
    let first = u64::from(*words.get(usize::try_from(row).ok()?)?);
    let place = first + column;
    let word = *words.get(usize::try_from(place / 4).ok()?)?;
    Some((word >> (8 * (place % 4))) as u8)
}

/// Returns the version byte of a bank: `Some(None)` if the batch carries no versions, `None` if it
/// does but not for this bank.
#[expect(
    clippy::option_option,
    reason = "two kinds of absence, of which one is an error"
)]
fn version_at(batch: &BatchView<'_>, row: u64, column: u64) -> Option<Option<u8>> {
    match batch.versions {
        None => Some(batch.version),
        Some(versions) => byte_at(versions, row, column).map(Some),
    }
}

/// Reads the little-endian word at byte `place`, which need not be aligned.
fn word_at(raw: &[u8], place: u64) -> Option<u32> {
    let bytes = bytes_at(raw, place, 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn bytes_at(raw: &[u8], place: u64, size: u64) -> Option<&[u8]> {
    raw.get(usize::try_from(place).ok()?..usize::try_from(place + size).ok()?)
}
