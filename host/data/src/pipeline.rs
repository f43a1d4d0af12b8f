//! Work shared by threads, with results in the order of the items.
//!
//! Each thread fetches its next item itself, one thread at a time, and works on it while its bytes
//! are still in the caches of that core. If another thread is idle, it leaves the item to that
//! thread and fetches on, so that a slow source never waits for a thread. The calling thread
//! consumes the results. The number of items in between is limited: none is fetched before there is
//! room.
//!
//! The usual design, a reader thread that hands chunks to worker threads, moves every byte from one
//! core's cache to another's. Here a worker that is free takes the source (a lock), fetches one
//! chunk, gives the source to the next one, and, unless another worker is idle, decodes the chunk
//! that it has just read. Results come back with the number of their item, and wait until all
//! earlier ones have been consumed, so that the output does not depend on the number of threads.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Work of the threads of one stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stage {
    /// Number of threads.
    pub threads: usize,
    /// Number of items that the stage finished.
    pub items: u64,
    /// Time of all threads in the stage, including the time for which they wait for a disk or a
    /// pipe.
    pub busy: Duration,
}

impl Stage {
    /// Returns the share of `elapsed`, 0…1, for which the threads of the stage worked. The stage
    /// with the largest share limits the rate.
    #[must_use]
    pub fn share(&self, elapsed: Duration) -> f64 {
        let available = elapsed.as_secs_f64() * self.threads as f64;
        if available > 0.0 {
            (self.busy.as_secs_f64() / available).min(1.0)
        } else {
            0.0
        }
    }

    fn add(&mut self, busy: Duration) {
        self.items += 1;
        self.busy += busy;
    }
}

/// Time of a pipeline, by stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Time from the first item to the last result.
    pub elapsed: Duration,
    /// Stage that makes the items, in one worker thread at a time.
    pub source: Stage,
    /// Stage that works on the items.
    pub work: Stage,
    /// Stage that takes the results.
    pub consumer: Stage,
}

impl Flow {
    /// Returns the stages in their order.
    #[must_use]
    pub const fn stages(&self) -> [Stage; 3] {
        [self.source, self.work, self.consumer]
    }
}

/// Processes items on several threads, in order. Returns the time of each stage.
///
/// Each of `workers` runs on one thread. It fetches items from `produce`, until there are none, and
/// works on them. `consume` is called in the calling thread with the results, in the order of the
/// items, until it returns false.
///
/// One thread at a time calls `produce`. The same thread then works on the item unless another one
/// is idle, so that the bytes need not move from core to core. At most `in_flight` items, at least
/// one, are between the source and the end of `consume`: a source that is too fast waits. If the
/// system refuses threads, fewer workers work; if it refuses every thread, the calling thread does
/// all the work.
///
/// # Panics
/// If one of the functions does.
///
/// # Examples
///
/// Batches, decoded by two threads, in order:
///
/// ```
/// use ut_data::pipeline::ordered;
/// # let mut batches = vec![1, 2, 3].into_iter();
/// # let decode = |batch: u32| 10 * batch;
/// # let mut hits = Vec::new();
/// let flow = ordered(5, || batches.next(), vec![decode; 2], |decoded| {
///     hits.push(decoded);
///     true
/// });
/// assert_eq!(hits, [10, 20, 30]);
/// println!("decoding was busy {:.0} % of the time", 100.0 * flow.work.share(flow.elapsed));
/// ```
pub fn ordered<T: Send, R: Send>(
    in_flight: usize,
    produce: impl FnMut() -> Option<T> + Send,
    workers: Vec<impl FnMut(T) -> R + Send>,
    consume: impl FnMut(R) -> bool,
) -> Flow {
    on_threads(workers.len(), in_flight, produce, workers, consume)
}

