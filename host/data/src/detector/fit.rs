//! Check that boards and geometry are tables of one detector.

use super::sectors::lanes_by_sector;
use super::{BankVersion, Geometry, LAYER_NAMES, Lane, N_LAYERS, TablesError, sectors_of_layer};

/// Distance between neighbouring staves and between neighbouring rows of sensors, mm.
const PITCH: f32 = 95.6;

/// |x| of the middle of the staves next to the beam, mm.
const FIRST_STAVE: f32 = 47.0;

/// Distance in x and y from its regular place beyond which a sector is another one, mm. Half-width sectors lie 24 mm
/// off the middle of their stave, half-height ones off that of their row; detector descriptions differ by the rest.
const TOLERANCE: f32 = 35.0;

/// Checks that a geometry is that of the UT, in the form that decoders of banks of `version` expect:
/// - every sector is within 35 mm of where its side, stave and module say, and the layers follow each other in z;
/// - v5: the sectors whose strips run against x, by their face, half and side, are marked as flipped, and no others are;
/// - v4: no sector is, because the simulation numbers the strips of all along x.
pub(super) fn check(version: BankVersion, geometry: &Geometry) -> Result<(), TablesError> {
    let unfit = |why: String| {
        let what = format!("does not fit boards of format {}: {why}", version.name());
        TablesError::bad("geometry", None, what)
    };
    let lanes = lanes_by_sector();
    for (id, lane) in lanes.iter().enumerate() {
        let sector = &geometry.sectors[id];
        let x = sector.p0_x + 256.0 * sector.dp0di_x;
        let y = sector.p0_y + 256.0 * sector.dp0di_y + sector.dy / 2.0;
        let (expected_x, expected_y) = middle(lane);
        if (x - expected_x).abs() > TOLERANCE || (y - expected_y).abs() > TOLERANCE {
            let place = format!("({x:.0}, {y:.0}) mm in x and y, and its channel is mounted near");
            return Err(unfit(format!("sector {id} is at {place} ({expected_x:.0}, {expected_y:.0}) mm")));
        }
    }
    let z_of = |layer: usize| geometry.sectors[sectors_of_layer(layer)].iter().map(|sector| sector.p0_z.abs());
    for layer in 1..N_LAYERS {
        let (before, behind) = (z_of(layer - 1).fold(0.0, f32::max), z_of(layer).fold(f32::INFINITY, f32::min));
        if before >= behind {
            let [a, b] = [LAYER_NAMES[layer - 1], LAYER_NAMES[layer]];
            return Err(unfit(format!("{a} reaches to z = {before:.0} mm, and {b} begins at {behind:.0} mm")));
        }
    }
    let expected = |id: usize| version == BankVersion::V5 && is_mounted_flipped(&lanes[id]);
    let wrong = |id: &usize| geometry.sectors[*id].is_flipped() != expected(*id);
    let n_wrong = (0..lanes.len()).filter(wrong).count();
    if n_wrong == 0 {
        return Ok(());
    }
    let marked = geometry.sectors.iter().filter(|sector| sector.is_flipped()).count();
    let meant = (0..lanes.len()).filter(|&id| expected(id)).count();
    Err(unfit(format!(
        "it marks {marked} sectors as flipped (negative p0Z), and {meant} are expected: {n_wrong} sectors would have their \
         strips numbered from the wrong end"
    )))
}

/// Returns true if a sector's strips are numbered against x, by its face and half of the stave and its side.
pub(crate) fn is_mounted_flipped(lane: &Lane) -> bool {
    ((lane.face == 1) != (lane.module >= 4)) != (lane.side == 1)
}

/// Middle of the regular place of a sector in x and y, mm.
fn middle(lane: &Lane) -> (f32, f32) {
    let outward = if lane.side == 1 { 1.0 } else { -1.0 };
    let row = match 2 * lane.module + 1 - lane.face {
        // Stave 0 has rows of half the height next to the beam, of which the inner ones are the rows 7 and 8.
        m @ 0..7 => m as f32 - 6.5,
        m @ 9.. => m as f32 - 8.5,
        _ => 0.0,
    };
    (outward * (FIRST_STAVE + PITCH * lane.stave as f32), PITCH * row)
}
