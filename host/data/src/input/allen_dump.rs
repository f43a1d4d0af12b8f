//! Allen-layout dumps: files that hold the Allen-layout block of one event and nothing else
//! (`docs/format.md`).
//!
//! A dump holds sourceIDs and payloads. Sizes follow from the table of banks, so they are multiples
//! of 4; all banks are of type UT and of the board table's version; run and event number are in the
//! file's name, `<run>_<event>.bin`.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::event::{Format, kind};
use super::mdf_format::u32_at;
use super::recognise::without_compression;
use super::{Bank, BankEntry, Damage, InputError, Place, RawEvent};

/// Maximum number of banks of an event: sourceIDs have 16 bits.
const MAX_BANKS: u64 = 1 << 16;

/// The longest bank: its sourceID, and a payload whose size has 16 bits.
const LONGEST: u64 = 4 + u16::MAX as u64;

#[derive(Debug)]
pub struct AllenDump {
    file: PathBuf,
    data: Vec<u8>,
    entries: Vec<BankEntry>,
    damage: Option<Damage>,
}

impl AllenDump {
    /// Reads the event from `input`. `path` is what messages call it.
    pub fn read(mut input: impl Read, path: impl Into<PathBuf>) -> Result<Self, InputError> {
        let file = path.into();
        let mut data = Vec::new();
        // The buffer grows with the bytes that arrive, and no further than the table of banks
        // reaches.
        let mut read_to = |data: &mut Vec<u8>, end: u64| {
            let read = input
                .by_ref()
                .take(end.saturating_sub(data.len() as u64))
                .read_to_end(data);
            let place = || Place {
                file: file.clone(),
                event: 0,
                byte: 0,
            };
            read.map_err(|source| InputError::Read {
                place: place(),
                source,
            })
        };
        read_to(&mut data, 4)?;
        let banks = if data.len() < 4 {
            0
        } else {
            u64::from(u32_at(&data, 0))
        };
        if banks > MAX_BANKS {
            let what =
                format!("the first word announces {banks} banks, an event has at most {MAX_BANKS}");
            return Err(no_dump(file, &what));
        }
        let needed = 4 + 4 * (banks + 1);
        read_to(&mut data, needed)?;
        if needed > data.len() as u64 {
            let what = format!(
                "a table of {banks} banks needs {needed} bytes, the file has {}",
                data.len()
            );
            return Err(no_dump(file, &what));
        }
        let end = end_of_banks(&data);
        read_to(&mut data, end)?;
        let mut entries = Vec::new();
        let damage = find_banks(&data, banks as usize, &mut entries).err();
        let damage = damage.map(|damage| damage.losing(banks as usize - entries.len()));
        // A table without a fault says where the file ends.
        if damage.is_none() && read_to(&mut data, end + 1)? > 0 {
            return Err(no_dump(
                file,
                &format!("the table of {banks} banks ends at byte {end}, the file goes on"),
            ));
        }
        Ok(Self {
            file,
            data,
            entries,
            damage,
        })
    }

    pub fn length(&self) -> u64 {
        self.data.len() as u64
    }

    pub fn event(&self) -> RawEvent<'_> {
        let (run, number) = run_and_event_of_name(&self.file).unzip();
        RawEvent {
            file: &self.file,
            format: Format::AllenDump,
            index: 0,
            offset: 0,
            run,
            number,
            odin: None,
            trigger_mask: None,
            data: &self.data,
            stored: &self.data,
            entries: &self.entries,
            skipped: 0,
            damage: self.damage.as_ref(),
        }
    }
}

fn no_dump(file: PathBuf, what: &str) -> InputError {
    InputError::NotTaken {
        file,
        what: format!("{what}: not an Allen-layout dump of one event, or truncated"),
    }
}

/// Returns the end of the last bank before an entry that cannot be true. `data` has the whole
/// table.
fn end_of_banks(data: &[u8]) -> u64 {
    let base = data.len() as u64;
    let ends = data[4..]
        .chunks_exact(4)
        .map(|word| u64::from(u32_at(word, 0)));
    let mut end = 0;
    for (from, to) in ends.clone().zip(ends.skip(1)) {
        if to < from || to - from > LONGEST {
            break;
        }
        end = end.max(to);
    }
    base + end
}

