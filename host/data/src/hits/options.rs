//! Clustering options (`docs/format.md`).

use std::num::NonZeroU32;

/// Rule for a cluster's position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Position {
    /// Mean of the strips weighted by their ADC counts.
    #[default]
    Adc,
    /// Plain mean of the strips.
    Geometric,
}

/// Number from which the strips of a flipped sector are counted down. Only v5 banks have flipped sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Flip {
    /// `511 - mean`: Allen since v7r9 (merge request !2178), and the default.
    #[default]
    #[cfg_attr(feature = "serde", serde(rename = "511"))]
    From511,
    /// `512 - mean`: Allen before.
    #[cfg_attr(feature = "serde", serde(rename = "512"))]
    From512,
}

impl Flip {
    /// The number that the mean strip is subtracted from.
    pub const fn origin(self) -> f32 {
        match self {
            Self::From511 => 511.0,
            Self::From512 => 512.0,
        }
    }
}

/// Clustering options. The default is what LHCb runs: of August 2024, and the flip of February 2026. v4 banks come
/// clustered from the front end: none of these options changes their hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DecodeOptions {
    /// Joins neighbouring strips; otherwise every strip is a hit.
    pub clustering: bool,
    /// Rule for a cluster's position.
    pub position: Position,
    /// Strips that a cluster may have, at least 1.
    pub max_cluster_size: NonZeroU32,
    /// Keeps a cluster that grows beyond the maximum, cut to its first strips; otherwise drops it.
    pub save_above_max: bool,
    /// The convention for flipped sectors.
    pub flip: Flip,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        Self {
            clustering: true,
            position: Position::Adc,
            max_cluster_size: NonZeroU32::new(128).expect("128 is not 0"),
            save_above_max: false,
            flip: Flip::default(),
        }
    }
}
