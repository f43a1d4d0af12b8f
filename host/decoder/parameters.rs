//! Everything that changes how fast a backend is and never what it computes, by name.
//!
//! A parameter is called `place.name`: `cpu.chunk`, `cluster.block_x`. Which parameters there are depends on the
//! backend; the device kernels' are those of [`launch`](super::launch).

use super::cpu::{CpuConfig, MAX_CHUNK, Simd};
use super::launch::{LaunchParamError, LaunchParams, PARAMETERS, Parameter};
use super::{Backend, Pipeline};

/// Names of the values of `cpu.simd`, in the order of [`Simd::ALL`].
const SIMD_NAMES: [&str; 5] =
    [Simd::ALL[0].name(), Simd::ALL[1].name(), Simd::ALL[2].name(), Simd::ALL[3].name(), Simd::ALL[4].name()];

/// Names of the values of `layout`, which benches vary beside the parameters.
const LAYOUT_NAMES: [&str; 2] = ["allen", "mep"];

/// Names of the values of `pipeline`, which benches vary beside the parameters, in the order of [`Pipeline::ALL`].
const PIPELINE_NAMES: [&str; 2] = [Pipeline::ALL[0].name(), Pipeline::ALL[1].name()];

const CPU: [Parameter; 3] = [
    Parameter {
        name: "cpu.threads",
        about: "threads of one decoder; 0: one a core",
        min: 0,
        max: 1024,
        step: 1,
        default: 1,
        candidates: &[1, 2, 4, 8, 16, 32, 64],
    },
    Parameter {
        name: "cpu.chunk",
        about: "events that a thread takes at a time",
        min: 1,
        max: MAX_CHUNK as u32,
        step: 1,
        default: 16,
        candidates: &[1, 2, 4, 8, 16, 32, 64, 128],
    },
    Parameter {
        name: "cpu.simd",
        about: "vector instructions: auto (the widest there are), scalar, avx2, avx512 or neon",
        min: 0,
        max: 4,
        step: 1,
        default: 0,
        candidates: &[0, 1, 2, 3, 4],
    },
];

/// What `cuda` has beside the launch parameters.
const REGISTERS: Parameter = Parameter {
    name: "cuda.registers",
    about: "registers that the driver's compiler may give a thread of all kernels but fused_others; 0: as many as it likes",
    min: 0,
    max: 248,
    step: 8,
    default: 0,
    candidates: &[0, 32, 40, 48, 56, 64],
};

const CARVE_OUT: Parameter = Parameter {
    name: "fused.carve_out",
    about: "share of shared memory that the fused kernel asks for, %, the rest being L1 cache; 0: what its resident blocks \
            need; 1: what the driver takes by itself",
    min: 0,
    max: 100,
    step: 1,
    default: 0,
    candidates: &[0, 1, 58, 72, 100],
};

/// How a multiprocessor's memory is divided between shared memory and L1 cache while the fused kernel runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CarveOut {
    /// As much shared memory as the blocks need that a multiprocessor holds.
    #[default]
    Needed,
    /// As the driver divides it by itself.
    Unset,
    /// A share of shared memory, from 2 to 100.
    Percent(u8),
}

impl CarveOut {
    /// From the parameter's value.
    const fn of(value: u32) -> Self {
        match value {
            0 => Self::Needed,
            1 => Self::Unset,
            percent => Self::Percent(percent as u8),
        }
    }

    /// The parameter's value.
    const fn value(self) -> u32 {
        match self {
            Self::Needed => 0,
            Self::Unset => 1,
            Self::Percent(percent) => percent as u32,
        }
    }
}

const GRAPH: Parameter = Parameter {
    name: "cuda.graph",
    about: "1: launch the kernels of a batch as a CUDA graph, where they are the same as before; 0: one by one",
    min: 0,
    max: 1,
    step: 1,
    default: 0,
    candidates: &[0, 1],
};

const CUDA: [Parameter; PARAMETERS.len() + 3] = {
    let mut all = [REGISTERS; PARAMETERS.len() + 3];
    all[PARAMETERS.len()] = GRAPH;
    all[PARAMETERS.len() + 1] = CARVE_OUT;
    let mut i = 0;
    while i < PARAMETERS.len() {
        all[i] = PARAMETERS[i];
        i += 1;
    }
    all
};

