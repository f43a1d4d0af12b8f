//! Events as lists of banks, and batches made from them.

use ut_decoding::detector::{BankVersion, Boards, Geometry};
use ut_decoding::synth::{self, Generator, Profile};
use ut_decoding::{DetectorTables, EventBatch, EventMeta, Grouping, Layout, input};

/// A raw bank as a container holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bank {
    pub kind: u8,
    pub version: u8,
    pub source_id: u16,
    pub payload: Vec<u8>,
}

impl Bank {
    pub fn new(version: BankVersion, source_id: u16, payload: Vec<u8>) -> Self {
        Self {
            kind: 66,
            version: version.byte(),
            source_id,
            payload,
        }
    }
}

/// Makes a UT bank of version 5.
pub fn v5(source_id: u16, payload: &[u8]) -> Bank {
    Bank::new(BankVersion::V5, source_id, payload.to_vec())
}

/// Banks of an event, in order.
pub type Event = Vec<Bank>;

/// Returns the banks of an event as the library takes them.
pub fn borrowed(event: &[Bank]) -> impl Iterator<Item = input::Bank<'_>> + Clone {
    event.iter().map(
        |Bank {
             kind,
             version,
             source_id,
             payload,
         }| input::Bank {
            kind: *kind,
            version: Some(*version),
            source_id: u32::from(*source_id),
            payload,
        },
    )
}

pub const VERSIONS: [BankVersion; 2] = [BankVersion::V4, BankVersion::V5];

/// Returns the tables of the synthetic detector, grouped in y-rows.
pub fn tables(version: BankVersion) -> DetectorTables {
    tables_in(version, Grouping::YRows)
}

pub fn tables_in(version: BankVersion, grouping: Grouping) -> DetectorTables {
    let (boards, geometry) = synth::detector(version, 1);
    DetectorTables::new(boards, geometry, grouping).expect("a good detector")
}

/// Returns the tables of the synthetic detector, grouped in y-rows, after a change.
pub fn changed(
    version: BankVersion,
    change: impl FnOnce(&mut Boards, &mut Geometry),
) -> DetectorTables {
    let (mut boards, mut geometry) = synth::detector(version, 1);
    change(&mut boards, &mut geometry);
    DetectorTables::trusting(boards, geometry, Grouping::YRows).expect("a good detector")
}

/// Generates `n` small synthetic events without trouble.
pub fn generated(version: BankVersion, n: usize) -> Vec<Event> {
    generated_as(Profile::PpLow, version, 1, n)
}

/// Generates `n` synthetic events of a profile, one after the other from a seed.
pub fn generated_as(profile: Profile, version: BankVersion, seed: u64, n: usize) -> Vec<Event> {
    let bank = |(source_id, payload)| Bank::new(version, source_id, payload);
    let events = Generator::new(profile, version, seed).take(n);
    events
        .map(|event| event.banks.into_iter().map(bank).collect())
        .collect()
}

/// Returns the payload of a v5 bank with six lanes of (strip, ADC).
pub fn v5_payload(lanes: &[Vec<(u16, u8)>; 6]) -> Vec<u8> {
    let count = |lane: usize| u8::try_from(lanes[lane].len()).expect("at most 254 hits");
    let mut payload = vec![
        count(4),
        count(5),
        0xAA,
        0x55,
        count(0),
        count(1),
        count(2),
        count(3),
    ];
    let rows = lanes.iter().map(Vec::len).max().unwrap_or(0).div_ceil(2);
    let mut words = vec![0u16; 16 * rows];
    for (lane, hits) in lanes.iter().enumerate() {
        for (i, &(strip, adc)) in hits.iter().enumerate() {
            words[16 * (i / 2) + 2 * (5 - lane) + i % 2] = u16::from(adc & 31) | (strip & 511) << 5;
        }
    }
    payload.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    payload
}

/// Returns the payload of a v5 bank with these hits on one lane.
pub fn v5_lane(lane: usize, hits: impl IntoIterator<Item = (u16, u8)>) -> Vec<u8> {
    let mut lanes: [Vec<(u16, u8)>; 6] = Default::default();
    lanes[lane] = hits.into_iter().collect();
    v5_payload(&lanes)
}