/// Does the work of [`ordered`] with at most `most` threads besides the calling one.
fn on_threads<T: Send, R: Send, W: FnMut(T) -> R + Send>(
    most: usize,
    in_flight: usize,
    produce: impl FnMut() -> Option<T> + Send,
    workers: Vec<W>,
    mut consume: impl FnMut(R) -> bool,
) -> Flow {
    let in_flight = in_flight.max(1);
    let start = Instant::now();
    let mut flow = Flow::default();
    (flow.source.threads, flow.consumer.threads) = (1, 1);
    let (free, room) = sync_channel::<()>(in_flight);
    for _ in 0..in_flight {
        // The channel has room for `in_flight` messages.
        let _ = free.send(());
    }
    let source = Mutex::new(Source {
        produce,
        room,
        next: 0,
        ended: false,
        stage: flow.source,
    });
    let turns = Turns {
        turn: Mutex::default(),
        news: Condvar::new(),
    };
    let worked = Mutex::new(flow.work);
    // One thread locks each worker, from its start to its end.
    let workers: Vec<_> = workers.into_iter().map(Mutex::new).collect();
    thread::scope(|scope| {
        // The sender is dropped at the end of the scope: threads that wait for room then learn that
        // there will be none.
        let free = free;
        let (results, done) = channel::<(u64, Option<R>)>();
        let (source, turns, worked) = (&source, &turns, &worked);
        let starts = |work| {
            let work: &Mutex<W> = work;
            let results = results.clone();
            let worker = move || {
                let mut work = lock(work);
                while let Some((number, item)) = turns.fetch(source) {
                    let begin = Instant::now();
                    match catch_unwind(AssertUnwindSafe(|| work(item))) {
                        Ok(result) => {
                            lock(worked).add(begin.elapsed());
                            if results.send((number, Some(result))).is_err() {
                                return;
                            }
                        }
                        Err(panic) => {
                            // Without a message, the consumer would wait for this result forever.
                            let _ = results.send((number, None));
                            resume_unwind(panic);
                        }
                    }
                }
            };
            thread::Builder::new().spawn_scoped(scope, worker).is_ok()
        };
        let started = workers
            .iter()
            .take(most)
            .take_while(|work| starts(work))
            .count();
        lock(worked).threads = started.max(1);
        // Only the workers keep senders: when they end, the channel closes.
        drop(results);
        let mut take = |result| {
            let begin = Instant::now();
            let goes_on = consume(result);
            flow.consumer.add(begin.elapsed());
            if goes_on {
                // The workers may have ended.
                let _ = free.send(());
            }
            goes_on
        };
        if started == 0 {
            let Some(work) = workers.first() else { return };
            while let Some((_, item)) = turns.fetch(source) {
                let begin = Instant::now();
                let result = lock(work)(item);
                lock(worked).add(begin.elapsed());
                if !take(result) {
                    return;
                }
            }
        }
        let mut early = BTreeMap::new();
        let mut next = 0;
        while let Ok((number, result)) = done.recv() {
            early.insert(number, result);
            while let Some(result) = early.remove(&next) {
                next += 1;
                if !result.is_some_and(&mut take) {
                    return;
                }
            }
        }
    });
    (flow.source, flow.work) = (lock(&source).stage, *lock(&worked));
    flow.elapsed = start.elapsed();
    flow
}

struct Source<P> {
    produce: P,
    /// One message per item that may be made.
    room: Receiver<()>,
    next: u64,
    ended: bool,
    stage: Stage,
}

impl<T, P: FnMut() -> Option<T>> Source<P> {
    /// Makes the next item, with its number; `None` after the last, or if no more are wanted.
    fn next(&mut self) -> Option<(u64, T)> {
        // The source counts as ended while it makes an item, so that a source that panicked is not
        // asked again.
        if std::mem::replace(&mut self.ended, true) {
            return None;
        }
        self.room.recv().ok()?;
        let begin = Instant::now();
        let item = (self.produce)()?;
        self.stage.add(begin.elapsed());
        let number = self.next;
        (self.next, self.ended) = (number + 1, false);
        Some((number, item))
    }
}

struct Turns<T> {
    turn: Mutex<TurnState<T>>,
    news: Condvar,
}

struct TurnState<T> {
    fetching: bool,
    /// Number of idle threads, including threads that were woken and do not run yet.
    idle: usize,
    items: VecDeque<(u64, T)>,
}

impl<T> Default for TurnState<T> {
    fn default() -> Self {
        Self {
            fetching: false,
            idle: 0,
            items: VecDeque::new(),
        }
    }
}

impl<T> Turns<T> {
    /// Takes an item that another thread has left, or the next item of the source; `None` after the
    /// last.
    fn fetch<P: FnMut() -> Option<T>>(&self, source: &Mutex<Source<P>>) -> Option<(u64, T)> {
        let mut turn = lock(&self.turn);
        while turn.fetching || !turn.items.is_empty() {
            if let Some(item) = turn.items.pop_front() {
                return Some(item);
            }
            turn.idle += 1;
            turn = self.news.wait(turn).unwrap_or_else(PoisonError::into_inner);
            turn.idle -= 1;
        }
        turn.fetching = true;
        drop(turn);
        let _fetching = Fetching(self);
        loop {
            let item = lock(source).next()?;
            let mut turn = lock(&self.turn);
            if turn.idle <= turn.items.len() {
                return Some(item);
            }
            turn.items.push_back(item);
            self.news.notify_one();
        }
    }
}

/// Guard of the thread that fetches. Dropping it lets another thread fetch, even if the source
/// panicked.
struct Fetching<'a, T>(&'a Turns<T>);

impl<T> Drop for Fetching<'_, T> {
    fn drop(&mut self) {
        lock(&self.0.turn).fetching = false;
        self.0.news.notify_one();
    }
}

