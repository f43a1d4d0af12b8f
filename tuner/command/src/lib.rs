//! Commands of the tuner: `tuner` tunes any program, and `ut-decode tune` shares most commands for
//! its decoder.
//!
//! A program that has such commands describes itself by a [`Host`].

#![allow(
    rustdoc::invalid_html_tags,
    reason = "the comments on options are the text of --help"
)]

pub mod chain;
pub mod chain_text;
pub mod explain;
pub mod output;
pub mod program;
pub mod progress;
pub mod report;
pub mod session;
pub mod signals;
pub mod store;
pub mod table;
pub mod watcher;

use std::path::Path;

use tuner::watch::Limits;

/// Anything that ends a command.
pub type Failure = Box<dyn std::error::Error>;

/// Program that has the commands.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// Name, to which its store belongs.
    pub application: &'static str,
    /// Writes an object as JSON into a file, or to standard output when the path is `-`.
    pub write_json: fn(&Path, &serde_json::Value) -> Result<(), Failure>,
    /// Returns true if a path means standard output.
    pub is_stdout: fn(&Path) -> bool,
}

impl Host {
    /// Prints text for a person: to standard output, or to standard error if `output`, such as
    /// JSON, goes there.
    pub fn print_beside(&self, output: Option<&Path>, text: &str) -> Result<(), Failure> {
        if output.is_some_and(self.is_stdout) {
            output::say(text.trim_end());
            return Ok(());
        }
        output::print(text)
    }
}

/// Load at which the machine is too busy to measure on.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Evidence")]
pub struct WatchArgs {
    /// Share in % of the machine's time that others may take before samples are discarded.
    #[arg(long, value_name = "%", default_value = "25", value_parser = share)]
    others: f64,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| *share >= 0.0);
    share.ok_or_else(|| format!("{text:?} is not a share in % of at least 0"))
}

impl WatchArgs {
    /// Returns the limits of a watch.
    pub fn limits(&self) -> Limits {
        Limits {
            others: self.others / 100.0,
        }
    }
}
