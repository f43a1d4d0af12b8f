//! The fused kernels and what is new with them: blocks that wait for each other, events that are left, bugs planted into
//! all of it.

use std::sync::LazyLock;

use crate::setup::fused::{FusedSetup, In, ROOMY, WINDOWS};
use crate::setup::{Bug, is_race};
use crate::suite::backends::decode;
use crate::suite::events::{Bank, mep_batch, v5, v5_payload};
use simt::executor::{Executor, Fault, explore};
use simt::{Block, FULL_MASK, Global, Kernel};
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::{DecodeOptions, UtHits};
use ut_kernels::fused::look_back::{LIMIT, LookBack};
use ut_kernels::ranked::select::{SELECT_THREADS, SelectEvents, select_blocks};
use ut_kernels::status::{HITS_OVERFLOW, NO_SUCH_EVENT};

const SEEDS: std::ops::Range<u64> = 0..6;

const N_EVENTS: usize = 5;

fn hits_of(setup: &FusedSetup) -> UtHits {
    let mut reference = ReferenceDecoder::new(&setup.tables, DecodeOptions::default());
    decode(&mut reference, &setup.tables, setup.batch.view()).0
}

static EXPECTED: LazyLock<UtHits> = LazyLock::new(|| hits_of(&FusedSetup::new(N_EVENTS)));
static UNUSUAL: LazyLock<UtHits> = LazyLock::new(|| hits_of(&FusedSetup::unusual(N_EVENTS)));

fn is_right(setup: &FusedSetup, expected: &UtHits) -> bool {
    setup.offsets == expected.offsets() && setup.ids == expected.id() && setup.status == 0
}

#[test]
fn the_kernels_run_clean_without_a_bug_however_many_blocks_are_resident() {
    let (mut ordinary, mut unusual) = (FusedSetup::new(N_EVENTS), FusedSetup::unusual(N_EVENTS));
    let (mut crowded, mut overlapping) = (FusedSetup::crowded(2), FusedSetup::overlapping(1));
    let (in_crowd, in_overlap) = (hits_of(&crowded), hits_of(&overlapping));
    for strips in [ROOMY, WINDOWS, 256] {
        let all = [
            (&mut ordinary, &*EXPECTED, 0),
            (&mut unusual, &*UNUSUAL, N_EVENTS as u32),
            (&mut crowded, &in_crowd, 0),
            (&mut overlapping, &in_overlap, 0),
        ];
        for (setup, expected, left) in all {
            for resident in [1, 2, 5] {
                setup.resident = resident;
                let explored = explore([u64::from(resident)], |executor| {
                    let ran = setup.run_in(executor, Bug::None, In::Fused, strips, expected.len());
                    ran.map_err(|violation| violation.to_string())?;
                    let right = is_right(setup, expected) && setup.left == left;
                    if right { Ok(()) } else { Err(format!("wrong hits with {strips} strips")) }
                });
                explored.unwrap_or_else(|failure| panic!("{failure}"));
            }
        }
    }
}

#[test]
fn groups_of_overlapping_lanes_are_sorted_by_the_first_kernel_as_far_as_it_can() {
    let mut setup = FusedSetup::overlapping(1);
    let expected = hits_of(&setup);
    let groups =
        || expected.offsets().windows(2).map(|ends| &expected.x_at_y_eq0()[ends[0] as usize..ends[1] as usize]);
    let large = groups().filter(|x| x.len() > 32).count() as u32;
    let with_ties = groups().filter(|x| x.windows(2).any(|two| two[0] == two[1])).count() as u32;
    assert!(large > 0 && with_ties > 0);
    setup.run(0, Bug::None, ROOMY, expected.len()).unwrap();
    assert!(is_right(&setup, &expected));
    let left = setup.left_groups;
    assert!((large..large + with_ties).contains(&left), "{left} groups left, {large} large, {with_ties} with ties");
    // Groups that two tiles share are left, too.
    setup.run(0, Bug::None, 256, expected.len()).unwrap();
    assert!(is_right(&setup, &expected));
    assert!(setup.left_groups > left);
}

