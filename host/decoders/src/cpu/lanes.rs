//! The static order of the lanes, which spares the fast path the sort.
//!
//! A *rank* is a lane slot's place in the order by sector group and, inside a group, by x. It
//! depends on the tables alone. Unconnected slots have the last ranks.
//!
//! For example, let a group have two sectors: A, read by one lane, at x from -100 to -2 mm, and B
//! at x from -3 to 95 mm, read by two lanes of 256 strips. Ranks are then 0 for A's lane, 1 for the
//! half of B with the smaller x, and 2 for the other half. All hits of rank 0 come before all hits
//! of rank 1, but for those few between -3 and -2 mm, where the sectors overlap; `make_hits.rs`
//! repairs these.
//!
//! Unconnected lanes keep a rank, behind all others, so that their hits can be counted in the same
//! array without a branch, and never reach the stream.

use super::policy::UT_ID;
use super::simd::REVERSE;
use ut_data::DecodeOptions;
use ut_data::detector::{
    BankVersion, DetectorTables, LANES_PER_BOARD, STRIPS_PER_SECTOR, SectorConstants, Slot,
};
use ut_format::detector::MAX_SLOTS;

/// Position of the rank in a stream word. Below lie [`BACKWARDS`]; bit 14, always 0, so that the
/// last strip of a lane is never followed by the first of the next; strip and ADC count (v5) or
/// strip and fraction (v4).
pub const RANK_SHIFT: u32 = 16;

/// Bit of a stream word: the lane is read backwards.
pub const BACKWARDS: u32 = 1 << 15;

/// Bit of [`LaneOrder::id`]: the lane is read backwards.
pub const REVERSED: u32 = 1 << 31;

/// Bit of [`LaneOrder::id`]: the sector is flipped.
pub const FLIPPED: u32 = 1 << 30;

/// Maximum number of kinds of sectors that an `LHCbID` in the tables can name; a kind has one
/// pitch, length and stereo angle. Real detectors have 9.
///
/// 16 words of 4 bytes are one cache line and one AVX-512 register, in which a permutation looks up
/// 16 hits at a time.
const MAX_KINDS: usize = 16;

/// Distance of numbers whose kinds may differ in what depends on the sense of the stereo angle, and
/// agree in the rest, so that half a table is enough for the rest.
const HALF: usize = MAX_KINDS / 2;

/// Bits of an `LHCbID` in the tables for the kind of the sector.
pub const KIND_MASK: u32 = MAX_KINDS as u32 - 1;

pub const MAX_RANKS: usize = MAX_SLOTS.next_multiple_of(64);

/// Distance in words between columns by rank: two windows of any level may begin at the last rank.
pub const RANK_STRIDE: usize = MAX_RANKS + 64;

/// Distance in words between columns by kind, if there are few kinds.
pub const KIND_STRIDE: usize = MAX_KINDS;

/// A lane, as stage 2 copies it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneSource {
    /// Mask for the masked hit words: the rank and, if the lane is read backwards, [`BACKWARDS`]
    /// and all strip bits, so that strips ascend in the stream.
    pub xor: u32,
    pub board: u8,
    /// v5: byte of the payload with the lane's first hit. v4: number of the lane in the board.
    pub place: u8,
    /// [`REVERSE`] if the lane is read backwards, else 0. From a `bool` the compiler makes a
    /// branch, which the CPU cannot predict.
    pub direction: u16,
}

#[derive(Clone, Copy, Debug)]
pub struct BoardRanks {
    pub ranks: [u16; LANES_PER_BOARD],
    pub in_use: bool,
}

/// The lanes in their order, with the columns that turn strips into hits.
#[derive(Clone, Debug)]
pub struct LaneOrder {
    pub version: BankVersion,
    pub boards: Vec<BoardRanks>,
    /// Number of connected lanes, which have the ranks below it.
    pub n_connected: usize,
    pub sources: Vec<LaneSource>,
    /// By group, and one after the last: its first rank.
    pub first_ranks: Vec<u16>,
    /// Is true if the kinds of sectors are few enough for numbers, see [`HALF`]. Otherwise every
    /// rank is its own kind.
    pub few_kinds: bool,
    /// A column of [`RANK_STRIDE`] words for each of [`RankColumn`].
    pub by_rank: Box<[u32]>,
    /// A column for each of [`KindColumn`]: of [`KIND_STRIDE`] words if there are few kinds, else
    /// of [`RANK_STRIDE`].
    pub by_kind: Box<[u32]>,
}

/// Columns of the hit formulas by lane; floats by their bits.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub enum RankColumn {
    /// `LHCbID` of strip 0, with [`REVERSED`] and [`FLIPPED`], and with few kinds, the kind in
    /// [`KIND_MASK`].
    Id,
    /// See [`SectorConstants`].
    P0X,
    P0Y,
    P0Z,
    /// v4: 1 - the sector's first strip.
    First,
}

/// Columns of the hit formulas by kind of sector; see [`SectorConstants`].
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub enum KindColumn {
    Dp0diX,
    Dp0diY,
    Dp0diZ,
    Dy,
    DxDy,
    Weight,
}

