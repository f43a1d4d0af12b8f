//! Decoding for a framework that holds its own memory: results in its arrays, some of the events,
//! one version for all banks.

use ut_decoding::decoder::cpu::CpuDecoder;
use ut_decoding::decoder::{Cluster, UtHitsMut};
use ut_decoding::detector::BankVersion;
use ut_decoding::{
    BatchReport, BatchView, Count, DecodeError, DecodeOptions, DetectorTables, EventReport,
    ReferenceDecoder, UtHits,
};

use crate::suite::backends::decode;
use crate::suite::events::{VERSIONS, allen_batch, generated, mep_batch, tables};

fn decoder(tables: &DetectorTables) -> CpuDecoder {
    CpuDecoder::new(tables, DecodeOptions::default())
}

/// Seven arrays back to back at a stride, offsets and report, initially full of a pattern that no
/// decoder writes.
struct Arrays {
    words: Vec<u32>,
    stride: usize,
    offsets: Vec<u32>,
    reports: Vec<EventReport>,
}

const UNTOUCHED: u32 = 0xDEAD_BEEF;

impl Arrays {
    fn new(stride: usize, n_offsets: usize, n_reports: usize) -> Self {
        let mut untouched = EventReport::default();
        untouched.add(Count::Strips, UNTOUCHED);
        Self {
            words: vec![UNTOUCHED; 7 * stride],
            stride,
            offsets: vec![UNTOUCHED; n_offsets],
            reports: vec![untouched; n_reports],
        }
    }

    fn parts(&mut self) -> (UtHitsMut<'_>, &mut [EventReport]) {
        let (floats, id) = self.words.split_at_mut(6 * self.stride);
        let floats: &mut [f32] = bytemuck::cast_slice_mut(floats);
        let mut arrays = floats.chunks_exact_mut(self.stride.max(1));
        let mut next = || arrays.next().unwrap_or_default();
        let (y_begin, y_end, z_at_y_eq0, x_at_y_eq0, dx_dy, weight) =
            (next(), next(), next(), next(), next(), next());
        let offsets = &mut self.offsets;
        let hits = UtHitsMut {
            y_begin,
            y_end,
            z_at_y_eq0,
            x_at_y_eq0,
            dx_dy,
            weight,
            id,
            offsets,
            clusters: None,
        };
        (hits, &mut self.reports)
    }

    /// Returns the bits of the first `n` elements of each array.
    fn hits(&self, n: usize) -> Vec<&[u32]> {
        (0..7)
            .map(|array| &self.words[array * self.stride..][..n])
            .collect()
    }
}

/// Returns the arrays of hits, as bits.
fn bits(hits: &UtHits) -> Vec<&[u32]> {
    let floats = [
        hits.y_begin(),
        hits.y_end(),
        hits.z_at_y_eq0(),
        hits.x_at_y_eq0(),
        hits.dx_dy(),
        hits.weight(),
    ];
    floats
        .into_iter()
        .map(bytemuck::cast_slice)
        .chain([hits.id()])
        .collect()
}

fn expected(tables: &DetectorTables, batch: BatchView<'_>) -> (UtHits, BatchReport) {
    decode(
        &mut ReferenceDecoder::new(tables, DecodeOptions::default()),
        tables,
        batch,
    )
}

/// Counts, then decodes into arrays of exactly the size that was counted: as the reference,
/// whatever is in the batch.
fn check(tables: &DetectorTables, batch: BatchView<'_>) {
    let (hits, report) = expected(tables, batch);
    let mut decoder = decoder(tables);
    let n_offsets = batch.n_events * tables.n_groups() + 1;
    let mut counted = Arrays::new(0, n_offsets, batch.n_events);
    let n = decoder
        .count(batch, &mut counted.offsets, &mut counted.reports)
        .expect("room for all events");
    assert_eq!((n, &counted.offsets[..]), (hits.len(), hits.offsets()));
    assert_eq!(counted.reports, report.events);

    let mut arrays = Arrays::new(n, n_offsets, batch.n_events);
    let (mut out, reports) = arrays.parts();
    assert_eq!(
        decoder
            .decode_into(batch, &mut out, reports)
            .expect("room for all hits"),
        n
    );
    assert_eq!(arrays.hits(n), bits(&hits));
    assert_eq!(
        (&arrays.offsets[..], &arrays.reports),
        (hits.offsets(), &report.events)
    );

    if n > 0 {
        let mut small = Arrays::new(n - 1, n_offsets, batch.n_events);
        let (mut out, reports) = small.parts();
        let error = decoder
            .decode_into(batch, &mut out, reports)
            .expect_err("one hit too many");
        assert!(
            matches!(error, DecodeError::TooManyHits { capacity, .. } if capacity == n - 1),
            "{error}"
        );
    }
}

