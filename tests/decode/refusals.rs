//! Batches that would look fine and are not, of another version or in another layout: every backend
//! refuses them.

use std::path::Path;

use ut_decoding::detector::BankVersion;
use ut_decoding::error::WorkError;
use ut_decoding::input::{EventHeader, InputPart, MARKED_BYTE, MdfWriter, shape_of};
use ut_decoding::{
    BatchReport, BatchView, DecodeError, DecodeOptions, DetectorTables, ErrorKind, Grouping,
    HitReader, Layout, UtHits,
};

use crate::suite::backends::backends;
use crate::suite::events::{
    Event, VERSIONS, allen_batch, borrowed, generated, mep_batch, tables, v4_payload,
};

/// Decodes a batch with every backend; the results must be of one kind, or a number of hits.
fn decode(tables: &DetectorTables, view: BatchView<'_>) -> Result<usize, ErrorKind> {
    let mut results = backends().into_iter().map(|(name, make)| {
        let mut hits = UtHits::with_capacity(view.n_events, tables.n_groups(), view.max_hits());
        let mut decoder = make(tables, DecodeOptions::default());
        let result = decoder.decode(view, &mut hits, &mut BatchReport::new());
        (
            name,
            result
                .map(|()| hits.len())
                .map_err(|error: DecodeError| error.kind()),
        )
    });
    let (_, first) = results.next().expect("the reference");
    results.for_each(|(name, result)| assert_eq!(result, first, "{name}"));
    first
}

#[test]
fn banks_of_another_version_are_refused_by_their_versions_and_by_their_sizes() {
    for (mine, other) in VERSIONS.into_iter().zip(VERSIONS.into_iter().rev()) {
        let (tables, own, foreign) = (tables(mine), generated(mine, 2), generated(other, 2));
        for make in [allen_batch, mep_batch] {
            let (own, foreign) = (make(&own), make(&foreign));
            let all_of = |version: Option<BankVersion>, view| BatchView {
                versions: None,
                version: version.map(BankVersion::byte),
                ..view
            };
            let hits = decode(&tables, own.view()).unwrap();
            assert!(hits > 0);
            for version in [None, Some(mine)] {
                assert_eq!(decode(&tables, all_of(version, own.view())), Ok(hits));
                assert_eq!(
                    decode(&tables, all_of(version, foreign.view())),
                    Err(ErrorKind::Version),
                    "by their sizes"
                );
            }
            for wrong in [
                foreign.view(),
                all_of(Some(other), foreign.view()),
                all_of(Some(other), own.view()),
            ] {
                assert_eq!(decode(&tables, wrong), Err(ErrorKind::Version));
                assert_eq!(
                    decode(
                        &tables,
                        BatchView {
                            checked: true,
                            ..wrong
                        }
                    ),
                    Ok(0),
                    "counted, for whole files"
                );
            }
            // Those who trust their tables may have other sizes.
            let trusting = DetectorTables::trusting(
                tables.boards().clone(),
                tables.geometry().clone(),
                tables.grouping(),
            );
            assert!(decode(&trusting.unwrap(), all_of(None, foreign.view())).is_ok());
        }
        // One bank that fits is enough.
        let mut mixed = generated(other, 1).remove(0);
        mixed.push(own[0][0].clone());
        assert!(decode(&tables, allen_batch(&[mixed]).view()).is_ok());
    }
}

/// One to three banks may be damaged so that they look like the other format.
#[test]
fn four_banks_with_sizes_of_the_other_version_are_refused_and_three_are_not() {
    for (mine, other) in VERSIONS.into_iter().zip(VERSIONS.into_iter().rev()) {
        let mut banks: Event = generated(other, 1).concat();
        banks.retain(|bank| shape_of(&bank.payload) == Some(other));
        for (n, refused) in [(3, None), (4, Some(ErrorKind::Version))] {
            let batch = allen_batch(&[banks[..n].to_vec()]);
            let view = BatchView {
                versions: None,
                ..batch.view()
            };
            assert_eq!(decode(&tables(mine), view).err(), refused, "{n} banks");
        }
    }
}

