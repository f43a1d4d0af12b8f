//! One suite for all decoders: whatever is tested here is tested on every backend of
//! `suite::backends::backends`.

use crate::suite::backends::{All, backends, compare, decode, up_to};
use crate::suite::data::{Real, expected, rows};
use crate::suite::events::{
    Event, VERSIONS, allen_batch, changed, fits_mep, generated, mep_batch, tables, v5, v5_payload,
};
use crate::suite::nasty::{self, check};
use proptest::prop_oneof;
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::decoder::{Count, EventReport, Kind};
use ut_decoding::detector::{BankVersion, Lane};
use ut_decoding::{
    BatchReport, BatchView, DecodeError, DecodeOptions, DetectorTables, EventBatch, Flip, Grouping,
    Position, UtHits,
};

#[test]
#[ignore = "needs a GPU"]
fn a_gpu_is_among_the_backends() {
    assert!(backends().iter().any(|(name, _)| name.starts_with("cuda")));
}

#[test]
#[ignore = "needs the real events: UT_DECODE_DATA"]
fn real_events_give_the_expected_bits() {
    // The expected files are of 512, as Allen counted until v7r9, unless they are named otherwise.
    let plain = DecodeOptions::default().with_flip(Flip::From512);
    let of_one_event = [
        (
            plain.with_flip(Flip::From511),
            "v5_event0_flip511_y-rows.csv",
        ),
        (
            plain.with_position(Position::Geometric),
            "v5_event0_geometric_y-rows.csv",
        ),
        (
            up_to(4).with_flip(Flip::From512),
            "v5_event0_max4_y-rows.csv",
        ),
        (
            up_to(4).with_flip(Flip::From512).with_save_above_max(true),
            "v5_event0_max4_saveabove_y-rows.csv",
        ),
        (
            plain.with_clustering(false),
            "v5_event0_unclustered_y-rows.csv",
        ),
    ];
    let files = [
        (
            Real::V4,
            0..3,
            Grouping::YRows,
            plain,
            "v4_events0-2_y-rows.csv",
        ),
        (
            Real::V4,
            0..3,
            Grouping::UniqueX,
            plain,
            "v4_events0-2_unique-x.csv",
        ),
        (
            Real::V5,
            0..3,
            Grouping::YRows,
            plain,
            "v5_events0-2_y-rows.csv",
        ),
        (
            Real::V5,
            0..3,
            Grouping::UniqueX,
            plain,
            "v5_events0-2_unique-x.csv",
        ),
    ];
    let files = files
        .into_iter()
        .chain(of_one_event.map(|(of, name)| (Real::V5, 0..1, Grouping::YRows, of, name)));
    for (real, range, grouping, options, name) in files {
        let (tables, events) = real.needed(grouping);
        let expected = expected(name);
        let events = &events[range];
        assert!(
            fits_mep(events),
            "real events have one sequence of sourceIDs"
        );
        for batch in [allen_batch(events), mep_batch(events)] {
            for (backend, make) in backends() {
                let (hits, report) = decode(&mut *make(&tables, options), &tables, batch.view());
                let got = rows(&hits);
                let different =
                    (0..got.len().max(expected.len())).find(|&i| got.get(i) != expected.get(i));
                let rows = different.map(|i| (i, got.get(i), expected.get(i)));
                assert_eq!(
                    rows, None,
                    "{backend}, {:?}, {name}: (row, found, expected)",
                    batch.layout
                );
                assert!(
                    !report.has_trouble(),
                    "{backend}: {:?}",
                    report.totals(Kind::Trouble).collect::<Vec<_>>()
                );
            }
        }
    }
}

