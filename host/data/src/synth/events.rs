//! Seeded events: strips on the sectors of the synthetic UT, and the banks that its boards would
//! send.
//!
//! An event takes two steps. First strips are hit, sector by sector and without regard to boards;
//! plants act on these. Then each board's strips become a bank in one of the two formats. So both
//! formats have the same strips, and a test can compare decoders across formats.

use std::ops::RangeInclusive;

use super::corrupt::Payload;
use super::encode::{MAX_HITS_OF_LANE, Strip, V4Cluster, encode_v4, encode_v5};
use super::spectra::{Dice, activity, density};
use super::{Ailment, Part, Plant, Profile, cabling, geometry};
use crate::detector::{
    BankVersion, Boards, LANES_PER_BOARD, N_SECTORS, STRIPS_PER_SECTOR, SUB_SECTOR_BIT, Sector,
    sector_id,
};
use crate::input::{MARKED_BYTE, generated_mark};

const RUN: u32 = 1;

/// Pipeline column number in the header of v4 banks.
const PCN: u8 = 128;

/// One cluster in this many is in the same sector as the previous cluster.
const SHOWER: u32 = 18;

/// Maximum number of strips that a v4 front end joins to one cluster.
const MAX_V4_CLUSTER: usize = 4;

/// Charge from which a v4 cluster is marked as above the high threshold.
const HIGH_THRESHOLD: u32 = 16;

/// A synthetic event: its UT banks, one per board in use, all of type 66 and of the
/// generator's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SynthEvent {
    /// Run number; the same for all.
    pub run: u32,
    /// Event number: the event's index in the generator's sequence.
    pub event: u64,
    /// Version and payload of the ODIN bank.
    pub odin: Option<(u8, Vec<u8>)>,
    /// sourceID and payload (without header and padding) of each bank, by board.
    pub banks: Vec<(u16, Vec<u8>)>,
}

/// Makes the events of a profile and a seed: as an iterator that never ends, or one by one by their
/// index.
///
/// An event depends on profile, seed and index alone; v4 and v5 events of the same three have the
/// same strips (but for those that a v5 lane with more than 254 hits cannot send).
///
/// ```
/// use ut_data::detector::BankVersion;
/// use ut_data::synth::{Generator, Profile};
///
/// let generator = Generator::new(Profile::PpNominal, BankVersion::V5, 1);
/// let event = generator.event(7);
/// assert_eq!(event.banks.len(), 216);
/// assert_eq!(generator.skip(7).next(), Some(event));
/// ```
#[derive(Clone, Debug)]
pub struct Generator {
    profile: Profile,
    seed: u64,
    boards: Boards,
    /// Sector ids of the slots; `None` where nothing is connected.
    sectors: Vec<Option<u16>>,
    /// Sector → sum of the weights of the sectors up to and with it; the last is the sum of all.
    weights: Vec<f64>,
    /// Index of the event that the iterator gives next.
    next: u64,
    plants: Vec<Plant>,
}

/// Seed of the plants' own draws, so that planting changes nothing else.
const PLANTED: u64 = 0x5EED_0F91_A275;

/// Seed of the draws of ODIN.
const ODIN: u64 = 0x0D13_B4A4;

/// Noon of 1 June 2026, UTC, in microseconds since 1970.
const START: u64 = 1_780_315_200_000_000;

/// Number of orbits of the LHC from one event to the next.
///
/// An orbit takes 88.9 µs, so events are 0.98 ms apart on average.
const ORBITS_PER_EVENT: u64 = 11;

/// Event type of ODIN: physics.
const PHYSICS: u32 = 2;

/// Trigger configuration key.
const TCK: u32 = 0x1000_0001;

