//! The parameters of a decoder as configurations of a tuner.

use super::super::configuration::{self, Configuration, ConfigurationError};
use crate::decoder::launch::Parameter;
use crate::decoder::parameters::{parse_value, refused, words};
use crate::decoder::{Backend, Pipeline};
use tuner::{Config, Value};

/// At most this many configurations an on-line tuner may choose from before it varies the parameters of one kernel at a
/// time.
const MOST_CHOICES: usize = 500;

/// What configurations differ from, and what is used where nothing is set: one decoder, on the CPU with a thread a
/// core, on a GPU one a stream.
pub fn base(backend: Backend) -> Configuration {
    let mut configuration = Configuration::default();
    match backend {
        Backend::Cpu => configuration.decoder.cpu.threads = 0,
        Backend::Cuda => configuration.threads = configuration::STREAMS.default as usize,
        Backend::Reference | Backend::Emulated => (),
    }
    configuration
}

/// The parameters of a [`Config`] that [`parse`] makes, in its order: all of the backend's, but that on the CPU one
/// decoder is measured, whose threads are `cpu.threads`.
pub fn parameters(backend: Backend) -> Vec<&'static Parameter> {
    configuration::parameters(backend).filter(|parameter| parameter.name != configuration::THREADS.name).collect()
}

/// The configuration that text like `batch=512,cpu.simd=scalar` means; what is not named has its default, so that the
/// empty text is the default configuration.
///
/// # Errors
/// Unknown names and values.
pub fn parse(backend: Backend, text: &str) -> Result<Config, ConfigurationError> {
    let configuration = read(backend, text)?;
    Ok(Config(parameters(backend).into_iter().map(|parameter| value(&configuration, parameter)).collect()))
}

/// [`base`] with what a text changes; `threads` is short for `cpu.threads` here.
fn read(backend: Backend, text: &str) -> Result<Configuration, ConfigurationError> {
    let whole = |assignment: &str| match assignment.split_once('=') {
        Some((name, value)) if backend == Backend::Cpu && name.trim() == "threads" => format!("cpu.threads={value}"),
        _ => assignment.to_owned(),
    };
    base(backend).with(backend, &text.split(',').map(whole).collect::<Vec<_>>().join(","))
}

/// A configuration as [`parse`] reads it.
pub fn name(backend: Backend, config: &Config) -> String {
    let named =
        parameters(backend).into_iter().zip(&config.0).map(|(parameter, value)| format!("{}={value}", parameter.name));
    named.collect::<Vec<_>>().join(",")
}

/// The value of a parameter as a tuner has it: a word where the parameter has words, else a number.
pub fn value(configuration: &Configuration, parameter: &Parameter) -> Value {
    let number = configuration.get(parameter.name);
    let word = words(parameter.name).get(number as usize);
    word.map_or_else(|| Value::Int(i64::from(number)), |word| Value::Text((*word).to_owned()))
}

/// Whether a parameter is of one of the two sets of kernels alone.
pub(in super::super) fn of_kernels(parameter: &Parameter) -> bool {
    parameter.name.contains('.') && !parameter.name.starts_with("cuda.")
}

