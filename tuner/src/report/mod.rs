//! Report of a tuning, to look at: one self-contained HTML page, with CSV and JSON beside it.
//!
//! The page carries the script that draws its charts, and needs no network.

pub mod explain;
mod numbers;
#[cfg(feature = "page")]
mod page;
pub mod words;

pub use numbers::{Effect, Importance, Summary};

use super::compare::Decision;
use super::objective::Objective;
use super::store::Observation;
use super::store::contents::RunRecord;
use super::{Config, Outcome, Value};
use serde::{Deserialize, Serialize};
#[cfg(feature = "page")]
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// One measured configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The configuration.
    pub config: Config,
    /// Outcome of measuring it.
    pub outcome: Outcome,
}

/// A tuning, as it is reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name of what was tuned.
    pub title: String,
    /// On what.
    pub device: String,
    /// Anything else worth a line: strategy, workload, seed, version.
    pub facts: Vec<(String, String)>,
    /// The parameters: names and values, in the order of a configuration.
    pub parameters: Vec<(String, Vec<Value>)>,
    /// The default.
    pub default: Option<Config>,
    /// Every evaluation, in the order they were made.
    pub evaluations: Vec<Evaluation>,
    /// Number of evaluations of the search, the first ones: the pictures show only these, because a single launch of the
    /// final rounds is not an evaluation to rank by. `None`: all.
    #[serde(default)]
    pub searched: Option<usize>,
    /// The decisions that followed.
    pub decisions: Vec<Decision>,
    /// Meaning of the outcomes' numbers.
    #[serde(default)]
    pub objective: Objective,
}

impl Report {
    /// Reports a run from what the store keeps of it alone: one that was continued is reported as if it had not been
    /// interrupted.
    pub fn of(record: &RunRecord, default: Option<Config>) -> Self {
        let evidence = record.decision.as_ref();
        let objective = words::objective_of(record);
        let mut facts = vec![
            ("workload", record.workload.to_string()),
            ("strategy", record.plan.strategy.clone()),
            ("seed", record.plan.seed.to_string()),
            ("budget", record.plan.budget.clone()),
        ];
        if let Some(evidence) = evidence {
            let final_rounds = evidence.details.as_ref().is_some_and(|details| details.final_launches > 0);
            let of = if final_rounds { " in the final rounds" } else { "" };
            let chosen = words::in_words(&record.space.parameters, &evidence.chosen.config);
            facts.extend([
                ("ended because", evidence.stopped.clone()),
                ("chosen", format!("{chosen}: {}{of}", objective.words(evidence.chosen.time_ms))),
                ("verdict", evidence.verdict.clone()),
            ]);
        }
        let evaluation = |Observation { config, outcome, .. }: &Observation| Evaluation {
            config: config.clone(),
            outcome: outcome.clone(),
        };
        let details = evidence.and_then(|evidence| evidence.details.as_deref());
        Self {
            title: record.tunable.to_string(),
            device: record.device.to_string(),
            facts: facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            parameters: record.space.parameters.clone(),
            default,
            evaluations: record.measurements.iter().map(evaluation).collect(),
            searched: evidence.map(|evidence| evidence.tried),
            decisions: details.map(|details| details.decisions.clone()).unwrap_or_default(),
            objective,
        }
    }

    /// The evaluations of the search.
    pub fn search(&self) -> &[Evaluation] {
        let end = self.searched.map_or(self.evaluations.len(), |searched| searched.min(self.evaluations.len()));
        &self.evaluations[..end]
    }

    /// The page.
    #[cfg(feature = "page")]
    pub fn html(&self) -> String {
        page::html(self)
    }

    /// The evaluations, a row each: number, the parameters, state (`ok` or the kind of failure), mean, median, least time
    /// and standard deviation in ms, number of samples, message of the failure.
    pub fn csv(&self) -> String {
        numbers::csv(self)
    }

    /// Everything, with every sample and the summary, as JSON.
    ///
    /// # Errors
    /// Those of serialising, which none of these types has.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(&serde_json::json!({ "summary": self.summary(), "report": self }))
    }

    /// The numbers that the page shows.
    pub fn summary(&self) -> Summary {
        numbers::summary(self)
    }

    /// Writes `NAME.html`, `NAME.csv` and `NAME.json` into `directory`, which is made if need be;
    /// each is whole or not there. Their paths.
    ///
    /// # Errors
    /// Those of writing.
    #[cfg(feature = "page")]
    pub fn write(&self, directory: &Path, name: &str) -> io::Result<[PathBuf; 3]> {
        fs::create_dir_all(directory)?;
        let paths = ["html", "csv", "json"].map(|ending| directory.join(format!("{name}.{ending}")));
        for (path, text) in paths.iter().zip([self.html(), self.csv(), self.json()?]) {
            // With the mode that the umask leaves; tempfile's own is for its user alone.
            let create = |path: &Path| fs::File::options().write(true).create_new(true).open(path);
            let mut file = tempfile::Builder::new().prefix(".tuner-").suffix(".part").make_in(directory, create)?;
            io::Write::write_all(&mut file, text.as_bytes())?;
            file.persist(path).map_err(|error| error.error)?;
        }
        Ok(paths)
    }
}
