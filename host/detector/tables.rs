//! Boards, geometry and grouping in one, flattened to what a hot loop reads.

use super::{Boards, Geometry, Grouping, Sector, SectorConstants, Slot, TablesError, sector_id};

/// Everything a decoder looks up. Built once, immutable.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectorTables {
    /// The boards that the tables were made from.
    pub boards: Boards,
    /// The geometry that the tables were made from.
    pub geometry: Geometry,
    /// The grouping that `groups` follows.
    pub grouping: Grouping,
    /// Sector → group.
    pub groups: Vec<u16>,
    /// Groups of an event.
    pub n_groups: usize,
    /// Slot → channel, sector, group; 6 a board.
    pub slots: Vec<Slot>,
    /// Sector → constants of the hit formulas.
    pub sectors: Vec<SectorConstants>,
}

impl DetectorTables {
    /// Builds the tables.
    ///
    /// # Errors
    /// When boards or geometry, whose fields anybody may have set, do not pass [`Boards::validate`] and
    /// [`Geometry::validate`]; the errors call them "boards" and "geometry".
    pub fn new(boards: Boards, geometry: Geometry, grouping: Grouping) -> Result<Self, TablesError> {
        boards.validate("boards")?;
        geometry.validate("geometry")?;
        let (groups, n_groups) = grouping.groups(&geometry);
        let slots = boards
            .lanes
            .iter()
            .map(|lane| match sector_id(lane) {
                Some(sector) if lane.is_connected() => {
                    Slot { chan_id: lane.chan_id, sector, group: groups[usize::from(sector)] }
                }
                _ => Slot::default(),
            })
            .collect();
        let sectors = geometry.sectors.iter().map(constants).collect();
        Ok(Self { boards, geometry, grouping, groups, n_groups, slots, sectors })
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
