//! Boards, geometry and grouping combined into the flat arrays that decoders read.

use std::ops::Range;
use std::path::Path;

use super::fit;
use super::sectors::{BoardAndLane, Connection, SectorPlaces};
use super::{
    Boards, ChannelId, Geometry, Grouping, LANES_PER_BOARD, Sector, SectorConstants, SectorPlace,
    Slot, TablesError, layer_of, sector_id,
};
use crate::hash;

/// Everything that a decoder looks up: built once, checked, immutable.
///
/// ```no_run
/// use ut_data::{BankVersion, ChannelId, DetectorTables, Grouping};
///
/// let tables = DetectorTables::read("ut_boards.bin", "ut_geometry.bin", Grouping::YRows)?;
/// assert_eq!(tables.boards().version, BankVersion::V5);
/// assert_eq!(tables.n_groups(), 72);
/// for connection in tables.connections().filter(|connection| connection.lane.board == 0) {
///     println!("lane {} reads sector {}", connection.lane.lane, connection.sector);
/// }
/// # Ok::<(), ut_data::TablesError>(())
/// ```
///
/// Decoders rely on these tables: the fast path of the CPU indexes them without bounds checks. They
/// can be made only by [`DetectorTables::new`], which [`DetectorTables::read`] calls, and by
/// [`DetectorTables::trusting`], which ensure that
/// - there are 1 to [`MAX_BOARDS`](super::MAX_BOARDS) boards, and [`slots`](Self::slots) has
///   [`LANES_PER_BOARD`](super::LANES_PER_BOARD) entries per board;
/// - [`sectors`](Self::sectors) and [`groups`](Self::groups) have [`N_SECTORS`](super::N_SECTORS)
///   entries, and every slot's sector is below that;
/// - every group is below [`n_groups`](Self::n_groups), which is at least 1 and at most
///   [`N_SECTORS`](super::N_SECTORS);
/// - all constants are finite.
#[derive(Clone, Debug)]
pub struct DetectorTables {
    boards: Boards,
    geometry: Geometry,
    grouping: Grouping,
    groups: Vec<u16>,
    n_groups: usize,
    slots: Vec<Slot>,
    sectors: Vec<SectorConstants>,
    places: SectorPlaces,
    layers: Vec<usize>,
    makers: Makers,
}

// All other fields that can differ follow from these three.
impl PartialEq for DetectorTables {
    fn eq(&self, other: &Self) -> bool {
        (&self.boards, &self.geometry, self.grouping)
            == (&other.boards, &other.geometry, other.grouping)
    }
}

/// Hashes of the files of the synthetic detector's boards.
///
/// Invented data must not be taken for measured data, and vice versa. Generated events
/// bear a mark, and these hashes recognise the invented tables, also where a user wrote them to
/// files. One hash is for v4 and one for v5. When the synthetic detector changes, the test at the
/// end of this file fails and shows the new numbers.
const SYNTHETIC_BOARDS: [u64; 2] = [0x241a_3da5_68be_ea07, 0x86df_dc60_2a5e_ba35];

/// Hashes of the files of the synthetic detector's geometry. For v4 and v5, each in file version 0
/// and 1.
const SYNTHETIC_GEOMETRIES: [u64; 4] = [
    0x3a93_6a1f_c473_6e1f,
    0xaf36_fd25_267e_aaf7,
    0xc387_b4d0_3df4_edd7,
    0x8a6c_0898_72af_43c2,
];

/// Returns the hash of the bytes of a file.
fn of_file(bytes: &[u8]) -> u64 {
    let words = bytes
        .chunks(8)
        .map(|word| word.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)));
    hash(words.chain([bytes.len() as u64]))
}

/// Makers whose events the tables take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Makers {
    /// Any maker. Sizes of banks are not judged either: the caller knows better.
    Trusted,
    /// Any maker.
    Any,
    /// A detector: not `ut-decode generate`.
    Detector,
    /// Makers that leave no mark: either boards or geometry are synthetic.
    Unknown,
    /// `ut-decode generate`, or a maker that leaves no mark.
    SyntheticOrUnknown,
    /// `ut-decode generate`.
    Synthetic,
}

