//! The parameters of a decoder as configurations of a tuner.

use tuner::{Config, Value};

use ut_decoders::parameters::{Parameter, ParameterError, Parameters};
use ut_decoders::{Backend, Pipeline};

/// Maximum number of configurations for an on-line tuner; beyond it, only the parameters of one
/// kernel vary at a time.
const MOST_CHOICES: usize = 500;

/// Default values: on the CPU one decoder per core, else one decoder, on a GPU with some streams
/// and batches that fill it.
pub fn base(backend: Backend) -> Parameters {
    let one = Parameters::default().with_threads(usize::from(backend != Backend::Cpu));
    one.with_batches(backend.batch(), one.layout())
}

/// Parameters that a tuner varies, in its order, and the values of all others.
#[derive(Clone, Debug)]
pub struct Varied {
    /// Backend whose decoders use the parameters.
    pub backend: Backend,
    /// Names of the parameters, in the order of the config's values.
    pub parameters: Vec<&'static Parameter>,
    /// Values of all others.
    pub others: Parameters,
}

impl Varied {
    /// Varies all parameters of a backend around [`base`].
    pub fn all(backend: Backend) -> Self {
        Self {
            backend,
            parameters: backend.all_parameters().collect(),
            others: base(backend),
        }
    }

    /// Varies the parameters of these names; all others are as in `others`.
    pub fn named(
        backend: Backend,
        names: impl IntoIterator<Item: AsRef<str>>,
        others: Parameters,
    ) -> Result<Self, ParameterError> {
        let parameters = names
            .into_iter()
            .map(|name| backend.parameter(name.as_ref()));
        Ok(Self {
            backend,
            parameters: parameters.collect::<Result<_, _>>()?,
            others,
        })
    }

    /// Configuration with the values of `others`.
    pub fn default(&self) -> Config {
        self.config(&self.others)
    }

    /// Configuration with the values of `parameters`: words for a parameter that has some, else
    /// numbers.
    pub fn config(&self, parameters: &Parameters) -> Config {
        Config(
            self.parameters
                .iter()
                .map(|parameter| value(parameter, parameters.get(parameter.name)))
                .collect(),
        )
    }

    /// Returns all parameters, with the values of a configuration in place of the base's.
    pub fn parameters_of(&self, config: &Config) -> Result<Parameters, ParameterError> {
        if config.0.len() != self.parameters.len() {
            return Err(ParameterError::Other(format!(
                "{:?} belongs to another space",
                config.0
            )));
        }
        let mut all = self.others;
        for (parameter, value) in self.parameters.iter().zip(&config.0) {
            let number = match value {
                Value::Int(number) => {
                    u32::try_from(*number).map_err(|_| parameter.refused(number))?
                }
                Value::Text(word) => parameter.parse(word)?,
                other => return Err(parameter.refused(other)),
            };
            all.put_value(parameter, number)?;
        }
        all.validate()?;
        Ok(all)
    }

    /// Reads a configuration from text like `batch=512,cpu.simd=scalar`. Parameters that are not
    /// named have their defaults.
    pub fn parse(&self, text: &str) -> Result<Config, ParameterError> {
        Ok(self.config(&self.others.with(self.backend, text)?))
    }

    /// Writes a configuration as [`parse`](Self::parse) reads it.
    pub fn name(&self, config: &Config) -> String {
        let named = self
            .parameters
            .iter()
            .zip(&config.0)
            .map(|(parameter, value)| format!("{}={value}", parameter.name));
        named.collect::<Vec<_>>().join(",")
    }

