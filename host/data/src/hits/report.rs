//! The report of a batch: what was decoded and what was wrong, event by event.

use super::{Count, EventReport, Kind};

/// The counters of every event of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchReport {
    /// One report an event, in the order of the batch.
    pub events: Vec<EventReport>,
}

impl BatchReport {
    /// An empty report.
    pub const fn new() -> Self {
        Self { events: Vec::new() }
    }

    /// Makes the report one of `n_events` events with nothing counted.
    pub fn reset(&mut self, n_events: usize) {
        self.events.clear();
        self.events.resize(n_events, EventReport::default());
    }

    /// The sum of one counter over the events.
    pub fn total(&self, count: Count) -> u64 {
        self.events.iter().map(|event| u64::from(event.get(count))).sum()
    }

    /// Returns true if any event has a trouble (T of the policy table).
    pub fn has_trouble(&self) -> bool {
        self.events.iter().any(EventReport::has_trouble)
    }

    /// The totals of all counters of one kind, by name.
    pub fn totals(&self, kind: Kind) -> impl Iterator<Item = (&'static str, u64)> {
        Count::ALL.into_iter().filter(move |c| c.kind() == kind).map(|c| (c.name(), self.total(c)))
    }
}
