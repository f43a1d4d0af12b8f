//! Outliers: the kinds of faults, the parts of the detector that have them,
//! and one fault with its numbers. [`outliers`](super::outliers) and the modules that it calls find
//! them.

use std::ops::Range;

use ut_data::detector::{DetectorTables, LANES_PER_BOARD};

use super::when::When;

/// A lane below this share of its expectation is dead; so is a chip, strip or board.
///
/// Not 0: strips that fire without a particle go on doing so when the part behind them is dead.
pub const DEAD: f64 = 0.1;

/// A lane below this share of its expectation is quiet.
///
/// The expectation comes from the neighbours, which differ a little for harmless reasons:
/// their position, their overlap, the gradient of the occupancy. A deficit of 30 % leaves room for
/// these.
pub const QUIET: f64 = 0.7;

/// A lane above this many times its expectation is hot.
///
/// The limit lies farther away than the limit of quiet lanes: showers add hits and nothing removes
/// them, so that an excess is less remarkable than a deficit.
pub const HOT: f64 = 1.5;

/// Minimum deviation from the expectation, in standard deviations.
///
/// Thousands of lanes and chips are tested, each in several ways. At six standard deviations (2 in
/// 10⁹), normal noise gives a false outlier in less than one run of ten thousand. Real
/// distributions have longer tails, which use up this margin.
pub const SIGMAS: f64 = 6.0;

/// Minimum hits of a hot strip.
pub const STRIP_HITS: u64 = 10;

/// Minimum hits of a hot strip, in units of the mean of its lane's other strips.
///
/// Particles cannot light one strip ten times as often as the strips next to it. Electronics can.
pub const STRIP_FACTOR: f64 = 10.0;

/// Minimum number of expected hits of a board or lane in a bin of events to be judged there.
///
/// To have fewer than a tenth of 50 hits ([`DEAD`]) is 45 / √50, more than six standard deviations
/// ([`SIGMAS`]).
pub const SILENT_EXPECTED: f64 = 50.0;

/// A lane above this many times its usual hits, for some of the events, is noisy.
pub const NOISY: f64 = 1.5;

/// A part whose mean charge is below this share of its neighbours' has a low charge.
pub const LOW_CHARGE: f64 = 0.7;

/// A part whose mean charge is above this many times its neighbours' has a high charge.
pub const HIGH_CHARGE: f64 = 1.3;

/// Logarithm of the likelihood ratio above which the hits of a strip or chip are not chance.
pub const NO_CHANCE: f64 = 22.0;

/// Minimum number of events to judge lanes, chips and strips: fewer do not show how much a lane
/// varies.
pub const LEAST_EVENTS: u64 = 20;

/// Way in which something stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutlierKind {
    /// ODIN banks are missing, too short or of an unknown version.
    Odin,
    /// Events of several runs in one file.
    Runs,
    /// Events whose number came before.
    Numbers,
    /// Bunch crossings that the LHC does not have, or of a type that they do not have.
    Crossings,
    /// Banks with troubles of the policy.
    Troubles,
    /// UTError and DaqError banks.
    Errors,
    /// Banks that are not there.
    Missing,
    /// Banks that repeat the previous event's banks.
    Repeated,
    /// Hits per event of the whole detector that change.
    Rate,
    /// Mean charge of the whole detector that changes.
    Gain,
    /// No hits, or nearly so.
    Dead,
    /// No hits in some of the events.
    Silent,
    /// Two lanes of which each has the hits expected of the other.
    Swapped,
    /// Far fewer hits than expected.
    Quiet,
    /// Far more hits than expected.
    Hot,
    /// More hits than usual in some of the events.
    Noisy,
    /// Hits with far less charge than hits of the neighbours.
    LowCharge,
    /// Hits with far more charge than hits of the neighbours.
    HighCharge,
    /// Hits whose distribution of charges differs from the neighbours'.
    Shape,
}

impl OutlierKind {
    /// Kinds with their names, in the order of lists.
    pub const ALL: [(Self, &str); 19] = [
        (Self::Odin, "ODIN"),
        (Self::Runs, "mixed runs"),
        (Self::Numbers, "repeated event numbers"),
        (Self::Crossings, "wrong bunch crossings"),
        (Self::Troubles, "troubles"),
        (Self::Errors, "error banks"),
        (Self::Missing, "missing banks"),
        (Self::Repeated, "repeated banks"),
        (Self::Rate, "hits per event"),
        (Self::Gain, "mean charge"),
        (Self::Dead, "dead"),
        (Self::Silent, "silent"),
        (Self::Swapped, "swapped"),
        (Self::Quiet, "quiet"),
        (Self::Hot, "hot"),
        (Self::Noisy, "noisy"),
        (Self::LowCharge, "low-charge"),
        (Self::HighCharge, "high-charge"),
        (Self::Shape, "odd-charge"),
    ];

    /// Returns true if the kind says by itself what it is of.
    const fn is_whole(self) -> bool {
        (self as usize) < Self::Dead as usize
    }

    /// Returns true if the numbers are mean charges.
    pub const fn is_of_charge(self) -> bool {
        matches!(
            self,
            Self::Gain | Self::LowCharge | Self::HighCharge | Self::Shape
        )
    }
}

