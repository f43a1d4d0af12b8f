//! Division of a batch among threads, and the place of each thread's hits.
//!
//! Hits lie event by event without gaps, so an event's hits begin where all those before it end. Each thread takes a
//! chunk of events, does the front half of the work (up to the clusters, as many as the hits), waits for its *turn*
//! (the chunks before it are counted), learns where its hits begin, passes the turn on, and does the back half, which
//! writes the hits. So the result does not depend on the threads. Chunks are taken in order, and the thread that has
//! the turn never waits. One thread alone does the same with chunks of one event.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::fallback::{Counted, Fallback};
use super::fast::Fast;
use super::hits::EventHits;
use super::policy::{NeedsFallback, Policy};
use super::scratch::Scratch;
use super::selection::Selected;
use super::stages::{Clock, Stage};
use ut_data::input::BatchView;
use ut_data::{Cluster, DecodeError, EventReport};

/// A slice whose disjoint parts several threads write.
#[derive(Clone, Copy, Debug)]
struct Shared<T> {
    data: *mut T,
    len: usize,
}

// SAFETY: a part is reached only through `part`, whose callers keep the parts disjoint.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: threads that share this reach parts that do not overlap.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    const fn new(slice: &mut [T]) -> Self {
        Self { data: slice.as_mut_ptr(), len: slice.len() }
    }

    /// # Safety
    /// - the slice is still borrowed by the maker of this;
    /// - no two living parts overlap.
    ///
    /// # Panics
    /// If the part is not within the slice.
    unsafe fn part<'a>(&self, range: Range<usize>) -> &'a mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "a part beyond the slice");
        // SAFETY:
        // - within the slice: just checked;
        // - borrowed by the maker, so that it can be read and written, by this function's first precondition;
        // - not shared: no living part overlaps this one, by its second.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(range.start), range.len()) }
    }
}

#[derive(Debug)]
pub struct Worker {
    fallback: Fallback,
    scratch: Scratch,
    chunk: Vec<Front>,
}

/// Front half of an event of the chunk.
#[derive(Clone, Copy, Debug)]
enum Front {
    Fast { n_hits: usize, first_cluster: usize },
    Fallback(Counted),
    Skipped,
}

impl Front {
    const fn n_hits(&self) -> usize {
        match self {
            Self::Skipped => 0,
            Self::Fast { n_hits, .. } => *n_hits,
            Self::Fallback(counted) => counted.n_hits,
        }
    }
}

impl Worker {
    pub fn new(fallback: Fallback, policy: Policy, chunk: usize) -> Self {
        Self { fallback, scratch: Scratch::new(policy), chunk: Vec::with_capacity(chunk) }
    }
}

#[derive(Debug)]
pub struct Output<'a> {
    /// Arrays with room for hits; `None` to count only.
    pub hits: Option<EventHits<'a>>,
    /// `n_events * n_groups + 1` ends of groups.
    pub offsets: &'a mut [u32],
    pub reports: &'a mut [EventReport],
}

#[derive(Debug)]
struct Arrays {
    floats: [Shared<f32>; 6],
    id: Shared<u32>,
    clusters: Option<Shared<Cluster>>,
}

impl Arrays {
    fn new(hits: EventHits<'_>) -> Self {
        Self {
            floats: [
                Shared::new(hits.y_begin),
                Shared::new(hits.y_end),
                Shared::new(hits.z_at_y_eq0),
                Shared::new(hits.x_at_y_eq0),
                Shared::new(hits.dx_dy),
                Shared::new(hits.weight),
            ],
            id: Shared::new(hits.id),
            clusters: hits.clusters.map(Shared::new),
        }
    }

    fn room(&self) -> usize {
        let clusters = self.clusters.as_ref().map_or(usize::MAX, |clusters| clusters.len);
        self.floats.iter().map(|array| array.len).fold(self.id.len.min(clusters), usize::min)
    }

    /// Takes a part of each array, with the panics of [`Shared::part`].
    ///
    /// # Safety
    /// As for [`Shared::part`], of each array.
    unsafe fn part<'a>(&self, places: Range<usize>) -> EventHits<'a> {
        let [y_begin, y_end, z_at_y_eq0, x_at_y_eq0, dx_dy, weight] = &self.floats;
        // SAFETY: required of the caller, for each array.
        unsafe {
            EventHits {
                y_begin: y_begin.part(places.clone()),
                y_end: y_end.part(places.clone()),
                z_at_y_eq0: z_at_y_eq0.part(places.clone()),
                x_at_y_eq0: x_at_y_eq0.part(places.clone()),
                dx_dy: dx_dy.part(places.clone()),
                weight: weight.part(places.clone()),
                id: self.id.part(places.clone()),
                clusters: self.clusters.as_ref().map(|clusters| clusters.part(places)),
            }
        }
    }
}