/// Returns the detectors of the tests: both formats, each in another grouping, with many kinds of
/// sectors.
pub fn detectors() -> [DetectorTables; 2] {
    [
        (BankVersion::V4, Grouping::UniqueX),
        (BankVersion::V5, Grouping::YRows),
    ]
    .map(|(version, grouping)| {
        let (boards, mut geometry) = ut_decoding::synth::detector(version, 1);
        for (sector, place) in geometry.sectors.iter_mut().zip(0u8..=250) {
            sector.dy += f32::from(place) / 64.0;
            sector.pitch += f32::from(place) / 4096.0;
        }
        // Their pitch is no longer the step from strip to strip.
        DetectorTables::trusting(boards, geometry, grouping).expect("a good detector")
    })
}

#[test]
fn events_without_trouble_are_decoded_as_the_reference_does() {
    for tables in detectors() {
        check(
            &(nasty::good_events(tables.boards(), 0..4), nasty::options()),
            8,
            |(events, options)| {
                let batch = allen_batch(&events);
                let mut all = All::new(&tables, options);
                all.compare(batch.view())?;
                all.compare(mep_batch(&events).view())?;
                let (_, report) = decode(
                    &mut ReferenceDecoder::new(&tables, options),
                    &tables,
                    batch.view(),
                );
                if report.has_trouble() {
                    Err("these events should have no trouble".to_owned())
                } else {
                    Ok(())
                }
            },
        );
    }
}

#[test]
fn clusters_of_any_length_and_charge_are_decoded_as_the_reference_does() {
    let tables = tables(BankVersion::V5);
    // Sums of up to 66 strips with full ADC, or of 128 in the mean case, are exact packed; beyond,
    // other ways are taken.
    let lane = |strips: u16, adc: u8| -> Vec<(u16, u8)> {
        (500 - strips..500).map(|strip| (strip, adc)).collect()
    };
    let event = |strips: u16, adc: u8| -> Event {
        let payload = v5_payload(&std::array::from_fn(|i| lane(strips - i as u16, adc)));
        (0..20).map(|board| v5(board, &payload)).collect()
    };
    for (max_size, position) in [64, 128, 300]
        .into_iter()
        .flat_map(|max| [Position::Adc, Position::Geometric].map(|p| (max, p)))
    {
        let mut all = All::new(&tables, up_to(max_size).with_position(position));
        // (254 strips of 20 are 5080, which 12 bits take for 984.)
        for adc in [31, 20, 1] {
            let events = [20, 70, 120, 131, 254].map(|strips| event(strips, adc));
            all.compare(allen_batch(&events).view()).unwrap();
        }
    }
}

#[test]
fn nasty_events_have_every_kind_of_trouble() {
    for tables in detectors() {
        let counts = std::cell::Cell::new(EventReport::default());
        let strategy = (nasty::events(tables.boards(), 0..6), nasty::corruptions());
        check(&strategy, 400, |(events, corruptions)| {
            let mut batch = allen_batch(&events);
            nasty::corrupt(&mut batch, &corruptions);
            let mut reference = ReferenceDecoder::new(&tables, up_to(1));
            let (_, report) = decode(&mut reference, &tables, batch.view());
            let mut sum = counts.get();
            for count in Count::ALL {
                sum.add(count, report.total(count) as u32);
            }
            counts.set(sum);
            Ok(())
        });
        for count in Count::ALL {
            let v5_only = [
                Count::ZeroChargeClusters,
                Count::OversizedClusters,
                Count::Short,
                Count::BadHeader,
            ];
            let v5_only = v5_only.contains(&count) || count == Count::UnsortedLanes;
            let expected = !v5_only || tables.boards().version == BankVersion::V5;
            assert_eq!(
                counts.get().get(count) > 0,
                expected,
                "{} of {:?}",
                count.name(),
                tables.boards().version
            );
        }
    }
}

#[test]
fn batches_that_contradict_themselves_are_decoded_as_the_reference_does() {
    for tables in detectors() {
        let strategy = (
            nasty::aligned_events(tables.boards(), 0..5),
            nasty::options(),
            nasty::corruptions(),
        );
        check(&strategy, 10, |(events, options, corruptions)| {
            let mut all = All::new(&tables, options);
            for mut batch in [allen_batch(&events), mep_batch(&events)] {
                nasty::corrupt(&mut batch, &corruptions);
                all.compare(batch.view())?;
            }
            Ok(())
        });
    }
}

