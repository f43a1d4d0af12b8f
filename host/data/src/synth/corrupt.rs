//! Faults in synthetic files, and the report that a decoder has to give on each fault
//! (`docs/policy.md`).
//!
//! An event gets either faults in its banks or one fault in its container, and a bank gets at most
//! one fault. So the effect of each fault on the report is known exactly, and every bank that the
//! [`Ledger`] does not name is whole.
//!
//! The ledger makes strong tests possible: decode the damaged file and the undamaged one, and
//! compare. The counts of trouble must be the counts in the ledger, the hits of named banks may be
//! missing, and all other hits must be the same. A decoder that loses one bank too many is then
//! found, which no check on a damaged file alone could do.

use std::collections::BTreeMap;
use std::ops::Range;

use ut_format::bank::COUNT_BYTES;

use super::encode::{Strip, encode_v5};
use super::spectra::Dice;
use crate::detector::{BankVersion, Boards, LANES_PER_BOARD, STRIPS_PER_SECTOR};
use crate::hits::Count;
use crate::input::checksum;
use crate::named;

const V5_HEADER: usize = 8;

/// Number of bytes of the smallest v5 payload that is not [`Count::Short`].
const V5_ROW: usize = 24;

/// Mixed into the seed of the events to get the seed of their faults.
const SALT: u64 = 0x66_61_75_6c_74_73;

macro_rules! faults {
    ($($fault:ident $name:literal $what:literal,)*) => {
        /// A fault that a file can have.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum FileFault {
            $(#[doc = $what] $fault,)*
        }

        named!("fault" FileFault: $($fault $name),*);
    };
}

faults! {
    WrongVersion "wrong_version" "Bank: another version than the board table's.",
    UnknownBoard "unknown_board" "Bank: the sourceID of no board.",
    RepeatedBoard "repeated_board" "Bank: the sourceID of an earlier bank of the event.",
    Short "short" "Bank, v5: under 24 bytes, with hits announced.",
    BadHeader "bad_header" "Bank, v5: a lane count of 255.",
    Truncated "truncated" "Bank: shorter than its counts say.",
    UnconnectedHits "unconnected_hits" "Bank: hits on a lane that nothing is connected to.",
    UnsortedLanes "unsorted_lanes" "Bank, v5: strips of a lane that do not ascend.",
    SurplusBanks "surplus_banks" "Event: more banks than there are boards.",
    Checksum "checksum" "Event of MDF: the checksum of other bytes.",
    BankMagic "bank_magic" "Event of MDF: a bank without the magic number.",
    BankSize "bank_size" "Event of MDF: a bank that is smaller than its header.",
    BankBeyond "bank_beyond" "Event of MDF: a bank that reaches beyond the event.",
    Block "block" "Event of MDF, compressed in blocks: a block that cannot be unpacked.",
    Fragments "fragments" "Source of a MEP packet: a header that contradicts the packet.",
    Cut "cut" "File: it ends in its last event or packet.",
    Stream "stream" "File, compressed as a whole: the compressed bytes end in its last event or packet.",
}

/// Compression of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// None.
    #[default]
    None,
    /// Each MDF event in blocks, as ROOT makes them.
    Blocks,
    /// The whole file, by zstd.
    Zstd,
}

impl FileFault {
    /// Returns true if files of MEP packets (else MDF files) with banks of a version can have it.
    pub fn is_possible(self, version: BankVersion, packets: bool, packing: Packing) -> bool {
        match self {
            Self::Short | Self::BadHeader | Self::UnsortedLanes => version == BankVersion::V5,
            Self::Checksum | Self::BankMagic | Self::BankSize | Self::BankBeyond => !packets,
            Self::Block => !packets && packing == Packing::Blocks,
            Self::Fragments => packets,
            Self::Stream => packing == Packing::Zstd,
            _ => true,
        }
    }

    /// Returns true if it is made in the bytes of an event after they were compressed.
    pub const fn is_of_packed_event(self) -> bool {
        matches!(self, Self::Checksum | Self::Block)
    }

    const fn is_of_bank(self) -> bool {
        (self as usize) < Self::SurplusBanks as usize
    }

    const fn is_of_frame(self) -> bool {
        matches!(
            self,
            Self::Checksum | Self::BankMagic | Self::BankSize | Self::BankBeyond | Self::Block
        )
    }
}

