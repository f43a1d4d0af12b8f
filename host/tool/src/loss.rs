//! Account of the data that a job lost, file by file, and the verdict on the loss
//! (`docs/policy.md`, "Loss").
//!
//! Damaged data are decoded as far as possible, and each bank that cannot be decoded is counted.
//! But a program that writes an output and exits with 0 has said that all is well, and a script
//! believes it. So above a limit the exit code is 7: the output is there, and something is wrong
//! with it. The limit is a share, because single damaged banks are normal, and counts both for the
//! whole job and for each file: one lost file among a hundred would otherwise be hidden by the
//! others.

use std::fmt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::config;
use crate::output::{count, is_quiet, say};
use ut_data::hits::{Loss, Repeats};
use ut_report::loss_json;

/// Exit code of a command that wrote its output, but lost more than allowed.
pub const TOO_MUCH_LOSS: u8 = 7;

/// Share from which loss is a warning.
///
/// Below a hundredth the loss is only one of the numbers of the summary.
const WARN_FROM: f64 = 0.01;

/// Share of the events that may come more than once.
const MAX_REPEATED: f64 = 0.01;

/// Share that may be lost by default, and of fewer than [`FEW`] events.
///
/// A handful of events is a sample that someone looks at: there, a single damaged event can be more
/// than a tenth.
const MAX_LOSS: f64 = 0.10;
const MAX_LOSS_OF_FEW: f64 = 0.50;
const FEW: u64 = 20;

/// Share of the strips on unconnected lanes from which the boards are those of another time or
/// detector: even of few events there are many strips.
const MAX_UNCONNECTED: f64 = 0.20;

/// Maximum number of files to list that lost too much.
const LISTED: usize = 100;

#[derive(Clone, Debug, Default, clap::Args)]
pub struct LossArgs {
    /// Exit with code 7 if more of the data than this was lost, in all or of one file: 10% or 0.1
    /// [default: max-loss of the settings, else 10%, and 50% of fewer than 20 events].
    #[arg(long, value_name = "SHARE", value_parser = config::share)]
    max_loss: Option<f64>,
    /// Accept events that come more than once; otherwise, more than 1 % of them is an error.
    #[arg(long)]
    pub allow_repeated: bool,
}

/// More was lost than allowed, though the output was written.
#[derive(Debug)]
pub struct TooMuchLoss {
    why: String,
    /// The account, in words.
    pub lost: String,
}

impl std::error::Error for TooMuchLoss {}

impl fmt::Display for TooMuchLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// Losses of files that follow each other in a batch or a job, by the place of the file among the
/// inputs.
pub type OfFiles = Vec<(u32, Loss)>;

/// Account of a job.
#[derive(Debug, Default)]
pub struct Account {
    /// Loss of all files.
    pub total: Loss,
    /// Share that the user allows.
    limit: Option<f64>,
    /// Sketch of the events that came more than once.
    pub repeats: Repeats,
    allow_repeated: bool,
    /// The file that is being read.
    current: Option<(u32, Loss)>,
    /// The first files that lost too much, and the number of all.
    bad: OfFiles,
    n_bad: usize,
}

impl Account {
    pub fn new(args: &LossArgs) -> Self {
        let limit = args.max_loss.or_else(config::max_loss);
        Self {
            limit,
            allow_repeated: args.allow_repeated,
            ..Self::default()
        }
    }

    /// Adds losses of the next files, in the order of the inputs.
    pub fn add(&mut self, files: &[(u32, Loss)]) {
        for &(file, loss) in files {
            self.total.merge(&loss);
            match &mut self.current {
                Some((current, sum)) if *current == file => sum.merge(&loss),
                _ => {
                    self.end_file();
                    self.current = Some((file, loss));
                }
            }
        }
    }

    fn end_file(&mut self) {
        let Some((file, loss)) = self.current.take() else {
            return;
        };
        if loss.share() > self.limit_of(&loss) || self.is_unconnected(&loss) {
            self.n_bad += 1;
            if self.bad.len() < LISTED {
                self.bad.push((file, loss));
            }
        }
    }

