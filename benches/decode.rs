//! Decoding speed of the CPU backends on synthetic `pp-nominal` events.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ut_decoding::decoder::cpu::{CpuDecoder, Simd};
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::detector::BankVersion;
use ut_decoding::input::{Bank, BatchBuilder, to_mep};
use ut_decoding::synth::{Generator, Profile};
use ut_decoding::{
    BatchReport, DecodeOptions, Decoder, DetectorTables, EventBatch, EventMeta, Grouping, UtHits,
};

const EVENTS: u64 = 1000;

fn detector(version: BankVersion) -> DetectorTables {
    let (boards, geometry) = ut_decoding::synth::detector(version, 1);
    DetectorTables::new(boards, geometry, Grouping::YRows).expect("a good detector")
}

/// Distinct events of the `pp-nominal` profile, in Allen layout.
fn events(version: BankVersion) -> EventBatch {
    let generator = Generator::new(Profile::PpNominal, version, 1);
    let mut builder = BatchBuilder::new();
    for event in 0..EVENTS {
        let event = generator.event(event);
        let banks = event.banks.iter().map(|(source_id, payload)| Bank {
            kind: 66,
            version: Some(version.byte()),
            source_id: u32::from(*source_id),
            payload,
        });
        builder
            .push(EventMeta::default(), banks)
            .expect("there is room");
    }
    let mut batch = EventBatch::default();
    builder.finish(&mut batch);
    batch
}

fn run(
    c: &mut Criterion,
    name: &str,
    decoder: &mut dyn Decoder,
    tables: &DetectorTables,
    batch: &EventBatch,
) {
    let mut hits =
        UtHits::with_capacity(batch.n_events, tables.n_groups(), batch.view().max_hits());
    let mut report = BatchReport::new();
    let mut group = c.benchmark_group("decode");
    group.throughput(Throughput::Elements(batch.n_events as u64));
    group.bench_function(name, |b| {
        b.iter(|| {
            decoder
                .decode(black_box(batch.view()), &mut hits, &mut report)
                .expect("the batch fits");
        });
    });
    group.finish();
}

fn decoders(c: &mut Criterion) {
    for version in [BankVersion::V5, BankVersion::V4] {
        let tables = detector(version);
        let allen = events(version);
        let mep = to_mep(allen.view()).expect("a good batch");
        let plain = DecodeOptions::default();
        for simd in [Simd::Scalar, Simd::Avx2, Simd::Avx512] {
            if simd.resolve().is_none() {
                continue;
            }
            let make = |options| {
                CpuDecoder::with_simd(&tables, options, simd).expect("the CPU has the instructions")
            };
            let name = format!("{} {simd:?}", version.name());
            run(
                c,
                &format!("{name} allen"),
                &mut make(plain),
                &tables,
                &allen,
            );
            run(
                c,
                &format!("{name} mep"),
                &mut make(plain),
                &tables,
                &mep[0],
            );
            if version == BankVersion::V5 {
                let strips = plain.with_clustering(false);
                run(
                    c,
                    &format!("{name} without clustering"),
                    &mut make(strips),
                    &tables,
                    &allen,
                );
                let four = NonZeroU32::new(4).expect("not 0");
                let short = plain.with_max_cluster_size(four);
                run(
                    c,
                    &format!("{name} clusters of at most 4"),
                    &mut make(short),
                    &tables,
                    &allen,
                );
            }
        }
        run(
            c,
            &format!("{} reference", version.name()),
            &mut ReferenceDecoder::new(&tables, plain),
            &tables,
            &allen,
        );
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    targets = decoders
}
criterion_main!(benches);
