//! The primitives give the same results as plain loops, for any schedule, mask, block shape and
//! size.

use std::cell::RefCell;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;
use proptest::test_runner::Config;
use simt::executor::Executor;
use simt::primitives::block_opportunistic_loop::ItemLoop;
use simt::primitives::block_scan::block_exclusive;
use simt::primitives::grid_scan::GridScan;
use simt::primitives::warp_aggregated_atomics::{add, append};
use simt::primitives::warp_scan::{warp_exclusive, warp_inclusive};
use simt::primitives::warp_sort::{Segment, warp_sort};
use simt::{Block, FULL_MASK, Global, Kernel, SharedLayout};
use ut_kernels::allen::prefix_sum::{
    PrefixSumOffsets, PrefixSumTiles, prefix_sum_shared_bytes, tiles,
};

/// Values that the threads of a block have noted, one per thread.
pub struct Notes<T>(RefCell<Vec<Option<T>>>);

impl<T: Copy> Notes<T> {
    pub fn new(n: usize) -> Self {
        Self(RefCell::new(vec![None; n]))
    }

    pub fn set(&self, i: u32, value: T) {
        assert!(
            self.0.borrow_mut()[i as usize].replace(value).is_none(),
            "{i} twice"
        );
    }

    pub fn take(self) -> Vec<Option<T>> {
        self.0.into_inner()
    }
}

pub fn config(cases: u32) -> Config {
    Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    }
}

/// Returns the exclusive sums, which saturate, and the total.
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

/// Returns the [`saturating_sums`] with the total as the last element.
fn saturating_offsets(counts: &[u32]) -> Vec<u32> {
    let (mut sums, total) = saturating_sums(counts);
    sums.push(total);
    sums
}

/// Returns the prefix sums of `counts` that the kernels compute.
fn offsets_of(seed: u64, block_x: u32, counts: &[u32]) -> Vec<u32> {
    let mut executor = Executor::new(seed);
    let n = counts.len() as u32;
    let grid = tiles(n, block_x);
    let (mut offsets, mut totals) = (vec![u32::MAX; counts.len() + 1], vec![0; grid as usize]);
    let counts_view = Global::from_slice(counts);
    let (sums, tile_totals) = (
        executor.writable(&mut offsets),
        executor.writable(&mut totals),
    );
    executor
        .launch(
            "tiles",
            grid,
            (block_x, 1),
            prefix_sum_shared_bytes(),
            |block| {
                PrefixSumTiles.run(block, &(counts_view, sums, tile_totals));
            },
        )
        .unwrap();
    let (sums, tile_totals) = (executor.writable(&mut offsets), Global::from_slice(&totals));
    executor
        .launch(
            "offsets",
            grid,
            (block_x, 1),
            prefix_sum_shared_bytes(),
            |block| {
                PrefixSumOffsets.run(block, &(n, tile_totals, sums));
            },
        )
        .unwrap();
    offsets
}

/// Returns a strategy for values whose sums overflow now and then.
fn value() -> impl Strategy<Value = u32> {
    prop_oneof![20 => 0u32..100, 1 => Just(u32::MAX), 1 => any::<u32>()]
}

proptest! {
    #![proptest_config(config(64))]

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
    fn a_loop_visits_every_item_once(
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
}

#[test]
fn a_grid_scan_is_correct_beyond_a_hundred_thousand_events() {
    for (seed, n, threads) in [(1, 100_000u32, 256), (2, 100_000, 32), (3, 262_145, 1024)] {
        // (A number that does not fit now and then: all sums behind it stay at the maximum.)
        let values: Vec<u32> = (0..n)
            .map(|i| {
                if i == 99_999 {
                    u32::MAX
                } else {
                    i.wrapping_mul(7919) % 3000
                }
            })
            .collect();
        let tiles = n.div_ceil(threads);
        let (mut sums, mut descriptors) =
            (vec![u32::MAX; n as usize], vec![0u64; 1 + tiles as usize]);
        let mut executor = Executor::new(seed);
        let (values_view, sums_view) = (Global::from_slice(&values), executor.writable(&mut sums));
        let descriptors_view = executor.writable(&mut descriptors);
        let mut layout = SharedLayout::new();
        let (warps, word) = (layout.array(32), layout.array(2));
        let launched = executor.launch("scan", tiles, (threads, 1), layout.bytes(), |block| {
            let scan = GridScan::begin(block, descriptors_view, word);
            let i = scan.tile() * block.threads() + block.thread();
            let own = if i < n { block.load(values_view, i) } else { 0 };
            let (before_in_block, total) = block_exclusive(block, warps, own);
            let before = scan.exclusive(block, total);
            if i < n {
                block.store(sums_view, i, before.saturating_add(before_in_block));
            }
        });
        launched.unwrap_or_else(|violation| panic!("{violation}"));
        assert!(
            sums == saturating_sums(&values).0,
            "{n} values, blocks of {threads}"
        );
    }
}

proptest! {
    #![proptest_config(config(32))]

    #[test]
    fn segments_of_any_length_are_sorted(
        seed: u64,
        // Few different keys and ties: equal ones are the hard part.
        keys in prop_oneof![
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
