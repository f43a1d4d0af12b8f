//! Events for measurements, from files or synthetic.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use ut_bench::decoding::{expected, laid_out};
use ut_bench::{ENOUGH_DISTINCT, Expected, Sample};
use ut_data::detector::BankVersion;
use ut_data::input::{Bank, BatchBuilder, EventBatch, EventMeta, Events, kind, to_allen};
use ut_data::synth::{Generator, Profile};
use ut_data::{DecodeOptions, Layout, memory};
use ut_decoders::cpu::memory_of_threads;
use ut_decoders::{Backend, Parameters};
use ut_report::{Detector, SYNTHETIC};

use crate::Failure;
use crate::args::DetectorArgs;
use crate::detector::{check_makers, check_versions};
use crate::output::{number, say};
use tuner::fnv::Fnv;

const SEED: u64 = 1;

/// Maximum number of input events kept in memory.
pub const MAX_EVENTS: usize = 10_000;

/// The least memory that a measurement takes.
const LITTLE: u64 = 64 << 20;

/// Number of events in a pass on the emulated backend, which is slow.
const EMULATED_EVENTS: usize = 20;

/// Kind of synthetic events: how busy they are, and their bank format.
#[derive(Clone, Copy, Debug)]
pub struct Synthetic {
    pub profile: Profile,
    pub format: BankVersion,
}

impl Default for Synthetic {
    fn default() -> Self {
        Self {
            profile: Profile::PpNominal,
            format: BankVersion::V5,
        }
    }
}

impl Display for Synthetic {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "embedded {} {} events",
            self.profile.name(),
            self.format.name()
        )
    }
}

/// Events to measure, and their number.
#[derive(Clone, Copy, Debug)]
pub struct SampleOptions<'a> {
    /// Files of events; none: synthetic ones.
    pub files: &'a [PathBuf],
    pub synthetic: Synthetic,
    /// Events of a pass, repeated if there are fewer; `None`: all that there are, at most 20 on the
    /// emulated backend.
    pub events: Option<u32>,
    /// Fewest events of a pass, if `events` is `None`: the events of a file are repeated.
    pub least: usize,
}

/// Batches in which events are fed to decoders.
#[derive(Clone, Copy, Debug)]
pub struct Feeding<'a> {
    pub backend: Backend,
    pub threads: usize,
    pub layout: Layout,
    /// Events of a batch, in one size or several.
    pub sizes: &'a [u32],
}

impl Feeding<'_> {
    /// Refuses a pass of `wanted` events, with buffers for each thread, that would take more memory
    /// than there is.
    fn check_memory(&self, events: &[EventBatch], wanted: usize) -> Result<(), Failure> {
        let n_events = events
            .iter()
            .map(|batch| batch.n_events)
            .sum::<usize>()
            .max(1) as f64;
        let bytes = events.iter().map(|batch| batch.raw.len()).sum::<usize>() as f64 / n_events;
        // A pass is kept once for each batch size and once more, in buffers that are up to twice as
        // large.
        let pass = 2.0 * (self.sizes.len() + 1) as f64 * bytes * wanted as f64;
        let threads = if self.backend == Backend::Cpu {
            self.threads
        } else {
            1
        };
        // 28 bytes per hit, and a hit takes at least two bytes of a bank; once more for the digest.
        let hits = 14.0 * bytes * self.largest() as f64 * (threads + 1) as f64;
        let what = format!("a sample of {wanted} events, with {threads} threads");
        let needed = (pass + hits) as u64 + memory_of_threads(threads);
        memory::check(what.as_str(), needed)?;
        // The reference's result has room for every hit that the sample could have.
        let expected = 14.0 * bytes * n_events;
        Ok(memory::check_address_space(
            what,
            needed + expected as u64 + memory::arenas(threads),
        )?)
    }

    fn largest(&self) -> usize {
        self.sizes.iter().copied().max().unwrap_or(1) as usize
    }
}

pub struct Loaded {
    pub detector: Detector,
    pub events: Vec<EventBatch>,
    pub wanted: usize,
    /// A pass in the largest batches and the requested layout.
    pub sample: Sample,
    pub source: String,
}

impl Loaded {
    /// Loads all events of the files, or embedded ones, for a decoder with these parameters.
    pub fn all(
        files: &[PathBuf],
        backend: Backend,
        parameters: &Parameters,
    ) -> Result<Self, Failure> {
        let wanted = SampleOptions {
            files,
            synthetic: Synthetic::default(),
            events: None,
            least: 1,
        };
        let feeding = Feeding {
            backend,
            threads: parameters.decoders(backend),
            layout: parameters.layout(),
            sizes: &[parameters.batch()],
        };
        Self::new(wanted, &DetectorArgs::default(), feeding)
    }

