//! The oracle: plain, slow decoding, written from `docs/format.md` and `docs/policy.md`.
//!
//! Every other backend is tested against this one, bit for bit, so it shares only the types of
//! input and output with them. It has its own walk over the batch (`banks`), its own map of
//! sourceIDs and lookup of sectors, straight from the contents of the boards and geometry files
//! (`lookup`), its own clustering (`clustering`), and one plain sort by the whole key. Nothing here
//! is clever; each step names the section of the page that it follows.

mod banks;
mod clustering;
mod lookup;

use self::banks::{Bank, banks_of_event};
use self::clustering::{LaneHit, cluster_lane};
use self::lookup::Lookup;
use super::{
    BatchReport, Cluster, Count, DecodeError, DecodeOptions, Decoder, EventReport, UtHits,
    check_selected,
};
use ut_data::detector::{BankVersion, DetectorTables};
use ut_data::hits::BatchCheck;
use ut_data::input::BatchView;

/// LHCbID of a UT channel: the detector type in the top four bits.
const UT_ID: u32 = 3 << 28;

/// Bank types that hold hits.
const UT: u8 = 66;
const UT_ERROR: u8 = 68;

/// The plain decoder.
///
/// ```
/// use ut_data::{BankVersion, BatchView, DecodeOptions, DetectorTables, Grouping};
/// use ut_decoders::reference::ReferenceDecoder;
/// use ut_decoders::{BatchReport, Decoder, UtHits};
///
/// let tables = ut_data::synth::tables(BankVersion::V4, Grouping::UniqueX);
/// let mut decoder = ReferenceDecoder::new(&tables, DecodeOptions::default());
/// let mut hits = UtHits::with_capacity(256, tables.n_groups(), 100_000);
/// decoder.decode(BatchView::default(), &mut hits, &mut BatchReport::new())?;
/// assert!(hits.is_empty());
/// # Ok::<(), ut_decoders::DecodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReferenceDecoder {
    lookup: Lookup,
    check: BatchCheck,
    options: DecodeOptions,
}

/// A hit with its whole sort key.
#[derive(Clone, Copy, Debug)]
struct Hit {
    group: u16,
    slot: usize,
    /// Strip coordinate inside the sector.
    n: f32,
    y_begin: f32,
    y_end: f32,
    z_at_y_eq0: f32,
    x_at_y_eq0: f32,
    dx_dy: f32,
    weight: f32,
    id: u32,
    /// Known for v5 banks only.
    cluster: Cluster,
}

impl ReferenceDecoder {
    /// Creates a decoder for one detector and one set of options.
    pub fn new(tables: &DetectorTables, options: DecodeOptions) -> Self {
        Self {
            lookup: Lookup::new(tables),
            check: BatchCheck::new(tables),
            options,
        }
    }

    /// Decodes one event: its hits, in output order, and its counters.
    fn event(&self, batch: &BatchView<'_>, event: usize) -> (Vec<Hit>, EventReport) {
        let mut report = EventReport::default();
        let mut hits = Vec::new();
        let meta = batch.meta_of(event);
        let (banks, broken) = banks_of_event(batch, event);
        if broken || meta.broken {
            report.add(Count::BrokenEvent, 1);
        }
        report.add(Count::OtherTypes, meta.other_banks);

        let mut ut_banks = 0;
        let mut boards_seen = vec![false; self.lookup.n_boards()];
        for bank in &banks {
            if bank.kind != UT && bank.kind != UT_ERROR {
                report.add(Count::OtherTypes, 1);
                continue;
            }
            ut_banks += 1;
            if ut_banks > self.lookup.n_boards() {
                report.add(Count::SurplusBanks, 1);
                continue;
            }
            if bank
                .version
                .is_some_and(|version| version != self.lookup.version().byte())
            {
                report.add(Count::WrongVersion, 1);
                continue;
            }
            let Some(board) = self.lookup.board(bank.source_id) else {
                report.add(Count::UnknownBoard, 1);
                continue;
            };
            if boards_seen[board] {
                report.add(Count::RepeatedBoard, 1);
            }
            boards_seen[board] = true;
            match self.lookup.version() {
                BankVersion::V4 => self.v4_bank(board, bank, &mut hits, &mut report),
                BankVersion::V5 => self.v5_bank(board, bank, &mut hits, &mut report),
            }
        }

        hits.sort_by_key(|hit| {
            (
                hit.group,
                order(hit.x_at_y_eq0),
                hit.id,
                order(hit.n),
                hit.slot,
                hit.cluster,
            )
        });
        (hits, report)
    }

