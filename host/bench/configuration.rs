//! Everything that a measurement may vary, by name: the backend's parameters, and how it is fed. `sweep` has it as
//! axes, `compare`, `throughput --tune online` and `tune` as configurations.

use std::fmt::Write as _;

use crate::decoder::cuda::{CudaConfig, DEFAULT_STREAMS};
use crate::decoder::launch::Parameter;
use crate::decoder::parameters::{DecoderConfig, ParameterError, parse_value, refused, value_text};
use crate::decoder::{Backend, DecodeError, DecodeOptions, Pipeline};
use crate::detector::DetectorTables;
use crate::input::{EventBatch, Layout, to_mep};

use super::modes::{Mode, OnGpu};
use super::sample::{Expected, Sample};
use super::timing::Variant;

/// Events of a batch.
pub const BATCH: Parameter = Parameter {
    name: "batch",
    about: "events of a batch",
    min: 1,
    max: 1 << 20,
    step: 1,
    default: 256,
    candidates: &[32, 64, 128, 256, 512, 1024, 2048, 4096],
};

/// Layout of a batch.
pub const LAYOUT: Parameter = Parameter {
    name: "layout",
    about: "layout of a batch: allen (event by event) or mep (bank by bank)",
    min: 0,
    max: 1,
    step: 1,
    default: 0,
    candidates: &[0, 1],
};

/// Which kernels.
pub const PIPELINE: Parameter = Parameter {
    name: "pipeline",
    about: "kernels: fused (two) or allen (seven)",
    min: 0,
    max: Pipeline::ALL.len() as u32 - 1,
    step: 1,
    default: 1,
    candidates: &[0, 1],
};

/// Decoders at work.
pub const THREADS: Parameter = Parameter {
    name: "threads",
    about: "threads, each with a decoder of its own",
    min: 1,
    max: 1024,
    step: 1,
    default: 1,
    candidates: &[1, 2, 4, 8, 16, 32, 64],
};

/// Streams of a decoder on a GPU.
pub const STREAMS: Parameter = Parameter {
    name: "streams",
    about: "streams, each with buffers of its own, so that copies and kernels of several batches overlap",
    min: 1,
    max: 64,
    step: 1,
    default: DEFAULT_STREAMS as u32,
    candidates: &[1, 2, 3, 4, 6, 8],
};

/// What can be varied: the backend's parameters, and how it is fed.
pub fn parameters(backend: Backend) -> impl Iterator<Item = &'static Parameter> {
    let decoders = match backend {
        Backend::Reference | Backend::Cpu => Some(&THREADS),
        Backend::Cuda => Some(&STREAMS),
        Backend::Emulated => None,
    };
    let kernels = backend.runs_kernels().then_some(&PIPELINE);
    backend.parameters().iter().chain([&BATCH, &LAYOUT]).chain(decoders).chain(kernels)
}

/// The parameter of this name. The part before the dot may be left out where only one parameter ends like this: `simd`
/// is `cpu.simd`.
///
/// # Errors
/// If there is none of that name; the message lists those that exist.
pub fn parameter(backend: Backend, name: &str) -> Result<&'static Parameter, ConfigurationError> {
    let rest = |parameter: &&Parameter| parameter.name.split_once('.').is_some_and(|(_, rest)| rest == name);
    let mut short = parameters(backend).filter(rest);
    let exact = parameters(backend).find(|parameter| parameter.name == name);
    exact
        .or_else(|| short.next().filter(|_| short.next().is_none()))
        .ok_or_else(|| ConfigurationError::Unknown { backend, name: name.to_owned() })
}

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// Not of the form name=value.
    #[error("{0:?} is not of the form name=value")]
    Form(String),
    /// No such parameter.
    #[error("{backend} has no parameter called {name:?}; there are {}", names(*backend).join(", "))]
    Unknown {
        /// The backend.
        backend: Backend,
        /// What was requested.
        name: String,
    },
    /// Given twice.
    #[error("{0} is given twice")]
    Twice(&'static str),
    /// A value that the parameter cannot have, or that another one contradicts.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
}

