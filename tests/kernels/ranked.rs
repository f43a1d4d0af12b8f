//! The kernels of the ranked pipeline: events that are deferred or left out, and bugs planted into
//! all of it.

use std::sync::LazyLock;

use crate::setup::ranked::{In, RankedSetup};
use crate::setup::{Bug, is_race};
use crate::suite::backends::decode;
use crate::suite::events::{Bank, generated, mep_batch, tables, v4_payload, v5, v5_payload};
use simt::executor::{Executor, Fault, explore};
use simt::{Global, Kernel};
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::detector::BankVersion;
use ut_decoding::{DecodeOptions, UtHits};
use ut_kernels::ranked::select::{SELECT_THREADS, SelectEvents, select_blocks};
use ut_kernels::status::{HITS_OVERFLOW, NO_SUCH_EVENT};
use ut_kernels::switches::Layout;

const SEEDS: std::ops::Range<u64> = 0..6;

const N_EVENTS: usize = 5;

fn hits_of(setup: &RankedSetup) -> UtHits {
    let mut reference = ReferenceDecoder::new(&setup.tables, DecodeOptions::default());
    decode(&mut reference, &setup.tables, setup.batch.view()).0
}

static EXPECTED: LazyLock<UtHits> = LazyLock::new(|| hits_of(&RankedSetup::new(N_EVENTS)));
static UNUSUAL: LazyLock<UtHits> = LazyLock::new(|| hits_of(&RankedSetup::unusual(N_EVENTS)));

fn is_right(setup: &RankedSetup, expected: &UtHits) -> bool {
    setup.offsets == expected.offsets() && setup.ids == expected.id() && setup.status == 0
}

#[test]
fn the_kernels_run_clean_without_a_bug_however_many_blocks_are_resident_or_launched() {
    let (mut ordinary, mut unusual) = (RankedSetup::new(N_EVENTS), RankedSetup::unusual(N_EVENTS));
    let (mut crowded, mut overlapping) = (RankedSetup::crowded(2), RankedSetup::overlapping(1));
    let mut columns = RankedSetup::crowded_columns(1);
    let (in_crowd, in_overlap) = (hits_of(&crowded), hits_of(&overlapping));
    let in_columns = hits_of(&columns);
    for (setup, expected, deferred) in [
        (&mut ordinary, &*EXPECTED, 0),
        (&mut unusual, &*UNUSUAL, N_EVENTS as u32),
        (&mut crowded, &in_crowd, 0),
        (&mut overlapping, &in_overlap, 0),
        (&mut columns, &in_columns, 0),
    ] {
        for (resident, grid) in [(1, 1), (2, 2), (5, 64)] {
            (setup.resident, setup.grid) = (resident, grid);
            let explored = explore([u64::from(resident)], |executor| {
                let ran = setup.run_in(executor, Bug::None, In::Cluster, expected.len());
                ran.map_err(|violation| violation.to_string())?;
                let right = is_right(setup, expected) && setup.deferred == deferred;
                if right {
                    Ok(())
                } else {
                    Err(format!("wrong hits of {grid} blocks"))
                }
            });
            explored.unwrap_or_else(|failure| panic!("{failure}"));
        }
    }
}

#[test]
fn v4_events_with_empty_banks_are_not_deferred() {
    let mut events = generated(BankVersion::V4, 2);
    events[0][7].payload = v4_payload(&[]);
    for layout in [Layout::Allen, Layout::Mep] {
        let mut setup = RankedSetup::on(tables(BankVersion::V4), layout, &events);
        let expected = hits_of(&setup);
        assert!(!expected.is_empty());
        setup.run(0, Bug::None, expected.len()).unwrap();
        assert_eq!((is_right(&setup, &expected), setup.deferred), (true, 0));
    }
}

#[test]
fn banks_are_gathered_in_mep_layout() {
    // More events than a warp gathers at a time.
    let mut setup = RankedSetup::mep(35);
    let expected = hits_of(&setup);
    for seed in 0..2 {
        setup.run(seed, Bug::None, expected.len()).unwrap();
        assert!(is_right(&setup, &expected));
        assert_eq!(setup.deferred, 0);
    }
}

