//! Sector ids: the numbers 0…1047 of the UT's sectors, which give the order of a geometry table
//! (`docs/format.md`).
//!
//! The sectors of a half-layer are numbered stave by stave along x, and inside a stave along y. The
//! outer staves have 14 sectors; near the beam some sensors are cut in two, so that stave 1 has 18
//! sectors and stave 0 has 22.
//!
//! So a half-layer of the first two layers has 6 · 14 + 18 + 22 = 124 sectors. The other two layers
//! have one more outer stave on each side and 138 sectors per half-layer, which makes 4 · 124 + 4 ·
//! 138 = 1048.
//!
//! *Example.* Side 0, layer 0, stave 0, face 0, module 3, sector 1: the place along the stave is 2
//! · 3 + 1 = 7, the place in the column is 5 + 2 · (7 − 5) + 1 = 10, and 14 · 6 + 18 sectors of
//! other staves come before: id 112.

use super::{Lane, N_LAYERS};

/// Returns the ids of the sectors of a layer, 0…3.
pub const fn sectors_of_layer(layer: usize) -> std::ops::Range<usize> {
    const STARTS: [usize; N_LAYERS + 1] = [0, 248, 496, 772, 1048];
    STARTS[layer]..STARTS[layer + 1]
}

/// Returns the layer, 0…3, of a sector id; 3 for ids beyond the last sector.
pub const fn layer_of(sector: usize) -> usize {
    match sector {
        0..248 => 0,
        248..496 => 1,
        496..772 => 2,
        _ => 3,
    }
}

/// Returns the place along its stave of a lane of an existing sector, 0…15.
pub const fn place_on_stave(lane: &Lane) -> u32 {
    2 * lane.module + (1 - lane.face)
}

/// Returns true if place `m`, 0…15, along a stave has two sectors of half the width side by side,
/// as places near the beam do.
pub const fn is_cut_in_two(stave: u32, m: u32) -> bool {
    match stave {
        0 => 5 <= m && m <= 10,
        1 => m == 5 || m == 6 || m == 9 || m == 10,
        _ => false,
    }
}

/// Returns the sector id of a lane, 0…1047; `None` if there is no such sector. The id depends on
/// all fields except type and `ChannelID`, and identifies them.
pub const fn sector_id(lane: &Lane) -> Option<u16> {
    let &Lane {
        sector,
        module,
        face,
        stave,
        layer,
        side,
        ..
    } = lane;
    if sector > 1 || module > 7 || face > 1 || layer > 3 || side > 1 || stave > 7 + layer / 2 {
        return None;
    }
    let m = place_on_stave(lane);
    // Places 7 and 8, in the middle of a stave, exist on stave 0 only.
    if stave > 0 && (m == 7 || m == 8) {
        return None;
    }
    if sector == 1 && !is_cut_in_two(stave, m) {
        return None;
    }

    let half_layer = 2 * layer + side;
    let base = if half_layer < 4 {
        124 * half_layer
    } else {
        496 + 138 * (half_layer - 4)
    };
    // Staves with 14 sectors in the half-layer. On side C the ids run towards the beam, on side A
    // away from it.
    let n_outer = 6 + layer / 2;
    // Places that are cut in two count twice. Below the middle of the stave sector 0 has the
    // smaller id, above the middle sector 1.
    let id = match stave {
        0 => {
            let place = match m {
                0..5 => m,
                5..8 => 5 + 2 * (m - 5) + sector,
                8..11 => 11 + 2 * (m - 8) + (1 - sector),
                _ => 17 + (m - 11),
            };
            base + (1 - side) * (14 * n_outer + 18) + place
        }
        1 => {
            let place = match m {
                0..5 => m,
                5..9 => 5 + 2 * (m - 5) + sector,
                9..11 => 9 + 2 * (m - 9) + (1 - sector),
                _ => 13 + (m - 11),
            };
            base + (1 - side) * 14 * n_outer + side * 22 + place
        }
        _ => {
            let place = m - 2 * (module / 4);
            let column = if side == 1 {
                stave - 2
            } else {
                7 + layer / 2 - stave
            };
            base + side * 40 + 14 * column + place
        }
    };
    Some(id as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_lane() -> impl Iterator<Item = Lane> {
        (0..1 << 12).map(|bits: u32| Lane {
            sector: bits & 1,
            module: bits >> 1 & 7,
            face: bits >> 4 & 1,
            stave: bits >> 5 & 15,
            layer: bits >> 9 & 3,
            side: bits >> 11 & 1,
            kind: 2,
            chan_id: 1,
        })
    }

    #[test]
    fn sector_ids_identify_the_existing_sectors() {
        let with_layer = |lane: Lane| Some((sector_id(&lane)?, lane.layer as usize));
        let (mut ids, layers): (Vec<_>, Vec<_>) = every_lane().filter_map(with_layer).unzip();
        assert!(ids.iter().map(|&id| layer_of(id.into())).eq(layers));
        ids.sort_unstable();
        assert_eq!(ids, (0..1048).collect::<Vec<u16>>());
    }
}
