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
use super::{Config, Outcome, Value};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

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
        write_whole(&paths[0], &self.html())?;
        write_whole(&paths[1], &self.csv())?;
        write_whole(&paths[2], &self.json()?)?;
        Ok(paths)
    }
}

/// Writes a file that is whole or not there: what was at the path stays until all is written. A FIFO or a device is
/// written to directly.
///
/// # Errors
/// Those of writing.
pub fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let there = fs::metadata(path);
    if there.as_ref().is_ok_and(|there| !there.is_file()) {
        return fs::write(path, text);
    }
    // A link stays one.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // With the mode that the umask leaves; tempfile's own is for its user alone.
    let create = |path: &Path| File::options().write(true).create_new(true).open(path);
    let mut file = tempfile::Builder::new().prefix(".tuner-").suffix(".part").make_in(folder, create)?;
    file.write_all(text.as_bytes())?;
    if let Ok(there) = there {
        // The new file may lack the right to the old one's mode; it then keeps the usual one.
        let _ = file.as_file().set_permissions(there.permissions());
    }
    file.persist(target).map_err(|error| error.error)?;
    Ok(())
}
