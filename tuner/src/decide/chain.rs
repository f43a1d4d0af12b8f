//! A chain of kernels as a user describes it, in a TOML file.
//!
//! ```toml
//! # Of one device (the CPU decoder, a GPU, a recording) the groups are made of its parameters; `cluster` means all that
//! # begin with `cluster.`.
//! [default]                             # what is used now, where the device has no default of its own
//! block = 128
//!
//! [[group]]
//! name = "how many events at a time"    # may be left out
//! together = ["batch", "chunk"]
//!
//! # Or each kernel of the chain is a device of its own, and the groups are made of kernels.
//! [[kernel]]
//! name = "cluster"
//! device = "replay:cluster.json"        # or synthetic:seed=1,noise=0.01
//! default = { block = 128 }             # what is not named has the first value that is valid with it
//!
//! [[group]]
//! together = ["cluster", "scan"]
//! concurrent = true                     # they run at once: their step takes as long as the slowest, not as all of them
//! ```
//!
//! What no group names is tuned by itself.

use super::groups::{Chain, Group, Span};
use crate::space::file::read_limited;
use crate::{Config, Device, Failure, FailureKind, Outcome, Space, SpaceError, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// Most configurations of a group; more would not even be listed in reasonable time.
const MOST: usize = 200_000;

/// What a file of groups says.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainFile {
    /// The default of the one device, as far as it is not the device's own.
    #[serde(default)]
    pub default: BTreeMap<String, Value>,
    /// The kernels, if each is a device of its own.
    #[serde(default, rename = "kernel")]
    pub kernels: Vec<KernelEntry>,
    /// The groups.
    #[serde(default, rename = "group")]
    pub groups: Vec<GroupEntry>,
}

/// A kernel that is a device by itself.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelEntry {
    /// Its name.
    pub name: String,
    /// The device, as on the command line.
    pub device: String,
    /// What it runs with now.
    #[serde(default)]
    pub default: BTreeMap<String, Value>,
}

/// Kernels or parameters that are tuned together.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupEntry {
    /// Name of the group; without one, that of its members.
    pub name: Option<String>,
    /// Their names.
    pub together: Vec<String>,
    /// Whether the kernels run at once.
    #[serde(default)]
    pub concurrent: bool,
}

/// What is wrong with a chain.
#[derive(Debug, thiserror::Error)]
pub enum ChainFileError {
    /// The file cannot be read, or is not of this form.
    #[error("{file}: {what}")]
    File {
        /// The file.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// A group names something that does not exist.
    #[error("group {group}: there is no {member:?}; there are {}", known.join(", "))]
    Member {
        /// The group.
        group: String,
        /// What it names.
        member: String,
        /// What there is.
        known: Vec<String>,
    },
    /// Something is in two groups, or twice in one.
    #[error("group {group}: {member:?} is in a group already")]
    Twice {
        /// The group.
        group: String,
        /// What it names.
        member: String,
    },
    /// A group without members.
    #[error("group {0} is empty")]
    Empty(String),
    /// A default that the space does not have.
    #[error("{of}: no valid configuration has {}", in_words(values))]
    Default {
        /// The kernel or group.
        of: String,
        /// Its default.
        values: BTreeMap<String, Value>,
    },
    /// A space cannot be made.
    #[error("{of}: {source}")]
    Space {
        /// The kernel or group.
        of: String,
        /// Why.
        source: SpaceError,
    },
    /// Too many configurations.
    #[error("group {0} has more than {MOST} configurations: restrict its spaces, or make groups of fewer kernels")]
    TooMany(String),
}

fn in_words(values: &BTreeMap<String, Value>) -> String {
    values.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" and ")
}

impl ChainFile {
    /// Reads a file.
    ///
    /// # Errors
    /// The file, with what is wrong in it.
    pub fn read(path: &Path) -> Result<Self, ChainFileError> {
        let wrong = |what: String| ChainFileError::File { file: path.display().to_string(), what };
        let file: Self =
            toml::from_str(&read_limited(path).map_err(wrong)?).map_err(|error| wrong(error.to_string()))?;
        let mut names: Vec<&str> = file.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        names.sort_unstable();
        if let Some([name, _]) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(wrong(format!("there are two kernels called {name:?}")));
        }
        if !file.kernels.is_empty() && !file.default.is_empty() {
            return Err(wrong("where kernels are devices, each has a default of its own".to_owned()));
        }
        Ok(file)
    }
}

