//! The geometry file: where each sector is (`docs/format.md`, "Geometry file").
//!
//! Little endian: `u32 n_sectors | version << 16`, then arrays with one word per sector: u32
//! `firstStrip`, f32 `pitch, dy, dp0diX, dp0diY, dp0diZ, p0X, p0Y, p0Z, cos`, and from version 1 on
//! `dxDy`.
//!
//! A file of version 1 has 4 + 4 · 11 · 1048 = 46,116 bytes, a file of version 0 without `dxDy`
//! 41,924. The constants are not interpreted here, only checked: a decoder adds and multiplies them
//! without looking, so one NaN would put NaN into every hit of a sector, and would break the order
//! of the hits.

use std::path::Path;

use bytemuck::{Pod, Zeroable};

use super::error::{TablesError, check_length, header_word, read_file, word, write_file};
use super::file_layout::{GEOMETRY, SECTOR_ARRAYS, check_kind, n_sector_arrays, sector_offset};
use super::{N_SECTORS, STRIPS_PER_SECTOR, layer_of};

/// Slope dx/dy by layer, for geometries without it: ±tan 5° in the stereo layers.
pub const DX_DY: [f32; 4] = [0.0, 0.08748867, -0.08748867, 0.0];

/// Largest magnitude of a constant. The hit formulas add up to 512 steps to a position, and the
/// result must stay in the range of an f32.
const MAX_MAGNITUDE: f32 = f32::MAX / 2048.0;

/// Position of a sector, with the fields in the order of the file. Lengths in mm.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
pub struct Sector {
    /// Number of the first strip.
    pub first_strip: u32,
    /// Distance between strips.
    pub pitch: f32,
    /// Length of a strip in y.
    pub dy: f32,
    /// Step in x from one strip to the next.
    pub dp0di_x: f32,
    /// Step in y.
    pub dp0di_y: f32,
    /// Step in z.
    pub dp0di_z: f32,
    /// x of strip 0 at y = 0, to which a stereo strip is extended; not of its lower end.
    pub p0_x: f32,
    /// y of the lower end of strip 0.
    pub p0_y: f32,
    /// z of the lower end of strip 0; negative: the strip numbering is flipped.
    pub p0_z: f32,
    /// Cosine of the stereo angle.
    pub cos: f32,
    /// Slope dx/dy of the strips.
    pub dx_dy: f32,
}

impl Sector {
    /// Returns the weight of a hit, 12/pitch², in 1/mm². It is the inverse of the variance of a
    /// position that is known only to lie on one strip. The UT's pitches of 0.1873 mm and half of
    /// it give 342 and 1368.
    pub fn weight(&self) -> f32 {
        12.0 / (self.pitch * self.pitch)
    }

    /// Returns true if the strip numbering runs against the coordinate: the sign of p0Z.
    pub fn is_flipped(&self) -> bool {
        self.p0_z < 0.0
    }
}

/// Contents of a geometry file.
#[derive(Clone, Debug, PartialEq)]
pub struct Geometry {
    /// Version of the file: 1 has dxDy. In version 0, reading fills them in by layer.
    pub version: u16,
    /// Sectors by sector id.
    pub sectors: Vec<Sector>,
}

impl Geometry {
    /// Reads a geometry file.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, TablesError> {
        let path = path.as_ref();
        Self::parse(&read_file(path)?, &path.display().to_string())
    }

    /// Parses a geometry file; errors call it `name`.
    pub fn parse(bytes: &[u8], name: &str) -> Result<Self, TablesError> {
        check_kind(bytes, name, GEOMETRY)?;
        let header = header_word(bytes, name, 0)?;
        check_count((header & 0xFFFF) as usize, name)?;
        let version = (header >> 16) as u16;
        check_version(version, name)?;
        check_length(bytes, name, sector_offset(n_sector_arrays(version), 0))?;

        let at = |array: usize, sector: usize| {
            word(bytes, sector_offset(array, sector) / 4).unwrap_or_default()
        };
        let sectors = (0..N_SECTORS)
            .map(|sector| {
                let words: [u32; 11] = std::array::from_fn(|array| at(array, sector));
                let read: Sector = bytemuck::cast(words);
                if version == 0 {
                    Sector {
                        dx_dy: DX_DY[layer_of(sector)],
                        ..read
                    }
                } else {
                    read
                }
            })
            .collect();
        let geometry = Self { version, sectors };
        geometry.validate(name)?;
        Ok(geometry)
    }

    /// Checks that the hit formulas give finite numbers; errors call the table `name`.
    /// [`Geometry::parse`] calls this.
    ///
    /// # Errors
    /// - a number of sectors other than 1048, or a version other than 0 and 1;
    /// - a number that is not finite, or so large that a hit would not be;
    /// - a pitch that is not positive, or of which 12/pitch² is not a positive finite number;
    /// - a first strip beyond 512.
    pub fn validate(&self, name: &str) -> Result<(), TablesError> {
        check_count(self.sectors.len(), name)?;
        check_version(self.version, name)?;
        for (id, sector) in self.sectors.iter().enumerate() {
            let bad = |array: usize, value: String, why: &str| {
                TablesError::value(
                    name,
                    &format!("{}[{id}]", SECTOR_ARRAYS[array]),
                    sector_offset(array, id),
                    value,
                    why,
                )
            };
            if sector.first_strip > STRIPS_PER_SECTOR {
                return Err(bad(
                    0,
                    sector.first_strip.to_string(),
                    "a sector has 512 strips",
                ));
            }
            let words: [f32; 11] = bytemuck::cast(*sector);
            for (i, value) in words.into_iter().enumerate().skip(1) {
                if !value.is_finite() {
                    return Err(bad(i, value.to_string(), "not a finite number"));
                }
                if value.abs() > MAX_MAGNITUDE {
                    return Err(bad(
                        i,
                        format!("{value:e}"),
                        "too large: its hits would not be finite",
                    ));
                }
            }
            let weight = sector.weight();
            if sector.pitch <= 0.0 || !weight.is_finite() || weight <= 0.0 {
                return Err(bad(
                    1,
                    sector.pitch.to_string(),
                    "12/pitch² must be finite and the pitch positive",
                ));
            }
        }
        Ok(())
    }

    /// Returns the bytes of the geometry file. Version 0 leaves out dxDy.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut words = vec![self.sectors.len() as u32 | u32::from(self.version) << 16];
        for array in 0..n_sector_arrays(self.version) {
            words.extend(
                self.sectors
                    .iter()
                    .map(|&sector| bytemuck::cast::<Sector, [u32; 11]>(sector)[array]),
            );
        }
        words.into_iter().flat_map(u32::to_le_bytes).collect()
    }

    /// Writes the geometry file.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), TablesError> {
        let path = path.as_ref();
        self.validate(&path.display().to_string())?;
        write_file(path, &self.to_bytes())
    }
}

fn check_count(n_sectors: usize, name: &str) -> Result<(), TablesError> {
    if n_sectors == N_SECTORS {
        return Ok(());
    }
    Err(TablesError::value(
        name,
        "n_sectors",
        0,
        n_sectors,
        &format!("it must be {N_SECTORS}"),
    ))
}

fn check_version(version: u16, name: &str) -> Result<(), TablesError> {
    if version <= 1 {
        return Ok(());
    }
    Err(TablesError::value(
        name,
        "version",
        2,
        version,
        "it must be 0 or 1",
    ))
}
