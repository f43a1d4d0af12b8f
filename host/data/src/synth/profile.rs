//! Occupancy profiles of synthetic events.

use std::fmt;
use std::str::FromStr;

/// A kind of events. The strip counts are means over 1000 events of seed 1, v5 banks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Profile {
    /// Proton collisions with little pile-up: 603 strips an event.
    PpLow,
    /// Proton collisions as in LHCb's simulated minimum-bias events: 1716 strips an event.
    #[default]
    PpNominal,
    /// Proton collisions with much pile-up: 4189 strips an event.
    PpHigh,
    /// Lead collisions, mostly peripheral: 5930 strips an event, with a wide spread.
    PbpbLow,
    /// Lead collisions, mostly central: 19864 strips an event, with a wide spread.
    PbpbHigh,
}

/// A name that no profile has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no profile is called \"{0}\": it is pp-low, pp-nominal, pp-high, pbpb-low or pbpb-high")]
pub struct UnknownProfile(pub String);

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 5] = [Self::PpLow, Self::PpNominal, Self::PpHigh, Self::PbpbLow, Self::PbpbHigh];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PpLow => "pp-low",
            Self::PpNominal => "pp-nominal",
            Self::PpHigh => "pp-high",
            Self::PbpbLow => "pbpb-low",
            Self::PbpbHigh => "pbpb-high",
        }
    }

    /// Clusters drawn in a mean event. Some run into each other, into the edge of their sector or, in the fullest
    /// lanes, over the most hits that a lane can send.
    pub(super) const fn mean_clusters(self) -> f64 {
        match self {
            Self::PpLow => 400.0,
            Self::PpNominal => 1140.0,
            Self::PpHigh => 2800.0,
            Self::PbpbLow => 4000.0,
            Self::PbpbHigh => 14000.0,
        }
    }

    /// Returns true if the spread between events is that of ions, whose collisions go from grazing to head on.
    pub(super) const fn is_ions(self) -> bool {
        matches!(self, Self::PbpbLow | Self::PbpbHigh)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|profile| profile.name() == name).ok_or_else(|| UnknownProfile(name.into()))
    }
}
