//! Sums over the hits of a run, of a fixed size whatever the number of events.
//!
//! Every thread fills a [`RunFiller`](super::RunFiller); the [`RunView`]s can be merged in any order.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;

use super::bins::Bins;
use super::sums::both;
use ut_data::detector::{DetectorTables, LANES_PER_BOARD, N_LAYERS, N_SECTORS, STRIPS_PER_SECTOR};
use ut_data::{Count, Kind};
use ut_format::report::N_COUNTS;

pub(super) const STRIPS: usize = STRIPS_PER_SECTOR as usize;

/// Bins of the charge: ΣADC 0…254, and everything above in the last.
pub const CHARGES: usize = 256;

/// Bins of the cluster size: 0…62 strips, and everything above in the last.
pub const SIZES: usize = 64;

/// Bins of the hits that a lane has in an event, and everything above in the last.
pub const LANE_HITS: usize = 256;

/// Most runs that a view names.
pub(super) const NAMED_RUNS: usize = 64;

/// Number of an event that bins over events are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Against {
    /// The event number; events without one are left out of the bins.
    #[default]
    Number,
    /// The event's place among all that were read.
    Place,
}

/// Sums of consecutive events.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Span {
    /// Number of events.
    pub events: u64,
    /// Least and greatest number of the events; `None` without events.
    pub numbers: Option<(u64, u64)>,
    /// Hits by lane slot; empty without hits.
    pub lanes: Vec<u64>,
    /// Charge of the hits whose cluster is known, ΣADC, by lane slot; empty without hits.
    pub charge: Vec<u64>,
    /// Counts by `Count as usize`; empty without any.
    pub counts: Vec<u64>,
    /// UTError and DaqError banks of the UT.
    pub error_banks: u64,
}

impl AddAssign<&Self> for Span {
    fn add_assign(&mut self, other: &Self) {
        self.events += other.events;
        self.numbers = both(self.numbers, other.numbers);
        add_all(&mut self.lanes, &other.lanes);
        add_all(&mut self.charge, &other.charge);
        add_all(&mut self.counts, &other.counts);
        self.error_banks += other.error_banks;
    }
}

impl Span {
    /// Returns the hits of a board.
    pub fn hits_of_board(&self, board: usize) -> u64 {
        self.lanes.iter().skip(board * LANES_PER_BOARD).take(LANES_PER_BOARD).sum()
    }

    /// Returns a count.
    pub fn count(&self, count: Count) -> u64 {
        self.counts.get(count as usize).copied().unwrap_or_default()
    }
}

/// Troubles of one kind and board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TroubleSum {
    /// Number of troubles.
    pub count: u64,
    /// Place of the first event with such a trouble, among all events.
    pub first: u64,
}

/// Maps as lists of pairs, because keys in JSON are strings.
pub mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the pairs of a map.
    pub fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(map)
    }

    /// Reads the pairs of a map.
    pub fn deserialize<'de, K, V, D>(from: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::deserialize(from)?.into_iter().collect())
    }
}

/// Sums over the events of a run.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RunView {
    /// Number of events.
    pub events: u64,
    /// Number of hits.
    pub hits: u64,
    /// Sums of the counts by `Count as usize`.
    pub counts: Vec<u64>,
    /// Hits by sector and strip, 512 a sector.
    pub strips: Vec<u64>,
    /// Hits by lane slot.
    pub lanes: Vec<u64>,
    /// Squares of the hits of an event, summed over events, by lane slot.
    pub lane_squares: Vec<u64>,
    /// Hits whose cluster is known, of v5 banks, to which the next four fields refer.
    pub clusters: u64,
    /// Charge, ΣADC, by sector.
    pub charge: Vec<u64>,
    /// Squares of the charge, by sector.
    pub charge_squares: Vec<u64>,
    /// Hits by layer and charge, in [`CHARGES`] bins.
    pub charge_of_layer: [Vec<u64>; N_LAYERS],
    /// Hits by layer and strips of the cluster, in [`SIZES`] bins.
    pub size_of_layer: [Vec<u64>; N_LAYERS],
    /// Lanes in events by layer and their hits, from 1 on, in [`LANE_HITS`] bins.
    pub lane_hits_of_layer: [Vec<u64>; N_LAYERS],
    /// Events by their hits, by layer, and last over all.
    pub hits_of_event: [Bins<u64>; N_LAYERS + 1],
    /// Axis of `spans`: number or place of the events.
    pub against: Against,
    /// Events with a number, in bins.
    pub spans: Bins<Span>,
    /// Troubles by kind, as `Count as usize`, and board; `None` where none is known.
    #[serde(with = "pairs")]
    pub troubles: BTreeMap<(usize, Option<u32>), TroubleSum>,
    /// Numbers of UTError and DaqError banks, by type and sourceID.
    #[serde(with = "pairs")]
    pub error_banks: BTreeMap<(u8, u32), u64>,
    /// Run numbers, the least 64 of them.
    pub runs: BTreeSet<u32>,
}

