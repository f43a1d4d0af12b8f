//! Parameter sets of several workloads, as `tune workloads --json` writes them under `sets`.

use serde::Serialize;
use tuner::workloads::Features;

#[derive(Debug, Serialize)]
pub struct SetsFile {
    pub backend: String,
    pub device: String,
    pub of: Vec<SetOf>,
}

#[derive(Debug, Serialize)]
pub struct SetOf {
    pub workload: String,
    /// Features of its batches in the mean.
    pub looks: Features,
    /// The parameters, as `name=value,…`.
    pub parameters: String,
}
