//! Sums over the hits of a run, of a fixed size whatever the number of events.
//!
//! Every thread fills a [`RunFiller`](super::RunFiller); the [`RunView`]s can be merged in any
//! order.

use std::collections::BTreeMap;
use std::ops::{AddAssign, Range};

use super::bins::{Bins, both};
use ut_data::detector::{DetectorTables, N_LAYERS, N_SECTORS, STRIPS_PER_SECTOR, Slot};
use ut_data::{Count, Kind};
use ut_format::report::N_COUNTS;

pub(super) const STRIPS: usize = STRIPS_PER_SECTOR as usize;

/// Number of strips that a chip reads.
pub const CHIP: usize = 128;

/// Number of chips of a sector.
pub const CHIPS_PER_SECTOR: usize = STRIPS / CHIP;

/// Number of chips of all sectors.
pub const N_CHIPS: usize = N_SECTORS * CHIPS_PER_SECTOR;

/// Maximum charge that a hit adds to the sums by bin: one large cluster must not decide the mean of
/// a few hundred hits.
pub const CLIPPED: u64 = 64;

/// ADC values of a strip.
pub const ADCS: usize = 32;

/// Bunch crossings that an ODIN bank can name.
pub const CROSSINGS: usize = 1 << 12;

/// Number of values for a bunch crossing: events by type of the crossing, and their hits.
pub const OF_CROSSING: usize = 5;

/// Maximum number of event numbers in the sample.
pub(super) const SAMPLE: usize = 1024;

/// Number of bins of the charge: ΣADC 0…254, and everything above in the last.
pub const CHARGES: usize = 256;

/// Number of bins of the cluster size: 0…62 strips, and everything above in the last.
pub const SIZES: usize = 64;

/// Number of bins of the hits that a lane has in an event, and everything above in the last.
pub const LANE_HITS: usize = 256;

/// Maximum number of runs that a view names.
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

/// Sums of the banks of a board.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BoardSum {
    /// Decoded banks.
    pub banks: u64,
    /// Number of bytes of their payloads.
    pub bytes: u64,
    /// Number of troubles of any kind.
    pub troubles: u64,
    /// UTError and DaqError banks.
    pub errors: u64,
    /// Number of banks with hits that repeat the bank of the previous event in the file.
    pub repeats: u64,
}

impl BoardSum {
    /// Returns all numbers.
    pub const fn numbers(&self) -> [u64; 5] {
        [
            self.banks,
            self.bytes,
            self.troubles,
            self.errors,
            self.repeats,
        ]
    }
}

impl AddAssign<&Self> for BoardSum {
    fn add_assign(&mut self, other: &Self) {
        self.banks += other.banks;
        self.bytes += other.bytes;
        self.troubles += other.troubles;
        self.errors += other.errors;
        self.repeats += other.repeats;
    }
}

/// Sums of consecutive events.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Span {
    /// Number of events.
    pub events: u64,
    /// Number of events with a bank of the UT.
    pub ut_events: u64,
    /// Least and greatest number of the events; `None` without events.
    pub numbers: Option<(u64, u64)>,
    /// Earliest and latest time of the events, microseconds since 1970; `None` where ODIN has none.
    pub times: Option<(u64, u64)>,
    /// Squares of the hits of an event, summed over events.
    pub squares: u64,
    /// Hits by chip, four per sector; empty without hits.
    pub chips: Vec<u32>,
    /// Charge of the hits whose cluster is known, ΣADC, of each `CLIPPED` at most, by chip; empty
    /// without hits.
    pub charge: Vec<u32>,
    /// Counts by `Count as usize`; empty without any.
    pub counts: Vec<u64>,
    /// UTError and DaqError banks of the UT.
    pub error_banks: u64,
    /// Banks by board; empty without any.
    pub boards: Vec<BoardSum>,
}

impl AddAssign<&Self> for Span {
    fn add_assign(&mut self, other: &Self) {
        self.events += other.events;
        self.ut_events += other.ut_events;
        self.numbers = both(self.numbers, other.numbers);
        self.times = both(self.times, other.times);
        self.squares += other.squares;
        add_small(&mut self.chips, &other.chips);
        add_small(&mut self.charge, &other.charge);
        add_all(&mut self.counts, &other.counts);
        self.error_banks += other.error_banks;
        add_boards(&mut self.boards, &other.boards);
    }
}

impl Span {
    /// Returns the number of hits.
    pub fn hits(&self) -> u64 {
        self.chips.iter().map(|&n| u64::from(n)).sum()
    }

    /// Returns the hits of some chips.
    pub fn hits_of(&self, chips: &Range<usize>) -> u64 {
        self.chips
            .get(chips.clone())
            .map_or(0, |chips| chips.iter().map(|&n| u64::from(n)).sum())
    }

