//! Outlines of sectors, and the sectors that should look alike.
//!
//! The detector is symmetric about the beam: left and right, up and down, and the two layers of a
//! station see nearly the same particles. So each sector has up to seven partners: the three
//! mirrored places in its own layer, and four in the other layer. Stereo layers are turned by 5°;
//! they are straightened first (x less slope times y), so that their sectors lie at the same places
//! as the sectors of the vertical layers.

use ut_data::detector::{
    DetectorTables, N_SECTORS, STRIPS_PER_SECTOR, Sector, layer_of, sectors_of_layer,
};

/// Outline of a sector, mm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SectorShape {
    /// Corners (x, y) in turn: first strip, its lower and its upper end, last strip, its upper and
    /// its lower end.
    pub corners: [(f32, f32); 4],
}

impl SectorShape {
    /// Returns the middle.
    pub fn middle(&self) -> (f32, f32) {
        let sum = self.corners.iter().fold((0.0, 0.0), |sum, corner| {
            (sum.0 + corner.0, sum.1 + corner.1)
        });
        (sum.0 / 4.0, sum.1 / 4.0)
    }

    /// Returns the corners of `n` parts of equal width, from the first strip to the last.
    pub fn parts(&self, n: usize) -> impl Iterator<Item = [(f32, f32); 4]> {
        let [first, upper, last_upper, last] = self.corners;
        let on = move |(x, y): (f32, f32), end: (f32, f32), i: usize| {
            let share = i as f32 / n as f32;
            (x + share * (end.0 - x), y + share * (end.1 - y))
        };
        (0..n).map(move |i| {
            let [low, high] = [i, i + 1].map(|i| [on(first, last, i), on(upper, last_upper, i)]);
            [low[0], low[1], high[1], high[0]]
        })
    }

    /// Returns the area, mm².
    pub fn area(&self) -> f32 {
        let [a, b, c, d] = self.corners;
        let triangle = |a: (f32, f32), b: (f32, f32), c: (f32, f32)| {
            ((b.0 - a.0) * (c.1 - a.1) - (c.0 - a.0) * (b.1 - a.1)).abs() / 2.0
        };
        triangle(a, b, c) + triangle(a, c, d)
    }
}

/// Returns the outlines of all sectors, by sector id: the strips' ends, as `docs/format.md`
/// computes them for hits.
pub fn shapes(tables: &DetectorTables) -> Vec<SectorShape> {
    let shape = |sector: &Sector| {
        let end = |strip: f32, upper: bool| {
            let y = sector.p0_y + strip * sector.dp0di_y + if upper { sector.dy } else { 0.0 };
            (sector.p0_x + strip * sector.dp0di_x + sector.dx_dy * y, y)
        };
        let last = STRIPS_PER_SECTOR as f32;
        SectorShape {
            corners: [
                end(0.0, false),
                end(0.0, true),
                end(last, true),
                end(last, false),
            ],
        }
    };
    tables.geometry().sectors.iter().map(shape).collect()
}

/// Sectors that see as many particles, by the detector's symmetry.
#[derive(Clone, Debug)]
pub struct Neighbours(Vec<Vec<u16>>);

/// Largest distance of a partner from the mirrored place, mm: less than half a sector's width.
const REACH: f32 = 45.0;

impl Neighbours {
    /// Finds, for each sector, the sectors of about the same area at the places mirrored in x, y or
    /// both, in its layer and in the other layer of the station (aX and aU, bV and bX).
    pub fn new(tables: &DetectorTables) -> Self {
        let shapes = shapes(tables);
        let places: Vec<((f32, f32), f32)> = shapes
            .iter()
            .map(|shape| (shape.middle(), shape.area()))
            .collect();
        // Without the slope along x the layers lie upon each other.
        let straight = |sector: usize| {
            let ((x, y), _) = places[sector];
            (x - tables.geometry().sectors[sector].dx_dy * y, y)
        };
        let partners = |sector: usize| {
            let (x, y) = straight(sector);
            let area = places[sector].1;
            let mut found: Vec<u16> = Vec::new();
            for layer in [layer_of(sector), layer_of(sector) ^ 1] {
                for (sx, sy) in [(1.0, 1.0), (-1.0, 1.0), (1.0, -1.0), (-1.0, -1.0)] {
                    let away = |other: usize| {
                        let (ox, oy) = straight(other);
                        let (dx, dy) = (ox - sx * x, oy - sy * y);
                        (dx * dx + dy * dy).sqrt()
                    };
                    let alike = |other: &usize| (places[*other].1 / area - 1.0).abs() < 0.2;
                    let nearest = sectors_of_layer(layer)
                        .filter(alike)
                        .min_by(|&a, &b| away(a).total_cmp(&away(b)))
                        .filter(|&other| away(other) < REACH && other != sector);
                    found.extend(
                        nearest
                            .map(|other| other as u16)
                            .filter(|other| !found.contains(other)),
                    );
                }
            }
            found
        };
        Self((0..N_SECTORS).map(partners).collect())
    }

    /// Returns the sectors that should look like this one.
    pub fn of(&self, sector: usize) -> &[u16] {
        &self.0[sector]
    }
}