/// The names of [`parameters`].
pub fn names(backend: Backend) -> Vec<&'static str> {
    parameters(backend).map(|parameter| parameter.name).collect()
}

/// A configuration: a value for everything that can be varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The backend's parameters.
    pub decoder: DecoderConfig,
    /// Events of a batch.
    pub batch: usize,
    /// Layout of a batch.
    pub layout: Layout,
    /// Threads, each with its own decoder; on a GPU streams of one decoder.
    pub threads: usize,
}

impl Default for Configuration {
    /// One decoder with one thread.
    fn default() -> Self {
        Self { decoder: DecoderConfig::default(), batch: BATCH.default as usize, layout: Layout::Allen, threads: 1 }
    }
}

impl Configuration {
    /// The value of a parameter, by its whole name; 0 for one that is not there.
    pub fn get(&self, name: &str) -> u32 {
        let value = match name {
            "batch" => u32::try_from(self.batch).ok(),
            "layout" => Some(u32::from(self.layout == Layout::Mep)),
            "threads" | "streams" => u32::try_from(self.threads).ok(),
            "pipeline" => Pipeline::ALL.iter().position(|of| *of == self.decoder.pipeline).map(|place| place as u32),
            name => self.decoder.get(name),
        };
        value.unwrap_or_default()
    }

    /// Sets a parameter of `backend`.
    ///
    /// # Errors
    /// When it is not there, or cannot have this value.
    pub fn set(&mut self, backend: Backend, name: &str, value: u32) -> Result<(), ConfigurationError> {
        let parameter = parameter(backend, name)?;
        if !parameter.is_valid(value) {
            return Err(refused(parameter, &value).into());
        }
        match parameter.name {
            "batch" => self.batch = value as usize,
            "layout" => self.layout = if value == 0 { Layout::Allen } else { Layout::Mep },
            "threads" | "streams" => self.threads = value as usize,
            "pipeline" => self.decoder.pipeline = Pipeline::ALL[value as usize],
            name => self.decoder.set(backend, name, value)?,
        }
        Ok(())
    }

    /// This configuration with what a text like `batch=512,cpu.simd=scalar` changes of it.
    ///
    /// # Errors
    /// Unknown names, values that cannot be, parameters that contradict each other.
    pub fn with(mut self, backend: Backend, text: &str) -> Result<Self, ConfigurationError> {
        let mut given: Vec<&str> = Vec::new();
        for assignment in text.split(',').map(str::trim).filter(|assignment| !assignment.is_empty()) {
            let (name, value) =
                assignment.split_once('=').ok_or_else(|| ConfigurationError::Form(assignment.to_owned()))?;
            let parameter = parameter(backend, name.trim())?;
            if given.contains(&parameter.name) {
                return Err(ConfigurationError::Twice(parameter.name));
            }
            given.push(parameter.name);
            self.set(backend, parameter.name, parse_value(parameter, value.trim())?)?;
        }
        self.decoder.validate()?;
        Ok(self)
    }

    /// The values of `names`, as [`with`](Self::with) reads them.
    pub fn text<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> String {
        let mut text = String::new();
        for name in names {
            let separator = if text.is_empty() { "" } else { "," };
            // Writing to a String cannot fail.
            let _ = write!(text, "{separator}{name}={}", value_text(name, self.get(name)));
        }
        text
    }

    /// What is measured with this configuration, not warmed up: the decoders that decode `sample`, on a GPU in a mode.
    /// The first pass is compared with `expected`; the inner error says what differs.
    ///
    /// # Errors
    /// When a decoder cannot be made or cannot decode the sample.
    pub fn variant(
        &self,
        backend: Backend,
        mode: Mode,
        sample: &Sample,
        tables: &DetectorTables,
        options: DecodeOptions,
        expected: Option<&Expected>,
    ) -> Result<Result<Variant, String>, DecodeError> {
        if backend != Backend::Cuda {
            let decoder = || backend.decoder_with(tables, options, &self.decoder);
            return Variant::cold(sample, tables, self.threads, decoder, false, expected);
        }
        let config = CudaConfig::of(&self.decoder);
        OnGpu { sample, tables, options, config: &config, streams: self.threads }.variant(mode, expected)
    }

