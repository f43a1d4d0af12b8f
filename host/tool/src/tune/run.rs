//! `ut-decode tune run`: finds good launch parameters of the decoder, and keeps them.

use std::path::Path;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use tuner_command::session::{SessionArgs, tune_target};
use tuner_command::store::open_to_measure;
use ut_bench::environment::watch;
use ut_decoders::{Backend, Pipeline};

use super::HOST;
use super::target::{process, target_of};
use crate::args::one_of;
use crate::paths::Protected;
use crate::trial::EventsArgs;
use crate::{Failure, usage};

/// Backends that can be tuned.
const TUNED: [Backend; 3] = [Backend::Cpu, Backend::Cuda, Backend::Emulated];

/// Search for good launch parameters and keep them, where `decode` and `throughput` find them.
///
/// Every measurement is kept at once: after a kill, the same command continues where it stopped. The winner of the
/// search is measured again, taking turns with the default, and replaces it only if it is faster again.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Decoder to tune: cpu, cuda (the kernels on the first NVIDIA GPU), or emulated (the kernels on the CPU, for
    /// experiments).
    #[arg(long, value_name = "BACKEND", default_value = "cpu", value_parser = one_of!(TUNED, Backend::name))]
    pub backend: Backend,
    /// Kernels of cuda and emulated: fused (two launches) or allen (seven kernels in nine launches) [default: fused on
    /// a GPU, else allen].
    #[arg(long, value_name = "NAME", value_parser = one_of!(Pipeline::ALL, Pipeline::name))]
    pub pipeline: Option<Pipeline>,
    #[command(flatten)]
    pub session: SessionArgs,
    #[command(flatten)]
    pub sample: EventsArgs,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    if args.pipeline.is_some() && !args.backend.runs_kernels() {
        usage("--pipeline chooses between kernels, for --backend cuda and emulated");
    }
    if let Some(directory) = &args.session.report {
        check_report(args, directory);
    }
    let target = target_of(args)?;
    let device = &mut *process(args, &target)?;
    let (mut store, _alone) = open_to_measure(&HOST)?;
    let mut watch = watch(args.backend, args.session.watch.limits());
    tune_target(&HOST, &args.session, &target, device, &mut store, &mut *watch)
}

/// Ends the program if the report could overwrite an input. The number of the run is not known yet, so no input may
/// have the name of any run's report.
fn check_report(args: &Args, directory: &Path) {
    let mut protected = Protected::inputs(&args.sample.files);
    protected.add_unnamed();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(b"run-") {
            protected.check(&entry.path()).unwrap_or_else(|message| usage(&format!("--report: {message}")));
        }
    }
}
