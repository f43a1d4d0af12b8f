//! Work that threads share, with results in the order of the work.
//!
//! One thread produces, several work, the caller's own consumes. What is between them is bounded: the producer waits
//! until something has been consumed.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

/// Produces items until there are none, lets each of `workers` work on them on a thread of its own, and hands the results
/// to `consume` in the order of the items, until it says `false`. At most `in_flight` items (at least 1) are on the way.
///
/// # Panics
/// When one of the functions does.
pub fn ordered<T: Send, R: Send>(
    in_flight: usize,
    mut produce: impl FnMut() -> Option<T> + Send,
    workers: Vec<impl FnMut(T) -> R + Send>,
    mut consume: impl FnMut(R) -> bool,
) {
    let in_flight = in_flight.max(1);
    thread::scope(|scope| {
        let (free, tokens) = sync_channel::<()>(in_flight);
        for _ in 0..in_flight {
            // There is room for all of them.
            let _ = free.send(());
        }
        let (items, queue) = channel::<(u64, T)>();
        let queue = Arc::new(Mutex::new(queue));
        let (results, done) = channel::<(u64, Option<R>)>();
        scope.spawn(move || {
            for number in 0.. {
                if tokens.recv().is_err() {
                    return;
                }
                let Some(item) = produce() else { return };
                if items.send((number, item)).is_err() {
                    return;
                }
            }
        });
        for mut work in workers {
            let (results, queue) = (results.clone(), Arc::clone(&queue));
            scope.spawn(move || {
                loop {
                    // The lock is held while waiting, but not while working; a worker that panicked held none.
                    let item = queue.lock().map(|queue| queue.recv());
                    let Ok(Ok((number, item))) = item else { return };
                    match catch_unwind(AssertUnwindSafe(|| work(item))) {
                        Ok(result) => {
                            if results.send((number, Some(result))).is_err() {
                                return;
                            }
                        }
                        Err(panic) => {
                            // The consumer would wait for this result for ever.
                            let _ = results.send((number, None));
                            resume_unwind(panic);
                        }
                    }
                }
            });
        }
        // Only the workers have them: when those end, nothing comes any more.
        drop((results, queue));
        let mut early = BTreeMap::new();
        let mut next = 0;
        while let Ok((number, result)) = done.recv() {
            early.insert(number, result);
            while let Some(result) = early.remove(&next) {
                next += 1;
                if !result.is_some_and(&mut consume) {
                    return;
                }
                // The producer may have ended.
                let _ = free.send(());
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::ordered;

    #[test]
    fn results_come_in_order_and_no_more_than_allowed_are_on_the_way() {
        for (workers, in_flight) in [(1, 1), (3, 1), (1, 5), (4, 6)] {
            let (made, most, mut found) = (AtomicUsize::new(0), AtomicUsize::new(0), Vec::new());
            let eaten = AtomicUsize::new(0);
            let mut items = 0..100u64;
            let produce = || {
                let item = items.next()?;
                let on_the_way = made.fetch_add(1, Ordering::SeqCst) + 1 - eaten.load(Ordering::SeqCst);
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
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_worker_that_panics_ends_all() {
        ordered(2, || Some(1), vec![|_: i32| panic!("on purpose"); 2], |()| true);
    }

    #[test]
    fn an_end_without_items_and_an_early_end_end() {
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
}
