//! Detector and options as the stages of the fast path use them.

use super::lanes::LaneOrder;
use ut_data::DecodeOptions;
use ut_data::detector::BankVersion;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HitSource {
    /// v5 strips, clustered.
    Clusters,
    /// v5 strips as they are.
    Strips,
    /// v4 clusters, which come in quarter strips.
    Quarters,
}

#[derive(Debug)]
pub struct Setup {
    pub lanes: LaneOrder,
    pub options: DecodeOptions,
    pub source: HitSource,
}

impl Setup {
    pub fn new(lanes: LaneOrder, options: DecodeOptions) -> Self {
        let source = match lanes.version {
            BankVersion::V4 => HitSource::Quarters,
            BankVersion::V5 if options.clustering() => HitSource::Clusters,
            BankVersion::V5 => HitSource::Strips,
        };
        Self {
            lanes,
            options,
            source,
        }
    }

    /// Returns the mask of the bits that go from a hit word into the stream: strip and ADC count,
    /// or strip and fraction.
    pub fn hit_mask(&self) -> u32 {
        if self.lanes.version == BankVersion::V4 {
            0x7FF
        } else {
            0x3FFF
        }
    }
}
