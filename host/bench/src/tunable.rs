//! Decoders in the tuner's stores: the spaces that `tune` searches with a
//! [`DecodeDevice`](super::decoding::DecodeDevice), the keys of its results, and the look-up for
//! `decode` and `throughput`.

use std::collections::BTreeSet;

use super::Machine;
use super::varied::{self, Varied, runs};
use tuner::fnv::Fnv;
use tuner::space::Space;
use tuner::store::{DeviceIdentity, Locations, StoreError, Task, TunableIdentity, Workload};
use tuner::{Config, Error, SpaceBuilder, Value};
use ut_data::detector::DetectorTables;
use ut_decoders::cpu::Simd;
use ut_decoders::cuda::{StartError, identify};
use ut_decoders::parameters::{Parameter, ParameterError, Parameters};
use ut_decoders::ptx::Unit;
use ut_decoders::{Backend, DecodeOptions, Pipeline};

/// Version of the CPU decoder, raised when earlier measurements no longer say anything about it.
const CPU_VERSION: u32 = 3;

/// Version of the kernels' pipelines. With the kernels' hash it identifies what was tuned.
const KERNELS_VERSION: u32 = 1;

/// Relaxation with which a result for the CPU decoder is used without validation: runtime and
/// platform. All configurations give the same bits and none can fail, so that a result of another
/// version on the same machine is good enough. On a GPU everything must match: another driver makes
/// other code, which may not even launch.
const TRUSTED_CPU_STEP: u8 = 2;

/// Number of combinations above which only candidates near the defaults are tried.
const MOST_COMBINATIONS: usize = 10_000;

const GPU_STREAMS: [i64; 4] = [1, 2, 3, 4];

/// Returns the batch sizes to try on a GPU, in events, including the default.
fn gpu_batches() -> BTreeSet<i64> {
    [256, 1024, 4096, Backend::Cuda.batch() as i64].into()
}

/// A decoder: a backend, and the kernels of one that runs kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Backend that decodes, on this machine or on the first GPU.
    pub backend: Backend,
    /// Kernels to run; without effect on a backend that runs none.
    pub pipeline: Pipeline,
}

impl From<Backend> for Subject {
    fn from(backend: Backend) -> Self {
        Self {
            backend,
            pipeline: Pipeline::default(),
        }
    }
}

impl From<(Backend, Pipeline)> for Subject {
    fn from((backend, pipeline): (Backend, Pipeline)) -> Self {
        Self { backend, pipeline }
    }
}

/// Returns the parameters that apply if nothing has been tuned.
pub fn base(what: impl Into<Subject>) -> Parameters {
    let Subject { backend, pipeline } = what.into();
    varied::base(backend).with_pipeline(pipeline)
}

/// Returns the parameters of a [`space`] as variations of [`base`].
pub fn varied(what: impl Into<Subject>, space: &Space) -> Result<Varied, ParameterError> {
    let what = what.into();
    Varied::named(what.backend, space.names(), base(what))
}

/// Makes the space of a backend on a machine with `cores` hardware threads.
///
/// On the CPU: batches of 32 to 4096 events, and 1 thread to all (0). Layout and instructions are
/// not varied: events lie as a framework has them, and the widest instructions are chosen.
///
/// For kernels: all parameters of the pipeline, with all candidates, or, if these are too many, the
/// powers of two from half the default to four times as much (all powers of two where the default
/// is 0); on a GPU also batch and streams. The reference has one configuration.
pub fn space(what: impl Into<Subject>, cores: usize) -> Result<Space, Error> {
    let what @ Subject { backend, pipeline } = what.into();
    if backend == Backend::Reference {
        return SpaceBuilder::new().build();
    }
    let cores = cores.clamp(1, 1024) as i64;
    let looked_at = |parameter: &&Parameter| runs(parameter, pipeline);
    let combinations: usize = backend
        .parameters()
        .iter()
        .filter(looked_at)
        .map(|parameter| parameter.candidates.len())
        .product();
    let worth = |parameter: &Parameter| {
        let Parameter {
            default,
            candidates,
            ..
        } = *parameter;
        let all = combinations <= MOST_COMBINATIONS;
        // A default of 0 leaves the choice to the driver or the device.
        let near = |value: u32| {
            let close = default == 0 || 2 * value >= default && value <= 4 * default;
            value.is_power_of_two() && close
        };
        let candidates = candidates
            .iter()
            .copied()
            .filter(|&value| all || near(value));
        let values: BTreeSet<u32> = candidates.chain([default]).collect();
        values.into_iter().map(i64::from)
    };
    let mut builder = SpaceBuilder::new();
    for parameter in Varied::all(backend)
        .parameters
        .into_iter()
        .filter(looked_at)
    {
        let name = parameter.name;
        builder = match (name, backend) {
            ("layout", _) => builder.choices(name, ["allen"]),
            ("cpu.simd", _) => builder.choices(name, ["auto"]),
            ("threads", _) => {
                let fewer = (0..10)
                    .map(|power| 1 << power)
                    .filter(|&threads| threads < cores);
                builder.ints(name, std::iter::once(0).chain(fewer))
            }
            ("batch", Backend::Cpu) => builder.powers_of_two(name, 32, 4096),
            ("batch", Backend::Cuda) => builder.ints(name, gpu_batches()),
            ("batch", _) => builder.ints(name, [i64::from(parameter.default)]),
            ("streams", _) => builder.ints(name, GPU_STREAMS),
            // The pipeline itself is given.
            ("pipeline", _) => builder,
            _ => builder.ints(name, worth(parameter)),
        };
    }
    if backend != Backend::Cpu && pipeline == Pipeline::Allen {
        // A block of whole warps, and not too many.
        let names = ["cluster.block_x", "cluster.block_y"];
        let block = Varied::named(backend, names, base(what));
        let valid = move |values: &[&Value]| {
            let config = Config(values.iter().map(|&value| value.clone()).collect());
            block
                .as_ref()
                .is_ok_and(|block| block.parameters_of(&config).is_ok())
        };
        builder = builder.constraint_fn("the clustering block can be launched", &names, valid);
    }
    builder.build()
}