/// Locks a mutex. Its contents are consistent whenever it is free, even after a panic.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::{on_threads, ordered};

    #[test]
    fn results_come_in_order_and_the_number_in_flight_is_limited() {
        for (workers, in_flight) in [(1, 1), (3, 1), (1, 5), (4, 6)] {
            let (made, most, mut found) = (AtomicUsize::new(0), AtomicUsize::new(0), Vec::new());
            let eaten = AtomicUsize::new(0);
            let mut items = 0..100u64;
            let produce = || {
                let item = items.next()?;
                let on_the_way =
                    made.fetch_add(1, Ordering::SeqCst) + 1 - eaten.load(Ordering::SeqCst);
                most.fetch_max(on_the_way, Ordering::SeqCst);
                Some(item)
            };
            let work = |item: u64| {
                std::thread::sleep(Duration::from_micros(item * 7919 % 300));
                item * 2
            };
            ordered(in_flight, produce, vec![work; workers], |result| {
                eaten.fetch_add(1, Ordering::SeqCst);
                found.push(result);
                true
            });
            assert!(found.iter().copied().eq((0..100).map(|item| item * 2)));
            assert!(most.into_inner() <= in_flight);
        }
    }

    #[test]
    fn with_fewer_threads_or_none_results_still_come_in_order() {
        for threads in 0..3 {
            let (mut items, mut found) = (0..50, Vec::new());
            let flow = on_threads(
                threads,
                2,
                || items.next(),
                vec![|item: i32| 2 * item; 3],
                |result| {
                    found.push(result);
                    found.len() < 40
                },
            );
            assert!(
                found.iter().copied().eq((0..40).map(|item| 2 * item)),
                "{threads} threads: {found:?}"
            );
            assert_eq!(
                (flow.work.threads, flow.consumer.items),
                (threads.max(1), 40)
            );
        }
    }

    #[test]
    fn a_panic_in_a_worker_or_the_source_ends_the_pipeline() {
        let (mut all, mut few) = (0.., 0..5);
        let of_all = || {
            ordered(
                2,
                || Some(1),
                vec![|_: i32| panic!("on purpose"); 2],
                |()| true,
            )
        };
        let of_the_first = || {
            ordered(
                2,
                || all.next(),
                vec![|item: i32| assert!(item > 0, "on purpose"); 2],
                |()| true,
            )
        };
        let of_the_source = || {
            ordered(
                3,
                || Some(few.next().expect("on purpose")),
                vec![|item: i32| item; 3],
                |_| true,
            )
        };
        let panics = [
            catch_unwind(AssertUnwindSafe(of_all)).is_err(),
            catch_unwind(AssertUnwindSafe(of_the_first)).is_err(),
            catch_unwind(AssertUnwindSafe(of_the_source)).is_err(),
        ];
        assert_eq!(panics, [true; 3]);
    }

    #[test]
    fn one_thread_fetches_at_a_time_and_a_single_thread_works_on_its_items() {
        let (mut items, fetching) = (0..200, AtomicUsize::new(0));
        let produce = || {
            assert_eq!(
                fetching.fetch_add(1, Ordering::SeqCst),
                0,
                "two fetch at once"
            );
            std::thread::yield_now();
            fetching.fetch_sub(1, Ordering::SeqCst);
            items.next().map(|_| std::thread::current().id())
        };
        let flow = ordered(8, produce, vec![|_| (); 4], |()| true);
        assert_eq!(flow.consumer.items, 200);
        let mut items = 0..9;
        let produce = || items.next().map(|_| std::thread::current().id());
        let work = |fetched_by| assert_eq!(fetched_by, std::thread::current().id());
        assert_eq!(ordered(8, produce, vec![work], |()| true).consumer.items, 9);
    }

    #[test]
    fn all_workers_work_at_the_same_time() {
        let working = std::sync::Barrier::new(3);
        // Hangs if one waits for another.
        let work = |item: i32| {
            working.wait();
            item
        };
        let mut items = 0..9;
        let flow = ordered(7, || items.next(), vec![work; 3], |_| true);
        assert_eq!(flow.work.items, 9);
    }

    #[test]
    fn a_source_that_has_ended_is_not_asked_again() {
        let mut asked = 0;
        let produce = || {
            asked += 1;
            (asked < 3).then_some(asked)
        };
        ordered(9, produce, vec![|item| item; 4], |_| true);
        assert_eq!(asked, 3);
        ordered(3, || None::<u8>, vec![|item| item; 2], |_| true);
        let mut n = 0;
        ordered(
            3,
            || Some(1),
            vec![|item| item; 2],
            |_| {
                n += 1;
                n < 10
            },
        );
        assert_eq!(n, 10);
    }

    #[test]
    fn the_busiest_stage_limits_the_rate() {
        let slow = Duration::from_millis(5);
        let items = |n: i32| {
            let mut items = 0..n;
            move || items.next()
        };
        let flow = ordered(
            4,
            items(10),
            vec![|item: i32| std::thread::sleep(slow * item.signum() as u32)],
            |()| true,
        );
        assert_eq!(
            flow.stages().map(|stage| (stage.threads, stage.items)),
            [(1, 10); 3]
        );
        assert!(flow.work.busy >= 9 * slow && flow.work.busy <= flow.elapsed);
        assert!(flow.work.share(flow.elapsed) > flow.source.share(flow.elapsed));
        let flow = ordered(4, items(10), vec![|item| item; 2], |_| {
            std::thread::sleep(slow);
            true
        });
        assert!(flow.consumer.share(flow.elapsed) > flow.work.share(flow.elapsed));
        let nothing = ordered(4, items(0), vec![|item| item], |_| true);
        assert_eq!(
            (nothing.work.items, nothing.work.share(Duration::ZERO)),
            (0, 0.0)
        );
    }
}
