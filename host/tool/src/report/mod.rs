//! `ut-decode report`: a run, or two, on one page.

mod compare;
mod gather;
mod maps;
mod names;
mod page;
mod run;
mod spectra;
mod sums;
#[cfg(test)]
mod tests;
mod time;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Value, json};

pub use self::gather::{GatherError, Gathered, Gatherer};
use self::names::{place_json, place_text};
use self::run::Run;
pub use self::sums::{Part, Sums, SumsError};
use crate::args::{ClusterArgs, DetectorArgs, one_of};
use crate::decode::{SelectArgs, facts};
pub use crate::detector::Detector;
use crate::detector::SYNTHETIC;
use crate::inputs::{InputArgs, check_files, check_standard_input};
use crate::output::{count, is_quiet, on_stdout, print_beside, say, write_file, write_json};
use crate::paths::Protected;
use crate::progress::Progress;
use crate::{Failure, config, signals, usage};
use ut_data::input::{Events, InputPart, Select};
use ut_files::NewFile;
use ut_report::{Against, Rules, Verdicts, differences, outliers};

/// Draw how the detector behaved during a run, on one page.
///
/// Decodes the files and writes a self-contained page: events, troubles, maps of the hits and their charge in every
/// sector, what is dead or hot, distributions, strips, and charts against the event number, which show a board that dies in
/// the middle of a run. With --compare, the same for a second run beside it, and what differs. Memory use does not grow
/// with the number of events. `docs/report.md` says what each picture means.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    inputs: InputArgs,
    /// The page, HTML.
    #[arg(long, short, value_name = "FILE", required_unless_present = "sums")]
    output: Option<PathBuf>,
    /// Write the sums behind the page into this file instead of a page; --merge draws the page from such files.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "compare"])]
    sums: Option<PathBuf>,
    /// The inputs, and those of --compare, are files of --sums: draw them as one run.
    #[arg(long, conflicts_with_all = ["sums", "against", "no_checksum", "keep_going", "SelectArgs", "DetectorArgs",
        "ClusterArgs"])]
    merge: bool,
    /// Compare with the run in this file, folder or pattern; may be given several times.
    #[arg(long, value_name = "FILE")]
    compare: Vec<PathBuf>,
    /// Time axis of the charts: the event number, or the order of reading (place) [default: number if the first event
    /// has one, else place].
    #[arg(long, value_name = "WHAT", value_parser = one_of!([Against::Number, Against::Place], against_name))]
    against: Option<Against>,
    /// Write what stands out, and the sums, as JSON here; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// If a file cannot be read to its end, go on with the next one; list such files at the end, and exit with 1.
    #[arg(long)]
    keep_going: bool,
    /// Skip checksum verification.
    #[arg(long)]
    no_checksum: bool,
    /// Threads; 0: one per core [default: 0].
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

/// A page, and what it shows as JSON.
pub struct Drawn {
    /// The page, HTML.
    pub html: String,
    /// What `--json` writes: counts, troubles, and the outliers that `docs/report.md` defines.
    pub json: Value,
    verdicts: Verdicts,
}

