//! The pipeline: whatever the order in which its threads run, all results come, in order, and it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[allow(dead_code, reason = "not all of it is checked")]
mod source {
    include!(concat!(env!("OUT_DIR"), "/pipeline.rs"));
}

use source::ordered;

/// Orders that are tried.
const ORDERS: usize = 20_000;

/// Tries `check` in random orders: any that comes, and such as have few switches at places that matter.
fn in_many_orders(check: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(check.clone(), ORDERS / 2);
    shuttle::check_pct(check, ORDERS / 2, 3);
}

#[test]
fn all_results_come_in_order_and_no_more_than_allowed_are_on_the_way() {
    for (workers, in_flight, n) in [(1, 1, 3), (2, 1, 3), (2, 2, 4), (3, 2, 5), (3, 5, 5)] {
        in_many_orders(move || {
            let (made, eaten) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let mut items = 0..n;
            let produce = || {
                let item = items.next()?;
                let on_the_way = made.fetch_add(1, Ordering::SeqCst) + 1 - eaten.load(Ordering::SeqCst);
                assert!(on_the_way <= in_flight, "{on_the_way} on the way");
                shuttle::thread::yield_now();
                Some(item)
            };
            let work = |item: usize| {
                shuttle::thread::yield_now();
                10 * item
            };
            let mut found = Vec::new();
            let flow = ordered(in_flight, produce, vec![work; workers], |result| {
                eaten.fetch_add(1, Ordering::SeqCst);
                found.push(result);
                true
            });
            assert!(found.iter().copied().eq((0..n).map(|item| 10 * item)), "{found:?}");
            assert_eq!(flow.stages().map(|stage| stage.items), [n as u64; 3]);
        });
    }
}

#[test]
fn a_consumer_that_wants_no_more_ends_an_endless_source() {
    for (workers, in_flight) in [(1, 1), (2, 1), (2, 3), (3, 2)] {
        in_many_orders(move || {
            let mut eaten = 0;
            let consume = |()| {
                eaten += 1;
                eaten < 2
            };
            ordered(in_flight, || Some(()), vec![|()| (); workers], consume);
            assert_eq!(eaten, 2);
        });
    }
}

#[test]
fn a_worker_that_panics_ends_all_and_nothing_behind_its_item_is_consumed() {
    for (workers, in_flight) in [(1, 2), (2, 2), (3, 3)] {
        in_many_orders(move || {
            let mut items = 0..6;
            let work = |item: usize| {
                if item == 1 {
                    // No hook hears of it.
                    std::panic::resume_unwind(Box::new("on purpose"));
                }
                item
            };
            let mut found = Vec::new();
            let consume = |item| {
                found.push(item);
                true
            };
            ordered(in_flight, || items.next(), vec![work; workers], consume);
            assert_eq!(found, [0]);
        });
    }
}

#[test]
fn items_that_were_left_to_a_waiting_thread_are_worked_on() {
    // All three must be worked on at the same time, or none is finished.
    in_many_orders(|| {
        let barrier = Arc::new(shuttle::sync::Barrier::new(3));
        let work = move |item: usize| {
            barrier.wait();
            item
        };
        let mut items = 0..6;
        let flow = ordered(3, || items.next(), vec![work.clone(), work.clone(), work], |_| true);
        assert_eq!(flow.work.items, 6);
    });
}
