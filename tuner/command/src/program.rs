//! Command-line options that describe a program to be tuned.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tuner::objective::Objective;
use tuner::process::ProcessDevice;
use tuner::program::{ProgramDevice, Reading, Template, unit_ms};
use tuner::store::{DeviceIdentity, TunableIdentity, Workload};
use tuner::{Config, Device, Space, Value, read_space};

use crate::Failure;

/// Any program, and its parameters.
#[derive(Clone, Debug, clap::Args, serde::Deserialize)]
#[command(next_help_heading = "Any program")]
#[serde(deny_unknown_fields)]
pub struct ProgramArgs {
    /// TOML file with the program's parameters (docs/tuning-programs.md has every key).
    #[arg(long, value_name = "FILE", requires = "command")]
    #[serde(default)]
    pub space: Option<PathBuf>,
    /// Program, run by the shell once per launch. {name} stands for the value of a parameter, also
    /// inside quotes, {build} for the build's folder; the environment has TUNE_name.
    #[arg(long, value_name = "COMMAND", requires = "space")]
    pub command: Option<String>,
    /// Command that compiles a configuration; run once for each combination of the parameters that
    /// it names.
    #[arg(long, value_name = "COMMAND", requires = "command")]
    pub build: Option<String>,
    /// Command that checks a configuration; run once for each. Any exit code but 0 means a wrong
    /// result.
    #[arg(long, value_name = "COMMAND", requires = "command")]
    pub check: Option<String>,
    /// Parameter that a program reads from its environment, as TUNE_NAME, although no command names
    /// it; repeatable.
    #[arg(long, value_name = "NAME", requires = "command")]
    #[serde(default)]
    pub reads: Vec<String>,
    /// Require the check (without one, the program) to print the same as for the default
    /// configuration.
    #[arg(long, requires = "command")]
    #[serde(default)]
    pub same_output: bool,
    /// Read the numbers from the output: every match of this regular expression (its first group,
    /// or the whole).
    #[arg(
        long,
        value_name = "REGEX",
        requires = "command",
        conflicts_with = "json_pointer"
    )]
    pub regex: Option<String>,
    /// Read the numbers from the output, which is JSON (or its last line is): a number or a list of
    /// them at this pointer.
    #[arg(long, value_name = "POINTER", requires = "command")]
    pub json_pointer: Option<String>,
    /// Unit of the times read: s, ms, us or ns.
    #[serde(default = "ms")]
    #[arg(long, value_name = "UNIT", default_value = "ms", requires = "command", value_parser = ["s", "ms", "us", "ns"])]
    pub unit: String,
    /// Meaning of the numbers: time, rate (things per second, more is better), smaller or larger
    /// (any positive number that should be small or large).
    #[serde(skip)]
    #[arg(
        long,
        value_name = "KIND",
        default_value = "time",
        requires = "command"
    )]
    pub objective: Objective,
    /// The program keeps running and measures on request, exchanging lines of JSON
    /// (docs/tuning-programs.md).
    #[arg(long, requires = "command",
        conflicts_with_all = ["build", "check", "same_output", "regex", "json_pointer", "unit", "reads"])]
    #[serde(default)]
    pub stays: bool,
    /// Name of the program in the store, in place of its command line: results are found again
    /// under another path.
    #[arg(long, value_name = "NAME", requires = "command")]
    pub name: Option<String>,
    /// Values of other places in the commands.
    #[arg(skip)]
    #[serde(skip)]
    pub constants: BTreeMap<String, Value>,
    /// Space and default, instead of a file's.
    #[arg(skip)]
    #[serde(skip)]
    pub given: Option<(Space, Option<Config>)>,
}

fn ms() -> String {
    "ms".to_owned()
}

/// Program to be tuned, with its identity in a store.
pub struct Program {
    /// Identity of this machine: CPU model, architecture and number of available threads.
    pub device: DeviceIdentity,
    /// Name from `--name`, else the command line.
    pub tunable: TunableIdentity,
    /// Options that change the numbers, among them the objective.
    pub workload: Workload,
    /// Working folder: in another one, the command may mean other files.
    pub sample: String,
    /// Parameters and their values, from the file or the chain.
    pub space: Space,
    /// Default from the same place as `space`; `None` if there is none.
    pub default: Option<Config>,
    /// Meaning of the numbers that the program gives.
    pub objective: Objective,
}

