//! Events per second: the main measurement.
//!
//! Each of T threads has a decoder, hits and batches of its own, so that threads share nothing but the machine. A
//! repetition sends every thread over its batches often enough to last [`REPETITION`], all starting together; its rate
//! counts until the last thread is done. Repetitions of several variants are interleaved ([`measure`]), so that a machine
//! that slows down slows all of them alike.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use super::Spread;
use crate::backend::{Backend, BatchReport, Count, DecodeError, DecodeOptions, Decoder, UtHits};
use crate::detector::DetectorTables;
use crate::input::{Bank, BatchBuilder, BatchView, EventBatch, banks_of};

/// The least a repetition lasts. Shorter ones measure the clock and the scheduler.
pub const REPETITION: Duration = Duration::from_millis(100);

/// Repetitions that are made however short the duration.
pub const MIN_REPETITIONS: usize = 5;

/// Events below which the branch predictor begins to know them by heart.
pub const ENOUGH_DISTINCT: usize = 1000;

/// The events that are decoded over and over.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The batches that make one pass.
    pub batches: Vec<EventBatch>,
    /// Events of a pass.
    pub events: usize,
    /// Events of a pass that differ from each other.
    pub distinct_events: usize,
    /// Bytes of a pass: the batches' `raw`, that is raw banks with their sourceIDs and the tables of banks.
    pub bytes: usize,
}

impl Sample {
    /// Batches of `batch` events (at least 1) from those of `batches`, which are repeated until a pass has at least
    /// [`ENOUGH_DISTINCT`] events or one batch is full. Empty when there is no event.
    pub fn new(batches: &[EventBatch], batch: usize) -> Self {
        let mut sample = Self::default();
        let n_events: usize = batches.iter().map(|batch| batch.n_events).sum();
        if n_events == 0 {
            return sample;
        }
        let batch = batch.max(1);
        let wanted = n_events.max(ENOUGH_DISTINCT).max(batch);
        let all = batches.iter().flat_map(|batch| (0..batch.n_events).map(move |e| (batch.view(), e)));
        let mut different = HashSet::new();
        let mut builder = BatchBuilder::new();
        let mut banks: Vec<Bank<'_>> = Vec::new();
        for (view, e) in all.cycle().take(wanted) {
            banks_of(view, e, &mut banks);
            let mut hash = DefaultHasher::new();
            for bank in &banks {
                (bank.kind, bank.version, bank.source_id, bank.payload).hash(&mut hash);
            }
            different.insert(hash.finish());
            let meta = view.meta_of(e);
            let agrees = builder.agrees(banks.iter().copied());
            if builder.n_events() == batch || !agrees || builder.push(meta, banks.iter().copied()).is_err() {
                sample.close(&mut builder);
                // It came from a batch, so it fits into one.
                let _ = builder.push(meta, banks.iter().copied());
            }
        }
        sample.close(&mut builder);
        sample.distinct_events = different.len();
        sample
    }

    fn close(&mut self, builder: &mut BatchBuilder) {
        let mut batch = EventBatch::default();
        builder.finish(&mut batch);
        self.add(batch);
    }

    fn add(&mut self, batch: EventBatch) {
        self.events += batch.n_events;
        self.bytes += batch.raw.len();
        self.batches.push(batch);
    }

    /// The same events with each batch replaced by what `change` makes of it: for another layout.
    ///
    /// # Errors
    /// What `change` fails with.
    pub fn transposed<E>(&self, change: impl Fn(BatchView<'_>) -> Result<Vec<EventBatch>, E>) -> Result<Self, E> {
        let mut sample = Self { distinct_events: self.distinct_events, ..Self::default() };
        for batch in &self.batches {
            change(batch.view())?.into_iter().for_each(|batch| sample.add(batch));
        }
        Ok(sample)
    }
}

/// One thread's own things.
struct Worker {
    decoder: Box<dyn Decoder>,
    hits: UtHits,
    report: BatchReport,
    batches: Vec<EventBatch>,
}

impl Worker {
    fn pass(&mut self) -> Result<(), DecodeError> {
        for batch in &self.batches {
            self.decoder.decode(batch.view(), &mut self.hits, &mut self.report)?;
        }
        Ok(())
    }
}

/// Begin and end of `passes` passes that begin when all threads have come to `barrier`.
fn timed(worker: &mut Worker, passes: usize, barrier: &Barrier) -> Result<(Instant, Instant), DecodeError> {
    barrier.wait();
    let start = Instant::now();
    for _ in 0..passes {
        worker.pass()?;
    }
    Ok((start, Instant::now()))
}

/// Something to be measured: a decoder on each of some threads, and a sample.
pub struct Variant {
    workers: Vec<Worker>,
    events: usize,
    passes: usize,
    /// Hits of a pass.
    pub hits: u64,
    /// Strips (v4: cluster words) of a pass.
    pub strips: u64,
    /// Events of a pass in which something is wrong.
    pub events_with_trouble: usize,
}

impl Variant {
    /// Decoders made by `decoder` for `threads` threads (at least 1), which all decode `sample`. Decodes it once to see
    /// that it can be, and to learn how long it takes.
    ///
    /// # Errors
    /// When a decoder cannot be made or cannot decode the sample.
    pub fn new(
        sample: &Sample,
        tables: &DetectorTables,
        threads: usize,
        decoder: impl Fn() -> Result<Box<dyn Decoder>, DecodeError>,
    ) -> Result<Self, DecodeError> {
        let max_events = sample.batches.iter().map(|batch| batch.n_events).max().unwrap_or_default();
        let max_hits = sample.batches.iter().map(|batch| batch.view().max_hits()).max().unwrap_or_default();
        let worker = || {
            Ok(Worker {
                decoder: decoder()?,
                hits: UtHits::with_capacity(max_events, tables.n_groups, max_hits),
                report: BatchReport::new(),
                batches: sample.batches.clone(),
            })
        };
        let mut workers = (0..threads.max(1)).map(|_| worker()).collect::<Result<Vec<Worker>, DecodeError>>()?;
        let (mut hits, mut strips, mut events_with_trouble) = (0, 0, 0);
        for batch in &sample.batches {
            let first = &mut workers[0];
            first.decoder.decode(batch.view(), &mut first.hits, &mut first.report)?;
            hits += first.hits.len() as u64;
            strips += first.report.total(Count::Strips);
            events_with_trouble += first.report.events.iter().filter(|event| event.has_trouble()).count();
        }
        let mut variant = Self { workers, events: sample.events, passes: 1, hits, strips, events_with_trouble };
        // Warms up, too.
        while variant.repetition()?.0 < REPETITION && variant.passes < 1 << 20 {
            variant.passes *= 2;
        }
        Ok(variant)
    }