impl LaneOrder {
    pub fn new(tables: &DetectorTables, options: DecodeOptions) -> Self {
        let version = tables.boards().version;
        let sector_of = |slot: &Slot| &tables.sectors()[usize::from(slot.sector)];
        let order = by_group_and_x(tables, options);
        let n_connected = tables
            .slots()
            .iter()
            .filter(|slot| slot.is_connected())
            .count();

        let strips_per_hybrid = &tables.boards().strips_per_hybrid;
        let mut boards: Vec<_> = strips_per_hybrid
            .iter()
            .map(|&strips| BoardRanks {
                ranks: [0; LANES_PER_BOARD],
                in_use: strips == STRIPS_PER_SECTOR,
            })
            .collect();
        let mut sources = Vec::with_capacity(order.len());
        let mut id: Vec<u32> = Vec::with_capacity(order.len());
        for (rank, &slot) in order.iter().enumerate() {
            let (board, lane) = (slot / LANES_PER_BOARD, slot % LANES_PER_BOARD);
            boards[board].ranks[lane] = rank as u16;
            let this = &tables.slots()[slot];
            let sector = sector_of(this);
            let (source, bits) = describe(version, (rank, slot), this, sector);
            sources.push(source);
            id.push(bits);
        }
        let connected = &order[..n_connected];
        let groups: Vec<u16> = connected
            .iter()
            .map(|&slot| tables.slots()[slot].group)
            .collect();
        let first_ranks = (0..=tables.n_groups())
            .map(|group| groups.partition_point(|&of_rank| usize::from(of_rank) < group) as u16)
            .collect::<Vec<_>>();
        let sectors: Vec<_> = connected
            .iter()
            .map(|&slot| sector_of(&tables.slots()[slot]))
            .collect();
        let (of_rank, kinds) = kinds(&sectors);
        let numbers = number_kinds(&kinds).filter(|_| id.iter().all(|id| id & KIND_MASK == 0));
        let few_kinds = numbers.is_some();
        let kinds = match numbers {
            Some(numbers) => {
                for (id, kind) in id.iter_mut().zip(of_rank) {
                    *id |= numbers[kind] as u32;
                }
                table_of_kinds(&kinds, &numbers)
            }
            None => sectors.clone(),
        };
        let p0 = |value: fn(&SectorConstants) -> f32| {
            sectors.iter().map(move |sector| value(sector).to_bits())
        };
        // In the order of `RankColumn`.
        let by_rank = columns(
            RANK_STRIDE,
            [
                id,
                p0(|sector| sector.p0_x).collect(),
                p0(|sector| sector.p0_y).collect(),
                p0(|sector| sector.p0_z).collect(),
                // A sector's first strip is at most 512: with whole and quarter strips exact, in
                // any order of operations.
                p0(|sector| 1.0 - sector.first_strip as f32).collect(),
            ],
        );
        let stride = if few_kinds { KIND_STRIDE } else { RANK_STRIDE };
        let of_kind = |value: fn(&SectorConstants) -> f32| {
            kinds.iter().map(|sector| value(sector).to_bits()).collect()
        };
        // In the order of `KindColumn`.
        let by_kind = columns(
            stride,
            [
                of_kind(|sector| sector.dp0di_x),
                of_kind(|sector| sector.dp0di_y),
                of_kind(|sector| sector.dp0di_z),
                of_kind(|sector| sector.dy),
                of_kind(|sector| sector.dx_dy),
                of_kind(|sector| sector.weight),
            ],
        );
        Self {
            version,
            boards,
            n_connected,
            sources,
            first_ranks,
            few_kinds,
            by_rank,
            by_kind,
        }
    }

    pub fn n_groups(&self) -> usize {
        self.first_ranks.len() - 1
    }

    pub fn n_boards(&self) -> usize {
        self.boards.len()
    }

    pub fn n_ranks(&self) -> usize {
        self.sources.len()
    }
}

/// Returns the slots in the order of group and x, then those of unconnected lanes.
fn by_group_and_x(tables: &DetectorTables, options: DecodeOptions) -> Vec<usize> {
    let version = tables.boards().version;
    let mut order: Vec<usize> = (0..tables.slots().len()).collect();
    order.sort_by(|&a, &b| {
        let key = |slot: usize| {
            let lane = &tables.slots()[slot];
            let x = if lane.is_connected() {
                let sector = &tables.sectors()[usize::from(lane.sector)];
                middle(version, *lane, sector, options)
            } else {
                0.0
            };
            (!lane.is_connected(), lane.group, x)
        };
        let (a, b) = (key(a), key(b));
        (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2))
    });
    order
}