/// A v4 payload has 4 bytes, then 2 for each cluster, then up to 5 for each cluster and 5 more.
#[test]
fn a_payload_has_the_shape_of_v4_from_the_shortest_to_the_longest_for_its_clusters() {
    for n in [1, 2, 5] {
        let mut payload = v4_payload(&vec![0; n]);
        let (least, most) = (payload.len(), payload.len() + 5 * n + 5);
        for (length, fits) in [
            (least - 1, false),
            (least, true),
            (most, true),
            (most + 1, false),
        ] {
            payload.resize(length, 0);
            assert_eq!(
                shape_of(&payload),
                fits.then_some(BankVersion::V4),
                "{n} clusters in {length} bytes"
            );
        }
    }
}

#[test]
fn a_batch_in_the_other_layout_is_refused_and_one_of_empty_events_is_not() {
    for version in VERSIONS {
        let (tables, events) = (tables(version), generated(version, 3));
        for (batch, meant) in [
            (allen_batch(&events), Layout::Mep),
            (mep_batch(&events), Layout::Allen),
        ] {
            let misread = BatchView {
                layout: meant,
                ..batch.view()
            };
            assert_eq!(
                decode(&tables, misread),
                Err(ErrorKind::Format),
                "{meant:?}"
            );
        }
        let empty = [Vec::new(), Vec::new()];
        for batch in [
            allen_batch(&empty),
            mep_batch(&empty),
            allen_batch(&[]),
            mep_batch(&[]),
        ] {
            assert_eq!(decode(&tables, batch.view()), Ok(0));
        }
        // An interval of empty events between others.
        let between = allen_batch(&[events[0].clone(), Vec::new(), events[1].clone()]);
        assert_eq!(
            decode(
                &tables,
                BatchView {
                    first_event: 1,
                    n_events: 1,
                    ..between.view()
                }
            ),
            Ok(0)
        );
    }
}

#[test]
fn a_reader_returns_hits_batch_by_batch_and_refuses_files_of_another_detector() {
    let fixture = |name: &str| {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fixtures")
            .join(name)
    };
    let of = |version: &str| {
        let [boards, geometry] =
            ["boards.bin", "geometry.bin"].map(|name| fixture(version).join(name));
        DetectorTables::read(boards, geometry, Grouping::YRows).unwrap()
    };
    let (tables, events) = (of("v5"), fixture("v5/events.mdf"));
    let read =
        |tables: &DetectorTables, file: &Path, n: usize| -> Result<(Vec<u32>, usize), WorkError> {
            let (mut ids, mut places) = (Vec::new(), Vec::new());
            let mut run = HitReader::new([file, file], tables, DecodeOptions::default())
                .with_batch(n)
                .with_clusters();
            while let Some((hits, report)) = run.next()? {
                assert!(hits.clusters().is_some() == (tables.boards().version == BankVersion::V5));
                ids.extend(hits.id());
                let n_events = report.events.len();
                assert_eq!(run.origins().len(), n_events);
                places.extend(run.origins().iter().map(|origin| origin.place));
            }
            assert!(places.iter().copied().eq(0..places.len() as u64));
            Ok((ids, places.len()))
        };
    let (ids, n_events) = read(&tables, &events, 64).unwrap();
    assert!(!ids.is_empty() && n_events % 2 == 0 && ids[..ids.len() / 2] == ids[ids.len() / 2..]);
    assert_eq!(read(&tables, &events, 1).unwrap(), (ids, n_events));
    for (tables, file, kind) in [
        (of("v4"), events, ErrorKind::Version),
        (tables.clone(), fixture("no.mdf"), ErrorKind::File),
        (tables, fixture("v5/boards.bin"), ErrorKind::Format),
    ] {
        assert_eq!(read(&tables, &file, 64).unwrap_err().kind(), kind);
    }
    // Events without the mark of generated ones are not of the synthetic detector.
    let (mut writer, invented) = (
        MdfWriter::new(Vec::new()),
        ut_decoding::synth::tables(BankVersion::V5, Grouping::YRows),
    );
    let mut event = generated(BankVersion::V5, 1).remove(0);
    for bank in &mut event {
        bank.payload[MARKED_BYTE] = 0;
    }
    writer
        .write(&EventHeader::default(), borrowed(&event))
        .unwrap();
    let real = InputPart::memory("real.mdf", writer.finish().unwrap());
    let error = HitReader::new([real], &invented, DecodeOptions::default())
        .next()
        .err()
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::Tables);
}