/// Draws a run, or two that are compared.
///
/// # Errors
/// When the two are of other detectors or other options: the page says these once, and has one map for both.
pub fn draw(first: &Sums, second: Option<&Sums>) -> Result<Drawn, SumsError> {
    second.map_or(Ok(()), |second| first.check_alike(second))?;
    let (detector, rules) = (&*first.detector, Rules::default());
    let tables = &detector.tables;
    let [name, other_name] = names_of(first, second);
    let run = |name, sums, verdicts| Run { name, gathered: sums, verdicts, rules: &rules };
    let verdicts = outliers(&first.view, tables, &rules);
    let compared = second
        .map(|second| (second, outliers(&second.view, tables, &rules), differences(&first.view, &second.view, tables)));
    let compared = compared
        .as_ref()
        .map(|(second, verdicts, differences)| (run(other_name, *second, verdicts), differences.as_slice()));
    let drawn = run(name, first, &verdicts);
    let html = page::html(detector, first.options, &drawn, compared.as_ref().map(|(run, d)| (run, *d)));
    let json = json_of(&drawn, detector);
    Ok(Drawn { html, json, verdicts })
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let files = args.inputs.expand()?;
    let others = InputArgs { files: args.compare.clone(), files_from: None }.expand()?;
    check_standard_input(files.iter().chain(&others).chain(&args.inputs.files_from));
    let outputs = [&args.output, &args.sums, &args.json];
    let to_stdout = on_stdout(outputs);
    let inputs = Protected::inputs(files.iter().chain(&others));
    for output in outputs.into_iter().flatten() {
        inputs.check(output).unwrap_or_else(|message| usage(&message));
    }
    if let Some(output) = &args.output
        && output
            .extension()
            .is_some_and(|extension| !["html", "htm"].iter().any(|html| extension.eq_ignore_ascii_case(html)))
        && (output.is_file() || !output.exists())
    {
        usage(&format!("--output {}: the page is HTML, so its name ends in .html", output.display()));
    }
    for output in [&args.output, &args.sums].into_iter().flatten() {
        NewFile::check(output)?;
    }
    if !args.keep_going && !args.merge {
        check_files(files.iter().chain(&others))?;
    }
    let start = Instant::now();
    let (first, second) = if args.merge {
        (Sums::of_files(&files)?.ok_or("there are no sums to draw")?, Sums::of_files(&others)?)
    } else {
        gather(args, &files, &others)?
    };
    let elapsed = start.elapsed();
    let both = || [Some(&first), second.as_ref()].into_iter().flatten();
    both().for_each(warn);
    let failures: Vec<String> = both().flat_map(Sums::troubles).collect();
    if failures.is_empty() {
        args.select.warning(first.view.events).iter().for_each(|warning| say(&format!("warning: {warning}")));
    }
    if first.view.events == 0
        && let Some(failure) = failures.first()
    {
        return Err(failure.as_str().into());
    }
    let mut text = format!(
        "{}, {} in {:.2} s ({:.0} events/s)\n",
        count(first.view.events as usize, "event"),
        count(first.view.hits as usize, "hit"),
        elapsed.as_secs_f64(),
        both().map(|sums| sums.view.events).sum::<u64>() as f64 / elapsed.as_secs_f64().max(1e-9),
    );
    let drawn = (args.output.is_some() || args.json.is_some()).then(|| draw(&first, second.as_ref())).transpose()?;
    if let Some(Drawn { html, json, verdicts }) = &drawn {
        if let Some(output) = &args.output {
            write_file(output, html)?;
        }
        if let Some(path) = &args.json {
            write_json(path, json)?;
        }
        found(&mut text, verdicts, &first);
    }
    if let Some(path) = &args.sums {
        write_file(path, first.to_bytes()?)?;
    }
    let written =
        args.output.as_ref().or(args.sums.as_ref()).map_or_else(String::new, |path| path.display().to_string());
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{written} written");
    print_beside(to_stdout, &text)?;
    for failure in &failures {
        say(&format!("error: {failure}"));
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(format!("{written} covers only the events that could be read").into())
    }
}

/// Reads the files of a run, and of the one that it is compared with.
fn gather(args: &Args, files: &[PathBuf], others: &[PathBuf]) -> Result<(Sums, Option<Sums>), Failure> {
    let all: Vec<PathBuf> = files.iter().chain(others).cloned().collect();
    let detector = Arc::new(Detector::load(&args.detector, &all)?);
    let threads = match args.threads.unwrap_or_else(config::threads) {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        n => usize::from(n),
    };
    let gatherer = Gatherer {
        tables: &detector.tables,
        options: args.clustering.options(),
        threads,
        against: args.against.unwrap_or_else(|| against_of(files.first().map(PathBuf::as_path))),
        check: !args.no_checksum,
        keep_going: args.keep_going,
        first_place: 0,
    };
    let output =
        args.output.as_ref().or(args.sums.as_ref()).map_or_else(String::new, |path| path.display().to_string());
    let sums = |files: &[PathBuf], select: &Select| -> Result<Sums, Failure> {
        let gathered = with_progress(&gatherer, files, select, &output)?;
        detector.check_makers(&gathered.seen)?;
        Ok(Sums::new(files, Arc::clone(&detector), gatherer.options, gathered))
    };
    let first = sums(files, &args.select.select(files, args.keep_going)?)?;
    let first = first.of_part(Part::of(files, &args.select, None));
    // The places that were chosen are those of the first run.
    let second = if others.is_empty() { None } else { Some(sums(others, &Select::default())?) };
    Ok((first, second))
}