impl ProgramArgs {
    /// Describes the program.
    ///
    /// # Errors
    /// If there is no command, the space cannot be read, or a value cannot be kept by a store.
    pub fn program(&self) -> Result<Program, Failure> {
        let command = self.command.as_ref().ok_or("a program has a command")?;
        let (space, default) = match (&self.given, &self.space) {
            (Some(given), None) => given.clone(),
            (None, Some(file)) => read_space(file)?,
            _ => return Err("a program has one space: a file, or in the chain's file".into()),
        };
        let mut workload = Workload::new().with("objective", self.objective.name())?;
        // All options that change the numbers, as text, so that a reader of the store understands
        // them.
        let texts = [
            ("build", self.build.clone()),
            ("check", self.check.clone()),
            ("unit", (self.unit != "ms").then(|| self.unit.clone())),
            ("regex", self.regex.clone()),
            ("json_pointer", self.json_pointer.clone()),
            (
                "reads",
                (!self.reads.is_empty()).then(|| self.reads.join(" ")),
            ),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                workload = workload.with(name, text)?;
            }
        }
        for (name, value) in &self.constants {
            workload = workload.with(name.as_str(), value.clone())?;
        }
        for (name, given) in [("same_output", self.same_output), ("stays", self.stays)] {
            if given {
                workload = workload.with(name, true)?;
            }
        }
        let model = tuner::watch::cpu::model().unwrap_or_else(|| "this machine".to_owned());
        let device = DeviceIdentity {
            sm_count: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
            compute_capability: std::env::consts::ARCH.to_owned(),
            ..DeviceIdentity::named(model, "program")
        };
        Ok(Program {
            device,
            tunable: TunableIdentity::new(self.name.as_ref().unwrap_or(command), 1),
            workload,
            sample: std::env::current_dir()
                .map(|folder| folder.display().to_string())
                .unwrap_or_default(),
            space,
            default,
            objective: self.objective,
        })
    }

    /// Makes the device of a program.
    ///
    /// # Errors
    /// If a place in a command is unknown, a pattern or pointer is wrong, options contradict each
    /// other, or a program that stays does not start.
    pub fn device(
        &self,
        program: &Program,
        time_out: Duration,
    ) -> Result<Box<dyn Device + Send>, Failure> {
        let text = self.command.as_deref().unwrap_or_default();
        if self.stays {
            if !matches!(program.objective, Objective::Time | Objective::Smaller) {
                return Err(
                    "--stays: a program that stays answers with one number per launch; smaller is \
                     better"
                        .into(),
                );
            }
            let mut command = Command::new("sh");
            command.arg("-c").arg(text);
            command.envs(
                self.constants
                    .iter()
                    .map(|(name, value)| (format!("TUNE_{name}"), value.to_string())),
            );
            let mut device = ProcessDevice::new(program.device.name.as_str(), command, time_out);
            if program.objective == Objective::Time {
                device = device.with_times();
            }
            device.start()?;
            return Ok(Box::new(device));
        }
        let mut device = ProgramDevice::new(&program.space, text);
        device.reads.clone_from(&self.reads);
        device.constants.clone_from(&self.constants);
        device.build = self.build.as_deref().map(Template::new);
        device.check = self.check.as_deref().map(Template::new);
        device.reading = match (&self.regex, &self.json_pointer) {
            (Some(pattern), _) => Reading::regex(pattern)?,
            (None, Some(pointer)) => Reading::json(pointer)?,
            (None, None) if program.objective == Objective::Time => Reading::Clock,
            (None, None) => {
                return Err(
                    "--objective needs numbers: --regex or --json-pointer says where they are"
                        .into(),
                );
            }
        };
        if program.objective == Objective::Time {
            device.unit_ms = unit_ms(&self.unit).unwrap_or(1.0);
        }
        if self.same_output {
            let default = program
                .default
                .clone()
                .ok_or("--same-output needs a [default] in the space")?;
            device.same_output_as = Some(default);
        }
        device.objective = program.objective;
        device.time_out = time_out;
        device.validate()?;
        Ok(Box::new(device))
    }
}
