//! Chain of kernels or programs, described by one [file](file::ChainFile) and tuned in groups.
//!
//! Kernels that run concurrently or share a step are tuned together, on the time of the step: a
//! kernel that is faster alone may take resources that another needs. Kernels in no group are tuned
//! by themselves. Parameters that several kernels share have one value; what they or a constraint
//! connect is one group, which is measured on the time of all its steps. In the end the whole chain
//! with all chosen values is measured against all defaults, and only that verdict counts.

pub mod cost;
pub mod file;
#[cfg(feature = "store")]
pub mod tune;
pub mod workloads;

use std::collections::{BTreeMap, HashMap};

use crate::expression::{Computed, Expr, Number};
use crate::{Config, Device, Error, Failure, FailureKind, Outcome, Space, Value};
use file::ChainFile;

/// Maximum number of configurations in a group: more cannot be listed in reasonable time.
const MOST: usize = 200_000;

fn in_words(values: &BTreeMap<String, Value>) -> String {
    values
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect::<Vec<_>>()
        .join(" and ")
}

/// Kernel of a chain, at one place.
pub struct Member<'d> {
    /// Name of the kernel at this place.
    pub name: String,
    /// Beginning of the names of its parameters in the chain; empty for none. Members with the same
    /// one have one set of parameters.
    pub prefix: String,
    /// Measures it.
    pub device: Box<dyn Device + Send + 'd>,
    /// Configurations of the kernel by itself.
    pub space: Space,
    /// Default of the kernel; `None`: the first configuration.
    pub default: Option<Config>,
    /// True if parameters in no group are tuned one by one.
    pub apart: bool,
}

impl Member<'_> {
    fn times(&mut self, config: &Config, launches: usize) -> Result<Vec<f64>, Failure> {
        let name = &self.name;
        match self.device.measure(config, launches) {
            Outcome::Times(times) if times.len() == launches => Ok(times),
            Outcome::Times(times) => {
                let what = format!("{} times for {launches} launches", times.len());
                Err(FailureKind::Launch.because(what).of(name))
            }
            Outcome::Failed(failure) => Err(failure.of(name)),
        }
    }
}

/// Returns the default of a space with the `given` values: `base` with these replaced, else the
/// first configuration that has them.
fn default_of(
    of: &str,
    space: &Space,
    base: Option<&Config>,
    given: &BTreeMap<String, Value>,
) -> Result<Config, String> {
    let names = space.names();
    let has = |config: &Config| {
        names
            .iter()
            .zip(&config.0)
            .all(|(name, value)| given.get(name).is_none_or(|given| given == value))
    };
    if let Some(base) = base {
        let changed = names
            .iter()
            .zip(&base.0)
            .map(|(name, value)| given.get(name).unwrap_or(value).clone());
        let changed = Config(changed.collect());
        if space.index_of(&changed).is_some() {
            return Ok(changed);
        }
    }
    let found = (0..space.len()).map(|index| space.config(index)).find(has);
    found.ok_or_else(|| format!("{of}: no valid configuration has {}", in_words(given)))
}

/// Parameters that are tuned together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Name, or the names of what was joined.
    pub name: String,
    /// Parameters of the chain, by number, in ascending order.
    pub parameters: Vec<usize>,
}

/// Times of the kernels and steps of a chain, in ms, launch by launch.
#[derive(Clone, Debug, Default, PartialEq)]
struct LaunchTimes {
    kernels: Vec<Vec<f64>>,
    steps: Vec<Vec<f64>>,
}

/// Chain that is tuned in groups. Its configurations have a value for each of its parameters.
pub struct Chain<'d> {
    members: Vec<Member<'d>>,
    /// Parameters of each member, by number, in the order of its space.
    places: Vec<Vec<usize>>,
    names: Vec<String>,
    default: Config,
    groups: Vec<Group>,
    /// Members of each step, which run concurrently.
    steps: Vec<Vec<usize>>,
    constraints: Vec<(Expr, Vec<usize>)>,
    /// Times of the whole chain, by configuration.
    seen: HashMap<String, LaunchTimes>,
}

