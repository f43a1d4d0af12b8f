//! The list of backends that the tests of the suite run on.

use super::data::rows;
use std::num::NonZeroU32;
use std::sync::LazyLock;
use ut_decoding::decoder::Pipeline;
use ut_decoding::decoder::cpu::{CpuDecoder, Simd};
use ut_decoding::decoder::cuda::{self, CudaConfig, CudaDecoder, CudaDevice};
use ut_decoding::decoder::emulated::{EmulatedConfig, EmulatedDecoder};
use ut_decoding::decoder::parameters::Parameters;
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::{BatchReport, BatchView, DecodeOptions, Decoder, DetectorTables, UtHits};

/// Name of a backend in this list, and function that makes its decoder.
pub type Backend = (
    &'static str,
    fn(&DetectorTables, DecodeOptions) -> Box<dyn Decoder>,
);

/// True if there is a GPU to test on. `decode::backends::a_gpu_is_among_the_backends`
/// fails where a GPU was meant to be tested and is not found.
static HAS_GPU: LazyLock<bool> = LazyLock::new(|| {
    let found = cuda::choose(0).is_ok();
    if found {
        // The device stays open: opening it takes longer than decoding, and every test makes many
        // decoders.
        std::mem::forget(CudaDevice::new(0, 0));
    }
    found
});

/// Prefix of the names of backends to leave out, from `UT_DECODE_TEST_WITHOUT`. A sanitizer does
/// not know the stacks of coroutines, and so cannot run the emulated ones.
static WITHOUT: LazyLock<Option<String>> =
    LazyLock::new(|| std::env::var("UT_DECODE_TEST_WITHOUT").ok());

/// Returns every backend that can run on this machine, the reference first.
pub fn backends() -> Vec<Backend> {
    let mut backends: Vec<Backend> = vec![
        ("reference", |tables, options| {
            Box::new(ReferenceDecoder::new(tables, options))
        }),
        ("cpu, scalar", |tables, options| {
            cpu(tables, options, Simd::Scalar)
        }),
        ("emulated", |tables, options| {
            emulated(
                tables,
                options,
                EmulatedConfig::default().with_pipeline(Pipeline::Allen),
            )
        }),
        ("emulated, ranked", |tables, options| {
            emulated(
                tables,
                options,
                EmulatedConfig::default().with_pipeline(Pipeline::Ranked),
            )
        }),
        // A block for several events.
        ("emulated, ranked in small grids", |tables, options| {
            let set =
                "ranked.make_hits_grid=1,ranked.sort_grid=1,ranked.sort_block_x=32,scan.block_x=32";
            let launch = Parameters::default().with(ut_decoding::Backend::Emulated, set);
            emulated(
                tables,
                options,
                EmulatedConfig::of(&launch.expect("valid assignments")),
            )
        }),
    ];
    if Simd::Avx2.resolve().is_some() {
        backends.push(("cpu, AVX2", |tables, options| {
            cpu(tables, options, Simd::Avx2)
        }));
    }
    if Simd::Avx512.resolve().is_some() {
        backends.push(("cpu, AVX-512", |tables, options| {
            cpu(tables, options, Simd::Avx512)
        }));
    }
    if *HAS_GPU {
        backends.push(("cuda", |tables, options| {
            gpu(tables, options, Pipeline::Allen)
        }));
        backends.push(("cuda, ranked", |tables, options| {
            gpu(tables, options, Pipeline::Ranked)
        }));
    }
    backends.retain(|(name, _)| {
        WITHOUT
            .as_ref()
            .is_none_or(|without| !name.starts_with(without.as_str()))
    });
    backends
}

fn emulated(
    tables: &DetectorTables,
    options: DecodeOptions,
    config: EmulatedConfig,
) -> Box<dyn Decoder> {
    Box::new(EmulatedDecoder::new(tables, options, config).expect("good parameters"))
}

fn gpu(tables: &DetectorTables, options: DecodeOptions, pipeline: Pipeline) -> Box<dyn Decoder> {
    let config = CudaConfig::of(&Parameters::default().with_pipeline(pipeline));
    Box::new(CudaDecoder::new(tables, options, config).expect("the GPU can be used"))
}

fn cpu(tables: &DetectorTables, options: DecodeOptions, simd: Simd) -> Box<dyn Decoder> {
    Box::new(CpuDecoder::with_simd(tables, options, simd).expect("the instructions are there"))
}

/// Returns the default options with clusters of at most this number of strips.
pub fn up_to(max: u32) -> DecodeOptions {
    DecodeOptions::default().with_max_cluster_size(NonZeroU32::new(max).expect("not 0"))
}

