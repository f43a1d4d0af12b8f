//! Chain of kernels, described by a TOML file (`examples/chain/chain.toml`) and tuned in groups.
//!
//! Kernels that run concurrently or share a step are tuned together, on the time of the step: a kernel that is faster
//! alone may take resources that another needs. Kernels in no group are tuned by themselves. In the end the whole chain
//! with all chosen values is measured against all defaults, and only that verdict counts.

use crate::compare::{Comparison, Dropped, Plan, compare};
use crate::space::file::read_limited;
use crate::verdict::{Side, Verdict};
use crate::watch::Watch;
use crate::{Config, Device, Failure, FailureKind, Outcome, Parameter, Space, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Most configurations of a group: more cannot be listed in reasonable time.
const MOST: usize = 200_000;

/// Contents of a file of groups.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ChainFile {
    /// Values that replace the default of a single device.
    #[serde(default)]
    pub default: BTreeMap<String, Value>,
    /// Kernels, if each is a device of its own.
    #[serde(default, rename = "kernel")]
    pub kernels: Vec<KernelEntry>,
    #[serde(default, rename = "group")]
    pub groups: Vec<GroupEntry>,
    /// Workloads, for each of which the chain is tuned.
    #[serde(default, rename = "workload")]
    pub workloads: Vec<WorkloadEntry>,
}

/// Workload of programs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct WorkloadEntry {
    pub name: String,
    /// Values of places in the programs' commands.
    #[serde(flatten)]
    pub values: BTreeMap<String, Value>,
}

/// Kernel that is a device by itself.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the names say it")]
pub struct KernelEntry {
    pub name: String,
    /// Device, as on the command line.
    pub device: Option<String>,
    /// Options of a program, as on the command line, instead of a device.
    pub program: Option<toml::Table>,
    /// Values that replace the default of the space.
    #[serde(default)]
    pub default: BTreeMap<String, Value>,
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

fn too_many(group: &str) -> String {
    let what = "restrict its spaces, or make groups of fewer kernels";
    format!("group {group} has more than {MOST} configurations: {what}")
}

fn in_words(values: &BTreeMap<String, Value>) -> String {
    values.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" and ")
}

impl ChainFile {
    /// Reads a file.
    ///
    /// # Errors
    /// If the file cannot be read, or contradicts itself.
    pub fn read(path: &Path) -> Result<Self, String> {
        let wrong = |what: String| format!("{}: {what}", path.display());
        let file: Self =
            toml::from_str(&read_limited(path).map_err(wrong)?).map_err(|error| wrong(error.to_string()))?;
        let mut names: Vec<&str> = file.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        names.sort_unstable();
        if let Some([name, _]) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(wrong(format!("there are two kernels called {name:?}")));
        }
        if let Some(kernel) = file.kernels.iter().find(|kernel| kernel.device.is_some() == kernel.program.is_some()) {
            return Err(wrong(format!("kernel {:?} has either a device or a program", kernel.name)));
        }
        if !file.kernels.is_empty() && !file.default.is_empty() {
            return Err(wrong("where kernels are devices, each has a default of its own".to_owned()));
        }
        if !file.workloads.is_empty() && file.kernels.iter().all(|kernel| kernel.program.is_none()) {
            return Err(wrong("a workload gives values to programs, and there is no program".to_owned()));
        }
        Ok(file)
    }
}

/// Kernel of a chain.
#[expect(missing_docs, reason = "the names say it")]
pub struct Kernel<'d> {
    pub name: String,
    pub device: Box<dyn Device + Send + 'd>,
    pub space: Space,
    pub default: Config,
}

impl Kernel<'_> {
    fn times(&mut self, config: &Config, launches: usize) -> Result<Vec<f64>, Failure> {
        let name = &self.name;
        match self.device.measure(config, launches) {
            Outcome::Times(times) if times.len() == launches => Ok(times),
            Outcome::Times(times) => {
                let message = format!("{name}: {} times for {launches} launches", times.len());
                Err(Failure { kind: FailureKind::Launch, message })
            }
            Outcome::Failed(Failure { kind, message }) => Err(Failure { kind, message: format!("{name}: {message}") }),
        }
    }
}

