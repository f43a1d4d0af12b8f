//! The one-launch kernel and what is new with it: blocks that wait for each other, bugs planted into both.

mod kernels_setup;
mod suite;

use std::sync::LazyLock;

use kernels_setup::Bug;
use kernels_setup::fused::{FusedSetup, ROOMY, TIGHT, WINDOWS};
use simt::executor::{Executor, Fault, Violation};
use simt::{Block, FULL_MASK};
use suite::backends::decode;
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::{DecodeOptions, UtHits};
use ut_kernels::fused::Room;
use ut_kernels::fused::look_back::{LIMIT, LookBack};
use ut_kernels::status::HITS_OVERFLOW;

const SEEDS: std::ops::Range<u64> = 0..6;

/// Events of the setup, and the hits that they have.
const N_EVENTS: usize = 5;
static EXPECTED: LazyLock<UtHits> = LazyLock::new(|| {
    let setup = FusedSetup::new(N_EVENTS);
    let mut reference = ReferenceDecoder::new(&setup.tables, DecodeOptions::default());
    decode(&mut reference, &setup.tables, setup.batch.view()).0
});

fn is_right(setup: &FusedSetup) -> bool {
    setup.offsets == EXPECTED.offsets() && setup.ids == EXPECTED.id() && setup.status == 0
}

#[test]
fn the_kernel_runs_clean_through_a_sound_door_however_many_blocks_there_are_at_a_time() {
    let mut setup = FusedSetup::new(N_EVENTS);
    for seed in SEEDS {
        for room in [ROOMY, TIGHT, WINDOWS, Room { tile: 96, stage: 4096 }] {
            setup.resident = 1 + seed as u32;
            setup.run(seed, Bug::None, room, EXPECTED.len()).unwrap();
            assert!(is_right(&setup), "{room:?}, seed {seed}");
        }
    }
}

#[test]
fn fragments_are_staged_and_banks_gathered_in_mep_layout() {
    // More events than a warp gathers at a time.
    let mut setup = FusedSetup::mep(35);
    let mut reference = ReferenceDecoder::new(&setup.tables, DecodeOptions::default());
    let expected = decode(&mut reference, &setup.tables, setup.batch.view()).0;
    for (seed, room) in [(0, ROOMY), (1, Room { tile: 1536, stage: 4096 })] {
        setup.run(seed, Bug::None, room, expected.len()).unwrap();
        assert_eq!((&setup.offsets[..], &setup.ids[..], setup.status), (expected.offsets(), expected.id(), 0));
    }
}

#[test]
fn removed_warp_barriers_of_gathering_and_staging_are_caught() {
    let mut setup = FusedSetup::mep(2);
    for seed in SEEDS {
        for staging in [false, true] {
            let run = if staging { FusedSetup::run } else { FusedSetup::run_after };
            let violation = run(&mut setup, seed, Bug::NoWarpBarrier(0), ROOMY, 2 * EXPECTED.len());
            let violation = violation.expect_err("lanes read what others write");
            let is_caught = matches!(violation.fault, Fault::Race { .. } | Fault::UnwrittenShared { .. });
            assert!(is_caught, "{violation}");
        }
    }
}

#[test]
fn hits_without_room_are_not_written_and_the_status_says_so() {
    let mut setup = FusedSetup::new(N_EVENTS);
    let second = EXPECTED.offsets()[2 * setup.tables.n_groups()] as usize;
    for room in [ROOMY, TIGHT] {
        setup.run(1, Bug::None, room, EXPECTED.len() - 1).unwrap();
        assert_eq!((setup.status, &setup.offsets[..]), (HITS_OVERFLOW, EXPECTED.offsets()));
        // Two events and a bit of the third: the bit is left alone.
        setup.run(2, Bug::None, room, second + 7).unwrap();
        assert_eq!((setup.status, &setup.offsets[..]), (HITS_OVERFLOW, EXPECTED.offsets()));
        assert_eq!(setup.ids[..second], EXPECTED.id()[..second]);
        assert_eq!(setup.ids[second..], [u32::MAX; 7]);
    }
}

