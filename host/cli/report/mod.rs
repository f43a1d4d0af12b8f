//! `ut-decode report`: a run, or two, on one page.

mod compare;
mod gather;
mod maps;
mod names;
mod page;
mod spectra;
mod time;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Value, json};

use self::gather::{Gathered, Gatherer};
use self::names::{place_json, place_text};
use self::page::Run;
use crate::cli::args::{ClusterArgs, DetectorArgs, one_of};
use crate::cli::decode::SelectArgs;
use crate::cli::detector::{Detector, SYNTHETIC};
use crate::cli::inputs::InputArgs;
use crate::cli::output::{count, print_beside, say, with_causes, write_file, write_json};
use crate::cli::paths::same_file;
use crate::cli::{Failure, config, usage};
use crate::input::{Damage, Events, Select};
use crate::views::{Against, Rules, differences, outliers};

/// Draw what the detector did during a run, on one page.
///
/// Decodes the files and writes a page that needs nothing else: events, troubles, maps of the hits and their charge in
/// every sector, what is dead or hot, distributions, strips, and all of it against the event number, so that a board that
/// dies in the middle shows. With --compare, the same of a second run beside it, and what differs. Memory does not grow
/// with the number of events. `docs/report.md` says what each picture means.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    inputs: InputArgs,
    /// The page, HTML.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Compare with the run in this file, folder or pattern; may be given several times.
    #[arg(long, value_name = "FILE")]
    compare: Vec<PathBuf>,
    /// What pictures against time are over: the event number, or the event's place among all that are read [default:
    /// number where the first event has one, else place].
    #[arg(long, value_name = "WHAT", value_parser = one_of!([Against::Number, Against::Place], against_name))]
    against: Option<Against>,
    /// Write what stands out, and the sums, as JSON here; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Go on with the next file where one cannot be read further; say at the end which, and exit with 1.
    #[arg(long)]
    keep_going: bool,
    /// Believe the data: do not compare checksums.
    #[arg(long)]
    no_checksum: bool,
    /// Threads; 0: one a core [default: 0].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1024))]
    threads: Option<u16>,
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    detector: DetectorArgs,
    #[command(flatten)]
    clustering: ClusterArgs,
}

const fn against_name(against: Against) -> &'static str {
    match against {
        Against::Number => "number",
        Against::Place => "place",
    }
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let files = args.inputs.expand()?;
    let others = InputArgs { files: args.compare.clone(), files_from: None }.expand()?;
    for output in [Some(&args.output), args.json.as_ref()].into_iter().flatten() {
        if let Some(input) = files.iter().chain(&others).find(|file| same_file(file, output)) {
            usage(&format!("{} would overwrite {}, which is an input", output.display(), input.display()));
        }
    }
    crate::output::NewFile::check(&args.output)?;
    let start = Instant::now();
    let detector = Detector::load(&args.detector, &files)?;
    let tables = &detector.tables;
    let threads = match args.threads.unwrap_or_else(config::threads) {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        n => usize::from(n),
    };
    let gatherer = Gatherer {
        detector: &detector,
        options: args.clustering.options(),
        threads,
        against: args.against.unwrap_or_else(|| against_of(&files)),
        check: !args.no_checksum,
        keep_going: args.keep_going,
        output: &args.output,
    };
    let first = gatherer.gather(&files, &args.select.select(&files)?)?;
    // The places that were chosen are those of the first run.
    let second = if others.is_empty() { None } else { Some(gatherer.gather(&others, &Select::default())?) };
    let elapsed = start.elapsed();
    for gathered in [Some(&first), second.as_ref()].into_iter().flatten() {
        warn(gathered, &detector);
    }
    if first.view.events == 0 && !first.failures.is_empty() {
        return first.failures.into_iter().next().map_or(Ok(()), Err);
    }
    let rules = Rules::default();
    let verdicts = outliers(&first.view, tables, &rules);
    let run = Run { name: name_of(&files), files: &files, gathered: &first, verdicts: &verdicts, rules: &rules };
    let mut text = format!(
        "{} events, {} hits in {:.2} s ({:.0} events/s)\n",
        first.view.events,
        first.view.hits,
        elapsed.as_secs_f64(),
        (first.view.events + second.as_ref().map_or(0, |second| second.view.events)) as f64
            / elapsed.as_secs_f64().max(1e-9),
    );
    let compared = second.as_ref().map(|second| {
        let verdicts = outliers(&second.view, tables, &rules);
        (second, verdicts, differences(&first.view, &second.view, tables))
    });
    let html = {
        let compared = compared.as_ref().map(|(second, verdicts, differences)| {
            let run = Run { name: name_of(&others), files: &others, gathered: second, verdicts, rules: &rules };
            (run, &differences[..])
        });
        page::html(&detector, args.clustering.options(), &run, compared.as_ref().map(|(run, d)| (run, *d)))
    };
    write_file(&args.output, html)?;
    if let Some(path) = &args.json {
        write_json(path, &json_of(&run, tables))?;
    }
    let n = verdicts.outliers.len();
    // Writing to a String cannot fail.
    let _ = match n {
        0 => writeln!(text, "nothing stands out"),
        n => writeln!(text, "{n} things stand out:"),
    };
    for outlier in verdicts.outliers.iter().take(10) {
        let _ = writeln!(text, "  {}: {}", outlier.kind.name(), place_text(outlier, tables));
    }
    if n > 10 {
        let _ = writeln!(text, "  and {} more", n - 10);
    }
    let _ = writeln!(text, "{} written", args.output.display());
    print_beside(args.json.as_deref(), &text)?;
    let failures = first.failures.into_iter().chain(second.into_iter().flat_map(|second| second.failures));
    let mut failures = failures.peekable();
    let failed = failures.peek().is_some();
    for failure in failures {
        say(&format!("error: {}", with_causes(failure.as_ref())));
    }
    if failed {
        return Err(format!("{} is of the events that could be read", args.output.display()).into());
    }
    Ok(())
}

