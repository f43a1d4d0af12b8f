//! Options that several subcommands have.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tuner::budget::LONGEST;
use ut_data::detector::{BankVersion, Grouping};
use ut_data::{DecodeOptions, Flip, Layout, Position};
use ut_decoders::parameters::cores;
use ut_decoders::{Backend, ParameterError, Parameters, Pipeline};

use crate::output::say;
use crate::{config, is_typed, usage};

/// A parser for an option that has one of several names.
macro_rules! one_of {
    ($all:expr, $name:expr) => {
        PossibleValuesParser::new($all.map($name)).map(|text: String| {
            let found = $all.into_iter().find(|&value| $name(value) == text);
            found.expect("the parser lets no other name pass")
        })
    };
}
pub(crate) use one_of;

/// Makes a parser of pipelines, which refuses the replaced one with the name of its successor.
pub fn pipeline() -> impl TypedValueParser<Value = Pipeline> {
    let names = Pipeline::ALL.map(|pipeline| PossibleValue::new(pipeline.name()));
    let replaced = PossibleValue::new(Pipeline::REPLACED).hide(true);
    PossibleValuesParser::new(names.into_iter().chain([replaced])).try_map(|name: String| {
        name.parse()
            .map_err(|_| format!("{} has replaced it: leave the option out", Pipeline::Ranked))
    })
}

/// Detector that the banks come from.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Detector")]
pub struct DetectorArgs {
    /// Boards file of your detector (ut_boards*.bin). Without --boards and --geometry, the tables
    /// named in ut-decode.toml are used; for generated events, the tables of the synthetic detector.
    #[arg(long, value_name = "FILE", requires = "geometry")]
    pub boards: Option<PathBuf>,
    /// Geometry file of your detector (ut_geometry*.bin).
    #[arg(long, value_name = "FILE", requires = "boards")]
    pub geometry: Option<PathBuf>,
    /// Groups of sectors in which hits are sorted: 18 rows in y per layer, or columns of distinct x
    /// [default: y-rows].
    #[arg(long, value_parser = one_of!(Grouping::ALL, Grouping::name))]
    grouping: Option<Grouping>,
    /// Use the synthetic detector whether or not the events are recognised as generated, which they
    /// cannot be in a pipe. The hits of real events are then wrong.
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, value_parser = bank_format(),
        conflicts_with_all = ["boards", "geometry"])]
    #[expect(
        clippy::option_option,
        reason = "the option, and the format that it may name"
    )]
    pub synthetic_detector: Option<Option<BankVersion>>,
    /// Accept boards and geometry that do not fit each other, and events from another detector.
    #[arg(long)]
    pub trust_tables: bool,
}

impl DetectorArgs {
    /// Returns the option, else the grouping of the settings, else y-rows.
    pub fn grouping(&self) -> Grouping {
        self.grouping.unwrap_or_else(config::grouping)
    }
}

/// Rules by which strips become clusters.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Clustering (v5 banks; v4 banks come clustered)")]
pub struct ClusterArgs {
    /// Make every strip a hit.
    #[arg(long, conflicts_with_all = ["position", "max_cluster_size", "save_above_max"])]
    pub no_clustering: bool,
    /// Position of a cluster: mean of the strips weighted by ADC counts, or plain mean.
    #[arg(long, default_value = "adc", value_parser = one_of!(Position::ALL, Position::name))]
    pub position: Position,
    /// Drop clusters of more strips than this (at least 1).
    #[arg(long, value_name = "N", default_value = "128", value_parser = cluster_size)]
    pub max_cluster_size: NonZeroU32,
    /// Keep the first strips of clusters above the maximum size instead of dropping them.
    #[arg(long)]
    pub save_above_max: bool,
    /// Strips of flipped sectors count from 511 (Allen since v7r9) or 512 (before) [default: 511].
    #[arg(long, value_parser = one_of!(Flip::ALL, Flip::name))]
    flip: Option<Flip>,
}

