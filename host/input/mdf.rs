//! Reads MDF files: events back to back, each with its size in front (`docs/format.md`, "MDF files").
//!
//! One event is in memory at a time, in a buffer that is reused, or one packet.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::event::{Format, kind};
use super::frames::{Frame, Frames};
use super::mdf_format::{BANK_HEADER, CHECKED_FROM, HEADER, MAGIC, checksum, run_and_event, u16_at, u32_at};
use super::unpack::{MAX_EVENT, claimed, unpack};
use super::{BankEntry, Damage, InputError, RawEvent};

/// Reads the events of one file, MDF or MEP packets.
#[derive(Debug)]
pub struct MdfReader<R = BufReader<File>> {
    frames: Frames<R>,
    /// What the file says that it is; events of a packet in an MDF frame are a packet's.
    format: Format,
    // The current event.
    data: Vec<u8>,
    unpacked: Vec<u8>,
    entries: Vec<BankEntry>,
    facts: Facts,
    /// Where the packet's next event is, if the events of a packet are being read.
    of_packet: Option<usize>,
}

impl MdfReader {
    /// Opens an MDF file. Its content is looked at event by event.
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
    /// Reads MDF events from `input`. `path` is what messages call it; `length` its bytes, where that is known.
    pub fn new(input: R, path: impl Into<PathBuf>, length: Option<u64>) -> Self {
        Self::of(Frames::new(input, path, length, Format::Mdf), Format::Mdf)
    }

    /// Reads packets from `input`; otherwise as [`Self::new`].
    pub fn of_packets(input: R, path: impl Into<PathBuf>, length: Option<u64>) -> Self {
        Self::of(Frames::new(input, path, length, Format::Mep), Format::Mep)
    }

    fn of(frames: Frames<R>, format: Format) -> Self {
        Self {
            frames,
            format,
            data: Vec::new(),
            unpacked: Vec::new(),
            entries: Vec::new(),
            facts: Facts::default(),
            of_packet: None,
        }
    }

    /// Bytes of the file that were read so far, out of their compression.
    pub const fn position(&self) -> u64 {
        self.frames.position()
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
        let Facts { run, number, trigger_mask, ref damage, unpacked } = self.facts;
        let frames = &self.frames;
        let packet = frames.packet();
        let (format, index, (data, stored), skipped) = if let Some(next) = self.of_packet {
            let first = frames.events() - packet.n_events() as u64;
            let raw = packet.fragments().raw();
            (Format::Mep, first + next as u64 - 1, (raw, raw), packet.skipped())
        } else {
            let stored = &self.data[..];
            let data = if unpacked { &self.unpacked[..] } else { stored };
            (self.format, frames.events() - 1, (data, stored), 0)
        };
        RawEvent {
            file: frames.file(),
            format,
            index,
            offset: frames.last(),
            run,
            number,
            trigger_mask,
            data,
            stored,
            entries: &self.entries,
            skipped,
            damage: damage.as_ref(),
        }
    }

    /// Reads the next event; false after the last.
    pub(super) fn advance(&mut self) -> Result<bool, InputError> {
        loop {
            let packet = self.frames.packet();
            if let Some(next) = self.of_packet.filter(|&next| next < packet.n_events()) {
                packet.fragments().entries(next, &mut self.entries);
                let (run, number) = packet.fragments().numbers(next);
                self.facts = Facts { run, number, damage: packet.damage().cloned(), ..Facts::default() };
                self.of_packet = Some(next + 1);
                return Ok(true);
            }
            self.of_packet = None;
            self.data.clear();
            match self.frames.next(&mut self.data)? {
                Frame::End => return Ok(false),
                Frame::Packet => self.of_packet = Some(0),
                Frame::Event => {
                    let computed = checksum(&self.data[CHECKED_FROM..]);
                    self.facts = Facts::of(&self.data, Some(computed), &mut self.unpacked, &mut self.entries);
                    return Ok(true);
                }
            }
        }
    }
}

/// What an MDF event says beside its banks.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Why the rest of the event was given up.
    pub damage: Option<Damage>,
    /// Run number.
    pub run: Option<u32>,
    /// Event number.
    pub number: Option<u64>,
    /// Trigger mask.
    pub trigger_mask: Option<[u32; 4]>,
    /// The event was compressed: its banks lie in the buffer for unpacked bytes.
    pub unpacked: bool,
}

impl Facts {
    /// Finds the banks, the run and the event number of an event whose bytes are `data`, headers included; a frame that
    /// [`Frames`] let pass. `computed` is its checksum, or `None` where that is not to be compared. A compressed event
    /// is unpacked into `unpacked`, headers included.
    pub fn of(data: &[u8], computed: Option<u32>, unpacked: &mut Vec<u8>, entries: &mut Vec<BankEntry>) -> Self {
        let mut facts = Self::default();
        entries.clear();
        let stored = u32_at(data, 12);
        if let Some(computed) = computed.filter(|&computed| stored != 0 && stored != computed) {
            facts.damage = Some(Damage::Checksum { stored, computed });
            return facts;
        }
        let words = usize::from(data[17] & 0xF);
        let body = HEADER + 4 * words;
        facts.run = (words >= 5).then(|| u32_at(data, HEADER + 16));
        facts.trigger_mask = (words >= 4).then(|| [0, 1, 2, 3].map(|word| u32_at(data, HEADER + 4 * word)));
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
        facts.damage = found.map_err(Damage::Unpack).and(banks).err();
        let odin = entries.iter().filter(|entry| entry.kind == kind::ODIN);
        let mut odin = odin.map(|entry| (entry.version, &data[entry.start..entry.start + entry.length]));
        if let Some((run, number)) = odin.find_map(|(version, payload)| run_and_event(version, payload)) {
            facts.run = Some(run);
            facts.number = Some(number);
        }
        facts
    }
}

/// Bytes that the blocks of an event say they hold; 0 if it is not compressed.
pub fn unpacked_bytes(data: &[u8]) -> usize {
    if data[16] == 0 { 0 } else { claimed(&data[HEADER + 4 * usize::from(data[17] & 0xF)..]) }
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
            byte: (at + BANK_HEADER) as u64,
            length: usize::from(size) - BANK_HEADER,
        });
        // The padding of the last bank may be missing: nothing is lost with it.
        at += usize::from(size).next_multiple_of(4);
    }
    Ok(())
}