/// What there is to warn of.
fn warn(gathered: &Gathered, detector: &Detector) {
    for (place, damage) in &gathered.seen.damages {
        let cost = match damage {
            // These say it themselves.
            Damage::Checksum { .. } | Damage::Fragments { .. } => "",
            _ => "; the rest of the event is given up",
        };
        say(&format!("warning: {place}: {damage}{cost}"));
    }
    if detector.is_embedded() && gathered.seen.measured > 0 {
        say(&format!("warning: {SYNTHETIC}"));
    }
    if gathered.seen.events == 0 && gathered.failures.is_empty() {
        say("warning: there is no event in the input, or none was selected");
    }
}

/// The numbers that the first event has.
fn against_of(files: &[PathBuf]) -> Against {
    let first = files.first().filter(|file| file.is_file());
    let numbered =
        first.is_some_and(|file| matches!(Events::new([file]).next_event(), Ok(Some(event)) if event.number.is_some()));
    if numbered { Against::Number } else { Against::Place }
}

/// What to call a run.
fn name_of(files: &[PathBuf]) -> String {
    match files {
        [file] => file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned(),
        files => count(files.len(), "file"),
    }
}

/// What stands out, and the sums, for a program.
fn json_of(run: &Run<'_>, tables: &crate::DetectorTables) -> Value {
    let view = &run.gathered.view;
    let outliers = run.verdicts.outliers.iter().map(|outlier| place_json(outlier, tables));
    let counts = crate::Count::ALL.into_iter().map(|count| (count.name().to_owned(), view.count(count).into()));
    let errors = view
        .error_banks
        .iter()
        .map(|&(kind, source_id, banks)| json!({"type": kind, "source_id": source_id, "banks": banks}));
    let troubles = view.troubles.iter().map(|trouble| {
        let kind = crate::Count::ALL.get(trouble.kind).map_or("", |count| count.name());
        json!({"kind": kind, "board": trouble.board, "count": trouble.count, "first_event": trouble.first})
    });
    json!({
        "events": view.events,
        "hits": view.hits,
        "complete": run.gathered.failures.is_empty(),
        "report": counts.collect::<serde_json::Map<_, Value>>(),
        "outliers": outliers.collect::<Vec<_>>(),
        "unjudged_sectors": run.verdicts.judged.iter().filter(|judged| !**judged).count(),
        "troubles": troubles.collect::<Vec<_>>(),
        "error_banks": errors.collect::<Vec<_>>(),
    })
}
