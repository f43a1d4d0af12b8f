//! Check that boards and geometry are tables of one detector.
//!
//! The two tables come from different places, and a wrong pair fails silently: LHCbIDs follow from
//! the boards alone, so they would be right while every position is wrong. A geometry with the
//! opposite convention for flipped sectors moves a hit by up to the width of a sector, 96 mm.
//!
//! Hence the checks compare the geometry with how the UT is built. They go from coarse to fine: a
//! sector at the place of another sector, a wrong step from strip to strip, a wrong layer, a sector
//! moved inside its stave, and at last the flipped sectors.

use std::collections::BTreeMap;

use super::sectors::lanes_by_sector;
use super::{
    BankVersion, Geometry, LAYER_NAMES, Lane, N_LAYERS, Sector, TablesError, layer_of,
    sectors_of_layer,
};

/// Distance between neighbouring staves and between neighbouring rows of sensors, mm.
const PITCH: f32 = 95.6;

/// |x| of the middle of the staves next to the beam, mm.
const FIRST_STAVE: f32 = 47.0;

/// Largest distance in x and y between a sector and its regular place, mm. Half-width sectors lie
/// 24 mm off the middle of their stave, half-height sectors 24 mm off the middle of their row; the
/// rest is for differences between detector descriptions.
const TOLERANCE: f32 = 35.0;

/// Largest distance between a sector and the place that the others of its stave suggest, mm. In
/// real geometries it is at most 4 mm.
const OF_STAVE: f32 = 10.0;

/// Distance of a sector of half the width or height from the middle of its stave or row, mm.
const HALF: f32 = 24.0;

/// Width or height below which a sector has half the size, mm.
const WHOLE: f32 = 70.0;

/// |z| of the middle of each layer, and the largest distance of a sector from it, mm.
const Z_OF_LAYER: [f32; N_LAYERS] = [2322.0, 2372.0, 2597.0, 2647.0];
const Z_TOLERANCE: f32 = 45.0;

/// Largest relative difference between the pitch and the step from strip to strip. In the stereo
/// layers it is 0.8 %, because `dp0diX` is the step at fixed y, pitch / cos 5°, and `dp0diY` comes
/// on top; elsewhere it is 0.
const PITCH_TOLERANCE: f32 = 0.02;

/// Checks that a geometry describes the UT, in the form that decoders of banks of `version` expect:
/// - Every sector is within 35 mm of the regular place of its side, stave and module, within 10 mm
///   of the place that the others of its stave suggest, and in z within 45 mm of the middle of its
///   layer. The layers follow each other in z.
/// - The pitch of a sector equals the step from strip to strip, to 2 %.
/// - v5: exactly the sectors whose strips run against x, by their face, half and side, are marked
///   as flipped.
/// - v4: no sector is flipped, because the simulation numbers all strips along x.
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
            return Err(unfit(format!(
                "sector {id} is at {place} ({expected_x:.0}, {expected_y:.0}) mm"
            )));
        }
    }
    for (id, sector) in geometry.sectors.iter().enumerate() {
        // Not `hypot`, which would need a newer C library than Enterprise Linux 9 has.
        let step = (sector.dp0di_x * sector.dp0di_x + sector.dp0di_y * sector.dp0di_y).sqrt();
        let pitch = sector.pitch;
        if (pitch - step).abs() > PITCH_TOLERANCE * pitch {
            return Err(unfit(format!(
                "sector {id} has a pitch of {pitch} mm, and steps of {step} mm from strip to strip"
            )));
        }
        let (z, expected) = (sector.p0_z.abs(), Z_OF_LAYER[layer_of(id)]);
        if (z - expected).abs() > Z_TOLERANCE {
            return Err(unfit(format!(
                "sector {id} is at |z| = {z:.0} mm, and its layer is near {expected:.0} mm"
            )));
        }
    }
    if let Some((id, of, distance)) = misplaced(&lanes, geometry) {
        return Err(unfit(format!(
            "sector {id} is {distance:.0} mm in {of} from the place that the others of its stave \
             suggest"
        )));
    }
    let z_of = |layer: usize| {
        geometry.sectors[sectors_of_layer(layer)]
            .iter()
            .map(|sector| sector.p0_z.abs())
    };
    for layer in 1..N_LAYERS {
        let (before, behind) = (
            z_of(layer - 1).fold(0.0, f32::max),
            z_of(layer).fold(f32::INFINITY, f32::min),
        );
        if before >= behind {
            let [a, b] = [LAYER_NAMES[layer - 1], LAYER_NAMES[layer]];
            return Err(unfit(format!(
                "{a} reaches to z = {before:.0} mm, and {b} begins at {behind:.0} mm"
            )));
        }
    }
    let expected = |id: usize| version == BankVersion::V5 && is_mounted_flipped(&lanes[id]);
    let wrong = |id: &usize| geometry.sectors[*id].is_flipped() != expected(*id);
    let n_wrong = (0..lanes.len()).filter(wrong).count();
    if n_wrong == 0 {
        return Ok(());
    }
    let marked = geometry
        .sectors
        .iter()
        .filter(|sector| sector.is_flipped())
        .count();
    let meant = (0..lanes.len()).filter(|&id| expected(id)).count();
    Err(unfit(format!(
        "it marks {marked} sectors as flipped (negative p0Z), but {meant} are expected: {n_wrong} \
         sectors would have their \
         strips numbered from the wrong end"
    )))
}

