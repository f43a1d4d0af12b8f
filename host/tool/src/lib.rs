//! `ut-decode`, the command-line tool: [`main`] is all of it, so that a Python package can install
//! it too.
//!
//! One file a subcommand, thin: the work is done in the library. `help` lists the exit codes.

#![allow(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "what other crates take from here is for the Python package and the fuzzer"
)]
#![allow(
    rustdoc::invalid_html_tags,
    reason = "the comments on options are the text of --help"
)]

mod ablation;
mod args;
mod compare;
pub mod config;
mod convert;
pub mod decode;
mod describe;
mod detector;
mod generate;
mod help;
mod inputs;
mod inspect;
mod kernels;
mod loss;
mod online;
mod output;
mod paths;
pub mod report;
mod sample;
mod select;
#[cfg(feature = "full")]
mod share;
mod summary;
mod sweep;
mod tables;
mod throughput;
mod trial;
mod tune;
mod tuned;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Instant;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use tuner_command::{progress, signals, table};

/// Anything that ends a command with exit code 1.
type Failure = Box<dyn std::error::Error>;

/// Decodes raw banks of LHCb's Upstream Tracker (UT) into hits.
///
/// Reads MDF files, MEP packets and Allen-layout dumps, also inside zstd and gzip, in format v4
/// (bank version 3, simulation up to 2021) and v5 (bank version 4, Run 3), and writes hits as CSV
/// or Parquet. Damaged data is skipped and counted; the rest is decoded.
#[derive(Debug, Parser)]
#[command(name = "ut-decode", version, after_help = help::SHORT, after_long_help = help::LONG, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    common: Common,
}

/// Options of every command.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Every command")]
struct Common {
    /// Print only results, warnings and errors: no progress, no remarks, and no summary of decode.
    #[arg(
        long,
        short,
        global = true,
        conflicts_with = "verbose",
        display_order = 900
    )]
    quiet: bool,
    /// Say more: which tables, settings and stores are used, and how long it took.
    #[arg(long, short, global = true, display_order = 901)]
    verbose: bool,
    /// Take tables, grouping, flip and threads from this file instead of ut-decode.toml.
    #[arg(long, value_name = "FILE", global = true, display_order = 902)]
    config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of them")]
enum Command {
    Decode(decode::Args),
    Inspect(inspect::Args),
    Generate(generate::Args),
    Convert(convert::Args),
    Report(report::Args),
    Tables(tables::Args),
    Throughput(throughput::Args),
    Compare(compare::Args),
    Sweep(sweep::Args),
    Ablation(ablation::Args),
    Kernels(kernels::Args),
    Tune(tune::Args),
    /// Write manual pages and completion scripts into a folder.
    ///
    /// They are put where man, bash, zsh and fish look for them below a folder "share", for
    /// instance: ut-decode share ~/.local/share. The Python package includes them.
    Share {
        /// The folder; created if missing.
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
}

/// Command line that started this process.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// Program and first arguments that start the tool again, as `tune` does to measure in a
    /// process of its own.
    pub again: Vec<OsString>,
    pub args: Vec<OsString>,
}

impl Invocation {
    /// Returns the invocation of a program that is the tool and nothing else.
    pub fn of_this_program() -> Self {
        let mut args = std::env::args_os();
        let name = args.next();
        let again = std::env::current_exe()
            .map(OsString::from)
            .ok()
            .or(name)
            .into_iter()
            .collect();
        Self {
            again,
            args: args.collect(),
        }
    }
}

/// Command line that started this process; [`main`] sets it.
static INVOCATION: OnceLock<Invocation> = OnceLock::new();

/// Runs the tool, and returns its exit code. A process calls it once, since a command may end the
/// process.
pub fn main(invocation: &Invocation) -> u8 {
    let invocation = INVOCATION.get_or_init(|| invocation.clone());
    tuner::process::keep_if_asked(&invocation.again, &invocation.args);
    signals::prepare(ut_files::remove_unfinished);
    let start = Instant::now();
    let (Cli { command, common }, matches) = parse(&invocation.args);
    output::set_verbosity(common.quiet, common.verbose);
    let result = config::load(common.config.as_deref()).and_then(|()| {
        paths::check_unnamed(&matches).unwrap_or_else(|message| usage(&message));
        paths::writable(&matches)?;
        run(command)
    });
    output::detail(&format!("took {:.2} s", start.elapsed().as_secs_f64()));
    result.unwrap_or_else(|error| fail(&error))
}