#[test]
fn banks_are_gathered_in_mep_layout() {
    // More events than a warp gathers at a time.
    let mut setup = FusedSetup::mep(35);
    let expected = hits_of(&setup);
    for (seed, strips) in [(0, ROOMY), (1, 1024)] {
        setup.run(seed, Bug::None, strips, expected.len()).unwrap();
        assert!(is_right(&setup, &expected));
        assert_eq!(setup.left, 0);
    }
}

#[test]
fn a_list_in_any_order_becomes_a_bit_an_event() {
    let n_events = 70;
    for list in
        [vec![], vec![69, 0, 31, 32, 0, 33], (0..70).rev().collect::<Vec<u32>>(), (0..700).map(|i| i % 7).collect()]
    {
        let mut expected = vec![0u32; 3];
        for &event in &list {
            expected[event as usize / 32] |= 1 << (event % 32);
        }
        for (missing, says) in [(None, 0), (Some(70), NO_SUCH_EVENT), (Some(u32::MAX), NO_SUCH_EVENT)] {
            let listed: Vec<u32> = list.iter().copied().chain(missing).collect();
            let (mut mask, mut status) = (vec![0u32; 3], [0]);
            let mut executor = Executor::new(4);
            let (mask_view, status_view) = (executor.writable(&mut mask), executor.writable(&mut status));
            let list = Global::from_slice(&listed);
            executor
                .launch("select_events", select_blocks(listed.len() as u32), (SELECT_THREADS, 1), 0, |block| {
                    SelectEvents.run(block, &(list, n_events, mask_view, status_view));
                })
                .unwrap();
            assert_eq!((&mask, status[0]), (&expected, says), "{listed:?}");
        }
    }
}

#[test]
fn events_that_are_not_selected_have_no_hits_and_nothing_in_their_report() {
    for (mut setup, all) in [(FusedSetup::new(N_EVENTS), &EXPECTED), (FusedSetup::unusual(N_EVENTS), &UNUSUAL)] {
        let n_groups = setup.tables.n_groups();
        for (selected, wanted) in [(0b1_0110, [1, 2, 4].as_slice()), (0, &[]), (u32::MAX, &[0, 1, 2, 3, 4])] {
            setup.selected = vec![selected];
            setup.run(3, Bug::None, ROOMY, all.len()).unwrap();
            let (mut ids, mut offsets) = (Vec::new(), Vec::new());
            for event in 0..N_EVENTS {
                let ends = &all.offsets()[event * n_groups..][..=n_groups];
                let is_wanted = wanted.contains(&event);
                let first = ids.len() as u32;
                offsets
                    .extend(ends[..n_groups].iter().map(|&end| if is_wanted { first + end - ends[0] } else { first }));
                if is_wanted {
                    ids.extend_from_slice(&all.id()[ends[0] as usize..ends[n_groups] as usize]);
                }
                let report = &setup.report[event * setup.report.len() / N_EVENTS..][..2];
                assert_eq!(report.iter().any(|&n| n > 0), is_wanted, "event {event} of {selected:b}");
            }
            offsets.push(ids.len() as u32);
            assert_eq!((&setup.offsets, &setup.ids[..ids.len()]), (&offsets, &ids[..]), "{selected:b}");
            assert!(setup.ids[ids.len()..].iter().all(|&id| id == u32::MAX), "{selected:b}");
        }
    }
}

#[test]
fn a_removed_warp_barrier_of_gathering_is_caught() {
    let mut setup = FusedSetup::mep(2);
    for seed in SEEDS {
        let violation =
            setup.run_with(seed, Bug::NoWarpBarrier("gather.rs", 0), In::Gathering, ROOMY, 2 * EXPECTED.len());
        let violation = violation.expect_err("lanes read what others write");
        assert!(is_race(&violation), "{violation}");
    }
}

