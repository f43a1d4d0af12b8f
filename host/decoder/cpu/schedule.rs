//! Which thread decodes which events, and where their hits go.
//!
//! Hits lie event by event without gaps, so where an event's hits begin is known only when the hits of all events
//! before it are counted. Each thread takes a chunk of events, does the front half of the work (everything up to the
//! clusters, whose number is that of the hits), waits for its *turn* (the chunks before it are counted), learns where
//! its hits begin, passes the turn on, and then does the back half, which writes the hits where they belong. So no hit
//! is written twice, and the result does not depend on the threads. Chunks are taken in order, and the thread that has
//! the turn never waits: there is always a thread that gets on.
//!
//! One thread alone does the same with chunks of one event, and never waits.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::fallback::{Counted, Fallback};
use super::fast::Fast;
use super::hits::EventHits;
use super::policy::{NeedsFallback, Policy};
use super::scratch::Scratch;
use super::stages::{Clock, Stage};
use crate::decoder::{Cluster, DecodeError, EventReport, UtHitsMut};
use crate::input::BatchView;

/// A slice of which several threads write different parts.
#[derive(Clone, Copy, Debug)]
struct Shared<T> {
    data: *mut T,
    len: usize,
}

// SAFETY: a part is reached only through `part`, whose callers keep the parts disjoint.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as for `Send`: threads that share this reach parts that do not overlap.
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
    /// When the part is not within the slice.
    unsafe fn part<'a>(&self, range: Range<usize>) -> &'a mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "a part beyond the slice");
        // SAFETY:
        // - within the slice: just checked;
        // - borrowed by the maker, so that it can be read and written, by this function's first precondition;
        // - not shared: no living part overlaps this one, by its second.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(range.start), range.len()) }
    }
}

/// What a thread keeps from batch to batch.
#[derive(Debug)]
pub struct Worker {
    fallback: Fallback,
    scratch: Scratch,
    chunk: Vec<Front>,
}

/// An event of the chunk whose front half is done.
#[derive(Clone, Copy, Debug)]
enum Front {
    Fast {
        n_hits: usize,
        /// Its first cluster among those of the chunk.
        first_cluster: usize,
    },
    Fallback(Counted),
}

impl Front {
    const fn n_hits(&self) -> usize {
        match self {
            Self::Fast { n_hits, .. } => *n_hits,
            Self::Fallback(counted) => counted.n_hits,
        }
    }
}

impl Worker {
    /// A worker for chunks of up to `chunk` events.
    pub fn new(fallback: Fallback, policy: Policy, chunk: usize) -> Self {
        Self { fallback, scratch: Scratch::new(policy), chunk: Vec::with_capacity(chunk) }
    }
}

/// A batch that is being decoded.
#[derive(Debug)]
pub struct Job<'a> {
    fast: &'a Fast,
    batch: BatchView<'a>,
    n_groups: usize,
    floats: [Shared<f32>; 6],
    id: Shared<u32>,
    clusters: Option<Shared<Cluster>>,
    offsets: Shared<u32>,
    reports: Shared<EventReport>,
    capacity: usize,
    /// Events of a chunk.
    chunk: usize,
    /// One thread decodes all of it.
    alone: bool,
    /// The next chunk that no thread has.
    next: AtomicUsize,
    /// The chunk whose turn it is.
    turn: AtomicUsize,
    /// Where its hits begin. Belongs to the thread that has the turn.
    at: AtomicUsize,
    /// Nothing more will be decoded.
    stopped: AtomicBool,
    error: Mutex<Option<DecodeError>>,
}