/// A UT bank to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Source id of the board that sends it.
    pub source_id: u16,
    /// Bank type.
    pub kind: u8,
    /// Version byte.
    pub version: u8,
    /// The payload.
    pub bytes: Vec<u8>,
}

/// A fault that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// Event of the file, or the first of a packet that is cut. A packet with wrong sources has one
    /// entry per event.
    pub event: u64,
    /// The fault.
    pub fault: FileFault,
    /// Banks that are not whole because of the fault, by their sourceID in the file without faults.
    pub banks: Vec<u16>,
}

/// The faults of a file.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Faults in the order of the file.
    pub entries: Vec<LedgerEntry>,
    /// Counts that a decoder has to report, by the name of the trouble.
    pub report: BTreeMap<&'static str, u64>,
    /// Number of events that can be read.
    pub events: u64,
}

/// Makes faults at random, the same for the same seed.
#[derive(Clone, Debug)]
pub struct Corruptor {
    rates: Vec<(FileFault, f64)>,
    boards: Boards,
    seed: u64,
    ledger: Ledger,
}

impl Corruptor {
    /// Makes faults in banks of `boards`, each with its chance: of a bank, an event, a source of a
    /// packet, or the file.
    pub fn new(rates: Vec<(FileFault, f64)>, boards: Boards, seed: u64) -> Self {
        let mut ledger = Ledger::default();
        ledger
            .report
            .extend(troubles().map(|count| (count.name(), 0)));
        Self {
            rates,
            boards,
            seed: seed ^ SALT,
            ledger,
        }
    }

    /// Returns the ledger of the faults that were made.
    pub fn into_ledger(self) -> Ledger {
        self.ledger
    }

    /// Returns the fault by which the file is to end in its last event or packet.
    pub fn end(&self) -> Option<FileFault> {
        self.draw(&mut Dice::new(self.seed, u64::MAX), |fault| {
            matches!(fault, FileFault::Cut | FileFault::Stream)
        })
    }

    /// Returns the fault of the event's frame, if it gets one.
    pub fn frame(&self, event: u64) -> Option<FileFault> {
        self.draw(
            &mut Dice::new(self.seed.rotate_left(1), event),
            FileFault::is_of_frame,
        )
    }

    /// Returns the sources of a packet that get a fault, as indices below `n`.
    pub fn sources(&self, first_event: u64, n: usize) -> Vec<usize> {
        let mut dice = Dice::new(self.seed.rotate_left(2), first_event);
        (0..n)
            .filter(|_| {
                self.draw(&mut dice, |fault| fault == FileFault::Fragments)
                    .is_some()
            })
            .collect()
    }

    /// Draws a fault of a kind: the first one whose chance comes up.
    fn draw(&self, dice: &mut Dice, of_kind: impl Fn(FileFault) -> bool) -> Option<FileFault> {
        let drawn = self
            .rates
            .iter()
            .filter(|(fault, _)| of_kind(*fault))
            .map(|&(fault, rate)| (fault, dice.unit() < rate));
        drawn.fold(None, |first, (fault, comes)| {
            first.or(comes.then_some(fault))
        })
    }

    /// Adds to the number of events that can be read.
    pub const fn readable(&mut self, events: u64) {
        self.ledger.events += events;
    }

    /// Notes a fault that was made elsewhere and that breaks this many events.
    pub fn note(&mut self, entry: LedgerEntry, broken_events: u64) {
        self.count(Count::BrokenEvent, broken_events);
        self.ledger.entries.push(entry);
    }

    fn count(&mut self, count: Count, n: u64) {
        *self.ledger.report.entry(count.name()).or_default() += n;
    }

