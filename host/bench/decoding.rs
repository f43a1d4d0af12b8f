//! The CPU decoder as a device of the tuner: a launch is one pass over a sample.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

use super::Sample;
use crate::backend::cpu::{CpuConfig, CpuDecoder, Simd};
use crate::backend::reference::ReferenceDecoder;
use crate::backend::{BatchReport, DecodeError, DecodeOptions, Decoder, UtHits};
use crate::detector::DetectorTables;
use crate::input::{EventBatch, to_mep};
use crate::tuning::{Config, Device, Failure, FailureKind, Outcome, Value};

/// The knobs, in the order of a [`Config`], each with its default and the values that are worth trying.
///
/// - `batch`: events of a batch;
/// - `chunk`: events that a thread takes at a time;
/// - `layout`: `allen` or `mep`;
/// - `simd`: `auto`, `scalar`, `avx2`, `avx512`;
/// - `threads`: 0 is one a core.
pub const KNOBS: [(&str, &str, &[&str]); 5] = [
    ("batch", "256", &["64", "128", "256", "512", "1000"]),
    ("chunk", "16", &["1", "4", "8", "16", "32", "64"]),
    ("layout", "allen", &["allen", "mep"]),
    ("simd", "auto", &["auto", "scalar", "avx2", "avx512"]),
    ("threads", "0", &["0", "1"]),
];

/// A setting that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KnobError {
    /// Not of the form name=value.
    #[error("{0:?} is not of the form name=value")]
    Form(String),
    /// No such knob.
    #[error("the CPU decoder has no knob called {0:?}; it has batch, chunk, layout, simd and threads")]
    Unknown(String),
    /// Given twice.
    #[error("{0} is given twice")]
    Twice(String),
    /// No such value.
    #[error("{name} cannot be {value:?}: {expected}")]
    Value {
        /// The knob.
        name: &'static str,
        /// What was given.
        value: String,
        /// What would be possible.
        expected: &'static str,
    },
}

/// The configuration that text like `batch=512,simd=scalar` means; what is not named has its default, so that the empty
/// text is the default configuration.
///
/// # Errors
/// Unknown names and values.
pub fn parse(text: &str) -> Result<Config, KnobError> {
    let mut given: BTreeMap<&str, &str> = BTreeMap::new();
    for setting in text.split(',').map(str::trim).filter(|setting| !setting.is_empty()) {
        let (name, value) = setting.split_once('=').ok_or_else(|| KnobError::Form(setting.to_owned()))?;
        let (name, value) = (name.trim(), value.trim());
        if !KNOBS.iter().any(|(knob, ..)| *knob == name) {
            return Err(KnobError::Unknown(name.to_owned()));
        }
        if given.insert(name, value).is_some() {
            return Err(KnobError::Twice(name.to_owned()));
        }
    }
    let value = |(name, default, _): &(&'static str, &str, &[&str])| -> Value {
        let text = given.get(name).copied().unwrap_or(default);
        text.parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Int)
    };
    let config = Config(KNOBS.iter().map(value).collect());
    Settings::of(&config)?;
    Ok(config)
}

/// A configuration as [`parse`] reads it.
pub fn name(config: &Config) -> String {
    let mut text = String::new();
    for ((name, ..), value) in KNOBS.iter().zip(&config.0) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{}{name}={value}", if text.is_empty() { "" } else { "," });
    }
    text
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    batch: usize,
    mep: bool,
    cpu: CpuConfig,
}

impl Settings {
    fn of(config: &Config) -> Result<Self, KnobError> {
        let wrong = |name, value: &Value, expected| KnobError::Value { name, value: value.to_string(), expected };
        let get = |i: usize| config.0.get(i).cloned().unwrap_or_else(|| Value::Text(KNOBS[i].1.to_owned()));
        let number = |i: usize, least: i64, most: i64, expected| match get(i) {
            Value::Int(n) if (least..=most).contains(&n) => Ok(n as usize),
            other => Err(wrong(KNOBS[i].0, &other, expected)),
        };
        Ok(Self {
            batch: number(0, 1, 1 << 20, "a number of events from 1 to 1048576")?,
            mep: match get(2).to_string().as_str() {
                "allen" => false,
                "mep" => true,
                _ => return Err(wrong("layout", &get(2), "allen or mep")),
            },
            cpu: CpuConfig {
                chunk: number(1, 1, 1 << 20, "a number of events from 1 to 1048576")?,
                simd: match get(3).to_string().as_str() {
                    "auto" => Simd::Auto,
                    "scalar" => Simd::Scalar,
                    "avx2" => Simd::Avx2,
                    "avx512" => Simd::Avx512,
                    _ => return Err(wrong("simd", &get(3), "auto, scalar, avx2 or avx512")),
                },
                threads: number(4, 0, 1024, "a number from 0 to 1024")?,
            },
        })
    }
}

