//! Decoding of a batch, event by event, each on the fast path or the fallback.
//!
//! Each event goes through a front half, which finds clusters and so the number of hits, and a back
//! half, which computes and writes the hits. Hits lie event by event without gaps. The front half
//! of an event counts its hits, so that they are known to fit before the back half writes them
//! after the hits of earlier events.

use super::fallback::Fallback;
use super::fast::Fast;
use super::policy::{NeedsFallback, Policy};
use super::scratch::Scratch;
use super::selection::Selected;
use ut_data::detector::DetectorTables;
use ut_data::input::BatchView;
use ut_data::{DecodeError, DecodeOptions, EventReport, UtHitsMut};

#[derive(Debug)]
pub struct BatchOutput<'a> {
    /// Arrays of one length for the hits; `None` to count only.
    pub hits: Option<UtHitsMut<'a>>,
    /// `n_events * n_groups + 1` ends of groups.
    pub offsets: &'a mut [u32],
    pub reports: &'a mut [EventReport],
}

/// Work spaces of both paths.
#[derive(Debug)]
pub struct Worker {
    fallback: Fallback,
    scratch: Scratch,
}

impl Worker {
    pub fn new(tables: &DetectorTables, options: DecodeOptions) -> Self {
        Self {
            fallback: Fallback::new(tables, options),
            scratch: Scratch::new(Policy::new(tables)),
        }
    }

    /// Decodes `batch` into `out`, which has room for its events, and returns the number of hits.
    /// No array has an entry beyond `isize::MAX`, so that events are not looked for there.
    ///
    /// # Errors
    /// If the hits of an event do not fit; the hits of earlier events have been written.
    pub fn decode(
        &mut self,
        fast: &Fast,
        batch: BatchView<'_>,
        selected: Option<Selected<'_>>,
        out: BatchOutput<'_>,
    ) -> Result<usize, DecodeError> {
        let BatchOutput {
            mut hits,
            offsets,
            reports,
        } = out;
        let batch = BatchView {
            first_event: batch.first_event.min(isize::MAX as usize),
            ..batch
        };
        let end = batch.first_event + batch.n_events;
        // Offsets are u32.
        let capacity = hits
            .as_ref()
            .map_or(usize::MAX, |hits| hits.id.len())
            .min(u32::MAX as usize);
        self.scratch
            .begin_batch(hits.as_ref().is_some_and(|hits| hits.clusters.is_some()));
        let mut at = 0;
        // The first group begins at 0; each event sets the ends of its groups.
        offsets[0] = 0;
        let events = offsets[1..]
            .chunks_exact_mut(fast.n_groups())
            .zip(reports)
            .enumerate();
        for (event, (ends, report)) in events {
            if selected.is_some_and(|selected| !selected.has(event)) {
                ends.fill(at as u32);
                *report = EventReport::default();
                continue;
            }
            let place = batch.first_event + event;
            let too_many = |n: u64| DecodeError::TooManyHits {
                event,
                hits: at + n as usize,
                capacity,
            };
            let front = fast.front(&mut self.scratch, batch, (place, end), ends, report);
            // An event that the fast path gives up begins again on the fallback: the front half has
            // written nothing but its own scratch, ends and report, all of which the fallback sets
            // anew.
            let is_fast = front.is_ok();
            let n_hits = match front {
                Ok(n_hits) => n_hits,
                Err(NeedsFallback) => self
                    .fallback
                    .count(batch, place, ends, report)
                    .map_err(too_many)?,
            };
            if n_hits > capacity - at {
                return Err(too_many(n_hits as u64));
            }
            if let Some(hits) = &mut hits {
                let mut hits = hits.part(at..at + n_hits);
                // SAFETY: `front` of the same path has just made the clusters, as many as `hits`
                // has places.
                let done =
                    is_fast && unsafe { fast.back(&mut self.scratch, ends, &mut hits) }.is_ok();
                // Equal keys: only the fallback path knows which comes first. It makes as many
                // hits.
                if !done {
                    self.fallback.write(batch, place, ends, &mut hits);
                }
            }
            for end in ends {
                *end += at as u32;
            }
            at += n_hits;
        }
        Ok(at)
    }
}
