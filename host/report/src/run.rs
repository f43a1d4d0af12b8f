//! Sums over the hits of a run, of a fixed size whatever the number of events.
//!
//! Every thread fills a [`RunFiller`](super::RunFiller); the [`RunView`]s can be merged in any order.

use std::collections::BTreeMap;

use super::bins::{Bins, Content};
use super::sums::both;
use ut_data::detector::{DetectorTables, LANES_PER_BOARD, N_LAYERS, N_SECTORS, STRIPS_PER_SECTOR};
use ut_data::{Count, Kind};
use ut_kernels::report::N_COUNTS;

pub(super) const STRIPS: usize = STRIPS_PER_SECTOR as usize;

/// Bins of the charge: ΣADC 0…254, and everything above in the last.
pub const CHARGES: usize = 256;

/// Bins of the cluster size: 0…62 strips, and everything above in the last.
pub const SIZES: usize = 64;

/// Bins of the hits that a lane has in an event, and everything above in the last.
pub const LANE_HITS: usize = 256;

const NAMED_RUNS: usize = 64;

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
    /// UTError and DaqError banks of the UT, by board.
    pub error_banks: BTreeMap<u32, u64>,
}

impl Content for Span {
    fn merge(&mut self, other: &Self) {
        add(&mut self.events, other.events);
        self.numbers = both(self.numbers, other.numbers);
        add_all(&mut self.lanes, &other.lanes);
        add_all(&mut self.charge, &other.charge);
        add_all(&mut self.counts, &other.counts);
        for (&board, n) in &other.error_banks {
            add(self.error_banks.entry(board).or_default(), *n);
        }
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
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TroubleSum {
    /// Kind as `Count as usize`.
    pub kind: usize,
    /// Board; `None` where none is known.
    pub board: Option<u32>,
    /// Number of troubles.
    pub count: u64,
    /// Place of the first event with such a trouble, among all events.
    pub first: u64,
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
    /// Events in which a count is not 0, by `Count as usize`.
    pub events_with: Vec<u64>,
    /// Hits by sector and strip, 512 a sector.
    pub strips: Vec<u64>,
    /// Hits by lane slot.
    pub lanes: Vec<u64>,
    /// Squares of the hits of an event, summed over events, by lane slot.
    pub lane_squares: Vec<u64>,
    /// Hits whose cluster is known, of v5 banks, to which the next six fields refer.
    pub clusters: u64,
    /// Charge, ΣADC, by sector.
    pub charge: Vec<u64>,
    /// Squares of the charge, by sector.
    pub charge_squares: Vec<u64>,
    /// Strips of the clusters, by sector.
    pub sizes: Vec<u64>,
    /// Hits by layer and charge, in [`CHARGES`] bins.
    pub charge_of_layer: Vec<Vec<u64>>,
    /// Hits by layer and strips of the cluster, in [`SIZES`] bins.
    pub size_of_layer: Vec<Vec<u64>>,
    /// Lanes in events by layer and their hits, from 1 on, in [`LANE_HITS`] bins.
    pub lane_hits_of_layer: Vec<Vec<u64>>,
    /// Events by their hits, by layer, and last over all.
    pub hits_of_event: Vec<Bins<u64>>,
    /// Axis of `spans`: number or place of the events.
    pub against: Against,
    /// Events with a number, in bins.
    pub spans: Bins<Span>,
    /// Troubles by kind and board.
    pub troubles: Vec<TroubleSum>,
    /// Numbers of UTError and DaqError banks, with type and sourceID.
    pub error_banks: Vec<(u8, u32, u64)>,
    /// Run numbers, the least 64 of them.
    pub runs: Vec<u32>,
}

/// Error of views of different lanes, or against different numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these views have different lanes, or bins over different numbers of the events")]
pub struct MergeError;

impl RunView {
    /// Makes a view without events.
    pub fn new(tables: &DetectorTables, against: Against) -> Self {
        let lanes = tables.slots().len();
        Self {
            events: 0,
            hits: 0,
            counts: vec![0; N_COUNTS],
            events_with: vec![0; N_COUNTS],
            strips: vec![0; N_SECTORS * STRIPS],
            lanes: vec![0; lanes],
            lane_squares: vec![0; lanes],
            clusters: 0,
            charge: vec![0; N_SECTORS],
            charge_squares: vec![0; N_SECTORS],
            sizes: vec![0; N_SECTORS],
            charge_of_layer: vec![vec![0; CHARGES]; N_LAYERS],
            size_of_layer: vec![vec![0; SIZES]; N_LAYERS],
            lane_hits_of_layer: vec![vec![0; LANE_HITS]; N_LAYERS],
            hits_of_event: vec![Bins::default(); N_LAYERS + 1],
            against,
            spans: Bins::default(),
            troubles: Vec::new(),
            error_banks: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Adds the events of another view with as many lanes and the same axis. Associative and commutative.
    pub fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        if self.lanes.len() != other.lanes.len() || self.against != other.against {
            return Err(MergeError);
        }
        add(&mut self.events, other.events);
        add(&mut self.hits, other.hits);
        add(&mut self.clusters, other.clusters);
        add_all(&mut self.counts, &other.counts);
        add_all(&mut self.events_with, &other.events_with);
        add_all(&mut self.strips, &other.strips);
        add_all(&mut self.lanes, &other.lanes);
        add_all(&mut self.lane_squares, &other.lane_squares);
        add_all(&mut self.charge, &other.charge);
        add_all(&mut self.charge_squares, &other.charge_squares);
        add_all(&mut self.sizes, &other.sizes);
        for (mine, theirs) in [
            (&mut self.charge_of_layer, &other.charge_of_layer),
            (&mut self.size_of_layer, &other.size_of_layer),
            (&mut self.lane_hits_of_layer, &other.lane_hits_of_layer),
        ] {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| add_all(mine, theirs));
        }
        self.hits_of_event.iter_mut().zip(&other.hits_of_event).for_each(|(mine, theirs)| mine.merge(theirs));
        self.spans.merge(&other.spans);
        merge_sums(
            &mut self.troubles,
            &other.troubles,
            |trouble| (trouble.kind, trouble.board),
            |sum, more| {
                add(&mut sum.count, more.count);
                sum.first = sum.first.min(more.first);
            },
        );
        merge_sums(
            &mut self.error_banks,
            &other.error_banks,
            |bank| (bank.0, bank.1),
            |sum, more| add(&mut sum.2, more.2),
        );
        other.runs.iter().for_each(|&run| self.add_run(run));
        Ok(())
    }

    pub(super) fn add_trouble(&mut self, new: &TroubleSum) {
        let key = |trouble: &TroubleSum| (trouble.kind, trouble.board);
        match self.troubles.binary_search_by_key(&key(new), key) {
            Ok(at) => {
                let sum = &mut self.troubles[at];
                add(&mut sum.count, new.count);
                sum.first = sum.first.min(new.first);
            }
            Err(at) => self.troubles.insert(at, new.clone()),
        }
    }

    pub(super) fn add_error_bank(&mut self, kind: u8, source: u32, n: u64) {
        match self.error_banks.binary_search_by_key(&(kind, source), |&(kind, source, _)| (kind, source)) {
            Ok(at) => add(&mut self.error_banks[at].2, n),
            Err(at) => self.error_banks.insert(at, (kind, source, n)),
        }
    }

    pub(super) fn add_run(&mut self, run: u32) {
        if let Err(at) = self.runs.binary_search(&run)
            && at < NAMED_RUNS
        {
            self.runs.insert(at, run);
            self.runs.truncate(NAMED_RUNS);
        }
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

/// Adds to a sum, which saturates: views of files may hold any number.
fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// Merges sums that are in the order of their keys. Inserting one by one would take minutes for the longest of files.
fn merge_sums<T: Clone, K: Ord>(sums: &mut Vec<T>, more: &[T], key: fn(&T) -> K, add: fn(&mut T, &T)) {
    sums.extend_from_slice(more);
    sums.sort_by_key(key);
    sums.dedup_by(|next, sum| {
        let is_same = key(next) == key(sum);
        if is_same {
            add(sum, next);
        }
        is_same
    });
}

/// Adds number by number; missing ones are 0.
fn add_all(sums: &mut Vec<u64>, more: &[u64]) {
    if sums.len() < more.len() {
        sums.resize(more.len(), 0);
    }
    sums.iter_mut().zip(more).for_each(|(sum, more)| add(sum, *more));
}

#[cfg(test)]
mod tests {
    use super::{Against, RunView, TroubleSum};
    use ut_data::detector::BankVersion;
    use ut_data::{DetectorTables, Grouping, synth};

    #[test]
    fn long_lists_of_troubles_and_error_banks_are_merged_in_order() {
        const N: u32 = 300_000;
        let (boards, geometry) = synth::detector(BankVersion::V5, 1);
        let tables = DetectorTables::new(boards, geometry, Grouping::YRows).unwrap();
        // The odd boards, with one that both have, before the even ones.
        let view = |first: u32| {
            let mut view = RunView::new(&tables, Against::Number);
            let boards = || std::iter::once(0).chain((0..N).map(|i| 2 * i + first));
            let trouble = |board| TroubleSum { kind: 1, board: Some(board), count: 3, first: u64::from(first) };
            view.troubles = boards().map(trouble).collect();
            view.error_banks = boards().map(|board| (68, board, 3)).collect();
            view
        };
        let (mut odd, even) = (view(1), view(2));
        // One by one, so many sums would take minutes.
        odd.merge(&even).unwrap();
        let expected = |board: u32| if board == 0 { 6 } else { 3 };
        assert_eq!((odd.troubles.len(), odd.error_banks.len()), (2 * N as usize + 1, 2 * N as usize + 1));
        for (board, (trouble, bank)) in (0..).zip(odd.troubles.iter().zip(&odd.error_banks)) {
            let first = if board == 0 { 1 } else { 2 - u64::from(board % 2) };
            assert_eq!(*trouble, TroubleSum { kind: 1, board: Some(board), count: expected(board), first });
            assert_eq!(*bank, (68, board, expected(board)));
        }
    }
}