/// `configuration` with the values that `config` gives `parameters`.
///
/// # Errors
/// Values that cannot be, parameters that contradict each other.
pub fn configuration_of(
    backend: Backend,
    parameters: &[&'static Parameter],
    config: &Config,
    mut configuration: Configuration,
) -> Result<Configuration, ConfigurationError> {
    if config.0.len() != parameters.len() {
        return Err(ConfigurationError::Form(format!("{:?}", config.0)));
    }
    for (parameter, value) in parameters.iter().zip(&config.0) {
        let number = match value {
            Value::Int(number) => u32::try_from(*number).map_err(|_| refused(parameter, number))?,
            Value::Text(word) => parse_value(parameter, word)?,
            other => return Err(refused(parameter, other).into()),
        };
        configuration.set(backend, parameter.name, number)?;
    }
    configuration.decoder.validate()?;
    Ok(configuration)
}

/// Configurations worth trying from `default` on, which is among them: all combinations of the candidates, or, where
/// those are too many, all of the parameters of one kernel at a time, or each of them alone where these are too many
/// still. Layout, threads, streams and kernels are the caller's to choose, and stay; so do the parameters of the
/// `pipeline` that does not run.
pub fn choices(backend: Backend, pipeline: Pipeline, default: &Config) -> Vec<Config> {
    let parameters = parameters(backend);
    let fused = pipeline == Pipeline::Fused;
    let looked_at = |parameter: &Parameter| {
        !backend.runs_kernels() || !of_kernels(parameter) || parameter.name.starts_with("fused.") == fused
    };
    let free = |parameter: &Parameter| {
        looked_at(parameter) && !matches!(parameter.name, "layout" | "cpu.threads" | "streams" | "pipeline")
    };
    let place = |parameter: &Parameter| parameter.name.split_once('.').map_or(parameter.name, |(place, _)| place);
    let combinations = |of: &dyn Fn(&Parameter) -> bool| {
        let mut all = vec![default.clone()];
        for (i, parameter) in parameters.iter().enumerate().filter(|(_, parameter)| free(parameter) && of(parameter)) {
            let values = parameter.candidates.iter().map(|&number| {
                let mut configuration = Configuration::default();
                configuration.set(backend, parameter.name, number).map(|()| value(&configuration, parameter))
            });
            let values: Vec<Value> = values.filter_map(Result::ok).collect();
            let with = |config: &Config, value: &Value| {
                let mut config = config.clone();
                config.0[i] = value.clone();
                config
            };
            all = all.iter().flat_map(|config| values.iter().map(move |value| with(config, value))).collect();
        }
        all
    };
    let number = |of: &dyn Fn(&Parameter) -> bool| -> usize {
        parameters
            .iter()
            .filter(|parameter| free(parameter) && of(parameter))
            .map(|parameter| parameter.candidates.len())
            .product()
    };
    let mut all = vec![default.clone()];
    let mut places: Vec<&str> = parameters.iter().map(|parameter| place(parameter)).collect();
    places.dedup();
    let of_place = |wanted: &&str| {
        let there = |parameter: &Parameter| place(parameter) == *wanted;
        if number(&there) <= MOST_CHOICES / 2 {
            return combinations(&there);
        }
        let alone = |one: &&'static Parameter| combinations(&|parameter: &Parameter| parameter.name == one.name);
        parameters.iter().filter(|parameter| there(parameter)).flat_map(alone).collect()
    };
    let candidates = if number(&|_| true) <= MOST_CHOICES {
        combinations(&|_| true)
    } else {
        places.iter().flat_map(of_place).collect()
    };
    for config in candidates {
        let can = |configuration: Configuration| {
            backend != Backend::Cpu || configuration.decoder.cpu.simd.resolve().is_some()
        };
        if configuration_of(backend, &parameters, &config, base(backend)).is_ok_and(can) && !all.contains(&config) {
            all.push(config);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_read_and_named() {
        for backend in Backend::ALL {
            let default = parse(backend, "").unwrap();
            assert_eq!(parse(backend, &name(backend, &default)), Ok(default.clone()));
            assert_eq!(
                configuration_of(backend, &parameters(backend), &default, Configuration::default()),
                Ok(base(backend))
            );
        }
        let cpu = |text| name(Backend::Cpu, &parse(Backend::Cpu, text).unwrap());
        assert_eq!(cpu(""), "cpu.threads=0,cpu.chunk=16,cpu.simd=auto,batch=256,layout=allen");
        assert_eq!(cpu("threads=2,simd=avx2"), "cpu.threads=2,cpu.chunk=16,cpu.simd=avx2,batch=256,layout=allen");
        assert!(parse(Backend::Cpu, "batch=0").is_err());
        let cuda = parse(Backend::Cuda, "").unwrap();
        assert_eq!(cuda.0.len(), configuration::names(Backend::Cuda).len());
    }

    #[test]
    fn a_configuration_of_another_space_is_refused() {
        let parameters = parameters(Backend::Cpu);
        let of =
            |values: Vec<Value>| configuration_of(Backend::Cpu, &parameters, &Config(values), Configuration::default());
        let good = parse(Backend::Cpu, "").unwrap().0;
        assert!(of(good.clone()).is_ok());
        assert!(of(good[1..].to_vec()).is_err());
        for (place, value) in [(0, Value::Int(-1)), (2, Value::Text("mmx".to_owned())), (3, Value::Float(1.0))] {
            let mut bad = good.clone();
            bad[place] = value;
            assert!(of(bad).is_err(), "{place}");
        }
    }

    #[test]
    fn the_choices_are_valid_hold_the_default_and_keep_what_is_the_callers() {
        for backend in Backend::ALL {
            let text = match backend {
                Backend::Cpu => "threads=1,layout=mep,batch=77",
                Backend::Cuda => "streams=2,layout=mep,cluster.block_x=96",
                _ => "layout=mep",
            };
            let default = parse(backend, text).unwrap();
            let all = Pipeline::ALL.map(|pipeline| choices(backend, pipeline, &default));
            for (all, pipeline) in all.iter().zip(Pipeline::ALL) {
                let fits = all.len() > 4 && all.len() <= MOST_CHOICES;
                assert!(all[0] == default && fits, "{backend}, {pipeline}: {}", all.len());
            }
            for config in all.iter().flatten() {
                let configuration = configuration_of(backend, &parameters(backend), config, base(backend)).unwrap();
                let wanted = configuration_of(backend, &parameters(backend), &default, base(backend)).unwrap();
                assert_eq!((configuration.layout, configuration.threads), (wanted.layout, wanted.threads));
                assert_eq!(configuration.decoder.cpu.threads, wanted.decoder.cpu.threads);
            }
        }
    }
}