impl Generator {
    /// Returns the events of a profile and a seed in a bank format.
    pub fn new(profile: Profile, version: BankVersion, seed: u64) -> Self {
        let boards = cabling::boards(version);
        let sectors = boards
            .lanes
            .iter()
            .map(|lane| sector_id(lane).filter(|_| lane.is_connected()))
            .collect();
        let mut sum = 0.0;
        let weight = |sector: &Sector| {
            let area =
                f64::from(sector.pitch) * f64::from(STRIPS_PER_SECTOR) * f64::from(sector.dy);
            sum += area * density(cabling::radius2(sector));
            sum
        };
        let weights = geometry::geometry(BankVersion::V5, 0)
            .sectors
            .iter()
            .map(weight)
            .collect();
        Self {
            profile,
            seed,
            boards,
            sectors,
            weights,
            next: 0,
            plants: Vec::new(),
        }
    }

    /// Lets parts of the detector fail.
    #[must_use]
    pub fn plant(mut self, plants: Vec<Plant>) -> Self {
        self.plants = plants;
        self
    }

    /// Returns the place of a plant that changes no event, because no lane of its part is connected
    /// or reads its strips.
    pub fn idle_plant(&self) -> Option<usize> {
        let is_idle = |plant: &Plant| plant.part != Part::Odin && self.strips_of(plant).is_empty();
        self.plants.iter().position(is_idle)
    }

    /// Returns the bank format of the events.
    pub const fn version(&self) -> BankVersion {
        self.boards.version
    }

    /// Generates the event with this index.
    pub fn event(&self, index: u64) -> SynthEvent {
        let mut dice = Dice::new(self.seed, index);
        let activity = activity(self.seed, index, self.profile.is_ions());
        let activity = self.failing(index).fold(activity, |activity, (_, plant)| {
            activity * plant.activity(index)
        });
        let mut sectors = self.strips(activity, &mut dice);
        for (i, plant) in self.failing(index) {
            let mut dice = Dice::new(self.seed ^ PLANTED.wrapping_mul(i + 1), index);
            for (sector, strips) in self.strips_of(plant) {
                plant
                    .ailment
                    .act(&mut sectors[usize::from(sector)], &strips, &mut dice);
            }
        }
        let mut banks = match self.boards.version {
            BankVersion::V4 => self.v4_banks(&sectors, &mut dice),
            BankVersion::V5 => self.v5_banks(&sectors),
        };
        for (source_id, payload) in &mut banks {
            payload[MARKED_BYTE] |= generated_mark((*source_id).into());
        }
        SynthEvent {
            run: RUN,
            event: index,
            odin: self.odin(index),
            banks,
        }
    }

    /// Lets the banks of an event fail as the plants of boards say.
    pub fn spoil(&self, index: u64, banks: &mut Vec<Payload>) {
        for (_, plant) in self.failing(index) {
            banks.retain_mut(|bank| {
                let is_of = match plant.part {
                    Part::Board(board) => {
                        bank.source_id == cabling::source_id(&self.boards, board.into())
                    }
                    part => part == Part::All,
                };
                let before = || {
                    let event = self.event(plant.events.start().saturating_sub(1));
                    event
                        .banks
                        .into_iter()
                        .find(|(of, _)| *of == bank.source_id)
                        .unwrap_or_default()
                        .1
                };
                let bytes = if is_of && plant.ailment == Ailment::Repeat {
                    before()
                } else {
                    Vec::new()
                };
                !is_of || plant.ailment.spoil(bank, self.boards.version, bytes)
            });
        }
    }

    /// Returns the plants that fail in an event, with their places.
    fn failing(&self, index: u64) -> impl Iterator<Item = (u64, &Plant)> {
        (0..)
            .zip(&self.plants)
            .filter(move |(_, plant)| plant.fails_in(index))
    }