/// Returns a default with the `given` values: `base` with these replaced, else the first configuration that has them.
///
/// # Errors
/// If no valid configuration has the given values.
pub fn default_of(
    of: &str,
    space: &Space,
    base: Option<&Config>,
    given: &BTreeMap<String, Value>,
) -> Result<Config, String> {
    let wrong = || format!("{of}: no valid configuration has {}", in_words(given));
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

/// Kernels, or parameters of one kernel, that are tuned together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Group {
    pub name: String,
    /// Numbers of the kernels or parameters, whose configurations are joined in this order.
    pub kernels: Vec<usize>,
}

/// Result of tuning a chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainDecision {
    /// Configurations to use: the proposed ones if the chain is better with them, else the defaults.
    pub configs: Vec<Config>,
    /// Configurations that the groups chose.
    pub proposed: Vec<Config>,
    /// Comparison of the whole chain with the defaults (A) and as proposed (B); none if both are equal.
    pub comparison: Option<Comparison>,
    /// Failure of the chain with the proposed configurations.
    pub failure: Option<Failure>,
}

/// Unit of a chain: a parameter of its only device, or one of its devices.
struct Unit {
    name: String,
    /// Names of the parameters in a group's configuration.
    names: Vec<String>,
    default: Config,
    /// Number of values or configurations.
    choices: usize,
}

/// Chain that is tuned in groups. Its units are the parameters of one device, or several devices.
pub struct DeviceChain<'d> {
    kernels: Vec<Kernel<'d>>,
    /// True if the units are the parameters of the only kernel, false if they are the kernels.
    parameters: bool,
    units: Vec<Unit>,
    groups: Vec<Group>,
    /// Units of each step whose kernels run concurrently.
    concurrent: Vec<Vec<usize>>,
}

