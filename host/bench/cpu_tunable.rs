//! What the stores know of the CPU decoder: the space that `tune` searches with a [`DecodeDevice`], what its results
//! belong to, and the lookup that `decode` and `throughput` make.
//!
//! [`DecodeDevice`]: super::decoding::DecodeDevice

use super::Machine;
use super::decoding::{self, knobs};
use super::setting::SettingError;
use crate::backend::cpu::{CpuConfig, Simd};
use crate::backend::{Backend, DecodeOptions};
use crate::detector::DetectorTables;
use crate::tuning::space::{Space, SpaceError};
use crate::tuning::store::{DeviceIdentity, Layers, StoreError, Task, TunableIdentity, Workload};
use crate::tuning::{Config, SpaceBuilder, Value};

/// Raised when what was measured before no longer says anything about this decoder.
const VERSION: u32 = 2;

/// How far a result may be relaxed and still be used without validation: runtime and platform. Any configuration gives
/// the same bits and none can fail, so a result of another version of this program on the same machine is good enough;
/// one of another machine is not.
const TRUSTED_STEP: u8 = 2;

/// Events of a batch and the decoder's configuration, as they were tuned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuLaunch {
    /// Events of a batch.
    pub batch: usize,
    /// The decoder's configuration.
    pub cpu: CpuConfig,
}

impl CpuLaunch {
    /// From a configuration in the order of [`knobs`].
    pub fn of(config: &Config) -> Option<Self> {
        let setting = decoding::setting_of(Backend::Cpu, &knobs(Backend::Cpu), config, decoding::base(Backend::Cpu));
        setting.ok().map(|setting| Self { batch: setting.batch, cpu: setting.knobs.cpu })
    }
}

/// What is used where nothing is tuned.
///
/// # Errors
/// None: the empty text means the default of every knob.
pub fn default_config() -> Result<Config, SettingError> {
    decoding::parse(Backend::Cpu, "")
}

/// The space of a machine with `cores` hardware threads: batches of 32 to 4096 events, chunks of 1 to 256 that leave every
/// thread at least one, and 1 thread to all (0). Layout and instructions are as they come: events lie in memory as a
/// framework has them, and the widest instructions are chosen by themselves.
///
/// # Errors
/// None that this declaration could have.
pub fn space(cores: usize) -> Result<Space, SpaceError> {
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

/// This machine as a device.
pub fn device() -> DeviceIdentity {
    let machine = Machine::this();
    let simd = format!("{:?}", Simd::Auto.resolve().unwrap_or(Simd::Scalar)).to_ascii_lowercase();
    DeviceIdentity {
        compute_capability: format!("{} {simd}", std::env::consts::ARCH),
        sm_count: machine.cores as u32,
        runtime: machine.version,
        ..DeviceIdentity::named(machine.cpu.unwrap_or_else(|| "CPU".to_owned()), "cpu")
    }
}

/// The decoder as a tunable thing.
pub fn tunable() -> TunableIdentity {
    TunableIdentity::new("cpu-decoder", VERSION)
}

/// What matters for the speed: format of the banks, grouping of the sectors, whether strips are clustered.
///
/// # Errors
/// None that these keys could have.
pub fn workload(tables: &DetectorTables, options: &DecodeOptions) -> Result<Workload, StoreError> {
    Workload::new()
        .with("banks", tables.boards.version.name())?
        .with("grouping", tables.grouping.name())?
        .with("clustering", options.clustering)
}

/// The same for events of a kind, as `ut-decode workloads` tells them apart: `pp-low`, or the name of a file.
///
/// # Errors
/// None that these keys could have.
pub fn workload_of(tables: &DetectorTables, options: &DecodeOptions, events: &str) -> Result<Workload, StoreError> {
    workload(tables, options)?.with("events", events)
}

/// What the stores know of this machine for these banks: the best launch, and where it comes from, in words. `None` where
/// nothing was tuned; the default is then to be used.
///
/// # Errors
/// Those of reading the stores.
pub fn look_up(
    layers: &Layers,
    tables: &DetectorTables,
    options: &DecodeOptions,
) -> Result<Option<(CpuLaunch, String)>, StoreError> {
    look_up_for(layers, &workload(tables, options)?)
}

/// The same for a workload, which is never taken for another one.
///
/// # Errors
/// Those of reading the stores.
pub fn look_up_for(layers: &Layers, workload: &Workload) -> Result<Option<(CpuLaunch, String)>, StoreError> {
    let (device, tunable) = (device(), tunable());
    let bad =
        |error: SpaceError| StoreError::BadKey { what: "the CPU decoder's space".to_owned(), why: error.to_string() };
    let space = space(device.sm_count as usize).map_err(bad)?;
    let task = Task { device: &device, tunable: &tunable, workload, space: &space };
    let found = layers.find(&task)?.into_iter().find(|found| found.step() <= TRUSTED_STEP);
    Ok(found.and_then(|found| Some((CpuLaunch::of(&found.config)?, found.in_words()))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detector::{BankVersion, Grouping};
    use crate::tuning::store::{Contender, Evidence, Locations, Matching, Plan, Store};

    #[test]
    fn the_default_is_in_the_space_of_every_machine() {
        for cores in [1, 2, 3, 8, 48, 192, 100_000] {
            let space = space(cores).unwrap();
            let default = default_config().unwrap();
            assert!(space.index_of(&default).is_some(), "{cores} cores");
            for index in 0..space.len() {
                let launch = CpuLaunch::of(&space.config(index)).unwrap();
                assert!(launch.cpu.threads < cores.max(2));
            }
            assert_eq!(space.names(), knobs(Backend::Cpu).iter().map(|knob| knob.name).collect::<Vec<_>>());
        }
        assert_eq!(CpuLaunch::of(&Config(vec![Value::Int(1)])), None);
    }

    #[test]
    fn what_was_tuned_for_these_banks_on_this_machine_is_found_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tune.sqlite");
        let (boards, geometry) = crate::synth::detector(BankVersion::V5, 1);
        let tables = DetectorTables::new(boards, geometry, Grouping::default()).unwrap();
        let options = DecodeOptions::default();
        let decided = |device: &DeviceIdentity, batch: i64| {
            let (tunable, workload) = (tunable(), workload(&tables, &options).unwrap());
            let space = space(device.sm_count as usize).unwrap();
            let mut config = default_config().unwrap();
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
            };
            store.decide(run, &evidence).unwrap();
        };
        let found = |options: &DecodeOptions| {
            let locations = Locations { user: file.clone(), shipped: None, matching: Matching::Nearest };
            look_up(&Layers::open(locations).unwrap(), &tables, options).unwrap()
        };
        assert_eq!(found(&options), None);
        decided(&DeviceIdentity { name: "another CPU".to_owned(), ..device() }, 2048);
        assert_eq!(found(&options), None, "another machine's result is not used unvalidated");
        decided(&DeviceIdentity { runtime: "0.0.1".to_owned(), ..device() }, 1024);
        let (launch, words) = found(&options).unwrap();
        assert_eq!((launch.batch, launch.cpu.chunk), (1024, 16));
        assert!(words.contains("runtime 0.0.1 instead of"), "{words}");
        decided(&device(), 512);
        assert_eq!(found(&options).unwrap().0.batch, 512);
        assert_eq!(found(&DecodeOptions { clustering: false, ..options }), None);
    }
}