    /// Makes faults in the banks of an event.
    pub fn banks(&mut self, event: u64, banks: &mut Vec<Payload>) {
        let mut dice = Dice::new(self.seed, event);
        // Sources of banks whose board is known: those that a later one can repeat.
        let mut seen: Vec<u16> = Vec::new();
        for bank in banks.iter_mut() {
            let own = bank.source_id;
            let fault = self.draw(&mut dice, FileFault::is_of_bank);
            let fault = fault.filter(|&fault| self.damage(fault, bank, &seen, &mut dice));
            if !matches!(
                fault,
                Some(FileFault::WrongVersion | FileFault::UnknownBoard)
            ) {
                seen.push(bank.source_id);
            }
            if let Some(fault) = fault {
                self.ledger.entries.push(LedgerEntry {
                    event,
                    fault,
                    banks: vec![own],
                });
            }
        }
        if self
            .draw(&mut dice, |fault| fault == FileFault::SurplusBanks)
            .is_some()
            && let Some(last) = banks.last().cloned()
        {
            let room = self.boards.n_boards().saturating_sub(banks.len());
            let unknown = Payload {
                source_id: self.no_board(last.source_id),
                ..last.clone()
            };
            banks.extend(std::iter::repeat_n(unknown, room));
            self.count(Count::UnknownBoard, room as u64);
            let surplus = 1 + dice.below(3) as usize;
            banks.extend(std::iter::repeat_n(last, surplus));
            self.count(Count::SurplusBanks, surplus as u64);
            self.ledger.entries.push(LedgerEntry {
                event,
                fault: FileFault::SurplusBanks,
                banks: Vec::new(),
            });
        }
    }

    /// Returns a sourceID of the same side that belongs to no board.
    const fn no_board(&self, source_id: u16) -> u16 {
        match self.boards.version {
            BankVersion::V4 => 0x7ff,
            BankVersion::V5 => source_id | 0xff,
        }
    }

    /// Makes a fault in a bank; false where this bank cannot have it.
    fn damage(
        &mut self,
        fault: FileFault,
        bank: &mut Payload,
        seen: &[u16],
        dice: &mut Dice,
    ) -> bool {
        let v5 = self.boards.version == BankVersion::V5;
        let bytes = &mut bank.bytes;
        let has_hits = if v5 {
            bytes.len() >= 32
        } else {
            bytes.len() >= 6
        };
        let mut pick = |range: Range<usize>| range.start + dice.below(range.len() as u32) as usize;
        let (count, n) = match fault {
            FileFault::WrongVersion => {
                bank.version = if pick(0..2) == 0 { bank.version ^ 7 } else { 5 };
                (Count::WrongVersion, 1)
            }
            FileFault::UnknownBoard => {
                bank.source_id = self.no_board(bank.source_id);
                (Count::UnknownBoard, 1)
            }
            FileFault::RepeatedBoard if !seen.is_empty() => {
                bank.source_id = seen[pick(0..seen.len())];
                let unconnected = self.unconnected(bank);
                self.count(Count::UnconnectedHits, unconnected);
                (Count::RepeatedBoard, 1)
            }
            FileFault::Short if v5 && has_hits => {
                bytes.truncate(pick(V5_HEADER..V5_ROW));
                (Count::Short, 1)
            }
            FileFault::BadHeader if v5 && has_hits => {
                bytes[COUNT_BYTES[pick(0..LANES_PER_BOARD)]] = 255;
                (Count::BadHeader, 1)
            }
            FileFault::Truncated if v5 && has_hits => {
                bytes.truncate(pick(V5_ROW..bytes.len()));
                (Count::Truncated, 1)
            }
            FileFault::Truncated if !v5 && has_hits => {
                let clusters = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
                bytes.truncate(pick(0..4 + 2 * clusters));
                (Count::Truncated, 1)
            }
            FileFault::UnconnectedHits if v5 => {
                let Some(lane) =
                    (0..LANES_PER_BOARD).find(|&lane| !self.is_connected(bank.source_id, lane))
                else {
                    return false;
                };
                let hits: Vec<Strip> = (0..=pick(0..5) as u16).map(|i| (100 + 2 * i, 9)).collect();
                let mut lanes = lanes_of(bytes);
                lanes[lane].clone_from(&hits);
                *bytes = encode_v5(lanes.each_ref().map(Vec::as_slice));
                (Count::UnconnectedHits, hits.len() as u64)
            }
            FileFault::UnconnectedHits if has_hits => {
                let clusters = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
                let at = 4 + 2 * pick(0..clusters);
                let channel = LANES_PER_BOARD as u16 * STRIPS_PER_SECTOR as u16;
                bytes[at..at + 2].copy_from_slice(&(channel << 2).to_le_bytes());
                (Count::UnconnectedHits, 1)
            }
            // Swaps the first two hits of a lane. They are neighbours in the first row, so four
            // bytes rotate.
            FileFault::UnsortedLanes if v5 && has_hits => {
                let sorts = |lane: &usize| {
                    bytes[COUNT_BYTES[*lane]] > 1 && self.is_connected(bank.source_id, *lane)
                };
                let Some(lane) = (0..LANES_PER_BOARD).find(sorts) else {
                    return false;
                };
                let at = V5_HEADER + 4 * (LANES_PER_BOARD - 1 - lane);
                bytes[at..at + 4].rotate_left(2);
                (Count::UnsortedLanes, 1)
            }
            _ => return false,
        };
        self.count(count, n);
        true
    }