impl<'d> Chain<'d> {
    /// Makes the chain of `members` as `file` connects them; `values` of the workload may stand in
    /// its constraints.
    ///
    /// # Errors
    /// If a name is unknown, defaults of shared parameters differ, or a constraint is wrong or not
    /// met by the default.
    pub fn new(
        members: Vec<Member<'d>>,
        file: &ChainFile,
        values: &BTreeMap<String, Value>,
    ) -> Result<Self, Error> {
        Self::join(members, file, values).map_err(Error::request)
    }

    fn join(
        members: Vec<Member<'d>>,
        file: &ChainFile,
        values: &BTreeMap<String, Value>,
    ) -> Result<Self, String> {
        let full = |member: &Member<'_>, name: &str| match member.prefix.as_str() {
            "" => name.to_owned(),
            prefix => format!("{prefix}.{name}"),
        };
        let shared = |name: String| {
            let of = file
                .shared
                .iter()
                .find(|entry| entry.parameters.contains(&name));
            of.map_or(name, |entry| entry.name.clone())
        };
        let mut names: Vec<String> = Vec::new();
        let mut own: Vec<String> = Vec::new();
        let mut places: Vec<Vec<usize>> = Vec::new();
        for member in &members {
            let mut of = Vec::new();
            for name in member.space.names() {
                let name = full(member, &name);
                own.push(name.clone());
                let name = shared(name);
                let place = names.iter().position(|known| *known == name);
                of.push(place.unwrap_or(names.len()));
                names.extend(place.is_none().then_some(name));
            }
            places.push(of);
        }
        let unknown = |name: &str| format!("there is no {name:?}; there are {}", own.join(", "));
        if let Some(name) = file
            .shared
            .iter()
            .flat_map(|entry| &entry.parameters)
            .find(|name| !own.contains(name))
        {
            return Err(format!("shared: {}", unknown(name)));
        }
        if let Some(entry) = file.shared.iter().find(|entry| own.contains(&entry.name)) {
            return Err(format!(
                "shared: {:?} is the name of a kernel's parameter",
                entry.name
            ));
        }
        // Parameters that a name means: its own, or all that begin with it and a dot.
        let named = |name: &str| -> Vec<usize> {
            let begins = format!("{name}.");
            let is = |known: &String| known == name || known.starts_with(&begins);
            let of = own
                .iter()
                .filter(|known| is(known))
                .map(|known| shared(known.clone()));
            let of: Vec<String> = of
                .chain(names.iter().filter(|known| is(known)).cloned())
                .collect();
            (0..names.len())
                .filter(|&place| of.contains(&names[place]))
                .collect()
        };
        let mut given = vec![None; names.len()];
        for (name, value) in &file.default {
            match named(name).as_slice() {
                [place] => given[*place] = Some(value.clone()),
                _ => return Err(format!("default: {}", unknown(name))),
            }
        }
        let default = defaults(&members, &places, &names, &given)?;
        let mut constraints = Vec::new();
        for entry in &file.constraints {
            let slot = |name: &str| match named(name).as_slice() {
                [place] => Some(Expr::Slot(*place)),
                _ => values.get(name).cloned().map(Expr::Literal),
            };
            constraints.push(constraint(&entry.when, &slot, &default)?);
        }
        let mut chain = Self {
            members,
            places,
            names: names.clone(),
            default,
            groups: Vec::new(),
            steps: Vec::new(),
            constraints,
            seen: HashMap::new(),
        };
        chain.connect(file, &|name| match named(name) {
            none if none.is_empty() => Err(unknown(name)),
            found => Ok(found),
        })?;
        Ok(chain)
    }

    /// Makes the steps, and the groups: those of the file, then what no group has.
    fn connect(
        &mut self,
        file: &ChainFile,
        named: &dyn Fn(&str) -> Result<Vec<usize>, String>,
    ) -> Result<(), String> {
        let mut groups: Vec<Group> = Vec::new();
        for entry in &file.groups {
            let joined = || entry.together.join(" + ");
            let name = entry.name.clone().unwrap_or_else(joined);
            let wrong = |what: String| format!("group {name}: {what}");
            let mut parameters = Vec::new();
            for member in &entry.together {
                parameters.extend(named(member).map_err(wrong)?);
            }
            if parameters.is_empty() {
                return Err(wrong("it is empty".to_owned()));
            }
            if entry.concurrent {
                let step = self.running(&entry.together);
                if self.steps.iter().flatten().any(|at| step.contains(at)) {
                    let what = "one of its kernels is already in a concurrent group";
                    return Err(wrong(what.to_owned()));
                }
                self.steps.push(step);
            }
            groups.push(Group { name, parameters });
        }
        for member in 0..self.members.len() {
            if !self.steps.iter().flatten().any(|at| *at == member) {
                self.steps.push(vec![member]);
            }
        }
        // A step runs at the place of its first kernel.
        self.steps.sort();
        for (member, places) in self.members.iter().zip(&self.places) {
            let taken = |place: &&usize| groups.iter().any(|of| of.parameters.contains(place));
            let rest: Vec<usize> = places.iter().filter(|at| !taken(at)).copied().collect();
            if member.apart {
                groups.extend(rest.iter().map(|&place| Group {
                    name: self.names[place].clone(),
                    parameters: vec![place],
                }));
            } else if !rest.is_empty() {
                groups.push(Group {
                    name: member.name.clone(),
                    parameters: rest,
                });
            }
        }
        self.groups = join(groups, &self.links());
        Ok(())
    }

    /// Returns the members that `names` mean. A kernel that only shares a parameter with one of
    /// them is not meant, and does not run at once with them.
    fn running(&self, names: &[String]) -> Vec<usize> {
        let meant = |&at: &usize| {
            let Member { name, prefix, .. } = &self.members[at];
            let begins = format!("{prefix}.");
            let is = |of: &String| [prefix, name].contains(&of) || of.starts_with(&begins);
            names.iter().any(is)
        };
        (0..self.members.len()).filter(meant).collect()
    }

    /// Returns sets of parameters that belong to one group each: those of a constraint, and those
    /// of kernels that share a parameter.
    fn links(&self) -> Vec<Vec<usize>> {
        let constrained = self.constraints.iter().map(|(_, of)| of.clone());
        let shared = (0..self.names.len()).filter_map(|place| {
            let with = self.touched(&[place]);
            let prefix = |&at: &usize| &self.members[at].prefix;
            let several = with.iter().any(|at| prefix(at) != prefix(&with[0]));
            let whole = with.into_iter().filter(|&at| !self.members[at].apart);
            several.then(|| whole.flat_map(|at| self.places[at].clone()).collect())
        });
        constrained.chain(shared).collect()
    }

    /// Returns the members that have one of these parameters.
    fn touched(&self, parameters: &[usize]) -> Vec<usize> {
        let has = |member: &usize| {
            self.places[*member]
                .iter()
                .any(|place| parameters.contains(place))
        };
        (0..self.members.len()).filter(has).collect()
    }

    /// Returns the names of the devices.
    pub fn name(&self) -> String {
        let mut names: Vec<String> = self
            .members
            .iter()
            .map(|member| member.device.name())
            .collect();
        names.dedup();
        names.join(" + ")
    }

    /// Returns the names of the parameters.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the default.
    pub fn default(&self) -> &Config {
        &self.default
    }

    /// Returns the groups; those that have a single configuration need no tuning.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Returns the configurations of a group, with all other parameters at their defaults.
    ///
    /// # Errors
    /// If there are too many.
    pub fn space_of(&self, group: &Group) -> Result<Space, Error> {
        let place_in = |place: &usize| group.parameters.iter().position(|other| other == place);
        let mut rows: Vec<Vec<Option<Value>>> = vec![vec![None; group.parameters.len()]];
        let mut checked = vec![false; self.constraints.len()];
        for member in self.touched(&group.parameters) {
            let (space, places) = (&self.members[member].space, &self.places[member]);
            let inside: Vec<Option<usize>> = places.iter().map(place_in).collect();
            let Some(first) = rows.first() else { break };
            let bound: Vec<bool> = inside
                .iter()
                .map(|at| at.is_some_and(|at| first[at].is_some()))
                .collect();
            let key = |values: &mut dyn Iterator<Item = &Value>| {
                values.map(Value::key).collect::<Vec<_>>()
            };
            // Configurations by the values that rows have already.
            let mut found: HashMap<Vec<String>, Vec<Config>> = HashMap::new();
            for index in 0..space.len() {
                let config = space.config(index);
                let others = config.0.iter().zip(&inside).zip(places);
                if others
                    .into_iter()
                    .all(|((value, at), place)| at.is_some() || *value == self.default.0[*place])
                {
                    let of = key(&mut config
                        .0
                        .iter()
                        .zip(&bound)
                        .filter(|(_, bound)| **bound)
                        .map(|(value, _)| value));
                    found.entry(of).or_default().push(config);
                }
            }
            let mut longer = Vec::new();
            for row in &rows {
                let had = inside.iter().zip(&bound).filter(|(_, bound)| **bound);
                let of = key(&mut had.filter_map(|(at, _)| row[(*at)?].as_ref()));
                for config in found.get(&of).into_iter().flatten() {
                    let mut row = row.clone();
                    for (value, at) in config.0.iter().zip(&inside) {
                        if let Some(at) = at {
                            row[*at] = Some(value.clone());
                        }
                    }
                    longer.push(row);
                    if longer.len() > MOST {
                        let how = "restrict its spaces, or make groups of fewer kernels";
                        let what = format!(
                            "group {} has more than {MOST} configurations: {how}",
                            group.name
                        );
                        return Err(Error::request(what));
                    }
                }
            }
            rows = longer;
            for ((expr, of), checked) in self.constraints.iter().zip(&mut checked) {
                let known = |place: &usize| {
                    place_in(place)
                        .is_none_or(|at| rows.first().is_some_and(|row| row[at].is_some()))
                };
                if !*checked && of.iter().all(known) {
                    *checked = true;
                    rows.retain(|row| holds(expr, &self.with(group, row)));
                }
            }
        }
        let names: Vec<String> = group
            .parameters
            .iter()
            .map(|&place| self.names[place].clone())
            .collect();
        let rows: Vec<Vec<Value>> = rows
            .into_iter()
            .map(|row| row.into_iter().flatten().collect())
            .collect();
        Space::recorded(&names, &rows)
            .map(|(space, _)| space)
            .map_err(|error| error.of(format!("group {}", group.name)))
    }

    /// Returns the default with some values of a group.
    fn with(&self, group: &Group, row: &[Option<Value>]) -> Vec<Value> {
        let mut values = self.default.0.clone();
        for (&place, value) in group.parameters.iter().zip(row) {
            if let Some(value) = value {
                values[place].clone_from(value);
            }
        }
        values
    }

    /// Puts the configuration of a group into `all`, one of the chain; returns `None` if it does
    /// not fit.
    pub fn put(&self, all: &Config, group: &Group, config: &Config) -> Option<Config> {
        let mut all = all.clone();
        if config.0.len() != group.parameters.len() {
            return None;
        }
        for (&place, value) in group.parameters.iter().zip(&config.0) {
            all.0.get_mut(place)?.clone_from(value);
        }
        Some(all)
    }

    /// Returns the values of a group.
    pub fn of_group(&self, all: &Config, group: &Group) -> Config {
        Config(
            group
                .parameters
                .iter()
                .filter_map(|&place| all.0.get(place).cloned())
                .collect(),
        )
    }

    /// Measures one step: the sum of the kernels' times, or the longest if they run concurrently.
    fn step(
        &mut self,
        step: &[usize],
        config: &Config,
        launches: usize,
        parts: &mut LaunchTimes,
    ) -> Result<Vec<f64>, Failure> {
        let places = &self.places;
        let of = |member: usize| {
            Config(
                places[member]
                    .iter()
                    .map(|&place| config.0[place].clone())
                    .collect(),
            )
        };
        parts.kernels.resize(self.members.len(), Vec::new());
        if let [member] = *step {
            let times = self.members[member].times(&of(member), launches)?;
            parts.kernels[member].extend(&times);
            return Ok(times);
        }
        let panicked = || FailureKind::Launch.because("the device panicked");
        let mut together = Vec::with_capacity(launches);
        for _ in 0..launches {
            let members = self
                .members
                .iter_mut()
                .enumerate()
                .filter(|(member, _)| step.contains(member));
            let times: Result<Vec<_>, Failure> = std::thread::scope(|scope| {
                let running: Vec<_> = members
                    .map(|(number, member)| {
                        let config = of(number);
                        (number, scope.spawn(move || member.times(&config, 1)))
                    })
                    .collect();
                let ended = running.into_iter().map(|(number, kernel)| {
                    Ok((
                        number,
                        kernel
                            .join()
                            .unwrap_or_else(|_| Err(panicked()))?
                            .into_iter()
                            .fold(0.0, f64::max),
                    ))
                });
                ended.collect()
            });
            let times = times?;
            together.push(times.iter().map(|(_, time)| *time).fold(0.0, f64::max));
            for (number, time) in times {
                parts.kernels[number].push(time);
            }
        }
        Ok(together)
    }

    /// Measures the steps that have kernels of `members`, one after the other.
    fn steps(
        &mut self,
        members: &[usize],
        config: &Config,
        launches: usize,
    ) -> Result<(Vec<f64>, LaunchTimes), Failure> {
        let mut parts = LaunchTimes::default();
        let mut sum = vec![0.0_f64; launches];
        for step in self.steps.clone() {
            if !step.iter().any(|member| members.contains(member)) {
                continue;
            }
            let times = self.step(&step, config, launches, &mut parts)?;
            sum.iter_mut()
                .zip(&times)
                .for_each(|(sum, time)| *sum += time);
            parts.steps.push(times);
        }
        Ok((sum, parts))
    }

    /// Returns the chain as a device that varies the parameters of a group; all others are as in
    /// `all`.
    pub fn part<'a>(&'a mut self, group: &'a Group, all: Config) -> ChainDevice<'a, 'd> {
        ChainDevice {
            chain: self,
            group: Some((group, all)),
        }
    }

    /// Returns the whole chain as a device.
    pub fn whole(&mut self) -> ChainDevice<'_, 'd> {
        ChainDevice {
            chain: self,
            group: None,
        }
    }

    /// Returns the median times in ms of the kernels and of the concurrent steps in the whole
    /// chain, with their names; none before it was measured with this configuration.
    pub fn times_of(&self, config: &Config) -> Vec<(String, f64)> {
        let Some(parts) = self.seen.get(&format!("{config:?}")) else {
            return Vec::new();
        };
        let name = |member: &usize| self.members[*member].name.as_str();
        let mut rows = Vec::new();
        for (step, times) in self.steps.iter().zip(&parts.steps) {
            rows.extend(step.iter().map(|member| {
                (
                    name(member).to_owned(),
                    crate::statistics::median(&parts.kernels[*member]),
                )
            }));
            if step.len() > 1 {
                let names: Vec<&str> = step.iter().map(name).collect();
                rows.push((
                    format!("step of {}", names.join(", ")),
                    crate::statistics::median(times),
                ));
            }
        }
        rows
    }
}

