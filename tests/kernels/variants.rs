//! The kernels give the reference's bits with every switch, every launch parameter and every
//! schedule.

use crate::suite::backends::{as_reference, decode};
use crate::suite::data::Real;
use crate::suite::events::{
    Event, allen_batch, changed, generated, mep_batch, tables, tables_in, v5, v5_payload,
};
use crate::suite::nasty::{self, check};
use proptest::prelude::{Just, Strategy, any, prop};
use proptest::prop_oneof;
use ut_decoding::decoder::Pipeline;
use ut_decoding::decoder::emulated::{EmulatedConfig, EmulatedDecoder};
use ut_decoding::decoder::parameters::{Parameters, launch_parameters};
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::detector::{BankVersion, Lane};
use ut_decoding::{BatchView, DecodeOptions, DetectorTables, Grouping, UtHits};
use ut_kernels::switches::{Layout, Switches};

fn compare(
    tables: &DetectorTables,
    options: DecodeOptions,
    config: EmulatedConfig,
    batch: BatchView<'_>,
) -> Result<(), String> {
    let mut decoder = EmulatedDecoder::new(tables, options, config).expect("valid parameters");
    as_reference(&mut decoder, tables, options, batch).map_err(|what| format!("{config:?}: {what}"))
}

fn switches() -> impl Strategy<Value = Switches> {
    let bins = prop_oneof![Just(1), Just(16)];
    (any::<[bool; 6]>(), bins).prop_map(|(on, bins)| Switches {
        version: BankVersion::V5,
        layout: Layout::Allen,
        flat_map: on[0],
        zero_suppression: on[1],
        warp_atomics: on[2],
        bins,
        narrow_sums: on[3],
        layer_loop: on[4],
        opportunistic: on[5],
    })
}

/// Returns a strategy for any valid value of any parameter.
fn launch() -> impl Strategy<Value = Parameters> {
    let values: Vec<_> = launch_parameters()
        .iter()
        .map(|parameter| {
            (parameter.min / parameter.step..=parameter.max / parameter.step)
                .prop_map(move |n| n * parameter.step)
        })
        .collect();
    let shape = prop::sample::select(vec![
        (32, 1),
        (16, 6),
        (3, 32),
        (96, 2),
        (1, 1024),
        (1024, 1),
        (32, 32),
        (8, 4),
    ]);
    (values, shape).prop_map(|(values, (x, y))| {
        let mut params = Parameters::default();
        for (parameter, value) in launch_parameters().iter().zip(values) {
            params.set(parameter.name, value).expect("a valid value");
        }
        params.set("cluster.block_x", x).expect("a valid value");
        params.set("cluster.block_y", y).expect("a valid value");
        params
    })
}

fn config() -> impl Strategy<Value = (Pipeline, EmulatedConfig)> {
    let pipeline = prop::sample::select(Pipeline::ALL.to_vec());
    (any::<u64>(), pipeline, launch(), switches()).prop_map(|(seed, pipeline, launch, switches)| {
        let launch = launch.with_pipeline(pipeline);
        let config = EmulatedConfig::of(&launch)
            .with_seed(seed)
            .with_switches(switches);
        (pipeline, config)
    })
}

/// Part of a batch: an interval or a list of its events, perhaps with one version for all banks.
#[derive(Clone, Debug)]
struct Part {
    first_event: usize,
    n_events: usize,
    selected: Option<Vec<u32>>,
    /// True if it has one version for all banks.
    has_one_version: bool,
    version: Option<u8>,
}

fn part() -> impl Strategy<Value = Part> {
    let selected = prop::option::of(prop::collection::vec(any::<prop::sample::Index>(), 0..4));
    let version = (any::<bool>(), prop::option::of(3..5u8));
    (0..3usize, 1..4usize, selected, version).prop_map(
        |(first_event, n_events, selected, version)| {
            let number = |index: prop::sample::Index| index.index(n_events) as u32;
            let selected = selected.map(|list| list.into_iter().map(number).collect());
            let (has_one_version, version) = version;
            Part {
                first_event,
                n_events,
                selected,
                has_one_version,
                version,
            }
        },
    )
}

impl Part {
    fn of<'a>(&'a self, batch: BatchView<'a>, pipeline: Pipeline) -> BatchView<'a> {
        let (first_event, n_events) = (self.first_event, self.n_events);
        // Allen's kernels take no list.
        let selected = if pipeline == Pipeline::Allen {
            None
        } else {
            self.selected.as_deref()
        };
        let part = BatchView {
            first_event,
            n_events,
            selected,
            ..batch
        };
        if self.has_one_version {
            BatchView {
                versions: None,
                version: self.version,
                ..part
            }
        } else {
            part
        }
    }
}