impl<'d> DeviceChain<'d> {
    /// Makes the chain of `kernels`. With `parameters`, there is one kernel, whose parameters are the units.
    ///
    /// # Errors
    /// If a group is empty, names an unknown unit, or names one that is in a group already.
    pub fn new(kernels: Vec<Kernel<'d>>, parameters: bool, entries: &[GroupEntry]) -> Result<Self, String> {
        let units: Vec<Unit> = if parameters {
            let all = kernels.iter().flat_map(|kernel| kernel.space.parameters().iter().zip(&kernel.default.0));
            let unit = |(parameter, value): (&Parameter, &Value)| {
                let (name, choices) = (parameter.name().to_owned(), parameter.values().len());
                Unit { names: vec![name.clone()], name, default: Config(vec![value.clone()]), choices }
            };
            all.map(unit).collect()
        } else {
            let unit = |Kernel { name, space, default, .. }: &Kernel<'_>| {
                let names = space.names().iter().map(|parameter| format!("{name}.{parameter}")).collect();
                Unit { name: name.clone(), names, default: default.clone(), choices: space.len() }
            };
            kernels.iter().map(unit).collect()
        };
        let known: Vec<String> = units.iter().map(|unit| unit.name.clone()).collect();
        let mut chain = Self { kernels, parameters, units, groups: Vec::new(), concurrent: Vec::new() };
        let mut taken = vec![false; known.len()];
        for entry in entries {
            let group = entry.name.clone().unwrap_or_else(|| entry.together.join(" + "));
            let mut units = Vec::new();
            for member in &entry.together {
                let place = format!("{member}.");
                let named = (0..known.len()).filter(|&i| known[i] == *member || known[i].starts_with(&place));
                let named: Vec<usize> = named.collect();
                if named.is_empty() {
                    let known = known.join(", ");
                    return Err(format!("group {group}: there is no {member:?}; there are {known}"));
                }
                for unit in named {
                    if std::mem::replace(&mut taken[unit], true) {
                        return Err(format!("group {group}: {member:?} is in a group already"));
                    }
                    units.push(unit);
                }
            }
            if units.is_empty() {
                return Err(format!("group {group} is empty"));
            }
            if entry.concurrent {
                chain.concurrent.push(units.clone());
            }
            chain.groups.push(Group { name: group, kernels: units });
        }
        // Units in no group are tuned by themselves if there is a choice.
        let alone: Vec<usize> =
            (0..known.len()).filter(|&unit| !taken[unit] && chain.units[unit].choices > 1).collect();
        chain.groups.extend(alone.into_iter().map(|unit| Group { name: known[unit].clone(), kernels: vec![unit] }));
        Ok(chain)
    }

    /// Returns the names of the devices.
    pub fn name(&self) -> String {
        self.kernels.iter().map(|kernel| kernel.device.name()).collect::<Vec<_>>().join(" + ")
    }

    /// Returns the groups, followed by the units that are tuned by themselves.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Returns the default of each unit.
    pub fn defaults(&self) -> Vec<Config> {
        self.units.iter().map(|unit| unit.default.clone()).collect()
    }

    /// Returns the names of the parameters of `units`, in the order of a group's configuration.
    pub fn names(&self, units: &[usize]) -> Vec<String> {
        units.iter().flat_map(|&unit| self.units[unit].names.clone()).collect()
    }

    /// Returns the configurations of `units`, with all other units at their defaults.
    ///
    /// # Errors
    /// If there are too many.
    pub fn space_of(&self, name: &str, units: &[usize]) -> Result<Space, String> {
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
                    return Err(too_many(name));
                }
                let longer = |row: &Vec<Value>| {
                    let row = row.clone();
                    (0..space.len()).map(move |index| [&row[..], &space.config(index).0].concat())
                };
                rows = rows.iter().flat_map(longer).collect();
            }
        }
        if rows.len() > MOST {
            return Err(too_many(name));
        }
        let made = Space::recorded(&self.names(units), &rows);
        made.map(|(space, _)| space).map_err(|error| format!("{name}: {error}"))
    }

    /// Measures the step of `units`: the sum of their times, or the longest if they run concurrently. A single device
    /// is always measured whole.
    ///
    /// # Panics
    /// If a unit is not in the chain.
    pub fn step(&mut self, units: &[usize], configs: &[Config], launches: usize) -> Outcome {
        if self.parameters {
            return self.kernels[0].device.measure(&joined(configs), launches);
        }
        let mut together = vec![0.0_f64; launches];
        if self.concurrent.iter().any(|step| step == units) {
            let panicked = || Failure { kind: FailureKind::Launch, message: "the device panicked".to_owned() };
            for longest in &mut together {
                let kernels = self.kernels.iter_mut().enumerate().filter(|(unit, _)| units.contains(unit));
                let times: Result<Vec<_>, Failure> = std::thread::scope(|scope| {
                    let running: Vec<_> =
                        kernels.map(|(unit, kernel)| scope.spawn(move || kernel.times(&configs[unit], 1))).collect();
                    running.into_iter().map(|kernel| kernel.join().unwrap_or_else(|_| Err(panicked()))).collect()
                });
                match times {
                    Ok(times) => *longest = times.concat().into_iter().fold(0.0, f64::max),
                    Err(failure) => return Outcome::Failed(failure),
                }
            }
            return Outcome::Times(together);
        }
        for &unit in units {
            match self.kernels[unit].times(&configs[unit], launches) {
                Ok(times) => together.iter_mut().zip(times).for_each(|(sum, time)| *sum += time),
                Err(failure) => return Outcome::Failed(failure),
            }
        }
        Outcome::Times(together)
    }

    /// Measures the whole chain.
    pub fn whole(&mut self, configs: &[Config], launches: usize) -> Outcome {
        if self.parameters {
            return self.step(&[], configs, launches);
        }
        let mut steps = self.concurrent.clone();
        let rest = (0..self.kernels.len()).filter(|unit| !steps.iter().any(|step| step.contains(unit)));
        let rest: Vec<Vec<usize>> = rest.map(|unit| vec![unit]).collect();
        steps.extend(rest);
        let mut sum = vec![0.0_f64; launches];
        for step in steps {
            match self.step(&step, configs, launches) {
                Outcome::Times(times) => sum.iter_mut().zip(times).for_each(|(sum, time)| *sum += time),
                failed @ Outcome::Failed(_) => return failed,
            }
        }
        Outcome::Times(sum)
    }

    /// Tunes the groups, and judges the result on the whole chain.
    ///
    /// `choose` gets a group, a device with the configurations of the group, and the default, and returns a
    /// configuration.
    ///
    /// # Errors
    /// If a choice has another number of values than the default, or the chain fails with its defaults.
    pub fn tune(
        &mut self,
        plan: &Plan,
        watch: &mut dyn Watch,
        choose: &mut dyn FnMut(&Group, &mut dyn Device, &Config) -> Config,
    ) -> Result<ChainDecision, String> {
        let defaults = self.defaults();
        let mut proposed = defaults.clone();
        for group in self.groups.clone() {
            let default = joined(&group.kernels.iter().map(|&unit| defaults[unit].clone()).collect::<Vec<_>>());
            // The other units at their defaults, so that the order of the groups does not matter.
            let mut part = Part { chain: self, configs: defaults.clone(), units: &group.kernels, whole: false };
            let chosen = choose(&group, &mut part, &default);
            if !put(&mut proposed, &group.kernels, &chosen) {
                let (got, expected) = (chosen.0.len(), default.0.len());
                let why = format!("{got} values were chosen, the defaults have {expected}");
                return Err(format!("group {}: {why}", group.name));
            }
        }
        let mut decision = ChainDecision { configs: defaults.clone(), proposed, comparison: None, failure: None };
        if decision.proposed == defaults {
            return Ok(decision);
        }
        let all: Vec<usize> = (0..defaults.len()).collect();
        let (a, b) = (joined(&defaults), joined(&decision.proposed));
        let mut whole = Part { chain: self, configs: defaults, units: &all, whole: true };
        match compare(&mut whole, &a, &b, plan, watch) {
            Ok(comparison) => {
                if comparison.judgement.verdict == Verdict::Better(Side::B) {
                    decision.configs.clone_from(&decision.proposed);
                }
                decision.comparison = Some(comparison);
                Ok(decision)
            }
            Err(Dropped { side: 0, failure }) => Err(format!("the chain fails with its defaults: {}", failure.message)),
            // The chain fails as proposed: the defaults stay.
            Err(Dropped { failure, .. }) => {
                decision.failure = Some(failure);
                Ok(decision)
            }
        }
    }
}

