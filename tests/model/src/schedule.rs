//! The schedule of the CPU decoder, with stand-ins for what decodes an event: whatever the order in which the threads run,
//! and whatever old values they see where the memory model allows it, each hit is written where it belongs.

use loom::sync::Arc;
use ut_decoding::decoder::DecodeError;
use ut_decoding::{BatchView, EventReport};

use fallback::Fallback;
use fast::Fast;
use hits::EventHits;
use policy::Policy;
use source::{Job, Output, Worker};
use stages::Clock;

#[path = "../../../host/decoder/cpu/hits.rs"]
#[allow(dead_code, reason = "the schedule needs little of it")]
mod hits;
#[path = "../../../host/decoder/cpu/selection.rs"]
#[allow(dead_code, reason = "the schedule needs little of it")]
mod selection;
#[path = "../../../host/decoder/cpu/stages.rs"]
#[allow(dead_code, reason = "the schedule needs little of it")]
mod stages;

#[allow(clippy::pedantic, dead_code, reason = "the source has its own")]
mod source {
    include!(concat!(env!("OUT_DIR"), "/schedule.rs"));
}

/// How the hits of an event are made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Fast,
    Fallback,
    /// The back half finds that it needs the fallback.
    FallbackLate,
}

/// Events: their hits, and how those are made.
type Events = &'static [(usize, Way)];

/// Groups of an event: the first hit is in one, all others are in the second.
const N_GROUPS: usize = 2;

fn set_ends(ends: &mut [u32], n_hits: usize) {
    ends.copy_from_slice(&[n_hits.min(1) as u32, n_hits as u32]);
}

/// What the event's hits are: any number that says whose they are.
fn set_hits(hits: &mut EventHits<'_>, event: usize) {
    for (i, id) in hits.id.iter_mut().enumerate() {
        *id = (10 * event + i) as u32;
    }
}

mod policy {
    #[derive(Debug)]
    pub struct NeedsFallback;

    #[derive(Debug)]
    pub struct Policy;
}

mod scratch {
    use super::policy::Policy;

    /// The events of the clusters of a chunk.
    #[derive(Debug, Default)]
    pub struct Clusters {
        pub len: usize,
        pub events: Vec<usize>,
    }

    #[derive(Debug)]
    pub struct Scratch {
        pub clusters: Clusters,
    }

    impl Scratch {
        pub fn new(_: Policy) -> Self {
            Self { clusters: Clusters::default() }
        }

        pub fn begin_batch(&mut self, _describe: bool) {}

        pub fn begin_chunk(&mut self) {
            self.clusters = Clusters::default();
        }
    }
}

mod fast {
    use super::policy::NeedsFallback;
    use super::scratch::Scratch;
    use super::{BatchView, Clock, EventHits, EventReport, Events, N_GROUPS, Way, set_ends, set_hits};

    #[derive(Debug)]
    pub struct Fast(pub Events);

    impl Fast {
        pub fn n_groups(&self) -> usize {
            N_GROUPS
        }

        pub fn front(
            &self,
            scratch: &mut Scratch,
            _: BatchView<'_>,
            (event, _): (usize, usize),
            ends: &mut [u32],
            report: &mut EventReport,
            _: &mut impl Clock,
        ) -> Result<usize, NeedsFallback> {
            let (n_hits, way) = self.0[event];
            if way == Way::Fallback {
                return Err(NeedsFallback);
            }
            *report = EventReport::default();
            scratch.clusters.events.resize(scratch.clusters.len + n_hits, event);
            scratch.clusters.len += n_hits;
            set_ends(ends, n_hits);
            Ok(n_hits)
        }

        /// # Safety
        /// None is needed here.
        pub unsafe fn back(
            &self,
            scratch: &mut Scratch,
            first: usize,
            _: &[u32],
            hits: &mut EventHits<'_>,
        ) -> Result<(), NeedsFallback> {
            let Some(&event) = scratch.clusters.events.get(first) else { return Ok(()) };
            if self.0[event].1 == Way::FallbackLate {
                return Err(NeedsFallback);
            }
            set_hits(hits, event);
            Ok(())
        }
    }
}

mod fallback {
    use super::{BatchView, EventHits, EventReport, Events, set_ends, set_hits};

    #[derive(Debug)]
    pub struct Fallback(pub Events);

    #[derive(Clone, Copy, Debug)]
    pub struct Counted {
        pub n_hits: usize,
    }

    impl Fallback {
        pub fn begin_chunk(&mut self) {}

        pub fn count(
            &mut self,
            _: BatchView<'_>,
            event: usize,
            ends: &mut [u32],
            report: &mut EventReport,
        ) -> Result<Counted, u64> {
            *report = EventReport::default();
            let n_hits = self.0[event].0;
            set_ends(ends, n_hits);
            Ok(Counted { n_hits })
        }