/// A kernel: a device, its configurations, and what it runs with now.
pub struct Kernel<'d> {
    /// Its name.
    pub name: String,
    /// What measures it.
    pub device: Box<dyn Device + 'd>,
    /// Its configurations.
    pub space: Space,
    /// What it runs with now.
    pub default: Config,
}

/// The default of a space: `given` values, for the others those of `base`, else of the first configuration that has the
/// given ones.
///
/// # Errors
/// [`ChainFileError::Default`].
pub fn default_of(
    of: &str,
    space: &Space,
    base: Option<&Config>,
    given: &BTreeMap<String, Value>,
) -> Result<Config, ChainFileError> {
    let wrong = || ChainFileError::Default { of: of.to_owned(), values: given.clone() };
    let names = space.names();
    if given.keys().any(|name| !names.contains(name)) {
        return Err(wrong());
    }
    let has = |config: &Config| {
        names.iter().zip(&config.0).all(|(name, value)| given.get(name).is_none_or(|given| given == value))
    };
    if let Some(base) = base {
        let changed = names.iter().zip(&base.0).map(|(name, value)| given.get(name).unwrap_or(value).clone());
        let changed = Config(changed.collect());
        if space.index_of(&changed).is_some() {
            return Ok(changed);
        }
    }
    (0..space.len()).map(|index| space.config(index)).find(has).ok_or_else(wrong)
}

/// A chain that can be run and tuned in groups: either the parameters of one device, or several devices.
pub struct DeviceChain<'d> {
    kernels: Vec<Kernel<'d>>,
    /// Whether the units are the parameters of the only kernel; otherwise they are the kernels.
    parameters: bool,
    groups: Vec<Group>,
    /// Steps whose kernels run at once, by their units.
    concurrent: Vec<Vec<usize>>,
}

impl<'d> DeviceChain<'d> {
    /// The chain of `kernels`. With `parameters`, there is one of them, and its parameters are grouped.
    ///
    /// # Errors
    /// Groups that name what does not exist, or something twice.
    pub fn new(kernels: Vec<Kernel<'d>>, parameters: bool, entries: &[GroupEntry]) -> Result<Self, ChainFileError> {
        let mut chain = Self { kernels, parameters, groups: Vec::new(), concurrent: Vec::new() };
        let known = chain.units();
        let mut taken = vec![false; known.len()];
        for entry in entries {
            let group = entry.name.clone().unwrap_or_else(|| entry.together.join(" + "));
            let mut units = Vec::new();
            for member in &entry.together {
                let place = format!("{member}.");
                let named = (0..known.len()).filter(|&i| known[i] == *member || known[i].starts_with(&place));
                let named: Vec<usize> = named.collect();
                if named.is_empty() {
                    return Err(ChainFileError::Member { group, member: member.clone(), known });
                }
                for unit in named {
                    if std::mem::replace(&mut taken[unit], true) {
                        return Err(ChainFileError::Twice { group, member: member.clone() });
                    }
                    units.push(unit);
                }
            }
            if units.is_empty() {
                return Err(ChainFileError::Empty(group));
            }
            if entry.concurrent {
                chain.concurrent.push(units.clone());
            }
            chain.groups.push(Group { name: group, kernels: units, together: true });
        }
        // What no group names is tuned by itself, unless there is nothing to choose.
        let alone: Vec<usize> = (0..known.len()).filter(|&unit| !taken[unit] && chain.choices(unit) > 1).collect();
        chain.groups.extend(alone.into_iter().map(|unit| Group {
            name: known[unit].clone(),
            kernels: vec![unit],
            together: false,
        }));
        Ok(chain)
    }

    /// The names of what is grouped: the parameters of the device, or the kernels.
    pub fn units(&self) -> Vec<String> {
        if self.parameters {
            self.kernels[0].space.names()
        } else {
            self.kernels.iter().map(|kernel| kernel.name.clone()).collect()
        }
    }

    fn choices(&self, unit: usize) -> usize {
        if self.parameters {
            self.kernels[0].space.parameters()[unit].values().len()
        } else {
            self.kernels[unit].space.len()
        }
    }

    /// The groups, those that no group names last.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// What each unit runs with now.
    pub fn defaults(&self) -> Vec<Config> {
        if self.parameters {
            self.kernels[0].default.0.iter().map(|value| Config(vec![value.clone()])).collect()
        } else {
            self.kernels.iter().map(|kernel| kernel.default.clone()).collect()
        }
    }