/// Decodes a batch, whatever it holds.
pub fn decode(
    decoder: &mut dyn Decoder,
    tables: &DetectorTables,
    batch: BatchView<'_>,
) -> (UtHits, BatchReport) {
    // Fragments that overlap hold more hits than bytes.
    let mut hits = UtHits::with_capacity(
        batch.n_events,
        tables.n_groups(),
        batch.max_hits() + (1 << 16),
    );
    let mut report = BatchReport::new();
    let batch = BatchView {
        checked: true,
        ..batch
    };
    decoder
        .decode(batch, &mut hits, &mut report)
        .expect("the batch fits");
    (hits, report)
}

/// Returns true if a backend of the list gives the clusters of its hits.
pub fn gives_clusters(name: &str) -> bool {
    name == "reference" || name.starts_with("cpu")
}

/// Returns true if a backend of the list takes a list of events: Allen's kernels do not.
pub fn takes_lists(name: &str) -> bool {
    !["emulated", "cuda"].contains(&name)
}

/// Describes the first difference in hits or report, with its place.
fn difference(
    (hits, report): &(UtHits, BatchReport),
    expected: &(UtHits, BatchReport),
) -> Option<String> {
    let mut events = report.events.iter().zip(&expected.1.events).enumerate();
    if let Some((event, (got, wanted))) = events.find(|(_, (got, wanted))| got != wanted) {
        return Some(format!("event {event}: {got:?} and not {wanted:?}"));
    }
    if *hits == expected.0 && report == &expected.1 {
        return None;
    }
    let (got, wanted) = (rows(hits), rows(&expected.0));
    let i = (0..got.len().max(wanted.len())).find(|&i| got.get(i) != wanted.get(i));
    Some(format!(
        "differs from the reference, first at {:?}",
        i.map(|i| (i, got.get(i), wanted.get(i)))
    ))
}

/// Decodes a batch and compares hits and report with the reference's, bit for bit.
pub fn as_reference(
    decoder: &mut dyn Decoder,
    tables: &DetectorTables,
    options: DecodeOptions,
    batch: BatchView<'_>,
) -> Result<(), String> {
    let expected = decode(&mut ReferenceDecoder::new(tables, options), tables, batch);
    let difference = difference(&decode(decoder, tables, batch), &expected);
    difference.map_or(Ok(()), |what| {
        Err(format!("{options:?}, {:?}, {what}", batch.layout))
    })
}

/// Decoders of every backend, made once for many batches.
pub struct All<'a> {
    tables: &'a DetectorTables,
    options: DecodeOptions,
    pub decoders: Vec<(&'static str, Box<dyn Decoder>)>,
}

impl<'a> All<'a> {
    pub fn new(tables: &'a DetectorTables, options: DecodeOptions) -> Self {
        let decoders = backends()
            .into_iter()
            .map(|(name, make)| (name, make(tables, options)))
            .collect();
        Self {
            tables,
            options,
            decoders,
        }
    }

    /// Decodes a batch with every backend that takes it and compares hits and report with the
    /// reference's, bit for bit; with clusters where the backend gives them, and without.
    pub fn compare(&mut self, batch: BatchView<'_>) -> Result<(), String> {
        let Self {
            tables,
            options,
            decoders,
        } = self;
        let batch = BatchView {
            checked: true,
            ..batch
        };
        let mut expected = None;
        for (name, decoder) in decoders {
            if batch.selected.is_some() && !takes_lists(name) {
                continue;
            }
            // A decoder that keeps buffers decodes twice: nothing of one batch may show in the
            // next.
            let described = if gives_clusters(name) {
                let mut hits = UtHits::with_capacity(
                    batch.n_events,
                    tables.n_groups(),
                    batch.max_hits() + (1 << 16),
                );
                hits = hits.with_clusters();
                decoder
                    .decode(batch, &mut hits, &mut BatchReport::new())
                    .expect("the batch fits");
                Some(hits)
            } else {
                if !name.starts_with("emulated") {
                    decode(&mut **decoder, tables, batch);
                }
                None
            };
            let found = decode(&mut **decoder, tables, batch);
            let Some((plain, with_clusters)) = &expected else {
                expected = Some((found, described));
                continue;
            };
            let differs =
                |what: String| Err(format!("{name}, {options:?}, {:?}, {what}", batch.layout));
            if let (Some(hits), Some(expected)) = (&described, with_clusters)
                && hits != expected
            {
                let i = (0..hits.len())
                    .find(|&i| hits.hit(i) != expected.hit(i))
                    .unwrap_or_default();
                return differs(format!(
                    "with clusters, hit {i}: {:?} and not {:?}",
                    hits.hit(i),
                    expected.hit(i)
                ));
            }
            if let Some(what) = difference(&found, plain) {
                return differs(what);
            }
        }
        Ok(())
    }
}

/// Compares all backends on one batch, as [`All::compare`] does.
pub fn compare(
    tables: &DetectorTables,
    options: DecodeOptions,
    batch: BatchView<'_>,
) -> Result<(), String> {
    All::new(tables, options).compare(batch)
}