fn detectors() -> [DetectorTables; 2] {
    [
        tables_in(BankVersion::V4, Grouping::UniqueX),
        tables(BankVersion::V5),
    ]
}

/// Decodes nasty events by any variant: whole batches, batches with changed bytes, and parts.
fn nasty_events(tables: &DetectorTables) {
    let events = nasty::aligned_events(tables.boards(), 0..4);
    let strategy = (
        events,
        nasty::options(),
        nasty::corruptions(),
        config(),
        part(),
    );
    check(
        &strategy,
        20,
        |(events, options, corruptions, (pipeline, config), part)| {
            // The decoder is reused: nothing of one batch may show in the next.
            let mut decoder =
                EmulatedDecoder::new(tables, options, config).expect("valid parameters");
            let mut same =
                |batch: BatchView<'_>| as_reference(&mut decoder, tables, options, batch);
            for mut batch in [allen_batch(&events), mep_batch(&events)] {
                same(batch.view())?;
                nasty::corrupt(&mut batch, &corruptions);
                same(batch.view())?;
                same(part.of(batch.view(), pipeline))?;
            }
            Ok(())
        },
    );
}

#[test]
fn any_variant_decodes_nasty_v4_events_as_the_reference_does() {
    nasty_events(&detectors()[0]);
}

#[test]
fn any_variant_decodes_nasty_v5_events_as_the_reference_does() {
    nasty_events(&detectors()[1]);
}

fn any_variant(tables: &DetectorTables, events: &[Event], cases: u32) {
    let strategy = (nasty::options(), config(), 0..events.len(), 0..4usize);
    check(&strategy, cases, |(options, (_, config), first, n)| {
        let events = &events[first..events.len().min(first + n)];
        compare(tables, options, config, allen_batch(events).view())?;
        compare(tables, options, config, mep_batch(events).view())
    });
}

#[test]
fn any_variant_decodes_events_as_the_reference_does() {
    for tables in detectors() {
        any_variant(&tables, &generated(tables.boards().version, 6), 8);
    }
}

#[test]
#[ignore = "needs the real events: UT_DECODE_DATA"]
fn real_events_are_decoded_by_any_variant_as_the_reference_does() {
    for real in [Real::V4, Real::V5] {
        let (tables, events) = real.needed(Grouping::YRows);
        any_variant(&tables, &events, 16);
    }
}

#[test]
fn the_smallest_and_largest_blocks_give_the_same_bits() {
    let tables = tables(BankVersion::V5);
    let batch = allen_batch(&generated(BankVersion::V5, 1));
    for threads in [32, 64, 96, 160, 352, 512, 992, 1024] {
        let mut launch = Parameters::default();
        for parameter in launch_parameters()
            .iter()
            .filter(|parameter| parameter.name.ends_with("block_x"))
        {
            launch
                .set(parameter.name, threads.min(parameter.max))
                .expect("a multiple of 32");
        }
        launch.set("cluster.block_y", 1).expect("valid");
        for pipeline in Pipeline::ALL {
            let config =
                EmulatedConfig::of(&launch.with_pipeline(pipeline)).with_seed(u64::from(threads));
            compare(&tables, DecodeOptions::default(), config, batch.view())
                .unwrap_or_else(|error| panic!("{threads}: {error}"));
        }
    }
}