impl RunView {
    /// Makes a view without events.
    pub fn new(tables: &DetectorTables, against: Against) -> Self {
        let lanes = tables.slots().len();
        Self {
            events: 0,
            hits: 0,
            counts: vec![0; N_COUNTS],
            strips: vec![0; N_SECTORS * STRIPS],
            lanes: vec![0; lanes],
            lane_squares: vec![0; lanes],
            clusters: 0,
            charge: vec![0; N_SECTORS],
            charge_squares: vec![0; N_SECTORS],
            charge_of_layer: [(); N_LAYERS].map(|()| vec![0; CHARGES]),
            size_of_layer: [(); N_LAYERS].map(|()| vec![0; SIZES]),
            lane_hits_of_layer: [(); N_LAYERS].map(|()| vec![0; LANE_HITS]),
            hits_of_event: Default::default(),
            against,
            spans: Bins::default(),
            troubles: BTreeMap::new(),
            error_banks: BTreeMap::new(),
            runs: BTreeSet::new(),
        }
    }

    /// Adds the events of another view of the same detector. Both have the same axis, unless one has no events.
    /// Associative and commutative.
    pub fn merge(&mut self, other: &Self) {
        if self.events == 0 {
            self.against = other.against;
        }
        self.events += other.events;
        self.hits += other.hits;
        self.clusters += other.clusters;
        self.with_lists_of(other, add_all);
        self.hits_of_event.iter_mut().zip(&other.hits_of_event).for_each(|(mine, theirs)| mine.merge(theirs));
        self.spans.merge(&other.spans);
        for (&(kind, board), trouble) in &other.troubles {
            self.add_trouble(kind, board, *trouble);
        }
        for (key, n) in &other.error_banks {
            *self.error_banks.entry(*key).or_default() += n;
        }
        other.runs.iter().for_each(|&run| self.add_run(run));
    }

    /// Calls `f` with each list of a fixed length of this view, and that of another.
    pub(super) fn with_lists_of(&mut self, other: &Self, mut f: impl FnMut(&mut Vec<u64>, &[u64])) {
        for (mine, theirs) in [
            (&mut self.counts, &other.counts),
            (&mut self.strips, &other.strips),
            (&mut self.lanes, &other.lanes),
            (&mut self.lane_squares, &other.lane_squares),
            (&mut self.charge, &other.charge),
            (&mut self.charge_squares, &other.charge_squares),
        ] {
            f(mine, theirs);
        }
        for (mine, theirs) in [
            (&mut self.charge_of_layer, &other.charge_of_layer),
            (&mut self.size_of_layer, &other.size_of_layer),
            (&mut self.lane_hits_of_layer, &other.lane_hits_of_layer),
        ] {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| f(mine, theirs));
        }
    }

    pub(super) fn add_trouble(&mut self, kind: usize, board: Option<u32>, new: TroubleSum) {
        let sum = self.troubles.entry((kind, board)).or_insert(TroubleSum { count: 0, ..new });
        sum.count += new.count;
        sum.first = sum.first.min(new.first);
    }

    pub(super) fn add_run(&mut self, run: u32) {
        self.runs.insert(run);
        if self.runs.len() > NAMED_RUNS {
            self.runs.pop_last();
        }
    }

    /// Returns the least and the greatest number of the events on the axis of time.
    pub fn numbers(&self) -> Option<(u64, u64)> {
        self.spans.iter().fold(None, |all, (_, span)| both(all, span.numbers))
    }

    /// Returns the hits of a sector.
    pub fn hits_of_sector(&self, sector: usize) -> u64 {
        self.strips_of(sector).iter().sum()
    }

    /// Returns the hits of a sector by strip.
    pub fn strips_of(&self, sector: usize) -> &[u64] {
        &self.strips[sector * STRIPS..(sector + 1) * STRIPS]
    }

    /// Returns the number of all troubles.
    pub fn count_of_troubles(&self) -> u64 {
        Count::ALL.into_iter().filter(|count| count.kind() == Kind::Trouble).map(|count| self.count(count)).sum()
    }

    /// Returns the sum of a count over all events.
    pub fn count(&self, count: Count) -> u64 {
        self.counts[count as usize]
    }
}

/// Adds number by number; missing ones are 0.
fn add_all(sums: &mut Vec<u64>, more: &[u64]) {
    if sums.len() < more.len() {
        sums.resize(more.len(), 0);
    }
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}