#[derive(Debug)]
pub struct Job<'a> {
    fast: &'a Fast,
    batch: BatchView<'a>,
    selected: Option<Selected<'a>>,
    n_groups: usize,
    hits: Option<Arrays>,
    offsets: Shared<u32>,
    reports: Shared<EventReport>,
    capacity: usize,
    chunk: usize,
    alone: bool,
    /// First chunk that no thread has taken.
    next: AtomicUsize,
    turn: AtomicUsize,
    /// Index of the hit with which that chunk begins. Belongs to the thread that has the turn.
    at: AtomicUsize,
    stopped: AtomicBool,
    error: Mutex<Option<DecodeError>>,
}

impl<'a> Job<'a> {
    /// Prepares the decoding of `batch` into `out`, which has room for its events, by threads that take `chunk` events
    /// at a time, or by one alone. No array has an entry beyond `isize::MAX`, so that events are not looked for there.
    pub fn new(
        fast: &'a Fast,
        batch: BatchView<'a>,
        selected: Option<Selected<'a>>,
        out: Output<'a>,
        chunk: Option<usize>,
    ) -> Self {
        let Output { hits, offsets, reports } = out;
        let hits = hits.map(Arrays::new);
        // The first group begins at 0; each event sets the ends of its groups.
        offsets[0] = 0;
        Self {
            fast,
            batch: BatchView { first_event: batch.first_event.min(isize::MAX as usize), ..batch },
            selected,
            n_groups: fast.n_groups(),
            // Offsets are u32.
            capacity: hits.as_ref().map_or(usize::MAX, Arrays::room).min(u32::MAX as usize),
            hits,
            offsets: Shared::new(offsets),
            reports: Shared::new(reports),
            chunk: chunk.unwrap_or(1),
            alone: chunk.is_none(),
            next: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            at: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            error: Mutex::new(None),
        }
    }

    /// Returns the number of hits or the error, once all workers are back.
    pub fn finish(self) -> Result<usize, DecodeError> {
        match self.error.into_inner() {
            Ok(None) => Ok(self.at.into_inner()),
            Ok(Some(error)) => Err(error),
            Err(_) => Err(DecodeError::Device { backend: "cpu", message: "a thread panicked".to_owned() }),
        }
    }

    pub fn work(&self, worker: &mut Worker, clock: &mut impl Clock) {
        let stop = StopOnPanic(&self.stopped);
        worker.scratch.begin_batch(self.hits.as_ref().is_some_and(|hits| hits.clusters.is_some()));
        loop {
            let chunk = self.next.fetch_add(1, Ordering::Relaxed);
            let begin = chunk.saturating_mul(self.chunk);
            if begin >= self.batch.n_events || self.stopped.load(Ordering::Relaxed) {
                break;
            }
            let end = self.batch.n_events.min(begin + self.chunk);
            worker.chunk.clear();
            worker.scratch.begin_chunk();
            worker.fallback.begin_chunk();
            let mine = if self.alone { self.batch.n_events } else { end };
            let counted = (begin..end).try_for_each(|event| self.count(worker, event, mine, clock));
            let n_hits: usize = worker.chunk.iter().map(Front::n_hits).sum();
            let Some(at) = self.take_turn(chunk, begin, n_hits, counted, worker) else { break };
            let mut at = at;
            for (i, event) in (begin..end).enumerate() {
                let front = worker.chunk[i];
                self.write(worker, event, front, at, clock);
                at += front.n_hits();
            }
        }
        std::mem::forget(stop);
    }

    /// Number of an event in the batch's arrays.
    const fn place(&self, event: usize) -> usize {
        self.batch.first_event + event
    }

    /// Returns the ends of groups and the report of an event.
    ///
    /// # Safety
    /// The calling thread has taken the event's chunk, and has no other result of this for the event.
    #[expect(clippy::mut_from_ref, reason = "the events are disjoint")]
    unsafe fn event(&self, event: usize) -> (&mut [u32], &mut EventReport) {
        let begin = 1 + event * self.n_groups;
        // SAFETY: both slices are borrowed for `'a`, which outlives this. Each event has its own parts, which no other
        // thread asks for; this one has no other result for the event, by this function's precondition.
        unsafe { (self.offsets.part(begin..begin + self.n_groups), &mut self.reports.part(event..event + 1)[0]) }
    }

