//! `ut-decode`, the command-line tool: [`main`] is all of it, so that a Python package can install it too.
//!
//! One file a subcommand, thin: the work is done in the library. Exit codes: 0 done, 1 failed, 2 usage.

mod aa_test;
mod ablation;
mod args;
mod compare;
mod convert;
mod decode;
mod describe;
mod detector;
mod explain;
mod generate;
mod groups;
mod inputs;
mod inspect;
mod kernels;
mod online;
mod output;
mod paths;
mod progress;
mod replay;
mod sample;
mod signals;
mod store;
mod summary;
mod sweep;
mod table;
mod throughput;
mod trial;
mod tune;
mod tuned;
mod workloads;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

/// Anything that ends a command with exit code 1.
type Failure = Box<dyn std::error::Error>;

const EXAMPLES: &str = "\
Examples:
  # Hits of a file, with the tables of your detector
  ut-decode decode run.mdf --boards ut_boards.bin --geometry ut_geometry.bin --output hits.parquet

  # What is in there, and what is wrong with event 3?
  ut-decode inspect run.mdf
  ut-decode inspect run.mdf --event 3

  # No data at hand? Make some, and decode it
  ut-decode generate --profile pp-nominal --format v5 --events 100 --seed 1 --output sample
  ut-decode decode sample/events.mdf --boards sample/boards.bin --geometry sample/geometry.bin

  # How fast is this machine? And its GPU, and how long does a batch take?
  ut-decode throughput
  ut-decode throughput --backend cuda --batch 1,10,100,1000

  # What is each optimisation of the GPU kernels worth? (No GPU needed)
  ut-decode ablation
  ut-decode ablation --backend cuda

  # Which batch size is best, with how many threads?
  ut-decode sweep --axis batch=16,256,4096 --axis threads=1,2,4
  # Does AVX-512 pay here? Can this machine show a difference of 0.5 % at all?
  ut-decode compare cpu.simd=avx2 cpu.simd=avx512
  ut-decode aa-test
  # Which batch and chunk for pp, which for lead collisions, and is there one for all?
  ut-decode workloads pp-nominal pbpb-high

Exit codes: 0 done, 1 failed (the message says why), 2 wrong usage.";

/// Decodes raw banks of LHCb's Upstream Tracker (UT) into hits.
///
/// Reads MDF files, MEP packets and Allen-layout dumps, in zstd or gzip or not, of format v4 (bank version 3, simulation up to 2021) and v5 (bank version 4,
/// Run 3), and writes hits as CSV or Parquet. Damaged data costs only itself, and is counted.
#[derive(Debug, Parser)]
#[command(name = "ut-decode", version, after_help = EXAMPLES, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Decode(decode::Args),
    Inspect(inspect::Args),
    Generate(generate::Args),
    Convert(convert::Args),
    Throughput(throughput::Args),
    Tune(Box<tune::Args>),
    Groups(Box<groups::Args>),
    Workloads(Box<workloads::Args>),
    Ablation(ablation::Args),
    Sweep(sweep::Args),
    Kernels(kernels::Args),
    Store(store::Args),
    Explain(explain::Args),
    /// Measure on standard input's request: the process that `tune` starts.
    #[command(hide = true)]
    Measure(Box<tune::Args>),
    Replay(replay::Args),
    AaTest(aa_test::Args),
    Compare(compare::Args),
    /// Print a completion script for your shell.
    ///
    /// For bash, for instance: ut-decode completions bash > ~/.local/share/bash-completion/completions/ut-decode
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// How this process was started.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// Program and first arguments that start the tool again, as `tune` does to measure in a process of its own.
    pub again: Vec<OsString>,
    /// Arguments after those.
    pub args: Vec<OsString>,
}

impl Invocation {
    /// Of a program that is the tool and nothing else.
    pub fn of_this_program() -> Self {
        let mut args = std::env::args_os();
        let name = args.next();
        let again = std::env::current_exe().map(OsString::from).ok().or(name).into_iter().collect();
        Self { again, args: args.collect() }
    }
}

/// How this process was started; [`main`] sets it.
static INVOCATION: OnceLock<Invocation> = OnceLock::new();

/// Runs the tool. To be called once in a process: a command may end it.
pub fn main(invocation: &Invocation) -> ExitCode {
    let invocation = INVOCATION.get_or_init(|| invocation.clone());
    let args = std::iter::once(OsString::from("ut-decode")).chain(invocation.args.iter().cloned());
    signals::prepare();
    let (command, matches) = parse(args);
    let result = paths::writable(&matches).and_then(|()| run(command));
    match result {
        Ok(code) => code,
        Err(error) => {
            let causes = output::causes(error.as_ref());
            output::say(&format!("error: {}", causes.join("\n  because: ")));
            ExitCode::from(1)
        }
    }
}

fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Decode(args) => decode::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Throughput(args) => throughput::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Groups(args) => groups::run(&args),
        Command::Workloads(args) => workloads::run(&args),
        Command::Ablation(args) => ablation::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Kernels(args) => kernels::run(&args),
        Command::Store(args) => store::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Measure(args) => tune::measure(&args),
        Command::Replay(args) => replay::run(&args),
        Command::AaTest(args) => return aa_test::run(&args),
        Command::Compare(args) => return compare::run(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "ut-decode", &mut script);
            output::print(&String::from_utf8_lossy(&script))
        }
    }?;
    Ok(ExitCode::SUCCESS)
}

/// What was requested. Ends the program on usage errors, whose text quotes the command line, and where only help or the
/// version was asked for.
fn parse(args: impl Iterator<Item = OsString>) -> (Command, ArgMatches) {
    let parsed = Cli::command().try_get_matches_from(args).and_then(|matches| {
        let command = Cli::from_arg_matches(&matches)?.command;
        paths::check(&matches).map_err(|message| Cli::command().error(ErrorKind::ValueValidation, message))?;
        Ok((command, matches))
    });
    parsed.unwrap_or_else(|error| exit(&error))
}

/// Ends the program as clap does, with what acts on a terminal escaped.
fn exit(error: &clap::Error) -> ! {
    if error.use_stderr() {
        output::say(error.to_string().trim_end());
    } else {
        // A reader that has gone (`| head`) is no error.
        let _ = error.print();
    }
    crate::output::remove_unfinished();
    std::process::exit(error.exit_code())
}

/// Ends the program with exit status 2: the request makes no sense.
fn usage(message: &str) -> ! {
    exit(&Cli::command().error(ErrorKind::ValueValidation, message))
}
