//! MDF files, read: events one behind the other, each with its size in front (`docs/format.md`, "MDF files").
//!
//! One event is in memory at a time, in a buffer that is reused. No size is believed before the bytes are there: on a
//! regular file it is compared with the file's length first, on a pipe the buffer grows with what arrives.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::event::{Format, kind};
use super::{BankEntry, Damage, InputError, Place, RawEvent};

/// Bytes of the event header: three sizes, checksum, compression, header type, data type, spare.
pub(super) const HEADER: usize = 20;
/// First byte that the checksum covers.
pub(super) const CHECKED_FROM: usize = 16;
/// First half-word of every bank.
pub(super) const MAGIC: u16 = 0xCBCB;
/// Bytes of a bank's header.
pub(super) const BANK_HEADER: usize = 8;
/// The only data type that holds raw banks.
pub(super) const RAW_BANKS: u8 = 1;

/// The checksum of an event: `bytes` are those from byte 16 of the event to its end.
///
/// One byte at a time, each taken as signed, all modulo 2³² (`docs/format.md`).
pub fn checksum(bytes: &[u8]) -> u32 {
    let mut h = 0u32;
    for &byte in bytes {
        h = h.wrapping_add(i32::from(byte as i8) as u32);
        h = h.wrapping_add(h << 10);
        h ^= h >> 6;
    }
    h = h.wrapping_add(h << 3);
    h ^= h >> 11;
    h.wrapping_add(h << 15)
}

/// Reads the events of one MDF file.
#[derive(Debug)]
pub struct MdfReader<R = BufReader<File>> {
    input: R,
    file: PathBuf,
    /// Length of the file where it has one.
    length: Option<u64>,
    /// Byte at which the next event begins.
    position: u64,
    /// Events begun.
    begun: u64,
    ended: bool,
    // The event in hand.
    data: Vec<u8>,
    entries: Vec<BankEntry>,
    damage: Option<Damage>,
    run: Option<u32>,
    number: Option<u64>,
    trigger_mask: Option<[u32; 4]>,
}

impl MdfReader {
    /// Opens a file. Its content is looked at event by event.
    ///
    /// # Errors
    /// When the system cannot open it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, InputError> {
        let path = path.as_ref();
        let open = |path: &Path| {
            let file = File::open(path)?;
            let meta = file.metadata()?;
            Ok((file, meta.is_file().then_some(meta.len())))
        };
        let (file, length) = open(path).map_err(|source| InputError::Open { file: path.to_path_buf(), source })?;
        Ok(Self::new(BufReader::with_capacity(1 << 18, file), path, length))
    }
}

impl<R: Read> MdfReader<R> {
    /// Reads events from `input`. `path` is what messages call it; `length` its bytes, where that is known.
    pub fn new(input: R, path: impl Into<PathBuf>, length: Option<u64>) -> Self {
        Self {
            input,
            file: path.into(),
            length,
            position: 0,
            begun: 0,
            ended: false,
            data: Vec::new(),
            entries: Vec::new(),
            damage: None,
            run: None,
            number: None,
            trigger_mask: None,
        }
    }

