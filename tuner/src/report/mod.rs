//! What a tuning found, to look at: one self-contained HTML page, with CSV and JSON beside it.
//!
//! The page carries the script that draws its charts, and needs no network.

pub mod explain;
mod numbers;
mod page;
pub mod words;

pub use numbers::{Effect, Importance, Summary};

use super::compare::Decision;
use super::goals::Front;
use super::objective::Objective;
use super::{Config, Outcome, Value};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// One measured configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The configuration.
    pub config: Config,
    /// What measuring it gave.
    pub outcome: Outcome,
}

/// A tuning, as it is reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What was tuned.
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
    /// How many of them the search made, the first ones: the pictures show only these, because a single launch of the
    /// final rounds is not an evaluation to rank by. `None`: all.
    #[serde(default)]
    pub searched: Option<usize>,
    /// The decisions that followed.
    pub decisions: Vec<Decision>,
    /// What the outcomes' numbers stand for.
    #[serde(default)]
    pub objective: Objective,
    /// What there is to choose from where there are several objectives.
    #[serde(default)]
    pub front: Option<Front>,
}

impl Report {
    /// The evaluations of the search.
    pub fn search(&self) -> &[Evaluation] {
        let end = self.searched.map_or(self.evaluations.len(), |searched| searched.min(self.evaluations.len()));
        &self.evaluations[..end]
    }

    /// The page.
    pub fn html(&self) -> String {
        page::html(self)
    }

    /// The evaluations, a row each: number, the parameters, state (`ok` or the kind of failure), mean, median, least time
    /// and standard deviation in ms, number of samples, message of the failure.
    pub fn csv(&self) -> String {
        numbers::csv(self)
    }

    /// The decisions, a row each comparison with the default: number of the decision, the parameters, what the comparison
    /// was (`candidate`, or `confirmation` on fresh samples), verdict, difference with its interval in %, chance, level,
    /// blocks, samples used and discarded, message of a failure.
    pub fn decisions_csv(&self) -> String {
        numbers::decisions_csv(self)
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

    /// Writes `NAME.html`, `NAME.csv`, `NAME-decisions.csv` and `NAME.json` into `directory`, which is made if need be.
    /// Their paths.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write(&self, directory: &Path, name: &str) -> std::io::Result<[PathBuf; 4]> {
        std::fs::create_dir_all(directory)?;
        let paths =
            [".html", ".csv", "-decisions.csv", ".json"].map(|ending| directory.join(format!("{name}{ending}")));
        std::fs::write(&paths[0], self.html())?;
        std::fs::write(&paths[1], self.csv())?;
        std::fs::write(&paths[2], self.decisions_csv())?;
        std::fs::write(&paths[3], self.json()?)?;
        Ok(paths)
    }
}