#[test]
fn hits_go_to_arrays_of_exactly_their_size_for_a_part_of_a_larger_batch() {
    for version in VERSIONS {
        let tables = tables(version);
        let events = generated(version, 9);
        for batch in [allen_batch(&events), mep_batch(&events)] {
            let all = batch.view();
            check(&tables, all);
            check(
                &tables,
                BatchView {
                    selected: Some(&[7, 0, 3, 3]),
                    ..all
                },
            );
            check(
                &tables,
                BatchView {
                    selected: Some(&[]),
                    ..all
                },
            );
            check(
                &tables,
                BatchView {
                    first_event: 4,
                    n_events: 5,
                    ..all
                },
            );
            check(
                &tables,
                BatchView {
                    first_event: 4,
                    n_events: 5,
                    selected: Some(&[4, 1]),
                    ..all
                },
            );
            check(&tables, BatchView { n_events: 0, ..all });
            check(
                &tables,
                BatchView {
                    versions: None,
                    version: Some(version.byte()),
                    ..all
                },
            );
            // Events that are not there are broken, not a crash.
            check(
                &tables,
                BatchView {
                    first_event: 7,
                    n_events: 5,
                    ..all
                },
            );
            check(
                &tables,
                BatchView {
                    first_event: usize::MAX,
                    n_events: 3,
                    ..all
                },
            );
        }
    }
}

#[test]
fn earlier_selections_leave_no_trace() {
    let tables = tables(BankVersion::V5);
    let batch = allen_batch(&generated(BankVersion::V5, 5));
    let mut decoder = decoder(&tables);
    let mut arrays = Arrays::new(batch.view().max_hits(), 5 * 72 + 1, 5);
    for selected in [&[0, 1, 2, 3, 4][..], &[4, 0, 2], &[1], &[], &[3, 3]] {
        let view = BatchView {
            selected: Some(selected),
            ..batch.view()
        };
        let (hits, report) = expected(&tables, view);
        let (mut out, reports) = arrays.parts();
        assert_eq!(
            decoder
                .decode_into(view, &mut out, reports)
                .expect("room for all hits"),
            hits.len()
        );
        assert_eq!(arrays.hits(hits.len()), bits(&hits), "{selected:?}");
        assert_eq!(
            (&arrays.offsets[..], &arrays.reports),
            (hits.offsets(), &report.events),
            "{selected:?}"
        );
    }
}

#[test]
fn clusters_of_v4_banks_are_left_as_they_were() {
    let tables = tables(BankVersion::V4);
    let batch = allen_batch(&generated(BankVersion::V4, 2));
    let mut arrays = Arrays::new(batch.view().max_hits(), 2 * 72 + 1, 2);
    let mut clusters = vec![Cluster::new(1, 1, 1); batch.view().max_hits()];
    let (mut out, reports) = arrays.parts();
    out.clusters = Some(&mut clusters);
    let n = decoder(&tables)
        .decode_into(batch.view(), &mut out, reports)
        .expect("room for all hits");
    assert!(
        n > 0
            && clusters
                .iter()
                .all(|cluster| *cluster == Cluster::new(1, 1, 1))
    );
}

#[test]
fn arrays_of_any_lengths_are_refused_or_written_in_part() {
    let tables = tables(BankVersion::V5);
    let batch = allen_batch(&generated(BankVersion::V5, 3));
    let (hits, _) = expected(&tables, batch.view());
    let mut decoder = decoder(&tables);
    for (n_offsets, n_reports) in [(0, 3), (1, 3), (3 * 72, 3), (3 * 72 + 1, 2)] {
        let mut arrays = Arrays::new(hits.len(), n_offsets, n_reports);
        let (mut out, reports) = arrays.parts();
        let error = decoder
            .decode_into(batch.view(), &mut out, reports)
            .expect_err("no place for three events");
        assert!(
            matches!(error, DecodeError::TooManyEvents { events: 3, .. }),
            "{error}"
        );
    }
    let mut arrays = Arrays::new(hits.len() + 5, 3 * 72 + 4, 4);
    let (mut out, reports) = arrays.parts();
    // The shortest array says how much fits.
    out.dx_dy = &mut out.dx_dy[..hits.len()];
    assert_eq!(
        decoder
            .decode_into(batch.view(), &mut out, reports)
            .expect("room for all hits"),
        hits.len()
    );
    assert_eq!(arrays.hits(hits.len()), bits(&hits));
    assert!(
        arrays.words[hits.len()..hits.len() + 5]
            .iter()
            .all(|&word| word == UNTOUCHED)
    );
    assert_eq!(arrays.offsets[3 * 72 + 1..], [UNTOUCHED; 3]);
}
