//! Occupancy profiles of synthetic events.

use crate::named;

/// A kind of events. The strip counts are means over 1000 events of seed 1, v5 banks.
///
/// The strip counts follow from the mean number of clusters, 400 to 14,000, with about 1.5 strips
/// per cluster. The ratio falls to 1.42 for `PbpbHigh`, where clusters overlap and lanes are full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Profile {
    /// Proton collisions with little pile-up: 603 strips per event.
    PpLow,
    /// Proton collisions as in LHCb's simulated minimum-bias events: 1716 strips per event.
    #[default]
    PpNominal,
    /// Proton collisions with much pile-up: 4189 strips per event.
    PpHigh,
    /// Lead collisions, mostly peripheral: 5930 strips per event, with a wide spread.
    PbpbLow,
    /// Lead collisions, mostly central: 19864 strips per event, with a wide spread.
    PbpbHigh,
}

named!("profile" Profile: PpLow "pp-low", PpNominal "pp-nominal", PpHigh "pp-high", PbpbLow "pbpb-low",
    PbpbHigh "pbpb-high");

impl Profile {
    /// Returns the mean number of clusters drawn per event. Some run into each other, into the edge
    /// of their sector or, in the fullest lanes, over the most hits that a lane can send.
    pub(super) const fn mean_clusters(self) -> f64 {
        match self {
            Self::PpLow => 400.0,
            Self::PpNominal => 1140.0,
            Self::PpHigh => 2800.0,
            Self::PbpbLow => 4000.0,
            Self::PbpbHigh => 14000.0,
        }
    }

    /// Returns true if the spread between events is as wide as for ions, whose collisions range
    /// from grazing to head-on.
    pub(super) const fn is_ions(self) -> bool {
        matches!(self, Self::PbpbLow | Self::PbpbHigh)
    }
}
