//! Adds decoded events to a view.

use super::bins::both;
use super::run::{
    ADCS, Against, BoardSum, CHARGES, CHIP, CLIPPED, CROSSINGS, LANE_HITS, N_CHIPS, OF_CROSSING,
    OdinState, RunView, SIZES, STRIPS, Span, Stretch, TroubleSum,
};
use super::stretch::Follower;
use ut_data::Cluster;
use ut_data::detector::{
    BoardAndLane, ChannelId, DetectorTables, LANES_PER_BOARD, N_LAYERS, N_SECTORS, layer_of,
};
use ut_data::hash;
use ut_data::input::{Format, Origin, RawEvent, kind};
use ut_data::{BatchReport, Count, EventReport, UtHits};
use ut_format::bank::board_of;
use ut_format::report::N_COUNTS;

/// Adds batches to a view.
#[derive(Debug)]
pub struct RunFiller {
    view: RunView,
    /// Sector (upper half of the word) and lane slot (lower) of half a sector, by bits 8–20 of a
    /// `ChannelID`.
    halves: Vec<u32>,
    layer_ends: [usize; N_LAYERS],
    /// Hits by strip that the view lacks, as bytes: half a million counters stay in the cache.
    strips: Vec<u8>,
    /// Hits by chip and ADC value that the view lacks.
    adc: Vec<u8>,
    layer_of_slot: Vec<usize>,
    /// Hits of the current event, by lane slot.
    event: Vec<u32>,
    /// Span of events without a number, which no one reads.
    unnumbered: Span,
    n_groups: usize,
    follower: Follower,
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
            lane.map_or(0, |lane| {
                u32::from(lane.board) * LANES_PER_BOARD as u32 + u32::from(lane.lane)
            })
        };
        let half = |bits: u32| {
            let sector = tables
                .sector_of(ChannelId(UT << 21 | bits << 8))
                .unwrap_or_default();
            u32::from(sector) << 16
                | slot(tables.places()[usize::from(sector)].lanes[bits as usize % 2])
        };
        Self {
            view: RunView::new(tables, against),
            halves: (0..HALVES as u32).map(half).collect(),
            layer_ends: std::array::from_fn(|layer| tables.groups_of_layer(layer).end),
            strips: vec![0; N_SECTORS * STRIPS],
            adc: vec![0; N_CHIPS * ADCS],
            layer_of_slot: tables
                .slots()
                .iter()
                .map(|slot| layer_of(usize::from(slot.sector)))
                .collect(),
            event: vec![0; tables.slots().len()],
            unnumbered: Span::default(),
            n_groups: tables.n_groups(),
            follower: Follower::new(tables.boards().version, tables.boards().n_boards()),
        }
    }

    /// Adds a batch that was decoded with the tables of this view. `at` returns an event's place on
    /// the axis of time, and its bunch crossing.
    pub fn add(
        &mut self,
        hits: &UtHits,
        report: &BatchReport,
        at: impl Fn(usize) -> (Option<u64>, Option<u16>),
    ) {
        let (ids, offsets) = (hits.id(), hits.offsets());
        for (e, counts) in report.events.iter().enumerate() {
            let (number, crossing) = at(e);
            let place = |filler: &mut Self| match number {
                Some(number) => std::mem::take(filler.view.spans.at(number)),
                None => std::mem::take(&mut filler.unnumbered),
            };
            let mut span = place(self);
            span.chips.resize(N_CHIPS, 0);
            span.charge.resize(N_CHIPS, 0);
            span.counts.resize(N_COUNTS, 0);
            let ends = &offsets[e * self.n_groups..=(e + 1) * self.n_groups];
            let mut of_layer = [0; N_LAYERS];
            let mut begin = ends[0] as usize;
            for layer in 0..N_LAYERS {
                let end = ends[self.layer_ends[layer]] as usize;
                of_layer[layer] = (end - begin) as u64;
                match hits.clusters() {
                    Some(clusters) => self.count_clusters(
                        layer,
                        &ids[begin..end],
                        &clusters[begin..end],
                        &mut span,
                    ),
                    None => ids[begin..end].iter().for_each(|&id| {
                        self.count_hit(id, &mut span);
                    }),
                }
                begin = end;
            }
            let all: u64 = of_layer.iter().sum();
            span.events += 1;
            span.numbers = both(span.numbers, number.map(|number| (number, number)));
            span.squares += all * all;
            for (sum, n) in span.counts.iter_mut().zip(&counts.counts) {
                *sum += u64::from(*n);
            }
            match number {
                Some(number) => *self.view.spans.at(number) = span,
                None => self.unnumbered = span,
            }
            if let Some(crossing) = crossing {
                self.view.crossings
                    [usize::from(crossing) % CROSSINGS * OF_CROSSING + OF_CROSSING - 1] += all;
            }
            self.end_event(of_layer, counts);
        }
    }

    /// Counts a hit, and returns its sector and chip.
    #[inline]
    fn count_hit(&mut self, id: u32, span: &mut Span) -> (usize, usize) {
        let half = self.halves[(id >> 8) as usize % HALVES];
        let (sector, slot) = ((half >> 16) as usize, (half & 0xFFFF) as usize);
        let strip = sector * STRIPS + id as usize % STRIPS;
        let count = &mut self.strips[strip];
        *count = count.wrapping_add(1);
        if *count == 0 {
            self.view.strips[strip] += 256;
        }
        self.event[slot] += 1;
        let of_chip = &mut span.chips[strip / CHIP];
        *of_chip = of_chip.saturating_add(1);
        (sector, strip / CHIP)
    }

    fn count_clusters(&mut self, layer: usize, ids: &[u32], clusters: &[Cluster], span: &mut Span) {
        self.view.clusters += ids.len() as u64;
        for (&id, cluster) in ids.iter().zip(clusters) {
            let (sector, chip) = self.count_hit(id, span);
            let (charge, n) = (u64::from(cluster.charge()), u64::from(cluster.n_strips()));
            span.charge[chip] = span.charge[chip].saturating_add(charge.min(CLIPPED) as u32);
            if n == 1 {
                let value = chip * ADCS + (charge as usize).min(ADCS - 1);
                let count = &mut self.adc[value];
                *count = count.wrapping_add(1);
                if *count == 0 {
                    self.view.adc[value] += 256;
                }
            }
            let view = &mut self.view;
            view.charge[sector] += charge;
            view.charge_squares[sector] += charge * charge;
            view.charge_of_layer[layer][(charge as usize).min(CHARGES - 1)] += 1;
            view.size_of_layer[layer][(n as usize).min(SIZES - 1)] += 1;
        }
    }

    fn end_event(&mut self, of_layer: [u64; N_LAYERS], counts: &EventReport) {
        let view = &mut self.view;
        view.events += 1;
        view.hits += of_layer.iter().sum::<u64>();
        for (slot, &n) in self.event.iter().enumerate().filter(|(_, n)| **n > 0) {
            let hits = u64::from(n);
            view.lanes[slot] += hits;
            view.lane_squares[slot] += hits * hits;
            view.lane_hits_of_layer[self.layer_of_slot[slot]][(n as usize).min(LANE_HITS - 1)] += 1;
        }
        self.event.fill(0);
        for (bins, n) in view
            .hits_of_event
            .iter_mut()
            .zip(of_layer.into_iter().chain([of_layer.iter().sum()]))
        {
            *bins.at(n) += 1;
        }
        for (i, &n) in counts.counts.iter().enumerate() {
            view.counts[i] += u64::from(n);
        }
    }

    /// Adds the banks and the ODIN bank of an event. `number` is the event's place on the axis of
    /// time.
    pub fn add_banks(&mut self, event: &RawEvent<'_>, origin: Origin, number: Option<u64>) {
        let view = &mut self.view;
        if let Some(run) = event.run {
            view.add_run(run, 1);
        }
        if let Some(of_event) = event.number {
            let hash = hash([u64::from(event.run.unwrap_or_default()), of_event]);
            view.add_to_sample(hash, of_event, 1);
        }
        match event.odin {
            Some(odin) => {
                let state = match (odin.numbers, odin.facts) {
                    (Some(_), Some(_)) => OdinState::Whole,
                    // The versions whose layout is known.
                    _ if matches!(odin.version, 6 | 7) => OdinState::Short,
                    _ => OdinState::Unknown,
                };
                *view.odin.entry((Some(odin.version), state)).or_default() += 1;
                if let Some(facts) = odin.facts.filter(|facts| facts.time.is_some()) {
                    let crossing = usize::from(facts.bcid) % CROSSINGS * OF_CROSSING;
                    view.crossings[crossing + facts.crossing as usize] += 1;
                }
            }
            // Dumps have only the banks of the UT.
            None if event.format == Format::AllenDump => {}
            None => *view.odin.entry((None, OdinState::None)).or_default() += 1,
        }
        self.follower.add(&mut self.view, event, origin, number);
        for bank in event.entries {
            if !kind::is_error(bank.kind, bank.source_id) {
                continue;
            }
            *self
                .view
                .error_banks
                .entry((bank.kind, bank.source_id & 0xFFFF))
                .or_default() += 1;
            self.view.add_to_board(
                board_of(bank.source_id),
                number,
                BoardSum {
                    errors: 1,
                    ..BoardSum::default()
                },
            );
            if let Some(number) = number {
                self.view.spans.at(number).error_banks += 1;
            }
        }
    }

    /// Returns the stretches of events since the last call, for [`RunView::add_stretch`] in the
    /// order of the events.
    pub fn take_stretches(&mut self) -> Vec<Stretch> {
        self.follower.take()
    }

    /// Adds a trouble of the event at `place` among all, and at `number` on the axis of time.
    pub fn add_trouble(
        &mut self,
        kind: Count,
        n: u32,
        board: Option<u32>,
        (place, number): (u64, Option<u64>),
    ) {
        self.view.add_trouble(
            kind as usize,
            board,
            TroubleSum {
                count: u64::from(n),
                first: place,
            },
        );
        self.view.add_to_board(
            board,
            number,
            BoardSum {
                troubles: u64::from(n),
                ..BoardSum::default()
            },
        );
    }

    /// Returns the view of all events that were added.
    pub fn finish(mut self) -> RunView {
        self.view
            .strips
            .iter_mut()
            .zip(self.strips)
            .for_each(|(sum, n)| *sum += u64::from(n));
        self.view
            .adc
            .iter_mut()
            .zip(self.adc)
            .for_each(|(sum, n)| *sum += u64::from(n));
        self.view
    }
}
