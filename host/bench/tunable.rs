//! What the stores know of the decoders: the spaces that `tune` searches with a [`DecodeDevice`], what its results
//! belong to, and the lookup that `decode` and `throughput` make.
//!
//! [`DecodeDevice`]: super::decoding::DecodeDevice

use super::Machine;
use super::configuration::{self, Configuration, ConfigurationError};
use super::decoding::{self, configuration_of, of_kernels, parameters, value};
use crate::decoder::cpu::Simd;
use crate::decoder::cuda::{StartError, identify};
use crate::decoder::launch::Parameter;
use crate::decoder::ptx::Unit;
use crate::decoder::{Backend, DecodeOptions, Pipeline};
use crate::detector::DetectorTables;
use tuner::fnv::Fnv;
use tuner::space::{Space, SpaceError};
use tuner::store::{DeviceIdentity, Layers, StoreError, Task, TunableIdentity, Workload};
use tuner::{Config, SpaceBuilder, Value};

/// Raised when what was measured before no longer says anything about the CPU decoder.
const CPU_VERSION: u32 = 2;

/// The same for the kernels' pipeline, beside the kernels themselves.
const KERNELS_VERSION: u32 = 1;

/// How far a result for the CPU decoder may be relaxed and still be used without validation: runtime and platform. Any
/// configuration gives the same bits and none can fail, so a result of another version of this program on the same
/// machine is good enough; one of another machine is not. On a GPU another driver makes other code of the kernels,
/// which may not even launch: there it must match in everything.
const TRUSTED_CPU_STEP: u8 = 2;

/// Combinations of all candidates above which only those near the defaults are tried.
const MOST_COMBINATIONS: usize = 10_000;

/// Batches that are tried on a GPU, and streams.
const GPU_BATCHES: [i64; 3] = [256, 1024, 4096];
const GPU_STREAMS: [i64; 4] = [1, 2, 3, 4];

/// A decoder: a backend, and of the two sets of kernels the one that it runs, where it runs kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The backend.
    pub backend: Backend,
    /// Its kernels.
    pub pipeline: Pipeline,
}

impl From<Backend> for Subject {
    /// With the default pipeline.
    fn from(backend: Backend) -> Self {
        Self { backend, pipeline: Pipeline::default() }
    }
}

impl From<(Backend, Pipeline)> for Subject {
    fn from((backend, pipeline): (Backend, Pipeline)) -> Self {
        Self { backend, pipeline }
    }
}

/// What is used where nothing is tuned.
pub fn base(what: impl Into<Subject>) -> Configuration {
    let Subject { backend, pipeline } = what.into();
    let mut base = decoding::base(backend);
    base.decoder.pipeline = pipeline;
    base
}

/// The default of every parameter of a space of [`space`].
///
/// # Errors
/// When the backend has no such parameter.
pub fn default_config(what: impl Into<Subject>, space: &Space) -> Result<Config, ConfigurationError> {
    let what = what.into();
    let (backend, base) = (what.backend, base(what));
    let values = space.names().into_iter().map(|name| Ok(value(&base, configuration::parameter(backend, &name)?)));
    Ok(Config(values.collect::<Result<_, ConfigurationError>>()?))
}

/// Everything that a configuration of `space` sets.
///
/// # Errors
/// Values that cannot be, parameters that contradict each other.
pub fn configuration(
    what: impl Into<Subject>,
    space: &Space,
    config: &Config,
) -> Result<Configuration, ConfigurationError> {
    let what = what.into();
    let parameters = space.names().into_iter().map(|name| configuration::parameter(what.backend, &name));
    configuration_of(what.backend, &parameters.collect::<Result<Vec<_>, _>>()?, config, base(what))
}

/// What is tuned of a backend, on a machine with `cores` hardware threads.
///
/// On the CPU batches of 32 to 4096 events, chunks of 1 to 256 that leave every thread at least one, and 1 thread to
/// all (0). Layout and instructions are as they come: events lie in memory as a framework has them, and the widest
/// instructions are chosen by themselves.
///
/// Of the kernels all parameters that the pipeline looks at: all candidates, or, where these are too many, those from
/// half the default to four times as much in powers of two; on a GPU also batch and streams. The reference has only
/// what it is fed: one configuration.
///
/// # Errors
/// None that these declarations could have.
pub fn space(what: impl Into<Subject>, cores: usize) -> Result<Space, SpaceError> {
    let what = what.into();
    match what.backend {
        Backend::Reference => SpaceBuilder::new().build(),
        Backend::Cpu => cpu_space(cores),
        Backend::Emulated | Backend::Cuda => kernel_space(what),
    }
}

