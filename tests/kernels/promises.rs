//! Promises of the sources about the kernels, one test per promise: `a1` to `a7` are from Allen's
//! merge request. Promises about a GPU are tested in the executor here, or on the mock driver in
//! `tests/cuda/promises.rs`.

use std::cell::{Cell, RefCell};

use proptest::collection::vec;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;
use simt::executor::{Executor, Fault};
use simt::primitives::block_opportunistic_loop::ItemLoop;
use simt::primitives::block_size_binning::{SizeBins, bin_of};
use simt::primitives::warp_aggregated_atomics::increment;
use simt::{Block, FULL_MASK, SharedLayout};
use ut_kernels::detector::LANES_PER_BOARD;

use crate::primitives::{Notes, config};
use crate::setup::{Bug, Setup};
use crate::suite::events::{allen_batch, v5, v5_payload};

/// "A bank's sourceID leads to the geometry directly; no table of boards on the device". The tables
/// on the device are empty where boards would be: in the executor, a kernel that looks there reads
/// out of bounds.
#[test]
fn a1_the_source_id_leads_to_the_geometry_without_a_table_of_boards() {
    let mut setup = Setup::new();
    for seed in 0..4 {
        setup.count(seed, Bug::None).unwrap();
        assert!(setup.n_strips() > 0);
        setup.cluster(seed, Bug::None).unwrap();
    }
    // Before the merge request, with boards.
    setup.switches.flat_map = false;
    let violation = setup.count(0, Bug::None).expect_err("it needs the boards");
    assert!(
        matches!(violation.fault, Fault::OutOfBounds { len: 0, .. }),
        "{violation}"
    );
}

/// "Empty banks and lanes cost no thread": they are not in the list from which threads take their
/// lanes.
#[test]
fn a2_empty_banks_and_lanes_are_not_in_the_list_that_threads_work_on() {
    let mut setup = Setup::new();
    let strips = |board: u16, lane: usize| {
        if board % 3 == 1 {
            0
        } else {
            (usize::from(board) + lane) % 3
        }
    };
    let bank = |board: u16| {
        let lane = |lane: usize| {
            (0..strips(board, lane) as u16)
                .map(|i| (3 * i, 5))
                .collect()
        };
        v5(board, &v5_payload(&std::array::from_fn(lane)))
    };
    setup.batch = allen_batch(&[(0..30).map(bank).collect()]);
    let slots = setup.tables.slots().to_vec();
    let lanes = (0..30).flat_map(|board| (0..LANES_PER_BOARD).map(move |lane| (board, lane)));
    let is_connected = |&(board, lane): &(u16, usize)| {
        slots[usize::from(board) * LANES_PER_BOARD + lane].is_connected()
    };
    let connected: Vec<(u16, usize)> = lanes.filter(is_connected).collect();
    let filled = connected
        .iter()
        .filter(|&&(board, lane)| strips(board, lane) > 0)
        .count();
    assert!(
        2 * filled < connected.len(),
        "most lanes are empty: {filled} of {}",
        connected.len()
    );
    for seed in 0..4 {
        setup.switches.zero_suppression = true;
        setup.count(seed, Bug::None).unwrap();
        assert_eq!(setup.n_items[0] as usize, filled);
        // Before the merge request, a thread for each lane of each bank.
        setup.switches.zero_suppression = false;
        setup.count(seed, Bug::None).unwrap();
        assert!(
            setup.n_items[0] as usize >= connected.len(),
            "{}",
            setup.n_items[0]
        );
    }
}

proptest! {
    #![proptest_config(config(64))]

    /// "Warp-aggregated atomics, one per warp, usable by any kernel": here by a kernel of the test,
    /// in the executor.
    #[test]
    fn a3_a_warp_adds_to_a_counter_with_one_atomic_in_shared_or_global_memory_of_any_kernel(
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


    /// "Banks and lanes in order of their size, by an 8-element prefix sum": 8 bins, and 16 as
    /// Allen has released them.
    #[test]
    fn a4_a_prefix_sum_over_8_elements_lists_lanes_in_the_order_of_their_size(
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

/// "Opportunistic fetching: a warp that is done takes the next lanes by itself": while a warp is
/// held up by its first lanes, the others do all that are left. In the executor.
#[test]
fn a7_a_warp_that_is_done_takes_the_next_lanes_by_itself() {
    let n_items = 40 * 32;
    let mut shared = SharedLayout::new();
    let next = shared.array::<u32>(1);
    for seed in 0..10 {
        let (done, of_first_warp) = (Notes::new(n_items as usize), Cell::new(0));
        let mut finished = [0u32];
        let mut executor = Executor::new(seed);
        let finished = executor.writable(&mut finished);
        let launched = executor.launch("items", 1, (128, 1), shared.bytes(), |block| {
            let mut items = ItemLoop::opportunistic(block, next, n_items);
            while let Some(i) = items.fetch(block) {
                done.set(i, ());
                if block.warp_id() == 0 {
                    of_first_warp.set(of_first_warp.get() + 1);
                    // Held up until the other warps have done the rest: with fixed strides,
                    // forever.
                    while block.atomic_load(finished, 0) < 3 {
                        block.pause();
                    }
                }
            }
            if block.warp_id() > 0 && block.lane_id() == 0 {
                block.atomic_add(finished, 0, 1);
            }
        });
        launched.unwrap_or_else(|violation| panic!("{violation}"));
        assert!(
            done.take().iter().all(Option::is_some),
            "every item is done once"
        );
        // (The fetch that it has made before.)
        assert!(of_first_warp.get() <= 2 * 32, "{}", of_first_warp.get());
    }
}