impl DetectorTables {
    /// Builds the tables of boards and geometry that fit each other.
    ///
    /// # Errors
    /// - If boards or geometry, whose fields are public, do not pass [`Boards::validate`] or
    ///   [`Geometry::validate`]. The errors call them "boards" and "geometry".
    /// - If they do not describe the same detector. Every sector must be within 35 mm of the
    ///   regular place of its stave and module, and near the place that the others of its stave
    ///   suggest; in v5 a sector must be flipped exactly if it is mounted so, and in v4 none may
    ///   be.
    /// - If two lanes have the same channel: their hits could not be told apart.
    pub fn new(
        boards: Boards,
        geometry: Geometry,
        grouping: Grouping,
    ) -> Result<Self, TablesError> {
        let tables = Self::trusting(boards, geometry, grouping)?;
        tables.check_fit()?;
        tables.check_lanes()?;
        let makers = match tables.are_synthetic() {
            (true, true) => Makers::SyntheticOrUnknown,
            (false, false) => Makers::Detector,
            _ => Makers::Unknown,
        };
        Ok(Self { makers, ..tables })
    }

    /// Restricts the tables to events that bear the mark of `ut-decode generate`.
    #[must_use]
    pub fn only_generated(self) -> Self {
        Self {
            makers: Makers::Synthetic,
            ..self
        }
    }

    /// Returns true for boards, and for the geometry, if they equal the synthetic detector's,
    /// whatever the names of their files.
    fn are_synthetic(&self) -> (bool, bool) {
        let is_one_of = |all: &[u64], bytes: &[u8]| all.contains(&of_file(bytes));
        (
            is_one_of(&SYNTHETIC_BOARDS, &self.boards.to_bytes()),
            is_one_of(&SYNTHETIC_GEOMETRIES, &self.geometry.to_bytes()),
        )
    }

    /// Reads boards and geometry from files, and builds the tables as [`Self::new`] does.
    pub fn read(
        boards: impl AsRef<Path>,
        geometry: impl AsRef<Path>,
        grouping: Grouping,
    ) -> Result<Self, TablesError> {
        Self::new(Boards::read(boards)?, Geometry::read(geometry)?, grouping)
    }

    /// Checks that boards and geometry fit each other, as [`Self::new`] does.
    pub fn check_fit(&self) -> Result<(), TablesError> {
        fit::check(self.boards.version, &self.geometry)
    }

    /// Checks that no two lanes have the same channel.
    fn check_lanes(&self) -> Result<(), TablesError> {
        let mut first = std::collections::BTreeMap::new();
        for (slot, lane) in self.connected() {
            if let Some(other) = first.insert(lane.chan_id, slot) {
                let name = |slot: usize| {
                    format!(
                        "board {} lane {}",
                        slot / LANES_PER_BOARD,
                        slot % LANES_PER_BOARD
                    )
                };
                let (one, two, channel) = (name(other), name(slot), lane.chan_id);
                let what = format!(
                    "the channel 0x{channel:08x} belongs to {one} and {two}: their hits could not be told apart"
                );
                return Err(TablesError::bad("boards", None, what));
            }
        }
        Ok(())
    }

    /// Builds tables without checking that boards, geometry and events belong together: for callers
    /// who know better.
    pub fn trusting(
        boards: Boards,
        geometry: Geometry,
        grouping: Grouping,
    ) -> Result<Self, TablesError> {
        boards.validate("boards")?;
        geometry.validate("geometry")?;
        let (groups, n_groups) = grouping.groups(&geometry);
        let slots = boards
            .lanes
            .iter()
            .map(|lane| match sector_id(lane) {
                Some(sector) if lane.is_connected() => Slot {
                    chan_id: lane.chan_id,
                    sector,
                    group: groups[usize::from(sector)],
                },
                _ => Slot::default(),
            })
            .collect();
        let sectors = geometry.sectors.iter().map(constants).collect();
        let places = SectorPlaces::new(&boards, &geometry);
        let mut layers = vec![0; n_groups];
        for (sector, &group) in groups.iter().enumerate() {
            layers[usize::from(group)] = layer_of(sector);
        }
        Ok(Self {
            boards,
            geometry,
            grouping,
            groups,
            n_groups,
            slots,
            sectors,
            places,
            layers,
            makers: Makers::Trusted,
        })
    }

    /// Admits events of any origin.
    #[must_use]
    pub fn of_any_maker(self) -> Self {
        Self {
            makers: Makers::Any,
            ..self
        }
    }

    /// Returns true if [`Self::trusting`] made the tables, so that events of another detector are
    /// not refused.
    pub const fn is_trusted(&self) -> bool {
        matches!(self.makers, Makers::Trusted)
    }

    pub(crate) const fn makers(&self) -> Makers {
        self.makers
    }

    /// Returns the boards that the tables were made from.
    pub const fn boards(&self) -> &Boards {
        &self.boards
    }