/// Sets bit `event % 32` of word `event / 32`. The lists have events at both sides of a word's end
/// (31, 32), repeat some, and are longer than the number of events. Event 70 of 70 does not exist,
/// and neither does the largest number: these must set the status, and no bit of a word that is
/// there or beyond.
#[test]
fn a_list_in_any_order_becomes_one_bit_per_event() {
    let n_events = 70;
    for list in [
        vec![],
        vec![69, 0, 31, 32, 0, 33],
        (0..70).rev().collect::<Vec<u32>>(),
        (0..700).map(|i| i % 7).collect(),
    ] {
        let mut expected = vec![0u32; 3];
        for &event in &list {
            expected[event as usize / 32] |= 1 << (event % 32);
        }
        for (missing, says) in [
            (None, 0),
            (Some(70), NO_SUCH_EVENT),
            (Some(u32::MAX), NO_SUCH_EVENT),
        ] {
            let listed: Vec<u32> = list.iter().copied().chain(missing).collect();
            let (mut mask, mut status) = (vec![0u32; 3], [0]);
            let mut executor = Executor::new(4);
            let (mask_view, status_view) =
                (executor.writable(&mut mask), executor.writable(&mut status));
            let list = Global::from_slice(&listed);
            executor
                .launch(
                    "select_events",
                    select_blocks(listed.len() as u32),
                    (SELECT_THREADS, 1),
                    0,
                    |block| {
                        SelectEvents.run(block, &(list, n_events, mask_view, status_view));
                    },
                )
                .unwrap();
            assert_eq!((&mask, status[0]), (&expected, says), "{listed:?}");
        }
    }
}

/// Selects events 1, 2 and 4 by the bits `0b10110`, then none, then all with bits for events that
/// do not exist. The offsets of an event that is left out all equal the end of the event before it,
/// so that a reader needs no list to find the hits.
#[test]
fn events_that_are_not_selected_have_no_hits_and_nothing_in_their_report() {
    for (mut setup, all) in [
        (RankedSetup::new(N_EVENTS), &EXPECTED),
        (RankedSetup::unusual(N_EVENTS), &UNUSUAL),
    ] {
        let n_groups = setup.tables.n_groups();
        for (selected, wanted) in [
            (0b1_0110, [1, 2, 4].as_slice()),
            (0, &[]),
            (u32::MAX, &[0, 1, 2, 3, 4]),
        ] {
            setup.selected = vec![selected];
            setup.run(3, Bug::None, all.len()).unwrap();
            let (mut ids, mut offsets) = (Vec::new(), Vec::new());
            for event in 0..N_EVENTS {
                let ends = &all.offsets()[event * n_groups..][..=n_groups];
                let is_wanted = wanted.contains(&event);
                let first = ids.len() as u32;
                offsets.extend(ends[..n_groups].iter().map(|&end| {
                    if is_wanted {
                        first + end - ends[0]
                    } else {
                        first
                    }
                }));
                if is_wanted {
                    ids.extend_from_slice(&all.id()[ends[0] as usize..ends[n_groups] as usize]);
                }
                let report = &setup.report[event * setup.report.len() / N_EVENTS..][..2];
                assert_eq!(
                    report.iter().any(|&n| n > 0),
                    is_wanted,
                    "event {event} of {selected:b}"
                );
            }
            offsets.push(ids.len() as u32);
            assert_eq!(
                (&setup.offsets, &setup.ids[..ids.len()]),
                (&offsets, &ids[..]),
                "{selected:b}"
            );
            assert!(
                setup.ids[ids.len()..].iter().all(|&id| id == u32::MAX),
                "{selected:b}"
            );
        }
    }
}

#[test]
fn a_removed_warp_barrier_of_gathering_is_caught() {
    let mut setup = RankedSetup::mep(2);
    for seed in SEEDS {
        let violation = setup.run_with(
            seed,
            Bug::NoWarpBarrier("gather.rs", 0),
            In::Gathering,
            2 * EXPECTED.len(),
        );
        let violation = violation.expect_err("lanes read what others write");
        assert!(is_race(&violation), "{violation}");
    }
}