#[test]
#[cfg(target_os = "linux")]
fn nothing_beyond_a_batch_is_read_and_nothing_beyond_the_hits_is_written() {
    use crate::suite::guard::GuardedBatch;

    for tables in detectors() {
        let events = prop_oneof![
            nasty::good_events(tables.boards(), 1..3),
            nasty::aligned_events(tables.boards(), 1..3)
        ];
        check(
            &(events, nasty::options(), nasty::corruptions()),
            3,
            |(events, options, corruptions)| {
                let mut all = All::new(&tables, options);
                for mut batch in [allen_batch(&events), mep_batch(&events)] {
                    let whole = GuardedBatch::new(batch.clone());
                    let mut reference = ReferenceDecoder::new(&tables, options);
                    let (expected, _) = decode(&mut reference, &tables, whole.view());
                    // With as much room as there are hits, one too many lands on another array.
                    for (name, decoder) in &mut all.decoders {
                        let mut hits =
                            UtHits::with_capacity(events.len(), tables.n_groups(), expected.len());
                        let view = BatchView {
                            checked: true,
                            ..whole.view()
                        };
                        let decoded = decoder.decode(view, &mut hits, &mut BatchReport::new());
                        decoded.map_err(|error| format!("{name}: {error}"))?;
                        if hits != expected {
                            return Err(format!("{name}: hits depend on the room for them"));
                        }
                    }
                    nasty::corrupt(&mut batch, &corruptions);
                    all.compare(GuardedBatch::new(batch).view())?;
                }
                Ok(())
            },
        );
    }
}

#[test]
#[ignore = "needs the real events: UT_DECODE_DATA"]
fn real_events_are_decoded_as_the_reference_does_with_all_options() {
    for real in [Real::V4, Real::V5] {
        for grouping in [Grouping::YRows, Grouping::UniqueX] {
            let (tables, events) = real.needed(grouping);
            check(&nasty::options(), 12, |options| {
                let mut all = All::new(&tables, options);
                all.compare(allen_batch(&events).view())?;
                all.compare(mep_batch(&events).view())
            });
        }
    }
}

#[test]
fn events_of_the_fullest_banks_are_decoded() {
    let plain = DecodeOptions::default();
    let tables = tables(BankVersion::V5);
    let every_second: Vec<u16> = (0..254).map(|i| 2 * i).collect();
    let descending = every_second.iter().rev().copied().collect();
    // The last needs most work.
    for (strips, options, batch) in [
        (
            every_second,
            plain,
            allen_batch as fn(&[Event]) -> EventBatch,
        ),
        ((258..512).collect(), plain, allen_batch),
        (descending, plain.with_clustering(false), mep_batch),
    ] {
        let lane: Vec<(u16, u8)> = strips.into_iter().map(|strip| (strip, 31)).collect();
        let payload = v5_payload(&std::array::from_fn(|_| lane.clone()));
        // More hits than 16 bits count.
        let event = (0..44).map(|board| v5(board, &payload)).collect();
        compare(&tables, options, batch(&[event]).view()).unwrap();
    }
}

#[test]
fn an_empty_batch_and_empty_events_have_no_hits() {
    for tables in detectors() {
        for (name, make) in backends() {
            let mut decoder = make(&tables, DecodeOptions::default());
            for n_events in [0, 1, 3] {
                let events = vec![Vec::new(); n_events];
                let (hits, report) = decode(&mut *decoder, &tables, allen_batch(&events).view());
                assert_eq!(
                    hits.offsets(),
                    vec![0; n_events * tables.n_groups() + 1],
                    "{name}"
                );
                assert!(!report.has_trouble(), "{name}");
                let (hits, _) = decode(&mut *decoder, &tables, mep_batch(&events).view());
                assert_eq!(hits.len(), 0, "{name}");
            }
        }
    }
}

