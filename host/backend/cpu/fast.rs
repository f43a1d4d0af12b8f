//! The fast path (essay to come).

use super::copy::Ahead;
use super::hits::EventHits;
use super::lanes::LaneOrder;
use super::scratch::{MAX_RANKS, Scratch};
use super::simd::Level;
use crate::backend::{Count, DecodeOptions, EventReport};
use crate::detector::BankVersion;
use crate::input::BatchView;

/// What sends an event to the ordinary path: trouble, or a size that the work space is not made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unusual;

/// What the hits are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// v5 strips, clustered.
    Clusters,
    /// v5 strips as they are.
    Strips,
    /// v4 clusters, which come in quarter strips.
    Quarters,
}

/// The fast path of one detector and one set of options.
#[derive(Clone, Debug)]
pub struct Fast {
    /// The order of the lanes.
    pub lanes: LaneOrder,
    /// The options.
    pub options: DecodeOptions,
    /// What the hits are made of.
    pub kind: Kind,
    /// Whether everything that the vectors count on holds for these tables.
    usable: bool,
    level: Level,
}

impl Fast {
    /// The path for one detector and one set of options, at a level that the CPU has.
    pub fn new(lanes: LaneOrder, options: DecodeOptions, level: Level) -> Self {
        let kind = match lanes.version {
            BankVersion::V4 => Kind::Quarters,
            BankVersion::V5 if options.clustering => Kind::Clusters,
            BankVersion::V5 => Kind::Strips,
        };
        // Whole and quarter strips minus a number this small are exact in f32 in any order of operations.
        let exact = lanes.first.iter().all(|first| first.abs() < (1 << 20) as f32);
        let usable = lanes.n_ranks() < MAX_RANKS && lanes.n_connected > 0 && exact;
        Self { lanes, options, kind, usable, level }
    }

    /// Front half: from the raw banks of an event to its clusters, which join those of the chunk. Gives the number of
    /// hits, and their ends by group, counted from the event's first.
    pub fn front(
        &self,
        scratch: &mut Scratch,
        batch: BatchView<'_>,
        event: usize,
        ends: &mut [u32],
        report: &mut EventReport,
    ) -> Result<usize, Unusual> {
        let meta = batch.meta_of(event);
        if !self.usable || meta.broken || !scratch.has_room() {
            return Err(Unusual);
        }
        let ahead = Ahead::new(batch, event);
        // SAFETY: whoever made this knows that the CPU has the level.
        let (n_banks, n_strips, (zero_charge, oversized)) = unsafe {
            let n_banks = (self.level.find_lanes)(self, scratch, batch, event)?;
            let n_strips = (self.level.copy_lanes)(self, scratch, ahead)?;
            (n_banks, n_strips, (self.level.find_clusters)(self, scratch, n_strips, ends)?)
        };
        *report = EventReport::default();
        report.add(Count::Banks, n_banks as u32);
        report.add(Count::Strips, n_strips as u32);
        report.add(Count::OtherTypes, meta.other_banks);
        report.add(Count::ZeroChargeClusters, zero_charge);
        report.add(Count::OversizedClusters, oversized);
        Ok(ends.last().map_or(0, |&end| end as usize))
    }

    /// Back half: from the clusters `first` and following of the chunk to the hits of one event.
    ///
    /// # Errors
    /// When two hits have equal keys; some of the hits are written then.
    pub fn back(
        &self,
        scratch: &mut Scratch,
        first: usize,
        ends: &[u32],
        hits: &mut EventHits<'_>,
    ) -> Result<(), Unusual> {
        // SAFETY: whoever made this knows that the CPU has the level.
        unsafe { (self.level.make_hits)(self, scratch, first, ends, hits) }
    }
}
