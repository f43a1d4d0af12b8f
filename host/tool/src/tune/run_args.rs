//! Arguments of `ut-decode tune run` and `tune measure`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use tuner::budget::Budget;
use tuner::cli::ProgramArgs;
use tuner::strategy::StrategyKind;
use ut_decoders::{Backend, Pipeline};

use crate::args::{one_of, seconds};
use crate::trial::{EventsArgs, WatchArgs};
use crate::usage;

/// Device by name.
#[derive(Clone, Debug)]
pub enum DeviceSpec {
    Decoder(Backend),
    Replay(PathBuf),
}

impl FromStr for DeviceSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "reference" => Err("the reference decoder has nothing to tune".to_owned()),
            Some(("replay", file)) if !file.is_empty() => Ok(Self::Replay(file.into())),
            _ => match text.parse() {
                Ok(backend) => Ok(Self::Decoder(backend)),
                Err(_) => Err("none of cpu, cuda, emulated, replay:FILE".to_owned()),
            },
        }
    }
}

/// Search for good launch parameters and keep them, where `decode` and `throughput` find them.
///
/// Every measurement is kept at once: after a kill, the same command continues where it stopped. The winner of the
/// search is measured again beside the default, and replaces it only if it is faster again.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Device to tune: cpu (the CPU decoder), cuda (the kernels on the first NVIDIA GPU), emulated (the kernels on the
    /// CPU, for experiments), or replay:FILE (a recorded space: Kernel Tuner cache, T4, compact CSV).
    #[arg(long, value_name = "BACKEND", default_value = "cpu", conflicts_with = "command")]
    pub backend: DeviceSpec,
    /// Kernels of cuda and emulated: fused (two launches) or allen (seven kernels in nine launches) [default: fused on
    /// a GPU, else allen].
    #[arg(long, value_name = "NAME", value_parser = one_of!(Pipeline::ALL, Pipeline::name))]
    pub pipeline: Option<Pipeline>,
    /// Strategy of the search [default: exhaustive for small spaces, else bayesian].
    #[arg(long, value_parser = one_of!(StrategyKind::ALL, StrategyKind::name))]
    pub strategy: Option<StrategyKind>,
    /// End of the search: evaluations=N (or N), launches=N, time=SECONDS (or 90s, 10min, 1h), or several of them, joined
    /// by a comma: whichever comes first.
    #[arg(long, value_name = "BUDGET")]
    pub budget: Option<Budget>,
    /// Seed of all random choices: the same seed and the same times give the same proposals.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Launches of each configuration in the search.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    pub launches: u16,
    /// Number of the search's best configurations that are measured against the default; 0: the search alone decides.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub finalists: u16,
    /// Do not start from the best configurations of the closest match (another device, driver or version of this
    /// program).
    #[arg(long)]
    pub no_seeds: bool,
    /// Begin a run even if an unfinished one could be continued.
    #[arg(long)]
    pub fresh: bool,
    /// Time limit of a configuration's measurement in seconds. The separate process that measures is then killed and
    /// replaced.
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    pub timeout: f64,
    #[command(flatten)]
    pub watch: WatchArgs,
    /// Write the decision as JSON here; - is standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write measurements and decision as run-N.html (one self-contained page) and run-N.json into this folder, which is
    /// made if missing.
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub program: ProgramArgs,
    #[command(flatten)]
    pub sample: EventsArgs,
}

impl Args {
    pub fn timeout(&self) -> Duration {
        let time_out = seconds(self.timeout).unwrap_or_else(|error| usage(&format!("--timeout {error}")));
        if time_out.is_zero() {
            usage("--timeout must be above 0: nothing can be measured in no time");
        }
        time_out
    }
}