#[test]
fn a_detector_with_nothing_connected_has_no_hits() {
    for version in VERSIONS {
        let tables = changed(version, |boards, _| boards.lanes.fill(Lane::default()));
        let events = generated(version, 2);
        for batch in [allen_batch(&events), mep_batch(&events)] {
            compare(&tables, DecodeOptions::default(), batch.view()).unwrap();
            let mut decoder = ReferenceDecoder::new(&tables, DecodeOptions::default());
            assert!(decode(&mut decoder, &tables, batch.view()).0.is_empty());
        }
    }
}

#[test]
fn detectors_with_more_kinds_of_sectors_are_decoded_alike() {
    for version in VERSIONS {
        let tables = changed(version, |_, geometry| {
            geometry
                .sectors
                .iter_mut()
                .zip(0u16..)
                .for_each(|(sector, i)| sector.pitch *= 1.0 + f32::from(i) / 65536.0);
        });
        let batch = allen_batch(&generated(version, 2));
        compare(&tables, DecodeOptions::default(), batch.view()).unwrap();
        let list = BatchView {
            selected: Some(&[0]),
            ..batch.view()
        };
        let mut reference = ReferenceDecoder::new(&tables, DecodeOptions::default());
        let expected = decode(&mut reference, &tables, list).0;
        for (name, make) in backends() {
            let mut hits = UtHits::with_capacity(2, tables.n_groups(), batch.view().max_hits());
            match make(&tables, DecodeOptions::default()).decode(
                list,
                &mut hits,
                &mut BatchReport::new(),
            ) {
                Ok(()) => assert!(
                    hits.id() == expected.id() && hits.offsets() == expected.offsets(),
                    "{name}"
                ),
                Err(error) => assert!(error.to_string().contains("list of"), "{name}: {error}"),
            }
        }
    }
}

#[test]
fn hits_beyond_the_capacity_are_an_error_that_names_the_event() {
    for tables in detectors() {
        let events = generated(tables.boards().version, 6);
        let batch = allen_batch(&events);
        for (name, make) in backends() {
            let mut decoder = make(&tables, DecodeOptions::default());
            let (all, _) = decode(&mut *decoder, &tables, batch.view());
            let after = |event: usize| all.offsets()[event * tables.n_groups()] as usize;
            let mut hits = UtHits::with_capacity(batch.n_events, tables.n_groups(), after(4));
            match decoder.decode(batch.view(), &mut hits, &mut BatchReport::new()) {
                Err(DecodeError::TooManyHits {
                    event,
                    hits: n_hits,
                    capacity,
                }) => {
                    let first = (4..events.len())
                        .find(|&e| after(e + 1) > hits.stride())
                        .expect("the last one");
                    assert_eq!(
                        (event, n_hits, capacity),
                        (first, after(first + 1), hits.stride()),
                        "{name}"
                    );
                }
                other => panic!("{name}: {other:?}"),
            }
            assert!(
                hits.len() <= hits.stride() && hits.iter().len() == hits.len(),
                "{name}"
            );
            let mut hits = UtHits::with_capacity(1, tables.n_groups(), all.len());
            let result = decoder.decode(batch.view(), &mut hits, &mut BatchReport::new());
            assert!(
                matches!(result, Err(DecodeError::TooManyEvents { .. })),
                "{name}: {result:?}"
            );
            // No memory holds the reports of that many events.
            for n_events in [1 << 40, usize::MAX] {
                let batch = BatchView {
                    n_events,
                    ..batch.view()
                };
                assert!(
                    decoder
                        .decode(batch, &mut hits, &mut BatchReport::new())
                        .is_err(),
                    "{name}"
                );
            }
            let mut hits = UtHits::with_capacity(batch.n_events, tables.n_groups() + 1, all.len());
            let result = decoder.decode(batch.view(), &mut hits, &mut BatchReport::new());
            assert!(
                matches!(result, Err(DecodeError::WrongGroups { .. })),
                "{name}: {result:?}"
            );
        }
    }
}
