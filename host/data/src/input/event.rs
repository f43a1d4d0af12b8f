//! One event as a file holds it: its banks, not yet decoded, in the order of the file.

use std::path::Path;

use super::{Damage, EventMeta, Odin, Place};

/// Bank types of the UT.
pub mod kind {
    /// Run and event number.
    pub const ODIN: u8 = 16;
    /// UT hits.
    pub const UT: u8 = 66;
    /// Places of the crossings of a time alignment event (TAE) in the event.
    pub const TAE_HEADER: u8 = 48;
    /// UT, not zero-suppressed; not decoded.
    pub const UT_FULL: u8 = 67;
    /// UT hits from a board that reported an error; decoded as [`UT`].
    pub const UT_ERROR: u8 = 68;
    /// UT pedestals; not decoded.
    pub const UT_PEDESTAL: u8 = 69;
    /// Types of banks that the read-out sends in place of a fragment that it lost or could not use.
    const DAQ_ERRORS: [(u8, &str); 10] = [
        (89, "DaqErrorFragmentThrottled"),
        (90, "DaqErrorBXIDCorrupted"),
        (91, "DaqErrorSyncBXIDCorrupted"),
        (92, "DaqErrorFragmentMissing"),
        (93, "DaqErrorFragmentTruncated"),
        (94, "DaqErrorIdleBXIDCorrupted"),
        (95, "DaqErrorFragmentMalformed"),
        (96, "DaqErrorEVIDJumped"),
        (100, "DaqErrorAlignFifoFull"),
        (101, "DaqErrorFEfragSizeWrong"),
    ];

    /// Returns true if banks of this type go into a batch.
    pub const fn is_ut(kind: u8) -> bool {
        matches!(kind, UT..=UT_PEDESTAL)
    }

    /// Returns true if banks of this type are decoded into hits.
    pub const fn is_decoded(kind: u8) -> bool {
        matches!(kind, UT | UT_ERROR)
    }

    /// Returns true if the type replaces a lost or unusable fragment, of any detector, whose
    /// sourceID the bank has.
    pub const fn is_daq_error(kind: u8) -> bool {
        matches!(kind, 89..=96 | 100 | 101)
    }

    /// Returns true for a bank that says that a board of the UT failed: UTError, or one in place of
    /// a UT fragment.
    pub const fn is_error(kind: u8, source_id: u32) -> bool {
        kind == UT_ERROR || is_daq_error(kind) && matches!(source_id >> 11, 5 | 6)
    }

    /// Returns LHCb's name of a type that matters here; empty for others.
    pub fn name(kind: u8) -> &'static str {
        match kind {
            ODIN => "ODIN",
            TAE_HEADER => "TAEHeader",
            UT => "UT",
            UT_FULL => "UTFull",
            UT_ERROR => "UTError",
            UT_PEDESTAL => "UTPedestal",
            _ => DAQ_ERRORS
                .iter()
                .find(|(of, _)| *of == kind)
                .map_or("", |(_, name)| name),
        }
    }
}

/// A raw bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bank<'a> {
    /// Bank type, see [`kind`].
    pub kind: u8,
    /// Version byte; `None` where the file does not hold it (Allen-layout dumps).
    pub version: Option<u8>,
    /// Source id of the board that sent the bank.
    pub source_id: u32,
    /// Payload, without header and padding.
    pub payload: &'a [u8],
}

/// Position of a bank of a [`RawEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in `Bank`")]
pub struct BankEntry {
    pub kind: u8,
    pub version: Option<u8>,
    pub source_id: u32,
    /// First byte of the payload in [`RawEvent::data`].
    pub start: usize,
    /// Byte of the payload in messages, counted from the beginning of the event, or of its MEP
    /// packet.
    pub byte: u64,
    /// Size of the payload in bytes.
    pub length: usize,
}

/// The formats of input files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A sequence of events, all detectors.
    Mdf,
    /// Packets of events, all detectors, by source.
    Mep,
    /// One event, UT banks only.
    AllenDump,
}

impl Format {
    /// Returns the name of the format, as messages say it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mdf => "MDF",
            Self::Mep => "MEP packets",
            Self::AllenDump => "Allen-layout dump",
        }
    }
}

/// One event of a file, borrowed from its reader.
#[derive(Clone, Copy, Debug)]
pub struct RawEvent<'a> {
    /// The file.
    pub file: &'a Path,
    /// Format.
    pub format: Format,
    /// Event of the file, from 0.
    pub index: u64,
    /// Byte of the file at which the event begins.
    pub offset: u64,
    /// Run number: from the ODIN bank, else from the MDF sub-header or the name of the dump.
    pub run: Option<u32>,
    /// Event number: from the ODIN bank or the name of the dump.
    pub number: Option<u64>,
    /// The ODIN bank: of several, the first with a run and a number.
    pub odin: Option<Odin>,
    /// Trigger mask of the MDF sub-header.
    pub trigger_mask: Option<[u32; 4]>,
    /// The event's bytes, headers included, unpacked; for packets the kept bytes, with payloads of
    /// other events.
    pub data: &'a [u8],
    /// The event's bytes as the file holds them: an event that is compressed inside MDF is not
    /// unpacked here.
    pub stored: &'a [u8],
    /// Banks, up to the damage if there is one.
    pub entries: &'a [BankEntry],
    /// Number of banks of other detectors that were not read (MEP packets).
    pub skipped: u32,
    /// Reason that the rest of the event was given up.
    pub damage: Option<&'a Damage>,
}