    /// Returns the sectors of a plant, each with its strips.
    fn strips_of(&self, plant: &Plant) -> Vec<(u16, RangeInclusive<u16>)> {
        let (first, last) = (*plant.strips.start(), *plant.strips.end());
        let of_slot = |slot: usize| {
            let sector = (*self.sectors.get(slot)?)?;
            let lane = &self.boards.lanes[slot];
            let half = match (
                cabling::has_two_lanes(lane),
                lane.chan_id & SUB_SECTOR_BIT != 0,
            ) {
                _ if self.boards.version == BankVersion::V4 => 0..=511,
                (false, _) => 0..=511,
                (true, false) => 0..=255,
                (true, true) => 256..=511,
            };
            let strips = first.max(*half.start())..=last.min(*half.end());
            (!strips.is_empty()).then_some((sector, strips))
        };
        let slots = |board: u16| {
            usize::from(board) * LANES_PER_BOARD..(usize::from(board) + 1) * LANES_PER_BOARD
        };
        match plant.part {
            Part::Sector(sector) => vec![(sector, first..=last)],
            Part::Lane(board, lane) => of_slot(slots(board).start + usize::from(lane))
                .into_iter()
                .collect(),
            Part::Board(board) => slots(board).filter_map(of_slot).collect(),
            Part::All => (0..N_SECTORS as u16)
                .map(|sector| (sector, first..=last))
                .collect(),
            Part::Odin => Vec::new(),
        }
    }

    /// Returns the version and payload of an event's ODIN bank: a run of some 1,000 events per
    /// second at noon of 1 June 2026, all of colliding bunches.
    fn odin(&self, index: u64) -> Option<(u8, Vec<u8>)> {
        let mut dice = Dice::new(self.seed ^ ODIN, index);
        let orbit = index * ORBITS_PER_EVENT + u64::from(dice.below(ORBITS_PER_EVENT as u32));
        // 45 trains of 48 bunches, with gaps of 30.
        let train = dice.below(45);
        let mut crossing = (1 + 78 * train + dice.below(48)) as u16;
        // Picoseconds: an orbit, and 24.95 ns from one bunch crossing to the next.
        let time = START + (orbit * 88_924_476 + u64::from(crossing) * 24_950) / 1_000_000;
        let (mut run, mut number, mut version, mut kind, mut words) = (RUN, index, 7, 3, 10);
        for (_, plant) in self.failing(index) {
            match plant.ailment {
                Ailment::None => return None,
                Ailment::Short => words = 1,
                Ailment::Layout => version = 9,
                Ailment::Run => run += 1,
                Ailment::Number => number &= !1,
                Ailment::Crossing => crossing = 3900,
                Ailment::Type => kind = 1,
                _ => {}
            }
        }
        let word = u32::from(crossing) | kind << 12;
        let [time, number] = [time, number].map(|number| [number as u32, (number >> 32) as u32]);
        let all = [
            run,
            PHYSICS,
            time[0],
            time[1],
            TCK,
            0,
            word,
            orbit as u32,
            number[0],
            number[1],
        ];
        Some((
            version,
            all[..words]
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .collect(),
        ))
    }

    /// Draws the strips that were hit, by sector, ascending, each once.
    fn strips(&self, activity: f64, dice: &mut Dice) -> Vec<Vec<Strip>> {
        let clusters = (self.profile.mean_clusters() * activity).round() as u32;
        let mut sectors = vec![Vec::new(); N_SECTORS];
        let sum = self.weights[N_SECTORS - 1];
        let mut sector = None;
        for _ in 0..clusters {
            // Showers: some clusters are close to the previous cluster.
            let stays = dice.below(SHOWER) == 0;
            let draw = |dice: &mut Dice| {
                let at = dice.unit() * sum;
                self.weights
                    .partition_point(|&w| w <= at)
                    .min(N_SECTORS - 1)
            };
            let sector = *sector.insert(sector.filter(|_| stays).unwrap_or_else(|| draw(dice)));
            let size = dice.cluster_size();
            let first = dice.below(STRIPS_PER_SECTOR) as u16;
            for strip in first..(first + size).min(STRIPS_PER_SECTOR as u16) {
                sectors[sector].push((strip, dice.adc(size)));
            }
        }
        for strips in &mut sectors {
            // Stable: of overlapping clusters, the one drawn first has the strip.
            strips.sort_by_key(|&(strip, _)| strip);
            strips.dedup_by_key(|&mut (strip, _)| strip);
        }
        sectors
    }

