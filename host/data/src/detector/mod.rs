//! The detector: the sensor that each lane of each board reads, the positions of the sensors, and
//! the groups that they form.
//!
//! [`Boards`] and [`Geometry`] are the contents of the two tables files of `docs/format.md`.
//! [`DetectorTables`] combines them with a [`Grouping`] into flat arrays for decoders.

mod boards;
mod channel;
mod error;
mod file_layout;
mod fit;
mod geometry;
mod groups;
mod mask;
mod sector_id;
mod sectors;
mod tables;

pub use boards::Boards;
#[cfg(feature = "synth")]
pub(crate) use boards::SUB_SECTOR_BIT;
pub use channel::{ChannelId, LhcbId};
pub use error::TablesError;
pub use file_layout::MAX_BOARDS;
pub(crate) use file_layout::table_of;
#[cfg(feature = "synth")]
pub(crate) use fit::is_mounted_flipped;
#[cfg(feature = "synth")]
pub use geometry::DX_DY;
pub use geometry::{Geometry, Sector};
pub use groups::Grouping;
pub use mask::{Mask, MaskError, parse_board, parse_sector};
#[cfg(feature = "synth")]
pub use sector_id::{is_cut_in_two, place_on_stave};
pub use sector_id::{layer_of, sector_id, sectors_of_layer};
#[cfg(feature = "synth")]
pub(crate) use sectors::lanes_by_sector;
pub use sectors::{BoardAndLane, Connection, SectorPlace};
pub use tables::DetectorTables;
pub(crate) use tables::Makers;
pub use ut_format::detector::{BankVersion, LANES_PER_BOARD, Lane, SectorConstants, Slot};

/// Number of sectors of the UT.
pub const N_SECTORS: usize = 1048;

/// Number of layers of the UT.
pub const N_LAYERS: usize = 4;

/// Names of the layers, in the order in which particles cross them.
pub const LAYER_NAMES: [&str; N_LAYERS] = ["UTaX", "UTaU", "UTbV", "UTbX"];

/// Number of strips of a sector.
pub const STRIPS_PER_SECTOR: u32 = 512;