/// Lists the banks up to the first that is not there. `data` has the whole table.
fn find_banks(data: &[u8], n_banks: usize, entries: &mut Vec<BankEntry>) -> Result<(), Damage> {
    let base = 4 * (n_banks as u64 + 2);
    for bank in 0..n_banks {
        let [from, to] = [0, 1].map(|next| base + u64::from(u32_at(data, 4 + 4 * (bank + next))));
        let byte = usize::try_from(from).unwrap_or(usize::MAX);
        let length = to as i64 - from as i64;
        if !(4..=LONGEST as i64).contains(&length) {
            let why =
                format!("has {length} bytes by the table of banks; 4 to {LONGEST} are possible");
            return Err(Damage::of_bank(bank, byte, &why));
        }
        let left = (data.len() as u64).saturating_sub(from);
        if length as u64 > left {
            return Err(Damage::of_bank(
                bank,
                byte,
                &format!("needs {length} bytes, the event has {left} from there"),
            ));
        }
        entries.push(BankEntry {
            kind: kind::UT,
            version: None,
            source_id: u32_at(data, byte),
            start: byte + 4,
            byte: byte as u64 + 4,
            length: length as usize - 4,
        });
    }
    Ok(())
}

/// Run and event number of a name like `6718861_6001.bin`, or `6718861_6001.bin.zst`.
fn run_and_event_of_name(file: &Path) -> Option<(u32, u64)> {
    let name = Path::new(without_compression(file.file_name()?.to_str()?));
    let (run, event) = name.file_stem()?.to_str()?.split_once('_')?;
    Some((run.parse().ok()?, event.parse().ok()?))
}

/// Writes one event as a dump. Types and versions are lost; payloads are padded to 4 bytes with
/// zeros.
///
/// # Errors
/// If writing fails, the event is longer than 4 GiB, has more banks than sourceIDs, or a padded
/// bank is too long.
pub fn write_allen_dump<'a>(
    mut output: impl Write,
    banks: impl IntoIterator<Item = Bank<'a>>,
) -> io::Result<()> {
    let mut rel = vec![0u32];
    let mut body = Vec::new();
    for bank in banks {
        let length = bank.payload.len();
        if 4 + length.next_multiple_of(4) as u64 > LONGEST {
            let why = "padded to a multiple of 4, that is more than a bank of a dump can have";
            return Err(io::Error::other(format!(
                "sourceID {} has a payload of {length} bytes: {why}",
                bank.source_id
            )));
        }
        body.extend(bank.source_id.to_le_bytes());
        body.extend(bank.payload);
        body.resize(body.len().next_multiple_of(4), 0);
        rel.push(
            u32::try_from(body.len()).map_err(|_| io::Error::other("the event exceeds 4 GiB"))?,
        );
        if rel.len() as u64 > MAX_BANKS + 1 {
            return Err(io::Error::other(format!(
                "the event has more than {MAX_BANKS} banks, which no dump can have"
            )));
        }
    }
    output.write_all(&((rel.len() - 1) as u32).to_le_bytes())?;
    for word in rel {
        output.write_all(&word.to_le_bytes())?;
    }
    output.write_all(&body)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{AllenDump, Bank, kind, run_and_event_of_name, write_allen_dump};

    #[test]
    fn a_dump_takes_its_numbers_from_its_name_even_if_compressed() {
        for name in [
            "1_2.bin",
            "a/1_2.bin.zst",
            "1_2.BIN.GZ",
            "1_2.zst",
            "1_2.dat",
            "1_2",
        ] {
            assert_eq!(
                run_and_event_of_name(Path::new(name)),
                Some((1, 2)),
                "{name}"
            );
        }
        for name in ["1_2.3.bin", "12.bin.zst", "-", ".."] {
            assert_eq!(run_and_event_of_name(Path::new(name)), None, "{name}");
        }
    }

    #[test]
    fn a_bank_too_long_for_a_dump_after_padding_is_not_written() {
        let payload = vec![1; usize::from(u16::MAX)];
        let dump = |length: usize| {
            let mut bytes = Vec::new();
            let bank = Bank {
                kind: kind::UT,
                version: None,
                source_id: 3,
                payload: &payload[..length],
            };
            write_allen_dump(&mut bytes, [bank]).map(|()| bytes)
        };
        let dumped = AllenDump::read(&dump(65532).unwrap()[..], "1_2.bin").unwrap();
        let event = dumped.event();
        assert!(
            event.damage.is_none() && event.banks().next().unwrap().payload == &payload[..65532]
        );
        for length in 65533..=65535 {
            let error = dump(length).unwrap_err().to_string();
            assert!(
                error.contains(&format!("sourceID 3 has a payload of {length} bytes")),
                "{error}"
            );
        }
    }
}
