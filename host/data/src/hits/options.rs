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

/// Makes a getter and a setter for each field.
macro_rules! options {
    ($($(#[$about:meta])* $field:ident, $with:ident: $type:ty;)*) => {
        impl DecodeOptions {
            $(
                $(#[$about])*
                pub const fn $field(&self) -> $type {
                    self.$field
                }

                #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field), ").")]
                #[must_use]
                pub const fn $with(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}

options! {
    /// Returns true if neighbouring strips are joined; otherwise every strip is a hit. Default:
    /// true.
    clustering, with_clustering: bool;
    /// Returns the rule for a cluster's position. Default: [`Position::Adc`].
    position, with_position: Position;
    /// Returns the number of strips that a cluster may have. Default: 128.
    max_cluster_size, with_max_cluster_size: NonZeroU32;
    /// Returns true if a cluster that grows beyond the maximum is kept, cut to its first strips;
    /// otherwise it is dropped. Default: false.
    save_above_max, with_save_above_max: bool;
    /// Returns the convention for flipped sectors. Default: [`Flip::From511`].
    flip, with_flip: Flip;
}
