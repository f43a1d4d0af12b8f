//! Look-up of boards and sectors, straight from the contents of the boards and geometry files.
//!
//! Other decoders read the flat arrays that `DetectorTables` derives from these files. If both used
//! the arrays, an error in deriving them would be in both, and no comparison could find it. So the
//! formula for sector ids is here a second time.

use ut_data::detector::{BankVersion, Boards, DetectorTables, Geometry, Lane, Sector};

/// Boards, geometry and grouping, as they are.
#[derive(Clone, Debug)]
pub struct Lookup {
    boards: Boards,
    geometry: Geometry,
    groups: Vec<u16>,
    n_groups: usize,
}

impl Lookup {
    /// Copies the file contents and the grouping out of the tables, and nothing derived.
    pub fn new(tables: &DetectorTables) -> Self {
        Self {
            boards: tables.boards().clone(),
            geometry: tables.geometry().clone(),
            groups: tables.groups().to_vec(),
            n_groups: tables.n_groups(),
        }
    }

    /// Returns the number of boards in the table, used or not.
    pub fn n_boards(&self) -> usize {
        self.boards.strips_per_hybrid.len()
    }

    pub const fn version(&self) -> BankVersion {
        self.boards.version
    }

    pub const fn n_groups(&self) -> usize {
        self.n_groups
    }

    /// Maps a sourceID to a board, as in `docs/format.md`, "From sourceID to board"; `None` for
    /// boards that do not exist or are not in use.
    pub fn board(&self, source_id: u32) -> Option<usize> {
        let board = if source_id >> 11 != 0 {
            let tell40 = source_id & 0xFF;
            let flow = (source_id >> 10) & 1;
            if tell40 == 0 {
                return None;
            }
            (tell40 - 1) * 2 + flow
        } else {
            source_id
        };
        let board = board as usize;
        (board < self.n_boards() && self.boards.strips_per_hybrid[board] > 0).then_some(board)
    }

    /// Returns the number of strips per hybrid, which is not 0 for a board from
    /// [`board`](Self::board).
    pub fn strips_per_hybrid(&self, board: usize) -> u32 {
        self.boards.strips_per_hybrid[board]
    }

    /// Returns the `ChannelID` of the slot's first strip; 0 if the slot is not connected.
    pub fn chan_id(&self, slot: usize) -> u32 {
        self.boards.lanes[slot].chan_id
    }

    pub fn sector(&self, slot: usize) -> &Sector {
        &self.geometry.sectors[sector_id(&self.boards.lanes[slot])]
    }

    pub fn first_strip(&self, slot: usize) -> u32 {
        self.sector(slot).first_strip
    }

    /// Returns true if the strips are numbered against the coordinate, which the sign of p0Z says.
    pub fn is_flipped(&self, slot: usize) -> bool {
        self.sector(slot).p0_z < 0.0
    }

    pub fn group(&self, slot: usize) -> u16 {
        self.groups[sector_id(&self.boards.lanes[slot])]
    }
}

/// Computes the sector id, as in `docs/format.md`, "Sector ids". The formula is computed with
/// signed numbers, because its terms may be negative before they are added up.
fn sector_id(lane: &Lane) -> usize {
    let [sector, module, face, stave, layer, side] = [
        lane.sector,
        lane.module,
        lane.face,
        lane.stave,
        lane.layer,
        lane.side,
    ]
    .map(i64::from);
    let m = 2 * module + (1 - face);
    let st = if side == 1 {
        stave
    } else {
        7 + layer / 2 - stave
    };
    let n_outer = if layer < 2 { 6 } else { 7 };
    let half_layer = 2 * layer + side;
    let base = if half_layer < 4 {
        124 * half_layer
    } else {
        496 + 138 * (half_layer - 4)
    };
    let id = match stave {
        0 => {
            let place = match m {
                ..5 => m,
                5..8 => 5 + 2 * (m - 5) + sector,
                8..11 => 11 + 2 * (m - 8) + (1 - sector),
                _ => 17 + (m - 11),
            };
            base + (1 - side) * (14 * n_outer + 18) + place
        }
        1 => {
            let place = match m {
                ..5 => m,
                5..9 => 5 + 2 * (m - 5) + sector,
                9..11 => 9 + 2 * (m - 9) + (1 - sector),
                _ => 13 + (m - 11),
            };
            base + (1 - side) * 14 * n_outer + side * 22 + place
        }
        _ => base + m - 2 * (module / 4) + (1 - side) * 14 * st + side * (40 + 14 * (stave - 2)),
    };
    usize::try_from(id).expect("the tables hold lanes whose sector exists")
}