    /// Decodes a v4 bank, as in `docs/format.md`, "v4 banks", and the v4 rows of `docs/policy.md`.
    fn v4_bank(
        &self,
        board: usize,
        bank: &Bank<'_>,
        hits: &mut Vec<Hit>,
        report: &mut EventReport,
    ) {
        let payload = bank.payload;
        if payload.len() < 4 {
            report.add(Count::Truncated, 1);
            return;
        }
        let n_clusters = usize::from(u16::from_le_bytes([payload[0], payload[1]]));
        if payload.len() < 4 + 2 * n_clusters {
            report.add(Count::Truncated, 1);
            return;
        }
        report.add(Count::Banks, 1);
        let strips_per_hybrid = self.lookup.strips_per_hybrid(board);
        for i in 0..n_clusters {
            let word = u32::from(u16::from_le_bytes([payload[4 + 2 * i], payload[5 + 2 * i]]));
            let fraction = word & 0x3;
            let channel = (word >> 2) & 0xFFF;
            let index = channel / strips_per_hybrid;
            let strip_id = channel - index * strips_per_hybrid + 1;
            let slot = board * 6 + index as usize;
            if index > 5 || self.lookup.chan_id(slot) == 0 {
                report.add(Count::UnconnectedHits, 1);
                continue;
            }
            report.add(Count::Strips, 1);
            let first_strip = self.lookup.first_strip(slot);
            let n = 0.25 * fraction as f32 + strip_id as f32 - first_strip as f32;
            let id = UT_ID | self.lookup.chan_id(slot).wrapping_add(strip_id - 1);
            hits.push(self.hit(slot, n, id, Cluster::default()));
        }
    }

    /// Decodes a v5 bank, as in `docs/format.md`, "v5 banks", and the v5 rows of `docs/policy.md`.
    fn v5_bank(
        &self,
        board: usize,
        bank: &Bank<'_>,
        hits: &mut Vec<Hit>,
        report: &mut EventReport,
    ) {
        const COUNT_BYTES: [usize; 6] = [4, 5, 6, 7, 0, 1];
        let payload = bank.payload;
        if payload.len() < 24 {
            let claims_hits = COUNT_BYTES
                .iter()
                .any(|&byte| byte < payload.len() && payload[byte] != 0);
            report.add(
                if claims_hits {
                    Count::Short
                } else {
                    Count::Banks
                },
                1,
            );
            return;
        }
        let counts = COUNT_BYTES.map(|byte| usize::from(payload[byte]));
        if counts.contains(&255) {
            report.add(Count::BadHeader, 1);
            return;
        }
        let longest = counts.into_iter().max().unwrap_or(0);
        if payload.len() < 32 * longest.div_ceil(2) {
            report.add(Count::Truncated, 1);
            return;
        }
        report.add(Count::Banks, 1);
        for (lane, &count) in counts.iter().enumerate() {
            let slot = board * 6 + lane;
            if self.lookup.chan_id(slot) == 0 {
                report.add(Count::UnconnectedHits, count as u32);
                continue;
            }
            report.add(Count::Strips, count as u32);
            let lane_hits: Vec<LaneHit> = (0..count)
                .map(|i| {
                    let byte = 8 + 2 * (16 * (i / 2) + 2 * (5 - lane) + i % 2);
                    let word = u16::from_le_bytes([payload[byte], payload[byte + 1]]);
                    LaneHit {
                        adc: u32::from(word & 0x1F),
                        strip: u32::from((word >> 5) & 0x1FF),
                    }
                })
                .collect();
            if lane_hits
                .windows(2)
                .any(|pair| pair[0].strip >= pair[1].strip)
            {
                report.add(Count::UnsortedLanes, 1);
            }
            for cluster in cluster_lane(&lane_hits, self.options, report) {
                hits.push(self.v5_hit(slot, cluster));
            }
        }
    }

