//! `ut-decode tune`: commands that find launch parameters, keep them, and explain them.

mod explain;
mod groups;
mod run;
mod run_args;
pub mod store;
mod target;
mod watcher;
mod workloads;

use crate::Failure;
pub use watcher::Watcher;

/// Find good launch parameters, keep them, and explain them.
///
/// Begin with `tune run`: `decode` and `throughput` then use what it found. The default stays unless fresh measurements
/// show another configuration to be better.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Run(Box<run_args::Args>),
    Explain(explain::Args),
    Groups(Box<groups::Args>),
    Workloads(Box<workloads::Args>),
    Store(store::Args),
    /// Measure for standard input: the process that `tune run` starts.
    #[command(hide = true)]
    Measure(Box<run_args::Args>),
}

pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Command::Run(args) => run::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Groups(args) => groups::run(args),
        Command::Workloads(args) => workloads::run(args),
        Command::Store(args) => store::run(args),
        Command::Measure(args) => target::measure(args),
    }
}
