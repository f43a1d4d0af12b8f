//! File of a chain; `examples/chain/chain.toml` is one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::space::file::read_limited;
use crate::{Error, Value};

/// Contents of a file of a chain.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainFile {
    /// Values that replace defaults of the kernels' spaces, by the names of the chain's parameters.
    #[serde(default)]
    pub default: BTreeMap<String, Value>,
    /// Kernels, in the order of the chain.
    #[serde(default, rename = "kernel")]
    pub kernels: Vec<KernelEntry>,
    /// Kernels or parameters that are tuned together.
    #[serde(default, rename = "group")]
    pub groups: Vec<GroupEntry>,
    /// Parameters that always have the same value.
    #[serde(default)]
    pub shared: Vec<SharedEntry>,
    /// Conditions on parameters of several kernels.
    #[serde(default, rename = "constraint")]
    pub constraints: Vec<ConditionEntry>,
    /// Kinds of data, for each of which the chain is tuned.
    #[serde(default, rename = "workload")]
    pub workloads: Vec<WorkloadEntry>,
}

/// Kernel or program of a chain.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KernelEntry {
    /// Name, which begins the names of its parameters in the chain: `cluster.width`.
    pub name: String,
    /// Options of a program, as on the command line.
    pub program: Option<toml::Table>,
    /// Space of the program, instead of another file.
    pub space: Option<toml::Table>,
    /// Recording that is replayed instead of a program.
    pub replay: Option<PathBuf>,
    /// Places in the chain at which it runs, which `{place}` stands for in its commands; none: it
    /// runs once.
    pub at: Vec<String>,
    /// True if it has one set of parameters for each place, false if one for all.
    pub set_per_place: bool,
    /// True if parameters in no group are tuned one by one, false if together.
    pub apart: bool,
}

/// Kernels or parameters that are tuned together.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupEntry {
    /// Name of the group; by default the names of the members.
    pub name: Option<String>,
    /// Names of the members; `a` means also all that begin with `a.`.
    pub together: Vec<String>,
    /// Runs the kernels concurrently.
    #[serde(default)]
    pub concurrent: bool,
}

/// Parameters that always have the same value.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedEntry {
    /// Name in the chain.
    pub name: String,
    /// Names of the kernels' parameters: `cluster.layout`.
    pub parameters: Vec<String>,
}

/// Condition on parameters.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConditionEntry {
    /// [Expression](crate::expression) of parameters of the chain and values of the workload.
    pub when: String,
}

/// Kind of data.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct WorkloadEntry {
    /// Name, under which the store keeps what was found for it.
    pub name: String,
    /// Weight in the mean over all workloads, such as how often it occurs.
    #[serde(default = "one")]
    pub weight: f64,
    /// Files of events, for a decoder.
    #[serde(default)]
    pub events: Vec<PathBuf>,
    /// Values of places in the programs' commands.
    #[serde(flatten)]
    pub values: BTreeMap<String, Value>,
}

fn one() -> f64 {
    1.0
}

impl ChainFile {
    /// Reads a file.
    ///
    /// # Errors
    /// If the file cannot be read, or contradicts itself.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let parsed = read_limited(path).and_then(|text| Self::parse(&text));
        parsed.map_err(|error| error.of(path.display()))
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// If the text is not a valid file, or contradicts itself.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let file: Self = toml::from_str(text).map_err(|error| Error::format(error.to_string()))?;
        file.check().map_err(Error::format)?;
        Ok(file)
    }

    fn check(&self) -> Result<(), String> {
        let twice = |mut names: Vec<&str>| {
            names.sort_unstable();
            names
                .windows(2)
                .find(|pair| pair[0] == pair[1])
                .map(|pair| pair[0].to_owned())
        };
        if let Some(name) = twice(
            self.kernels
                .iter()
                .map(|kernel| kernel.name.as_str())
                .collect(),
        ) {
            return Err(format!("there are two kernels called {name:?}"));
        }
        if let Some(name) = twice(
            self.workloads
                .iter()
                .map(|workload| workload.name.as_str())
                .collect(),
        ) {
            return Err(format!("there are two workloads called {name:?}"));
        }
        for KernelEntry {
            name,
            program,
            replay,
            ..
        } in &self.kernels
        {
            if name.is_empty() || program.is_some() == replay.is_some() {
                return Err(format!(
                    "kernel {name:?} needs a name, and either a program or a recording to replay"
                ));
            }
        }
        let bad = |weight: f64| !(weight.is_finite() && weight >= 0.0);
        if let Some(workload) = self.workloads.iter().find(|workload| bad(workload.weight)) {
            return Err(format!(
                "workload {}: the weight {} is not a number of at least 0",
                workload.name, workload.weight
            ));
        }
        if !self.workloads.is_empty()
            && self.workloads.iter().all(|workload| workload.weight == 0.0)
        {
            return Err("all workloads have the weight 0".to_owned());
        }
        Ok(())
    }
}