/// Identifies the device that measures a backend: this machine, or its first GPU.
pub fn device(backend: Backend) -> Result<DeviceIdentity, StartError> {
    let machine = Machine::this();
    if backend == Backend::Cuda {
        let identity = identify(0)?;
        let (major, minor) = identity.gpu.capability;
        return Ok(DeviceIdentity {
            compute_capability: format!("{major}.{minor}"),
            sm_count: u32::try_from(identity.gpu.multiprocessors).unwrap_or_default(),
            uuid: identity.uuid,
            driver: crate::environment::driver_version()
                .unwrap_or_else(|| format!("CUDA {}", identity.release)),
            // The tunable's hash stands for the kernels; the driver compiles them.
            runtime: String::new(),
            ..DeviceIdentity::named(identity.gpu.name, "CUDA")
        });
    }
    let simd = Simd::Auto.resolve().unwrap_or(Simd::Scalar).name();
    Ok(DeviceIdentity {
        compute_capability: format!("{} {simd}", std::env::consts::ARCH),
        sm_count: machine.cores as u32,
        runtime: machine.version,
        ..DeviceIdentity::named(
            machine.cpu.unwrap_or_else(|| "CPU".to_owned()),
            backend.name(),
        )
    })
}

/// Identifies the decoder of a backend as a tunable; on a GPU with the hash of the kernels' text.
pub fn tunable(what: impl Into<Subject>) -> TunableIdentity {
    let Subject { backend, pipeline } = what.into();
    let mut identity = if backend.runs_kernels() {
        TunableIdentity::new(format!("{backend}-{pipeline}-decoder"), KERNELS_VERSION)
    } else {
        TunableIdentity::new(format!("{backend}-decoder"), CPU_VERSION)
    };
    if backend == Backend::Cuda {
        let mut hash = Fnv::default();
        let units = if pipeline == Pipeline::Ranked {
            Unit::RANKED
        } else {
            Unit::PRODUCTION
        };
        for unit in units {
            hash.take(unit.text.as_bytes());
        }
        identity.kernel_hash = hash.to_string();
    }
    identity
}

/// Workload by which the speed differs: format of the banks, grouping of the sectors, clustering.
pub fn workload(tables: &DetectorTables, options: &DecodeOptions) -> Result<Workload, StoreError> {
    Workload::new()
        .with("banks", tables.boards().version.name())?
        .with("grouping", tables.grouping().name())?
        .with("clustering", options.clustering())
}

/// Returns the workload for one kind of events, named as in `ut-decode workloads`: `pp-low`, or the
/// name of a file.
pub fn workload_of(
    tables: &DetectorTables,
    options: &DecodeOptions,
    events: &str,
) -> Result<Workload, StoreError> {
    workload(tables, options)?.with("events", events)
}

/// A tuned configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunedParameters {
    /// All parameters; parameters outside the tuned space have their defaults.
    pub parameters: Parameters,
    /// Tuned values as text, such as `batch=512,threads=0`, or a note that the default was kept.
    pub values: String,
    /// Date, run and store of the result, with differences of runtime or platform, in words.
    pub origin: String,
}

