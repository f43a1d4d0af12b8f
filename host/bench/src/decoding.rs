//! A decoder as a device of the tuner. A launch is one pass over a sample, on a GPU several, to
//! keep its streams at work.
//!
//! ```no_run
//! # use ut_data::{DecodeOptions, DetectorTables};
//! # use ut_data::input::EventBatch;
//! # use ut_decoders::Backend;
//! use ut_bench::decoding::DecodeDevice;
//! use ut_bench::{Varied, base};
//! use tuner::{Config, Device, Value};
//! # fn tune(tables: &DetectorTables, events: Vec<EventBatch>) -> Result<(), Box<dyn std::error::Error>> {
//! // Configurations of these parameters, in this order; all others are as here.
//! let others = base(Backend::Cuda).with(Backend::Cuda, "batch=1000,streams=2")?;
//! let varied = Varied::named(Backend::Cuda, ["cluster.block_x", "cluster.block_y"], others)?;
//! let mut device = DecodeDevice::new(tables, DecodeOptions::default(), events, varied);
//! let outcome = device.measure(&Config(vec![Value::Int(64), Value::Int(2)]), 3);
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeMap;

use super::Varied;
use super::modes::{Mode, OnGpu};
use super::sample::{Expected, Sample};
use super::timing::Variant;
use tuner::{Config, Device, Failure, FailureKind, Outcome};
use ut_data::detector::DetectorTables;
use ut_data::error::with_causes;
use ut_data::input::{EventBatch, Layout, to_mep};
use ut_data::memory;
use ut_decoders::cuda::CudaConfig;
use ut_decoders::parameters::Parameters;
use ut_decoders::{Backend, DecodeError, DecodeOptions};

/// Minimum number of batches per stream of a GPU in a timing. With one batch, nothing overlaps, and
/// the timing is of the host's beginning and end.
const BATCHES_A_STREAM: usize = 4;

/// Memory that each thread of a configuration may take, for batches and all hits, as a multiple of
/// the sample's size.
const OF_SAMPLE: usize = 20;

/// Device of the tuner that measures configurations of a backend's decoder on a sample. The first
/// pass of each configuration is compared with the reference decoder, bit by bit.
pub struct DecodeDevice<'t> {
    tables: &'t DetectorTables,
    options: DecodeOptions,
    events: Vec<EventBatch>,
    varied: Varied,
    /// Prepared variants by configuration, with the number of passes of one timing.
    prepared: BTreeMap<String, (Variant, usize)>,
    /// Keys of `prepared`, most recently used last.
    recent: Vec<String>,
    most: usize,
    expected: Vec<(Layout, Expected)>,
}

impl<'t> DecodeDevice<'t> {
    /// Decodes `events` over and over, with configurations of `varied`.
    pub fn new(
        tables: &'t DetectorTables,
        options: DecodeOptions,
        events: Vec<EventBatch>,
        varied: Varied,
    ) -> Self {
        Self {
            tables,
            options,
            events,
            varied,
            prepared: BTreeMap::new(),
            recent: Vec::new(),
            most: usize::MAX,
            expected: Vec::new(),
        }
    }

    /// Keeps decoders and batches of at most `most` configurations, the most recently used ones.
    /// The default is as many as the host has memory for. On a GPU, each also has buffers there.
    #[must_use]
    pub fn keeping(mut self, most: usize) -> Self {
        self.most = most.max(1);
        self
    }

    fn n_events(&self) -> usize {
        self.events.iter().map(|batch| batch.n_events).sum()
    }

    /// Decodes the events in a layout with the reference decoder, which is slow, unless that was
    /// done. The first measurement in this layout needs it.
    pub fn expect(&mut self, layout: Layout) -> Result<(), Failure> {
        if self.expected.iter().any(|(other, _)| *other == layout) {
            return Ok(());
        }
        let expected = expected(&self.events, layout, self.tables, self.options);
        let expected = expected.map_err(|message| FailureKind::Declined.because(message))?;
        self.expected.push((layout, expected));
        Ok(())
    }

