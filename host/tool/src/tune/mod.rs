//! `ut-decode tune`: commands that find launch parameters, keep them, and explain them.

mod chain;
mod run;
mod target;

use clap::Subcommand;
use tuner_command::{Host, explain, store};

use crate::output::write_json;
use crate::paths::APPLICATION;
use crate::{Failure, usage};

/// This program, for the commands that it shares with others.
const HOST: Host = Host {
    application: APPLICATION,
    write_json: |path, value| write_json(path, value),
    is_stdout: ut_files::names_stdout,
};

/// Find good launch parameters, keep them, and explain them.
///
/// Begin with `tune run`: `decode` and `throughput` then use what it found. The default stays
/// unless fresh measurements show another configuration to be better. Any other program is tuned by
/// the command `tuner`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<target::Args>),
    Explain(explain::Args),
    Chain(Box<chain::Args>),
    Store(store::Args),
    /// Measure for standard input: the process that `tune run` starts.
    #[command(hide = true)]
    Measure(Box<target::Args>),
    /// Is `tune chain` now.
    #[command(hide = true)]
    Groups(Old),
    /// Is `tune chain` now.
    #[command(hide = true)]
    Workloads(Old),
}

/// Arguments of a command that went.
#[derive(Debug, clap::Args)]
struct Old {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Command::Run(args) => run::run(args),
        Command::Explain(args) => explain::run(&HOST, args),
        Command::Chain(args) => chain::run(args),
        Command::Store(args) => store::run(&HOST, args),
        Command::Measure(args) => target::measure(args),
        Command::Groups(Old { args }) | Command::Workloads(Old { args }) => {
            let what = args.first().map_or("FILE", String::as_str);
            usage(&format!(
                "groups and workloads are given in one file: ut-decode tune chain {what}; \
                 docs/tuning.md says how"
            ))
        }
    }
}
