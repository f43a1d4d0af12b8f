//! `ut-decode tune run`: finds good launch parameters of the decoder, and keeps them.
//!
//! Options, the device, the sample and the start of the measuring process are checked before the
//! store is locked for measuring. The lock makes two tunings on one machine wait for each other.

use std::path::Path;

use tuner_command::session::tune_target;
use tuner_command::store::open_to_measure;
use ut_bench::environment::watch;

use super::HOST;
use super::target::{Args, process, target_of};
use crate::paths::Protected;
use crate::{Failure, usage};

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
    tune_target(
        &HOST,
        &args.session,
        &target,
        device,
        &mut store,
        &mut *watch,
    )
}

/// Ends the program if the report could overwrite an input. The number of the run is not known yet,
/// so no input may have the name of any run's report.
fn check_report(args: &Args, directory: &Path) {
    let mut protected = Protected::inputs(&args.sample.files);
    protected.add_unnamed();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(b"run-") {
            protected
                .check(&entry.path())
                .unwrap_or_else(|message| usage(&format!("--report: {message}")));
        }
    }
}
