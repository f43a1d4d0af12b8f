//! The main measurement: events per second, and the latency of a batch.

use std::time::Duration;

use serde::Serialize;

use super::Spread;
use super::modes::{KernelTime, Mode, OnGpu, kernel_passes};
use super::sample::{Expected, Sample};
use super::timing::{Contents, Variant, measure, repetition};
use ut_data::detector::DetectorTables;
use ut_data::input::EventBatch;
use ut_decoders::cuda::CudaConfig;
use ut_decoders::{Backend, Count, DecodeError, DecodeOptions, Parameters};

/// Settings of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Measurement {
    /// Backend to measure.
    pub backend: Backend,
    /// Clustering options of the decoders.
    pub options: DecodeOptions,
    /// Parameters of the decoders: vector instructions, kernels and launches.
    pub decoder: Parameters,
    /// Number of threads, each with a decoder; on a GPU, number of streams of one decoder, each
    /// with a batch in flight.
    pub threads: usize,
    /// Duration of all repetitions together.
    pub duration: Duration,
}

/// Latency of a batch in a single decoder, from the batch in memory to the hits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Microseconds, over all batches of some passes.
    pub us: Spread,
    /// 99th percentile, µs.
    pub p99_us: f64,
}

impl Latency {
    fn of(times: &[f64]) -> Self {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        let p99_us = sorted
            .get((sorted.len() * 99).div_ceil(100).saturating_sub(1))
            .copied()
            .unwrap_or_default();
        Self {
            us: Spread::of(&sorted),
            p99_us,
        }
    }
}

/// Result in one mode of a GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModeResult {
    /// Mode of the measurement.
    pub mode: Mode,
    /// Number of repetitions.
    pub repetitions: usize,
    /// Events per second, all streams together.
    pub events_per_second: Spread,
    /// Latency of a batch in this mode.
    pub latency: Latency,
}

/// Result of a measurement, with the names of the JSON output.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Throughput {
    /// Name of the backend.
    pub backend: String,
    /// Number of threads; on a GPU, number of streams.
    pub threads: usize,
    /// Number of events that each thread decodes in a pass.
    pub events: usize,
    /// Number of different events among them; the others are repetitions.
    pub distinct_events: usize,
    /// Number of events in the largest batch.
    pub batch: usize,
    /// Number of repetitions.
    pub repetitions: usize,
    /// Events per second, all threads together; on a GPU end to end.
    pub events_per_second: Spread,
    /// Median of the events per second, divided by the number of threads.
    pub events_per_second_per_thread: f64,
    /// Strips (v4: cluster words) per second, all threads together.
    pub strips_per_second: Spread,
    /// Raw banks in 10⁹ bytes per second, all threads together.
    pub gigabytes_per_second: Spread,
    /// Latency of a batch; on a GPU end to end.
    pub latency: Latency,
    /// Mean number of strips (v4: cluster words) per event.
    pub strips_per_event: f64,
    /// Number of events with trouble in a pass. Their skipped banks take no time.
    pub events_with_trouble: usize,
    /// Mean number of hits per event.
    pub hits_per_event: f64,
    /// Mean number of bytes of raw banks per event.
    pub bytes_per_event: f64,
    /// Mean number of bytes per event that a decoder reads: raw banks, and the tables of their
    /// places.
    pub bytes_in_per_event: f64,
    /// Mean number of bytes per event that a decoder writes: hits, ends of groups, counters.
    pub bytes_out_per_event: f64,
    /// Results in the [modes of the pipeline](Mode::of) on a GPU.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<ModeResult>,
    /// Times of the kernels of a GPU, by the device's clock, on one stream.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelTime>,
    /// Digest of all hits and counters of a pass ([`Digest`](super::Digest)).
    pub digest: String,
}

/// Variants that are measured on one sample: one variant, or one per mode.
struct Contestant<'a> {
    sample: &'a Sample,
    modes: &'static [Mode],
    kernels: Vec<KernelTime>,
}

