//! Positions of the sectors of the synthetic UT, computed from how the UT is built.
//!
//! - Four layers at fixed z; the two in the middle are turned by ±5° (stereo layers).
//! - A layer has two sides, and a side has 8 or 9 staves; neighbouring staves overlap in x and
//!   alternate in z by 15 mm.
//! - A stave carries sensors on both faces, 6.3 mm apart in z, in rows with a pitch of 95.6 mm in
//!   y, so that sensors of neighbouring rows overlap in y. The sensors of the upper half are
//!   mounted the other way round than the sensors of the lower half.
//! - Near the beam a row has two sectors of half the width (and half the pitch) side by side, and
//!   on stave 0 rows are half as high, too.
//! - A sector is flipped (strips numbered against x) by the face and half it sits on and the side
//!   of the detector.
//!
//! All of it in f64, with constants for the functions of 5°: the same bits on every machine.

use crate::detector::{
    BankVersion, DX_DY, Geometry, Lane, STRIPS_PER_SECTOR, Sector, is_cut_in_two,
    is_mounted_flipped, lanes_by_sector, place_on_stave,
};

/// cos 5° and sin 5°.
const COS: f64 = 0.996_194_698_091_745_5;
const SIN: f64 = 0.087_155_742_747_658_18;

/// Sense of the rotation by layer.
const TURN: [f64; 4] = [0.0, -1.0, 1.0, 0.0];

/// z of the middle of each layer, mm.
const LAYER_Z: [f64; 4] = [2317.5, 2372.5, 2597.5, 2652.5];

/// Half the distance in z between neighbouring staves, mm.
const STAVE_DZ: f64 = 7.5;

/// Half the distance in z between the two faces of a stave, mm.
const FACE_DZ: f64 = 3.1536;

/// Middle of the staves 0, 1 and 2 in x; further ones follow at [`STAVE_PITCH`]. mm.
const INNER_STAVES_X: [f64; 3] = [47.0, 142.3, 237.6];

/// Distance of the outer staves in x, mm.
const STAVE_PITCH: f64 = 95.9;

/// Distance of the rows of sensors in y, mm.
const ROW_PITCH: f64 = 95.6;

/// Length of a strip of a whole and of a half-height sensor, mm.
const STRIP: f64 = 97.4;
const SHORT_STRIP: f64 = 49.6;

/// Distance between strips, mm; half of it where two sectors share a row.
const PITCH: f64 = 0.1873;

/// Distance between the middles of two sectors that share a row, mm.
const HALF_WIDTH: f64 = 47.95;

/// Returns the geometry in file version 0 or 1 for a bank format. With v4 banks no sector is
/// flipped, as in the simulation that wrote them.
pub(super) fn geometry(banks: BankVersion, version: u16) -> Geometry {
    let mut sectors: Vec<Sector> = lanes_by_sector().iter().map(place).collect();
    if banks == BankVersion::V4 {
        for sector in &mut sectors {
            sector.p0_z = sector.p0_z.abs();
        }
    }
    Geometry { version, sectors }
}

fn place(lane: &Lane) -> Sector {
    let &Lane {
        sector,
        module,
        face,
        stave,
        layer,
        side,
        ..
    } = lane;
    let layer = layer as usize;
    let turn = TURN[layer];
    let (cos, sin) = if turn == 0.0 {
        (1.0, 0.0)
    } else {
        (COS, turn * SIN)
    };
    let upper = module >= 4;
    let outward = if side == 1 { 1.0 } else { -1.0 };
    let flipped = is_mounted_flipped(lane);
    let m = place_on_stave(lane);
    let half_width = is_cut_in_two(stave, m);

    // Middle of the sector in the frame of its stave: u across, v along.
    let pitch = if half_width { PITCH / 2.0 } else { PITCH };
    let u = match (half_width, (sector == 1) != flipped) {
        (false, _) => 0.0,
        (true, false) => -HALF_WIDTH / 2.0,
        (true, true) => HALF_WIDTH / 2.0,
    };
    // Rows counted from y = 0 outwards. Stave 0 has four half-height rows next to the beam pipe,
    // two on each half.
    let row = if upper { m - 8 } else { 7 - m };
    let up = if upper { 1.0 } else { -1.0 };
    let short = stave == 0 && row < 2;
    let (v, length) = if short {
        (up * ROW_PITCH / 2.0 * (f64::from(row) + 0.5), SHORT_STRIP)
    } else {
        (up * ROW_PITCH * (f64::from(row) - 0.5), STRIP)
    };

    // Middle of the stave. Stave 0 is turned about the beam, the others, moved out of its way,
    // about their middles.
    let x_vertical = match INNER_STAVES_X.get(stave as usize) {
        Some(&x) => x,
        None => INNER_STAVES_X[2] + STAVE_PITCH * f64::from(stave - 2),
    };
    let (x_stave, y_stave) = match (turn == 0.0, stave) {
        (true, _) => (outward * x_vertical, 0.0),
        (false, 0) => (outward * x_vertical * cos, outward * x_vertical * sin),
        (false, _) => (
            outward * (x_vertical + INNER_STAVES_X[0] * (1.0 / cos - 1.0)),
            0.0,
        ),
    };

    // From the middle of the sector to the lower end of strip 0.
    let half = f64::from(STRIPS_PER_SECTOR - 1) / 2.0;
    let dp0di_x = pitch / cos;
    let dp0di_y = pitch * sin;
    let dy = length * cos;
    // `p0_x` is where strip 0 crosses y = 0 if it is extended, as the hit formula has it, so v does
    // not enter. `p0_y` is the lower end of the strip itself.
    let p0_x = x_stave + u / cos - half * dp0di_x;
    let p0_y = y_stave + v * cos + u * sin - half * dp0di_y - dy / 2.0;

    let stave_z = if (stave % 2 == 0) == (side == 1) {
        STAVE_DZ
    } else {
        -STAVE_DZ
    };
    let face_z = if (face == 0) == (side == 1) {
        FACE_DZ
    } else {
        -FACE_DZ
    };
    let z = LAYER_Z[layer] + stave_z + face_z;
    Sector {
        first_strip: 1,
        pitch: pitch as f32,
        dy: dy as f32,
        dp0di_x: dp0di_x as f32,
        dp0di_y: dp0di_y as f32,
        dp0di_z: 0.0,
        p0_x: p0_x as f32,
        p0_y: p0_y as f32,
        p0_z: if flipped { -z } else { z } as f32,
        cos: cos as f32,
        dx_dy: DX_DY[layer],
    }
}
