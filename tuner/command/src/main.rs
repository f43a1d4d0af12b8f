//! `tuner`: finds good parameters of any program, and keeps them.

#![allow(
    rustdoc::invalid_html_tags,
    reason = "the comments on options are the text of --help"
)]

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tuner::store::{DeviceIdentity, TunableIdentity};
use tuner::watch::cpu::{CpuWatch, System};
use tuner::watch::{NoWatch, Watch};
use tuner_command::program::{Program, ProgramArgs};
use tuner_command::session::{SessionArgs, Target, check_outputs, tune_target};
use tuner_command::store::{open, open_to_measure};
use tuner_command::{Failure, Host, chain, explain, output, signals, store};
use tuner_score::interchange::{fingerprint, read_recording, workload_of};
use tuner_score::replay::{Noise, Recording, Replay};

/// Default budget.
const BUDGET: &str = "evaluations=120";

const HOST: Host = Host {
    application: "tuner",
    write_json: output::write_json,
    is_stdout: |path| path.as_os_str() == "-",
};

/// Finds good parameters of any program, and keeps them.
///
/// A space of parameters and a command line are enough. The default stays unless fresh measurements
/// show another configuration to be better. Results are kept in one file: that of TUNER_TUNE_DB,
/// else tuner/tune.sqlite in your cache folder.
#[derive(Debug, Parser)]
#[command(name = "tuner", version, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Print only results, warnings and errors.
    #[arg(long, short, global = true)]
    quiet: bool,
}

#[derive(Debug, clap::Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of them")]
enum Command {
    Run(RunArgs),
    #[command(after_help = chain::FILE)]
    Chain(chain::Args),
    Explain(explain::Args),
    Store(store::Args),
}

/// Search for good parameters of a program, and keep them.
///
/// Every measurement is kept at once: after a kill, the same command continues where it stopped.
/// The winner of the search is measured again, taking turns with the default, and replaces it only
/// if it is faster again.
#[derive(Debug, clap::Args)]
struct RunArgs {
    #[command(flatten)]
    program: ProgramArgs,
    /// Replay a recorded space instead of a program: Kernel Tuner cache, T4, compact CSV.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "command",
        required_unless_present = "command"
    )]
    replay: Option<PathBuf>,
    #[command(flatten)]
    session: SessionArgs,
}

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let name = args.next();
    let args: Vec<OsString> = args.collect();
    let again: Vec<OsString> = std::env::current_exe()
        .map(OsString::from)
        .ok()
        .or(name)
        .into_iter()
        .collect();
    tuner::process::keep_if_asked(&again, &args);
    signals::prepare(|| ());
    let cli = Cli::parse();
    output::set_verbosity(cli.quiet, false);
    let result = match &cli.command {
        Command::Run(args) => run(args),
        Command::Chain(args) => chain::run(&HOST, args, &mut chain::Programs),
        Command::Explain(args) => explain::run(&HOST, args),
        Command::Store(args) => store::run(&HOST, args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::say(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &RunArgs) -> Result<(), Failure> {
    let session = &args.session;
    let inputs: Vec<_> = [&args.program.space, &args.replay]
        .into_iter()
        .flatten()
        .map(PathBuf::as_path)
        .collect();
    check_outputs(session.json.as_deref(), session.report.as_deref(), &inputs)?;
    if let Some(file) = &args.replay {
        let recording = read_recording(file)?;
        let target = recorded(&recording)?;
        let mut device = Replay::new(recording, Noise::Resampled { seed: session.seed });
        // A replay measures nothing.
        return tune_target(
            &HOST,
            session,
            &target,
            &mut device,
            &mut open(&HOST)?,
            &mut NoWatch,
        );
    }
    let program = args.program.program()?;
    let mut device = args.program.device(&program, session.timeout)?;
    let (mut store, _alone) = open_to_measure(&HOST)?;
    let mut watch: Box<dyn Watch> = Box::new(CpuWatch::new(System, session.watch.limits()));
    tune_target(
        &HOST,
        session,
        &target_of(program),
        &mut *device,
        &mut store,
        &mut *watch,
    )
}

fn target_of(program: Program) -> Target {
    let Program {
        device,
        tunable,
        workload,
        sample,
        space,
        default,
        objective,
    } = program;
    Target {
        device,
        tunable,
        workload,
        space,
        default,
        sample,
        budget: BUDGET,
        objective,
    }
}

/// Describes a recorded space as a target.
fn recorded(recording: &Recording) -> Result<Target, Failure> {
    Ok(Target {
        device: DeviceIdentity::named(recording.device.clone(), "replay"),
        // Not the kernel's own name: a replay's decision must not be taken for a measurement.
        tunable: TunableIdentity::new(format!("replay of {}", recording.kernel), 0),
        workload: workload_of(recording)?,
        space: recording.space.clone(),
        default: None,
        // Two recordings of a kernel may differ only in their times.
        sample: format!("recording {}", fingerprint(recording)),
        budget: BUDGET,
        objective: tuner::objective::Objective::Time,
    })
}
