//! `ut-decode tune chain`: tunes the decoder in groups of parameters, for several kinds of data.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use tuner::chain::file::{ChainFile, WorkloadEntry};
use tuner::chain::tune::Subject;
use tuner::chain::{Chain, Member};
use tuner::store::Workload;
use tuner::watch::Watch;
use tuner::{Config, Space, Value};
use tuner_command::chain::{self, Make};
use tuner_command::session::Target;
use ut_bench::decoding::DecodeDevice;
use ut_bench::environment::watch;
use ut_bench::tunable::{self, varied};
use ut_data::input::EventBatch;
use ut_data::synth::Profile;
use ut_decoders::{Backend, Pipeline};
use ut_report::Detector;

use super::HOST;
use super::target::{KEPT, decoder, subject};
use crate::args::{DetectorArgs, one_of};
use crate::sample::{MAX_EVENTS, Synthetic, embedded, identity, read};
use crate::trial::EventsArgs;
use crate::{Failure, config};

/// Largest batch where there are several workloads: a batch of lead collisions takes half a
/// megabyte an event, and several sets are held.
///
/// So a set of batches takes half a gigabyte.
const LARGEST_BATCH: i64 = 1024;

/// Number of strips for which events of a profile are made, if banks held nothing but strips.
///
/// So the banks of a workload have 4 MB, busy or quiet, and take about as long to measure. That is
/// 180 events of `pp-nominal`, which have 22 kB each. A workload has 50 events at least.
const STRIPS: usize = 2_000_000;

const FILE: &str = "\
CHAIN is a TOML file (docs/tuning.md). Groups consist of parameters; `cluster` means all that begin with `cluster.`:

  [[group]]
  together = [\"batch\", \"threads\"]

  [[workload]]
  name = \"pp-high\"
  events = [\"run1.mdf\"]

Without a group all parameters are tuned together; else those in no group one by one. A workload without events has
the synthetic events of the profile of its name.";

/// Tune the decoder in groups of parameters, for each workload, and say what each parameter set
/// costs on each of them.
///
/// The decision for a workload is kept in the store under its name: only `decode --workload NAME`
/// uses it.
#[derive(Debug, clap::Args)]
#[command(after_help = FILE)]
pub struct Args {
    #[command(flatten)]
    chain: chain::Args,
    /// Decoder to tune.
    #[arg(long, default_value = "cpu", value_parser = one_of!(Backend::ALL, Backend::name))]
    backend: Backend,
    /// Kernels of cuda and emulated: ranked or allen [default: ranked].
    #[arg(long, value_name = "NAME", value_parser = crate::args::pipeline())]
    pipeline: Option<Pipeline>,
    #[command(flatten)]
    sample: EventsArgs,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let file = ChainFile::read(&args.chain.file)?;
    if !file.kernels.is_empty() {
        return Err("a chain of programs is tuned by the command `tuner`: tuner chain FILE".into());
    }
    let mut files = args.sample.files.clone();
    files.extend(file.workloads.iter().flat_map(|load| load.events.clone()));
    let detector = DetectorArgs::default().load(&files)?;
    chain::run(
        &HOST,
        &args.chain,
        &mut Decoders {
            args,
            detector: &detector,
        },
    )
}

/// Maker of the decoder's chains.
struct Decoders<'d> {
    args: &'d Args,
    detector: &'d Detector,
}

impl<'d> Make<'d> for Decoders<'d> {
    fn subject(
        &mut self,
        _: &chain::Args,
        file: &ChainFile,
        load: Option<&WorkloadEntry>,
    ) -> Result<Subject<'d>, Failure> {
        let (args, detector) = (self.args, self.detector);
        let what = subject(args.backend, args.pipeline);
        let mut target = decoder(what, &args.sample, detector)?;
        let events = match load {
            None => args.sample.load()?.1,
            Some(load) => {
                let (source, events) = events_of(load, detector)?;
                target.workload =
                    tunable::workload_of(&detector.tables, &config::options(), &load.name)?;
                (target.sample, target.space) = (source, without_large_batches(&target.space)?);
                events
            }
        };
        let Target {
            device,
            tunable,
            workload,
            sample,
            space,
            default,
            ..
        } = target;
        let decoder = DecodeDevice::new(
            &detector.tables,
            config::options(),
            events,
            varied(what, &space)?,
        )
        .keeping(KEPT);
        let member = Member {
            name: tunable.name.clone(),
            prefix: String::new(),
            device: Box::new(decoder),
            space: space.clone(),
            default,
            apart: !file.groups.is_empty(),
        };
        Ok(Subject {
            chain: Chain::new(vec![member], file, &std::collections::BTreeMap::new())?,
            load: load.map(|load| load.name.clone()).unwrap_or_default(),
            weight: load.map_or(1.0, |load| load.weight),
            device,
            tunable,
            workload,
            sample,
            space: Some(space),
        })
    }

    fn any(&self, _: &chain::Args, _: &ChainFile) -> Result<Workload, Failure> {
        Ok(tunable::workload(
            &self.detector.tables,
            &config::options(),
        )?)
    }

    fn rounds(&self) -> usize {
        4
    }

    fn watch(&self, args: &chain::Args) -> Box<dyn Watch> {
        watch(self.args.backend, args.watch().limits())
    }
}

/// Loads the events of a workload, and returns them after a key that tells them from other events.
fn events_of(
    load: &WorkloadEntry,
    detector: &Detector,
) -> Result<(String, Vec<EventBatch>), Failure> {
    let name = &load.name;
    if !load.events.is_empty() {
        let events = read(&load.events, detector, MAX_EVENTS)?;
        if events.iter().all(|batch| batch.n_events == 0) {
            return Err(format!("{name}: there is no event").into());
        }
        return Ok((identity(name, &load.events, detector), events));
    }
    let profile = Profile::ALL
        .into_iter()
        .find(|profile| profile.name() == name);
    let profile = profile.ok_or_else(|| {
        let profiles = Profile::ALL.map(Profile::name).join(", ");
        format!("workload {name}: it names no events, and is none of the profiles {profiles}")
    })?;
    let events = Synthetic {
        profile,
        ..Synthetic::default()
    };
    let few = embedded(events, 10)?;
    // A strip is 2 bytes.
    let n = (20 * STRIPS / few.raw.len().max(1)).clamp(50, 1000);
    Ok((
        identity(name, &[] as &[PathBuf], detector),
        vec![embedded(events, n)?],
    ))
}

/// Returns the decoder's space, without batches that would fill the memory.
///
/// A smaller space is a recorded list of the rows that remain.
fn without_large_batches(all: &Space) -> Result<Space, Failure> {
    let names = all.names();
    let batch = names.iter().position(|name| name == "batch");
    let fits = |config: &Config| {
        batch.is_none_or(
            |place| matches!(config.0[place], Value::Int(batch) if batch <= LARGEST_BATCH),
        )
    };
    let rows = (0..all.len())
        .map(|index| all.config(index))
        .filter(fits)
        .map(|config| config.0);
    Ok(Space::recorded(&names, &rows.collect::<Vec<_>>())?.0)
}