    /// Bytes of the file that were read so far.
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// The next event, or `None` after the last. After an error there are no further events.
    ///
    /// # Errors
    /// Where the container cannot be followed any more: see [`InputError`].
    pub fn next_event(&mut self) -> Result<Option<RawEvent<'_>>, InputError> {
        Ok(if self.advance()? { Some(self.event()) } else { None })
    }

    /// The event that [`Self::advance`] read.
    pub(super) fn event(&self) -> RawEvent<'_> {
        RawEvent {
            file: &self.file,
            format: Format::Mdf,
            index: self.begun - 1,
            offset: self.position - self.data.len() as u64,
            run: self.run,
            number: self.number,
            trigger_mask: self.trigger_mask,
            data: &self.data,
            entries: &self.entries,
            damage: self.damage.as_ref(),
        }
    }

    /// Reads the next event; false after the last.
    pub(super) fn advance(&mut self) -> Result<bool, InputError> {
        if self.ended {
            return Ok(false);
        }
        // Ended, unless the event turns out well.
        self.ended = true;
        self.begun += 1;
        if !self.read_event()? {
            return Ok(false);
        }
        self.position += self.data.len() as u64;
        self.take_apart();
        self.ended = false;
        Ok(true)
    }

    fn place(&self) -> Place {
        Place { file: self.file.clone(), event: self.begun - 1, byte: self.position }
    }

    /// Appends up to `n` bytes to the event in hand; the buffer grows no faster than bytes arrive.
    fn append(&mut self, n: u64) -> Result<(), InputError> {
        let read = self.input.by_ref().take(n).read_to_end(&mut self.data);
        read.map_err(|source| InputError::Read { place: self.place(), source })?;
        Ok(())
    }

    /// Brings the bytes of the next event into `data`; false at the end of the file.
    fn read_event(&mut self) -> Result<bool, InputError> {
        self.data.clear();
        self.append(HEADER as u64)?;
        if self.data.is_empty() {
            return Ok(false);
        }
        let left = self.data.len();
        if left < 12 {
            return Err(InputError::CutHeader { place: self.place(), left });
        }
        let sizes = [0, 4, 8].map(|at| u32_at(&self.data, at));
        let size = sizes[0];
        if sizes != [size; 3] {
            return Err(InputError::UnequalSizes { place: self.place(), sizes });
        }
        if (size as usize) < HEADER {
            return Err(InputError::TooSmall { place: self.place(), size, headers: HEADER as u32 });
        }
        let there = self.data.len();
        let left = self.length.map(|length| length.saturating_sub(self.position));
        if there < HEADER || left.is_some_and(|left| left < u64::from(size)) {
            let left = left.unwrap_or(there as u64);
            return Err(InputError::BeyondFile { place: self.place(), size, left });
        }
        let [compression, header_type, data_type] = [self.data[16], self.data[17], self.data[18]];
        if compression != 0 {
            return Err(InputError::Compressed { place: self.place(), compression });
        }
        if data_type != RAW_BANKS {
            return Err(InputError::DataType { place: self.place(), data_type });
        }
        let headers = HEADER as u32 + sub_header_bytes(header_type);
        if size < headers {
            return Err(InputError::TooSmall { place: self.place(), size, headers });
        }
        self.append(u64::from(size) - HEADER as u64)?;
        if self.data.len() < size as usize {
            let left = self.data.len() as u64;
            return Err(InputError::BeyondFile { place: self.place(), size, left });
        }
        Ok(true)
    }

    /// Finds the banks, the run and the event number of the event in hand.
    fn take_apart(&mut self) {
        self.entries.clear();
        (self.damage, self.run, self.number, self.trigger_mask) = (None, None, None, None);
        let stored = u32_at(&self.data, 12);
        if stored != 0 {
            let computed = checksum(&self.data[CHECKED_FROM..]);
            if stored != computed {
                self.damage = Some(Damage::Checksum { stored, computed });
                return;
            }
        }
        let words = usize::from(self.data[17] & 0xF);
        self.run = (words >= 5).then(|| u32_at(&self.data, HEADER + 16));
        self.trigger_mask = (words >= 4).then(|| [0, 1, 2, 3].map(|word| u32_at(&self.data, HEADER + 4 * word)));
        self.damage = find_banks(&self.data, HEADER + 4 * words, &mut self.entries).err();
        let odin = self.entries.iter().filter(|entry| entry.kind == kind::ODIN);
        let mut odin = odin.map(|entry| (entry.version, &self.data[entry.start..entry.start + entry.length]));
        if let Some((run, number)) = odin.find_map(|(version, payload)| run_and_event(version, payload)) {
            self.run = Some(run);
            self.number = Some(number);
        }
    }
}

/// Bytes of the sub-header that a header type announces.
pub(super) const fn sub_header_bytes(header_type: u8) -> u32 {
    4 * (header_type & 0xF) as u32
}

/// Lists the banks of an event from byte `at` to its end, up to the first that is damaged.
fn find_banks(data: &[u8], mut at: usize, entries: &mut Vec<BankEntry>) -> Result<(), Damage> {
    while at < data.len() {
        let bank = entries.len();
        let left = data.len() - at;
        if left < BANK_HEADER {
            return Err(Damage::BankBeyond { bank, byte: at, needed: BANK_HEADER as u64, left: left as u64 });
        }
        let magic = u16_at(data, at);
        if magic != MAGIC {
            return Err(Damage::Magic { bank, byte: at, magic });
        }
        let size = u16_at(data, at + 2);
        if usize::from(size) < BANK_HEADER {
            return Err(Damage::BankTooSmall { bank, byte: at, size });
        }
        if usize::from(size) > left {
            return Err(Damage::BankBeyond { bank, byte: at, needed: u64::from(size), left: left as u64 });
        }
        entries.push(BankEntry {
            kind: data[at + 4],
            version: Some(data[at + 5]),
            source_id: u32::from(u16_at(data, at + 6)),
            start: at + BANK_HEADER,
            length: usize::from(size) - BANK_HEADER,
        });
        // The padding of the last bank may be missing: nothing is lost with it.
        at += usize::from(size).next_multiple_of(4);
    }
    Ok(())
}

/// Run and event number of an ODIN bank; `None` for a version whose layout is not known, or a payload too short.
fn run_and_event(version: Option<u8>, payload: &[u8]) -> Option<(u32, u64)> {
    match version? {
        6 if payload.len() >= 20 => {
            Some((u32_at(payload, 0), u64::from(u32_at(payload, 12)) << 32 | u64::from(u32_at(payload, 16))))
        }
        7 if payload.len() >= 40 => {
            Some((u32_at(payload, 0), u64::from(u32_at(payload, 36)) << 32 | u64::from(u32_at(payload, 32))))
        }
        _ => None,
    }
}

/// The little-endian u32 at a byte that the caller has checked.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The little-endian u16 at a byte that the caller has checked.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}
