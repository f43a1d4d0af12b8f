//! The static order of the lanes: what spares the fast path the sort.
//!
//! A *rank* is a lane slot's place in the order by sector group and, inside a group, by x. It depends on the tables
//! alone. Slots that nothing is connected to have the last ranks.

use super::ordinary::UT_ID;
use crate::decoder::DecodeOptions;
use crate::detector::{BankVersion, DetectorTables, LANES_PER_BOARD, STRIPS_PER_SECTOR, SectorConstants, Slot};

/// Where the rank begins in a stream word. Below: [`BACKWARDS`]; bit 14, which is always 0, so that the last strip of a
/// lane and the first of the next do not follow each other; the strip and the ADC count (v5) or strip and fraction (v4).
pub const RANK_SHIFT: u32 = 16;

/// Bit of a stream word that says that the lane is read backwards.
pub const BACKWARDS: u32 = 1 << 15;

/// Bit of [`LaneOrder::id`] that says that the lane is read backwards.
pub const REVERSED: u32 = 1 << 31;

/// Bit of [`LaneOrder::id`] that says that the sector is flipped.
pub const FLIPPED: u32 = 1 << 30;

/// Kinds that [`LaneOrder::id`] can name. Real detectors have 9: sectors of a kind have the same pitch, length, stereo
/// angle and sense.
const MAX_KINDS: usize = 16;

/// Bits of [`LaneOrder::id`] for the kind of the sector.
pub const KIND_MASK: u32 = MAX_KINDS as u32 - 1;

/// Words after the last rank of each table: two windows of any level may begin at the last rank.
const PADDING: usize = 64;

/// A lane as the copying sees it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneSource {
    /// What the masked hit words are combined with: the rank, and where the lane is read backwards, [`BACKWARDS`] and all
    /// strip bits set, so that strips ascend in the stream.
    pub xor: u32,
    /// Place of the lane's head: [`HEADS_PER_BOARD`] times its board, and the lane's place among the board's heads.
    pub head: u16,
    /// v5: place of the lane's first hit in the payload. v4: its number.
    pub place: u8,
    /// -1 where the lane is read backwards, else 0.
    pub backwards: i8,
}

/// Heads that a board has room for.
pub const HEADS_PER_BOARD: usize = 8;

/// By lane, the byte of a v5 bank's header that says how many hits it has.
pub const V5_COUNTS: [usize; LANES_PER_BOARD] = [4, 5, 6, 7, 0, 1];

/// By lane, the place of its head among those of the board, for v5: where two shuffles of the first two rows leave it.
/// For v4 that is its number.
pub const V5_HEADS: [u8; LANES_PER_BOARD] = [7, 6, 3, 2, 5, 4];

/// The lanes of a board.
#[derive(Clone, Copy, Debug)]
pub struct BoardRanks {
    /// Rank of each lane.
    pub ranks: [u16; LANES_PER_BOARD],
    /// A bit for the head of each lane: it is read backwards.
    pub reversed: u8,
    /// Whether there is such a board.
    pub in_use: bool,
}

/// The lanes in their order and, by rank, what turns strips into hits.
#[derive(Clone, Debug)]
pub struct LaneOrder {
    /// Format of the banks.
    pub version: BankVersion,
    /// By board.
    pub boards: Vec<BoardRanks>,
    /// Connected lanes: ranks below this.
    pub n_connected: usize,
    /// By rank.
    pub sources: Vec<LaneSource>,
    /// By group, and one after the last: its first rank.
    pub first_ranks: Vec<u16>,
    /// By rank: the `LHCbID` of strip 0, with [`REVERSED`] and [`FLIPPED`], and with few kinds, the kind in
    /// [`KIND_MASK`].
    pub id: Vec<u32>,
    /// Whether the sectors are of so few kinds that `id` has room for theirs, and tables by kind are short enough for
    /// one window of any level. Else every rank is a kind of its own: a table by kind is one by rank.
    pub few_kinds: bool,
    /// By rank: v4: 1 - the sector's first strip.
    pub first: Vec<f32>,
    /// By rank, as in [`SectorConstants`].
    pub p0_x: Vec<f32>,
    /// By rank.
    pub p0_y: Vec<f32>,
    /// By rank.
    pub p0_z: Vec<f32>,
    /// By kind.
    pub dp0di_x: Vec<f32>,
    /// By kind.
    pub dp0di_y: Vec<f32>,
    /// By kind.
    pub dp0di_z: Vec<f32>,
    /// By kind.
    pub dy: Vec<f32>,
    /// By kind.
    pub dx_dy: Vec<f32>,
    /// By kind.
    pub weight: Vec<f32>,
}

impl LaneOrder {
    /// Orders the lanes of a detector.
    pub fn new(tables: &DetectorTables, options: DecodeOptions) -> Self {
        let version = tables.boards().version;
        let sector_of = |slot: &Slot| &tables.sectors()[usize::from(slot.sector)];
        let mut order: Vec<usize> = (0..tables.slots().len()).collect();
        order.sort_by(|&a, &b| {
            let key = |slot: usize| {
                let lane = &tables.slots()[slot];
                let x = if lane.is_connected() { middle(version, *lane, sector_of(lane), options) } else { 0.0 };
                (!lane.is_connected(), lane.group, x)
            };
            let (a, b) = (key(a), key(b));
            (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2))
        });
        let n_connected = tables.slots().iter().filter(|slot| slot.is_connected()).count();

