//! Any program as a device: a command line with places for the parameters, run once per launch.
//!
//! ```
//! # #[cfg(unix)]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tuner::program::{ProgramDevice, Reading};
//! use tuner::{Device, SpaceBuilder};
//!
//! let space = SpaceBuilder::new().ints("tile", [8, 16, 32]).build()?;
//! let mut program = ProgramDevice::new(&space, "echo took {tile} ms");
//! program.reading = Reading::regex(r"took (\d+) ms")?;
//! assert_eq!(program.measure(&space.config(1), 2), tuner::Outcome::Times(vec![16.0, 16.0]));
//! # Ok(())
//! # }
//! # #[cfg(not(unix))]
//! # fn main() {}
//! ```

mod reading;
mod shell;
mod template;

use std::collections::{BTreeMap, HashMap};
use std::process::Command;
use std::time::Duration;

pub use crate::device::launch::Ran;
pub use reading::{Reading, unit_ms};
pub use template::Template;

use crate::device::group::{BuildFolder, ProcessGroup};
use crate::device::keeper;
use crate::device::launch::{Launched, launch_here};
use crate::objective::Objective;
use crate::{Config, Device, Error, Failure, FailureKind, Outcome, Space, Value};

/// Time limit of a build.
const BUILD: Duration = Duration::from_mins(10);

/// Program that is started for every launch. Each command runs by `sh -c`, with `{name}` replaced
/// by the value of a parameter (quoted for the shell); the environment has the parameters too, as
/// `TUNE_name`.
pub struct ProgramDevice {
    name: String,
    parameters: Vec<String>,
    /// Parameters that a program reads from its environment by itself: no command names them.
    pub reads: Vec<String>,
    /// Values of other places in the commands, as the input of a workload.
    pub constants: BTreeMap<String, Value>,
    command: Template,
    /// Compiles a configuration: runs once for each combination of the parameters that it names, as
    /// `{name}` or `TUNE_name`, and of [`reads`](Self::reads). Its environment has only these, or
    /// all if it names none. `{build}`, in every command, is the combination's folder.
    pub build: Option<Template>,
    /// Checks a configuration: runs once before its first launch, and must exit with 0.
    pub check: Option<Template>,
    /// Configuration whose output (of the check, else of the command) all others must repeat.
    pub same_output_as: Option<Config>,
    /// Source of the numbers.
    pub reading: Reading,
    /// Unit in ms of the times that are read from the output.
    pub unit_ms: f64,
    /// Meaning of the numbers.
    pub objective: Objective,
    /// Time limit of a launch.
    pub time_out: Duration,
    folder: Option<BuildFolder>,
    built: HashMap<String, Result<String, Failure>>,
    checked: HashMap<String, Result<(), Failure>>,
    reference: Option<Result<Vec<u8>, Failure>>,
}

/// Runs a command without input to its end. Kills it, with all that it has started, after `limit`,
/// if it prints too much, and when this process ends.
///
/// # Errors
/// [`FailureKind::TimeOut`] after `limit`; [`FailureKind::Launch`] if it cannot be started, fails,
/// or prints too much.
pub fn run_to_end(command: &mut Command, limit: Duration) -> Result<Ran, Failure> {
    let spawn =
        |command: &mut Command| Ok(Box::new(ProcessGroup::spawn(command)?) as Box<dyn Launched>);
    keeper::launch(command, limit).unwrap_or_else(|| launch_here(command, limit, &spawn))
}

/// Runs a command with its places filled, and the values in the environment.
fn run_shell(
    template: &Template,
    values: &[(&str, String)],
    limit: Duration,
) -> Result<Ran, Failure> {
    let mut command = Command::new("sh");
    command.arg("-c").arg(template.fill(values));
    command.envs(
        values
            .iter()
            .map(|(name, value)| (format!("TUNE_{name}"), value)),
    );
    run_to_end(&mut command, limit)
}