    fn is_connected(&self, source_id: u16, lane: usize) -> bool {
        let board = ut_format::bank::board_of(u32::from(source_id))
            .map_or(usize::MAX, |board| board as usize);
        let place = board.checked_mul(LANES_PER_BOARD).map(|slot| slot + lane);
        place
            .and_then(|place| self.boards.lanes.get(place))
            .is_some_and(crate::detector::Lane::is_connected)
    }

    fn unconnected(&self, bank: &Payload) -> u64 {
        let lost = |lane: usize| !self.is_connected(bank.source_id, lane);
        if self.boards.version == BankVersion::V5 {
            let lanes = (0..LANES_PER_BOARD).filter(|&lane| lost(lane));
            return lanes
                .map(|lane| u64::from(bank.bytes[COUNT_BYTES[lane]]))
                .sum();
        }
        let clusters = usize::from(u16::from_le_bytes([bank.bytes[0], bank.bytes[1]]));
        let words = bank.bytes[4..4 + 2 * clusters].chunks(2);
        let lanes = words
            .map(|word| (usize::from(u16::from_le_bytes([word[0], word[1]])) >> 2 & 0xfff) / 512);
        lanes
            .filter(|&lane| lane >= LANES_PER_BOARD || lost(lane))
            .count() as u64
    }

    /// Makes a fault in the bytes of an MDF event whose UT banks have these sourceIDs, and come
    /// last.
    pub fn damage_frame(
        &mut self,
        event: u64,
        fault: FileFault,
        bytes: &mut [u8],
        sources: &[u16],
    ) {
        let mut dice = Dice::new(self.seed.rotate_left(3), event);
        let stored = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
        if fault == FileFault::Checksum {
            let wrong = if stored == 1 { 2 } else { stored ^ 1 };
            bytes[12..16].copy_from_slice(&wrong.to_le_bytes());
            self.note(
                LedgerEntry {
                    event,
                    fault,
                    banks: sources.to_vec(),
                },
                1,
            );
            return;
        }
        let starts = banks_of(bytes);
        let first = starts.len() - sources.len();
        let fits = |&bank: &usize| {
            fault != FileFault::BankBeyond || bytes.len() - starts[bank] < usize::from(u16::MAX)
        };
        let possible: Vec<usize> = (first..starts.len()).filter(fits).collect();
        let Some(&bank) = possible.get(dice.below(possible.len() as u32) as usize) else {
            return;
        };
        let at = starts[bank];
        match fault {
            FileFault::BankMagic => bytes[at] ^= 0xff,
            FileFault::BankSize => {
                bytes[at + 2..at + 4].copy_from_slice(&(dice.below(8) as u16).to_le_bytes());
            }
            _ => {
                let left = (bytes.len() - at) as u32;
                let size = left + 1 + dice.below(u32::from(u16::MAX) - left);
                bytes[at + 2..at + 4].copy_from_slice(&(size as u16).to_le_bytes());
            }
        }
        // With the checksum made right again, a reader must find the fault in the bank itself.
        let sum = checksum(&bytes[16..]);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        self.note(
            LedgerEntry {
                event,
                fault,
                banks: sources[bank - first..].to_vec(),
            },
            1,
        );
    }