        let strips_per_hybrid = &tables.boards().strips_per_hybrid;
        let mut boards: Vec<_> = strips_per_hybrid
            .iter()
            .map(|&strips| BoardRanks { ranks: [0; LANES_PER_BOARD], reversed: 0, in_use: strips == STRIPS_PER_SECTOR })
            .collect();
        let mut sources = Vec::with_capacity(order.len());
        let mut id = Vec::with_capacity(order.len() + PADDING);
        for (rank, &slot) in order.iter().enumerate() {
            let (board, lane) = (slot / LANES_PER_BOARD, slot % LANES_PER_BOARD);
            boards[board].ranks[lane] = rank as u16;
            let this = &tables.slots()[slot];
            let sector = sector_of(this);
            let (strip_bits, head, place) = match version {
                BankVersion::V4 => (BACKWARDS | 0x7FF, lane, lane),
                BankVersion::V5 => (BACKWARDS | 0x1FF << 5, usize::from(V5_HEADS[lane]), 8 + 4 * (5 - lane)),
            };
            let reversed = this.is_connected() && is_reversed(version, sector);
            boards[board].reversed |= u8::from(reversed) << head;
            sources.push(LaneSource {
                xor: (rank as u32) << RANK_SHIFT | if reversed { strip_bits } else { 0 },
                head: (HEADS_PER_BOARD * board + head) as u16,
                place: place as u8,
                backwards: -i8::from(reversed),
            });
            let first = match version {
                BankVersion::V4 => this.chan_id,
                BankVersion::V5 => this.chan_id & !0x1FF,
            };
            let reversed = if reversed { REVERSED } else { 0 };
            let flipped = if is_flipped(version, sector) { FLIPPED } else { 0 };
            id.push(UT_ID | first | reversed | flipped);
        }
        id.resize(order.len() + PADDING, 0);

        let connected = &order[..n_connected];
        let groups: Vec<u16> = connected.iter().map(|&slot| tables.slots()[slot].group).collect();
        let first_ranks = (0..=tables.n_groups())
            .map(|group| groups.partition_point(|&of_rank| usize::from(of_rank) < group) as u16)
            .collect();
        let sectors: Vec<_> = connected.iter().map(|&slot| sector_of(&tables.slots()[slot])).collect();
        let column = |sectors: &[&SectorConstants], value: fn(&SectorConstants) -> f32| {
            let mut column: Vec<f32> = sectors.iter().map(|sector| value(sector)).collect();
            column.resize(order.len() + PADDING, 0.0);
            column
        };
        let by_rank = |value| column(&sectors, value);
        let (of_rank, kinds) = kinds(&sectors);
        let few_kinds = kinds.len() <= MAX_KINDS && id.iter().all(|id| id & KIND_MASK == 0);
        if few_kinds {
            for (id, kind) in id.iter_mut().zip(of_rank) {
                *id |= kind as u32;
            }
        }
        let by_kind = |value| column(if few_kinds { &kinds } else { &sectors }, value);
        Self {
            version,
            boards,
            n_connected,
            sources,
            first_ranks,
            id,
            few_kinds,
            first: by_rank(|sector| 1.0 - sector.first_strip as f32),
            p0_x: by_rank(|sector| sector.p0_x),
            p0_y: by_rank(|sector| sector.p0_y),
            p0_z: by_rank(|sector| sector.p0_z),
            dp0di_x: by_kind(|sector| sector.dp0di_x),
            dp0di_y: by_kind(|sector| sector.dp0di_y),
            dp0di_z: by_kind(|sector| sector.dp0di_z),
            dy: by_kind(|sector| sector.dy),
            dx_dy: by_kind(|sector| sector.dx_dy),
            weight: by_kind(|sector| sector.weight),
        }
    }

    /// Sector groups.
    pub fn n_groups(&self) -> usize {
        self.first_ranks.len() - 1
    }

    /// Boards of the table.
    pub fn n_boards(&self) -> usize {
        self.boards.len()
    }

    /// Slots, connected or not.
    pub fn n_ranks(&self) -> usize {
        self.sources.len()
    }
}

/// The kind of each of `sectors`, and a sector of each kind: those of a kind agree in all that is not their place.
fn kinds<'a>(sectors: &[&'a SectorConstants]) -> (Vec<usize>, Vec<&'a SectorConstants>) {
    let mut kinds: Vec<&SectorConstants> = Vec::new();
    let key = |sector: &SectorConstants| {
        let SectorConstants { dp0di_x, dp0di_y, dp0di_z, dy, dx_dy, weight, .. } = sector;
        [dp0di_x, dp0di_y, dp0di_z, dy, dx_dy, weight].map(|value| value.to_bits())
    };
    let of_sector = sectors.iter().map(|sector| {
        kinds.iter().position(|kind| key(kind) == key(sector)).unwrap_or_else(|| {
            kinds.push(sector);
            kinds.len() - 1
        })
    });
    (of_sector.collect(), kinds)
}

const fn is_flipped(version: BankVersion, sector: &SectorConstants) -> bool {
    matches!(version, BankVersion::V5) && sector.flipped != 0
}

/// Whether x falls while the strip number rises.
fn is_reversed(version: BankVersion, sector: &SectorConstants) -> bool {
    is_flipped(version, sector) != (sector.dp0di_x < 0.0)
}

/// x in the middle of a lane.
fn middle(version: BankVersion, slot: Slot, sector: &SectorConstants, options: DecodeOptions) -> f32 {
    let n = match version {
        BankVersion::V4 => 256.0 - sector.first_strip as f32,
        BankVersion::V5 => {
            // Two lanes with 256 strips each read out some of the sectors; bit 8 is set on the second. The middle of a
            // whole sector lies between those of its halves.
            let strip = if slot.chan_id & 0x100 != 0 { 384.0 } else { 128.0 };
            if sector.flipped != 0 { options.flip.origin() - strip } else { strip }
        }
    };
    sector.p0_x + n * sector.dp0di_x
}