    /// `wanted` of `events` in batches of this size and layout, repeated when there are fewer.
    ///
    /// # Errors
    /// When the events cannot be laid out so, in words.
    pub fn sample(&self, events: &[EventBatch], wanted: usize) -> Result<Sample, String> {
        let sample = Sample::of(events, self.batch, wanted);
        match self.layout {
            Layout::Allen => Ok(sample),
            Layout::Mep => sample.transposed(to_mep).map_err(|error| error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_of_every_backend_is_set_and_read_by_name() {
        for backend in Backend::ALL {
            for parameter in parameters(backend) {
                for &value in parameter.candidates {
                    let mut configuration = Configuration::default();
                    configuration.set(backend, parameter.name, value).unwrap();
                    assert_eq!(configuration.get(parameter.name), value, "{}", parameter.name);
                    let text = configuration.text([parameter.name]);
                    if configuration.decoder.validate().is_ok() {
                        assert_eq!(Configuration::default().with(backend, &text), Ok(configuration), "{text}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_kernels_are_chosen_by_name_where_there_are_kernels() {
        assert_eq!(Configuration::default().get("pipeline"), PIPELINE.default);
        for backend in [Backend::Emulated, Backend::Cuda] {
            for pipeline in Pipeline::ALL {
                let configuration = Configuration::default().with(backend, &format!("pipeline={pipeline}")).unwrap();
                assert_eq!(configuration.decoder.pipeline, pipeline);
            }
        }
        let error = Configuration::default().with(Backend::Cpu, "pipeline=fused").unwrap_err().to_string();
        assert!(error.contains("no parameter"), "{error}");
    }

    #[test]
    fn texts_are_read_and_written_and_a_place_may_be_left_out_where_it_is_clear() {
        let read = |text| Configuration::default().with(Backend::Cpu, text).unwrap();
        let all = ["cpu.threads", "cpu.chunk", "cpu.simd", "batch", "layout", "threads"];
        assert_eq!(names(Backend::Cpu), all);
        let text = "cpu.threads=1,cpu.chunk=16,cpu.simd=auto,batch=256,layout=allen,threads=1";
        assert_eq!(read("").text(all), text);
        assert_eq!(read(text), read(""));
        assert_eq!(read(" batch=1 , layout = mep"), Configuration { batch: 1, layout: Layout::Mep, ..read("") });
        assert_eq!(read("simd=scalar,chunk=2"), read("cpu.simd=scalar,cpu.chunk=2"));
        assert_eq!((read("threads=3").threads, read("threads=3").decoder.cpu.threads), (3, 1), "the whole name first");
        let streams = Configuration::default().with(Backend::Cuda, "streams=3,cluster.block_x=64,run=64").unwrap();
        assert_eq!((streams.threads, streams.get("cluster.block_x"), streams.get("sort.run")), (3, 64, 64));
    }

    #[test]
    fn nonsense_is_refused_and_what_there_is_is_named() {
        for (backend, text, part) in [
            (Backend::Cpu, "batch", "name=value"),
            (Backend::Cpu, "bach=1", "no parameter called \"bach\"; there are cpu.threads"),
            (Backend::Cpu, "streams=1", "no parameter"),
            (Backend::Cpu, "batch=1,batch=2", "batch is given twice"),
            (Backend::Cpu, "simd=scalar,cpu.simd=scalar", "cpu.simd is given twice"),
            (Backend::Cpu, "batch=0", "1048576"),
            (Backend::Cpu, "batch=x", "1048576"),
            (Backend::Cpu, "simd=avx9", "avx512"),
            (Backend::Cpu, "layout=x", "one of allen, mep"),
            (Backend::Cpu, "cpu.threads=-1", "1024"),
            (Backend::Cuda, "block_x=64", "cluster.block_y"),
            (Backend::Cuda, "cluster.block_x=33", "multiple of 32"),
            (Backend::Emulated, "threads=1", "no parameter"),
        ] {
            let error = Configuration::default().with(backend, text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
