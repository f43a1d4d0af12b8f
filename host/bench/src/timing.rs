//! Timing of decoders, the same for `throughput`, `ablation` and `sweep`.
//!
//! Each thread has a decoder, hits and batches that no other thread uses: threads share only the
//! machine. In a repetition, every thread decodes its batches often enough to last [`REPETITION`],
//! from a common start until the last thread is done. Repetitions of several variants are
//! interleaved ([`measure`]), so that a machine that slows down, such as one that gets hot, slows
//! every variant alike.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use chacha20::ChaCha8Rng;
use rand::SeedableRng as _;
use tuner::compare::turns;

use super::Digest;
use super::sample::{Expected, Sample};
use ut_data::detector::DetectorTables;
use ut_data::input::EventBatch;
use ut_data::memory;
use ut_decoders::{BatchReport, Count, DecodeError, Decoder, UtHits};

/// Minimum duration of a repetition. Shorter ones measure the clock and the scheduler.
///
/// A context switch takes some microseconds and a tick of the scheduler a few milliseconds: against
/// 100 ms both are small.
pub const REPETITION: Duration = Duration::from_millis(100);

/// Minimum number of rounds, however short the duration. A measurement of duration 0 has one block.
pub const MIN_ROUNDS: usize = 8;

/// Number of rounds that are ordered together.
///
/// The second round of a block runs in the reverse order of the first, which cancels a linear drift
/// between the variants.
pub const BLOCK: usize = 2;

/// Returns the minimum duration of a repetition in a measurement of `duration`. A measurement of
/// duration 0 only shows that it works: a repetition is one pass.
pub fn repetition(duration: Duration) -> Duration {
    if duration.is_zero() {
        Duration::ZERO
    } else {
        REPETITION
    }
}

/// Work that a thread repeats.
pub trait Job: Send {
    /// Returns the number of batches in a pass.
    fn batches(&self) -> usize;

    /// Decodes batch `i`. Batches come in order.
    fn batch(&mut self, i: usize) -> Result<(), DecodeError>;

    /// Decodes `n` passes.
    fn passes(&mut self, n: usize) -> Result<(), DecodeError> {
        let batches = self.batches();
        (0..n)
            .flat_map(|_| 0..batches)
            .try_for_each(|i| self.batch(i))
    }
}

/// Decoder, batches and room for hits of one thread.
struct Worker {
    decoder: Box<dyn Decoder>,
    hits: UtHits,
    report: BatchReport,
    batches: Vec<EventBatch>,
}

impl Job for Worker {
    fn batches(&self) -> usize {
        self.batches.len()
    }

    fn batch(&mut self, i: usize) -> Result<(), DecodeError> {
        self.decoder
            .decode(self.batches[i].view(), &mut self.hits, &mut self.report)
    }
}

/// Contents of the pass of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Number of events.
    pub events: usize,
    /// Number of hits.
    pub hits: u64,
    /// Number of strips (v4: cluster words).
    pub strips: u64,
    /// Number of events with trouble.
    pub events_with_trouble: usize,
    /// Digest of all hits and counters.
    pub digest: Digest,
}

/// Jobs that are measured together, one thread per job.
pub struct Variant {
    jobs: Vec<Box<dyn Job>>,
    passes: usize,
    /// Minimum duration of a repetition.
    least: Duration,
    /// Contents of the pass of each job.
    pub contents: Contents,
}

impl Variant {
    /// Takes one job per thread, and the `contents` of its pass.
    pub fn of(jobs: Vec<Box<dyn Job>>, contents: Contents) -> Self {
        Self {
            jobs,
            passes: 1,
            least: REPETITION,
            contents,
        }
    }

    /// Finds the number of passes for a repetition of duration `least`, which also warms up. With
    /// duration 0, does nothing.
    pub fn warmed(mut self, least: Duration) -> Result<Self, DecodeError> {
        self.least = least;
        if least.is_zero() {
            return Ok(self);
        }
        // The first time, more passes may reach another stream, whose buffers grow. So the second
        // time counts.
        while self.time(self.passes)?.min(self.time(self.passes)?) < least && self.passes < 1 << 20
        {
            self.passes *= 2;
        }
        Ok(self)
    }

