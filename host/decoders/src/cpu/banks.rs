//! Banks of one event, found in a batch of either layout. Each place is checked against the bytes
//! that the batch has.
//!
//! This is the careful way, bank by bank, for events that are not as expected. Every number that
//! comes out of the data (a count, an offset, a size) is used with `get` and `checked_add`, and
//! anything that does not fit gives `None`, at which the event ends. The fast way through the same
//! tables is in `find_lanes.rs`.

use ut_data::input::{BatchView, Layout};

#[derive(Clone, Copy, Debug)]
pub struct Bank<'a> {
    pub source_id: u32,
    pub kind: u8,
    /// Version byte, if the batch has it.
    pub version: Option<u8>,
    /// Payload, without sourceID word and padding.
    pub payload: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
pub struct BankList<'a> {
    batch: BatchView<'a>,
    event: usize,
    n_banks: usize,
    /// Allen: the event's table of fragments, `n_banks + 1` words. MEP: empty.
    table: &'a [u8],
    /// Allen: the place in `raw` that the table counts from. MEP: the place of the event's row in
    /// `offsets`.
    base: usize,
}

impl<'a> BankList<'a> {
    /// Finds the table of an event's banks; `None` if the batch ends before it.
    pub fn new(batch: BatchView<'a>, event: usize) -> Option<Self> {
        match batch.layout {
            Layout::Allen => {
                let block = batch.raw.get(*batch.offsets.get(event)? as usize..)?;
                let n_banks = word(block, 0)? as usize;
                let table_size = n_banks.checked_add(1)?.checked_mul(4)?;
                let table = block.get(4..)?.get(..table_size)?;
                let base = batch.raw.len() - block.len() + 4 + table_size;
                Some(Self {
                    batch,
                    event,
                    n_banks,
                    table,
                    base,
                })
            }
            Layout::Mep => {
                let n_banks = *batch.offsets.first()? as usize;
                let head = n_banks.checked_add(2)?;
                if head > batch.offsets.len() {
                    return None;
                }
                let base = n_banks.checked_mul(event)?.checked_add(head)?;
                Some(Self {
                    batch,
                    event,
                    n_banks,
                    table: &[],
                    base,
                })
            }
        }
    }

    /// Returns the number of banks that the event claims to have.
    pub const fn n_banks(&self) -> usize {
        self.n_banks
    }

    /// Returns a bank; `None` if the batch contradicts itself about it.
    pub fn bank(&self, bank: usize) -> Option<Bank<'a>> {
        let batch = &self.batch;
        let (source_id, payload, row, column) = match batch.layout {
            Layout::Allen => {
                let size = entry::<u16>(batch.sizes, self.event, bank)?;
                let begin = word(self.table, 4 * bank)? as usize;
                let end = word(self.table, 4 * bank + 4)? as usize;
                let fragment = batch
                    .raw
                    .get(self.base.checked_add(begin)?..self.base.checked_add(end)?)?;
                let (source_id, rest) = fragment.split_first_chunk()?;
                (
                    u32::from_le_bytes(*source_id),
                    rest.get(..size as usize)?,
                    self.event,
                    bank,
                )
            }
            Layout::Mep => {
                let size = entry::<u16>(batch.sizes, bank, self.event)?;
                let begin = *batch.offsets.get(self.base.checked_add(bank)?)? as usize;
                let payload = batch.raw.get(begin..)?.get(..size as usize)?;
                (*batch.offsets.get(2 + bank)?, payload, bank, self.event)
            }
        };
        let kind = entry::<u8>(batch.types, row, column)? as u8;
        let version = match batch.versions {
            Some(versions) => Some(entry::<u8>(versions, row, column)? as u8),
            None => batch.version,
        };
        Some(Bank {
            source_id,
            kind,
            version,
            payload,
        })
    }
}

/// Reads the little-endian word at byte `at`, which need not be aligned.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|word| u32::from_le_bytes(*word))
}

/// Reads entry `column` of row `row` of a table of `T` whose first words say, in units of `T`,
/// where each row begins.
fn entry<T: bytemuck::AnyBitPattern + Into<u32>>(
    words: &[u32],
    row: usize,
    column: usize,
) -> Option<u32> {
    let begin = *words.get(row)? as usize;
    bytemuck::cast_slice::<u32, T>(words)
        .get(begin.checked_add(column)?)
        .map(|&value| value.into())
}
