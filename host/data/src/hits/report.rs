//! The report of a batch: what was decoded and what was wrong, event by event.

use super::{Count, EventReport, Kind, Loss, UtHits};
use crate::input::{EventMeta, Origin};

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

    /// Returns the account of loss of each event; `hits` are those of the batch, before a mask, and `meta` its facts,
    /// without which errors that boards reported are not seen.
    pub fn losses<'a>(&'a self, meta: &'a [EventMeta], hits: &'a UtHits) -> impl Iterator<Item = Loss> + 'a {
        let ends = hits.offsets().iter().step_by(hits.n_groups().max(1));
        let n_hits = ends.clone().zip(ends.skip(1)).map(|(begin, end)| u64::from(end - begin));
        self.events
            .iter()
            .zip(n_hits)
            .enumerate()
            .map(|(e, (report, n_hits))| Loss::of_event(report, &meta.get(e).copied().unwrap_or_default(), n_hits))
    }

    /// Returns the accounts of loss of the files in the batch, in their order, each with the file's place among the
    /// inputs; `origins` says where each event comes from, the rest is as for [`Self::losses`].
    pub fn losses_of_files(&self, origins: &[Origin], meta: &[EventMeta], hits: &UtHits) -> Vec<(u32, Loss)> {
        let mut files: Vec<(u32, Loss)> = Vec::new();
        for (origin, loss) in origins.iter().zip(self.losses(meta, hits)) {
            match files.last_mut() {
                Some((file, sum)) if *file == origin.file => sum.merge(&loss),
                _ => files.push((origin.file, loss)),
            }
        }
        files
    }

    /// The totals of all counters of one kind, by name.
    pub fn totals(&self, kind: Kind) -> impl Iterator<Item = (&'static str, u64)> {
        Count::ALL.into_iter().filter(move |c| c.kind() == kind).map(|c| (c.name(), self.total(c)))
    }
}