    /// Threads at work.
    pub fn threads(&self) -> usize {
        self.workers.len()
    }

    /// One repetition: how long it took, and its rate in events a second over all threads.
    fn repetition(&mut self) -> Result<(Duration, f64), DecodeError> {
        let barrier = Barrier::new(self.workers.len());
        let (barrier, passes) = (&barrier, self.passes);
        let spans = std::thread::scope(|scope| {
            let start = |worker| scope.spawn(move || timed(worker, passes, barrier));
            let threads: Vec<_> = self.workers.iter_mut().map(start).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<_, DecodeError>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect::<Result<Vec<(Instant, Instant)>, DecodeError>>()
        })?;
        let (Some(start), Some(end)) = (spans.iter().map(|span| span.0).min(), spans.iter().map(|span| span.1).max())
        else {
            return Ok((REPETITION, 0.0));
        };
        let taken = end - start;
        let events = self.events * passes * self.workers.len();
        Ok((taken, events as f64 / taken.as_secs_f64().max(1e-9)))
    }
}

/// Measures variants for `duration` altogether, and at least [`MIN_REPETITIONS`] times each, one repetition of each in
/// turn. `tick` is told how much of the duration is over. Returns events a second of each repetition of each variant.
///
/// # Errors
/// When a decoder fails.
pub fn measure(
    variants: &mut [Variant],
    duration: Duration,
    mut tick: impl FnMut(Duration),
) -> Result<Vec<Vec<f64>>, DecodeError> {
    let mut rates = vec![Vec::new(); variants.len()];
    let start = Instant::now();
    while start.elapsed() < duration || rates.first().is_some_and(|rates| rates.len() < MIN_REPETITIONS) {
        for (variant, rates) in variants.iter_mut().zip(&mut rates) {
            rates.push(variant.repetition()?.1);
        }
        tick(start.elapsed());
    }
    Ok(rates)
}

/// What is measured, and how long.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The backend.
    pub backend: Backend,
    /// Its options.
    pub options: DecodeOptions,
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
    let decoder = || settings.backend.decoder(tables, settings.options, 1);
    let mut variants = [Variant::new(sample, tables, settings.threads, decoder)?];
    let rates = measure(&mut variants, settings.duration, tick)?;
    Ok(Throughput::of(settings.backend.name(), sample, &variants[0], &rates[0]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::EventMeta;

    fn batch_of(n_events: u8) -> EventBatch {
        let mut builder = BatchBuilder::new();
        for e in 0..n_events {
            let bank = Bank { kind: 66, version: Some(4), source_id: u32::from(e), payload: &[e; 24] };
            builder.push(EventMeta::default(), [bank]).unwrap();
        }
        let mut batch = EventBatch::default();
        builder.finish(&mut batch);
        batch
    }

    #[test]
    fn a_small_sample_is_repeated_and_says_how_many_events_differ() {
        let sample = Sample::new(&[batch_of(3), batch_of(5)], 300);
        assert_eq!((sample.events, sample.distinct_events), (1000, 5));
        assert_eq!(sample.batches.iter().map(|batch| batch.n_events).collect::<Vec<_>>(), [300, 300, 300, 100]);
        let sample = Sample::new(&[batch_of(3)], 2000);
        assert_eq!((sample.events, sample.batches.len()), (2000, 1));
    }

    #[test]
    fn no_events_make_an_empty_sample() {
        let sample = Sample::new(&[EventBatch::default()], 10);
        assert_eq!((sample.events, sample.batches.len()), (0, 0));
    }

    #[test]
    fn another_layout_has_the_same_events() {
        let sample = Sample::new(&[batch_of(5)], 100);
        let mep = sample.transposed(crate::input::to_mep).unwrap();
        assert_eq!((mep.events, mep.distinct_events), (1000, 5));
        assert_eq!(mep.batches.len(), 1000, "a sourceID of its own in every event");
    }
}
