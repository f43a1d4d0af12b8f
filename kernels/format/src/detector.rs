//! Look-up tables by lane slot and by sector, flattened to plain-old-data.
//!
//! A *slot* is `board * 6 + lane`; a *sector* is one of the UT's 1048 silicon sensors
//! (docs/format.md, "Sector ids").

/// Lanes a board has, in either read-out format (v4 calls them hybrids).
pub const LANES_PER_BOARD: usize = 6;

/// Lane slots of the largest detector that the kernels are dimensioned for: 240 boards (v4), 216 in
/// v5.
pub const MAX_SLOTS: usize = 240 * LANES_PER_BOARD;

/// One lane slot of the board table.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "bytemuck", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Slot {
    /// LHCb `ChannelID` of the slot's first strip; 0 where nothing is connected.
    pub chan_id: u32,
    /// Sector id, 0…1047. Meaningless where `chan_id` is 0.
    pub sector: u16,
    /// Sector group that the slot's hits are written to. Meaningless where `chan_id` is 0.
    pub group: u16,
}

impl Slot {
    /// Returns true if a sensor is connected to this slot.
    pub const fn is_connected(&self) -> bool {
        self.chan_id != 0
    }
}

/// One lane of a boards file: position of the connected sensor (docs/format.md, "Boards file"). All
/// zeros: none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "bytemuck", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Lane {
    /// Sector within the module, 0 or 1.
    pub sector: u32,
    /// Module of the stave, 0…7.
    pub module: u32,
    /// Face of the stave, 0 or 1.
    pub face: u32,
    /// Stave of the half-layer, counted from the beam.
    pub stave: u32,
    /// Layer, 0…3: aX, aU, bV, bX.
    pub layer: u32,
    /// Side: 0 C, 1 A.
    pub side: u32,
    /// Detector type; 2 is the UT.
    pub kind: u32,
    /// `ChannelID` of the first strip; 0 where nothing is connected.
    pub chan_id: u32,
}

impl Lane {
    /// Returns true if a sensor is connected to this lane.
    pub const fn is_connected(&self) -> bool {
        self.chan_id != 0
    }

    /// `ChannelID` of strip 0 by the other fields: sector in bit 9, module 10–12, face 13, stave
    /// 14–17, layer 18–19, side 20, type 21–22; wider fields are cut.
    pub const fn channel(&self) -> u32 {
        (self.sector & 1) << 9
            | (self.module & 7) << 10
            | (self.face & 1) << 13
            | (self.stave & 15) << 14
            | (self.layer & 3) << 18
            | (self.side & 1) << 20
            | (self.kind & 3) << 21
    }

    /// Sector id, 0…1047 (docs/format.md, "Sector ids"), of a lane that passed a table check;
    /// otherwise some number.
    #[inline(always)]
    pub const fn sector_id(&self) -> u32 {
        let m = (2 * self.module + 1).wrapping_sub(self.face);
        let c_side = 1u32.wrapping_sub(self.side);
        let n_outer = if self.layer < 2 { 6 } else { 7 };
        let half_layer = 2 * self.layer + self.side;
        let base = if half_layer < 4 {
            124 * half_layer
        } else {
            496 + 138 * (half_layer - 4)
        };
        let place = match self.stave {
            0 => {
                let place = match m {
                    0..5 => m,
                    5..8 => 5 + 2 * (m - 5) + self.sector,
                    8..11 => 11 + 2 * (m - 8) + 1u32.wrapping_sub(self.sector),
                    _ => 17 + (m - 11),
                };
                (c_side.wrapping_mul(14 * n_outer + 18)).wrapping_add(place)
            }
            1 => {
                let place = match m {
                    0..5 => m,
                    5..9 => 5 + 2 * (m - 5) + self.sector,
                    9..11 => 9 + 2 * (m - 9) + 1u32.wrapping_sub(self.sector),
                    _ => 13 + (m - 11),
                };
                c_side
                    .wrapping_mul(14 * n_outer)
                    .wrapping_add(self.side.wrapping_mul(22))
                    .wrapping_add(place)
            }
            stave => {
                let from_beam = 40 + 14 * (stave - 2);
                let to_beam = (7 + self.layer / 2).wrapping_sub(stave);
                let columns = if self.side == 1 {
                    from_beam
                } else {
                    to_beam.wrapping_mul(14)
                };
                m.wrapping_sub(2 * (self.module / 4)).wrapping_add(columns)
            }
        };
        base.wrapping_add(place)
    }
}

/// The constants that turn a strip number into a hit (docs/format.md, "From a cluster to a hit").
/// Lengths in mm.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "bytemuck", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct SectorConstants {
    /// x at y = 0 of strip 0.
    pub p0_x: f32,
    /// y of the lower end of strip 0.
    pub p0_y: f32,
    /// |z| of strip 0; the file's sign is in `flipped`.
    pub p0_z: f32,
    /// Step in x from one strip to the next.
    pub dp0di_x: f32,
    /// Step in y.
    pub dp0di_y: f32,
    /// Step in z.
    pub dp0di_z: f32,
    /// Length of a strip in y.
    pub dy: f32,
    /// Slope dx/dy of a strip.
    pub dx_dy: f32,
    /// 12 / pitch², the inverse variance of a hit.
    pub weight: f32,
    /// Number of the sector's first strip; only v4 subtracts it.
    pub first_strip: u32,
    /// 1 where the strip numbering runs against the coordinate (negative p0Z in the file), else 0.
    pub flipped: u32,
}

/// Version byte of the raw banks that a board table describes.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BankVersion {
    /// Format v4: clusters made by the front end. Simulation up to 2021.
    V4 = 3,
    /// Format v5: strips of six lanes. Run 3.
    V5 = 4,
}

impl BankVersion {
    /// The version byte in the bank header, and the version number in a boards file.
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// The format of a version byte; `None` for every byte but 3 and 4.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            3 => Some(Self::V4),
            4 => Some(Self::V5),
            _ => None,
        }
    }

    /// The format's name: `v4` or `v5`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V4 => "v4",
            Self::V5 => "v5",
        }
    }
}

/// The types in the memory of a device.
#[cfg(any(feature = "simt", target_arch = "nvptx64"))]
mod plain {
    use super::{Lane, SectorConstants, Slot};

    // SAFETY: `repr(C)`, 4 + 2 + 2 bytes, alignment 4: no padding; integers only, so every bit
    // pattern is a value.
    unsafe impl simt::Plain for Slot {}
    // SAFETY: `repr(C)`, eight u32: no padding; every bit pattern is a value.
    unsafe impl simt::Plain for Lane {}
    // SAFETY: `repr(C)`, eleven 4-byte numbers: no padding; every bit pattern is a value.
    unsafe impl simt::Plain for SectorConstants {}
}
