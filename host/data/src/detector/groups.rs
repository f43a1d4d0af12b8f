//! Sector groups: hits are output per group and sorted inside it (`docs/format.md`, "Sector
//! groups").
//!
//! The order inside a group is by x. So the choice of groups decides how far a decoder must sort,
//! and which hits a tracking algorithm finds next to each other. Nothing else depends on it: the
//! hits are the same in both groupings, with the same LHCbIDs and positions.

use super::{Geometry, N_LAYERS, sectors_of_layer};
use crate::named;

/// Rule by which sectors form groups; hits are sorted within a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Grouping {
    /// 72 rows in y, 18 per layer (Allen, 2025).
    #[default]
    YRows,
    /// Columns of distinct x, 84 on the real geometry (Allen v4r10, merge request !1663).
    UniqueX,
}

named!("grouping" Grouping: YRows "y-rows", UniqueX "unique-x");

impl Grouping {
    /// Returns the group of each sector, by sector id, and the number of groups.
    ///
    /// # Panics
    /// If `geometry` does not have 1048 sectors, which [`Geometry::validate`] checks.
    pub fn groups(self, geometry: &Geometry) -> (Vec<u16>, usize) {
        match self {
            Self::YRows => y_rows(geometry.sectors.len()),
            Self::UniqueX => unique_x(geometry),
        }
    }
}

/// Number of y-rows in a layer: 14 of whole sensors, and 4 of sensors half as long near the beam.
/// The four lie where places 6 to 9 of stave 0 are, and have the rows 14 to 17. So in the column of
/// 22, rows 6 and 7 of the other columns are missing.
const ROWS: usize = 18;

/// Row of each place in a column of 14, 18 and 22 sectors.
const ROWS_OF_14: &[u16] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13];
const ROWS_OF_18: &[u16] = &[0, 1, 2, 3, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 10, 11, 12, 13];
const ROWS_OF_22: &[u16] = &[
    0, 1, 2, 3, 4, 5, 5, 14, 14, 15, 15, 16, 16, 17, 17, 8, 8, 9, 10, 11, 12, 13,
];

fn y_rows(n_sectors: usize) -> (Vec<u16>, usize) {
    let mut groups = Vec::with_capacity(n_sectors);
    for layer in 0..N_LAYERS {
        let outer = 6 + layer / 2;
        let columns = std::iter::repeat_n(ROWS_OF_14, outer)
            .chain([ROWS_OF_18, ROWS_OF_22, ROWS_OF_22, ROWS_OF_18])
            .chain(std::iter::repeat_n(ROWS_OF_14, outer));
        groups.extend(columns.flatten().map(|row| (ROWS * layer) as u16 + row));
    }
    assert_eq!(
        groups.len(),
        n_sectors,
        "the geometry must have the sectors of the UT"
    );
    (groups, ROWS * N_LAYERS)
}

/// Gap in x above which a new group starts, mm.
///
/// The sectors of a column begin at nearly the same x. Columns are 96 mm apart, and 48 mm where
/// sectors have half the width, so 20 separates columns without cutting one.
const SAME_X: f32 = 20.0;

/// Walks each layer's sectors in the order of p0X and starts a group where a gap is wider than
/// [`SAME_X`].
fn unique_x(geometry: &Geometry) -> (Vec<u16>, usize) {
    let mut groups = vec![0; geometry.sectors.len()];
    let mut n_groups = 0;
    for layer in 0..N_LAYERS {
        let p0_x = |id: usize| geometry.sectors[id].p0_x;
        let mut ids: Vec<_> = sectors_of_layer(layer).collect();
        // The order of sectors at one place must not change, so the sort is stable. The floats are
        // finite: `partial_cmp` orders them all, and takes -0 and 0 for the same place.
        ids.sort_by(|&a, &b| {
            p0_x(a)
                .partial_cmp(&p0_x(b))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        let mut x = p0_x(ids[0]);
        n_groups += 1;
        for id in ids {
            if (x - p0_x(id)).abs() > SAME_X {
                n_groups += 1;
                x = p0_x(id);
            } else {
                x = x.max(p0_x(id));
            }
            groups[id] = (n_groups - 1) as u16;
        }
    }
    (groups, n_groups)
}