    /// Emits a cluster, as in `docs/format.md`, "Clustering".
    ///
    /// Both sums are exact as floats: the largest Σpos is 31 · 511 · 254 = 4,023,614, below 2²⁴, so
    /// only the quotient rounds, and every backend must round it in the same way.
    ///
    /// *Example.* Strips 10 and 11 with ADC 5 and 15: Σpos = 215, W = 20, the mean is 10.75 and the
    /// strip of the LHCbID (430 + 20) / 2 / 20 = 11. In a flipped sector, n = 511 − 10.75, but the
    /// strip is the same.
    #[expect(clippy::manual_midpoint, reason = "as docs/format.md writes it")]
    fn v5_hit(&self, slot: usize, cluster: clustering::Cluster) -> Hit {
        let clustering::Cluster {
            sum_position,
            weight,
            sum_adc,
            n: n_strips,
            first,
        } = cluster;
        let mean = sum_position as f32 / weight as f32;
        let strip = (2 * sum_position + weight) / 2 / weight;
        let n = if self.lookup.is_flipped(slot) {
            self.options.flip().origin() - mean
        } else {
            mean
        };
        let id = UT_ID | (self.lookup.chan_id(slot) & !0x1FF).wrapping_add(strip);
        self.hit(slot, n, id, Cluster::new(sum_adc, n_strips, first))
    }

    /// Computes a hit, as in `docs/format.md`, "From a cluster to a hit", in the same order of
    /// operations.
    fn hit(&self, slot: usize, n: f32, id: u32, cluster: Cluster) -> Hit {
        let sector = self.lookup.sector(slot);
        let y_begin = sector.p0_y + n * sector.dp0di_y;
        Hit {
            group: self.lookup.group(slot),
            slot,
            n,
            y_begin,
            y_end: sector.dy + y_begin,
            z_at_y_eq0: sector.p0_z.abs() + n * sector.dp0di_z,
            x_at_y_eq0: sector.p0_x + n * sector.dp0di_x,
            dx_dy: sector.dx_dy,
            weight: 12.0 / (sector.pitch * sector.pitch),
            id,
            cluster,
        }
    }
}

/// Returns an integer that is ordered as the float is, as in `docs/format.md`, "The order of hits".
///
/// Negative floats grow in magnitude with their bits, so all their bits are inverted; positive ones
/// only move above them. −0 becomes 0x7FFFFFFF and +0 0x80000000, its neighbour.
fn order(value: f32) -> u32 {
    let bits = value.to_bits();
    if bits & 0x8000_0000 != 0 {
        !bits
    } else {
        bits | 0x8000_0000
    }
}

impl Decoder for ReferenceDecoder {
    fn name(&self) -> &'static str {
        "reference"
    }

    fn decode(
        &mut self,
        batch: BatchView<'_>,
        hits: &mut UtHits,
        report: &mut BatchReport,
    ) -> Result<(), DecodeError> {
        let n_groups = self.lookup.n_groups();
        let mut out = hits.begin_with_clusters(batch.n_events, n_groups, self.lookup.version())?;
        report.reset(batch.n_events);
        let capacity = out.id.len();
        check_selected(&batch)?;
        self.check.check(&batch)?;
        let mut written = 0;
        for event in 0..batch.n_events {
            // A search for each event. An oracle may be slow, as long as it is easy to believe.
            let is_selected = batch
                .selected
                .is_none_or(|list| list.contains(&(event as u32)));
            let (event_hits, event_report) = if is_selected {
                self.event(&batch, batch.first_event.saturating_add(event))
            } else {
                (Vec::new(), EventReport::default())
            };
            report.events[event] = event_report;
            if written + event_hits.len() > capacity {
                let n_hits = written + event_hits.len();
                return hits.forget_on(Err(DecodeError::TooManyHits {
                    event,
                    hits: n_hits,
                    capacity,
                }));
            }
            for hit in &event_hits {
                out.y_begin[written] = hit.y_begin;
                out.y_end[written] = hit.y_end;
                out.z_at_y_eq0[written] = hit.z_at_y_eq0;
                out.x_at_y_eq0[written] = hit.x_at_y_eq0;
                out.dx_dy[written] = hit.dx_dy;
                out.weight[written] = hit.weight;
                out.id[written] = hit.id;
                if let Some(clusters) = &mut out.clusters {
                    clusters[written] = hit.cluster;
                }
                written += 1;
            }
            let before = written - event_hits.len();
            for group in 0..n_groups {
                let up_to_group = event_hits
                    .iter()
                    .filter(|hit| usize::from(hit.group) <= group)
                    .count();
                out.offsets[event * n_groups + group + 1] = (before + up_to_group) as u32;
            }
        }
        Ok(())
    }
}
