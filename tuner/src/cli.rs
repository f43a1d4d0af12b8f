//! The options that describe a program to be tuned, for the command lines that have them.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::objective::Objective;
use crate::process::ProcessDevice;
use crate::program::{ProgramDevice, Reading, Template, Unit};
use crate::space::file::read_space;
use crate::store::{DeviceIdentity, TunableIdentity, Workload};
use crate::{Config, Device, Space};

/// Any program, and its parameters.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Any program")]
pub struct ProgramArgs {
    /// The parameters of a program: a TOML file (docs/tuning-programs.md has every key).
    #[arg(long, value_name = "FILE", requires = "command")]
    pub space: Option<PathBuf>,
    /// The program, run by the shell once a launch; {name} stands for the value of a parameter, {build} for the folder of
    /// its build, and the environment has TUNE_name.
    #[arg(long, value_name = "COMMAND", requires = "space")]
    pub command: Option<String>,
    /// What compiles a configuration, run once for each different text that it gives.
    #[arg(long, value_name = "COMMAND", requires = "command")]
    pub build: Option<String>,
    /// Run once for each configuration, after its build: another exit code than 0 is a wrong result.
    #[arg(long, value_name = "COMMAND", requires = "command")]
    pub check: Option<String>,
    /// What the check (or else the program) prints must be what it prints for the default configuration.
    #[arg(long, requires = "command")]
    pub same_output: bool,
    /// Read the numbers from the output: every match of this regular expression (its first group, or the whole).
    #[arg(long, value_name = "REGEX", requires = "command", conflicts_with = "json_pointer")]
    pub regex: Option<String>,
    /// Read the numbers from the output, which is JSON (or its last line is): a number or a list of them at this pointer.
    #[arg(long, value_name = "POINTER", requires = "command")]
    pub json_pointer: Option<String>,
    /// The unit of the times that are read: s, ms, us or ns.
    #[arg(long, value_name = "UNIT", default_value = "ms", value_parser = ["s", "ms", "us", "ns"])]
    pub unit: String,
    /// What the numbers are: time, rate (things a second, more is better), smaller or larger (any positive number, less
    /// or more of which is better).
    #[arg(long, value_name = "KIND", default_value = "time", value_parser = ["time", "rate", "smaller", "larger"])]
    pub objective: String,
    /// The program stays and measures on request, a line of JSON each (docs/tuning-programs.md).
    #[arg(long, requires = "command", conflicts_with_all = ["build", "check", "same_output", "regex", "json_pointer"])]
    pub stays: bool,
    /// What is worked on: results are kept for this, and used for nothing else.
    #[arg(long, value_name = "NAME", requires = "command")]
    pub input: Option<String>,
}

/// A program to be tuned, with all that a store knows it by.
pub struct Program {
    /// The machine.
    pub device: DeviceIdentity,
    /// The program.
    pub tunable: TunableIdentity,
    /// What it works on, and the objective.
    pub workload: Workload,
    /// Its parameters.
    pub space: Space,
    /// Its default.
    pub default: Option<Config>,
    /// What its numbers stand for.
    pub objective: Objective,
}

impl ProgramArgs {
    /// What is to be tuned; `None` where these options name no program.
    ///
    /// # Errors
    /// A space that cannot be read or is empty; what a store cannot keep.
    pub fn program(&self) -> Result<Option<Program>, Box<dyn std::error::Error>> {
        let (Some(file), Some(command)) = (&self.space, &self.command) else { return Ok(None) };
        let (space, default) = read_space(file)?;
        let objective = Objective::named(&self.objective).unwrap_or_default();
        let mut workload = Workload::new().with("objective", objective.name())?;
        // Everything that changes what is measured; the texts themselves, so that a reader of the store sees them.
        let texts = [
            ("build", &self.build),
            ("check", &self.check),
            ("regex", &self.regex),
            ("json_pointer", &self.json_pointer),
            ("input", &self.input),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                workload = workload.with(name, text.as_str())?;
            }
        }
        let model = crate::watch::cpu::model().unwrap_or_else(|| "this machine".to_owned());
        let device = DeviceIdentity {
            sm_count: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
            compute_capability: std::env::consts::ARCH.to_owned(),
            ..DeviceIdentity::named(model, "program")
        };
        Ok(Some(Program { device, tunable: TunableIdentity::new(command, 1), workload, space, default, objective }))
    }

    /// The device of a program; what can be seen to be wrong with it before anything is measured is an error.
    ///
    /// # Errors
    /// A place in a command that is no parameter, a pattern or pointer that is none, a program that does not start.
    pub fn device(&self, program: &Program, time_out: Duration) -> Result<Box<dyn Device>, Box<dyn std::error::Error>> {
        let text = self.command.as_deref().unwrap_or_default();
        if self.stays {
            let mut command = Command::new("sh");
            command.arg("-c").arg(text);
            let mut device = ProcessDevice::new(program.device.name.as_str(), command, time_out);
            device.start()?;
            return Ok(Box::new(device));
        }
        let mut device = ProgramDevice::new(&program.space, text);
        device.build = self.build.as_deref().map(Template::new);
        device.check = self.check.as_deref().map(Template::new);
        device.reading = match (&self.regex, &self.json_pointer) {
            (Some(pattern), _) => Reading::regex(pattern)?,
            (None, Some(pointer)) => Reading::json(pointer)?,
            (None, None) => Reading::Clock,
        };
        if program.objective == Objective::Time {
            device.reading = device.reading.in_unit(Unit::named(&self.unit).unwrap_or_default());
        }
        if matches!(device.reading, Reading::Clock) && program.objective != Objective::Time {
            return Err("--objective needs numbers: --regex or --json-pointer says where they are".into());
        }
        if self.same_output {
            let default = program.default.clone().ok_or("--same-output needs a [default] in the space")?;
            device.same_output_as = Some(default);
        }
        device.objective = program.objective;
        device.time_out = time_out;
        device.validate()?;
        Ok(Box::new(device))
    }
}