    /// Prepares decoders made by `decoder` for `threads` threads (at least 1), which all decode
    /// `sample`; not warmed up. The first decoder's hits are compared with `expected`; the inner
    /// error is the difference.
    pub fn checked(
        sample: &Sample,
        tables: &DetectorTables,
        threads: usize,
        decoder: impl Fn() -> Result<Box<dyn Decoder>, DecodeError>,
        expected: Option<&Expected>,
    ) -> Result<Result<Self, String>, DecodeError> {
        let max_events = sample
            .batches
            .iter()
            .map(|batch| batch.n_events)
            .max()
            .unwrap_or_default();
        let max_hits = sample
            .batches
            .iter()
            .map(|batch| batch.view().max_hits())
            .max()
            .unwrap_or_default();
        let bytes = sample
            .batches
            .iter()
            .map(|batch| batch.raw.len())
            .sum::<usize>();
        let needed = threads as u64 * (28 * max_hits + bytes) as u64;
        if memory::check("", needed)
            .and_then(|()| memory::check_address_space("", needed + memory::arenas(threads)))
            .is_err()
        {
            return Err(DecodeError::NoMemory {
                events: max_events,
                bytes: needed as usize,
            });
        }
        let worker = || {
            Ok(Worker {
                decoder: decoder()?,
                hits: UtHits::with_capacity(max_events, tables.n_groups(), max_hits),
                report: BatchReport::new(),
                batches: sample.batches.clone(),
            })
        };
        let mut workers = (0..threads.max(1))
            .map(|_| worker())
            .collect::<Result<Vec<Worker>, DecodeError>>()?;
        let mut contents = Contents::default();
        for batch in &sample.batches {
            let first = &mut workers[0];
            first
                .decoder
                .decode(batch.view(), &mut first.hits, &mut first.report)?;
            let range = contents.events..contents.events + batch.n_events;
            contents.events = range.end;
            if let Some(Err(difference)) =
                expected.map(|expected| expected.check(range, &first.hits, &first.report))
            {
                return Ok(Err(difference));
            }
            contents.digest.add(&first.hits, &first.report);
            contents.hits += first.hits.len() as u64;
            contents.strips += first.report.total(Count::Strips);
            contents.events_with_trouble += first
                .report
                .events
                .iter()
                .filter(|event| event.has_trouble())
                .count();
        }
        let job = |worker| -> Box<dyn Job> { Box::new(worker) };
        Ok(Ok(Self::of(
            workers.into_iter().map(job).collect(),
            contents,
        )))
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        self.jobs.len()
    }

    /// Returns the number of events in a pass, all threads together.
    pub fn events(&self) -> usize {
        self.contents.events * self.jobs.len()
    }

    /// Measures one repetition: returns the events per second of all threads together.
    pub fn repetition(&mut self) -> Result<f64, DecodeError> {
        let taken = self.time(self.passes)?;
        Ok((self.events() * self.passes) as f64 / taken.as_secs_f64().max(1e-9))
    }

    /// Measures the latency of each batch of the first job in µs, from the batch in memory to the
    /// hits, while the other jobs wait: it is the time of one batch, without the queues and the
    /// traffic of other threads. There are as many passes as fit into a repetition.
    pub fn latencies(&mut self) -> Result<Vec<f64>, DecodeError> {
        let mut times = Vec::new();
        let Some(job) = self.jobs.first_mut().filter(|job| job.batches() > 0) else {
            return Ok(times);
        };
        let start = Instant::now();
        while times.is_empty() || start.elapsed() < self.least {
            for i in 0..job.batches() {
                let start = Instant::now();
                job.batch(i)?;
                times.push(start.elapsed().as_secs_f64() * 1e6);
            }
        }
        Ok(times)
    }

    /// Measures the duration of `passes` passes, from the common start to the end of the last
    /// thread.
    pub fn time(&mut self, passes: usize) -> Result<Duration, DecodeError> {
        let barrier = Barrier::new(self.jobs.len());
        let timed = |job: &mut Box<dyn Job>| -> Result<(Instant, Instant), DecodeError> {
            barrier.wait();
            let start = Instant::now();
            job.passes(passes)?;
            Ok((start, Instant::now()))
        };
        let spans = if let [job] = &mut self.jobs[..] {
            vec![timed(job)?]
        } else {
            std::thread::scope(|scope| {
                let timed = &timed;
                let threads: Vec<_> = self
                    .jobs
                    .iter_mut()
                    .map(|job| scope.spawn(move || timed(job)))
                    .collect();
                let join = |thread: std::thread::ScopedJoinHandle<'_, Result<_, DecodeError>>| {
                    thread
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                };
                threads
                    .into_iter()
                    .map(join)
                    .collect::<Result<Vec<_>, DecodeError>>()
            })?
        };
        let (start, end) = (
            spans.iter().map(|span| span.0).min(),
            spans.iter().map(|span| span.1).max(),
        );
        Ok(end
            .zip(start)
            .map_or(Duration::ZERO, |(end, start)| end - start))
    }
}

/// Measures variants in rounds, for `duration` in all, but for at least [`MIN_ROUNDS`] rounds
/// ([`BLOCK`] rounds if `duration` is 0). A round is one repetition of each variant. Returns the
/// events per second of each repetition, by variant.
///
/// Two rounds are a block of [`Change`](super::Change): the first has a random order, the second
/// the reverse order, so that a steady drift of the machine cancels. `tick` is called with the time
/// that has passed.
pub fn measure(
    variants: &mut [Variant],
    duration: Duration,
    mut tick: impl FnMut(Duration),
) -> Result<Vec<Vec<f64>>, DecodeError> {
    let mut rates = vec![Vec::new(); variants.len()];
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let start = Instant::now();
    let (mut rounds, least) = (
        0,
        if duration.is_zero() {
            BLOCK
        } else {
            MIN_ROUNDS
        },
    );
    while rounds < least || start.elapsed() < duration {
        for i in turns(variants.len(), BLOCK, &mut random)
            .into_iter()
            .flatten()
        {
            rates[i].push(variants[i].repetition()?);
            tick(start.elapsed());
        }
        rounds += BLOCK;
    }
    Ok(rates)
}
