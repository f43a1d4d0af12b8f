//! Options of `compare` and the tuning commands: events, and rules of evidence.

use std::path::PathBuf;

use tuner::compare::{Comparison, Plan};
use tuner::verdict::{Method, Rules, Verdict};
use tuner::watch::Watch;
pub use tuner_command::WatchArgs;
pub use tuner_command::chain_text::evidence;
use ut_bench::decoding::DecodeDevice;
use ut_bench::environment::watch;
use ut_bench::{ENOUGH_DISTINCT, Varied};
use ut_data::input::EventBatch;
use ut_decoders::Backend;
use ut_report::Detector;

use crate::args::DetectorArgs;
use crate::config;
use crate::sample::{MAX_EVENTS, Synthetic, embedded, identity, names_of, read};
use crate::{Failure, usage};

/// Events that are decoded.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Sample")]
pub struct EventsArgs {
    /// MDF files or Allen-layout dumps, with the tables of ut-decode.toml or --config, or made by
    /// `ut-decode generate`; none: 1000 synthetic v5 events of the profile pp-nominal.
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

impl EventsArgs {
    /// Returns the detector of the settings, or the embedded one.
    pub fn detector(&self) -> Result<Detector, Failure> {
        let args = DetectorArgs::default();
        args.load(&self.files)
    }

    pub fn load(&self) -> Result<(Detector, Vec<EventBatch>, String), Failure> {
        let (detector, name) = (self.detector()?, self.source());
        let events = if self.files.is_empty() {
            vec![embedded(Synthetic::default(), ENOUGH_DISTINCT)?]
        } else {
            read(&self.files, &detector, MAX_EVENTS)?
        };
        if events.iter().all(|batch| batch.n_events == 0) {
            return Err(format!("{name}: there is no event").into());
        }
        Ok((detector, events, name))
    }

    pub fn source(&self) -> String {
        if self.files.is_empty() {
            Synthetic::default().to_string()
        } else {
            names_of(&self.files)
        }
    }

    /// Returns the name with a hash that tells the files from others of the same names.
    pub fn identity(&self, detector: &Detector) -> String {
        identity(&self.source(), &self.files, detector)
    }
}

/// Returns the decoder on these events, with the options of the settings.
pub fn device(varied: Varied, detector: &Detector, events: Vec<EventBatch>) -> DecodeDevice<'_> {
    DecodeDevice::new(&detector.tables, config::options(), events, varied)
}

/// Rules by which evidence is taken and weighed.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Evidence")]
pub struct RuleArgs {
    /// Weigh evidence by the variance between interleaved blocks (blocks), or by the 95 % interval
    /// of the difference of the means of all samples (alice), as ALICE does, which alarms too often
    /// on free clocks.
    #[arg(long, default_value = "blocks", value_parser = ["blocks", "alice"])]
    rule: String,
    /// Difference in % within which two configurations count as the same.
    #[arg(long, value_name = "%", default_value_t = 0.2)]
    zone: f64,
    /// Numbers of blocks at which the evidence is looked at; each look spends its part of the
    /// error.
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "10,20,40"
    )]
    looks: Vec<usize>,
    /// Rounds of a block: samples of each side in it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: Option<u32>,
    #[command(flatten)]
    watch: WatchArgs,
}

impl RuleArgs {
    /// Returns the plan, with `rounds` where none were given.
    pub fn plan(&self, rounds: usize) -> Plan {
        let looks = &self.looks;
        if !(0.0..100.0).contains(&self.zone) {
            usage("--zone must be at least 0 and below 100 %");
        }
        if looks.iter().any(|look| !(4..=100_000).contains(look))
            || !looks.is_sorted_by(|a, b| a < b)
        {
            usage("--looks must be ascending numbers of blocks from 4 to 100,000");
        }
        Plan {
            rules: Rules {
                method: if self.rule == "alice" {
                    Method::Alice
                } else {
                    Method::Blocks
                },
                indifference: self.zone / 100.0,
                looks: looks.clone(),
                ..Rules::default()
            },
            rounds: self.rounds.map_or(rounds, |rounds| rounds as usize),
            ..Plan::default()
        }
    }

    pub fn watch(&self, backend: Backend) -> Box<dyn Watch> {
        watch(backend, self.watch.limits())
    }
}

/// Returns the state of the machine and the remedy as a line, if samples were discarded for it and
/// nothing was decided.
pub fn trouble(comparison: &Comparison) -> String {
    match (&comparison.trouble, comparison.judgement.verdict) {
        (Some(trouble), Verdict::CannotTell(_)) => format!("note                {trouble}\n"),
        _ => String::new(),
    }
}
