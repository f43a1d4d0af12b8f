//! The primitives against what a loop would do, for any schedule, mask, block shape and size.

use std::cell::RefCell;

use proptest::collection::vec;
use proptest::prelude::{Just, any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;
use proptest::test_runner::Config;
use simt::executor::Executor;
use simt::primitives::block_opportunistic_loop::ItemLoop;
use simt::primitives::block_scan::block_exclusive;
use simt::primitives::block_size_binning::{SizeBins, bin_of};
use simt::primitives::warp_aggregated_atomics::{add, append, increment};
use simt::primitives::warp_scan::{warp_exclusive, warp_inclusive};
use simt::primitives::warp_sort::{Segment, warp_sort};
use simt::{Block, FULL_MASK, Global, Kernel, SharedLayout};
use ut_kernels::allen::prefix_sum::{PrefixSumOffsets, PrefixSumTiles, prefix_sum_shared_bytes, tiles};

/// One note of each thread of a block.
struct Notes<T>(RefCell<Vec<Option<T>>>);

impl<T: Copy> Notes<T> {
    fn new(n: usize) -> Self {
        Self(RefCell::new(vec![None; n]))
    }

    fn set(&self, i: u32, value: T) {
        assert!(self.0.borrow_mut()[i as usize].replace(value).is_none(), "{i} twice");
    }

    fn take(self) -> Vec<Option<T>> {
        self.0.into_inner()
    }
}

fn config(cases: u32) -> Config {
    Config { cases, failure_persistence: None, ..Config::default() }
}

/// Exclusive sums that stay at the maximum, and the total.
fn saturating_sums(values: &[u32]) -> (Vec<u32>, u32) {
    let mut sum = 0u32;
    let sums = values.iter().map(|&value| {
        let before = sum;
        sum = sum.saturating_add(value);
        before
    });
    let sums = sums.collect();
    (sums, sum)
}

/// [`saturating_sums`], with the total as the last element.
fn saturating_offsets(counts: &[u32]) -> Vec<u32> {
    let (mut sums, total) = saturating_sums(counts);
    sums.push(total);
    sums
}

/// Returns what the prefix sum over the device makes of `counts`.
fn offsets_of(seed: u64, block_x: u32, counts: &[u32]) -> Vec<u32> {
    let mut executor = Executor::new(seed);
    let n = counts.len() as u32;
    let grid = tiles(n, block_x);
    let (mut offsets, mut totals) = (vec![u32::MAX; counts.len() + 1], vec![0; grid as usize]);
    let counts_view = Global::from_slice(counts);
    let (sums, tile_totals) = (executor.writable(&mut offsets), executor.writable(&mut totals));
    executor
        .launch("tiles", grid, (block_x, 1), prefix_sum_shared_bytes(), |block| {
            PrefixSumTiles.run(block, &(counts_view, sums, tile_totals));
        })
        .unwrap();
    let (sums, tile_totals) = (executor.writable(&mut offsets), Global::from_slice(&totals));
    executor
        .launch("offsets", grid, (block_x, 1), prefix_sum_shared_bytes(), |block| {
            PrefixSumOffsets.run(block, &(n, tile_totals, sums));
        })
        .unwrap();
    offsets
}

/// Values that overflow now and then.
fn value() -> impl proptest::strategy::Strategy<Value = u32> {
    proptest::prop_oneof![20 => 0u32..100, 1 => Just(u32::MAX), 1 => any::<u32>()]
}

proptest! {
    #![proptest_config(config(64))]

    #[test]
    fn aggregated_increments_give_every_lane_a_number_of_its_own(
        seed: u64, mask: u32, counters in vec(0u32..5, 64), global: bool, start in vec(0u32..100, 5)
    ) {
        let numbers = Notes::new(64);
        let mut memory = start.clone();
        let mut executor = Executor::new(seed);
        let view = executor.writable(&mut memory);
        let array = SharedLayout::new().array(5);
        let finals = RefCell::new(vec![0; 5]);
        let stats = executor.launch("increment", 1, (64, 1), 20, |block| {
            let thread = block.thread();
            if thread < 5 {
                block.shared_store(array, thread, start[thread as usize]);
            }
            block.sync_threads();
            let active = mask >> block.lane_id() & 1 == 1;
            let voted = block.ballot_sync(FULL_MASK, active);
            if active {
                let i = counters[thread as usize];
                let number = if global { increment(block, voted, view, i) } else { increment(block, voted, array, i) };
                numbers.set(thread, number);
            }
            block.sync_threads();
            if thread < 5 {
                finals.borrow_mut()[thread as usize] =
                    if global { block.load_mut(view, thread) } else { block.shared_load(array, thread) };
            }
        }).unwrap();
        let numbers = numbers.take();
        let mut atomics = 0;
        for (counter, &start) in start.iter().enumerate() {
            let of = |warp: usize| (32 * warp..32 * warp + 32)
                .filter(|&t| numbers[t].is_some() && counters[t] == counter as u32);
            let mut got: Vec<u32> = (0..2).flat_map(of).filter_map(|t| numbers[t]).collect();
            atomics += (0..2).filter(|&warp| of(warp).next().is_some()).count() as u64;
            got.sort_unstable();
            let n = got.len() as u32;
            prop_assert_eq!(got, (start..start + n).collect::<Vec<_>>());
            prop_assert_eq!(finals.borrow()[counter], start + n);
        }
        // One atomic a set of peers, and as many collectives for any number of sets.
        prop_assert_eq!(stats.shared_atomics + stats.global_atomics, atomics);
        prop_assert_eq!(stats.collectives, if mask == 0 { 2 } else { 2 + 2 * 2 });
    }

    #[test]
    fn aggregated_adds_sum_up(seed: u64, mask: u32, amounts in vec((0u32..4, any::<u32>()), 32)) {
        let mut memory = vec![7u32; 4];
        let mut executor = Executor::new(seed);
        let view = executor.writable(&mut memory);
        executor.launch("add", 1, (32, 1), 0, |block| {
            let voted = block.ballot_sync(FULL_MASK, mask >> block.lane_id() & 1 == 1);
            if voted >> block.lane_id() & 1 == 1 {
                let (counter, amount) = amounts[block.lane_id() as usize];
                add(block, voted, view, counter, amount);
            }
        }).unwrap();
        let mut expected = vec![7u32; 4];
        for (lane, &(counter, amount)) in amounts.iter().enumerate() {
            if mask >> lane & 1 == 1 {
                expected[counter as usize] = expected[counter as usize].wrapping_add(amount);
            }
        }
        prop_assert_eq!(memory, expected);
    }

    #[test]
    fn appended_places_are_distinct_and_ascend_with_the_lane(seed: u64, masks in vec(any::<u32>(), 4)) {
        let places = Notes::new(128);
        let mut memory = vec![10u32];
        let mut executor = Executor::new(seed);
        let view = executor.writable(&mut memory);
        executor.launch("append", 1, (64, 2), 0, |block| {
            let mask = masks[block.warp_id() as usize];
            let voted = block.ballot_sync(FULL_MASK, mask >> block.lane_id() & 1 == 1);
            if voted >> block.lane_id() & 1 == 1 {
                places.set(block.thread(), append(block, voted, view, 0));
            }
        }).unwrap();
        let places = places.take();
        for warp in 0..4 {
            let of_warp: Vec<u32> = places[32 * warp..][..32].iter().copied().flatten().collect();
            prop_assert_eq!(of_warp.len(), masks[warp].count_ones() as usize);
            prop_assert!(of_warp.windows(2).all(|pair| pair[1] == pair[0] + 1));
        }
        let mut all: Vec<u32> = places.into_iter().flatten().collect();
        all.sort_unstable();
        prop_assert_eq!(&all, &(10..10 + all.len() as u32).collect::<Vec<_>>());
        prop_assert_eq!(memory[0], 10 + all.len() as u32);
    }

    #[test]
    fn warps_sum_in_segments_of_8_16_and_32(seed: u64, values in vec(value(), 32)) {
        let notes = Notes::new(32);
        Executor::new(seed).launch("sum", 1, (32, 1), 0, |block| {
            let value = values[block.lane_id() as usize];
            notes.set(block.lane_id(), [
                (warp_inclusive::<8, _>(block, value), warp_exclusive::<8, _>(block, value)),
                (warp_inclusive::<16, _>(block, value), warp_exclusive::<16, _>(block, value)),
                (warp_inclusive::<32, _>(block, value), warp_exclusive::<32, _>(block, value)),
            ]);
        }).unwrap();
        let notes = notes.take();
        for (i, width) in [8, 16, 32].into_iter().enumerate() {
            for (segment, values) in values.chunks(width).enumerate() {
                let (sums, _) = saturating_sums(values);
                for (place, (&sum, &value)) in sums.iter().zip(values).enumerate() {
                    let (inclusive, exclusive) = notes[segment * width + place].expect("every lane")[i];
                    prop_assert_eq!((inclusive, exclusive), (sum.saturating_add(value), sum));
                }
            }
        }
    }

    #[test]
    fn blocks_sum_over_all_threads(seed: u64, warps in 1u32..=32, values in vec(value(), 1024)) {
        let notes = Notes::new(32 * warps as usize);
        let totals = SharedLayout::new().array(32);
        Executor::new(seed).launch("sum", 1, (32 * warps, 1), 128, |block| {
            notes.set(block.thread(), block_exclusive(block, totals, values[block.thread() as usize]));
        }).unwrap();
        let (sums, total) = saturating_sums(&values[..32 * warps as usize]);
        for (note, sum) in notes.take().into_iter().zip(sums) {
            prop_assert_eq!(note, Some((sum, total)));
        }
    }

    #[test]
    fn the_whole_device_sums(seed: u64, block_x in select(vec![32u32, 96, 256, 1024]), counts in vec(value(), 0..3000)) {
        prop_assert_eq!(offsets_of(seed, block_x, &counts), saturating_offsets(&counts));
    }

    #[test]
    fn every_item_of_a_loop_is_done_once(
        seed: u64, opportunistic: bool, n_items in 0u32..900,
        shape in select(vec![(32u32, 1u32), (32, 4), (8, 4), (1, 64), (3, 32), (96, 2), (16, 16)])
    ) {
        let done = Notes::new(n_items as usize);
        let next = SharedLayout::new().array(1);
        Executor::new(seed).launch("items", 1, shape, 4, |block| {
            let mut items = if opportunistic {
                ItemLoop::opportunistic(block, next, n_items)
            } else {
                ItemLoop::fixed(block, n_items)
            };
            while let Some(i) = items.fetch(block) {
                if i < n_items {
                    done.set(i, ());
                }
                // Some lanes take longer.
                for _ in 0..i % 5 {
                    block.active_mask();
                }
            }
        }).unwrap();
        prop_assert!(done.take().iter().all(Option::is_some));
    }

    #[test]
    fn bins_list_what_is_not_empty_large_first(
        seed: u64, bins in select(vec![1u32, 8, 16]), aggregate: bool, warps in 1u32..5, sizes in vec(0u32..40, 0..300)
    ) {
        let places = Notes::new(sizes.len());
        let listed = RefCell::new(0);
        let counters = SharedLayout::new().array(SizeBins::COUNTERS);
        Executor::new(seed).launch("bins", 1, (32 * warps, 1), 4 * SizeBins::COUNTERS, |block| {
            let size = |i: u32| sizes.get(i as usize).copied().unwrap_or(0);
            let each = |act: &dyn Fn(u32)| {
                let mut first = 32 * block.warp_id();
                while first < sizes.len() as u32 {
                    act(first + block.lane_id());
                    first += block.threads();
                }
            };
            let size_bins = SizeBins::new(block, counters, bins, aggregate);
            each(&|i| size_bins.count(block, size(i)));
            *listed.borrow_mut() = size_bins.sum(block);
            each(&|i| {
                let place = size_bins.place(block, size(i));
                if size(i) > 0 {
                    places.set(i, place);
                }
            });
        }).unwrap();
        let mut list: Vec<(u32, u32)> =
            places.take().into_iter().zip(&sizes).filter_map(|(place, &size)| Some((place?, bin_of(size, bins)))).collect();
        list.sort_unstable();
        prop_assert_eq!(list.len(), sizes.iter().filter(|&&size| size > 0).count());
        prop_assert_eq!(listed.into_inner() as usize, list.len());
        prop_assert!(list.iter().enumerate().all(|(i, &(place, _))| place == i as u32));
        prop_assert!(list.windows(2).all(|pair| pair[0].1 <= pair[1].1), "bins ascend");
    }
}

proptest! {
    #![proptest_config(config(32))]

    #[test]
    fn segments_of_any_length_are_sorted(
        seed: u64,
        // Few different keys and ties: equal ones are the hard part.
        keys in proptest::prop_oneof![
            vec((0u64..5, 0u32..3), 0..200),
            vec((any::<u64>(), any::<u32>()), 0..90),
            vec((0u64..1000, 0u32..2), 1000..2500),
        ],
        before in 0usize..40,
        run in select(vec![1u32, 32, 33, 128, 5000])
    ) {
        let len = keys.len();
        let mut all = vec![u64::MAX; before];
        all.extend(keys.iter().map(|key| key.0));
        all.extend([0; 10]);
        let (mut a, mut b) = (vec![u32::MAX; all.len()], vec![u32::MAX; all.len()]);
        let mut executor = Executor::new(seed);
        let (a_view, b_view) = (executor.writable(&mut a), executor.writable(&mut b));
        let segment = Segment { keys: Global::from_slice(&all), start: before as u32, len: len as u32 };
        let in_a = RefCell::new(false);
        executor.launch("sort", 1, (32, 1), 0, |block| {
            let sorted = warp_sort(block, &segment, run, a_view, b_view, |i| keys[i as usize].1);
            *in_a.borrow_mut() = sorted.as_ptr() == a_view.as_ptr();
        }).unwrap();
        let sorted = if in_a.into_inner() { &a } else { &b };
        let mut expected: Vec<u32> = (0..len as u32).collect();
        expected.sort_by_key(|&i| keys[i as usize]);
        prop_assert_eq!(&sorted[before..before + len], &expected[..]);
        for outside in [&a[..before], &a[before + len..], &b[..before], &b[before + len..]] {
            prop_assert!(outside.iter().all(|&i| i == u32::MAX), "other segments are left alone");
        }
    }
}