impl<'a> Job<'a> {
    /// The decoding of `batch` into `out` and `reports`, which have room for its events: by threads that take `chunk`
    /// events at a time, or by one alone.
    pub fn new(
        fast: &'a Fast,
        batch: BatchView<'a>,
        out: &'a mut UtHitsMut<'_>,
        reports: &'a mut [EventReport],
        chunk: Option<usize>,
    ) -> Self {
        Self {
            fast,
            batch,
            n_groups: fast.n_groups(),
            // Offsets are u32.
            capacity: out.id.len().min(u32::MAX as usize),
            floats: [
                Shared::new(out.y_begin),
                Shared::new(out.y_end),
                Shared::new(out.z_at_y_eq0),
                Shared::new(out.x_at_y_eq0),
                Shared::new(out.dx_dy),
                Shared::new(out.weight),
            ],
            id: Shared::new(out.id),
            clusters: out.clusters.as_deref_mut().map(Shared::new),
            offsets: Shared::new(out.offsets),
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

    /// What came of it, when all workers are back.
    pub fn finish(self) -> Result<(), DecodeError> {
        match self.error.into_inner() {
            Ok(None) => Ok(()),
            Ok(Some(error)) => Err(error),
            Err(_) => Err(DecodeError::Device { backend: "cpu", message: "a thread panicked".to_owned() }),
        }
    }

    /// Decodes chunks until none is left.
    pub fn work(&self, worker: &mut Worker, clock: &mut impl Clock) {
        let stop = StopOnPanic(&self.stopped);
        worker.scratch.begin_batch(self.clusters.is_some());
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

    /// Report and group ends of an event, which belong to the thread that decodes it.
    ///
    /// # Safety
    /// The thread that calls has taken the event's chunk, and has no other result of this for the event.
    #[expect(clippy::mut_from_ref, reason = "the events are disjoint")]
    unsafe fn event(&self, event: usize) -> (&mut [u32], &mut EventReport) {
        let begin = 1 + event * self.n_groups;
        // SAFETY:
        // - both slices are borrowed for `'a`, which outlives this;
        // - each event has parts of its own. No other thread asks for these, and no other result for this event is
        //   left, by this function's precondition.
        unsafe { (self.offsets.part(begin..begin + self.n_groups), &mut self.reports.part(event..event + 1)[0]) }
    }

    /// Front half of one event; the thread has those up to `mine`. An error: more hits than a number holds.
    fn count(
        &self,
        worker: &mut Worker,
        event: usize,
        mine: usize,
        clock: &mut impl Clock,
    ) -> Result<(), (usize, u64)> {
        // SAFETY: the event is of the thread's chunk, and nothing has asked for its parts before.
        let (ends, report) = unsafe { self.event(event) };
        let first_cluster = worker.scratch.clusters.len;
        let front = match self.fast.front(&mut worker.scratch, self.batch, (event, mine), ends, report, clock) {
            Ok(n_hits) => Front::Fast { n_hits, first_cluster },
            Err(NeedsFallback) => {
                Front::Fallback(worker.fallback.count(self.batch, event, ends, report).map_err(|n| (event, n))?)
            }
        };
        worker.chunk.push(front);
        Ok(())
    }

    /// Waits for the chunk's turn and passes it on. Gives the place of its first hit; `None` when the decoding has come
    /// to an end.
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
            // The others may need this core.
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

    /// Back half of one event, whose hits begin at `at`.
    fn write(&self, worker: &mut Worker, event: usize, front: Front, at: usize, clock: &mut impl Clock) {
        // SAFETY: the event is of the thread's chunk, and what `count` had of it is gone.
        let (ends, report) = unsafe { self.event(event) };
        // SAFETY: the places from `at` on belong to this event, and to no other; the arrays are borrowed for `'a`.
        let mut hits = unsafe {
            let places = at..at + front.n_hits();
            EventHits {
                y_begin: self.floats[0].part(places.clone()),
                y_end: self.floats[1].part(places.clone()),
                z_at_y_eq0: self.floats[2].part(places.clone()),
                x_at_y_eq0: self.floats[3].part(places.clone()),
                dx_dy: self.floats[4].part(places.clone()),
                weight: self.floats[5].part(places.clone()),
                id: self.id.part(places.clone()),
                clusters: self.clusters.as_ref().map(|clusters| clusters.part(places)),
            }
        };
        clock.lap(Stage::Rest);
        match front {
            Front::Fast { first_cluster, n_hits } => {
                // SAFETY: `front` of the same path has made the worker's clusters, in `count`, which noted the event's
                // first and how many there are: the places of `hits` are as many.
                let done = unsafe { self.fast.back(&mut worker.scratch, first_cluster, ends, &mut hits) };
                clock.lap(Stage::MakeHits);
                // Equal keys: only the fallback path knows which comes first. The hits are as many there.
                if done.is_err()
                    && let Ok(counted) = worker.fallback.count(self.batch, event, ends, report)
                {
                    debug_assert_eq!(counted.n_hits, n_hits);
                    worker.fallback.write(self.batch, event, counted, ends, &mut hits);
                    clock.lap(Stage::Fallback);
                }
            }
            Front::Fallback(counted) => {
                worker.fallback.write(self.batch, event, counted, ends, &mut hits);
                clock.lap(Stage::Fallback);
            }
        }
        for end in ends {
            *end += at as u32;
        }
    }
}

/// Lets the other threads go on when this one panics, instead of waiting for its turn forever.
struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
