//! The detector: which sensor hangs on which lane of which board, where it is, and how sensors form groups.
//!
//! [`Boards`] and [`Geometry`] are the contents of the two files of spec section 2; [`DetectorTables`] is what they and
//! a [`Grouping`] make together, flattened to what a hot loop reads.

pub use ut_kernels::detector::{BankVersion, LANES_PER_BOARD, SectorConstants, Slot};

/// Sectors of the UT.
pub const N_SECTORS: usize = 1048;

/// Strips of a sector.
pub const STRIPS_PER_SECTOR: u32 = 512;

/// What is connected to one lane of a board. All zeros: nothing.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// `ChannelID` of the first strip.
    pub chan_id: u32,
}

/// The contents of a boards file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boards {
    /// The format of the banks that these boards send.
    pub version: BankVersion,
    /// Strips of a hybrid, for each board; 0 where there is no such board.
    pub strips_per_hybrid: Vec<u32>,
    /// `6 * n_boards` lanes: slot `board * 6 + lane`.
    pub lanes: Vec<Lane>,
}

/// Where a sector is. Lengths in mm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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
    /// x of the lower end of strip 0.
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

/// The contents of a geometry file.
#[derive(Clone, Debug, PartialEq)]
pub struct Geometry {
    /// File version: 0 has no dxDy (they are filled in by layer when read), 1 has.
    pub version: u16,
    /// One sector an id.
    pub sectors: Vec<Sector>,
}

/// How sectors form the groups in which hits are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grouping {
    /// 72 rows in y, 18 a layer (Allen, 2025).
    #[default]
    YRows,
    /// Columns of distinct x, 84 on the real geometry (Allen v4r10, merge request !1663).
    UniqueX,
}

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