/// Returns the first sector that is not at the place that the others of its stave suggest, with the
/// axis and the distance in mm.
fn misplaced(lanes: &[Lane], geometry: &Geometry) -> Option<(usize, &'static str, f32)> {
    type Axis = (&'static str, fn(&Lane, &Sector) -> (f32, bool));
    // Distance from the regular place, and whether the sector is a half one that lies off the
    // middle.
    let axes: [Axis; 3] = [
        ("x", |lane, sector| {
            (
                sector.p0_x + 256.0 * sector.dp0di_x - middle(lane).0,
                512.0 * sector.dp0di_x.abs() < WHOLE,
            )
        }),
        ("y", |lane, sector| {
            (
                sector.p0_y + 256.0 * sector.dp0di_y + sector.dy / 2.0 - middle(lane).1,
                sector.dy.abs() < WHOLE,
            )
        }),
        ("z", |_, sector| (sector.p0_z.abs(), false)),
    ];
    for (axis, place) in axes {
        let mut staves = BTreeMap::<_, Vec<(usize, f32, bool)>>::new();
        for (id, lane) in lanes.iter().enumerate() {
            // The two faces of a stave differ in z.
            let face = if axis == "z" { lane.face } else { 0 };
            let (offset, is_half) = place(lane, &geometry.sectors[id]);
            staves
                .entry((lane.layer, lane.side, lane.stave, face))
                .or_default()
                .push((id, offset, is_half));
        }
        for sectors in staves.values() {
            let mut whole: Vec<f32> = sectors
                .iter()
                .filter(|(.., is_half)| !is_half)
                .map(|&(_, at, _)| at)
                .collect();
            whole.sort_unstable_by(f32::total_cmp);
            // A median, so that one misplaced sector is found and does not move the place that it
            // is compared with.
            let Some(&median) = whole.get(whole.len() / 2) else {
                continue;
            };
            for &(id, at, is_half) in sectors {
                let distance = (at - median).abs();
                let distance = if is_half {
                    (distance - HALF).abs()
                } else {
                    distance
                };
                if distance > OF_STAVE {
                    return Some((id, axis, distance));
                }
            }
        }
    }
    None
}

/// Returns true if a sector's strips are numbered against x, by its face and half of the stave and
/// its side.
pub(crate) fn is_mounted_flipped(lane: &Lane) -> bool {
    ((lane.face == 1) != (lane.module >= 4)) != (lane.side == 1)
}

/// Returns the middle of the regular place of a sector in x and y, mm.
fn middle(lane: &Lane) -> (f32, f32) {
    let outward = if lane.side == 1 { 1.0 } else { -1.0 };
    let row = match 2 * lane.module + 1 - lane.face {
        // Stave 0 has rows of half the height next to the beam, of which the inner ones are the
        // rows 7 and 8.
        m @ 0..7 => m as f32 - 6.5,
        m @ 9.. => m as f32 - 8.5,
        _ => 0.0,
    };
    (
        outward * (FIRST_STAVE + PITCH * lane.stave as f32),
        PITCH * row,
    )
}