/// Joins groups that have a parameter in common, or parameters of the same link.
fn join(groups: Vec<Group>, links: &[Vec<usize>]) -> Vec<Group> {
    let mut joined: Vec<Group> = Vec::new();
    for mut group in groups {
        loop {
            let has = |of: &Group, link: &[usize]| of.parameters.iter().any(|at| link.contains(at));
            let meets = |other: &Group| {
                let linked = |link: &Vec<usize>| has(&group, link) && has(other, link);
                has(other, &group.parameters) || links.iter().any(linked)
            };
            let Some(at) = joined.iter().position(meets) else {
                break;
            };
            let other = joined.remove(at);
            group.name = format!("{} + {}", other.name, group.name);
            group.parameters.extend(other.parameters);
        }
        group.parameters.sort_unstable();
        group.parameters.dedup();
        joined.push(group);
    }
    joined
}

/// Returns true if a constraint holds; one that cannot be evaluated does not.
fn holds(expr: &Expr, values: &[Value]) -> bool {
    let slots: Vec<Computed<'_>> = values.iter().map(|value| Ok(value.into())).collect();
    expr.compute(&slots).is_ok_and(Number::truth)
}

/// Reads a constraint, and returns it with the places of its parameters.
///
/// # Errors
/// If it cannot be read, or the default does not meet it.
fn constraint(
    when: &str,
    slot: &dyn Fn(&str) -> Option<Expr>,
    default: &Config,
) -> Result<(Expr, Vec<usize>), String> {
    let expr = Expr::parse(when, slot).map_err(|error| format!("constraint: {error}"))?;
    let mut of = Vec::new();
    expr.visit(&mut |part| {
        of.extend(if let Expr::Slot(place) = part {
            Some(*place)
        } else {
            None
        });
    });
    if !holds(&expr, &default.0) {
        return Err(format!("constraint {when:?}: the default does not meet it"));
    }
    Ok((expr, of))
}