/// Makes two events with more banks than a launch gathers at a time, with hits in the last bank
/// only.
fn many_banks() -> RankedSetup {
    let mut setup = RankedSetup::mep(2);
    let bank = |kind, n| {
        let lane = (0..n).map(|i| (20 * i, 5)).collect::<Vec<_>>();
        Bank {
            kind,
            ..v5(5, &v5_payload(&std::array::from_fn(|_| lane.clone())))
        }
    };
    let event: Vec<_> = (0..300).map(|_| bank(67, 0)).chain([bank(66, 3)]).collect();
    setup.batch = mep_batch(&[event.clone(), event]);
    setup
}

#[test]
fn banks_beyond_the_first_gathering_round_are_gathered() {
    let mut setup = many_banks();
    let expected = hits_of(&setup);
    assert!(!expected.is_empty());
    for seed in SEEDS {
        setup.run(seed, Bug::None, expected.len()).unwrap();
        assert!(is_right(&setup, &expected));
        let bug = Bug::NoWarpBarrier("gather.rs", 1);
        let violation = setup.run_with(seed, bug, In::Gathering, expected.len());
        let violation = violation.expect_err("lanes overwrite what others still read");
        assert!(matches!(violation.fault, Fault::Race { .. }), "{violation}");
    }
}

/// Gives the hits one place too few, and then room for two events and seven hits. The offsets must
/// be those that all hits would have, since a caller learns from the last one how much room to
/// make.
#[test]
fn hits_without_room_are_not_written_and_the_status_says_so() {
    for (mut setup, expected) in [
        (RankedSetup::new(N_EVENTS), &EXPECTED),
        (RankedSetup::unusual(N_EVENTS), &UNUSUAL),
    ] {
        let second = expected.offsets()[2 * setup.tables.n_groups()] as usize;
        setup.run(1, Bug::None, expected.len() - 1).unwrap();
        assert_eq!(
            (setup.status, &setup.offsets[..]),
            (HITS_OVERFLOW, expected.offsets())
        );
        // Two events and a bit of the third: the bit is left alone.
        setup.run(2, Bug::None, second + 7).unwrap();
        assert_eq!(
            (setup.status, &setup.offsets[..]),
            (HITS_OVERFLOW, expected.offsets())
        );
        assert_eq!(setup.ids[..second], expected.id()[..second]);
        assert_eq!(setup.ids[second..], [u32::MAX; 7]);
    }
}

/// Returns the barriers, of `n_barriers` of an event, that nothing finds missing, with the seed.
fn needless(place: In, n_barriers: u32, setups: &mut [RankedSetup]) -> Vec<(u32, u64)> {
    let capacity = UNUSUAL.len();
    let barriers = |setup: &mut RankedSetup| {
        setup
            .run_with(0, Bug::None, place, capacity)
            .unwrap()
            .barriers as u32
            / setup.batch.n_events as u32
    };
    assert_eq!(setups.iter_mut().map(barriers).max(), Some(n_barriers));
    let mut needless = Vec::new();
    for n in 0..n_barriers {
        for seed in SEEDS {
            let run =
                |setup: &mut RankedSetup| setup.run_with(seed, Bug::NoBarrier(n), place, capacity);
            match setups
                .iter_mut()
                .try_for_each(|setup| run(setup).map(|_| ()))
            {
                Ok(()) => needless.push((n, seed)),
                // (A number that is not there yet may be subtracted from.)
                Err(violation) => {
                    let is_caught =
                        is_race(&violation) || matches!(violation.fault, Fault::Panicked(..));
                    assert!(is_caught, "barrier {n}: {violation}");
                }
            }
        }
    }
    needless
}

/// Makes events of one block with missing banks in the last and in the first chunk of 64, so that
/// threads must learn of breaks that other threads found.
fn cut() -> [RankedSetup; 2] {
    let (mut late, mut early) = (RankedSetup::unusual(1), RankedSetup::unusual(1));
    late.batch.raw.pop();
    early.batch.raw.truncate(early.batch.raw.len() / 5);
    [late, early]
}

