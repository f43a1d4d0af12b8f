//! Adds decoded events to a view.

use super::run::{Against, CHARGES, LANE_HITS, RunView, SIZES, STRIPS, TroubleSum};
use super::sums::both;
use ut_data::Cluster;
use ut_data::detector::{BoardAndLane, ChannelId, DetectorTables, LANES_PER_BOARD, N_LAYERS, N_SECTORS, layer_of};
use ut_data::input::{RawEvent, kind};
use ut_data::{BatchReport, Count, EventReport, UtHits};
use ut_format::report::N_COUNTS;

/// Adds batches to a view.
#[derive(Debug)]
pub struct RunFiller {
    view: RunView,
    /// Sector (upper half of the word) and lane slot (lower) of half a sector, by bits 8–20 of a `ChannelID`.
    halves: Vec<u32>,
    layer_ends: [usize; N_LAYERS],
    /// Hits by strip that the view lacks, as bytes: half a million counters stay in the cache.
    strips: Vec<u8>,
    layer_of_slot: Vec<usize>,
    /// Hits of the current event, by lane slot.
    event: Vec<u32>,
    /// Charge of the current event, by lane slot.
    event_charge: Vec<u64>,
    n_groups: usize,
}

/// Half sectors: values of bits 8–20 of a `ChannelID`.
const HALVES: usize = 1 << 13;

/// Detector type of the UT: the bits of a `ChannelID` above those.
const UT: u32 = 2;

impl RunFiller {
    /// Makes a filler of an empty view.
    pub fn new(tables: &DetectorTables, against: Against) -> Self {
        // Only sectors with a lane have hits.
        let slot = |lane: Option<BoardAndLane>| {
            lane.map_or(0, |lane| u32::from(lane.board) * LANES_PER_BOARD as u32 + u32::from(lane.lane))
        };
        let half = |bits: u32| {
            let sector = tables.sector_of(ChannelId(UT << 21 | bits << 8)).unwrap_or_default();
            u32::from(sector) << 16 | slot(tables.places()[usize::from(sector)].lanes[bits as usize % 2])
        };
        Self {
            view: RunView::new(tables, against),
            halves: (0..HALVES as u32).map(half).collect(),
            layer_ends: std::array::from_fn(|layer| tables.groups_of_layer(layer).end),
            strips: vec![0; N_SECTORS * STRIPS],
            layer_of_slot: tables.slots().iter().map(|slot| layer_of(usize::from(slot.sector))).collect(),
            event: vec![0; tables.slots().len()],
            event_charge: vec![0; tables.slots().len()],
            n_groups: tables.n_groups(),
        }
    }

    /// Adds a batch that was decoded with the tables of this view. `number` returns an event's place on its axis.
    pub fn add(&mut self, hits: &UtHits, report: &BatchReport, number: impl Fn(usize) -> Option<u64>) {
        let (ids, offsets) = (hits.id(), hits.offsets());
        for (e, counts) in report.events.iter().enumerate() {
            let ends = &offsets[e * self.n_groups..=(e + 1) * self.n_groups];
            let mut of_layer = [0; N_LAYERS];
            let mut begin = ends[0] as usize;
            for layer in 0..N_LAYERS {
                let end = ends[self.layer_ends[layer]] as usize;
                of_layer[layer] = (end - begin) as u64;
                match hits.clusters() {
                    Some(clusters) => self.count_clusters(layer, &ids[begin..end], &clusters[begin..end]),
                    None => ids[begin..end].iter().for_each(|&id| {
                        self.count_hit(id);
                    }),
                }
                begin = end;
            }
            self.end_event(of_layer, counts, number(e));
        }
    }

    /// Counts a hit, and returns its sector and lane slot.
    #[inline]
    fn count_hit(&mut self, id: u32) -> (usize, usize) {
        let half = self.halves[(id >> 8) as usize % HALVES];
        let (sector, slot) = ((half >> 16) as usize, (half & 0xFFFF) as usize);
        let strip = sector * STRIPS + id as usize % STRIPS;
        let count = &mut self.strips[strip];
        *count = count.wrapping_add(1);
        if *count == 0 {
            self.view.strips[strip] += 256;
        }
        self.event[slot] += 1;
        (sector, slot)
    }

    fn count_clusters(&mut self, layer: usize, ids: &[u32], clusters: &[Cluster]) {
        self.view.clusters += ids.len() as u64;
        for (&id, cluster) in ids.iter().zip(clusters) {
            let (sector, slot) = self.count_hit(id);
            let (charge, n) = (u64::from(cluster.charge()), u64::from(cluster.n_strips()));
            self.event_charge[slot] += charge;
            let view = &mut self.view;
            view.charge[sector] += charge;
            view.charge_squares[sector] += charge * charge;
            view.charge_of_layer[layer][(charge as usize).min(CHARGES - 1)] += 1;
            view.size_of_layer[layer][(n as usize).min(SIZES - 1)] += 1;
        }
    }

    fn end_event(&mut self, of_layer: [u64; N_LAYERS], counts: &EventReport, number: Option<u64>) {
        let view = &mut self.view;
        view.events += 1;
        view.hits += of_layer.iter().sum::<u64>();
        let mut span = number.map(|number| view.spans.at(number));
        if let Some(span) = &mut span {
            span.events += 1;
            span.numbers = both(span.numbers, number.map(|number| (number, number)));
            span.lanes.resize(self.event.len(), 0);
            span.charge.resize(self.event.len(), 0);
            span.counts.resize(N_COUNTS, 0);
        }
        for (slot, &n) in self.event.iter().enumerate().filter(|(_, n)| **n > 0) {
            let hits = u64::from(n);
            view.lanes[slot] += hits;
            view.lane_squares[slot] += hits * hits;
            view.lane_hits_of_layer[self.layer_of_slot[slot]][(n as usize).min(LANE_HITS - 1)] += 1;
            if let Some(span) = &mut span {
                span.lanes[slot] += hits;
                span.charge[slot] += self.event_charge[slot];
            }
        }
        self.event.fill(0);
        self.event_charge.fill(0);
        for (bins, n) in view.hits_of_event.iter_mut().zip(of_layer.into_iter().chain([of_layer.iter().sum()])) {
            *bins.at(n) += 1;
        }
        for (i, &n) in counts.counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            view.counts[i] += u64::from(n);
            if let Some(span) = &mut span {
                span.counts[i] += u64::from(n);
            }
        }
    }

    /// Adds the error banks of an event. `number` as in [`Self::add`].
    pub fn add_banks(&mut self, event: &RawEvent<'_>, number: Option<u64>) {
        if let Some(run) = event.run {
            self.view.add_run(run);
        }
        for bank in event.entries {
            if !kind::is_error(bank.kind, bank.source_id) {
                continue;
            }
            *self.view.error_banks.entry((bank.kind, bank.source_id & 0xFFFF)).or_default() += 1;
            if let Some(number) = number {
                self.view.spans.at(number).error_banks += 1;
            }
        }
    }

    /// Adds a trouble of the event at `place` among all.
    pub fn add_trouble(&mut self, kind: Count, n: u32, board: Option<u32>, place: u64) {
        self.view.add_trouble(kind as usize, board, TroubleSum { count: u64::from(n), first: place });
    }

    /// Returns the view of all events that were added.
    pub fn finish(mut self) -> RunView {
        self.view.strips.iter_mut().zip(self.strips).for_each(|(sum, n)| *sum += u64::from(n));
        self.view
    }
}