impl ClusterArgs {
    /// Ends the program if one of these options was typed and cannot matter for banks of this
    /// format.
    pub fn check(version: BankVersion) {
        let options = [
            "no_clustering",
            "position",
            "max_cluster_size",
            "save_above_max",
            "flip",
        ];
        let typed = options.into_iter().find(|option| is_typed(option));
        if let Some(option) = typed.filter(|_| version == BankVersion::V4) {
            usage(&format!(
                "--{}: the tables are of format v4, whose banks come clustered: leave the option out",
                option.replace('_', "-")
            ));
        }
    }

    pub fn options(&self) -> DecodeOptions {
        DecodeOptions::default()
            .with_clustering(!self.no_clustering)
            .with_position(self.position)
            .with_max_cluster_size(self.max_cluster_size)
            .with_save_above_max(self.save_above_max)
            .with_flip(self.flip.unwrap_or_else(config::flip))
    }
}

fn backend() -> impl TypedValueParser<Value = Backend> {
    PossibleValuesParser::new(Backend::ALL.map(Backend::name).into_iter().chain(["auto"])).map(
        |name: String| {
            name.parse().unwrap_or_else(|_| {
                let (backend, reason) = Backend::best();
                if let Some(reason) = reason {
                    say(&format!(
                        "--backend auto: taking {backend}, because {reason}"
                    ));
                }
                backend
            })
        },
    )
}

/// Backend, and its parameters.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Backend")]
pub struct BackendArgs {
    /// Decode with cpu, fast; reference, plain and slow, to check others; emulated, the GPU's
    /// kernels on the CPU, slow; cuda, the kernels on an NVIDIA GPU; or auto, cuda where there is a
    /// GPU, else cpu. All give the same bits.
    #[arg(long, default_value = "cpu", value_parser = backend())]
    pub backend: Backend,
    /// Threads, on a GPU streams; 0: one per core, and 3 streams [default: 0].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1024))]
    threads: Option<u16>,
    /// Kernels of emulated and cuda: ranked, five, which keep clusters in the order of the hits, or
    /// allen, seven in nine launches, with the same results [default: ranked].
    #[arg(long, value_name = "NAME", value_parser = pipeline())]
    pub pipeline: Option<Pipeline>,
    /// Set a parameter, as --set cpu.simd=avx2, --set cluster.block_x=64, --set threads=1 or --set
    /// layout=mep [default: the layout that is read]; hits never change. `ut-decode sweep --list`
    /// lists them.
    #[arg(long = "set", value_name = "PARAMETER=VALUE,…", value_delimiter = ',')]
    pub set: Vec<String>,
}

impl BackendArgs {
    /// Returns the set parameters of the decoder itself, without batch, layout and threads.
    pub fn assignments(&self) -> impl Iterator<Item = &String> {
        self.set
            .iter()
            .filter(|assignment| !FEEDING.contains(&name_of(assignment)))
    }

    /// Returns the value of a parameter of feeding, if it is set; ends the program if an option
    /// gives it, too.
    fn fed(&self, name: &str, option: Option<&str>) -> Option<u32> {
        self.set.iter().find(|of| name_of(of) == name)?;
        if let Some(option) = option {
            usage(&format!(
                "{option} and --set {name} give the same parameter: leave one out"
            ));
        }
        Some(self.config().get(name))
    }

    pub fn pipeline(&self) -> Pipeline {
        self.config().pipeline()
    }

    /// Returns the parameters of a decoder; ends the program on errors.
    pub fn config(&self) -> Parameters {
        let mut config = Parameters::default();
        if let Some(pipeline) = self.pipeline {
            if !self.backend.runs_kernels() {
                usage(&format!(
                    "--pipeline chooses between kernels for emulated and cuda; {} has none",
                    self.backend
                ));
            }
            if self.set.iter().any(|of| name_of(of) == "pipeline") {
                usage("--pipeline and --set pipeline give the same parameter: leave one out");
            }
            config = config.with_pipeline(pipeline);
        }
        set_all(config, self.backend, &self.set)
    }