const FAILED: u8 = 1;

/// Prints a failure, and returns its exit code.
fn fail(error: &Failure) -> u8 {
    output::say(&format!(
        "error: {}",
        ut_data::error::causes(error.as_ref()).join("\n  because: ")
    ));
    let Some(too_much) = error.downcast_ref::<loss::TooMuchLoss>() else {
        return FAILED;
    };
    output::say(&too_much.lost);
    loss::TOO_MUCH_LOSS
}

/// Ends the program as [`main`] would, for a command one of whose threads may never end.
fn end(result: Result<(), Failure>) -> ! {
    let code = result.map_or_else(|error| fail(&error), |()| 0);
    ut_files::remove_unfinished();
    std::process::exit(i32::from(code))
}

/// Says how to get a command that takes more libraries than the others.
#[cfg(not(feature = "full"))]
fn not_built(command: &str) -> Failure {
    format!("{command} is not in this build of ut-decode: cargo install --path . --features full, or cargo build --release --features full").into()
}

fn run(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Decode(args) => decode::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Tables(args) => tables::run(&args),
        Command::Throughput(args) => throughput::run(&args),
        Command::Compare(args) => return compare::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Ablation(args) => ablation::run(&args),
        Command::Kernels(args) => kernels::run(&args),
        Command::Tune(args) => tune::run(&args),
        #[cfg(feature = "full")]
        Command::Share { folder } => share::run(&folder),
        #[cfg(not(feature = "full"))]
        Command::Share { .. } => Err(not_built("share")),
    }?;
    Ok(0)
}

/// Names of the subcommands that were called, for messages.
static CALLED: OnceLock<Vec<String>> = OnceLock::new();

/// Names of the options that were typed, not taken from defaults or settings.
static TYPED: OnceLock<BTreeSet<String>> = OnceLock::new();

/// Returns true if an option was typed, by the name of its field.
fn is_typed(option: &str) -> bool {
    TYPED.get().is_some_and(|typed| typed.contains(option))
}

/// Returns the names of the options that were typed.
fn typed(mut matches: &ArgMatches) -> BTreeSet<String> {
    while let Some((_, of_command)) = matches.subcommand() {
        matches = of_command;
    }
    let is_typed =
        |id: &&clap::Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
    matches
        .ids()
        .filter(is_typed)
        .map(ToString::to_string)
        .collect()
}

/// Parses the command line. Ends the program on usage errors, and where only help or the version
/// was asked for.
fn parse(args: &[OsString]) -> (Cli, ArgMatches) {
    CALLED.get_or_init(|| help::called(&Cli::command(), args));
    let line = std::iter::once(OsString::from("ut-decode")).chain(args.iter().cloned());
    let version: &'static str = output::version_in_words().leak();
    let parsed = Cli::command()
        .version(version)
        .try_get_matches_from(line)
        .and_then(|matches| {
            let cli = Cli::from_arg_matches(&matches)?;
            paths::check(&matches).map_err(|message| error(&message))?;
            TYPED.get_or_init(|| typed(&matches));
            Ok((cli, matches))
        });
    parsed.unwrap_or_else(|error| exit(&error))
}

/// Returns a usage error of the subcommand that was called.
fn error(message: &str) -> clap::Error {
    let mut command = Cli::command();
    command.build();
    for name in CALLED.get().into_iter().flatten() {
        let Some(called) = command.find_subcommand(name) else {
            break;
        };
        command = called.clone();
    }
    command.error(ErrorKind::ValueValidation, message)
}

/// Ends the program as clap does, with what acts on a terminal escaped.
fn exit(error: &clap::Error) -> ! {
    let plain = error.to_string();
    if !error.use_stderr() {
        // A reader that has gone (`| head`) is not an error.
        let _ = error.print();
    } else if matches!(output::escaped(&plain), Cow::Borrowed(_)) {
        // Where standard error is closed, only the exit code shows an error.
        let _ = writeln!(
            anstream::stderr(),
            "{}",
            error.render().ansi().to_string().trim_end()
        );
    } else {
        output::say(plain.trim_end());
    }
    ut_files::remove_unfinished();
    std::process::exit(error.exit_code())
}

/// Ends the program with exit status 2: the request makes no sense.
fn usage(message: &str) -> ! {
    exit(&error(message))
}
