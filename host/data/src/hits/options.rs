//! Clustering options (`docs/format.md`).

use std::num::NonZeroU32;

use crate::detector::BankVersion;
use crate::named;

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

named!("rule for a position" Position: Adc "adc", Geometric "geometric");

/// Number from which the strips of a flipped sector are counted down. Only v5 banks have flipped
/// sectors.
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

named!("flip" Flip: From511 "511", From512 "512");

impl Flip {
    /// Returns the name of the convention for hits of banks of `version`: v4 banks are never
    /// flipped.
    pub const fn name_for(self, version: BankVersion) -> &'static str {
        match version {
            BankVersion::V4 => "none",
            BankVersion::V5 => self.name(),
        }
    }

    /// Returns the number from which the mean strip is subtracted.
    pub const fn origin(self) -> f32 {
        match self {
            Self::From511 => 511.0,
            Self::From512 => 512.0,
        }
    }
}

/// Clustering options. The default is what LHCb runs: of August 2024, and the flip of February
/// 2026. v4 banks come clustered from the front end: none of these options changes their hits.
///
/// ```
/// use ut_data::{DecodeOptions, Flip, Position};
///
/// let options = DecodeOptions::default().with_position(Position::Geometric).with_flip(Flip::From512);
/// assert!(options.clustering() && options.position() == Position::Geometric);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DecodeOptions {
    clustering: bool,
    position: Position,
    max_cluster_size: NonZeroU32,
    save_above_max: bool,
    flip: Flip,
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

impl DecodeOptions {
    /// Returns true if neighbouring strips are joined; otherwise every strip is a hit. Default:
    /// true.
    pub const fn clustering(&self) -> bool {
        self.clustering
    }

    /// Returns the rule for a cluster's position. Default: [`Position::Adc`].
    pub const fn position(&self) -> Position {
        self.position
    }

    /// Returns the number of strips that a cluster may have. Default: 128.
    pub const fn max_cluster_size(&self) -> NonZeroU32 {
        self.max_cluster_size
    }

    /// Returns true if a cluster that grows beyond the maximum is kept, cut to its first strips;
    /// otherwise it is dropped. Default: false.
    pub const fn save_above_max(&self) -> bool {
        self.save_above_max
    }

    /// Returns the convention for flipped sectors. Default: [`Flip::From511`].
    pub const fn flip(&self) -> Flip {
        self.flip
    }

    /// Sets [`clustering`](Self::clustering).
    #[must_use]
    pub const fn with_clustering(mut self, clustering: bool) -> Self {
        self.clustering = clustering;
        self
    }

    /// Sets [`position`](Self::position).
    #[must_use]
    pub const fn with_position(mut self, position: Position) -> Self {
        self.position = position;
        self
    }

    /// Sets [`max_cluster_size`](Self::max_cluster_size).
    #[must_use]
    pub const fn with_max_cluster_size(mut self, strips: NonZeroU32) -> Self {
        self.max_cluster_size = strips;
        self
    }

    /// Sets [`save_above_max`](Self::save_above_max).
    #[must_use]
    pub const fn with_save_above_max(mut self, save: bool) -> Self {
        self.save_above_max = save;
        self
    }

    /// Sets [`flip`](Self::flip).
    #[must_use]
    pub const fn with_flip(mut self, flip: Flip) -> Self {
        self.flip = flip;
        self
    }
}