#[test]
fn a_group_with_thousands_of_hits_is_sorted() {
    // All sectors of a layer at one x: a group a layer.
    let regular = tables(BankVersion::V5);
    let mut geometry = regular.geometry().clone();
    geometry
        .sectors
        .iter_mut()
        .for_each(|sector| sector.p0_x = 0.0);
    let tables = DetectorTables::trusting(regular.boards().clone(), geometry, Grouping::UniqueX)
        .expect("valid tables");
    assert_eq!(tables.n_groups(), 4);
    let falling: Vec<(u16, u8)> = (0..40)
        .map(|i| (509 - 12 * i, 1 + (i % 31) as u8))
        .collect();
    let rising: Vec<_> = falling.iter().copied().rev().collect();
    let in_group_0 = |board: &u16| {
        let slots = &tables.slots()[6 * usize::from(*board)..][..6];
        slots
            .iter()
            .filter(|slot| slot.is_connected() && slot.group == 0)
            .count()
    };
    let boards: Vec<u16> = (0..tables.boards().n_boards() as u16)
        .filter(|board| in_group_0(board) >= 4)
        .collect();
    assert!(boards.iter().map(in_group_0).sum::<usize>() * rising.len() > 2 * 4096);
    let event = |hits: &Vec<(u16, u8)>| {
        let bank = |&board: &u16| {
            let slots = &tables.slots()[6 * usize::from(board)..][..6];
            // Hits where nothing is connected would be trouble.
            let lane = |lane: usize| {
                if slots[lane].is_connected() {
                    hits.clone()
                } else {
                    Vec::new()
                }
            };
            v5(board, &v5_payload(&std::array::from_fn(lane)))
        };
        boards.iter().map(bank).collect::<Vec<_>>()
    };
    // The lanes of the first event are not sorted: it is deferred.
    let batch = allen_batch(&[event(&falling), event(&rising)]);
    for (pipeline, parameter, value) in [
        (Pipeline::Ranked, "ranked.sort_block_x", 32),
        (Pipeline::Ranked, "ranked.sort_block_x", 256),
        (Pipeline::Allen, "sort.run", 32),
        (Pipeline::Allen, "sort.run", 4096),
    ] {
        let mut launch = Parameters::default().with_pipeline(pipeline);
        launch.set(parameter, value).expect("valid");
        let switches = Switches {
            layer_loop: false,
            ..Switches::production(BankVersion::V5, Layout::Allen)
        };
        let config = EmulatedConfig::of(&launch)
            .with_seed(3)
            .with_switches(switches);
        compare(&tables, DecodeOptions::default(), config, batch.view()).unwrap();
    }
}

/// Returns the number of adjacent hits that differ and have the same key.
fn ties(hits: &UtHits) -> usize {
    let key = |i: usize| (hits.x_at_y_eq0()[i].to_bits(), hits.id()[i]);
    let rest = |i: usize| (hits.y_begin()[i].to_bits(), hits.z_at_y_eq0()[i].to_bits());
    (1..hits.len())
        .filter(|&i| key(i) == key(i - 1) && rest(i) != rest(i - 1))
        .count()
}

#[test]
fn hits_with_equal_keys_have_a_fixed_order() {
    // One board again and again, with clusters whose means differ so little that x does not, but y
    // does: that needs a sector whose y is near 0.
    let tables = tables(BankVersion::V5);
    let mut numbers = 1u64;
    let mut adc = || {
        numbers = numbers.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (numbers >> 40) as u8 % 31 + 1
    };
    let mut n_boards = 0;
    for board in 0..tables.boards().n_boards() as u16 {
        let mut lane = || (100..104).map(|strip| (strip, adc())).collect();
        let mut bank = || v5(board, &v5_payload(&std::array::from_fn(|_| lane())));
        let batch = allen_batch(&[(0..216).map(|_| bank()).collect()]);
        let options = DecodeOptions::default();
        let (hits, _) = decode(
            &mut ReferenceDecoder::new(&tables, options),
            &tables,
            batch.view(),
        );
        if ties(&hits) == 0 {
            continue;
        }
        n_boards += 1;
        // Ordinary events of boards that all read these six sectors, with groups large and small.
        let copies = changed(BankVersion::V5, |boards, _| {
            let lanes = boards.lanes[6 * usize::from(board)..][..6].to_vec();
            boards.lanes.fill(Lane::default());
            boards.lanes[..6 * 150]
                .chunks_mut(6)
                .for_each(|copy| copy.copy_from_slice(&lanes));
            boards.strips_per_hybrid.fill(512);
        });
        let banks: Vec<_> = (0..150)
            .map(|board| v5(board, &v5_payload(&std::array::from_fn(|_| lane()))))
            .collect();
        let of_copies = allen_batch(&[150, 50, 9].map(|n| banks[..n].to_vec()));
        for seed in 0..4 {
            for pipeline in Pipeline::ALL {
                let config = EmulatedConfig::default()
                    .with_pipeline(pipeline)
                    .with_seed(seed);
                compare(&tables, options, config, batch.view()).unwrap();
                compare(&copies, options, config, of_copies.view()).unwrap();
            }
        }
        if n_boards == 3 {
            return;
        }
    }
    panic!("only {n_boards} boards have hits with equal keys");
}

#[test]
fn launch_parameters_that_contradict_each_other_are_refused() {
    let tables = tables(BankVersion::V5);
    let mut launch = Parameters::default();
    launch.set("cluster.block_x", 33).expect("valid alone");
    let config = EmulatedConfig::of(&launch);
    let error = EmulatedDecoder::new(&tables, DecodeOptions::default(), config)
        .expect_err("33 x 4 threads");
    assert!(error.to_string().contains("33 x 4"), "{error}");
}