impl ProgramDevice {
    /// Makes a device of `command`, with the time of the process as the cost and a limit of a
    /// minute.
    pub fn new(space: &Space, command: &str) -> Self {
        Self {
            name: crate::watch::cpu::model().unwrap_or_else(|| "this machine".to_owned()),
            parameters: space.names(),
            reads: Vec::new(),
            constants: BTreeMap::new(),
            command: Template::new(command),
            build: None,
            check: None,
            same_output_as: None,
            reading: Reading::Clock,
            unit_ms: 1.0,
            objective: Objective::Time,
            time_out: Duration::from_mins(1),
            folder: None,
            built: HashMap::new(),
            checked: HashMap::new(),
            reference: None,
        }
    }

    /// Checks that every `{name}` in the commands is a parameter, a constant or `{build}`, and that
    /// a command names every parameter, or a program [`reads`](Self::reads) it: one that reaches no
    /// program would be tuned all the same.
    ///
    /// # Errors
    /// If one is unknown, a parameter reaches no program, there is a `{build}` without a build, or
    /// a constant is named like a parameter.
    pub fn validate(&self) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::program(what));
        let commands = [
            Some(&self.command),
            self.build.as_ref(),
            self.check.as_ref(),
        ];
        let commands: Vec<&Template> = commands.into_iter().flatten().collect();
        if let Some(twice) = self
            .parameters
            .iter()
            .find(|name| self.constants.contains_key(*name))
        {
            return wrong(format!(
                "{twice} is a parameter, and a value of the workload"
            ));
        }
        if let Some(name) = self
            .reads
            .iter()
            .find(|name| !self.parameters.contains(name))
        {
            return wrong(format!(
                "there is no parameter {name:?} that a program could read"
            ));
        }
        let mut known: Vec<&str> = self
            .parameters
            .iter()
            .chain(self.constants.keys())
            .map(String::as_str)
            .collect();
        if self.build.is_some() {
            if known.contains(&"build") {
                return wrong(
                    "{build} stands for the folder of the build: rename the parameter".to_owned(),
                );
            }
            known.push("build");
        }
        commands
            .iter()
            .try_for_each(|template| template.validate(&known))?;
        let reaches = |name: &String| {
            self.reads.contains(name) || commands.iter().any(|command| command.sees(name))
        };
        if let Some(name) = self.parameters.iter().find(|name| !reaches(name)) {
            let how = format!(
                "write {{{name}}} or $TUNE_{name}, or say --reads {name} if a program reads it \
                 itself"
            );
            return wrong(format!("no command names the parameter {name}: {how}"));
        }
        Ok(())
    }

    fn values<'a>(&'a self, config: &'a Config, folder: Option<&'a str>) -> Vec<(&'a str, String)> {
        let named = self
            .parameters
            .iter()
            .zip(&config.0)
            .map(|(name, value)| (name.as_str(), value.to_string()));
        let fixed = self
            .constants
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_string()));
        named
            .chain(fixed)
            .chain(folder.map(|folder| ("build", folder.to_owned())))
            .collect()
    }

    /// Runs one command of a configuration.
    fn run(
        &self,
        template: &Template,
        config: &Config,
        folder: Option<&str>,
        limit: Duration,
    ) -> Result<Ran, Failure> {
        run_shell(template, &self.values(config, folder), limit)
    }

    /// Builds a configuration unless that was done, and returns the folder; `None` without a build.
    fn build_of(&mut self, config: &Config) -> Result<Option<String>, Failure> {
        let Some(build) = self.build.clone() else {
            return Ok(None);
        };
        if self.folder.is_none() {
            self.folder =
                Some(BuildFolder::new().map_err(|error| FailureKind::Compile.because(error))?);
        }
        let mut values = self.values(config, None);
        if self.parameters.iter().any(|name| build.sees(name)) {
            values
                .retain(|(name, _)| build.sees(name) || self.reads.iter().any(|read| read == name));
        }
        let key = format!("{values:?}");
        if let Some(built) = self.built.get(&key) {
            return built.clone().map(Some);
        }
        let folder = self
            .folder
            .as_ref()
            .map_or_else(std::env::temp_dir, |folder| folder.path().to_owned());
        let place = folder
            .join(format!("build-{}", self.built.len()))
            .to_string_lossy()
            .into_owned();
        values.push(("build", place.clone()));
        let made = std::fs::create_dir(&place).map_err(|error| format!("{place}: {error}"));
        let built = made
            .and_then(|()| run_shell(&build, &values, BUILD).map_err(|failure| failure.message));
        let built = built
            .map(|_| place)
            .map_err(|why| FailureKind::Compile.because(why));
        self.built.insert(key, built.clone());
        built.map(Some)
    }

    /// Checks a configuration's result, once.
    fn check(&mut self, config: &Config, folder: Option<&str>) -> Result<(), Failure> {
        if self.check.is_none() && self.same_output_as.is_none() {
            return Ok(());
        }
        let key = format!("{config:?}");
        if let Some(checked) = self.checked.get(&key) {
            return checked.clone();
        }
        let checked = self.answer_of(config, folder);
        self.checked.insert(key, checked.clone());
        checked
    }

    fn answer_of(&mut self, config: &Config, folder: Option<&str>) -> Result<(), Failure> {
        let wrong = |message: String| FailureKind::WrongResult.because(message);
        let check = self.check.clone().unwrap_or_else(|| self.command.clone());
        let of_check = self.check.is_some();
        let run = |device: &Self, config: &Config, folder: Option<&str>| {
            device
                .run(&check, config, folder, device.time_out)
                .map_err(|failure| match failure.kind {
                    FailureKind::Launch if of_check => {
                        wrong(format!("the check: {}", failure.message))
                    }
                    _ => failure,
                })
        };
        let found = run(self, config, folder)?.output;
        let Some(other) = self.same_output_as.clone() else {
            return Ok(());
        };
        if self.reference.is_none() {
            // A failure of the other configuration has another kind here: this one has not failed
            // or timed out.
            let wrong = |failure: Failure| {
                wrong(format!(
                    "the configuration it is compared with: {}",
                    failure.message
                ))
            };
            let folder = self.build_of(&other);
            let reference =
                folder.and_then(|folder| Ok(run(self, &other, folder.as_deref())?.output));
            self.reference = Some(reference.map_err(wrong));
        }
        match &self.reference {
            Some(Ok(reference)) if *reference == found => return Ok(()),
            Some(Err(failure)) => return Err(failure.clone()),
            _ => {}
        }
        Err(wrong(
            "its output differs from the output of the configuration that it is compared \
             with"
                .to_owned(),
        ))
    }

    fn launches(&mut self, config: &Config, launches: usize) -> Result<Vec<f64>, Failure> {
        let folder = self.build_of(config)?;
        self.check(config, folder.as_deref())?;
        let mut costs = Vec::with_capacity(launches);
        while costs.len() < launches {
            let ran = self.run(&self.command, config, folder.as_deref(), self.time_out)?;
            let values = self.reading.values(&ran.output, ran.took);
            let values = values.map_err(|why| FailureKind::Launch.because(why))?;
            let unit = if matches!(self.reading, Reading::Clock) {
                1.0
            } else {
                self.unit_ms
            };
            for value in values.into_iter().take(launches - costs.len()) {
                costs.push(
                    self.objective
                        .cost(value * unit)
                        .map_err(|error| FailureKind::Launch.because(error))?,
                );
            }
        }
        Ok(costs)
    }
}

impl Device for ProgramDevice {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
        match self.launches(config, launches) {
            Ok(costs) => Outcome::Times(costs),
            Err(failure) => Outcome::Failed(failure),
        }
    }

    fn time_out(&self) -> Option<Duration> {
        Some(self.time_out)
    }
}