/// All configurations of the values that are worth trying in `batch`, `chunk` and `simd`, as far as this CPU has the
/// instructions; the default is among them. Layout and threads are the caller's to choose, and stay as in `base`.
pub fn choices(base: &Config) -> Vec<Config> {
    let mut all = vec![base.clone()];
    for (place, (_, _, values)) in
        KNOBS.iter().enumerate().filter(|(_, knob)| matches!(knob.0, "batch" | "chunk" | "simd"))
    {
        let mut longer = Vec::new();
        for config in &all {
            for value in *values {
                let mut config = config.clone();
                config.0[place] = value.parse().map_or_else(|_| Value::Text((*value).to_owned()), Value::Int);
                longer.push(config);
            }
        }
        all = longer;
    }
    all.retain(|config| Settings::of(config).is_ok_and(|settings| settings.cpu.simd.resolve().is_some()));
    if !all.contains(base) {
        all.insert(0, base.clone());
    }
    all
}

struct Prepared {
    decoder: CpuDecoder,
    sample: Sample,
    hits: UtHits,
    report: BatchReport,
}

/// Measures configurations of the CPU decoder on a sample. Before its first launch each one is checked, hit by hit and
/// bit by bit, against the reference decoder.
pub struct DecodeDevice<'t> {
    tables: &'t DetectorTables,
    options: DecodeOptions,
    events: Vec<EventBatch>,
    prepared: BTreeMap<String, Prepared>,
    expected: Option<Vec<u64>>,
}

impl<'t> DecodeDevice<'t> {
    /// A device that decodes `events` over and over.
    pub const fn new(tables: &'t DetectorTables, options: DecodeOptions, events: Vec<EventBatch>) -> Self {
        Self { tables, options, events, prepared: BTreeMap::new(), expected: None }
    }

    fn prepare(&mut self, config: &Config) -> Result<(), Failure> {
        let fail = |kind| move |error: &dyn std::error::Error| Failure { kind, message: error.to_string() };
        let settings = Settings::of(config).map_err(|error| fail(FailureKind::Constraint)(&error))?;
        let mut sample = Sample::new(&self.events, settings.batch);
        let expected = if let Some(expected) = &self.expected {
            expected
        } else {
            let mut reference = ReferenceDecoder::new(self.tables, self.options);
            let (mut hits, mut report) = room(&sample, self.tables);
            let marks = marks(&mut reference, &sample, &mut hits, &mut report);
            self.expected.insert(marks.map_err(|error| fail(FailureKind::Launch)(&error))?)
        };
        if settings.mep {
            sample = sample.transposed(to_mep).map_err(|error| fail(FailureKind::Declined)(&error))?;
        }
        let mut decoder = CpuDecoder::new(self.tables, self.options, settings.cpu)
            .map_err(|error| fail(FailureKind::Launch)(&error))?;
        let (mut hits, mut report) = room(&sample, self.tables);
        let found =
            marks(&mut decoder, &sample, &mut hits, &mut report).map_err(|error| fail(FailureKind::Launch)(&error))?;
        // Larger batches hold a few events more, which are the first ones again.
        if let Some(event) = found.iter().zip(expected.iter().cycle()).position(|(found, expected)| found != expected) {
            let message = format!("the hits of event {event} of the sample are not those of the reference decoder");
            return Err(Failure { kind: FailureKind::WrongResult, message });
        }
        self.prepared.insert(name(config), Prepared { decoder, sample, hits, report });
        Ok(())
    }
}

fn room(sample: &Sample, tables: &DetectorTables) -> (UtHits, BatchReport) {
    let max_events = sample.batches.iter().map(|batch| batch.n_events).max().unwrap_or_default();
    let max_hits = sample.batches.iter().map(|batch| batch.view().max_hits()).max().unwrap_or_default();
    (UtHits::with_capacity(max_events, tables.n_groups, max_hits), BatchReport::new())
}

/// A hash of each event's hits: of every bit, and of the ends of the groups.
fn marks(
    decoder: &mut dyn Decoder,
    sample: &Sample,
    hits: &mut UtHits,
    report: &mut BatchReport,
) -> Result<Vec<u64>, DecodeError> {
    let mut marks = Vec::with_capacity(sample.events);
    for batch in &sample.batches {
        decoder.decode(batch.view(), hits, report)?;
        for event in 0..hits.n_events() {
            let mut mark = 0xCBF2_9CE4_8422_2325_u64;
            let mut add = |word: u32| mark = (mark ^ u64::from(word)).wrapping_mul(0x100_0000_01B3).rotate_left(17);
            for group in 0..hits.n_groups() {
                let range = hits.range(event, group);
                add(range.len() as u32);
                for i in range {
                    let floats = [
                        hits.y_begin(),
                        hits.y_end(),
                        hits.z_at_y_eq0(),
                        hits.x_at_y_eq0(),
                        hits.dx_dy(),
                        hits.weight(),
                    ];
                    for array in floats {
                        add(array[i].to_bits());
                    }
                    add(hits.id()[i]);
                }
            }
            marks.push(mark);
        }
    }
    Ok(marks)
}