/// Looks up this very workload of a backend in the stores. `None` if nothing was tuned, or the
/// backend cannot run: use the default.
pub fn look_up(
    locations: &Locations,
    what: impl Into<Subject>,
    workload: &Workload,
) -> Result<Option<TunedParameters>, StoreError> {
    let what = what.into();
    let backend = what.backend;
    let Ok(device) = device(backend) else {
        return Ok(None);
    };
    let tunable = tunable(what);
    let bad = |error: Error| StoreError::Wrong(format!("{backend}'s space: {error}"));
    let space = space(what, device.sm_count as usize).map_err(bad)?;
    let task = Task {
        device: &device,
        tunable: &tunable,
        workload,
        space: &space,
    };
    let trusted = if backend.runs_kernels() {
        0
    } else {
        TRUSTED_CPU_STEP
    };
    let Some(found) = locations
        .find(&task)?
        .into_iter()
        .find(|found| found.step() <= trusted)
    else {
        return Ok(None);
    };
    let Ok(varied) = varied(what, &space) else {
        return Ok(None);
    };
    let Ok(parameters) = varied.parameters_of(&found.config) else {
        return Ok(None);
    };
    let chosen = space
        .parameters()
        .iter()
        .filter(|parameter| parameter.values().len() > 1)
        .map(tuner::Parameter::name);
    let kept = varied.default() == found.config;
    let values = if kept {
        "the default, which was kept".to_owned()
    } else {
        parameters.text(chosen)
    };
    Ok(Some(TunedParameters {
        parameters,
        values,
        origin: found.in_words(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tuner::store::{Contender, Evidence, Plan, Store};
    use ut_data::detector::{BankVersion, Grouping};

    #[test]
    fn the_default_is_in_the_space_of_every_machine_and_all_of_it_can_be_set() {
        for cores in [1, 2, 3, 8, 48, 192, 100_000] {
            let space = space(Backend::Cpu, cores).unwrap();
            let varied = varied(Backend::Cpu, &space).unwrap();
            assert!(space.index_of(&varied.default()).is_some(), "{cores} cores");
            for index in 0..space.len() {
                assert!(
                    varied
                        .parameters_of(&space.config(index))
                        .unwrap()
                        .threads()
                        < cores.max(2) as u32
                );
            }
        }
        for backend in [Backend::Emulated, Backend::Cuda] {
            let mut tuned = Vec::new();
            for pipeline in Pipeline::ALL {
                let what = Subject { backend, pipeline };
                let space = space(what, 1).unwrap();
                let varied = varied(what, &space).unwrap();
                assert_eq!(
                    varied.parameters_of(&varied.default()),
                    Ok(base(what)),
                    "{what:?}"
                );
                assert!(space.index_of(&varied.default()).is_some(), "{what:?}");
                tuned.extend(space.names());
                for index in (0..space.len()).step_by((space.len() / 500).max(1)) {
                    assert_eq!(
                        varied
                            .parameters_of(&space.config(index))
                            .unwrap()
                            .pipeline(),
                        pipeline
                    );
                }
                assert!(
                    (100..3_000_000).contains(&space.len()),
                    "{what:?}: {}",
                    space.len()
                );
            }
            assert!(
                backend
                    .parameters()
                    .iter()
                    .all(|parameter| tuned.iter().any(|name| name == parameter.name)),
                "{tuned:?}"
            );
            assert_ne!(
                tunable((backend, Pipeline::Ranked)),
                tunable((backend, Pipeline::Allen))
            );
        }
        let none = space(Backend::Reference, 1).unwrap();
        assert_eq!(
            (
                none.len(),
                varied(Backend::Reference, &none).unwrap().default()
            ),
            (1, Config(vec![]))
        );
    }

    #[test]
    fn only_results_for_the_same_banks_and_machine_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tune.sqlite");
        let tables = ut_data::synth::tables(BankVersion::V5, Grouping::default());
        let options = DecodeOptions::default();
        let here = || device(Backend::Cpu).unwrap();
        let decided = |device: &DeviceIdentity, batch: i64| {
            let (tunable, workload) = (tunable(Backend::Cpu), workload(&tables, &options).unwrap());
            let space = space(Backend::Cpu, device.sm_count as usize).unwrap();
            let mut config = varied(Backend::Cpu, &space).unwrap().default();
            config.0[1] = Value::Int(batch);
            let task = Task {
                device,
                tunable: &tunable,
                workload: &workload,
                space: &space,
            };
            let mut store = Store::open(&file).unwrap();
            let run = store.begin(&task, &Plan::default()).unwrap();
            let evidence = Evidence {
                chosen: Contender {
                    config,
                    time_ms: 1.0,
                    interval_ms: None,
                    samples: 1,
                },
                default: None,
                runner_up: None,
                tried: 1,
                failed: 0,
                valid: 1,
                launches: 1,
                stopped: String::new(),
                verdict: String::new(),
                details: None,
            };
            store.finish(run, Some(&evidence)).unwrap();
        };
        let found = |options: &DecodeOptions| {
            let locations = Locations { user: file.clone() };
            look_up(
                &locations,
                Backend::Cpu,
                &workload(&tables, options).unwrap(),
            )
            .unwrap()
        };
        assert_eq!(found(&options), None);
        decided(
            &DeviceIdentity {
                name: "another CPU".to_owned(),
                ..here()
            },
            2048,
        );
        assert_eq!(
            found(&options),
            None,
            "another machine's result is not used unvalidated"
        );
        decided(
            &DeviceIdentity {
                runtime: "0.0.1".to_owned(),
                ..here()
            },
            1024,
        );
        let TunedParameters {
            parameters,
            values,
            origin,
        } = found(&options).unwrap();
        assert_eq!(parameters.batch(), 1024);
        assert!(
            values.contains("batch=1024") && !values.contains("simd"),
            "{values}"
        );
        assert!(origin.contains("runtime 0.0.1 instead of"), "{origin}");
        decided(&here(), 512);
        assert_eq!(found(&options).unwrap().parameters.batch(), 512);
        assert_eq!(found(&options.with_clustering(false)), None);
    }
}