    /// Returns true if a parameter of the decoder is set by hand: its effect is wanted then, not
    /// the effect of tuned values.
    pub fn by_hand(&self) -> bool {
        self.assignments().next().is_some()
    }

    /// Returns the number of threads or streams: the option, else the parameter, else the number of
    /// the settings, else 0.
    pub fn threads(&self) -> u16 {
        let option = self.threads.map(|_| "--threads");
        let set = ["threads", "streams"].map(|name| self.fed(name, option));
        let set = set.into_iter().flatten().next().map(|n| n as u16);
        self.threads.or(set).unwrap_or_else(config::threads)
    }

    /// Returns the events of a batch: those of an option, else the parameter if it is set.
    pub fn batch(&self, option: Option<u32>) -> Option<u32> {
        option.or(self.fed("batch", option.map(|_| "--batch")))
    }

    /// Returns the layout that is set.
    pub fn layout(&self) -> Option<Layout> {
        self.fed("layout", None).map(|_| self.config().layout())
    }

    /// Returns the number of threads or streams; `--threads 0` is one per core, and the default of
    /// streams.
    pub fn n_threads(&self) -> usize {
        n_threads(self.backend, self.threads())
    }
}

/// Parameters that say how decoders are fed.
const FEEDING: [&str; 5] = ["batch", "layout", "pipeline", "streams", "threads"];

fn name_of(assignment: &str) -> &str {
    assignment.split('=').next().unwrap_or_default().trim()
}

/// Sets parameters over `base`; ends the program on wrong names and values.
fn set_all(base: Parameters, backend: Backend, set: &[String]) -> Parameters {
    base.with(backend, &set.join(","))
        .unwrap_or_else(|error| match error {
            ParameterError::Unknown { .. } => usage(&format!("--set: {error}")),
            _ => usage(&format!("--set {error}")),
        })
}

fn n_threads(backend: Backend, asked: u16) -> usize {
    match asked {
        0 if backend == Backend::Cuda => Parameters::default().decoders(backend),
        0 => cores(),
        n => usize::from(n),
    }
}

/// Backend, where all parameters may be set.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Backend")]
pub struct ParameterArgs {
    /// cpu, reference, emulated (the GPU's kernels on the CPU), cuda, or auto: cuda where there is
    /// a GPU, else cpu.
    #[arg(long, default_value = "cpu", value_parser = backend())]
    pub backend: Backend,
    /// Set a parameter, as --set cluster.block_x=64, --set batch=1000, --set layout=mep or --set
    /// threads=1; `ut-decode sweep --list` shows them.
    #[arg(long = "set", value_name = "PARAMETER=VALUE,…", value_delimiter = ',')]
    pub set: Vec<String>,
}

impl ParameterArgs {
    /// Returns the set parameters over the defaults, with one decoder per core; ends the program on
    /// wrong values.
    pub fn parameters(&self) -> Parameters {
        let base =
            ut_bench::base(self.backend).with_decoders(n_threads(self.backend, config::threads()));
        set_all(base, self.backend, &self.set)
    }
}

/// Returns a time in seconds from the command line; refuses one that is negative, not a number, or
/// more than a year.
pub fn seconds(seconds: f64) -> Result<Duration, String> {
    if (0.0..=LONGEST).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("must be a number of seconds, not negative and at most a year".to_owned())
    }
}

fn cluster_size(text: &str) -> Result<NonZeroU32, String> {
    text.parse()
        .map_err(|_| format!("expected a number of strips, 1 to {}", u32::MAX))
}

pub fn bank_format() -> impl TypedValueParser<Value = BankVersion> {
    one_of!([BankVersion::V4, BankVersion::V5], BankVersion::name)
}