/// A value for every parameter of every backend; a backend looks at its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecoderConfig {
    /// Of `cpu`.
    pub cpu: CpuConfig,
    /// Of `emulated`, and of a GPU.
    pub launch: LaunchParams,
    /// Which kernels `emulated` and a GPU run.
    pub pipeline: Pipeline,
    /// Of a GPU: most registers of a thread, 0 for no limit.
    pub registers: u32,
    /// Of a GPU: how memory is divided for the fused kernel.
    pub carve_out: CarveOut,
    /// Of a GPU: whether the kernels of a batch are launched as a graph.
    pub graph: bool,
}

impl Default for DecoderConfig {
    /// The defaults, with one thread a decoder.
    fn default() -> Self {
        Self {
            cpu: CpuConfig { threads: 1, ..CpuConfig::default() },
            launch: LaunchParams::default(),
            pipeline: Pipeline::default(),
            registers: REGISTERS.default,
            carve_out: CarveOut::of(CARVE_OUT.default),
            graph: GRAPH.default != 0,
        }
    }
}

/// Why a parameter cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// The backend has no such parameter.
    #[error("{backend} has no parameter {name:?}; {}", parameters_in_words(*backend))]
    Unknown {
        /// The backend.
        backend: Backend,
        /// What was requested.
        name: String,
    },
    /// The value is not one that the parameter can have.
    #[error("{name} = {value}: must be {valid}")]
    Value {
        /// The parameter.
        name: &'static str,
        /// What was requested.
        value: String,
        /// What it can be.
        valid: String,
    },
    /// The assignment is not `name=value`.
    #[error("{assignment:?} is not of the form parameter=value; {}", parameters_in_words(*backend))]
    Syntax {
        /// The backend.
        backend: Backend,
        /// What was requested.
        assignment: String,
    },
    /// Parameters contradict each other.
    #[error(transparent)]
    Launch(#[from] LaunchParamError),
}

fn parameters_in_words(backend: Backend) -> String {
    let names: Vec<_> = backend.parameters().iter().map(|parameter| parameter.name).collect();
    if names.is_empty() { "it has none".to_owned() } else { format!("there are {}", names.join(", ")) }
}

/// The words that stand for the values 0, 1, … of a parameter; none where a value is a number.
pub fn words(name: &str) -> &'static [&'static str] {
    match name {
        "cpu.simd" => &SIMD_NAMES,
        "layout" => &LAYOUT_NAMES,
        "pipeline" => &PIPELINE_NAMES,
        _ => &[],
    }
}

/// The error that `parameter` cannot have this value.
pub fn refused(parameter: &Parameter, value: &dyn ToString) -> ParameterError {
    let Parameter { name, min, max, step, .. } = *parameter;
    let words = words(name);
    let valid = match step {
        _ if !words.is_empty() => format!("one of {}", words.join(", ")),
        1 => format!("from {min} to {max}"),
        _ => format!("a multiple of {step} from {min} to {max}"),
    };
    ParameterError::Value { name, value: value.to_string(), valid }
}

impl Backend {
    /// The parameters that this backend looks at.
    pub fn parameters(self) -> &'static [Parameter] {
        match self {
            Self::Reference => &[],
            Self::Cpu => &CPU,
            Self::Emulated => &PARAMETERS,
            Self::Cuda => &CUDA,
        }
    }

    /// One of its parameters.
    ///
    /// # Errors
    /// When it has none of this name; the message names those that it has.
    pub fn parameter(self, name: &str) -> Result<&'static Parameter, ParameterError> {
        let found = self.parameters().iter().find(|parameter| parameter.name == name);
        found.ok_or_else(|| ParameterError::Unknown { backend: self, name: name.to_owned() })
    }
}

/// The number of a value that may be a word (`avx2`).
///
/// # Errors
/// When the parameter cannot have this value.
pub fn parse_value(parameter: &Parameter, text: &str) -> Result<u32, ParameterError> {
    let word = words(parameter.name).iter().position(|word| *word == text);
    let number = word.map_or_else(|| text.parse().ok(), |word| Some(word as u32));
    number.filter(|&value| parameter.is_valid(value)).ok_or_else(|| refused(parameter, &text))
}

/// The value of a parameter as [`parse_value`] takes it.
pub fn value_text(name: &str, value: u32) -> String {
    words(name).get(value as usize).map_or_else(|| value.to_string(), |word| (*word).to_owned())
}