/// The trigger-mask words (sub-header words 0…3) of MDF files that `ut-decode generate` made, by
/// which they are recognised: "UT-SYNTHETIC-001" in ASCII, which no trigger configuration yields.
pub const GENERATED_MASK: [u32; 4] = [
    u32::from_le_bytes(*b"UT-S"),
    u32::from_le_bytes(*b"YNTH"),
    u32::from_le_bytes(*b"ETIC"),
    u32::from_le_bytes(*b"-001"),
];

/// Byte of a UT bank's payload that bears the mark of `ut-decode generate`, in any container: the
/// upper byte of what a v5 header does not explain, and of a v4 header. No decoder looks at bits 1
/// to 7 of it.
pub const MARKED_BYTE: usize = 3;

/// Number of UT banks, from the event's first on, in which the mark is looked for.
const LOOKED_AT: usize = 16;

/// Minimum number of marked banks, among those looked at, in a generated event.
const LEAST_MARKED: usize = 10;

/// Returns the mark of generated banks of a source. It differs from source to source: neither a
/// constant nor a counter is taken for the mark.
pub const fn generated_mark(source_id: u32) -> u8 {
    ((source_id.wrapping_mul(0x9E37_79B1) >> 25) as u8) << 1
}

/// Maker of an event, as far as can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// `ut-decode generate`.
    Generate,
    /// Another maker.
    Other,
    /// There is too little to tell.
    Unknown,
}

impl Maker {
    /// Returns the maker of an event by the marks of its UT banks, each given by sourceID and
    /// payload.
    pub(super) fn of_banks<'a>(banks: impl Iterator<Item = (u32, &'a [u8])>) -> Self {
        let (mut looked_at, mut marked) = (0, 0);
        let bytes =
            banks.filter_map(|(source_id, payload)| Some((source_id, payload.get(MARKED_BYTE)?)));
        for (source_id, byte) in bytes.take(LOOKED_AT) {
            looked_at += 1;
            marked += usize::from(byte & !1 == generated_mark(source_id));
        }
        match (looked_at, marked) {
            (_, LEAST_MARKED..) => Self::Generate,
            (LEAST_MARKED.., _) if 2 * marked < LEAST_MARKED => Self::Other,
            _ => Self::Unknown,
        }
    }
}

impl<'a> RawEvent<'a> {
    /// Returns the banks, in the order of the file.
    pub fn banks(&self) -> impl Iterator<Item = Bank<'a>> + Clone + use<'a> {
        let data = self.data;
        self.entries.iter().map(move |entry| Bank {
            kind: entry.kind,
            version: entry.version,
            source_id: entry.source_id,
            payload: &data[entry.start..entry.start + entry.length],
        })
    }

    /// Returns the size of the event in bytes, after decompression; for an event of a packet, the
    /// size of its payloads.
    pub fn n_bytes(&self) -> usize {
        match self.format {
            Format::Mep => self.entries.iter().map(|bank| bank.length).sum(),
            Format::Mdf | Format::AllenDump => self.data.len(),
        }
    }

    /// Returns the place of the event, for a message.
    pub fn place(&self) -> Place {
        Place {
            file: self.file.to_path_buf(),
            event: self.index,
            byte: self.offset,
        }
    }

    /// Returns the maker of the event: by the trigger mask, else by the [marks](generated_mark) of
    /// its UT banks, which every container keeps. An event of MDF without a trigger mask may be
    /// anyone's.
    pub fn maker(&self) -> Maker {
        if self.trigger_mask == Some(GENERATED_MASK) {
            return Maker::Generate;
        }
        let banks = self.banks().filter(|bank| kind::is_decoded(bank.kind));
        match (
            Maker::of_banks(banks.map(|bank| (bank.source_id, bank.payload))),
            self.trigger_mask,
        ) {
            (Maker::Generate, _) => Maker::Generate,
            (maker, None) => maker,
            (_, Some([0, 0, 0, 0])) => Maker::Unknown,
            _ => Maker::Other,
        }
    }

    /// Returns true if `ut-decode generate` made the event.
    pub fn is_generated(&self) -> bool {
        self.maker() == Maker::Generate
    }

    /// Returns the facts that a batch keeps of the event in addition to its UT banks.
    pub fn meta(&self) -> EventMeta {
        let mut meta = EventMeta {
            run: self.run,
            event: self.number,
            other_banks: self.skipped,
            broken: self.damage.is_some(),
            bad_checksum: self.damage.is_some_and(|damage| damage.is_checksum),
            lost_banks: self.damage.map_or(0, |damage| damage.lost_banks),
            odin: self.odin,
            ..EventMeta::default()
        };
        for entry in self.entries {
            meta.other_banks += u32::from(!kind::is_ut(entry.kind));
            meta.add_error(entry.kind, entry.source_id);
        }
        meta
    }
}