impl Contestant<'_> {
    /// Combines the variants and their rates. The last variant measures the whole way.
    fn result(
        self,
        backend: Backend,
        threads: usize,
        tables: &DetectorTables,
        variants: &mut [Variant],
        rates: &[Vec<f64>],
    ) -> Result<Throughput, DecodeError> {
        let latency = |variant: &mut Variant| variant.latencies().map(|times| Latency::of(&times));
        let latencies = variants
            .iter_mut()
            .map(latency)
            .collect::<Result<Vec<_>, DecodeError>>()?;
        let modes = self
            .modes
            .iter()
            .zip(rates)
            .zip(&latencies)
            .map(|((mode, rates), latency)| ModeResult {
                mode: *mode,
                repetitions: rates.len(),
                events_per_second: Spread::of(rates),
                latency: *latency,
            });
        let sample = self.sample;
        let last = variants.len() - 1;
        let (variant, rates, latency) = (&variants[last], &rates[last], &latencies[last]);
        let rate = Spread::of(rates);
        let events = sample.events.max(1) as f64;
        let Contents {
            strips,
            hits,
            events_with_trouble,
            ..
        } = variant.contents;
        let [strips, hits, bytes] = [
            strips as f64 / events,
            hits as f64 / events,
            sample.bytes as f64 / events,
        ];
        Ok(Throughput {
            backend: backend.name().to_owned(),
            threads,
            events: sample.events,
            distinct_events: sample.distinct_events,
            batch: sample
                .batches
                .iter()
                .map(|batch| batch.n_events)
                .max()
                .unwrap_or_default(),
            repetitions: rates.len(),
            events_per_second: rate,
            events_per_second_per_thread: rate.median / threads as f64,
            strips_per_second: rate.times(strips),
            gigabytes_per_second: rate.times(bytes * 1e-9),
            latency: *latency,
            strips_per_event: strips,
            events_with_trouble,
            hits_per_event: hits,
            bytes_per_event: bytes,
            bytes_in_per_event: sample.batches.iter().map(bytes_in).sum::<usize>() as f64 / events,
            bytes_out_per_event: hits * 28.0
                + ((tables.n_groups() + Count::ALL.len()) * size_of::<u32>()) as f64,
            modes: modes.collect(),
            kernels: self.kernels,
            digest: variant.contents.digest.to_string(),
        })
    }
}

/// Returns the number of bytes of a batch that are copied to a device.
pub(super) fn bytes_in(batch: &EventBatch) -> usize {
    let view = batch.view();
    let words: usize = view.words().map(<[u32]>::len).iter().sum();
    view.raw.len() + words * size_of::<u32>()
}

/// Measures one backend on several samples in turn, such as the same events in batches of several
/// sizes. The first pass over each sample is compared with `expected`.
pub fn run(
    samples: &[Sample],
    tables: &DetectorTables,
    expected: &Expected,
    measurement: &Measurement,
    tick: impl FnMut(Duration),
) -> Result<Vec<Throughput>, DecodeError> {
    let Measurement {
        backend,
        options,
        decoder: config,
        threads,
        duration,
    } = *measurement;
    let wrong = |difference| DecodeError::Device {
        backend: backend.name(),
        message: format!("other bits: {difference}"),
    };
    let (mut variants, mut contestants) = (Vec::new(), Vec::new());
    for sample in samples {
        if backend == Backend::Cuda {
            let modes = Mode::of(config.pipeline());
            let config = CudaConfig::of(&config);
            let gpu = OnGpu {
                sample,
                tables,
                options,
                config: &config,
                streams: threads,
            };
            for variant in gpu.modes(modes, Some(expected))?.map_err(wrong)? {
                variants.push(variant.warmed(repetition(duration))?);
            }
            let kernels = gpu.kernel_times(kernel_passes(duration))?;
            contestants.push(Contestant {
                sample,
                modes,
                kernels,
            });
        } else {
            let decoder = || backend.decoder_with(tables, options, &config);
            let variant = Variant::checked(sample, tables, threads, decoder, Some(expected))?;
            variants.push(variant.map_err(wrong)?.warmed(repetition(duration))?);
            contestants.push(Contestant {
                sample,
                modes: &[],
                kernels: Vec::new(),
            });
        }
    }
    let rates = measure(&mut variants, duration, tick)?;
    let (mut variants, mut rates) = (&mut variants[..], &rates[..]);
    let mut results = Vec::new();
    for contestant in contestants {
        let n = contestant.modes.len().max(1);
        let (own, others) = variants.split_at_mut(n);
        results.push(contestant.result(backend, threads.max(1), tables, own, &rates[..n])?);
        (variants, rates) = (others, &rates[n..]);
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_hundred_latencies_is_above_the_99th_percentile() {
        let times: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let latency = Latency::of(&times);
        assert_eq!(
            (latency.us.median, latency.us.max, latency.p99_us),
            (50.5, 100.0, 99.0)
        );
        assert_eq!(Latency::of(&[7.0]).p99_us, 7.0);
        assert_eq!(Latency::of(&[]).p99_us, 0.0);
    }
}