/// Returns the payload of a v4 bank with these cluster words, without the ADC bytes after them.
pub fn v4_payload(words: &[u16]) -> Vec<u8> {
    let mut payload = (words.len() as u32).to_le_bytes().to_vec();
    payload.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    payload
}

/// Makes the batch of these events in Allen layout.
pub fn allen_batch(events: &[Event]) -> EventBatch {
    let mut raw = Vec::new();
    let mut offsets = vec![];
    let mut sizes = Rows::default();
    let (mut types, mut versions) = (Rows::default(), Rows::default());
    for event in events {
        offsets.push(raw.len() as u32);
        raw.extend((event.len() as u32).to_le_bytes());
        let mut place = 0u32;
        for bank in event {
            raw.extend(place.to_le_bytes());
            place += 4 + bank.payload.len().next_multiple_of(4) as u32;
        }
        raw.extend(place.to_le_bytes());
        for bank in event {
            raw.extend(u32::from(bank.source_id).to_le_bytes());
            raw.extend(&bank.payload);
            raw.resize(raw.len().next_multiple_of(4), 0);
        }
        sizes.row(
            event
                .iter()
                .flat_map(|bank| (bank.payload.len() as u16).to_le_bytes()),
        );
        types.row(event.iter().map(|bank| bank.kind));
        versions.row(event.iter().map(|bank| bank.version));
    }
    offsets.push(raw.len() as u32);
    EventBatch {
        layout: Layout::Allen,
        n_events: events.len(),
        raw,
        offsets,
        sizes: sizes.words(2),
        types: types.words(1),
        versions: Some(versions.words(1)),
        meta: vec![EventMeta::default(); events.len()],
    }
}

/// Makes the batch of these events in MEP layout. All must have the same sequence of sourceIDs.
pub fn mep_batch(events: &[Event]) -> EventBatch {
    let n_banks = events.first().map_or(0, Vec::len);
    let mut offsets = vec![n_banks as u32, 0];
    offsets.extend(
        events
            .first()
            .into_iter()
            .flatten()
            .map(|bank| u32::from(bank.source_id)),
    );
    let head = offsets.len();
    offsets.resize(head + n_banks * events.len(), 0);
    let mut raw = Vec::new();
    let mut sizes = Rows::default();
    let (mut types, mut versions) = (Rows::default(), Rows::default());
    for b in 0..n_banks {
        for (e, event) in events.iter().enumerate() {
            assert_eq!(
                offsets[2 + b],
                u32::from(event[b].source_id),
                "a MEP batch has one sequence of sourceIDs"
            );
            offsets[head + n_banks * e + b] = raw.len() as u32;
            raw.extend(&event[b].payload);
            raw.resize(raw.len().next_multiple_of(4), 0);
        }
        sizes.row(
            events
                .iter()
                .flat_map(|event| (event[b].payload.len() as u16).to_le_bytes()),
        );
        types.row(events.iter().map(|event| event[b].kind));
        versions.row(events.iter().map(|event| event[b].version));
    }
    EventBatch {
        layout: Layout::Mep,
        n_events: events.len(),
        raw,
        offsets,
        sizes: sizes.words(2),
        types: types.words(1),
        versions: Some(versions.words(1)),
        meta: vec![EventMeta::default(); events.len()],
    }
}

/// Rows of bytes after a table of their beginnings: the form of `sizes`, `types` and `versions`.
#[derive(Default)]
struct Rows {
    starts: Vec<usize>,
    bytes: Vec<u8>,
}

impl Rows {
    fn row(&mut self, bytes: impl Iterator<Item = u8>) {
        self.starts.push(self.bytes.len());
        self.bytes.extend(bytes);
    }

    /// Returns the table, in units of `unit` bytes, and then the rows.
    fn words(mut self, unit: usize) -> Vec<u32> {
        let head = 4 * self.starts.len();
        let mut words: Vec<u32> = self
            .starts
            .iter()
            .map(|start| ((head + start) / unit) as u32)
            .collect();
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        words.extend(
            self.bytes
                .chunks_exact(4)
                .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])),
        );
        words
    }
}

/// Returns true if all events have the same sequence of sourceIDs, as a MEP batch needs.
pub fn fits_mep(events: &[Event]) -> bool {
    events.windows(2).all(|pair| {
        pair[0]
            .iter()
            .map(|bank| bank.source_id)
            .eq(pair[1].iter().map(|bank| bank.source_id))
    })
}
