//! Report of a tuning: one self-contained HTML page, which needs no network, and the same as JSON.

pub mod explain;
mod numbers;
mod page;
pub mod words;

pub use numbers::{Effect, Importance, Interaction, Summary};

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};
use tuner::compare::Decision;
use tuner::objective::Objective;
use tuner::store::Observation;
use tuner::store::contents::RunRecord;
use tuner::{Config, Value};

/// Contents of a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Heading of the page; for a run, the tunable.
    pub title: String,
    /// Name of the device, with platform, runtime and driver where they are known.
    pub device: String,
    /// Other lines of the overview: strategy, workload, seed.
    pub facts: Vec<(String, String)>,
    /// Names and values of the parameters, in the order of a configuration.
    pub parameters: Vec<(String, Vec<Value>)>,
    /// Default configuration, whose time the page shows; `None` if it is not known.
    pub default: Option<Config>,
    /// Evaluations in order.
    pub evaluations: Vec<Observation>,
    /// Number of evaluations of the search, which come first; `None`: all. The charts show only
    /// these, because final rounds measure single launches.
    #[serde(default)]
    pub searched: Option<usize>,
    /// Decisions of the final rounds.
    pub decisions: Vec<Decision>,
    /// Measured quantity, by which the page turns costs into values with a unit.
    #[serde(default)]
    pub objective: Objective,
}

impl Report {
    /// Makes the report of a run.
    pub fn of(record: &RunRecord, default: Option<Config>) -> Self {
        let evidence = record.decision.as_ref();
        let objective = record.workload.objective();
        let mut facts = vec![
            ("workload", record.workload.to_string()),
            ("strategy", record.plan.strategy.clone()),
            ("seed", record.plan.seed.to_string()),
            ("budget", record.plan.budget.clone()),
        ];
        if let Some(evidence) = evidence {
            let final_rounds = evidence
                .details
                .as_ref()
                .is_some_and(|details| details.final_launches > 0);
            let of = if final_rounds {
                " in the final rounds"
            } else {
                ""
            };
            let chosen = words::in_words(&record.space.parameters, &evidence.chosen.config);
            facts.extend([
                ("ended because", evidence.stopped.clone()),
                (
                    "chosen",
                    format!("{chosen}: {}{of}", objective.words(evidence.chosen.time_ms)),
                ),
                ("verdict", evidence.verdict.clone()),
            ]);
        }
        let details = evidence.and_then(|evidence| evidence.details.as_deref());
        Self {
            title: record.tunable.to_string(),
            device: record.device.to_string(),
            facts: facts
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            parameters: record.space.parameters.clone(),
            default,
            evaluations: record.measurements.clone(),
            searched: evidence.map(|evidence| evidence.tried),
            decisions: details
                .map(|details| details.decisions.clone())
                .unwrap_or_default(),
            objective,
        }
    }

    /// Returns the evaluations of the search.
    pub fn search(&self) -> &[Observation] {
        let end = self.searched.map_or(self.evaluations.len(), |searched| {
            searched.min(self.evaluations.len())
        });
        &self.evaluations[..end]
    }

    /// Writes report and summary as JSON.
    ///
    /// # Errors
    /// Never, because all types can be serialised.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(
            &serde_json::json!({ "summary": self.summary(), "report": self }),
        )
    }

    /// Writes `NAME.html` and `NAME.json` into `directory`, which is made if needed, and returns
    /// the paths. Each file is written whole or not at all.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&self, directory: &Path, name: &str) -> io::Result<[PathBuf; 2]> {
        fs::create_dir_all(directory)?;
        let paths = ["html", "json"].map(|ending| directory.join(format!("{name}.{ending}")));
        for (path, text) in paths.iter().zip([self.html(), self.json()?]) {
            // With the mode of the umask: tempfile's own excludes other users.
            let create = |path: &Path| fs::File::options().write(true).create_new(true).open(path);
            let mut file = tempfile::Builder::new()
                .prefix(".tuner-")
                .suffix(".part")
                .make_in(directory, create)?;
            io::Write::write_all(&mut file, text.as_bytes())?;
            file.persist(path).map_err(|error| error.error)?;
        }
        Ok(paths)
    }
}
