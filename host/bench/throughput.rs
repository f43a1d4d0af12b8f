//! Events per second: the main measurement.

use std::time::Duration;

use super::Spread;
use super::contest::{Variant, measure};
use super::sample::Sample;
use crate::backend::{Backend, DecodeError, DecodeOptions, Knobs};
use crate::detector::DetectorTables;

/// What is measured, and how long.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The backend.
    pub backend: Backend,
    /// Its options.
    pub options: DecodeOptions,
    /// Its knobs.
    pub knobs: Knobs,
    /// Threads, each with a decoder of its own.
    pub threads: usize,
    /// How long, altogether.
    pub duration: Duration,
}

/// The result, in the names of the JSON output.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Throughput {
    /// The backend.
    pub backend: String,
    /// Threads.
    pub threads: usize,
    /// Events that each thread decodes in a pass.
    pub events: usize,
    /// How many of them differ.
    pub distinct_events: usize,
    /// Events of the largest batch.
    pub batch: usize,
    /// Repetitions.
    pub repetitions: usize,
    /// Events a second, all threads together.
    pub events_per_second: Spread,
    /// Events a second and thread, in the median.
    pub events_per_second_per_thread: f64,
    /// Strips (v4: cluster words) a second, all threads together.
    pub strips_per_second: Spread,
    /// 10⁹ bytes of raw banks a second, all threads together.
    pub gigabytes_per_second: Spread,
    /// Strips an event, in the mean.
    pub strips_per_event: f64,
    /// Events of a pass in which something is wrong: what is skipped takes no time.
    pub events_with_trouble: usize,
    /// Hits an event, in the mean.
    pub hits_per_event: f64,
    /// Bytes an event, in the mean.
    pub bytes_per_event: f64,
    /// Digest of all hits and counters of a pass ([`Digest`](super::Digest)): the same wherever the same is decoded. Empty
    /// in results of versions that did not have it.
    #[serde(default)]
    pub digest: String,
}

impl Throughput {
    /// What `rates`, events a second of a variant's repetitions, say.
    pub fn of(backend: &str, sample: &Sample, variant: &Variant, rates: &[f64]) -> Self {
        let rate = Spread::of(rates);
        let events = sample.events.max(1) as f64;
        let [strips, hits, bytes] =
            [variant.strips as f64 / events, variant.hits as f64 / events, sample.bytes as f64 / events];
        Self {
            backend: backend.to_owned(),
            threads: variant.threads(),
            events: sample.events,
            distinct_events: sample.distinct_events,
            batch: sample.batches.iter().map(|batch| batch.n_events).max().unwrap_or_default(),
            repetitions: rates.len(),
            events_per_second: rate,
            events_per_second_per_thread: rate.median / variant.threads() as f64,
            strips_per_second: rate.times(strips),
            gigabytes_per_second: rate.times(bytes * 1e-9),
            strips_per_event: strips,
            events_with_trouble: variant.events_with_trouble,
            hits_per_event: hits,
            bytes_per_event: bytes,
            digest: variant.digest.to_string(),
        }
    }
}

/// Measures one backend on one sample.
///
/// # Errors
/// When the backend cannot run here or cannot decode the sample.
pub fn run(
    sample: &Sample,
    tables: &DetectorTables,
    settings: &Settings,
    tick: impl FnMut(Duration),
) -> Result<Throughput, DecodeError> {
    let decoder = || settings.backend.decoder_with(tables, settings.options, &settings.knobs);
    let mut variants = [Variant::new(sample, tables, settings.threads, decoder)?];
    let rates = measure(&mut variants, settings.duration, tick)?;
    Ok(Throughput::of(settings.backend.name(), sample, &variants[0], &rates[0]))
}
