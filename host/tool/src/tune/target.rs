//! Target of `tune run`, and the process that measures it.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use tuner::cli::Program;
use tuner::interchange::{fingerprint, read_recording, workload_of};
use tuner::objective::Objective;
use tuner::process::{ProcessDevice, refuse, serve_standard_streams};
use tuner::store::{DeviceIdentity, TunableIdentity, Workload};
use tuner::watch::{NoWatch, Watch};
use tuner::{Config, Device, Noise, Recording, Replay, Space};
use ut_bench::tunable::{self, Subject};
use ut_data::Layout;
use ut_decoders::{Backend, Pipeline};
use ut_report::Detector;

use super::run_args::{Args, DeviceSpec};
use crate::config;
use crate::trial::EventsArgs;
use crate::{Failure, INVOCATION, signals, trial, usage};
use ut_data::error::with_causes;

/// Default budget of a program or a recording.
const BUDGET: &str = "evaluations=120";

/// Default budget of a decoder.
const DECODER_BUDGET: &str = "evaluations=60,time=120";

/// Configurations that are kept ready: the default, and those of a race.
const KEPT: usize = 20;

/// Decoder, program or recording to be tuned, with its identity in a store.
pub struct Target {
    pub device: DeviceIdentity,
    pub tunable: TunableIdentity,
    pub workload: Workload,
    pub space: Space,
    pub default: Option<Config>,
    /// Events or recording, where the workload does not name them.
    pub sample: String,
    pub budget: &'static str,
    pub objective: Objective,
    program: Option<Program>,
}

impl Target {
    pub fn of(args: &Args) -> Result<Self, Failure> {
        let decodes = args.program.command.is_none() && matches!(args.backend, DeviceSpec::Decoder(_));
        if let (Some(file), false) = (args.sample.files.first(), decodes) {
            usage(&format!("{}: only a decoder takes files of events", file.display()));
        }
        if let Some(program) = args.program.program()? {
            return Ok(Self {
                device: program.device.clone(),
                tunable: program.tunable.clone(),
                workload: program.workload.clone(),
                space: program.space.clone(),
                default: program.default.clone(),
                sample: program.sample.clone(),
                budget: BUDGET,
                objective: program.objective,
                program: Some(program),
            });
        }
        match &args.backend {
            DeviceSpec::Decoder(backend) => {
                // A missing device is reported before errors of the files.
                tunable::device(*backend)?;
                let detector = args.sample.detector()?;
                Self::decoder(subject(*backend, args), &args.sample, &detector)
            }
            DeviceSpec::Replay(file) => Ok(Self::recorded(file)?.0),
        }
    }

    /// Makes the target of a decoder.
    pub fn decoder(what: impl Into<Subject>, sample: &EventsArgs, detector: &Detector) -> Result<Self, Failure> {
        let what = what.into();
        let device = tunable::device(what.backend)?;
        let space = tunable::space(what, device.sm_count as usize)?;
        Ok(Self {
            tunable: tunable::tunable(what),
            workload: tunable::workload(&detector.tables, &config::options())?,
            default: Some(tunable::varied(what, &space)?.default()),
            sample: sample.identity(detector),
            space,
            device,
            budget: DECODER_BUDGET,
            objective: Objective::Time,
            program: None,
        })
    }

    /// Reads a recorded space as a target.
    pub fn recorded(file: &Path) -> Result<(Self, Recording), Failure> {
        let recording = read_recording(file)?;
        let target = Self {
            device: DeviceIdentity::named(recording.device.clone(), "replay"),
            // Not the kernel's own name: a replay's decision must not be taken for a measurement.
            tunable: TunableIdentity::new(format!("replay of {}", recording.kernel), 0),
            workload: workload_of(&recording)?,
            space: recording.space.clone(),
            default: None,
            // Two recordings of a kernel may differ only in their times.
            sample: format!("recording {}", fingerprint(&recording)),
            budget: BUDGET,
            objective: Objective::Time,
            program: None,
        };
        Ok((target, recording))
    }

    /// Returns a watch for the device; a recording needs none.
    pub fn watch(args: &Args) -> Box<dyn Watch> {
        match args.backend {
            DeviceSpec::Decoder(backend) => args.watch.watch(backend),
            DeviceSpec::Replay(_) => Box::new(NoWatch),
        }
    }

    /// Makes the device: the program that is tuned, or this program in another process, which a configuration may
    /// crash.
    pub fn process(&self, args: &Args) -> Result<Box<dyn Device>, Failure> {
        let time_out = args.timeout();
        if let Some(program) = &self.program {
            return Ok(args.program.device(program, time_out)?);
        }
        let invocation = INVOCATION.get().ok_or("how this program was started is not known")?;
        let (program, first) = invocation.again.split_first().ok_or("how to start this program again is not known")?;
        let mut command = Command::new(program);
        command.args(first).args(measuring(&invocation.args));
        let mut device = ProcessDevice::new(self.device.name.as_str(), command, time_out);
        if matches!(args.backend, DeviceSpec::Decoder(Backend::Cuda)) {
            device = device.fresh_after_failures();
        }
        device.start()?;
        Ok(Box::new(device))
    }
}

/// Turns the arguments of `tune run` into those of `tune measure`, which makes the same device of them.
fn measuring(args: &[OsString]) -> Vec<OsString> {
    let tune = args.iter().position(|arg| arg == "tune").unwrap_or_default();
    let run = args.iter().skip(tune).position(|arg| arg == "run").map(|place| tune + place);
    let with = |(place, arg): (usize, &OsString)| if Some(place) == run { "measure".into() } else { arg.clone() };
    args.iter().enumerate().map(with).collect()
}

/// Returns the backend with the requested kernels.
fn subject(backend: Backend, args: &Args) -> Subject {
    Subject { backend, pipeline: args.pipeline.unwrap_or_else(|| Pipeline::default_for(backend)) }
}

/// Measures for standard input: the other side of [`Target::process`].
pub fn measure(args: &Args) -> Result<(), Failure> {
    signals::be_silent();
    // The other process waits for a line on standard output.
    serve(args).or_else(|error| Ok(refuse(&with_causes(error.as_ref()))?))
}

fn serve(args: &Args) -> Result<(), Failure> {
    match &args.backend {
        DeviceSpec::Decoder(backend) => {
            let (detector, events, _) = args.sample.load()?;
            let Target { space, default, .. } = Target::of(args)?;
            let varied = tunable::varied(subject(*backend, args), &space)?;
            let mut device = trial::device(varied, &detector, events).keeping(KEPT);
            device.expect(Layout::Allen).map_err(|failure| failure.message)?;
            if let (Backend::Cuda, Some(default)) = (backend, &default) {
                // The driver compiles the kernels at their first use. An error shows again in the measurement.
                let _ = device.measure(default, 1);
            }
            serve_standard_streams(&mut device)?;
        }
        DeviceSpec::Replay(file) => {
            let noise = Noise::Resampled { seed: args.seed };
            serve_standard_streams(&mut Replay::new(read_recording(file)?, noise))?;
        }
    }
    Ok(())
}