fn cpu_space(cores: usize) -> Result<Space, SpaceError> {
    let cores = cores.clamp(1, 1024) as i64;
    let fewer = (0..10).map(|power| 1 << power).filter(|&threads| threads < cores);
    let enough = move |values: &[&Value]| match values {
        [Value::Int(threads), Value::Int(chunk), Value::Int(batch)] => {
            let threads = if *threads == 0 { cores } else { *threads };
            chunk * threads <= *batch || (*batch, *chunk) == (256, 16)
        }
        _ => false,
    };
    SpaceBuilder::new()
        .ints("cpu.threads", std::iter::once(0).chain(fewer))
        .powers_of_two("cpu.chunk", 1, 256)
        .choices("cpu.simd", ["auto"])
        .powers_of_two("batch", 32, 4096)
        .choices("layout", ["allen"])
        .constraint_fn("every thread has a chunk", &["cpu.threads", "cpu.chunk", "batch"], enough)
        .build()
}

fn kernel_space(what: Subject) -> Result<Space, SpaceError> {
    let Subject { backend, pipeline } = what;
    // The fused pipeline's parameters are called after it; all others are of the other one.
    let looked_at = |parameter: &Parameter| {
        !of_kernels(parameter) || parameter.name.starts_with("fused.") == (pipeline == Pipeline::Fused)
    };
    let all_of_them = backend.parameters().iter().filter(|parameter| looked_at(parameter));
    let all = all_of_them.map(|parameter| parameter.candidates.len()).product::<usize>() <= MOST_COMBINATIONS;
    let worth = |parameter: &Parameter| {
        let near =
            |value: u32| value.is_power_of_two() && 2 * value >= parameter.default && value <= 4 * parameter.default;
        let candidates = parameter.candidates.iter().copied().filter(|&value| all || near(value));
        let mut values: Vec<u32> = candidates.chain([parameter.default]).collect();
        values.sort_unstable();
        values.dedup();
        values.into_iter().map(i64::from).collect::<Vec<i64>>()
    };
    let mut builder = SpaceBuilder::new();
    for parameter in parameters(backend) {
        builder = match parameter.name {
            "layout" => builder.choices(parameter.name, ["allen"]),
            "batch" if backend == Backend::Cuda => builder.ints(parameter.name, GPU_BATCHES),
            "batch" => builder.ints(parameter.name, [i64::from(parameter.default)]),
            "streams" => builder.ints(parameter.name, GPU_STREAMS),
            // What is tuned is one of the two.
            "pipeline" => builder,
            _ if !looked_at(parameter) => builder,
            _ => builder.ints(parameter.name, worth(parameter)),
        };
    }
    if pipeline == Pipeline::Fused {
        return builder.build();
    }
    // A block of both dimensions: whole warps, and not too many.
    let names = ["cluster.block_x", "cluster.block_y"];
    let valid = move |values: &[&Value]| {
        let mut configuration = base(what);
        let set = |(name, value): (&str, &&Value)| match value {
            Value::Int(number) => u32::try_from(*number).is_ok_and(|n| configuration.set(backend, name, n).is_ok()),
            _ => false,
        };
        names.into_iter().zip(values).all(set) && configuration.decoder.validate().is_ok()
    };
    builder.constraint_fn("the clustering block can be launched", &names, valid).build()
}

/// What measures a backend: this machine, or its first GPU.
///
/// # Errors
/// When there is no GPU that can run the kernels.
pub fn device(backend: Backend) -> Result<DeviceIdentity, StartError> {
    let machine = Machine::this();
    if backend == Backend::Cuda {
        let identity = identify(0)?;
        let (major, minor) = identity.gpu.capability;
        return Ok(DeviceIdentity {
            compute_capability: format!("{major}.{minor}"),
            sm_count: u32::try_from(identity.gpu.multiprocessors).unwrap_or_default(),
            uuid: identity.uuid,
            driver: driver_version().unwrap_or_else(|| format!("CUDA {}", identity.release)),
            // The kernels' own hash is the tunable thing's; what compiles them is the driver.
            runtime: String::new(),
            ..DeviceIdentity::named(identity.gpu.name, "CUDA")
        });
    }
    let simd = Simd::Auto.resolve().unwrap_or(Simd::Scalar).name();
    Ok(DeviceIdentity {
        compute_capability: format!("{} {simd}", std::env::consts::ARCH),
        sm_count: machine.cores as u32,
        runtime: machine.version,
        ..DeviceIdentity::named(machine.cpu.unwrap_or_else(|| "CPU".to_owned()), backend.name())
    })
}

