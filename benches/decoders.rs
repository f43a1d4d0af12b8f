//! The CPU backends and the stages round them, on synthetic events: quick, for comparing two commits. Numbers to publish
//! come from `ut-decode throughput`, which interleaves, uses every core and more events.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ut_decoding::backend::cpu::Simd;
use ut_decoding::backend::{Backend, Knobs};
use ut_decoding::detector::BankVersion;
use ut_decoding::input::{Bank, BatchBuilder, to_mep};
use ut_decoding::synth::{Generator, Profile};
use ut_decoding::{BatchReport, DecodeOptions, DetectorTables, EventBatch, EventMeta, Grouping, UtHits};

const EVENTS: usize = 100;

fn events(version: BankVersion) -> Vec<Vec<(u16, Vec<u8>)>> {
    Generator::new(Profile::PpNominal, version, 1).take(EVENTS).map(|event| event.banks).collect()
}

fn batch(version: BankVersion, events: &[Vec<(u16, Vec<u8>)>]) -> EventBatch {
    let mut builder = BatchBuilder::new();
    for event in events {
        let banks = event.iter().map(|(source_id, payload)| Bank {
            kind: 66,
            version: Some(version.byte()),
            source_id: u32::from(*source_id),
            payload,
        });
        builder.push(EventMeta::default(), banks).expect("synthetic events fit");
    }
    let mut batch = EventBatch::default();
    builder.finish(&mut batch);
    batch
}

fn decoding(c: &mut Criterion) {
    for version in [BankVersion::V4, BankVersion::V5] {
        let (boards, geometry) = ut_decoding::synth::detector(version, 1);
        let tables = DetectorTables::new(boards, geometry, Grouping::YRows).expect("the synthetic detector is whole");
        let allen = batch(version, &events(version));
        let mut group = c.benchmark_group(format!("decode/{}", version.name()));
        group.throughput(Throughput::Elements(EVENTS as u64));
        let simd = |simd| Knobs {
            cpu: ut_decoding::backend::cpu::CpuConfig { simd, ..Knobs::default().cpu },
            ..Knobs::default()
        };
        let mut backends = vec![("reference".to_owned(), Backend::Reference, Knobs::default())];
        for level in [Simd::Scalar, Simd::Avx2, Simd::Avx512] {
            if level.resolve().is_some() {
                backends.push((format!("cpu, {level:?}"), Backend::Cpu, simd(level)));
            }
        }
        for (name, backend, knobs) in backends {
            let mut decoder =
                backend.decoder_with(&tables, DecodeOptions::default(), &knobs).expect("this machine can");
            let mut hits = UtHits::with_capacity(EVENTS, tables.n_groups, allen.view().max_hits());
            let mut report = BatchReport::new();
            group.bench_function(BenchmarkId::from_parameter(name), |b| {
                b.iter(|| decoder.decode(black_box(allen.view()), &mut hits, &mut report).expect("the batch fits"));
            });
        }
        group.finish();
    }
}

fn stages(c: &mut Criterion) {
    let version = BankVersion::V5;
    let events = events(version);
    let allen = batch(version, &events);
    let mut group = c.benchmark_group("batch");
    group.throughput(Throughput::Bytes(allen.raw.len() as u64));
    group.bench_function("build", |b| b.iter(|| batch(version, black_box(&events))));
    group.bench_function("to MEP layout", |b| b.iter(|| to_mep(black_box(allen.view())).expect("same boards")));
    group.finish();
}

fn settings() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20)
}

criterion_group! { name = benches; config = settings(); targets = decoding, stages }
criterion_main!(benches);