    fn prepare(&mut self, config: &Config) -> Result<(Variant, usize), Failure> {
        let failure = |kind| move |message: String| Failure { kind, message };
        let launch = |error: DecodeError| FailureKind::Launch.because(error);
        let backend = self.varied.backend;
        let parameters = self.varied.parameters_of(config);
        let parameters =
            parameters.map_err(|error| failure(FailureKind::Constraint)(error.to_string()))?;
        let batch = parameters.batch() as usize;
        let n_events = self.n_events();
        self.expect(parameters.layout())?;
        // If there are so few events that a branch predictor would learn them, or that they do not
        // fill a batch, they are repeated.
        let wanted = match backend {
            Backend::Emulated => n_events,
            Backend::Cuda => n_events.max(batch),
            Backend::Reference | Backend::Cpu => Sample::enough(n_events, batch),
        };
        let bytes: usize = self.events.iter().map(|batch| batch.raw.len()).sum();
        let decoders = if backend == Backend::Cuda {
            1
        } else {
            parameters.decoders(backend)
        };
        self.make_room(
            (OF_SAMPLE * bytes / n_events.max(1) * wanted * decoders) as u64,
            memory::available(),
        );
        let sample =
            laid_out(&parameters, &self.events, wanted).map_err(failure(FailureKind::Declined))?;
        let expected = self
            .expected
            .iter()
            .find(|(layout, _)| *layout == parameters.layout());
        let expected = expected.map(|(_, expected)| expected);
        let make = || {
            variant(
                backend,
                Mode::DeviceResident,
                &parameters,
                &sample,
                (self.tables, self.options),
                expected,
            )
        };
        let made = match make() {
            // The kept decoders may fill the device's memory.
            Err(_) if !self.prepared.is_empty() => {
                self.prepared.clear();
                make()
            }
            made => made,
        };
        let variant = made
            .map_err(launch)?
            .map_err(failure(FailureKind::WrongResult))?;
        let passes = match backend {
            Backend::Cuda => (BATCHES_A_STREAM * parameters.decoders(backend))
                .div_ceil(sample.batches.len().max(1)),
            _ => 1,
        };
        Ok((variant, passes))
    }

    /// Drops the least recently used configurations until there are `bytes` for one more. Each
    /// takes some ten times as much as the sample, and on-line tuning tries all in the end.
    fn make_room(&mut self, bytes: u64, mut available: Option<u64>) {
        while !self.recent.is_empty()
            && (self.prepared.len() >= self.most
                || available.is_some_and(|available| available < bytes))
        {
            self.prepared.remove(&self.recent.remove(0));
            available = available.map(|available| available + bytes);
        }
    }
}

impl Device for DecodeDevice<'_> {
    fn name(&self) -> String {
        let of_gpu = || ut_decoders::cuda::choose(0).ok().map(|gpu| gpu.name);
        let backend = self.varied.backend;
        let name = if backend == Backend::Cuda {
            of_gpu()
        } else {
            super::Machine::this().cpu
        };
        name.unwrap_or_else(|| format!("unknown {backend}"))
    }

    fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
        let key = format!("{config:?}");
        self.recent.retain(|other| *other != key);
        if !self.prepared.contains_key(&key) {
            match self.prepare(config) {
                Ok(prepared) => self.prepared.insert(key.clone(), prepared),
                Err(failure) => return Outcome::Failed(failure),
            };
        }
        self.recent.push(key.clone());
        let Some((variant, passes)) = self.prepared.get_mut(&key) else {
            return Outcome::Times(Vec::new());
        };
        // Milliseconds for 1000 events: samples of different batch sizes may differ by a few
        // events.
        let events = (variant.events() * *passes).max(1) as f64;
        let one = |_| Ok(variant.time(*passes)?.as_secs_f64() * 1e6 / events);
        match (0..launches)
            .map(one)
            .collect::<Result<Vec<f64>, DecodeError>>()
        {
            Ok(times) => Outcome::Times(times),
            Err(error) => Outcome::Failed(FailureKind::Launch.because(error)),
        }
    }
}

/// Prepares a measurement of `sample` with these parameters, on a GPU in a mode, not warmed up. The
/// first pass is compared with `expected`; the inner error is the difference.
pub fn variant(
    backend: Backend,
    mode: Mode,
    parameters: &Parameters,
    sample: &Sample,
    (tables, options): (&DetectorTables, DecodeOptions),
    expected: Option<&Expected>,
) -> Result<Result<Variant, String>, DecodeError> {
    let n = parameters.decoders(backend);
    if backend == Backend::Cuda {
        let config = CudaConfig::of(parameters);
        return OnGpu {
            sample,
            tables,
            options,
            config: &config,
            streams: n,
        }
        .variant(mode, expected);
    }
    let decoder = || backend.decoder_with(tables, options, parameters);
    Variant::checked(sample, tables, n, decoder, expected)
}

/// Puts `wanted` of `events` into batches for the parameters, repeated if there are fewer.
pub fn laid_out(
    parameters: &Parameters,
    events: &[EventBatch],
    wanted: usize,
) -> Result<Sample, String> {
    let sample = Sample::of(events, parameters.batch() as usize, wanted);
    match parameters.layout() {
        Layout::Allen => Ok(sample),
        Layout::Mep => sample.transposed(to_mep).map_err(|error| error.to_string()),
    }
}

/// Decodes each of `events` once with the reference, in a layout. The error is a message.
pub fn expected(
    events: &[EventBatch],
    layout: Layout,
    tables: &DetectorTables,
    options: DecodeOptions,
) -> Result<Expected, String> {
    let n_events = events.iter().map(|batch| batch.n_events).sum();
    let once = laid_out(
        &Parameters::default().with_batches(256, layout),
        events,
        n_events,
    )?;
    Expected::of(&once, tables, options).map_err(|error| with_causes(&error))
}