    /// Makes a fault in a block of the MDF event `packed`, which was `whole` before its body was
    /// compressed.
    pub fn damage_block(&mut self, event: u64, packed: &mut [u8], whole: &[u8], sources: &[u16]) {
        let mut dice = Dice::new(self.seed.rotate_left(3), event);
        let size_at = |bytes: &[u8], at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], 0]) as usize
        };
        // Where each block begins, and where its content does in the event that is not compressed.
        let (mut at, mut unpacked) = (body_of(packed), body_of(whole));
        let mut blocks = Vec::new();
        while at < packed.len() {
            blocks.push((at, unpacked));
            unpacked += size_at(packed, at + 6);
            at += 9 + size_at(packed, at + 3);
        }
        let Some(&(at, unpacked)) = blocks.get(dice.below(blocks.len() as u32) as usize) else {
            return;
        };
        match dice.below(4) {
            // No algorithm; more bytes than are there; another size than it has; content that is
            // none.
            0 => packed[at] = b'Q',
            1 => packed[at + 5] = 0xff,
            2 => packed[at + 6] ^= 1,
            _ => packed[at + 9..at + 13].fill(0),
        }
        let sum = checksum(&packed[16..]);
        packed[12..16].copy_from_slice(&sum.to_le_bytes());
        let starts = banks_of(whole);
        let of_sources = &starts[starts.len() - sources.len()..];
        let is_whole = |start: usize| {
            start + usize::from(u16::from_le_bytes([whole[start + 2], whole[start + 3]]))
                <= unpacked
        };
        let lost = of_sources
            .iter()
            .zip(sources)
            .filter(|(start, _)| !is_whole(**start))
            .map(|(_, source)| *source);
        self.note(
            LedgerEntry {
                event,
                fault: FileFault::Block,
                banks: lost.collect(),
            },
            1,
        );
    }

    /// Makes a fault in some MFPs of a packet of `n_events` events; `sources` lists the sources of
    /// all its MFPs.
    pub fn damage_packet(
        &mut self,
        first_event: u64,
        n_events: u64,
        bytes: &mut [u8],
        sources: &[u16],
        mfps: &[usize],
    ) {
        let mut dice = Dice::new(self.seed.rotate_left(3), first_event);
        let offsets = 8 + 2 * sources.len().next_multiple_of(2);
        for &mfp in mfps {
            let word = offsets + 4 * mfp;
            let at = 4 * u32::from_le_bytes([
                bytes[word],
                bytes[word + 1],
                bytes[word + 2],
                bytes[word + 3],
            ]) as usize;
            match dice.below(4) {
                0 => bytes[at] ^= 0xff,
                1 => bytes[at + 4..at + 8].copy_from_slice(&19u32.to_le_bytes()),
                2 => bytes[at + 16] ^= 0x80,
                _ => bytes[at + 18] = 13,
            }
        }
        // All events of the packet are broken, each once.
        let banks: Vec<u16> = mfps.iter().map(|&mfp| sources[mfp]).collect();
        for e in 0..n_events {
            self.note(
                LedgerEntry {
                    event: first_event + e,
                    fault: FileFault::Fragments,
                    banks: banks.clone(),
                },
                1,
            );
        }
    }
}

fn troubles() -> impl Iterator<Item = Count> {
    Count::ALL
        .into_iter()
        .filter(|count| count.kind() == crate::hits::Kind::Trouble)
}

/// Returns the hits of an undamaged v5 bank, by lane.
fn lanes_of(bytes: &[u8]) -> [Vec<Strip>; LANES_PER_BOARD] {
    std::array::from_fn(|lane| {
        let hit = |i: usize| {
            let at = V5_HEADER + 2 * (16 * (i / 2) + 2 * (LANES_PER_BOARD - 1 - lane) + i % 2);
            let word = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
            (word >> 5, (word & 31) as u8)
        };
        (0..usize::from(bytes[COUNT_BYTES[lane]]))
            .map(hit)
            .collect()
    })
}

fn body_of(bytes: &[u8]) -> usize {
    20 + 4 * usize::from(bytes[17] & 0xf)
}

/// Returns where the banks of an MDF event that is whole begin.
fn banks_of(bytes: &[u8]) -> Vec<usize> {
    let mut at = body_of(bytes);
    let mut starts = Vec::new();
    while at < bytes.len() {
        starts.push(at);
        at += usize::from(u16::from_le_bytes([bytes[at + 2], bytes[at + 3]])).next_multiple_of(4);
    }
    starts
}
