//! `ut-decode compare`: the faster one of two.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tuner::compare::{Plan, compare};
use tuner::program::run_to_end;
use tuner::verdict::{Side, Verdict};
use tuner::{Config, Device, Failure as Fault, FailureKind, Outcome, Value};
use ut_bench::{Machine, Varied};
use ut_decoders::Backend;

use crate::args::one_of;
use crate::config;
use crate::output::{print_beside, say, write_json};
use crate::paths::APPLICATION;
use crate::sample::Synthetic;
use crate::trial::{self, EventsArgs, RuleArgs, evidence, trouble};
use crate::{Failure, usage};
use clap::builder::{PossibleValuesParser, TypedValueParser};

const CODES: &str = "\
A and B are
  two configurations of a decoder, as batch=512,cpu.simd=avx2: what is not named
    has its default, \"\" is the default, and `ut-decode sweep --list` shows the
    parameters;
  or two builds: paths of ut-decode programs, or of scripts that run one.
They are interleaved while they are measured.

Exit codes, for a CI in which A is in use and B is proposed:
  0  B is better, or the same
  1  failed (a program that does not run)
  2  wrong usage
  3  B is slower
  4  cannot tell: too few blocks, too noisy, drifting, or throttled
  5  with --require-better: the same
  6  decodes something else: a configuration against the reference decoder, or one
     build against the other, by every bit of every hit and every counter";

/// Exit status if the two decode to different hits.
const DIFFERENT: u8 = 6;

/// Time that a run of a build may take. It decodes for half a second, after it has read its input.
const LIMIT: Duration = Duration::from_mins(5);

/// Compare two configurations or two builds: better, same, or cannot tell.
#[derive(Debug, clap::Args)]
#[command(after_help = CODES)]
pub struct Args {
    /// Configuration, build or samples in use.
    a: String,
    /// Proposed configuration, build or samples.
    b: String,
    /// The decoder that A and B configure, or that two builds use.
    #[arg(long, default_value = "cpu", value_parser = one_of!(Backend::ALL, Backend::name))]
    backend: Backend,
    /// Exit with 5 if B is no better than A.
    #[arg(long)]
    require_better: bool,
    /// Write the result, with every sample, as JSON here; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    rules: RuleArgs,
    #[command(flatten)]
    sample: EventsArgs,
}

enum Subject {
    Configuration(Config),
    Build(PathBuf),
}

impl Subject {
    fn of(backend: Backend, text: &str) -> Self {
        let path = Path::new(text);
        if path.is_file() {
            return Self::Build(path.to_owned());
        }
        let config = Varied::all(backend).parse(text).unwrap_or_else(|error| {
            usage(&format!("{text:?} is neither a program nor a configuration of the {backend} decoder: {error}"))
        });
        Self::Configuration(config)
    }
}

pub fn run(args: &Args) -> Result<u8, Failure> {
    let plan = args.rules.plan(15);
    let mut watch = args.rules.watch(args.backend);
    let (comparison, what) = match (
        Subject::of(args.backend, &args.a),
        Subject::of(args.backend, &args.b),
    ) {
        (Subject::Configuration(a), Subject::Configuration(b)) => {
            let (detector, events, source) = args.sample.load()?;
            let mut device = trial::device(Varied::all(args.backend), &detector, events);
            match compare(&mut device, &a, &b, &plan, &mut *watch) {
                Ok(found) => (found, source),
                Err(dropped) => {
                    let side = if dropped.side == 0 { &a } else { &b };
                    let message = format!(
                        "{}: {}",
                        Varied::all(args.backend).name(side),
                        dropped.failure.message
                    );
                    return failed(&dropped.failure, &message);
                }
            }
        }
        (Subject::Build(a), Subject::Build(b)) => {
            // A run of a program takes a second.
            let plan = Plan {
                warm_up: 1,
                ..args.rules.plan(2)
            };
            let config = |path: &Path| Config(vec![Value::Text(path.display().to_string())]);
            let mut device = Builds::new(args.backend, &args.sample);
            match compare(&mut device, &config(&a), &config(&b), &plan, &mut *watch) {
                Ok(found) => (
                    found,
                    "what the builds' throughput decodes, the same bits".to_owned(),
                ),
                Err(dropped) => return failed(&dropped.failure, &dropped.failure.message),
            }
        }
        _ => usage("A and B must both be configurations, or both programs"),
    };
    let verdict = comparison.judgement.verdict;
    if let Some(path) = &args.json {
        let value = json!({
            "a": args.a, "b": args.b, "sample": what, "plan": plan, "machine": Machine::this(), "result": comparison,
        });
        write_json(path, &value)?;
    }
    let text = format!(
        "A                   {}\nB                   {}\nsample              {what}\n{}{}verdict             {verdict}\n",
        display(&args.a),
        display(&args.b),
        evidence(&comparison.judgement),
        trouble(&comparison)
    );
    print_beside(args.json.as_deref(), &text)?;
    Ok(match verdict {
        Verdict::Better(Side::B) => 0,
        Verdict::Same => 5 * u8::from(args.require_better),
        Verdict::Better(Side::A) => 3,
        Verdict::CannotTell(_) => 4,
    })
}

