//! Adds decoded events to a view.

use super::run::{Against, CHARGES, LANE_HITS, RunView, SIZES, STRIPS, TroubleSum};
use super::sums::both;
use ut_data::Cluster;
use ut_data::detector::{BoardAndLane, ChannelId, DetectorTables, LANES_PER_BOARD, N_LAYERS, N_SECTORS};
use ut_data::input::{RawEvent, kind};
use ut_data::{BatchReport, Count, EventReport, UtHits};
use ut_kernels::bank::board_of;
use ut_kernels::report::N_COUNTS;

/// Adds batches to a view.
#[derive(Debug)]
pub struct RunFiller {
    view: RunView,
    /// Sector (upper half of the word) and lane slot (lower) of half a sector, by bits 8–20 of a `ChannelID`.
    halves: Vec<u32>,
    layer_ends: [usize; N_LAYERS],
    /// Hits by strip that the view lacks, as bytes: half a million counters stay in the cache.
    strips: Vec<u8>,
    /// Number of n-th hits (from 0) of lanes in events, by layer; all above in the last.
    nth_hits: [[u64; LANE_HITS]; N_LAYERS],
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
            nth_hits: [[0; LANE_HITS]; N_LAYERS],
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
                        self.count_hit(layer, id);
                    }),
                }
                begin = end;
            }
            self.end_event(of_layer, counts, number(e));
        }
    }

    /// Counts a hit, and returns its sector and lane slot.
    #[inline]
    fn count_hit(&mut self, layer: usize, id: u32) -> (usize, usize) {
        let half = self.halves[(id >> 8) as usize % HALVES];
        let (sector, slot) = ((half >> 16) as usize, (half & 0xFFFF) as usize);
        let strip = sector * STRIPS + id as usize % STRIPS;
        let count = &mut self.strips[strip];
        *count = count.wrapping_add(1);
        if *count == 0 {
            self.view.strips[strip] += 256;
        }
        let n = self.event[slot];
        self.event[slot] = n + 1;
        self.nth_hits[layer][(n as usize).min(LANE_HITS - 1)] += 1;
        (sector, slot)
    }

    fn count_clusters(&mut self, layer: usize, ids: &[u32], clusters: &[Cluster]) {
        self.view.clusters += ids.len() as u64;
        for (&id, cluster) in ids.iter().zip(clusters) {
            let (sector, slot) = self.count_hit(layer, id);
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
        // All lanes at once, with vectors, are faster than those with hits alone.
        let squares = view.lane_squares.iter_mut().zip(&self.event);
        squares.for_each(|(sum, &n)| *sum += u64::from(n) * u64::from(n));
        let mut span = number.map(|number| view.spans.at(number));
        if let Some(span) = &mut span {
            span.events += 1;
            span.numbers = both(span.numbers, number.map(|number| (number, number)));
            span.lanes.resize(self.event.len(), 0);
            span.counts.resize(N_COUNTS, 0);
            span.lanes.iter_mut().zip(&self.event).for_each(|(sum, &n)| *sum += u64::from(n));
            span.charge.resize(self.event.len(), 0);
            span.charge.iter_mut().zip(&self.event_charge).for_each(|(sum, &n)| *sum += n);
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
            if bank.kind != kind::UT_ERROR && !kind::is_daq_error(bank.kind) {
                continue;
            }
            // DAQ errors are of all detectors.
            if bank.kind != kind::UT_ERROR && !matches!(bank.source_id >> 11, 5 | 6) {
                continue;
            }
            *self.view.error_banks.entry((bank.kind, bank.source_id & 0xFFFF)).or_default() += 1;
            if let (Some(number), Some(board)) = (number, board_of(bank.source_id)) {
                *self.view.spans.at(number).error_banks.entry(board).or_default() += 1;
            }
        }
    }

    /// Adds a trouble of the event at `place` among all.
    pub fn add_trouble(&mut self, kind: Count, n: u32, board: Option<u32>, place: u64) {
        self.view.add_trouble(kind as usize, board, TroubleSum { count: u64::from(n), first: place });
    }

    /// Returns the view of all events that were added.
    pub fn finish(self) -> RunView {
        let Self { mut view, halves, strips, nth_hits, .. } = self;
        view.strips.iter_mut().zip(strips).for_each(|(sum, n)| *sum += u64::from(n));
        // A half with several entries counts once.
        let mut slots = vec![None; 2 * N_SECTORS];
        for (bits, half) in halves.iter().enumerate() {
            slots[2 * (half >> 16) as usize + bits % 2] = Some((half & 0xFFFF) as usize);
        }
        for (slot, strips) in slots.into_iter().zip(view.strips.chunks(STRIPS / 2)) {
            let hits: u64 = strips.iter().sum();
            if let Some(slot) = slot {
                view.lanes[slot] += hits;
            }
        }
        for (bins, nth) in view.lane_hits_of_layer.iter_mut().zip(nth_hits) {
            for (n, bin) in (1..).zip(&mut bins[1..]) {
                // Lanes with an n-th hit and no other; in the last bin also those with more.
                *bin += nth[n - 1] - if n < LANE_HITS - 1 { nth[n] } else { 0 };
            }
        }
        view
    }
}
