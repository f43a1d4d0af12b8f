//! The knobs of a decoder as configurations of a tuner.

use super::super::setting::{self, Setting, SettingError};
use crate::decoder::knobs::{parse_value, refused, words};
use crate::decoder::launch::Knob;
use crate::decoder::{Backend, Pipeline};
use tuner::{Config, Value};

/// At most this many configurations an on-line tuner may choose from before it varies the knobs of one kernel at a
/// time.
const MOST_CHOICES: usize = 500;

/// What configurations differ from, and what is used where nothing is set: one decoder, on the CPU with a thread a
/// core, on a GPU one a stream.
pub fn base(backend: Backend) -> Setting {
    let mut setting = Setting::default();
    match backend {
        Backend::Cpu => setting.knobs.cpu.threads = 0,
        Backend::Cuda => setting.threads = setting::STREAMS.default as usize,
        Backend::Reference | Backend::Emulated => (),
    }
    setting
}

/// The knobs of a [`Config`] that [`parse`] makes, in its order: all of the backend's, but that on the CPU one decoder
/// is measured, whose threads are `cpu.threads`.
pub fn knobs(backend: Backend) -> Vec<&'static Knob> {
    setting::knobs(backend).filter(|knob| knob.name != setting::THREADS.name).collect()
}

/// The configuration that text like `batch=512,cpu.simd=scalar` means; what is not named has its default, so that the
/// empty text is the default configuration.
///
/// # Errors
/// Unknown names and values.
pub fn parse(backend: Backend, text: &str) -> Result<Config, SettingError> {
    let setting = read(backend, text)?;
    Ok(Config(knobs(backend).into_iter().map(|knob| value(&setting, knob)).collect()))
}

/// [`base`] with what a text changes; `threads` is short for `cpu.threads` here.
fn read(backend: Backend, text: &str) -> Result<Setting, SettingError> {
    let whole = |setting: &str| match setting.split_once('=') {
        Some((name, value)) if backend == Backend::Cpu && name.trim() == "threads" => format!("cpu.threads={value}"),
        _ => setting.to_owned(),
    };
    base(backend).with(backend, &text.split(',').map(whole).collect::<Vec<_>>().join(","))
}

/// A configuration as [`parse`] reads it.
pub fn name(backend: Backend, config: &Config) -> String {
    let named = knobs(backend).into_iter().zip(&config.0).map(|(knob, value)| format!("{}={value}", knob.name));
    named.collect::<Vec<_>>().join(",")
}

/// The value of a knob as a tuner has it: a word where the knob has words, else a number.
pub fn value(setting: &Setting, knob: &Knob) -> Value {
    let number = setting.get(knob.name);
    let word = words(knob.name).get(number as usize);
    word.map_or_else(|| Value::Int(i64::from(number)), |word| Value::Text((*word).to_owned()))
}

/// Whether a knob is of one of the two sets of kernels alone.
pub(in super::super) fn of_kernels(knob: &Knob) -> bool {
    knob.name.contains('.') && !knob.name.starts_with("cuda.")
}

