//! Decoder as the target of a tuning, and the process that measures it.
//!
//! A configuration may crash the driver, or hang. So the decoder runs in a second process of this
//! program: `tune run` starts `tune measure` with the arguments it was given, sends configurations
//! to its standard input, and reads times from its standard output. A configuration whose process
//! dies or answers late counts as failed, and the next one gets a new process.

use std::ffi::OsString;
use std::process::Command;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use tuner::Device;
use tuner::objective::Objective;
use tuner::process::{ProcessDevice, refuse, serve_standard_streams};
use tuner_command::session::{SessionArgs, Target};
use ut_bench::tunable::{self, Subject};
use ut_data::Layout;
use ut_decoders::{Backend, Pipeline};
use ut_report::Detector;

use crate::args::one_of;
use crate::trial::EventsArgs;
use crate::{Failure, INVOCATION, config, signals, trial};
use ut_data::error::with_causes;

/// Backends that can be tuned.
const TUNED: [Backend; 3] = [Backend::Cpu, Backend::Cuda, Backend::Emulated];

/// Search for good launch parameters and keep them, where `decode` and `throughput` find them.
///
/// Every measurement is kept at once: after a kill, the same command continues where it stopped.
/// The winner of the search is measured again, taking turns with the default, and replaces it only
/// if it is faster again.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Decoder to tune: cpu, cuda (the kernels on the first NVIDIA GPU), or emulated (the kernels
    /// on the CPU, for experiments).
    #[arg(long, value_name = "BACKEND", default_value = "cpu", value_parser = one_of!(TUNED, Backend::name))]
    pub backend: Backend,
    /// Kernels of cuda and emulated: ranked (five) or allen (seven kernels in nine launches)
    /// [default: ranked].
    #[arg(long, value_name = "NAME", value_parser = crate::args::pipeline())]
    pub pipeline: Option<Pipeline>,
    #[command(flatten)]
    pub session: SessionArgs,
    #[command(flatten)]
    pub sample: EventsArgs,
}

/// Default budget.
const BUDGET: &str = "evaluations=60,time=120";

/// Number of configurations that are kept ready: the default, and the candidates of a race.
pub const KEPT: usize = 20;

pub fn target_of(args: &Args) -> Result<Target, Failure> {
    // A missing device is reported before errors of the files.
    tunable::device(args.backend)?;
    decoder(
        subject(args.backend, args.pipeline),
        &args.sample,
        &args.sample.detector()?,
    )
}

/// Describes a decoder as a target.
pub fn decoder(what: Subject, sample: &EventsArgs, detector: &Detector) -> Result<Target, Failure> {
    let device = tunable::device(what.backend)?;
    let space = tunable::space(what, device.sm_count as usize)?;
    Ok(Target {
        tunable: tunable::tunable(what),
        workload: tunable::workload(&detector.tables, &config::options())?,
        default: Some(tunable::varied(what, &space)?.default()),
        sample: sample.identity(detector),
        space,
        device,
        budget: BUDGET,
        objective: Objective::Time,
    })
}

/// Makes the device: this program in another process, which a configuration may crash.
pub fn process(args: &Args, target: &Target) -> Result<Box<dyn Device>, Failure> {
    let invocation = INVOCATION
        .get()
        .ok_or("cannot tell how this program was started")?;
    let (program, first) = invocation
        .again
        .split_first()
        .ok_or("cannot tell how to start this program again")?;
    let mut command = Command::new(program);
    command.args(first).args(measuring(&invocation.args));
    let mut device = ProcessDevice::new(target.device.name.as_str(), command, args.session.timeout);
    if args.backend == Backend::Cuda {
        device = device.fresh_after_failures();
    }
    device.start()?;
    Ok(Box::new(device))
}

/// Turns the arguments of `tune run` into arguments of `tune measure`, which makes the same device
/// from the arguments.
///
/// Only the first `run` after `tune` is the subcommand; later ones may be names of files.
fn measuring(args: &[OsString]) -> Vec<OsString> {
    let tune = args
        .iter()
        .position(|arg| arg == "tune")
        .unwrap_or_default();
    let run = args
        .iter()
        .skip(tune)
        .position(|arg| arg == "run")
        .map(|place| tune + place);
    let with = |(place, arg): (usize, &OsString)| {
        if Some(place) == run {
            "measure".into()
        } else {
            arg.clone()
        }
    };
    args.iter().enumerate().map(with).collect()
}

/// Returns the backend with the requested kernels.
pub fn subject(backend: Backend, pipeline: Option<Pipeline>) -> Subject {
    Subject {
        backend,
        pipeline: pipeline.unwrap_or_default(),
    }
}

/// Measures for standard input: the other side of [`process`].
pub fn measure(args: &Args) -> Result<(), Failure> {
    signals::be_silent();
    // The other process waits for a line on standard output.
    serve(args).or_else(|error| Ok(refuse(&with_causes(error.as_ref()))?))
}

fn serve(args: &Args) -> Result<(), Failure> {
    let (detector, events, _) = args.sample.load()?;
    let Target { space, default, .. } = target_of(args)?;
    let varied = tunable::varied(subject(args.backend, args.pipeline), &space)?;
    let mut device = trial::device(varied, &detector, events).keeping(KEPT);
    device
        .expect(Layout::Allen)
        .map_err(|failure| failure.message)?;
    if let (Backend::Cuda, Some(default)) = (args.backend, &default) {
        // The driver compiles the kernels at their first use. An error shows again in the
        // measurement.
        let _ = device.measure(default, 1);
    }
    Ok(serve_standard_streams(&mut device)?)
}
