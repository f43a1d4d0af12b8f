//! `tuner`: finds good parameters of any program.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use tuner::budget::{Budget, LONGEST};
#[cfg(unix)]
use tuner::cli::is_ignored;
use tuner::cli::{Program, ProgramArgs};
use tuner::report::explain::explain;
use tuner::report::{Evaluation, Report, write_whole};
use tuner::session::Session;
use tuner::store::{Application, Layers, Locations, Observation, Store, Task};
use tuner::strategy::StrategyKind;
use tuner::tune;

/// Find good parameters of a program, and keep them.
///
/// Every measurement is kept as soon as it is complete: killed at any moment, the same command continues where it stopped. The
/// winner of the search is measured again beside the default, and replaces it only if it is better again.
#[derive(Debug, clap::Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    program: ProgramArgs,
    /// When to stop: evaluations=N, launches=N (all of them), time=SECONDS (all of it), no-gain=N, gain=X; a,b is whichever
    /// comes first, a+b both.
    #[arg(long, value_name = "BUDGET", default_value = "evaluations=220,no-gain=50+gain=0.001")]
    budget: Budget,
    /// How to search: exhaustive, random, local or bayesian; by default exhaustive for small spaces, else bayesian.
    #[arg(long)]
    strategy: Option<StrategyKind>,
    /// Seed of all that is random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Launches of each configuration while searching.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    launches: u16,
    /// Seconds after which a launch is given up.
    #[arg(long, value_name = "S", default_value_t = 60.0, alias = "time-out")]
    timeout: f64,
    /// Begin anew even where an unfinished run could be continued.
    #[arg(long)]
    fresh: bool,
    /// The store; without it, $TUNER_TUNE_DB, else tune.sqlite in your cache folder.
    #[arg(long, value_name = "FILE", alias = "tune-db")]
    db: Option<PathBuf>,
    /// Write the decision as JSON here; - is standard output, in place of the text.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write run-N.html (a self-contained page), run-N.csv and run-N.json into this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

fn main() -> ExitCode {
    #[cfg(unix)]
    end_with_what_is_measured();
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// A line for whoever watches. It is no error if nobody does.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// The result. A reader that has gone (`| head`) is not an error.
fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Ends what is being measured before a signal ends this program: it runs in a process group of its own, which neither
/// a terminal nor a batch system knows of.
#[cfg(unix)]
fn end_with_what_is_measured() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    // What is ignored, as SIGHUP under nohup, stays so.
    let wanted = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|&signal| !is_ignored(signal));
    let Ok(mut signals) = signal_hook::iterator::Signals::new(wanted) else { return };
    std::thread::spawn(move || {
        let Some(signal) = signals.forever().next() else { return };
        tuner::process::end_all();
        say("stopped: every finished measurement is kept; the same command goes on from here");
        // With the status that a shell expects; if that cannot be, the next line ends it.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
        std::process::exit(1);
    });
}

fn run(args: &Args) -> Result<(), Box<dyn std::error::Error>> {
    let Some(program) = args.program.program()? else {
        return Err("name a program: --space FILE --command COMMAND".into());
    };
    if !(args.timeout > 0.0 && args.timeout <= LONGEST) {
        return Err("--timeout must be above 0 and at most a year".into());
    }
    let mut device = args.program.device(&program, Duration::from_secs_f64(args.timeout))?;
    let Program { device: machine, tunable, workload, sample, space, default, objective, goals } = &program;
    let task = Task { device: machine, tunable, workload, space };
    let locations = Locations::choose(Application("tuner"), args.db.clone(), None)?;
    let mut store = Store::open(&locations.user)?;
    let kind = StrategyKind::default_for(space.len(), args.budget.most_evaluations());
    let mut session = Session {
        launches: usize::from(args.launches),
        default: default.clone(),
        goals: goals.clone(),
        fresh: args.fresh,
        sample: sample.clone(),
        ..Session::new(task, args.strategy.unwrap_or(kind), args.seed, args.budget.clone())
    };
    if session.begun_with(&store)?.is_none()
        && let Some(seeds) = Layers::open(locations)?.seeds(&task)?
    {
        session.seeds = seeds.configs;
    }
    space.report().warnings().for_each(|warning| say(&format!("warning: {warning}")));
    say(&format!("{} configurations, {}, until {}", space.len(), session.strategy, session.budget));
    let mut best = f64::INFINITY;
    let tuning = tune(&session, device.as_mut(), &mut store, &mut |step| {
        if let Some((config, cost)) = step.best
            && cost < best
        {
            best = cost;
            let (tried, best) = (step.spent.evaluations, objective.words(cost));
            say(&format!("{tried:>6} tried, best {best}  {}", space.named(config)));
        }
        true
    })?;
    let record = store.run_record(tuning.run)?;
    if let Some(folder) = &args.report {
        let evaluation = |Observation { config, outcome, .. }| Evaluation { config, outcome };
        let report = Report {
            title: tunable.to_string(),
            device: machine.to_string(),
            facts: vec![("verdict".to_owned(), tuning.evidence.verdict.clone())],
            parameters: record.space.parameters.clone(),
            default: default.clone(),
            evaluations: store.observations(tuning.run)?.into_iter().map(evaluation).collect(),
            searched: Some(tuning.evidence.tried),
            decisions: tuning.evidence.details.as_ref().map(|details| details.decisions.clone()).unwrap_or_default(),
            objective: *objective,
            front: tuning.evidence.details.as_ref().and_then(|details| details.front.clone()),
        };
        let [page, ..] = report.write(folder, &format!("run-{}", tuning.run))?;
        say(&format!("report: {}", page.display()));
    }
    if let Some(path) = &args.json {
        let decision = serde_json::json!({
            "run": tuning.run,
            "resumed": tuning.resumed,
            "store": store.file(),
            "parameters": space.names(),
            "decision": tuning.evidence,
        });
        let text = format!("{decision:#}\n");
        if path.as_os_str() == "-" {
            return Ok(print(&text)?);
        }
        write_whole(path, &text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(print(&explain(&record))?)
}