/// Two events of more banks than a launch gathers at a time, with hits in the last one only.
fn many_banks() -> FusedSetup {
    let mut setup = FusedSetup::mep(2);
    let bank = |kind, n| {
        let lane = (0..n).map(|i| (20 * i, 5)).collect::<Vec<_>>();
        Bank { kind, ..v5(5, &v5_payload(&std::array::from_fn(|_| lane.clone()))) }
    };
    let event: Vec<_> = (0..300).map(|_| bank(67, 0)).chain([bank(66, 3)]).collect();
    setup.batch = mep_batch(&[event.clone(), event]);
    setup
}

#[test]
fn banks_behind_those_that_are_gathered_at_a_time_are_gathered() {
    let mut setup = many_banks();
    let expected = hits_of(&setup);
    assert!(!expected.is_empty());
    for seed in SEEDS {
        setup.run(seed, Bug::None, ROOMY, expected.len()).unwrap();
        assert!(is_right(&setup, &expected));
        let bug = Bug::NoWarpBarrier("gather.rs", 1);
        let violation = setup.run_with(seed, bug, In::Gathering, ROOMY, expected.len());
        let violation = violation.expect_err("lanes overwrite what others still read");
        assert!(matches!(violation.fault, Fault::Race { .. }), "{violation}");
    }
}

#[test]
fn hits_without_room_are_not_written_and_the_status_says_so() {
    for (mut setup, expected) in [(FusedSetup::new(N_EVENTS), &EXPECTED), (FusedSetup::unusual(N_EVENTS), &UNUSUAL)] {
        let second = expected.offsets()[2 * setup.tables.n_groups()] as usize;
        for strips in [ROOMY, WINDOWS] {
            setup.run(1, Bug::None, strips, expected.len() - 1).unwrap();
            assert_eq!((setup.status, &setup.offsets[..]), (HITS_OVERFLOW, expected.offsets()));
            // Two events and a bit of the third: the bit is left alone.
            setup.run(2, Bug::None, strips, second + 7).unwrap();
            assert_eq!((setup.status, &setup.offsets[..]), (HITS_OVERFLOW, expected.offsets()));
            assert_eq!(setup.ids[..second], expected.id()[..second]);
            assert_eq!(setup.ids[second..], [u32::MAX; 7]);
        }
    }
}

/// Barriers of a kernel that nothing finds missing, with the seed.
fn needless(place: In, strips: u32, setups: &mut [FusedSetup]) -> Vec<(u32, u64)> {
    let capacity = UNUSUAL.len();
    let n_barriers =
        setups.iter_mut().map(|setup| setup.run_with(0, Bug::None, place, strips, capacity).unwrap().barriers as u32);
    let n_barriers = n_barriers.max().expect("there are some");
    assert!(n_barriers > 5, "{n_barriers}");
    let mut needless = Vec::new();
    for n in 0..n_barriers {
        for seed in SEEDS {
            let run = |setup: &mut FusedSetup| setup.run_with(seed, Bug::NoBarrier(n), place, strips, capacity);
            match setups.iter_mut().try_for_each(|setup| run(setup).map(|_| ())) {
                Ok(()) => needless.push((n, seed)),
                // (A number that is not there yet may be subtracted from.)
                Err(violation) => {
                    let is_caught = is_race(&violation) || matches!(violation.fault, Fault::Panicked(..));
                    assert!(is_caught, "barrier {n}: {violation}");
                }
            }
        }
    }
    needless
}

/// Events of one block whose banks are not all there, in the last and in the first chunk of 64: threads must learn of each
/// other's.
fn cut() -> [FusedSetup; 2] {
    let (mut late, mut early) = (FusedSetup::unusual(1), FusedSetup::unusual(1));
    late.batch.raw.pop();
    early.batch.raw.truncate(early.batch.raw.len() / 5);
    [late, early]
}