    /// Returns the charge of the hits of some chips.
    pub fn charge_of(&self, chips: &Range<usize>) -> u64 {
        self.charge
            .get(chips.clone())
            .map_or(0, |chips| chips.iter().map(|&n| u64::from(n)).sum())
    }

    /// Returns a count.
    pub fn count(&self, count: Count) -> u64 {
        self.counts.get(count as usize).copied().unwrap_or_default()
    }

    /// Returns the sums of a board.
    pub fn board(&self, board: usize) -> BoardSum {
        self.boards.get(board).copied().unwrap_or_default()
    }
}

/// Returns the chips that each lane reads, by lane slot; none where nothing is connected.
pub fn chips_of_lanes(tables: &DetectorTables) -> Vec<Range<usize>> {
    let mut lanes_of = vec![0; N_SECTORS];
    for (_, slot) in tables.connected() {
        lanes_of[usize::from(slot.sector)] += 1;
    }
    let chips = |slot: &Slot| {
        let first = usize::from(slot.sector) * CHIPS_PER_SECTOR;
        match lanes_of[usize::from(slot.sector)] {
            _ if slot.chan_id == 0 => 0..0,
            1 => first..first + CHIPS_PER_SECTOR,
            _ if slot.chan_id >> 8 & 1 == 0 => first..first + CHIPS_PER_SECTOR / 2,
            _ => first + CHIPS_PER_SECTOR / 2..first + CHIPS_PER_SECTOR,
        }
    };
    tables.slots().iter().map(chips).collect()
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

/// Events of a file one after the other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Stretch {
    /// Hash of the name of the file.
    pub file: u64,
    /// First and last event of the file.
    pub events: (u64, u64),
    /// Number of the first event on the axis of time.
    pub number: Option<u64>,
    /// Run of the first and of the last event.
    pub runs: (Option<u32>, Option<u32>),
    /// Hashes of the first event's banks by board; 0: too few hits.
    pub head: Vec<u32>,
    /// Hashes of the last event's banks.
    pub tail: Vec<u32>,
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
    /// Number of hits whose cluster is known, of v5 banks, to which the next four fields refer.
    pub clusters: u64,
    /// Charge, ΣADC, by sector.
    pub charge: Vec<u64>,
    /// Squares of the charge, by sector.
    pub charge_squares: Vec<u64>,
    /// Hits of one strip by chip and ADC value, [`ADCS`] a chip.
    pub adc: Vec<u64>,
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
    /// Number of events by run number, for the 64 lowest run numbers.
    #[serde(with = "pairs")]
    pub runs: BTreeMap<u32, u64>,
    /// Number of events with a bank of the UT.
    pub ut_events: u64,
    /// Banks by board.
    pub boards: Vec<BoardSum>,
    /// Numbers of each bunch crossing, [`OF_CROSSING`] a crossing.
    pub crossings: Vec<u64>,
    /// Events by the version of their ODIN bank, `None` without one, and by [`OdinState`].
    #[serde(with = "pairs")]
    pub odin: BTreeMap<(Option<u8>, OdinState), u64>,
    /// Event numbers with how often each came, by a hash of run and number: the least `SAMPLE`.
    #[serde(with = "pairs")]
    pub sample: BTreeMap<u64, (u64, u64)>,
    /// Events of a file one after the other, with the ends that others can be joined to.
    pub stretches: Vec<Stretch>,
    /// Number of events of another run than the previous event in the file.
    pub run_changes: u64,
}