#[test]
fn no_barrier_of_the_clustering_can_go() {
    let [late, early] = cut();
    let setups = [
        RankedSetup::new(1),
        RankedSetup::unusual(1),
        RankedSetup::overlapping(1),
        late,
        early,
    ];
    assert_eq!(needless(In::Cluster, 3, &mut { setups }), []);
}

#[test]
fn no_barrier_of_unusual_events_can_go() {
    // Three events for two blocks.
    let [late, early] = cut();
    assert_eq!(
        needless(In::Unusual, 18, &mut [RankedSetup::unusual(3), late, early]),
        []
    );
}

#[test]
fn a_plain_add_instead_of_an_atomic_is_caught() {
    let violation = RankedSetup::unusual(1).run_with(0, Bug::PlainAdd, In::Unusual, UNUSUAL.len());
    let violation = violation.expect_err("lanes add at once");
    assert!(
        matches!(
            violation.fault,
            Fault::Race {
                memory: "shared byte",
                ..
            }
        ),
        "{violation}"
    );
}

#[test]
fn a_removed_warp_barrier_of_the_lists_of_lanes_is_caught() {
    // The last two are for warps with more strips than a window.
    for n in 0..4 {
        let bug = Bug::NoWarpBarrier("cluster/lists.rs", n);
        let setup = || {
            if n < 2 {
                RankedSetup::new(1)
            } else {
                RankedSetup::crowded(1)
            }
        };
        let violation = SEEDS
            .clone()
            .find_map(|seed| setup().run(seed, bug, 2 * EXPECTED.len()).err());
        let violation = violation.unwrap_or_else(|| panic!("{n}: lanes read what others write"));
        assert!(is_race(&violation), "{n}: {violation}");
    }
}

#[test]
fn clusters_of_several_strips_are_right() {
    let mut setup = RankedSetup::clustered(2);
    let expected = hits_of(&setup);
    for seed in SEEDS {
        setup
            .run(seed, Bug::None, expected.len())
            .expect("nothing is wrong");
        assert!(is_right(&setup, &expected), "seed {seed}");
    }
}

#[test]
fn a_removed_barrier_of_the_sort_is_caught() {
    // Cleared, marked, counted, added up, keys: of a pack of groups; the same, and the sum, of a
    // group that a block sorts.
    let warp = (0..5).map(|n| (Bug::NoWarpBarrier("sort_groups.rs", n), false));
    let block = (0..6).map(|n| (Bug::NoBarrier(n), true));
    for (bug, is_large) in warp.chain(block) {
        let run = |seed| {
            let mut setup = if is_large {
                RankedSetup::crowded_columns(1)
            } else {
                RankedSetup::overlapping(1)
            };
            setup.run_with(seed, bug, In::Sort, UNUSUAL.len()).err()
        };
        let violation = SEEDS
            .clone()
            .find_map(run)
            .unwrap_or_else(|| panic!("{bug:?}: lanes overwrite what others read"));
        assert!(is_race(&violation), "{bug:?}: {violation}");
    }
}

#[test]
fn a_block_number_in_place_of_a_ticket_is_a_deadlock_on_a_device_with_little_room() {
    // Three blocks of the scan.
    let mut setup = RankedSetup::mep(70);
    let capacity = hits_of(&setup).len();
    let mut deadlocks = 0;
    for seed in 0..12 {
        // One block at a time: a block that waits, waits forever.
        setup.resident = 1;
        match setup.run_with(seed, Bug::NumberForTicket, In::Scan, capacity) {
            Ok(_) => assert_eq!(setup.status, 0, "an order in which no block waits in vain"),
            Err(violation) => {
                let Fault::Deadlock {
                    waiting,
                    resident,
                    grid,
                    ..
                } = violation.fault
                else {
                    panic!("{violation}")
                };
                assert!(
                    waiting == resident && resident == 1 && grid == 3,
                    "{violation}"
                );
                deadlocks += 1;
            }
        }
    }
    assert!(deadlocks >= 6, "only {deadlocks} of 12 orders");
}