    fn limit_of(&self, loss: &Loss) -> f64 {
        let default = if loss.events.of < FEW {
            MAX_LOSS_OF_FEW
        } else {
            MAX_LOSS
        };
        self.limit.unwrap_or(default)
    }

    /// Returns true if too many strips are on unconnected lanes, unless the user allows a share.
    fn is_unconnected(&self, loss: &Loss) -> bool {
        self.limit.is_none() && loss.strips.share() >= MAX_UNCONNECTED
    }

    /// Returns why the job is refused, if too many of its events came more than once; warns of
    /// fewer.
    pub fn refusal(&self) -> Option<String> {
        let repeated = self.repeats.repeated();
        let what = format!("{repeated} have the UT banks of an earlier event");
        if !self.allow_repeated && repeated.events.share() > MAX_REPEATED {
            return Some(format!(
                "{what}: is a file given twice, or a copy of another? Give each once, or \
                 --allow-repeated"
            ));
        }
        if repeated.events.lost > 0 {
            say(&format!("warning: {what}"));
        }
        None
    }

    /// Returns true if events came more than once, and that is not allowed.
    pub fn has_repeated(&self) -> bool {
        !self.allow_repeated && self.repeats.repeated().events.lost > 0
    }

    /// Returns the account for programs; call it after [`Self::end`].
    pub fn json(&self, files: &[PathBuf]) -> Value {
        let mut value = loss_json(&self.total);
        value["max_loss"] = self.limit_of(&self.total).into();
        value["files_over_max_loss"] = self.n_bad.into();
        let listed = self.bad.iter().map(|(file, loss)| {
            json!({ "file": files.get(*file as usize), "share": loss.share(), "lost": loss.to_string() })
        });
        value["listed_files"] = listed.collect::<Vec<_>>().into();
        value
    }

    /// Returns true if all banks are whole, and empty.
    pub const fn has_no_strip(&self) -> bool {
        let Loss { banks, strips, .. } = self.total;
        banks.of > 0 && banks.lost == 0 && strips.of == 0
    }

    /// Ends the last file.
    pub fn end(&mut self) {
        self.end_file();
    }

    /// Says what was lost as the last line, or returns the failure that says it. `all_may_go`: that
    /// no strip becomes a hit is the user's choice.
    pub fn verdict(&self, files: &[PathBuf], all_may_go: bool) -> Option<TooMuchLoss> {
        let Self {
            total, bad, n_bad, ..
        } = self;
        let several = files.len() > 1;
        for (file, loss) in bad.iter().filter(|_| several) {
            let file = files
                .get(*file as usize)
                .map(|file| file.display().to_string())
                .unwrap_or_default();
            say(&format!("warning: {file}: lost {loss}"));
        }
        let (share, limit) = (total.share(), self.limit_of(total));
        let percent = |share: f64| format!("{} %", (1e4 * share).round() / 1e2);
        let (strips, hits) = (
            total.strips.of - total.strips.lost,
            total.clusters.of - total.clusters.lost,
        );
        let why = if share > limit {
            format!(
                "more of the data was lost than --max-loss allows ({})",
                percent(limit)
            )
        } else if self.is_unconnected(total) {
            "a fifth of the strips or more are on lanes that the boards file leaves unconnected: \
             does it belong to these data?"
                .to_owned()
        } else if several && *n_bad > 0 && share >= WARN_FROM {
            format!(
                "{} lost more than --max-loss allows (see the warnings)",
                count(*n_bad, "file")
            )
        } else if strips > 0 && hits == 0 && !all_may_go && limit < 1.0 {
            "there are strips, but not a single hit".to_owned()
        } else {
            if share >= WARN_FROM {
                say(&format!("warning: lost: {total}"));
            } else if !total.is_none() && !is_quiet() {
                say(&format!("lost: {total}"));
            }
            return None;
        };
        Some(TooMuchLoss {
            why,
            lost: format!("lost: {total}"),
        })
    }
}
