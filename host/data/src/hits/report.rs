//! The report of a batch: what was decoded and what was wrong, event by event.

use super::{Count, EventReport, Kind, Loss, UtHits};
use crate::input::{EventMeta, Origin};

/// Counters of every event of a batch.
///
/// ```
/// use ut_data::{BatchReport, Count};
///
/// // What a decoder does: two events, the second with a truncated bank.
/// let mut report = BatchReport::new();
/// report.reset(2);
/// report.events[0].add(Count::Banks, 216);
/// report.events[1].add(Count::Banks, 215);
/// report.events[1].add(Count::Truncated, 1);
///
/// assert_eq!(report.total(Count::Banks), 431);
/// assert!(report.has_trouble() && !report.events[0].has_trouble());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchReport {
    /// Report of each event, in the order of the batch.
    pub events: Vec<EventReport>,
}

impl BatchReport {
    /// Makes a report of no events.
    pub const fn new() -> Self {
        Self { events: Vec::new() }
    }

    /// Sets the number of events to `n_events`, and all counters to 0.
    pub fn reset(&mut self, n_events: usize) {
        self.events.clear();
        self.events.resize(n_events, EventReport::default());
    }

    /// Returns the sum of one counter over the events.
    pub fn total(&self, count: Count) -> u64 {
        self.events
            .iter()
            .map(|event| u64::from(event.get(count)))
            .sum()
    }

    /// Returns true if any event has a trouble (T of the policy table).
    pub fn has_trouble(&self) -> bool {
        self.events.iter().any(EventReport::has_trouble)
    }

    /// Returns the account of loss of each event. `hits` are the hits of the batch, before a mask.
    /// `meta` are the facts about its events, without which errors that boards reported go
    /// unnoticed.
    pub fn losses<'a>(
        &'a self,
        meta: &'a [EventMeta],
        hits: &'a UtHits,
    ) -> impl Iterator<Item = Loss> + 'a {
        let ends = hits.offsets().iter().step_by(hits.n_groups().max(1));
        let n_hits = ends
            .clone()
            .zip(ends.skip(1))
            .map(|(begin, end)| u64::from(end - begin));
        self.events
            .iter()
            .zip(n_hits)
            .enumerate()
            .map(|(e, (report, n_hits))| {
                Loss::of_event(report, &meta.get(e).copied().unwrap_or_default(), n_hits)
            })
    }

    /// Returns the account of loss of each file in the batch, in order, with the index of the file
    /// among the inputs. `origins` are the files of the events; `meta` and `hits` are as for
    /// [`Self::losses`].
    pub fn losses_of_files(
        &self,
        origins: &[Origin],
        meta: &[EventMeta],
        hits: &UtHits,
    ) -> Vec<(u32, Loss)> {
        let mut files: Vec<(u32, Loss)> = Vec::new();
        for (origin, loss) in origins.iter().zip(self.losses(meta, hits)) {
            match files.last_mut() {
                Some((file, sum)) if *file == origin.file => sum.merge(&loss),
                _ => files.push((origin.file, loss)),
            }
        }
        files
    }

    /// Returns name and sum over the events of each counter of one kind.
    pub fn totals(&self, kind: Kind) -> impl Iterator<Item = (&'static str, u64)> {
        Count::ALL
            .into_iter()
            .filter(move |c| c.kind() == kind)
            .map(|c| (c.name(), self.total(c)))
    }
}