    fn v5_banks(&self, sectors: &[Vec<Strip>]) -> Vec<(u16, Vec<u8>)> {
        let bank = |board: usize| {
            let mut lanes: [&[Strip]; LANES_PER_BOARD] = [&[]; LANES_PER_BOARD];
            for (lane, hits) in lanes.iter_mut().enumerate() {
                let slot = board * LANES_PER_BOARD + lane;
                if let Some(sector) = self.sectors[slot] {
                    let strips = &sectors[usize::from(sector)];
                    *hits = strips;
                    if cabling::has_two_lanes(&self.boards.lanes[slot]) {
                        let (low, high) =
                            strips.split_at(strips.partition_point(|&(strip, _)| strip < 256));
                        let second = self.boards.lanes[slot].chan_id & SUB_SECTOR_BIT != 0;
                        *hits = if second { high } else { low };
                    }
                    // The count byte says no more hits, so a front end sends no more.
                    *hits = &hits[..hits.len().min(MAX_HITS_OF_LANE)];
                }
            }
            (cabling::source_id(&self.boards, board), encode_v5(lanes))
        };
        (0..self.boards.n_boards()).map(bank).collect()
    }

    fn v4_banks(&self, sectors: &[Vec<Strip>], dice: &mut Dice) -> Vec<(u16, Vec<u8>)> {
        let used =
            (0..self.boards.n_boards()).filter(|&board| self.boards.strips_per_hybrid[board] != 0);
        let bank = |board: usize| {
            let mut clusters = Vec::new();
            for hybrid in 0..LANES_PER_BOARD {
                if let Some(sector) = self.sectors[board * LANES_PER_BOARD + hybrid] {
                    let strips = &sectors[usize::from(sector)];
                    for run in strips.chunk_by(|a, b| a.0 + 1 == b.0) {
                        clusters.extend(
                            run.chunks(MAX_V4_CLUSTER)
                                .map(|strips| v4_cluster(hybrid, strips, dice)),
                        );
                    }
                }
            }
            (
                cabling::source_id(&self.boards, board),
                encode_v4(&clusters, PCN),
            )
        };
        used.map(bank).collect()
    }
}

impl Iterator for Generator {
    type Item = SynthEvent;

    fn next(&mut self) -> Option<SynthEvent> {
        let event = self.event(self.next);
        self.next += 1;
        Some(event)
    }
}

/// Returns the cluster that a v4 front end makes of neighbouring strips: mean weighted by ADC,
/// rounded to quarter strips. Strip 10 with ADC 5 and strip 11 with ADC 15 have the moment 15 and
/// the charge 20: (8 · 15 + 20) / 40 = 3 quarters after strip 10.
fn v4_cluster(hybrid: usize, strips: &[Strip], dice: &mut Dice) -> V4Cluster {
    let charge: u32 = strips.iter().map(|&(_, adc)| u32::from(adc)).sum();
    let moment: u32 = (0..)
        .zip(strips)
        .map(|(i, &(_, adc))| i * u32::from(adc))
        .sum();
    let quarters = (8 * moment + charge) / (2 * charge);
    V4Cluster {
        channel: (hybrid * STRIPS_PER_SECTOR as usize) as u16 + strips[0].0 + (quarters / 4) as u16,
        fraction: (quarters % 4) as u8,
        wide: strips.len() > 2,
        high_threshold: charge >= HIGH_THRESHOLD,
        neighbour_sum: dice.neighbour_sum(),
        adc: strips.iter().map(|&(_, adc)| adc).collect(),
    }
}
