//! Cabling of the synthetic UT: the sector that each lane of each board reads. It is regular,
//! unlike the UT's own.
//!
//! v5: the 16 quarters (layer, side, lower or upper half) have 13 boards each in the first two
//! layers and 14 each in the other two. A quarter's lanes are dealt out by their distance from the
//! beam, five or six to a board: a bank is as long as its fullest lane, so lanes of like occupancy
//! belong together. The sectors that see most have two lanes.
//!
//! v4: 30 board ids for each half-layer, of which the first 22 (first two layers) or 23 are used;
//! the sectors are dealt out in the order of their ids, five or six to a board.
//!
//! In numbers, v5: 8 · 13 + 8 · 14 = 216 boards. A quarter has 62 sectors in the first two layers
//! and 69 in the others, of which nine have two lanes, so 71 or 78 lanes share its boards. In all,
//! 1048 and 16 · 9 lanes are connected, 1192. The order of the boards is side C before side A.

use super::geometry::geometry;
use crate::detector::{
    BankVersion, Boards, LANES_PER_BOARD, Lane, STRIPS_PER_SECTOR, SUB_SECTOR_BIT, Sector,
    lanes_by_sector,
};

/// Board ids of a v4 half-layer, used or not.
const V4_IDS_OF_HALF_LAYER: usize = 30;

/// Returns the board table of a read-out format.
pub(super) fn boards(version: BankVersion) -> Boards {
    match version {
        BankVersion::V4 => v4(),
        BankVersion::V5 => v5(),
    }
}

/// Returns the sourceID of a board. For v4, as in simulation, it is the number of the board. For v5
/// it follows Run 3: five bits for the side (5 is A, 6 is C), bit 10 for the data flow, and in the
/// low byte the number of the TELL40, counted from 1. Each TELL40 has two boards.
///
/// *Example.* Board 3 is on side C and the second board of its TELL40, number 2: 6 << 11 | 1 << 10
/// | 2 = 0x3402.
pub(super) fn source_id(boards: &Boards, board: usize) -> u16 {
    if boards.version == BankVersion::V4 {
        return board as u16;
    }
    let side = boards.lanes[board * LANES_PER_BOARD].side;
    let subdetector = if side == 1 { 5 } else { 6 };
    subdetector << 11 | (board as u16 & 1) << 10 | (board as u16 / 2 + 1)
}

/// Returns true if a sector sees so much that a lane reads only half of it: in each quarter the six
/// half-width sectors of stave 0 nearest to the beam, the two of stave 1, and one of stave 2.
pub(super) fn has_two_lanes(lane: &Lane) -> bool {
    // Rows counted from y = 0 outwards: 0 next to the beam.
    let row = if lane.module >= 4 {
        lane.module - 4
    } else {
        3 - lane.module
    } * 2
        + if lane.module >= 4 {
            1 - lane.face
        } else {
            lane.face
        };
    match lane.stave {
        0 => row <= 2,
        1 | 2 => row <= 1,
        _ => false,
    }
}

fn v5() -> Boards {
    let sectors = lanes_by_sector();
    let places = geometry(BankVersion::V5, 0).sectors;
    let mut lanes = Vec::new();
    for side in 0..2 {
        for layer in 0..4 {
            for upper in [false, true] {
                let mut quarter = Vec::new();
                for (id, &lane) in sectors.iter().enumerate() {
                    if (lane.side, lane.layer, lane.module >= 4) != (side, layer, upper) {
                        continue;
                    }
                    quarter.push((id, lane));
                    if has_two_lanes(&lane) {
                        quarter.push((
                            id,
                            Lane {
                                chan_id: lane.chan_id | SUB_SECTOR_BIT,
                                ..lane
                            },
                        ));
                    }
                }
                // Stable: the two lanes of a sector stay together.
                quarter.sort_by(|a, b| radius2(&places[a.0]).total_cmp(&radius2(&places[b.0])));
                let quarter: Vec<_> = quarter.into_iter().map(|(_, lane)| lane).collect();
                deal(&mut lanes, &quarter, if layer < 2 { 13 } else { 14 });
            }
        }
    }
    let strips_per_hybrid = vec![STRIPS_PER_SECTOR; lanes.len() / LANES_PER_BOARD];
    Boards {
        version: BankVersion::V5,
        strips_per_hybrid,
        lanes,
    }
}

fn v4() -> Boards {
    let sectors = lanes_by_sector();
    let mut lanes = Vec::new();
    let mut strips_per_hybrid = Vec::new();
    for layer in 0..4 {
        for side in 0..2 {
            let half_layer: Vec<_> = sectors
                .iter()
                .copied()
                .filter(|lane| (lane.layer, lane.side) == (layer, side))
                .collect();
            let used = if layer < 2 { 22 } else { 23 };
            deal(&mut lanes, &half_layer, used);
            strips_per_hybrid.extend(
                (0..V4_IDS_OF_HALF_LAYER).map(|i| if i < used { STRIPS_PER_SECTOR } else { 0 }),
            );
            lanes.resize(strips_per_hybrid.len() * LANES_PER_BOARD, Lane::default());
        }
    }
    Boards {
        version: BankVersion::V4,
        strips_per_hybrid,
        lanes,
    }
}

/// Appends `n_boards` boards that share `lanes` as evenly as can be, in order.
fn deal(to: &mut Vec<Lane>, lanes: &[Lane], n_boards: usize) {
    for board in 0..n_boards {
        let share = &lanes[board * lanes.len() / n_boards..(board + 1) * lanes.len() / n_boards];
        debug_assert!(share.len() <= LANES_PER_BOARD);
        to.extend(share);
        to.resize(to.len() + LANES_PER_BOARD - share.len(), Lane::default());
    }
}

/// Returns the square of a sector's distance from the beam, mm².
pub(super) fn radius2(sector: &Sector) -> f64 {
    let half = f64::from(STRIPS_PER_SECTOR - 1) / 2.0;
    let x = f64::from(sector.p0_x) + half * f64::from(sector.dp0di_x);
    let y = f64::from(sector.p0_y) + half * f64::from(sector.dp0di_y) + f64::from(sector.dy) / 2.0;
    x * x + y * y
}