impl Device for DecodeDevice<'_> {
    fn name(&self) -> String {
        super::Machine::this().cpu.unwrap_or_else(|| "unknown CPU".to_owned())
    }

    fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
        let key = name(config);
        if !self.prepared.contains_key(&key)
            && let Err(failure) = self.prepare(config)
        {
            return Outcome::Failed(failure);
        }
        let Some(Prepared { decoder, sample, hits, report }) = self.prepared.get_mut(&key) else {
            return Outcome::Times(Vec::new());
        };
        let mut times = Vec::with_capacity(launches);
        for _ in 0..launches {
            let start = Instant::now();
            for batch in &sample.batches {
                if let Err(error) = decoder.decode(batch.view(), hits, report) {
                    return Outcome::Failed(Failure { kind: FailureKind::Launch, message: error.to_string() });
                }
            }
            // Milliseconds for 1000 events: samples of different batch sizes may differ by a few events.
            times.push(start.elapsed().as_secs_f64() * 1e6 / sample.events.max(1) as f64);
        }
        Outcome::Times(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detector::{BankVersion, Grouping};
    use crate::input::{Bank, BatchBuilder, EventMeta, kind};
    use crate::synth::{self, Generator, Profile};
    use crate::tuning::online::{Options, Tuner, drive};
    use std::time::Duration;

    #[test]
    fn settings_are_read_and_named_and_nonsense_is_refused() {
        let default = parse("").unwrap();
        assert_eq!(name(&default), "batch=256,chunk=16,layout=allen,simd=auto,threads=0");
        assert_eq!(parse(&name(&default)).unwrap(), default);
        assert_eq!(name(&parse(" batch=1 , layout = mep").unwrap()), "batch=1,chunk=16,layout=mep,simd=auto,threads=0");
        for (text, part) in [
            ("batch", "name=value"),
            ("bach=1", "no knob"),
            ("batch=1,batch=2", "twice"),
            ("batch=0", "1048576"),
            ("batch=x", "1048576"),
            ("simd=avx9", "avx512"),
            ("layout=1", "mep"),
            ("threads=-1", "1024"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn every_configuration_is_checked_against_the_reference_before_it_is_timed() {
        let (boards, geometry) = synth::detector(BankVersion::V5, 1);
        let tables = DetectorTables::new(boards, geometry, Grouping::default()).unwrap();
        let mut builder = BatchBuilder::new();
        for event in Generator::new(Profile::PpLow, BankVersion::V5, 1).take(5) {
            let banks = event.banks.iter().map(|(source_id, payload)| Bank {
                kind: kind::UT,
                version: Some(BankVersion::V5.byte()),
                source_id: u32::from(*source_id),
                payload,
            });
            builder.push(EventMeta::default(), banks).unwrap();
        }
        let mut batch = EventBatch::default();
        builder.finish(&mut batch);
        let mut device = DecodeDevice::new(&tables, DecodeOptions::default(), vec![batch]);
        for text in ["", "batch=64,layout=mep,simd=scalar,threads=1", "batch=1001"] {
            let Outcome::Times(times) = device.measure(&parse(text).unwrap(), 2) else { panic!("{text}") };
            assert!(times.len() == 2 && times.iter().all(|time| *time > 0.0));
        }
        let base = parse("threads=1,chunk=16").unwrap();
        let configs = choices(&base);
        assert!(configs.contains(&base) && configs.iter().all(|config| config.0[4] == Value::Int(1)));
        let tuner = Tuner::new(configs, 0, Options::default()).unwrap();
        let run = drive(&tuner, &mut device, Duration::from_millis(50), |_| {}).unwrap();
        assert!(run.counters.launches > 0 && run.mean_ms > 0.0);
        // A result that differs in one bit is named, not timed.
        device.expected.as_mut().unwrap()[3] ^= 1;
        let Outcome::Failed(failure) = device.measure(&parse("batch=65").unwrap(), 1) else { panic!("not noticed") };
        assert_eq!(failure.kind, FailureKind::WrongResult);
        assert!(failure.message.contains("event 3"), "{}", failure.message);
    }
}
