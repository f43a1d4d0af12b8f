//! Parameter sets of several workloads, as `tune workloads --json` writes them under `sets`.

use serde::Serialize;
use tuner::workloads::Features;

/// Sets of one backend and machine.
#[derive(Debug, Serialize)]
pub struct SetsFile {
    /// Backend that they were tuned for.
    pub backend: String,
    /// Machine on which they were measured.
    pub device: String,
    /// A set for each workload.
    pub of: Vec<SetOf>,
}

/// The set of a workload.
#[derive(Debug, Serialize)]
pub struct SetOf {
    /// Name of the workload.
    pub workload: String,
    /// Features of its batches in the mean.
    pub looks: Features,
    /// The parameters, as `name=value,…`.
    pub parameters: String,
}