/// Part of the detector that stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The run.
    Run,
    /// Lanes of several boards, or some of one board.
    Lanes,
    /// A board.
    Board,
    /// A sector that two lanes read.
    Sector,
    /// A lane.
    Lane,
    /// A chip, 128 strips.
    Chip,
    /// Neighbouring strips.
    Strip,
}

/// Something that stands out: one cause.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlier {
    /// Kind of fault.
    pub kind: OutlierKind,
    /// Part that fails.
    pub part: Part,
    /// Board number, if the part is of one.
    pub board: Option<usize>,
    /// Lane, 0…5, if the part is of one.
    pub lane: Option<usize>,
    /// Sector id; `None` if the part is not of a single sector.
    pub sector: Option<usize>,
    /// First and last strip of the sector, of strips and chips.
    pub strips: Option<(usize, usize)>,
    /// Lane slots of a board, a sector or lanes; empty for single ones.
    pub slots: Vec<usize>,
    /// Number that was seen: hits, mean ΣADC of a hit, or banks and events of a fault.
    pub seen: f64,
    /// Expected value of `seen`; not a number if nothing is expected.
    pub expected: f64,
    /// Difference of the two in standard deviations; infinite if chance cannot cause it.
    pub sigmas: f64,
    /// Events of the fault.
    pub when: When,
    /// Details in words, after the description.
    pub detail: String,
}

impl Outlier {
    /// Makes an outlier of which nothing more is known.
    pub const fn new(kind: OutlierKind, part: Part) -> Self {
        Self {
            kind,
            part,
            board: None,
            lane: None,
            sector: None,
            strips: None,
            slots: Vec::new(),
            seen: 0.0,
            expected: f64::NAN,
            sigmas: f64::INFINITY,
            when: When::Unknown,
            detail: String::new(),
        }
    }

    /// Makes the outlier of a whole lane for the whole run.
    pub fn of_lane(
        kind: OutlierKind,
        slot: usize,
        sector: usize,
        (seen, expected): (f64, f64),
        sigmas: f64,
    ) -> Self {
        Self {
            board: Some(slot / LANES_PER_BOARD),
            lane: Some(slot % LANES_PER_BOARD),
            sector: Some(sector),
            seen,
            expected,
            sigmas,
            when: When::Throughout,
            ..Self::new(kind, Part::Lane)
        }
    }

    /// Makes the outlier of a lane or chip.
    pub fn of(kind: OutlierKind, part: &PartOf, numbers: (f64, f64), sigmas: f64) -> Self {
        let lane = Self::of_lane(kind, part.slot, part.sector, numbers, sigmas);
        Self {
            part: if part.strips.is_some() {
                Part::Chip
            } else {
                Part::Lane
            },
            strips: part.strips,
            ..lane
        }
    }

    /// Returns the slot of its lane.
    pub fn slot(&self) -> Option<usize> {
        Some(self.board? * LANES_PER_BOARD + self.lane?)
    }

    /// Returns the slots of all its lanes.
    pub fn all_slots(&self) -> Vec<usize> {
        if self.slots.is_empty() {
            self.slot().into_iter().collect()
        } else {
            self.slots.clone()
        }
    }

    /// Returns the sectors that the outlier is about.
    pub fn sectors(&self, tables: &DetectorTables) -> Vec<usize> {
        let slots = match (self.part, self.board) {
            (Part::Board, Some(board)) => {
                (board * LANES_PER_BOARD..(board + 1) * LANES_PER_BOARD).collect()
            }
            _ => self.all_slots(),
        };
        let slots = slots
            .into_iter()
            .filter_map(|slot| tables.slots().get(slot))
            .filter(|slot| slot.chan_id != 0);
        let mut sectors: Vec<usize> = slots.map(|slot| usize::from(slot.sector)).collect();
        sectors.sort_unstable();
        sectors.dedup();
        sectors
    }

    /// Returns the name: the kind of fault, and the part that has it.
    pub fn name(&self) -> String {
        let kind = OutlierKind::ALL[self.kind as usize].1;
        let part = match self.part {
            _ if self.kind.is_whole() => return kind.to_owned(),
            Part::Run => "detector",
            Part::Lanes => "lanes",
            Part::Board => "board",
            Part::Sector => "sector",
            Part::Lane => "lane",
            Part::Chip => "chip",
            Part::Strip => "strip",
        };
        format!("{kind} {part}")
    }

    /// Returns true if the same part fails in the same way.
    pub fn is_same_as(&self, other: &Self) -> bool {
        let part = |of: &Self| {
            (
                of.kind,
                of.part,
                of.board,
                of.lane,
                of.sector,
                of.strips,
                of.slots.clone(),
            )
        };
        part(self) == part(other)
    }
}

/// Lane or chip with its expectations, taken from the mirrored places.
#[derive(Clone, Debug)]
pub struct PartOf {
    pub slot: usize,
    pub sector: usize,
    /// Chips that the part reads, counted over all sectors.
    pub chips: Range<usize>,
    /// Expected hits in the run, and their variance.
    pub expected: Option<(f64, f64)>,
    /// Variance of the part's hits in the run.
    pub variance: f64,
    pub charge: Option<f64>,
    /// Strips of a chip.
    pub strips: Option<(usize, usize)>,
}

/// Returns the median; `None` of nothing.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => None,
        n if n % 2 == 1 => Some(values[n / 2]),
        n => Some(f64::midpoint(values[n / 2 - 1], values[n / 2])),
    }
}