/// Joins the members' defaults, with the `given` values.
fn defaults(
    members: &[Member<'_>],
    places: &[Vec<usize>],
    names: &[String],
    given: &[Option<Value>],
) -> Result<Config, String> {
    let mut values = given.to_vec();
    let mut from: Vec<&str> = vec![""; names.len()];
    for (member, of) in members.iter().zip(places) {
        let wanted = of
            .iter()
            .zip(member.space.names())
            .filter_map(|(&place, name)| Some((name, given[place].clone()?)));
        let default = default_of(
            &member.name,
            &member.space,
            member.default.as_ref(),
            &wanted.collect(),
        )?;
        for (&place, value) in of.iter().zip(default.0) {
            match &values[place] {
                Some(other) if *other != value => {
                    let (name, first, second) = (&names[place], from[place], &member.name);
                    let how =
                        format!("[default] of the chain says which one, as \"{name}\" = {other}");
                    return Err(format!(
                        "{name}: its default is {other} for {first} and {value} for {second}; {how}"
                    ));
                }
                _ => (values[place], from[place]) = (Some(value), member.name.as_str()),
            }
        }
    }
    Ok(Config(values.into_iter().flatten().collect()))
}

/// Chain, or a part of it, as a device.
pub struct ChainDevice<'a, 'd> {
    chain: &'a mut Chain<'d>,
    group: Option<(&'a Group, Config)>,
}

impl Device for ChainDevice<'_, '_> {
    fn name(&self) -> String {
        self.chain.name()
    }

    fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
        let put = match &self.group {
            Some((group, all)) => self.chain.put(all, group, config),
            None => Some(config.clone()).filter(|config| config.0.len() == self.chain.names.len()),
        };
        let Some(all) = put else {
            let what = format!("{} values do not fit the chain", config.0.len());
            return Outcome::Failed(FailureKind::Constraint.because(what));
        };
        let members = match &self.group {
            Some((group, _)) => self.chain.touched(&group.parameters),
            None => (0..self.chain.members.len()).collect(),
        };
        match self.chain.steps(&members, &all, launches) {
            Ok((times, parts)) => {
                if self.group.is_none() {
                    let seen = self.chain.seen.entry(format!("{all:?}")).or_default();
                    seen.kernels.resize(parts.kernels.len(), Vec::new());
                    seen.steps.resize(parts.steps.len(), Vec::new());
                    let sums = [
                        (&mut seen.kernels, parts.kernels),
                        (&mut seen.steps, parts.steps),
                    ];
                    for (kept, new) in sums {
                        kept.iter_mut()
                            .zip(new)
                            .for_each(|(kept, new)| kept.extend(new));
                    }
                }
                Outcome::Times(times)
            }
            Err(failure) => Outcome::Failed(failure),
        }
    }
}