/// The version of the NVIDIA driver as its maker counts; `None` where NVML does not tell.
fn driver_version() -> Option<String> {
    nvml_wrapper::Nvml::init().ok()?.sys_driver_version().ok()
}

/// The decoder of a backend as a tunable thing. On a GPU it is the kernels' text that counts: other kernels, other
/// times.
pub fn tunable(what: impl Into<Subject>) -> TunableIdentity {
    let Subject { backend, pipeline } = what.into();
    let mut identity = if backend.runs_kernels() {
        TunableIdentity::new(format!("{backend}-{pipeline}-decoder"), KERNELS_VERSION)
    } else {
        TunableIdentity::new(format!("{backend}-decoder"), CPU_VERSION)
    };
    if backend == Backend::Cuda {
        let mut hash = Fnv::default();
        for unit in Unit::PRODUCTION {
            hash.take(unit.text.as_bytes());
        }
        identity.kernel_hash = hash.to_string();
    }
    identity
}

/// What matters for the speed: format of the banks, grouping of the sectors, whether strips are clustered.
///
/// # Errors
/// None that these keys could have.
pub fn workload(tables: &DetectorTables, options: &DecodeOptions) -> Result<Workload, StoreError> {
    Workload::new()
        .with("banks", tables.boards().version.name())?
        .with("grouping", tables.grouping().name())?
        .with("clustering", options.clustering)
}

/// The same for events of a kind, as `ut-decode workloads` tells them apart: `pp-low`, or the name of a file.
///
/// # Errors
/// None that these keys could have.
pub fn workload_of(tables: &DetectorTables, options: &DecodeOptions, events: &str) -> Result<Workload, StoreError> {
    workload(tables, options)?.with("events", events)
}

/// A configuration that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunedConfiguration {
    /// It; what is not tuned has its default.
    pub configuration: Configuration,
    /// The values that were tuned, in words.
    pub values: String,
    /// Where it comes from, in words.
    pub origin: String,
}