#[test]
fn no_barrier_can_go() {
    for strips in [ROOMY, WINDOWS] {
        let [late, early] = cut();
        let mut setups = [FusedSetup::new(1), FusedSetup::unusual(1), FusedSetup::overlapping(1), late, early];
        assert_eq!(needless(In::Fused, strips, &mut setups), [], "{strips} strips");
    }
}

#[test]
fn no_barrier_of_the_second_kernel_can_go() {
    let [late, early] = cut();
    let mut setups = [FusedSetup::unusual(1), late, early];
    assert_eq!(needless(In::Others, ROOMY, &mut setups), []);
}

#[test]
fn a_plain_add_instead_of_an_atomic_is_caught() {
    for (mut setup, place) in [(FusedSetup::unusual(1), In::Fused), (FusedSetup::unusual(1), In::Others)] {
        let violation = setup.run_with(0, Bug::PlainAdd, place, ROOMY, UNUSUAL.len()).expect_err("lanes add at once");
        assert!(matches!(violation.fault, Fault::Race { memory: "shared byte", .. }), "{violation}");
    }
}

#[test]
fn a_removed_warp_barrier_of_a_sort_is_caught() {
    for seed in SEEDS {
        for n in 0..3 {
            let violation =
                FusedSetup::unusual(1).run_with(seed, Bug::NoWarpBarrier("", n), In::Others, ROOMY, UNUSUAL.len());
            let violation = violation.expect_err("lanes overwrite what others look at");
            assert!(matches!(violation.fault, Fault::Race { memory: "global element", .. }), "{violation}");
        }
        // In registers, where hits are read; in shared memory the keys, a column that is read.
        for (n, factor) in [(0, 1), (0, 2), (1, 2), (4, 2)] {
            let mut setup = if factor == 1 { FusedSetup::new(1) } else { FusedSetup::crowded(1) };
            let bug = Bug::NoWarpBarrier("repair.rs", n);
            let violation = setup.run_with(seed, bug, In::Others, ROOMY, 2 * EXPECTED.len());
            let violation = violation.expect_err("lanes overwrite what others look at");
            let is_caught = is_race(&violation) || matches!(violation.fault, Fault::Panicked(..));
            assert!(is_caught, "{n}: {violation}");
        }
    }
}

#[test]
fn a_removed_warp_barrier_before_the_sums_of_clusters_go_on_is_caught() {
    for seed in SEEDS {
        FusedSetup::clustered(1).run(seed, Bug::None, ROOMY, EXPECTED.len()).expect("nothing is wrong");
        // Each chunk of 32 strips has clusters of four.
        for n in 0..3 {
            let bug = Bug::NoWarpBarrier("strips.rs", n);
            let violation = FusedSetup::clustered(1).run(seed, bug, ROOMY, EXPECTED.len());
            let violation = violation.expect_err("the third strip of a cluster adds to what the second writes");
            assert!(is_race(&violation), "{n}: {violation}");
        }
    }
}

#[test]
fn a_block_number_in_place_of_a_ticket_is_a_deadlock_on_a_device_with_little_room() {
    let mut setup = FusedSetup::new(N_EVENTS);
    let mut deadlocks = 0;
    for seed in 0..12 {
        // One block at a time: a block that waits, waits forever.
        setup.resident = 1 + seed as u32 % 2;
        match setup.run(seed, Bug::NumberForTicket, ROOMY, EXPECTED.len()) {
            Ok(_) => assert!(is_right(&setup, &EXPECTED), "an order in which no block waits in vain"),
            Err(violation) => {
                let Fault::Deadlock { waiting, resident, grid, .. } = violation.fault else { panic!("{violation}") };
                assert!(waiting == resident && resident <= 2 && grid == N_EVENTS as u32, "{violation}");
                assert!(violation.location.is_some_and(|at| at.file().ends_with("fused/look_back.rs")), "{violation}");
                deadlocks += 1;
            }
        }
        setup.run(seed, Bug::None, ROOMY, EXPECTED.len()).unwrap();
        assert!(is_right(&setup, &EXPECTED), "a ticket never deadlocks");
    }
    assert!(deadlocks >= 6, "only {deadlocks} of 12 orders");
}