    /// The names of the parameters of `units`, in the order of a group's configuration.
    pub fn names(&self, units: &[usize]) -> Vec<String> {
        if self.parameters {
            let names = self.kernels[0].space.names();
            return units.iter().map(|&unit| names[unit].clone()).collect();
        }
        let of = |unit: &usize| {
            let kernel = &self.kernels[*unit];
            kernel.space.names().into_iter().map(move |name| format!("{}.{name}", kernel.name))
        };
        units.iter().flat_map(of).collect()
    }

    /// The configurations of `units`, all others at their defaults.
    ///
    /// # Errors
    /// Too many, or values that no space can have.
    pub fn space_of(&self, name: &str, units: &[usize]) -> Result<Space, ChainFileError> {
        let mut rows: Vec<Vec<Value>> = Vec::new();
        if self.parameters {
            let Kernel { space, default, .. } = &self.kernels[0];
            for index in 0..space.len() {
                let config = space.config(index).0;
                let others = (0..config.len()).filter(|place| !units.contains(place));
                if others.into_iter().all(|place| config[place] == default.0[place]) {
                    rows.push(units.iter().map(|&unit| config[unit].clone()).collect());
                }
            }
        } else {
            rows.push(Vec::new());
            for &unit in units {
                let space = &self.kernels[unit].space;
                if rows.len().saturating_mul(space.len()) > MOST {
                    return Err(ChainFileError::TooMany(name.to_owned()));
                }
                let longer = |row: &Vec<Value>| {
                    let row = row.clone();
                    (0..space.len()).map(move |index| [&row[..], &space.config(index).0].concat())
                };
                rows = rows.iter().flat_map(longer).collect();
            }
        }
        if rows.len() > MOST {
            return Err(ChainFileError::TooMany(name.to_owned()));
        }
        let made = Space::recorded(&self.names(units), &rows);
        made.map(|(space, _)| space).map_err(|source| ChainFileError::Space { of: name.to_owned(), source })
    }

    /// Times of the kernels `units`, added up, or the longest where they run at once.
    fn step(&mut self, units: &[usize], configs: &[Config], launches: usize) -> Outcome {
        let mut together = vec![0.0_f64; launches];
        let at_once = self.concurrent.iter().any(|step| step == units);
        for &unit in units {
            let Kernel { name, device, .. } = &mut self.kernels[unit];
            match device.measure(&configs[unit], launches) {
                Outcome::Times(times) if times.len() == launches => {
                    for (sum, time) in together.iter_mut().zip(times) {
                        *sum = if at_once { sum.max(time) } else { *sum + time };
                    }
                }
                Outcome::Times(times) => {
                    let message = format!("{name}: {} times for {launches} launches", times.len());
                    return Outcome::Failed(Failure { kind: FailureKind::Launch, message });
                }
                Outcome::Failed(Failure { kind, message }) => {
                    return Outcome::Failed(Failure { kind, message: format!("{name}: {message}") });
                }
            }
        }
        Outcome::Times(together)
    }
}

impl Chain for DeviceChain<'_> {
    fn name(&self) -> String {
        self.kernels.iter().map(|kernel| kernel.device.name()).collect::<Vec<_>>().join(" + ")
    }

    fn measure(&mut self, configs: &[Config], span: Span<'_>, launches: usize) -> Outcome {
        if self.parameters {
            // One device has one time, whatever is asked for.
            let whole = Config(configs.iter().flat_map(|config| config.0.iter().cloned()).collect());
            return self.kernels[0].device.measure(&whole, launches);
        }
        match span {
            Span::Kernel(unit) => self.step(&[unit], configs, launches),
            Span::Step(units) => self.step(units, configs, launches),
            Span::Chain => {
                let mut sum = vec![0.0_f64; launches];
                let mut steps = self.concurrent.clone();
                let rest = (0..self.kernels.len()).filter(|unit| !steps.iter().any(|step| step.contains(unit)));
                let rest: Vec<Vec<usize>> = rest.map(|unit| vec![unit]).collect();
                steps.extend(rest);
                for step in steps {
                    match self.step(&step, configs, launches) {
                        Outcome::Times(times) => sum.iter_mut().zip(times).for_each(|(sum, time)| *sum += time),
                        failed @ Outcome::Failed(_) => return failed,
                    }
                }
                Outcome::Times(sum)
            }
        }
    }
}
