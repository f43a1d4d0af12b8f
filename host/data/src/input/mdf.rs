//! One MDF event: its banks and the facts in its header (`docs/format.md`, "MDF files").

use super::event::kind;
use super::mdf_format::{BANK_HEADER, HEADER, MAGIC, u16_at, u32_at};
use super::odin::Odin;
use super::unpack::{MAX_EVENT, claimed, unpack};
use super::{BankEntry, Damage};

/// Facts in the header of an MDF event.
#[derive(Clone, Debug, Default)]
pub struct EventFacts {
    /// Reason that the rest of the event was given up.
    pub damage: Option<Damage>,
    pub run: Option<u32>,
    pub number: Option<u64>,
    pub odin: Option<Odin>,
    pub trigger_mask: Option<[u32; 4]>,
    /// The event was compressed: its banks lie in the buffer for unpacked bytes.
    pub unpacked: bool,
}

impl EventFacts {
    /// Finds banks, run and number of an event whose bytes, headers included, are `data`: a frame
    /// that [`Frames`](super::frames::Frames) let pass. `computed` is its checksum, or `None` where
    /// that is not compared. A compressed event is unpacked into `unpacked`, headers included.
    pub fn of(
        data: &[u8],
        computed: Option<u32>,
        unpacked: &mut Vec<u8>,
        entries: &mut Vec<BankEntry>,
    ) -> Self {
        let mut facts = Self::default();
        entries.clear();
        let stored = u32_at(data, 12);
        if let Some(computed) = computed.filter(|&computed| stored != 0 && stored != computed) {
            // As far as they can be seen, the banks count as lost.
            let unchecked = Self::of(data, None, unpacked, entries);
            let behind = unchecked
                .damage
                .map_or(0, |damage| damage.lost_banks as usize);
            let lost = entries
                .iter()
                .filter(|entry| kind::is_decoded(entry.kind))
                .count()
                + behind;
            facts.damage = Some(Damage::checksum(stored, computed).losing(lost));
            entries.clear();
            return facts;
        }
        let words = usize::from(data[17] & 0xF);
        let body = HEADER + 4 * words;
        facts.run = (words >= 5).then(|| u32_at(data, HEADER + 16));
        facts.trigger_mask =
            (words >= 4).then(|| [0, 1, 2, 3].map(|word| u32_at(data, HEADER + 4 * word)));
        let mut found = Ok(());
        let data = if data[16] == 0 {
            data
        } else {
            facts.unpacked = true;
            unpacked.clear();
            unpacked.extend(&data[..body]);
            found = unpack(&data[body..], body, MAX_EVENT, unpacked);
            &unpacked[..]
        };
        let banks = find_banks(data, body, entries);
        // Blocks that are not there explain banks that end too early.
        facts.damage = found
            .map_err(|what| Damage::of_event(what + "; the rest of the event is given up"))
            .and(banks)
            .and(keep_central(data, entries))
            .err();
        let odin = entries.iter().filter(|entry| entry.kind == kind::ODIN);
        let odin = odin.filter_map(|entry| {
            Odin::of(
                entry.version,
                &data[entry.start..entry.start + entry.length],
            )
        });
        facts.odin = odin
            .clone()
            .find(|odin| odin.numbers.is_some())
            .or_else(|| odin.clone().next());
        if let Some((run, number)) = facts.odin.and_then(|odin| odin.numbers) {
            facts.run = Some(run);
            facts.number = Some(number);
        }
        facts
    }
}

/// Returns the unpacked size that the compressed blocks of an event state; 0 if it is not
/// compressed.
pub fn unpacked_bytes(data: &[u8]) -> usize {
    if data[16] == 0 {
        0
    } else {
        claimed(&data[HEADER + 4 * usize::from(data[17] & 0xF)..])
    }
}

/// Keeps the banks of the central crossing of a time alignment event, and the banks before all
/// crossings. Its TAEHeader has three words per crossing: its number, counted from the central one;
/// the first byte of its banks, counted from the end of the header; and their size.
fn keep_central(data: &[u8], entries: &mut Vec<BankEntry>) -> Result<(), Damage> {
    let Some(bank) = entries
        .iter()
        .position(|entry| entry.kind == kind::TAE_HEADER)
    else {
        return Ok(());
    };
    let BankEntry { start, length, .. } = entries[bank];
    let base = start + length.next_multiple_of(4);
    let mut crossings = data[start..start + length]
        .chunks_exact(12)
        .filter(|row| u32_at(row, 0) == 0);
    let central = crossings.next().and_then(|row| {
        let begin = base.checked_add(u32_at(row, 4) as usize)?;
        Some(begin..begin.checked_add(u32_at(row, 8) as usize)?)
    });
    let Some(central) =
        central.filter(|central| central.end <= data.len() && length.is_multiple_of(12))
    else {
        entries.truncate(bank);
        let why = "is a TAEHeader that does not say where the banks of the central crossing are";
        return Err(Damage::of_bank(bank, start - BANK_HEADER, why));
    };
    let mut i = 0;
    entries.retain(|entry| {
        i += 1;
        i <= bank + 1 || central.contains(&(entry.start - BANK_HEADER))
    });
    Ok(())
}

/// Returns the number of headers of UT banks from byte `at` on, where a bank is damaged.
fn banks_behind(data: &[u8], mut at: usize) -> usize {
    let mut n = 0;
    // A bank with a wrong magic number, whose type may be right.
    if data
        .get(at..at + BANK_HEADER)
        .is_some_and(|head| u16_at(head, 0) != MAGIC && kind::is_decoded(head[4]))
    {
        n += 1;
    }
    while let Some(head) = data.get(at..at + BANK_HEADER) {
        let size = usize::from(u16_at(head, 2));
        let is_bank = u16_at(head, 0) == MAGIC && size >= BANK_HEADER;
        n += usize::from(is_bank && kind::is_decoded(head[4]));
        at += if is_bank && size <= data.len() - at {
            size.next_multiple_of(4)
        } else {
            4
        };
    }
    n
}

/// Lists the banks of an event from byte `at` to its end, up to the first that is damaged.
fn find_banks(data: &[u8], mut at: usize, entries: &mut Vec<BankEntry>) -> Result<(), Damage> {
    while at < data.len() {
        let left = data.len() - at;
        let bad = |why: String| {
            Err(Damage::of_bank(entries.len(), at, &why).losing(banks_behind(data, at)))
        };
        let beyond = |needed: usize| {
            bad(format!(
                "needs {needed} bytes, the event has {left} from there"
            ))
        };
        if left < BANK_HEADER {
            return beyond(BANK_HEADER);
        }
        let magic = u16_at(data, at);
        if magic != MAGIC {
            return bad(format!(
                "begins with 0x{magic:04x} instead of 0x{MAGIC:04x}"
            ));
        }
        let size = u16_at(data, at + 2);
        if usize::from(size) < BANK_HEADER {
            return bad(format!(
                "has a size of {size} bytes, less than its header of {BANK_HEADER}"
            ));
        }
        if usize::from(size) > left {
            return beyond(size.into());
        }
        entries.push(BankEntry {
            kind: data[at + 4],
            version: Some(data[at + 5]),
            source_id: u32::from(u16_at(data, at + 6)),
            start: at + BANK_HEADER,
            byte: (at + BANK_HEADER) as u64,
            length: usize::from(size) - BANK_HEADER,
        });
        // The padding of the last bank may be missing: nothing is lost with it.
        at += usize::from(size).next_multiple_of(4);
    }
    Ok(())
}