        pub fn write(&mut self, _: BatchView<'_>, event: usize, _: Counted, _: &[u32], hits: &mut EventHits<'_>) {
            set_hits(hits, event);
        }
    }
}

/// Arrays for `n` hits, whose memory is given back when this goes.
struct Owned<T>(*mut [T]);

impl<T: Copy + Default> Owned<T> {
    fn new(n: usize) -> Self {
        Self(Box::into_raw(vec![T::default(); n].into_boxed_slice()))
    }

    /// # Safety
    /// This lives longer, and nothing else uses it while the slice is there.
    unsafe fn get(&self) -> &'static mut [T] {
        // SAFETY: the array is this one's, and what is asked of the caller.
        unsafe { &mut *self.0 }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: it came out of a box, once.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// Decodes `events` on two threads, in every order with few switches, and checks what comes out. With three, those that
/// wait for their turns would wake each other without end.
fn check(events: Events, chunk: usize, capacity: usize) {
    // As the decoder itself would without threads.
    let (mut wanted, mut wanted_offsets, mut too_many) = (Vec::new(), vec![0], None);
    for (event, &(n_hits, _)) in events.iter().enumerate() {
        let begin = wanted.len() as u32;
        wanted.extend((0..n_hits).map(|i| (10 * event + i) as u32));
        wanted_offsets.extend([begin + n_hits.min(1) as u32, wanted.len() as u32]);
        if wanted.len() > capacity && too_many.is_none() {
            too_many = Some((event, wanted.len()));
        }
    }
    let orders = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&orders);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let floats: [Owned<f32>; 6] = std::array::from_fn(|_| Owned::new(capacity));
        let (ids, offsets) = (Owned::<u32>::new(capacity), Owned::<u32>::new(events.len() * N_GROUPS + 1));
        let reports = Owned::<EventReport>::new(events.len());
        let fast = Box::into_raw(Box::new(Fast(events)));
        // SAFETY: all that is borrowed here lives until the end of this function, longer than the job and its threads, and
        // is read only behind them.
        let job = unsafe {
            let [y_begin, y_end, z_at_y_eq0, x_at_y_eq0, dx_dy, weight] = floats.each_ref().map(|array| array.get());
            let id = ids.get();
            let hits = EventHits { y_begin, y_end, z_at_y_eq0, x_at_y_eq0, dx_dy, weight, id, clusters: None };
            let out = Output { hits: Some(hits), offsets: offsets.get(), reports: reports.get() };
            let batch = BatchView { n_events: events.len(), ..BatchView::default() };
            Arc::new(Job::new(&*fast, batch, None, out, Some(chunk)))
        };
        let work = move |job: &Job<'_>| job.work(&mut Worker::new(Fallback(events), Policy, chunk), &mut ());
        let same_job = Arc::clone(&job);
        let other = loom::thread::spawn(move || work(&same_job));
        work(&job);
        other.join().unwrap();
        let result = Arc::try_unwrap(job).expect("the threads have ended").finish();
        // SAFETY: it came out of a box, and the job is gone.
        drop(unsafe { Box::from_raw(fast) });
        match too_many {
            None => {
                assert_eq!(result.unwrap(), wanted.len());
                // SAFETY: the job is gone.
                let (ids, offsets) = unsafe { (ids.get(), offsets.get()) };
                assert_eq!((&ids[..wanted.len()], &*offsets), (&wanted[..], &wanted_offsets[..]));
            }
            Some(wanted) => match result.unwrap_err() {
                DecodeError::TooManyHits { event, hits, capacity: room } => {
                    assert_eq!((event, hits, room), (wanted.0, wanted.1, capacity));
                }
                other => panic!("{other}"),
            },
        }
    });
    println!("{} events: {} orders", events.len(), orders.load(std::sync::atomic::Ordering::Relaxed));
}

#[test]
fn hits_lie_event_by_event_whoever_decodes_them() {
    check(&[], 1, 0);
    check(&[(2, Way::Fast), (0, Way::Fallback), (1, Way::FallbackLate)], 1, 5);
    check(&[(1, Way::Fast), (2, Way::FallbackLate), (1, Way::Fallback), (0, Way::Fast), (3, Way::Fast)], 1, 7);
    check(&[(1, Way::Fast), (2, Way::Fast), (1, Way::Fallback), (1, Way::FallbackLate), (1, Way::Fast)], 2, 6);
}

#[test]
fn the_first_event_without_room_is_named_whoever_decodes_it() {
    check(&[(1, Way::Fast), (2, Way::Fallback), (1, Way::Fast)], 1, 2);
    check(&[(3, Way::Fast), (2, Way::Fast), (4, Way::Fast)], 1, 1);
    check(&[(1, Way::Fast), (0, Way::Fast), (1, Way::Fast), (1, Way::Fast)], 2, 1);
}
