//! Place of a hit in the detector.

use ut_decoding::detector::{DetectorTables, LhcbId};

use crate::memory::{Array, check_apart, reference};
use crate::status::{UtStatus, guarded};
use crate::tables::UtTables;

/// Place of a hit: the fields of its LHCbID, and the tables' entries for its strip; docs/columns.md explains them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtPlace {
    /// Sector id, 0 to 1047; 65535 where the detector has no such sector.
    pub sector_id: u16,
    /// Strip of the sector, 0 to 511.
    pub strip: u16,
    /// 0 to 3: UTaX, UTaU, UTbV, UTbX.
    pub layer: u8,
    /// 0: C, x < 0; 1: A.
    pub side: u8,
    /// Stave of the half-layer, 0 to 8, counted from the beam.
    pub stave: u8,
    /// Face of the stave, 0 or 1.
    pub face: u8,
    /// Module of the stave, 0 to 7.
    pub module: u8,
    /// Sector of the module, 0 or 1.
    pub sector: u8,
    /// Board that reads the strip; 255 where none does.
    pub board: u8,
    /// Lane of the board, 0 to 5; 255 where none reads the strip.
    pub lane: u8,
    /// 1: the sector's strips are numbered against x.
    pub flipped: u8,
    /// Reserved: 0.
    pub reserved: u8,
}

fn place(tables: &DetectorTables, id: u32) -> UtPlace {
    let channel = LhcbId(id).channel();
    let sector = tables.sector_of(channel);
    let known = sector.map(|sector| &tables.places()[usize::from(sector)]);
    let lane = known.and_then(|place| place.lane_of(channel.strip()));
    UtPlace {
        sector_id: sector.unwrap_or(u16::MAX),
        strip: channel.strip(),
        layer: channel.layer(),
        side: channel.side(),
        stave: channel.stave(),
        face: channel.face(),
        module: channel.module(),
        sector: channel.sector(),
        board: lane.map_or(u8::MAX, |lane| lane.board),
        lane: lane.map_or(u8::MAX, |lane| lane.lane),
        flipped: known.is_some_and(|place| place.flipped).into(),
        reserved: 0,
    }
}

/// Writes the place of each of the `n` LHCbIDs at `ids`, as decoded, to `places`. Charge and strips of a cluster are in
/// `UtHits.clusters`.
///
/// # Safety
/// - `tables` is NULL, or was made by this library and is not freed.
/// - `ids` is NULL or can be read for `n` words.
/// - `places` is NULL or can be written for `n` places, and nothing else uses them during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ut_tables_places(
    tables: *const UtTables,
    ids: *const u32,
    n: usize,
    places: *mut UtPlace,
) -> UtStatus {
    guarded(|| {
        // SAFETY: as the caller says.
        let tables = &unsafe { reference("tables", tables) }?.tables;
        let (ids, places) = (Array::new("ids", ids, n)?, Array::new("places", places, n)?);
        check_apart(&[places.place()], &[ids.place()])?;
        // SAFETY: each is NULL or of `n` elements that can be read, and nothing else uses the places, as the caller
        // says; the arrays do not overlap, as was checked.
        let (ids, places) = unsafe { (ids.slice(), places.slice_mut()) };
        places.iter_mut().zip(ids).for_each(|(to, &id)| *to = place(tables, id));
        Ok(())
    })
}