/// Returns the source of a lane, by its rank and slot number, and its word in the column
/// [`RankColumn::Id`], without a kind.
fn describe(
    version: BankVersion,
    (rank, number): (usize, usize),
    slot: &Slot,
    sector: &SectorConstants,
) -> (LaneSource, u32) {
    let (board, lane) = (number / LANES_PER_BOARD, number % LANES_PER_BOARD);
    let (strip_bits, place, first) = match version {
        BankVersion::V4 => (0x7FF, lane, slot.chan_id),
        BankVersion::V5 => (
            0x1FF << 5,
            8 + 4 * (LANES_PER_BOARD - 1 - lane),
            slot.chan_id & !0x1FF,
        ),
    };
    let rank = (rank as u32) << RANK_SHIFT;
    let (xor, direction, reversed) = if slot.is_connected() && is_reversed(version, sector) {
        (rank | BACKWARDS | strip_bits, REVERSE, REVERSED)
    } else {
        (rank, 0, 0)
    };
    let flipped = if is_flipped(version, sector) {
        FLIPPED
    } else {
        0
    };
    let source = LaneSource {
        xor,
        board: board as u8,
        place: place as u8,
        direction,
    };
    (source, UT_ID | first | reversed | flipped)
}

/// Returns the kinds by their numbers; unused numbers get the partner's kind, or the first kind.
fn table_of_kinds<'a>(
    kinds: &[&'a SectorConstants],
    numbers: &[usize],
) -> Vec<&'a SectorConstants> {
    // (Unconnected lanes are not looked up.)
    let mut table = kinds
        .first()
        .map_or_else(Vec::new, |&kind| vec![kind; MAX_KINDS]);
    for (&kind, &number) in kinds.iter().zip(numbers) {
        table[number] = kind;
        // No other kind has that number.
        if !numbers.contains(&(number ^ HALF)) {
            table[number ^ HALF] = kind;
        }
    }
    table
}

fn columns<const N: usize>(stride: usize, columns: [Vec<u32>; N]) -> Box<[u32]> {
    let mut table = vec![0; N * stride].into_boxed_slice();
    for (to, column) in table.chunks_exact_mut(stride).zip(columns) {
        to[..column.len()].copy_from_slice(&column);
    }
    table
}

/// Returns the kind of each of `sectors`, and a sector of each kind; kinds differ in more than the
/// place.
fn kinds<'a>(sectors: &[&'a SectorConstants]) -> (Vec<usize>, Vec<&'a SectorConstants>) {
    let mut kinds: Vec<&SectorConstants> = Vec::new();
    let key = |sector: &SectorConstants| {
        let SectorConstants {
            dp0di_x,
            dp0di_y,
            dp0di_z,
            dy,
            dx_dy,
            weight,
            ..
        } = sector;
        [dp0di_x, dp0di_y, dp0di_z, dy, dx_dy, weight].map(|value| value.to_bits())
    };
    let of_sector = sectors.iter().map(|sector| {
        kinds
            .iter()
            .position(|kind| key(kind) == key(sector))
            .unwrap_or_else(|| {
                kinds.push(sector);
                kinds.len() - 1
            })
    });
    (of_sector.collect(), kinds)
}

/// Gives each kind a number below [`MAX_KINDS`], so that kinds whose numbers differ by [`HALF`]
/// agree in everything but `dp0di_y` and `dx_dy`. Returns `None` if there are not enough numbers.
///
/// Each kind takes, if there is one, the place opposite of a kind that agrees with it but for these
/// two values: the sectors of the two stereo layers, turned by +5° and -5°, are such pairs. Other
/// kinds take the lowest free number below [`HALF`].
fn number_kinds(kinds: &[&SectorConstants]) -> Option<Vec<usize>> {
    let key = |kind: &SectorConstants| {
        [kind.dp0di_x, kind.dp0di_z, kind.dy, kind.weight].map(f32::to_bits)
    };
    let mut taken: [Option<&SectorConstants>; MAX_KINDS] = [None; MAX_KINDS];
    kinds
        .iter()
        .map(|kind| {
            let partner = (HALF..MAX_KINDS).find(|&number| {
                taken[number].is_none()
                    && taken[number - HALF].is_some_and(|other| key(other) == key(kind))
            });
            let number = partner.or_else(|| (0..HALF).find(|&number| taken[number].is_none()))?;
            taken[number] = Some(kind);
            Some(number)
        })
        .collect()
}

const fn is_flipped(version: BankVersion, sector: &SectorConstants) -> bool {
    matches!(version, BankVersion::V5) && sector.flipped != 0
}

/// Returns true if x falls while the strip number rises.
fn is_reversed(version: BankVersion, sector: &SectorConstants) -> bool {
    is_flipped(version, sector) != (sector.dp0di_x < 0.0)
}

fn middle(
    version: BankVersion,
    slot: Slot,
    sector: &SectorConstants,
    options: DecodeOptions,
) -> f32 {
    let n = match version {
        BankVersion::V4 => 256.0 - sector.first_strip as f32,
        BankVersion::V5 => {
            // Some sectors are read out by two lanes of 256 strips each; bit 8 is set on the
            // second. The middle of a whole sector lies between the middles of its halves.
            let strip = if slot.chan_id & 0x100 != 0 {
                384.0
            } else {
                128.0
            };
            if sector.flipped != 0 {
                options.flip().origin() - strip
            } else {
                strip
            }
        }
    };
    sector.p0_x + n * sector.dp0di_x
}
