//! Parts of a batch, as frameworks ask for them: an interval of events, a list of events, one
//! version for all banks. Every backend gives the same.

use ut_decoding::detector::BankVersion;
use ut_decoding::{BatchReport, BatchView, DecodeError, DecodeOptions, UtHits};

use crate::suite::backends::{All, backends, takes_lists};
use crate::suite::events::{VERSIONS, allen_batch, generated, mep_batch, tables};
use crate::suite::nasty::{self, Corruption, check};

#[test]
fn an_interval_a_list_and_one_version_for_all_banks_are_decoded_alike() {
    for version in [BankVersion::V5, BankVersion::V4] {
        let (tables, events) = (tables(version), generated(version, 4));
        let mut all_backends = All::new(&tables, DecodeOptions::default());
        for mut batch in [allen_batch(&events), mep_batch(&events)] {
            // Facts of the container go with the events.
            batch.meta = (0..4)
                .map(|i| ut_decoding::EventMeta {
                    other_banks: i,
                    ..Default::default()
                })
                .collect();
            let all = batch.view();
            for part in [
                BatchView {
                    first_event: 1,
                    n_events: 2,
                    ..all
                },
                BatchView {
                    selected: Some(&[3, 1, 1]),
                    ..all
                },
                BatchView {
                    selected: Some(&[]),
                    ..all
                },
                BatchView {
                    first_event: 2,
                    n_events: 2,
                    selected: Some(&[1]),
                    ..all
                },
                BatchView {
                    versions: None,
                    version: Some(version.byte()),
                    ..all
                },
                BatchView {
                    versions: None,
                    version: Some(9),
                    selected: Some(&[0]),
                    ..all
                },
                BatchView {
                    first_event: 3,
                    n_events: 3,
                    ..all
                },
                BatchView {
                    first_event: usize::MAX,
                    n_events: 2,
                    ..all
                },
                BatchView {
                    n_events: 0,
                    selected: Some(&[]),
                    ..all
                },
            ] {
                all_backends.compare(part).unwrap();
            }
        }
    }
}

#[test]
fn an_event_that_the_batch_does_not_have_is_named_and_allens_kernels_refuse_a_list() {
    let tables = tables(BankVersion::V5);
    let batch = allen_batch(&generated(BankVersion::V5, 2));
    let view = BatchView {
        selected: Some(&[1, 2]),
        ..batch.view()
    };
    for (name, make) in backends() {
        let mut hits = UtHits::with_capacity(2, tables.n_groups(), view.max_hits());
        let decoded = make(&tables, DecodeOptions::default()).decode(
            view,
            &mut hits,
            &mut BatchReport::new(),
        );
        let error = decoded.expect_err("there is no event 2");
        if takes_lists(name) {
            assert!(
                matches!(
                    error,
                    DecodeError::NoSuchEvent {
                        place: 1,
                        event: 2,
                        events: 2
                    }
                ),
                "{name}: {error}"
            );
        } else {
            assert!(
                error.to_string().contains("needs the pipeline ranked"),
                "{name}: {error}"
            );
        }
    }
}

#[test]
fn parts_of_nasty_batches_are_decoded_alike() {
    for tables in VERSIONS.map(tables) {
        let batch = (
            nasty::aligned_events(tables.boards(), 1..5),
            nasty::corruptions(),
        );
        let selected = proptest::option::of(proptest::collection::vec(0u32..3, 0..4));
        let strategy = (batch, selected, 0usize..3, proptest::option::of(3u8..5));
        check(
            &strategy,
            4,
            |((events, corruptions), selected, first_event, version_byte)| {
                let mut all_backends = All::new(&tables, DecodeOptions::default());
                for mut batch in [allen_batch(&events), mep_batch(&events)] {
                    nasty::corrupt(&mut batch, &corruptions);
                    let mut view = BatchView {
                        first_event,
                        n_events: 3,
                        selected: selected.as_deref(),
                        ..batch.view()
                    };
                    if version_byte.is_some()
                        || corruptions
                            .iter()
                            .any(|one| matches!(one, Corruption::NoVersions))
                    {
                        (view.versions, view.version) = (None, version_byte);
                    }
                    all_backends.compare(view)?;
                }
                Ok(())
            },
        );
    }
}
