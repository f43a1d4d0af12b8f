//! Time by stage: a clock that the decoding calls between its stages, or none.

use std::time::{Duration, Instant};

use ut_data::named;

/// A part of the decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Stage {
    /// Headers and tables of the banks.
    FindLanes,
    /// Strips into the stream.
    CopyLanes,
    /// Stream to clusters.
    FindClusters,
    /// Clusters to hits, in order, in place.
    MakeHits,
    /// Everything, for events with trouble.
    Fallback,
    /// Everything between: places, offsets, reports.
    Rest,
}

named!("stage" Stage: FindLanes "find lanes", CopyLanes "copy lanes", FindClusters "find clusters",
    MakeHits "make hits", Fallback "fallback path", Rest "rest");

/// Clock that is told when a stage ends.
pub trait Clock {
    /// Adds the time since the last call to this stage.
    fn lap(&mut self, stage: Stage);
}

impl Clock for () {
    #[inline(always)]
    fn lap(&mut self, _: Stage) {}
}

/// Time spent in each stage, over all events of a batch, with the clock's own: some tens of nanoseconds an event and
/// stage.
#[derive(Clone, Copy, Debug)]
pub struct StageTimes {
    times: [Duration; Stage::ALL.len()],
    last: Instant,
}

impl StageTimes {
    pub(super) fn start() -> Self {
        Self { times: Default::default(), last: Instant::now() }
    }

    /// Time spent in one stage.
    pub const fn of(&self, stage: Stage) -> Duration {
        self.times[stage as usize]
    }
}

impl Clock for StageTimes {
    fn lap(&mut self, stage: Stage) {
        let now = Instant::now();
        self.times[stage as usize] += now - self.last;
        self.last = now;
    }
}