/// Part of a chain as a device: it varies the joined configurations of `units`; the other units keep theirs.
struct Part<'a, 'd> {
    chain: &'a mut DeviceChain<'d>,
    configs: Vec<Config>,
    units: &'a [usize],
    whole: bool,
}

impl Device for Part<'_, '_> {
    fn name(&self) -> String {
        self.chain.name()
    }

    fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
        if !put(&mut self.configs, self.units, config) {
            let message = format!("{} values do not fit the kernels", config.0.len());
            return Outcome::Failed(Failure { kind: FailureKind::Constraint, message });
        }
        if self.whole {
            self.chain.whole(&self.configs, launches)
        } else {
            self.chain.step(self.units, &self.configs, launches)
        }
    }
}

/// Puts the values of `config` into the configurations of `units`; returns false if their number does not fit.
fn put(configs: &mut [Config], units: &[usize], config: &Config) -> bool {
    let fits = units.iter().map(|unit| configs[*unit].0.len()).sum::<usize>() == config.0.len();
    let mut values = config.0.iter();
    for unit in units.iter().filter(|_| fits) {
        for (place, value) in configs[*unit].0.iter_mut().zip(&mut values) {
            place.clone_from(value);
        }
    }
    fits
}

/// Joins the configurations of several units to one.
pub fn joined(configs: &[Config]) -> Config {
    Config(configs.iter().flat_map(|config| config.0.iter().cloned()).collect())
}