/// Sums before each of `own`, by look-back; blocks in flight at most `resident`.
fn sums(own: &[u32], seed: u64, resident: u32) -> Vec<u32> {
    let mut executor = Executor::new(seed);
    executor.limit_resident(resident);
    let (mut words, mut sums) = (vec![0; LookBack::words(own.len())], vec![u32::MAX; own.len()]);
    let (words, out) = (executor.writable(&mut words), executor.writable(&mut sums));
    executor
        .launch("look_back", own.len() as u32, (32, 1), 0, |block| {
            let look_back = LookBack(words);
            let mut ticket = 0;
            if block.lane_id() == 0 {
                ticket = look_back.ticket(block);
            }
            let ticket = block.shuffle_idx_sync(FULL_MASK, ticket, 0);
            // The executor may change blocks here.
            block.sync_threads();
            let own = own[ticket as usize];
            if block.lane_id() == 0 {
                look_back.publish_aggregate(block, ticket, own);
            }
            block.sync_threads();
            let sum = look_back.exclusive_prefix(block, ticket, own);
            if block.lane_id() == 0 {
                block.store(out, ticket, sum);
            }
        })
        .unwrap();
    sums
}

#[test]
fn look_back_sums_what_is_before_in_any_order() {
    let own: Vec<u32> = (0..150).map(|i| i * 7919 % 1000).collect();
    let expected: Vec<u32> = (0..own.len()).map(|i| own[..i].iter().sum()).collect();
    for seed in 0..20 {
        assert_eq!(sums(&own, seed, 1 + 5 * seed as u32), expected, "seed {seed}");
    }
}

#[test]
fn look_back_stays_at_its_limit_and_never_wraps() {
    let half = LIMIT / 2;
    for seed in SEEDS {
        let own = [half, half, 1, 0, 7, LIMIT, u32::MAX, 0];
        assert_eq!(sums(&own, seed, 5), [0, half, LIMIT - 1, LIMIT, LIMIT, LIMIT, LIMIT, LIMIT]);
        // One more would be a flag.
        assert_eq!(sums(&[LIMIT + 1, 0], seed, 2), [0, LIMIT]);
        let many = [LIMIT; 70];
        assert!(sums(&many, seed, 64)[1..].iter().all(|&sum| sum == LIMIT));
    }
}

#[test]
fn blocks_that_wait_for_each_other_are_a_deadlock_and_those_that_get_on_are_not() {
    // Each waits for the next one's word.
    for n in [1, 2, 3] {
        let mut words = vec![0u32; 3];
        let mut executor = Executor::new(u64::from(n));
        executor.limit_resident(3);
        let view = executor.writable(&mut words);
        let result = executor.launch("ring", n, (32, 1), 0, |block| {
            while block.atomic_load(view, (block.block_idx_x() + 1) % n) == 0 {
                block.pause();
            }
            block.atomic_store(view, block.block_idx_x(), 1);
        });
        let violation = result.expect_err("no block writes the first word");
        assert!(matches!(violation.fault, Fault::Deadlock { finished: 0, .. }), "{violation}");
        assert!(violation.to_string().contains("waits for another block forever"), "{violation}");
        // Another warp of the same block may say it.
        let view = executor.writable(&mut words);
        executor
            .launch("self", n, (64, 1), 0, |block| {
                if block.warp_id() == 1 {
                    block.atomic_store(view, block.block_idx_x(), 1);
                } else {
                    while block.atomic_load(view, block.block_idx_x()) == 0 {
                        block.pause();
                    }
                }
            })
            .unwrap();
    }
}