    /// Does the front half of an event; the thread has those up to `mine`. The error is more hits than a number holds.
    fn count(
        &self,
        worker: &mut Worker,
        event: usize,
        mine: usize,
        clock: &mut impl Clock,
    ) -> Result<(), (usize, u64)> {
        // SAFETY: the event is of the thread's chunk, and nothing has asked for its parts before.
        let (ends, report) = unsafe { self.event(event) };
        if self.selected.is_some_and(|selected| !selected.has(event)) {
            ends.fill(0);
            *report = EventReport::default();
            worker.chunk.push(Front::Skipped);
            return Ok(());
        }
        let first_cluster = worker.scratch.clusters.len;
        let (place, end) = (self.place(event), self.place(mine));
        let front = match self.fast.front(&mut worker.scratch, self.batch, (place, end), ends, report, clock) {
            Ok(n_hits) => Front::Fast { n_hits, first_cluster },
            Err(NeedsFallback) => {
                Front::Fallback(worker.fallback.count(self.batch, place, ends, report).map_err(|n| (event, n))?)
            }
        };
        worker.chunk.push(front);
        Ok(())
    }

    /// Waits for the chunk's turn and passes it on. Returns the index of its first hit; `None` if the decoding has
    /// ended.
    fn take_turn(
        &self,
        chunk: usize,
        first_event: usize,
        n_hits: usize,
        counted: Result<(), (usize, u64)>,
        worker: &Worker,
    ) -> Option<usize> {
        let mut tries = 0;
        while self.turn.load(Ordering::Acquire) != chunk {
            if self.stopped.load(Ordering::Relaxed) {
                return None;
            }
            tries += 1;
            if tries < 100 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        let at = self.at.load(Ordering::Relaxed);
        if counted.is_err() || n_hits > self.capacity - at {
            self.stopped.store(true, Ordering::Relaxed);
            let mut end = at as u64;
            let mut too_many = None;
            for (i, event) in worker.chunk.iter().enumerate() {
                end += event.n_hits() as u64;
                if end > self.capacity as u64 {
                    too_many = Some((first_event + i, end));
                    break;
                }
            }
            let (event, hits) = too_many.or(counted.err().map(|(event, n)| (event, end + n))).unwrap_or_default();
            let error = DecodeError::TooManyHits { event, hits: hits as usize, capacity: self.capacity };
            *self.error.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(error);
            return None;
        }
        self.at.store(at + n_hits, Ordering::Relaxed);
        self.turn.store(chunk + 1, Ordering::Release);
        Some(at)
    }

    /// Does the back half of an event, whose hits begin at `at`.
    fn write(&self, worker: &mut Worker, event: usize, front: Front, at: usize, clock: &mut impl Clock) {
        // SAFETY: the event is of the thread's chunk, and `count` no longer has its parts.
        let (ends, report) = unsafe { self.event(event) };
        clock.lap(Stage::Rest);
        if let Some(arrays) = &self.hits {
            // SAFETY: the places from `at` on belong to this event, and to no other; the arrays are borrowed for `'a`.
            let mut hits = unsafe { arrays.part(at..at + front.n_hits()) };
            self.write_hits(worker, event, front, (ends, report), &mut hits, clock);
        }
        for end in ends {
            *end += at as u32;
        }
    }

    fn write_hits(
        &self,
        worker: &mut Worker,
        event: usize,
        front: Front,
        (ends, report): (&mut [u32], &mut EventReport),
        hits: &mut EventHits<'_>,
        clock: &mut impl Clock,
    ) {
        let place = self.place(event);
        match front {
            Front::Skipped => {}
            Front::Fast { first_cluster, n_hits } => {
                // SAFETY: `front` of the same path has made the worker's clusters, in `count`, which noted the event's
                // first; `hits` has as many places as it has clusters.
                let done = unsafe { self.fast.back(&mut worker.scratch, first_cluster, ends, hits) };
                clock.lap(Stage::MakeHits);
                // Equal keys: only the fallback path knows which comes first. It makes as many hits.
                if done.is_err()
                    && let Ok(counted) = worker.fallback.count(self.batch, place, ends, report)
                {
                    debug_assert_eq!(counted.n_hits, n_hits);
                    worker.fallback.write(self.batch, place, counted, ends, hits);
                    clock.lap(Stage::Fallback);
                }
            }
            Front::Fallback(counted) => {
                worker.fallback.write(self.batch, place, counted, ends, hits);
                clock.lap(Stage::Fallback);
            }
        }
    }
}

/// Lets the other threads go on when this one panics; they would wait for its turn forever.
struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