    /// Returns the geometry that the tables were made from.
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the rule that [`groups`](Self::groups) follows.
    pub const fn grouping(&self) -> Grouping {
        self.grouping
    }

    /// Returns the group of each sector, by sector id.
    pub const fn groups(&self) -> &[u16] {
        self.groups.as_slice()
    }

    /// Lowers `max_hits` to the largest number of hits that `n_events` events can have, with one
    /// bank of at most 64 KiB per board and two bytes per hit.
    ///
    /// For one event of 216 boards that is 7,077,888, far more than any real event has. But a small
    /// batch with a generous `max_hits` then does not reserve memory that it can never fill.
    pub fn hits_at_most(&self, n_events: usize, max_hits: usize) -> usize {
        const HITS_OF_BANK: usize = 1 << 15;
        max_hits.min(n_events.saturating_mul(self.boards().n_boards() * HITS_OF_BANK))
    }

    /// Returns the number of groups of an event.
    pub const fn n_groups(&self) -> usize {
        self.n_groups
    }

    /// Returns the slots of the lanes that read a sector, with their numbers.
    pub fn connected(&self) -> impl Iterator<Item = (usize, &Slot)> {
        let slots = self.slots.iter().enumerate();
        slots.filter(|(_, slot)| slot.chan_id != 0)
    }

    /// Returns first channel, sector and group of each lane slot, six slots per board. A slot that
    /// nothing is connected to is all zeros.
    pub const fn slots(&self) -> &[Slot] {
        self.slots.as_slice()
    }

    /// Returns the constants of the hit formulas, by sector id.
    pub const fn sectors(&self) -> &[SectorConstants] {
        self.sectors.as_slice()
    }

    /// Returns mounting place and lanes of each sector, by sector id.
    pub const fn places(&self) -> &[SectorPlace] {
        self.places.places.as_slice()
    }

    /// Iterates over all connections of lanes and sectors, by board and lane.
    pub fn connections(&self) -> impl Iterator<Item = Connection> + '_ {
        self.connected().map(|(i, slot)| {
            let sector = slot.sector;
            let [low, high] = self.places()[usize::from(sector)].lanes;
            let strips = match (ChannelId(slot.chan_id).strip() >= 256, low == high) {
                (true, _) => (256, 511),
                (false, true) => (0, 511),
                (false, false) => (0, 255),
            };
            let lane = BoardAndLane {
                board: (i / LANES_PER_BOARD) as u8,
                lane: (i % LANES_PER_BOARD) as u8,
            };
            Connection {
                lane,
                sector,
                strips,
            }
        })
    }

    /// Returns the sector id, 0…1047, of a channel; `None` if the UT has no such sector.
    pub fn sector_of(&self, channel: ChannelId) -> Option<u16> {
        self.places.sector_of(channel)
    }

    /// Returns the layer of each group, 0…3, in ascending order.
    pub const fn layers(&self) -> &[usize] {
        self.layers.as_slice()
    }

    /// Returns the groups of a layer, 0…3; no groups for other layers.
    pub fn groups_of_layer(&self, layer: usize) -> Range<usize> {
        self.layers.partition_point(|&other| other < layer)
            ..self.layers.partition_point(|&other| other <= layer)
    }
}

fn constants(sector: &Sector) -> SectorConstants {
    SectorConstants {
        p0_x: sector.p0_x,
        p0_y: sector.p0_y,
        p0_z: sector.p0_z.abs(),
        dp0di_x: sector.dp0di_x,
        dp0di_y: sector.dp0di_y,
        dp0di_z: sector.dp0di_z,
        dy: sector.dy,
        dx_dy: sector.dx_dy,
        weight: sector.weight(),
        first_strip: sector.first_strip,
        flipped: u32::from(sector.is_flipped()),
    }
}

#[cfg(all(test, feature = "synth"))]
mod tests {
    use super::*;
    use crate::detector::BankVersion;
    use crate::synth::detector;

    #[test]
    fn the_synthetic_detector_is_known_by_its_hashes() {
        let all = [BankVersion::V4, BankVersion::V5]
            .map(|version| [0, 1].map(|of| detector(version, of)));
        let boards = all
            .each_ref()
            .map(|[(boards, _), _]| of_file(&boards.to_bytes()));
        let geometries = all
            .iter()
            .flatten()
            .map(|(_, geometry)| of_file(&geometry.to_bytes()));
        assert_eq!(
            (boards, geometries.collect::<Vec<_>>()),
            (SYNTHETIC_BOARDS, SYNTHETIC_GEOMETRIES.to_vec())
        );
    }
}