    /// Lists configurations worth trying, with `default`: all combinations of the candidates, or,
    /// if those are too many, all of one kernel's parameters at a time, or else of one parameter.
    /// Layout, threads, streams and kernels stay, as the caller chooses them; so do the parameters
    /// of the other pipeline.
    ///
    /// On the CPU, four sets of vector instructions and eight sizes of batches make 32
    /// configurations. For the ranked kernels on a GPU all combinations would be 43,200: so the
    /// blocks and grids of the kernels vary together, in 180 combinations, and then the registers,
    /// the carve-out and the batch, each alone. An on-line tuner has only as many measurements as
    /// the job has batches.
    pub fn choices(&self, pipeline: Pipeline, default: &Config) -> Vec<Config> {
        let free = |parameter: &Parameter| {
            runs(parameter, pipeline)
                && !matches!(
                    parameter.name,
                    "layout" | "threads" | "streams" | "pipeline"
                )
        };
        let free: Vec<usize> = (0..self.parameters.len())
            .filter(|&i| free(self.parameters[i]))
            .collect();
        let number = |of: &[usize]| {
            of.iter()
                .map(|&i| self.parameters[i].candidates.len())
                .product::<usize>()
        };
        let place = |i: usize| {
            self.parameters[i]
                .name
                .split_once('.')
                .map_or(self.parameters[i].name, |(place, _)| place)
        };
        let blocks: Vec<&[usize]> = if number(&free) <= MOST_CHOICES {
            vec![&free]
        } else {
            let of_place = free.chunk_by(|&a, &b| place(a) == place(b));
            of_place
                .flat_map(|block| {
                    block.chunks(if number(block) <= MOST_CHOICES / 2 {
                        block.len()
                    } else {
                        1
                    })
                })
                .collect()
        };
        let mut all = vec![default.clone()];
        for block in blocks {
            let mut found = vec![default.clone()];
            for &i in block {
                let with = |config: &Config, number: u32| {
                    let mut config = config.clone();
                    config.0[i] = value(self.parameters[i], number);
                    config
                };
                let candidates = self.parameters[i].candidates;
                found = found
                    .iter()
                    .flat_map(|config| candidates.iter().map(move |&number| with(config, number)))
                    .collect();
            }
            for config in found {
                let can = |all: Parameters| {
                    self.backend != Backend::Cpu || all.simd().resolve().is_some()
                };
                if self.parameters_of(&config).is_ok_and(can) && !all.contains(&config) {
                    all.push(config);
                }
            }
        }
        all
    }
}

fn value(parameter: &Parameter, number: u32) -> Value {
    let word = parameter.words.get(number as usize);
    word.map_or_else(
        || Value::Int(i64::from(number)),
        |word| Value::Text((*word).to_owned()),
    )
}

/// Returns true unless a parameter belongs to another pipeline. The ranked pipeline's begin with
/// its name; all other kernels' are Allen's.
///
/// `scan.block_x` is used by both pipelines but varied for Allen's only. The ranked pipeline scans
/// one number per event, so that blocks of 32 to 1024 threads make the same memory accesses and
/// 1.6 % more shared ones (`sweep --backend emulated --axis scan.block_x`), while its ten values
/// would make the space ten times as large. `--set` and `sweep` accept it for both.
pub(super) fn runs(parameter: &Parameter, pipeline: Pipeline) -> bool {
    match parameter.name.split_once('.') {
        None | Some(("cpu" | "cuda", _)) => true,
        Some(("ranked", _)) => pipeline == Pipeline::Ranked,
        Some(_) => pipeline == Pipeline::Allen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_read_and_named() {
        for backend in Backend::ALL {
            let varied = Varied::all(backend);
            let default = varied.parse("").unwrap();
            assert_eq!(varied.parse(&varied.name(&default)), Ok(default.clone()));
            assert_eq!(varied.parameters_of(&default), Ok(base(backend)));
        }
        let varied = Varied::all(Backend::Cpu);
        let cpu = |text| varied.name(&varied.parse(text).unwrap());
        assert_eq!(cpu(""), "cpu.simd=auto,batch=256,layout=allen,threads=0");
        assert_eq!(
            cpu("threads=2,simd=avx2"),
            "cpu.simd=avx2,batch=256,layout=allen,threads=2"
        );
        assert!(varied.parse("batch=0").is_err());
    }

    #[test]
    fn a_configuration_of_another_space_is_refused() {
        let varied = Varied::all(Backend::Cpu);
        let of = |values: Vec<Value>| varied.parameters_of(&Config(values));
        let good = varied.parse("").unwrap().0;
        assert!(of(good.clone()).is_ok());
        assert!(of(good[1..].to_vec()).is_err());
        for (place, value) in [
            (3, Value::Int(-1)),
            (0, Value::Text("mmx".to_owned())),
            (1, Value::Float(1.0)),
        ] {
            let mut bad = good.clone();
            bad[place] = value;
            assert!(of(bad).is_err(), "{place}");
        }
    }

    #[test]
    fn the_choices_are_valid_include_the_default_and_keep_the_callers_values() {
        for backend in Backend::ALL {
            let text = match backend {
                Backend::Cpu => "threads=1,layout=mep,batch=77",
                Backend::Cuda => "streams=2,layout=mep,cluster.block_x=96",
                _ => "layout=mep",
            };
            let varied = Varied::all(backend);
            let default = varied.parse(text).unwrap();
            let wanted = varied.parameters_of(&default).unwrap();
            for pipeline in Pipeline::ALL {
                let all = varied.choices(pipeline, &default);
                assert!(
                    all[0] == default && (5..=MOST_CHOICES).contains(&all.len()),
                    "{backend}, {pipeline}"
                );
                for config in &all {
                    let found = varied.parameters_of(config).unwrap();
                    assert_eq!(
                        (found.layout(), found.decoders(backend)),
                        (wanted.layout(), wanted.decoders(backend))
                    );
                }
            }
        }
    }
}