/// State of an event's ODIN bank.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum OdinState {
    /// All of it is there.
    Whole,
    /// The bank is too short.
    Short,
    /// The layout is not known.
    Unknown,
    /// There is none.
    None,
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
            adc: vec![0; N_CHIPS * ADCS],
            charge_of_layer: [(); N_LAYERS].map(|()| vec![0; CHARGES]),
            size_of_layer: [(); N_LAYERS].map(|()| vec![0; SIZES]),
            lane_hits_of_layer: [(); N_LAYERS].map(|()| vec![0; LANE_HITS]),
            hits_of_event: Default::default(),
            against,
            spans: Bins::default(),
            troubles: BTreeMap::new(),
            error_banks: BTreeMap::new(),
            runs: BTreeMap::new(),
            ut_events: 0,
            boards: vec![BoardSum::default(); tables.boards().n_boards()],
            crossings: vec![0; CROSSINGS * OF_CROSSING],
            odin: BTreeMap::new(),
            sample: BTreeMap::new(),
            stretches: Vec::new(),
            run_changes: 0,
        }
    }

    /// Adds the events of another view of the same detector. Both have the same axis, unless one
    /// has no events. Associative and commutative.
    pub fn merge(&mut self, other: &Self) {
        if self.events == 0 {
            self.against = other.against;
        }
        self.events += other.events;
        self.hits += other.hits;
        self.clusters += other.clusters;
        self.with_lists_of(other, add_all);
        self.hits_of_event
            .iter_mut()
            .zip(&other.hits_of_event)
            .for_each(|(mine, theirs)| mine.merge(theirs));
        self.spans.merge(&other.spans);
        for (&(kind, board), trouble) in &other.troubles {
            self.add_trouble(kind, board, *trouble);
        }
        for (key, n) in &other.error_banks {
            *self.error_banks.entry(*key).or_default() += n;
        }
        other
            .runs
            .iter()
            .for_each(|(&run, &n)| self.add_run(run, n));
        self.ut_events += other.ut_events;
        add_boards(&mut self.boards, &other.boards);
        other
            .odin
            .iter()
            .for_each(|(key, n)| *self.odin.entry(*key).or_default() += n);
        other
            .sample
            .iter()
            .for_each(|(&hash, &(number, n))| self.add_to_sample(hash, number, n));
        self.run_changes += other.run_changes;
        other
            .stretches
            .iter()
            .for_each(|stretch| self.add_stretch(stretch.clone()));
    }

    /// Calls `f` with each list of a fixed length of this view and the same list of another view.
    pub(super) fn with_lists_of(&mut self, other: &Self, mut f: impl FnMut(&mut Vec<u64>, &[u64])) {
        for (mine, theirs) in [
            (&mut self.counts, &other.counts),
            (&mut self.strips, &other.strips),
            (&mut self.lanes, &other.lanes),
            (&mut self.lane_squares, &other.lane_squares),
            (&mut self.charge, &other.charge),
            (&mut self.charge_squares, &other.charge_squares),
            (&mut self.adc, &other.adc),
            (&mut self.crossings, &other.crossings),
        ] {
            f(mine, theirs);
        }
        for (mine, theirs) in [
            (&mut self.charge_of_layer, &other.charge_of_layer),
            (&mut self.size_of_layer, &other.size_of_layer),
            (&mut self.lane_hits_of_layer, &other.lane_hits_of_layer),
        ] {
            mine.iter_mut()
                .zip(theirs)
                .for_each(|(mine, theirs)| f(mine, theirs));
        }
    }

    pub(super) fn add_trouble(&mut self, kind: usize, board: Option<u32>, new: TroubleSum) {
        let sum = self
            .troubles
            .entry((kind, board))
            .or_insert(TroubleSum { count: 0, ..new });
        sum.count += new.count;
        sum.first = sum.first.min(new.first);
    }

    pub(super) fn add_to_board(&mut self, board: Option<u32>, number: Option<u64>, more: BoardSum) {
        let n = self.boards.len();
        let Some(board) = board.map(|board| board as usize).filter(|&board| board < n) else {
            return;
        };
        self.boards[board] += &more;
        if let Some(number) = number {
            let of_span = &mut self.spans.at(number).boards;
            of_span.resize(n, BoardSum::default());
            of_span[board] += &more;
        }
    }

    pub(super) fn add_run(&mut self, run: u32, events: u64) {
        *self.runs.entry(run).or_default() += events;
        if self.runs.len() > NAMED_RUNS {
            self.runs.pop_last();
        }
    }

    /// Counts an event number `n` times, if its hash is among the smallest. A number that leaves
    /// the sample never comes back, so that the counts of the others are exact.
    pub(super) fn add_to_sample(&mut self, hash: u64, number: u64, n: u64) {
        if self.sample.len() >= SAMPLE
            && self
                .sample
                .last_key_value()
                .is_some_and(|(last, _)| hash > *last)
        {
            return;
        }
        self.sample.entry(hash).or_insert((number, 0)).1 += n;
        if self.sample.len() > SAMPLE {
            self.sample.pop_last();
        }
    }

    /// Returns the least and the greatest number of the events on the axis of time.
    pub fn numbers(&self) -> Option<(u64, u64)> {
        self.spans
            .iter()
            .fold(None, |all, (_, span)| both(all, span.numbers))
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
        Count::ALL
            .into_iter()
            .filter(|count| count.kind() == Kind::Trouble)
            .map(|count| self.count(count))
            .sum()
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
    sums.iter_mut()
        .zip(more)
        .for_each(|(sum, more)| *sum += more);
}

fn add_boards(sums: &mut Vec<BoardSum>, more: &[BoardSum]) {
    if sums.len() < more.len() {
        sums.resize(more.len(), BoardSum::default());
    }
    sums.iter_mut()
        .zip(more)
        .for_each(|(sum, more)| *sum += more);
}

/// Adds number by number, up to the greatest; missing ones are 0.
fn add_small(sums: &mut Vec<u32>, more: &[u32]) {
    if sums.len() < more.len() {
        sums.resize(more.len(), 0);
    }
    sums.iter_mut()
        .zip(more)
        .for_each(|(sum, more)| *sum = sum.saturating_add(*more));
}