#[test]
fn no_barrier_can_go() {
    for room in [ROOMY, TIGHT, WINDOWS] {
        let mut setup = FusedSetup::new(1);
        let n_hits = EXPECTED.offsets()[setup.tables.n_groups()] as usize;
        // Banks that are not all there, in the last and in the first chunk of 64: threads must learn of each other's.
        let (mut late, mut early) = (FusedSetup::new(1), FusedSetup::new(1));
        late.batch.raw.pop();
        early.batch.raw.truncate(early.batch.raw.len() / 5);
        let n_barriers = setup.run(0, Bug::None, room, n_hits).unwrap().barriers as u32;
        assert!(n_barriers > 16, "{n_barriers}");
        let mut needless = Vec::new();
        for n in 0..n_barriers {
            for seed in SEEDS {
                let run = |setup: &mut FusedSetup| setup.run(seed, Bug::NoBarrier(n), room, n_hits);
                match run(&mut setup).and_then(|_| run(&mut late)).and_then(|_| run(&mut early)) {
                    Ok(_) => needless.push((n, seed)),
                    Err(Violation { fault: Fault::Race { .. } | Fault::UnwrittenShared { .. }, .. }) => {}
                    Err(violation) => panic!("barrier {n}: {violation}"),
                }
            }
        }
        assert_eq!(needless, [], "{room:?}");
    }
}

#[test]
fn a_plain_add_instead_of_an_atomic_is_caught() {
    let mut setup = FusedSetup::new(1);
    for room in [ROOMY, TIGHT, WINDOWS] {
        let violation = setup.run(0, Bug::PlainAdd, room, EXPECTED.len()).expect_err("lanes add at once");
        assert!(matches!(violation.fault, Fault::Race { memory: "shared byte", .. }), "{violation}");
    }
}

#[test]
fn a_removed_warp_barrier_of_the_sort_in_place_is_caught() {
    let mut setup = FusedSetup::new(1);
    for n in 0..3 {
        for seed in SEEDS {
            let violation = setup.run(seed, Bug::NoWarpBarrier(n), TIGHT, EXPECTED.len());
            let violation = violation.expect_err("lanes overwrite what others look at");
            assert!(matches!(violation.fault, Fault::Race { memory: "global element", .. }), "{violation}");
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
            Ok(_) => assert!(is_right(&setup), "an order in which no block waits in vain"),
            Err(violation) => {
                let Fault::Deadlock { waiting, resident, grid, .. } = violation.fault else { panic!("{violation}") };
                assert!(waiting == resident && resident <= 2 && grid == N_EVENTS as u32, "{violation}");
                assert!(violation.location.is_some_and(|at| at.file().ends_with("fused/look_back.rs")), "{violation}");
                deadlocks += 1;
            }
        }
        setup.run(seed, Bug::None, ROOMY, EXPECTED.len()).unwrap();
        assert!(is_right(&setup), "a ticket never deadlocks");
    }
    assert!(deadlocks >= 6, "only {deadlocks} of 12 orders");
}

/// Sums before each of `own`, by look-back; blocks in flight at most `resident`.
fn sums(own: &[u32], seed: u64, resident: u32) -> Vec<u32> {
    let mut executor = Executor::new(seed);
    executor.limit_resident(resident);
    let (mut words, mut sums) = (vec![0; 1 + own.len()], vec![u32::MAX; own.len()]);
    let (words, out) = (executor.writable(&mut words), executor.writable(&mut sums));
    executor
        .launch("look_back", own.len() as u32, (32, 1), 0, |block| {
            let look_back = LookBack(words);
            let mut ticket = 0;
            if block.lane_id() == 0 {
                ticket = look_back.ticket(block);
            }
            let ticket = block.shuffle_idx_sync(FULL_MASK, ticket, 0);
            // Where blocks may change.
            block.sync_threads();
            let own = own[ticket as usize];
            if block.lane_id() == 0 {
                look_back.publish_own(block, ticket, own);
            }
            block.sync_threads();
            let sum = look_back.sum_before(block, ticket, own);
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