/// What the stores know of a backend here for a workload, which is never taken for another one. `None` where nothing
/// was tuned, or where the backend cannot run: the default is then to be used.
///
/// # Errors
/// Those of reading the stores.
pub fn look_up(
    layers: &Layers,
    what: impl Into<Subject>,
    workload: &Workload,
) -> Result<Option<TunedConfiguration>, StoreError> {
    let what = what.into();
    let backend = what.backend;
    let Ok(device) = device(backend) else { return Ok(None) };
    let tunable = tunable(what);
    let bad = |error: SpaceError| StoreError::BadKey { what: format!("{backend}'s space"), why: error.to_string() };
    let space = space(what, device.sm_count as usize).map_err(bad)?;
    let task = Task { device: &device, tunable: &tunable, workload, space: &space };
    let trusted = if backend.runs_kernels() { 0 } else { TRUSTED_CPU_STEP };
    let Some(found) = layers.find(&task)?.into_iter().find(|found| found.step() <= trusted) else { return Ok(None) };
    let Ok(configuration) = configuration(what, &space, &found.config) else { return Ok(None) };
    let chosen = space.parameters().iter().filter(|parameter| parameter.values().len() > 1).map(tuner::Parameter::name);
    let kept = default_config(what, &space).is_ok_and(|default| default == found.config);
    let values = if kept { "the default, which was kept".to_owned() } else { configuration.text(chosen) };
    Ok(Some(TunedConfiguration { configuration, values, origin: found.in_words() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detector::{BankVersion, Grouping};
    use tuner::store::{Contender, Evidence, Locations, Matching, Plan, Store};

    #[test]
    fn the_default_is_in_the_space_of_every_machine_and_all_of_it_can_be_set() {
        for cores in [1, 2, 3, 8, 48, 192, 100_000] {
            let space = space(Backend::Cpu, cores).unwrap();
            assert!(space.index_of(&default_config(Backend::Cpu, &space).unwrap()).is_some(), "{cores} cores");
            for index in 0..space.len() {
                let configuration = configuration(Backend::Cpu, &space, &space.config(index)).unwrap();
                assert!(configuration.decoder.cpu.threads < cores.max(2));
            }
        }
        for backend in [Backend::Emulated, Backend::Cuda] {
            let mut tuned = Vec::new();
            for pipeline in Pipeline::ALL {
                let what = Subject { backend, pipeline };
                let space = space(what, 1).unwrap();
                let default = default_config(what, &space).unwrap();
                assert_eq!(configuration(what, &space, &default), Ok(base(what)), "{what:?}");
                assert!(space.index_of(&default).is_some(), "{what:?}");
                tuned.extend(space.names());
                for index in (0..space.len()).step_by((space.len() / 500).max(1)) {
                    let configuration = configuration(what, &space, &space.config(index)).unwrap();
                    assert_eq!(configuration.decoder.pipeline, pipeline);
                }
                assert!((100..1_000_000).contains(&space.len()), "{what:?}: {}", space.len());
            }
            assert!(
                backend.parameters().iter().all(|parameter| tuned.iter().any(|name| name == parameter.name)),
                "{tuned:?}"
            );
            assert_ne!(tunable((backend, Pipeline::Fused)), tunable((backend, Pipeline::Allen)));
        }
        let none = space(Backend::Reference, 1).unwrap();
        assert_eq!((none.len(), default_config(Backend::Reference, &none).unwrap()), (1, Config(vec![])));
    }

    #[test]
    fn what_was_tuned_for_these_banks_on_this_machine_is_found_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tune.sqlite");
        let (boards, geometry) = crate::synth::detector(BankVersion::V5, 1);
        let tables = DetectorTables::new(boards, geometry, Grouping::default()).unwrap();
        let options = DecodeOptions::default();
        let here = || device(Backend::Cpu).unwrap();
        let decided = |device: &DeviceIdentity, batch: i64| {
            let (tunable, workload) = (tunable(Backend::Cpu), workload(&tables, &options).unwrap());
            let space = space(Backend::Cpu, device.sm_count as usize).unwrap();
            let mut config = default_config(Backend::Cpu, &space).unwrap();
            config.0[3] = Value::Int(batch);
            let task = Task { device, tunable: &tunable, workload: &workload, space: &space };
            let mut store = Store::open(&file).unwrap();
            let run = store.begin(&task, &Plan { strategy: String::new(), seed: 0, budget: String::new() }).unwrap();
            let evidence = Evidence {
                chosen: Contender { config, time_ms: 1.0, interval_ms: None, samples: 1 },
                default: None,
                runner_up: None,
                tried: 1,
                failed: 0,
                valid: 1,
                launches: 1,
                stopped: String::new(),
                expected_gain: None,
                verdict: String::new(),
                details: None,
            };
            store.decide(run, &evidence).unwrap();
        };
        let found = |options: &DecodeOptions| {
            let locations = Locations { user: file.clone(), shipped: None, matching: Matching::Nearest };
            look_up(&Layers::open(locations).unwrap(), Backend::Cpu, &workload(&tables, options).unwrap()).unwrap()
        };
        assert_eq!(found(&options), None);
        decided(&DeviceIdentity { name: "another CPU".to_owned(), ..here() }, 2048);
        assert_eq!(found(&options), None, "another machine's result is not used unvalidated");
        decided(&DeviceIdentity { runtime: "0.0.1".to_owned(), ..here() }, 1024);
        let TunedConfiguration { configuration, values, origin } = found(&options).unwrap();
        assert_eq!((configuration.batch, configuration.decoder.cpu.chunk), (1024, 16));
        assert!(values.contains("cpu.chunk=16,batch=1024") && !values.contains("simd"), "{values}");
        assert!(origin.contains("runtime 0.0.1 instead of"), "{origin}");
        decided(&here(), 512);
        assert_eq!(found(&options).unwrap().configuration.batch, 512);
        assert_eq!(found(&DecodeOptions { clustering: false, ..options }), None);
    }
}