#[cfg(test)]
mod tests {
    use super::super::base;
    use super::super::sample::synthetic;
    use super::*;
    use tuner::Value;
    use ut_data::detector::{BankVersion, Grouping};
    use ut_data::synth::Profile;
    use ut_decoders::Pipeline;

    fn events(n: usize) -> EventBatch {
        synthetic(Profile::PpLow, n)
    }

    fn tables() -> DetectorTables {
        ut_data::synth::tables(BankVersion::V5, Grouping::default())
    }

    #[test]
    fn every_configuration_is_checked_against_the_reference_before_it_is_timed() {
        let tables = tables();
        let varied = Varied::all(Backend::Cpu);
        let cpu = |text| varied.parse(text).unwrap();
        let mut device = DecodeDevice::new(
            &tables,
            DecodeOptions::default(),
            vec![events(5)],
            Varied::all(Backend::Cpu),
        );
        for text in [
            "",
            "batch=64,layout=mep,simd=scalar,threads=1",
            "batch=1001",
        ] {
            let Outcome::Times(times) = device.measure(&cpu(text), 2) else {
                panic!("{text}")
            };
            assert!(times.len() == 2 && times.iter().all(|time| *time > 0.0));
        }
        let choices = varied.choices(Pipeline::default(), &cpu("threads=1"));
        assert!(matches!(device.measure(&choices[0], 1), Outcome::Times(_)));
        // A difference is named, not timed.
        let four = Sample::of(&[events(4)], 4, 4);
        let expected = Expected::of(&four, &tables, DecodeOptions::default()).unwrap();
        device.expected[0].1 = expected;
        let Outcome::Failed(failure) = device.measure(&cpu("batch=65"), 1) else {
            panic!("not noticed")
        };
        assert_eq!(failure.kind, FailureKind::WrongResult);
        assert!(failure.message.contains("event 4"), "{}", failure.message);
    }

    #[test]
    fn at_most_the_requested_configurations_are_kept_and_dropped_ones_are_made_again() {
        let tables = tables();
        let varied = Varied::all(Backend::Cpu);
        let cpu = |text| varied.parse(text).unwrap();
        let mut device = DecodeDevice::new(
            &tables,
            DecodeOptions::default(),
            vec![events(2)],
            Varied::all(Backend::Cpu),
        )
        .keeping(2);
        for text in [
            "batch=1", "batch=2", "batch=1", "batch=3", "batch=2", "batch=1",
        ] {
            assert!(
                matches!(device.measure(&cpu(text), 1), Outcome::Times(_)),
                "{text}"
            );
            assert!(
                device.prepared.contains_key(&format!("{:?}", cpu(text)))
                    && device.prepared.len() <= 2
            );
            if text == "batch=3" {
                assert!(
                    device
                        .prepared
                        .contains_key(&format!("{:?}", cpu("batch=1"))),
                    "it was used after batch=2"
                );
            }
        }
    }

    #[test]
    fn configurations_are_dropped_when_memory_runs_out() {
        let tables = tables();
        let mut device = DecodeDevice::new(
            &tables,
            DecodeOptions::default(),
            vec![events(2)],
            Varied::all(Backend::Cpu),
        );
        let configs = ["batch=1", "batch=2", "batch=3"]
            .map(|text| Varied::all(Backend::Cpu).parse(text).unwrap());
        for config in &configs {
            assert!(matches!(device.measure(config, 1), Outcome::Times(_)));
        }
        let kept = |device: &DecodeDevice<'_>| {
            configs
                .each_ref()
                .map(|config| device.prepared.contains_key(&format!("{config:?}")))
        };
        for (available, left) in [
            (None, [true; 3]),
            (Some(1000), [true; 3]),
            (Some(900), [false, true, true]),
        ] {
            device.make_room(1000, available);
            assert_eq!(kept(&device), left);
        }
    }

    #[test]
    fn parameters_can_be_varied_around_a_configuration_on_any_backend() {
        let tables = tables();
        let of = |backend, names: &[&str], text: &str| {
            let varied =
                Varied::named(backend, names, base(backend).with(backend, text).unwrap()).unwrap();
            DecodeDevice::new(&tables, DecodeOptions::default(), vec![events(2)], varied)
        };
        let mut reference = of(Backend::Reference, &["threads"], "batch=2");
        assert!(matches!(
            reference.measure(&Config(vec![Value::Int(2)]), 1),
            Outcome::Times(_)
        ));
        let device = of(
            Backend::Emulated,
            &["cluster.block_x", "cluster.block_y"],
            "batch=2",
        );
        let parameters = device
            .varied
            .parameters_of(&Config(vec![Value::Int(16), Value::Int(4)]))
            .unwrap();
        assert_eq!(
            (parameters.cluster_block(), parameters.batch()),
            ((16, 4), 2)
        );
        let mut device = device;
        let Outcome::Failed(failure) =
            device.measure(&Config(vec![Value::Int(16), Value::Int(1)]), 1)
        else {
            panic!("half a warp")
        };
        assert_eq!(failure.kind, FailureKind::Constraint);
    }
}