/// Gathers, with a bar on a terminal. Ends the program when the user wants that; `output` is not written then.
fn with_progress(
    gatherer: &Gatherer<'_>,
    files: &[PathBuf],
    select: &Select,
    output: &str,
) -> Result<Gathered, Failure> {
    let total = files.iter().filter_map(|file| file.metadata().ok()).map(|meta| meta.len()).sum();
    let template = "decoding {wide_bar} {bytes}/{total_bytes}, {msg}, {eta} left";
    let mut progress = (!is_quiet()).then(|| Progress::new(total, template));
    let parts: Vec<InputPart> = files.iter().map(InputPart::file).collect();
    let (start, mut n) = (Instant::now(), 0);
    signals::end_gently();
    let gathered = gatherer.gather(&parts, select, |events, read| {
        n = events;
        if let Some(progress) = &mut progress {
            let rate = events as f64 / start.elapsed().max(Duration::from_millis(1)).as_secs_f64();
            progress.message(&format!("{events} events, {rate:.0}/s"));
            progress.set(read);
        }
        !signals::interrupted()
    })?;
    drop(progress);
    if signals::interrupted() {
        say(&format!("interrupted after {n} events; {output} was not written"));
        signals::end();
    }
    Ok(gathered)
}

/// What stands out, in a few lines.
fn found(text: &mut String, verdicts: &Verdicts, sums: &Sums) {
    let n = verdicts.outliers.len();
    // Writing to a String cannot fail.
    let _ = match n {
        0 => writeln!(text, "{}", page::nothing(&sums.view)),
        n => writeln!(text, "{n} things stand out:"),
    };
    for outlier in verdicts.outliers.iter().take(10) {
        let _ = writeln!(text, "  {}: {}", outlier.kind.name(), place_text(outlier, &sums.detector.tables));
    }
    if n > 10 {
        let _ = writeln!(text, "  and {} more", n - 10);
    }
    if let Some(unjudged) = page::unjudged(&sums.view, verdicts, &sums.detector.tables) {
        let _ = writeln!(text, "{unjudged}");
    }
}

/// What there is to warn of.
fn warn(sums: &Sums) {
    for warning in &sums.warnings {
        say(&format!("warning: {warning}"));
    }
    if sums.detector.is_embedded() && sums.measured > 0 {
        say(&format!("warning: {SYNTHETIC}"));
    }
    if sums.view.events == 0 && sums.troubles().is_empty() {
        say("warning: there is no event in the input, or none was selected");
    }
}

/// What pictures against time are over, where nobody says it: the event number if the first event of the first file has
/// one.
pub fn against_of(first: Option<&Path>) -> Against {
    let first = first.filter(|file| file.is_file());
    let numbered =
        first.is_some_and(|file| matches!(Events::new([file]).next_event(), Ok(Some(event)) if event.number.is_some()));
    if numbered { Against::Number } else { Against::Place }
}

/// What to call two runs, so that they differ.
fn names_of(a: &Sums, b: Option<&Sums>) -> [String; 2] {
    let none: &[PathBuf] = &[];
    let (a, b) = (&a.files[..], b.map_or(none, |b| &b.files));
    let short = |files: &[PathBuf]| match files {
        [file] => file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned(),
        files => count(files.len(), "file"),
    };
    let whole = |files: &[PathBuf]| match files {
        [file] => file.display().to_string(),
        files => count(files.len(), "file"),
    };
    let differ = |names: &[String; 2]| names[0] != names[1];
    let numbered = || [format!("{}, first", whole(a)), format!("{}, second", whole(b))];
    let all = [[short(a), short(b)], [whole(a), whole(b)]];
    all.into_iter().find(differ).unwrap_or_else(numbered)
}

/// What stands out, and the sums, for a program.
fn json_of(run: &Run<'_>, detector: &Detector) -> Value {
    let tables = &detector.tables;
    let facts = facts(run.gathered.options, detector, None).into_iter();
    let view = &run.gathered.view;
    let outliers = run.verdicts.outliers.iter().map(|outlier| place_json(outlier, tables));
    let counts = ut_data::Count::ALL.into_iter().map(|count| (count.name().to_owned(), view.count(count).into()));
    let errors = view
        .error_banks
        .iter()
        .map(|&(kind, source_id, banks)| json!({"type": kind, "source_id": source_id, "banks": banks}));
    let troubles = view.troubles.iter().map(|trouble| {
        let kind = ut_data::Count::ALL.get(trouble.kind).map_or("", |count| count.name());
        json!({"kind": kind, "board": trouble.board, "count": trouble.count, "first_event": trouble.first})
    });
    json!({
        "events": view.events,
        "hits": view.hits,
        "complete": run.gathered.troubles().is_empty(),
        "report": counts.collect::<serde_json::Map<_, Value>>(),
        "outliers": outliers.collect::<Vec<_>>(),
        "unjudged_sectors": run.verdicts.judged.iter().filter(|judged| !**judged).count(),
        "troubles": troubles.collect::<Vec<_>>(),
        "error_banks": errors.collect::<Vec<_>>(),
        "provenance": facts.map(|(key, value)| (key.to_owned(), value.into())).collect::<serde_json::Map<_, _>>(),
    })
}