/// `setting` with the values that `config` gives `knobs`.
///
/// # Errors
/// Values that cannot be, knobs that contradict each other.
pub fn setting_of(
    backend: Backend,
    knobs: &[&'static Knob],
    config: &Config,
    mut setting: Setting,
) -> Result<Setting, SettingError> {
    if config.0.len() != knobs.len() {
        return Err(SettingError::Form(format!("{:?}", config.0)));
    }
    for (knob, value) in knobs.iter().zip(&config.0) {
        let number = match value {
            Value::Int(number) => u32::try_from(*number).map_err(|_| refused(knob, number))?,
            Value::Text(word) => parse_value(knob, word)?,
            other => return Err(refused(knob, other).into()),
        };
        setting.set(backend, knob.name, number)?;
    }
    setting.knobs.validate()?;
    Ok(setting)
}

/// Configurations worth trying from `default` on, which is among them: all combinations of the candidates, or, where
/// those are too many, all of the knobs of one kernel at a time, or each of them alone where these are too many still.
/// Layout, threads, streams and kernels are the caller's to choose, and stay; so do the knobs of the `pipeline` that
/// does not run.
pub fn choices(backend: Backend, pipeline: Pipeline, default: &Config) -> Vec<Config> {
    let knobs = knobs(backend);
    let fused = pipeline == Pipeline::Fused;
    let looked_at =
        |knob: &Knob| !backend.runs_kernels() || !of_kernels(knob) || knob.name.starts_with("fused.") == fused;
    let free = |knob: &Knob| looked_at(knob) && !matches!(knob.name, "layout" | "cpu.threads" | "streams" | "pipeline");
    let place = |knob: &Knob| knob.name.split_once('.').map_or(knob.name, |(place, _)| place);
    let combinations = |of: &dyn Fn(&Knob) -> bool| {
        let mut all = vec![default.clone()];
        for (i, knob) in knobs.iter().enumerate().filter(|(_, knob)| free(knob) && of(knob)) {
            let values = knob.candidates.iter().map(|&number| {
                let mut setting = Setting::default();
                setting.set(backend, knob.name, number).map(|()| value(&setting, knob))
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
    let number = |of: &dyn Fn(&Knob) -> bool| -> usize {
        knobs.iter().filter(|knob| free(knob) && of(knob)).map(|knob| knob.candidates.len()).product()
    };
    let mut all = vec![default.clone()];
    let mut places: Vec<&str> = knobs.iter().map(|knob| place(knob)).collect();
    places.dedup();
    let of_place = |wanted: &&str| {
        let there = |knob: &Knob| place(knob) == *wanted;
        if number(&there) <= MOST_CHOICES / 2 {
            return combinations(&there);
        }
        let alone = |one: &&'static Knob| combinations(&|knob: &Knob| knob.name == one.name);
        knobs.iter().filter(|knob| there(knob)).flat_map(alone).collect()
    };
    let candidates = if number(&|_| true) <= MOST_CHOICES {
        combinations(&|_| true)
    } else {
        places.iter().flat_map(of_place).collect()
    };
    for config in candidates {
        let can = |setting: Setting| backend != Backend::Cpu || setting.knobs.cpu.simd.resolve().is_some();
        if setting_of(backend, &knobs, &config, base(backend)).is_ok_and(can) && !all.contains(&config) {
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
            assert_eq!(setting_of(backend, &knobs(backend), &default, Setting::default()), Ok(base(backend)));
        }
        let cpu = |text| name(Backend::Cpu, &parse(Backend::Cpu, text).unwrap());
        assert_eq!(cpu(""), "cpu.threads=0,cpu.chunk=16,cpu.simd=auto,batch=256,layout=allen");
        assert_eq!(cpu("threads=2,simd=avx2"), "cpu.threads=2,cpu.chunk=16,cpu.simd=avx2,batch=256,layout=allen");
        assert!(parse(Backend::Cpu, "batch=0").is_err());
        let cuda = parse(Backend::Cuda, "").unwrap();
        assert_eq!(cuda.0.len(), setting::names(Backend::Cuda).len());
    }

    #[test]
    fn a_configuration_of_another_space_is_refused() {
        let knobs = knobs(Backend::Cpu);
        let of = |values: Vec<Value>| setting_of(Backend::Cpu, &knobs, &Config(values), Setting::default());
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
                let setting = setting_of(backend, &knobs(backend), config, base(backend)).unwrap();
                let wanted = setting_of(backend, &knobs(backend), &default, base(backend)).unwrap();
                assert_eq!((setting.layout, setting.threads), (wanted.layout, wanted.threads));
                assert_eq!(setting.knobs.cpu.threads, wanted.knobs.cpu.threads);
            }
        }
    }
}