fn failed(failure: &Fault, message: &str) -> Result<u8, Failure> {
    if failure.kind != FailureKind::WrongResult {
        return Err(message.into());
    }
    say(&format!("error: {message}"));
    Ok(DIFFERENT)
}

fn display(subject: &str) -> &str {
    if subject.is_empty() {
        "the default"
    } else {
        subject
    }
}

/// Programs that are run in turn with `throughput`.
struct Builds {
    arguments: Vec<String>,
    /// Digest of what each program decoded: all must be equal.
    decoded: BTreeMap<String, String>,
}

impl Builds {
    fn new(backend: Backend, sample: &EventsArgs) -> Self {
        let mut arguments: Vec<String> = ["throughput", "--duration", "0.5", "--json", "-"]
            .map(Into::into)
            .to_vec();
        if sample.files.is_empty() {
            // The builds may have other defaults.
            let Synthetic { profile, format } = Synthetic::default();
            let of = ["--profile", profile.name(), "--format", format.name()];
            arguments.extend(of.map(Into::into));
        }
        arguments.extend(sample.files.iter().map(|file| file.display().to_string()));
        arguments.extend(["--backend", backend.name()].map(Into::into));
        Self {
            arguments,
            decoded: BTreeMap::new(),
        }
    }

    fn once(&mut self, program: &str) -> Result<f64, Fault> {
        let fault = |kind, what: String| Fault {
            kind,
            message: format!("{program}: {what}"),
        };
        let launch = |what: String| fault(FailureKind::Launch, what);
        let path = std::fs::canonicalize(program).map_err(|error| launch(error.to_string()))?;
        // Both builds run with defaults: values that were tuned for one are not for the other.
        let no_store = std::env::temp_dir()
            .join("ut-decode-compare")
            .join("no-store.sqlite");
        let mut command = Command::new(path);
        command
            .args(&self.arguments)
            .env(tuner::store::variable(APPLICATION), no_store);
        // Both builds get the same tables and options.
        command.env(config::VARIABLE, config::file().unwrap_or(Path::new("")));
        let ran = run_to_end(&mut command, LIMIT)
            .map_err(|failure| fault(failure.kind, failure.message))?;
        let value: serde_json::Value =
            serde_json::from_slice(&ran.output).map_err(|error| launch(error.to_string()))?;
        let lacks = |path: &str| launch(format!("no {path} in its JSON"));
        let digest = value
            .pointer("/digest")
            .and_then(serde_json::Value::as_str)
            .ok_or_else(|| lacks("/digest"))?;
        if let Some((other, theirs)) = self.decoded.iter().find(|(_, theirs)| *theirs != digest) {
            let what = format!(
                "its hits or counters differ from {other}: digest {digest}, there {theirs}"
            );
            return Err(fault(FailureKind::WrongResult, what));
        }
        self.decoded.insert(program.to_owned(), digest.to_owned());
        // Milliseconds for 1000 events.
        let path = "/events_per_second/median";
        Ok(1e6
            / value
                .pointer(path)
                .and_then(serde_json::Value::as_f64)
                .ok_or_else(|| lacks(path))?)
    }
}

impl Device for Builds {
    fn name(&self) -> String {
        "programs".to_owned()
    }

    fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
        let program = config
            .0
            .first()
            .map(ToString::to_string)
            .unwrap_or_default();
        match (0..launches).map(|_| self.once(&program)).collect() {
            Ok(times) => Outcome::Times(times),
            Err(failure) => Outcome::Failed(failure),
        }
    }
}
