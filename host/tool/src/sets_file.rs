//! The file of parameter sets of several workloads, as `tune workloads --json` writes it under `sets`.

use std::fs::File;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tuner::Config;
use tuner::workloads::{Features, Tuned};

use crate::Failure;
use ut_data::memory::read_text;
use ut_decoders::Backend;

/// Larger files are refused: a few sets take some kilobytes.
const LARGEST: u64 = 16 << 20;

/// Sets of one backend and machine.
#[derive(Debug, Serialize, Deserialize)]
pub struct SetsFile {
    /// The backend that they were tuned for.
    pub backend: String,
    /// The machine on which they were measured.
    pub device: String,
    /// A set for each workload.
    pub of: Vec<SetOf>,
}

/// The set of a workload.
#[derive(Debug, Serialize, Deserialize)]
pub struct SetOf {
    /// Its name.
    pub workload: String,
    /// What its batches look like in the mean.
    pub looks: Features,
    /// The parameters, as `name=value,…`.
    pub parameters: String,
}

impl SetsFile {
    /// Reads a file, and lets `made` make something of it.
    ///
    /// # Errors
    /// A file that holds no sets, or what `made` refuses, with the file's name.
    pub fn read<T>(path: &Path, made: impl FnOnce(Self) -> Result<T, Failure>) -> Result<T, Failure> {
        let wrong = |what: String| -> Failure { format!("{}: {what}", path.display()).into() };
        let text = File::open(path).and_then(|text| read_text(text, LARGEST));
        let text = text.map_err(|error| wrong(error.to_string()))?;
        let value: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let sets =
            value.get("sets").ok_or_else(|| wrong("no sets in it; `tune workloads --json` writes them".into()))?;
        let file: Self = serde_json::from_value(sets.clone()).map_err(|error| wrong(format!("sets: {error}")))?;
        made(file).map_err(|failure| wrong(failure.to_string()))
    }

    /// Refuses the sets of another backend.
    ///
    /// # Errors
    /// In words.
    pub fn check_backend(&self, backend: Backend) -> Result<(), Failure> {
        if self.backend == backend.name() {
            return Ok(());
        }
        Err(format!("its sets are for the backend {}, this is {}", self.backend, backend.name()).into())
    }

    /// A set as the rule that picks one takes it, with `config` for its parameters.
    pub fn tuned(&self, of: &SetOf, config: Config) -> Tuned {
        Tuned { config, device: self.device.clone(), workload: of.workload.clone(), features: of.looks.clone() }
    }
}
