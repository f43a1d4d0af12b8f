//! A program that uses the library as a trigger sequence would: raw banks already lie in memory, in
//! Allen layout, and are decoded where they are. There is no unsafe code here, and none is needed.
//!
//! `cargo run --release --example sequence` decodes synthetic events;
//! `cargo test --example sequence` runs the tests.
#![forbid(unsafe_code)]

use ut_decoding::synth::{self, Generator, Profile};
use ut_decoding::{
    BankVersion, BatchReport, BatchView, CpuDecoder, DecodeError, DecodeOptions, Decoder,
    DetectorTables, Grouping, Layout, UtHits,
};

/// Memory in which a framework holds a batch: bytes, and words that say where things are in them.
struct FrameworkMemory {
    n_events: usize,
    raw: Vec<u8>,
    offsets: Vec<u32>,
    sizes: Vec<u32>,
    types: Vec<u32>,
}

impl FrameworkMemory {
    /// Returns the view that a decoder takes; nothing is copied.
    fn view(&self) -> BatchView<'_> {
        BatchView {
            layout: Layout::Allen,
            n_events: self.n_events,
            raw: &self.raw,
            offsets: &self.offsets,
            sizes: &self.sizes,
            types: &self.types,
            // All events, whose banks have the board table's version.
            ..BatchView::default()
        }
    }

    /// Synthetic events, laid out as `docs/format.md` says.
    fn of_synthetic_events(n_events: usize) -> Self {
        let mut memory = Self {
            n_events,
            raw: Vec::new(),
            offsets: Vec::new(),
            sizes: Vec::new(),
            types: Vec::new(),
        };
        let (mut sizes, mut types) = (Vec::new(), Vec::new());
        for event in Generator::new(Profile::PpLow, BankVersion::V5, 1).take(n_events) {
            memory.offsets.push(memory.raw.len() as u32);
            memory.raw.extend((event.banks.len() as u32).to_le_bytes());
            let mut place = 0u32;
            for (_, payload) in &event.banks {
                memory.raw.extend(place.to_le_bytes());
                place += 4 + payload.len().next_multiple_of(4) as u32;
            }
            memory.raw.extend(place.to_le_bytes());
            for (source_id, payload) in &event.banks {
                memory.raw.extend(u32::from(*source_id).to_le_bytes());
                memory.raw.extend(payload);
                memory.raw.resize(memory.raw.len().next_multiple_of(4), 0);
            }
            sizes.push(
                event
                    .banks
                    .iter()
                    .flat_map(|(_, payload)| (payload.len() as u16).to_le_bytes())
                    .collect(),
            );
            types.push(event.banks.iter().map(|_| 66).collect());
        }
        (memory.sizes, memory.types) = (with_places(&sizes, 2), with_places(&types, 1));
        memory
    }
}

/// Lays rows out with an index before them: one word per row that says where it begins, in units of
/// `unit` bytes.
fn with_places(rows: &[Vec<u8>], unit: usize) -> Vec<u32> {
    let mut place = 4 * rows.len();
    let mut words = Vec::new();
    for row in rows {
        words.push((place / unit) as u32);
        place += row.len();
    }
    let mut bytes = rows.concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    words.extend(
        bytes
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])),
    );
    words
}

/// Returns the tables of the synthetic detector. For a real detector, `Boards::read` and
/// `Geometry::read` read them from files.
fn tables() -> DetectorTables {
    let (boards, geometry) = synth::detector(BankVersion::V5, 1);
    DetectorTables::new(boards, geometry, Grouping::YRows).expect("the synthetic detector is valid")
}

fn main() -> Result<(), DecodeError> {
    let tables = tables();
    let batch = FrameworkMemory::of_synthetic_events(100);
    let mut decoder = CpuDecoder::new(&tables, DecodeOptions::default());
    let mut hits =
        UtHits::with_capacity(batch.n_events, tables.n_groups(), batch.view().max_hits());
    let mut report = BatchReport::new();
    decoder.decode(batch.view(), &mut hits, &mut report)?;
    // The next stage of the sequence takes the hits of each group of sectors, in ascending x.
    let first = hits.range(0, 0);
    println!(
        "{} hits in {} events, trouble: {}",
        hits.len(),
        batch.n_events,
        report.has_trouble()
    );
    println!(
        "x of the hits in the first group of event 0, mm: {:?}",
        &hits.x_at_y_eq0()[first]
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ut_decoding::ReferenceDecoder;

    #[test]
    fn a_batch_in_the_callers_memory_gives_the_references_hits_without_trouble() {
        let (tables, batch, options) = (
            tables(),
            FrameworkMemory::of_synthetic_events(7),
            DecodeOptions::default(),
        );
        let decode = |decoder: &mut dyn Decoder| {
            let mut hits =
                UtHits::with_capacity(batch.n_events, tables.n_groups(), batch.view().max_hits());
            let mut report = BatchReport::new();
            decoder
                .decode(batch.view(), &mut hits, &mut report)
                .unwrap();
            (hits, report)
        };
        let (hits, report) = decode(&mut CpuDecoder::new(&tables, options));
        assert!(!hits.is_empty() && !report.has_trouble());
        assert!((hits, report) == decode(&mut ReferenceDecoder::new(&tables, options)));
        main().unwrap();
    }
}