    pub fn new(
        wanted: SampleOptions<'_>,
        detector: &DetectorArgs,
        feeding: Feeding<'_>,
    ) -> Result<Self, Failure> {
        let SampleOptions {
            files,
            synthetic,
            events: asked,
            least,
        } = wanted;
        let asked = asked.map(|n| n as usize);
        let emulated = feeding.backend == Backend::Emulated;
        let (detector, events, source) = if files.is_empty() {
            let n = asked
                .unwrap_or(if emulated {
                    EMULATED_EVENTS
                } else {
                    ENOUGH_DISTINCT
                })
                .min(MAX_EVENTS);
            let detector = match detector.boards.clone().zip(detector.geometry.clone()) {
                Some((boards, geometry)) => detector.read(boards, geometry)?,
                None => detector.embedded(synthetic.format),
            };
            (
                detector,
                vec![embedded(synthetic, n)?],
                format!("{synthetic}, seed {SEED}"),
            )
        } else {
            let most = asked.unwrap_or(if emulated {
                EMULATED_EVENTS
            } else {
                MAX_EVENTS
            });
            let detector = detector.load(files)?;
            let events = read(files, &detector, most.min(MAX_EVENTS))?;
            (detector, events, names_of(files))
        };
        let n_events: usize = events.iter().map(|batch| batch.n_events).sum();
        if n_events == 0 {
            return Err(format!("{source}: there is no event").into());
        }
        let wanted = asked.unwrap_or(if emulated {
            n_events.min(EMULATED_EVENTS)
        } else {
            n_events.max(least).max(feeding.largest())
        });
        feeding.check_memory(&events, wanted)?;
        let batches = Parameters::default().with_batches(feeding.largest(), feeding.layout);
        let sample = laid_out(&batches, &events, wanted)?;
        Ok(Self {
            detector,
            events,
            wanted,
            sample,
            source,
        })
    }

    /// Returns a pass in batches of each size.
    pub fn samples(
        &self,
        asked: Option<u32>,
        feeding: Feeding<'_>,
    ) -> Result<Vec<Sample>, Failure> {
        let n_events = self.events.iter().map(|batch| batch.n_events).sum();
        let of = |&batch: &u32| {
            let batches = Parameters::default().with_batches(batch as usize, feeding.layout);
            let fixed = asked.is_some() || feeding.backend == Backend::Emulated;
            let wanted = match feeding.sizes.len() {
                1 if fixed => self.wanted,
                _ if fixed => self.wanted.max(batch as usize),
                _ => Sample::enough(n_events, batch as usize),
            };
            Ok(laid_out(&batches, &self.events, wanted)?)
        };
        feeding.sizes.iter().map(of).collect()
    }

    pub fn expected(&self, layout: Layout, options: DecodeOptions) -> Result<Expected, Failure> {
        Ok(expected(
            &self.events,
            layout,
            &self.detector.tables,
            options,
        )?)
    }
}

/// Returns `source` with a hash of paths, sizes and times of its files and tables, by which a run
/// is continued.
pub fn identity(source: &str, files: &[PathBuf], detector: &Detector) -> String {
    let all: Vec<_> = files
        .iter()
        .chain(&detector.boards)
        .chain(&detector.geometry)
        .collect();
    if all.is_empty() {
        return source.to_owned();
    }
    let mut hash = Fnv::default();
    for file in all {
        // A pipe has only its name.
        let place = file.canonicalize().unwrap_or_else(|_| file.clone());
        let meta = file.metadata().ok().filter(std::fs::Metadata::is_file);
        let written = meta
            .as_ref()
            .and_then(|meta| meta.modified().ok()?.duration_since(UNIX_EPOCH).ok());
        hash.take(place.as_os_str().as_encoded_bytes());
        hash.take(format!("{:?}{written:?}", meta.map(|meta| meta.len())).as_bytes());
    }
    format!("{source} ({hash})")
}

/// Returns the names of files, one after the other.
pub fn names_of(files: &[PathBuf]) -> String {
    let names: Vec<_> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    names.join(" ")
}

pub fn embedded(Synthetic { profile, format }: Synthetic, n: usize) -> Result<EventBatch, Failure> {
    memory::check(format!("a sample of {n} events"), LITTLE)?;
    let mut builder = BatchBuilder::new();
    for event in Generator::new(profile, format, SEED).take(n) {
        let meta = EventMeta {
            run: Some(event.run),
            event: Some(event.event),
            ..EventMeta::default()
        };
        let banks = event.banks.iter().map(|(source_id, payload)| Bank {
            kind: kind::UT,
            version: Some(format.byte()),
            source_id: u32::from(*source_id),
            payload,
        });
        builder.push(meta, banks)?;
    }
    let mut batch = EventBatch::default();
    builder.finish(&mut batch);
    Ok(batch)
}

/// Returns the events of `files`, at least `most` if there are as many.
pub fn read(
    files: &[PathBuf],
    detector: &Detector,
    most: usize,
) -> Result<Vec<EventBatch>, Failure> {
    let mut source = Events::new(files);
    let (mut all, mut events, mut bytes) = (Vec::new(), 0, 0);
    while let Some((batch, ..)) = source.next_batch(100)? {
        let batch = to_allen(batch)?;
        events += batch.n_events;
        // The banks and their tables, which outweigh small banks.
        bytes += batch.raw.len() + 4 * batch.offsets.len() + 2 * batch.sizes.len();
        all.push(batch);
        memory::check(
            format!("a sample of {events} events or more"),
            LITTLE + bytes as u64,
        )?;
        if events >= most {
            if most == MAX_EVENTS {
                say(&format!(
                    "warning: there may be more events; the first {} are used",
                    number(events as u64)
                ));
            }
            break;
        }
    }
    // A pass that skips the banks of another version is fast, and no measurement.
    check_versions(detector, source.seen())
        .next()
        .map_or(Ok(()), Err)?;
    check_makers(detector, source.seen())?;
    if detector.is_embedded() && source.seen().measured > 0 {
        say(&format!("warning: {SYNTHETIC}"));
    }
    Ok(all)
}