impl DecoderConfig {
    /// Sets a parameter of `backend`. Parameters that depend on each other are checked by [`validate`](Self::validate).
    ///
    /// # Errors
    /// When the backend has no such parameter, or it cannot have this value.
    pub fn set(&mut self, backend: Backend, name: &str, value: u32) -> Result<(), ParameterError> {
        let parameter = backend.parameter(name)?;
        if !parameter.is_valid(value) {
            return Err(refused(parameter, &value));
        }
        match name {
            "cpu.threads" => self.cpu.threads = value as usize,
            "cpu.chunk" => self.cpu.chunk = value as usize,
            "cpu.simd" => self.cpu.simd = Simd::ALL[value as usize],
            "cuda.registers" => self.registers = value,
            "fused.carve_out" => self.carve_out = CarveOut::of(value),
            "cuda.graph" => self.graph = value != 0,
            _ => self.launch.set(name, value)?,
        }
        Ok(())
    }

    /// Sets a parameter of `backend` from `parameter=value`.
    ///
    /// # Errors
    /// As [`set`](Self::set), and when the text is not of this form.
    pub fn set_from(&mut self, backend: Backend, assignment: &str) -> Result<(), ParameterError> {
        let Some((name, value)) = assignment.split_once('=') else {
            return Err(ParameterError::Syntax { backend, assignment: assignment.to_owned() });
        };
        let parameter = backend.parameter(name.trim())?;
        self.set(backend, parameter.name, parse_value(parameter, value.trim())?)
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<u32> {
        match name {
            "cpu.threads" => u32::try_from(self.cpu.threads).ok(),
            "cpu.chunk" => u32::try_from(self.cpu.chunk).ok(),
            "cpu.simd" => Simd::ALL.iter().position(|simd| *simd == self.cpu.simd).map(|place| place as u32),
            "cuda.registers" => Some(self.registers),
            "fused.carve_out" => Some(self.carve_out.value()),
            "cuda.graph" => Some(u32::from(self.graph)),
            _ => self.launch.get(name),
        }
    }

    /// Checks the rules that join several parameters.
    ///
    /// # Errors
    /// When parameters contradict each other.
    pub fn validate(&self) -> Result<(), ParameterError> {
        Ok(self.launch.validate()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_of_every_backend_can_be_set_and_read_and_has_its_default() {
        for backend in Backend::ALL {
            for parameter in backend.parameters() {
                let mut config = DecoderConfig::default();
                assert_eq!(config.get(parameter.name), Some(parameter.default), "{}", parameter.name);
                for &value in parameter.candidates {
                    let text = value_text(parameter.name, value);
                    config.set_from(backend, &format!("{} = {text}", parameter.name)).unwrap();
                    assert_eq!(config.get(parameter.name), Some(value), "{} = {text}", parameter.name);
                }
            }
        }
    }

    #[test]
    fn a_parameter_that_is_not_there_names_those_that_are() {
        let mut config = DecoderConfig::default();
        let error = config.set_from(Backend::Cpu, "cluster.block_x=64").unwrap_err();
        assert_eq!(
            error.to_string(),
            "cpu has no parameter \"cluster.block_x\"; there are cpu.threads, cpu.chunk, cpu.simd"
        );
        let error = config.set_from(Backend::Reference, "chunk=64").unwrap_err();
        assert_eq!(error.to_string(), "reference has no parameter \"chunk\"; it has none");
        assert!(config.set_from(Backend::Emulated, "cluster").unwrap_err().to_string().contains("cluster.block_x"));
        assert_eq!(config, DecoderConfig::default());
    }

    #[test]
    fn a_value_that_cannot_be_names_those_that_can() {
        let mut config = DecoderConfig::default();
        let mut refused = |backend, assignment| config.set_from(backend, assignment).unwrap_err().to_string();
        // As many as a decoder takes.
        assert_eq!(refused(Backend::Cpu, "cpu.chunk=0"), "cpu.chunk = 0: must be from 1 to 1024");
        assert_eq!(refused(Backend::Cpu, "cpu.chunk=1025"), "cpu.chunk = 1025: must be from 1 to 1024");
        assert_eq!(
            refused(Backend::Cpu, "cpu.simd=mmx"),
            "cpu.simd = mmx: must be one of auto, scalar, avx2, avx512, neon"
        );
        assert_eq!(refused(Backend::Cpu, "cpu.threads=-1"), "cpu.threads = -1: must be from 0 to 1024");
        let block = refused(Backend::Emulated, "count.block_x=33");
        assert_eq!(block, "count.block_x = 33: must be a multiple of 32 from 32 to 1024");
    }

    #[test]
    fn parameters_that_contradict_each_other_are_refused_together() {
        let mut config = DecoderConfig::default();
        config.set_from(Backend::Emulated, "cluster.block_x=33").unwrap();
        assert!(config.validate().is_err());
    }
}
