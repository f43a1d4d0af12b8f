//! `ut-decode report`: a run, or two, on one page.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::args::{ClusterArgs, DetectorArgs};
use crate::decode::read_mask;
use crate::detector::check_makers;
use crate::inputs::{InputArgs, check_once, check_standard_input, expand, total_bytes};
use crate::loss::{Account, LossArgs};
use crate::output::{
    count, is_quiet, number, on_stdout, print_beside, rate, say, version_in_words, write_file,
    write_json,
};
use crate::paths::Protected;
use crate::progress::Progress;
use crate::{Failure, config, signals, usage};
use ut_data::DecodeOptions;
use ut_data::detector::Mask;
use ut_data::input::{Events, InputPart, Select};
use ut_decoders::cpu::CpuDecoder;
use ut_files::NewFile;
use ut_report::{Against, Gathered, Gatherer, SYNTHETIC, Sums, draw};

/// Draw how the detector behaved during a run, on one page.
///
/// Decodes the files and writes a self-contained page: events, troubles, maps of the hits and their
/// charge in every sector, what is dead or hot, distributions, strips, and charts against the event
/// number, which show a board that dies in the middle of a run. With --reference, the page shows a
/// reference run next to it, and what differs. Memory use does not grow with the number of events.
/// `docs/report.md` says what each picture means.
#[derive(Debug, clap::Args)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub struct Args {
    /// The page, HTML.
    #[arg(long, short, value_name = "FILE", required_unless_present_any = ["sums", "mask_out"])]
    output: Option<PathBuf>,
    /// Write the sums behind the page into this file instead of a page; --merge draws the page from
    /// such files.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "reference", "mask_out"])]
    sums: Option<PathBuf>,
    /// Take the inputs, and the files of --reference, as files written by --sums, and draw them as one
    /// run.
    #[arg(long, conflicts_with_all = ["sums", "keep_going", "mask", "SelectArgs", "DetectorArgs", "ClusterArgs"])]
    merge: bool,
    /// Compare with the run in this file or folder, or of this file of --sums, as the reference;
    /// may be given several times. What stands out in both runs is known, and only counted.
    #[arg(long, value_name = "FILE")]
    reference: Vec<PathBuf>,
    /// Write what stands out, and the sums, as JSON here; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a mask of the dead and hot strips, chips and lanes of the run here, for decode --mask.
    #[arg(long, value_name = "FILE")]
    mask_out: Option<PathBuf>,
    #[command(flatten)]
    loss: LossArgs,
    /// Leave out hits on the strips, sectors, lanes and boards that this text file names, and do
    /// not list them as dead or hot (docs/tables.md).
    #[arg(long, value_name = "FILE", conflicts_with = "sums")]
    mask: Option<PathBuf>,
    /// Threads; 0: one per core [default: 0].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1024))]
    threads: Option<u16>,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    detector: DetectorArgs,
    #[command(flatten)]
    clustering: ClusterArgs,
}

/// Checks that the outputs can be written and are not inputs; returns the output that is standard
/// output.
fn check_outputs<'a>(
    args: &'a Args,
    inputs: impl Iterator<Item = &'a PathBuf>,
) -> Result<Option<&'a Path>, Failure> {
    let outputs = [&args.output, &args.sums, &args.json, &args.mask_out];
    let to_stdout = on_stdout(outputs);
    let inputs = Protected::inputs(inputs.chain(&args.mask));
    for output in outputs.into_iter().flatten() {
        inputs.refuse(output);
    }
    let is_html = |ending: &std::ffi::OsStr| {
        ["html", "htm"]
            .iter()
            .any(|html| ending.eq_ignore_ascii_case(html))
    };
    let is_other = |output: &&PathBuf| {
        output.extension().is_some_and(|ending| !is_html(ending))
            && (output.is_file() || !output.exists())
    };
    if let Some(output) = args.output.as_ref().filter(is_other) {
        usage(&format!(
            "--output {}: the page is HTML, so its name ends in .html",
            output.display()
        ));
    }
    for output in outputs.into_iter().flatten() {
        NewFile::check(output)?;
    }
    Ok(to_stdout)
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let files = args.inputs.expand()?;
    let others = expand(&args.reference)?;
    check_standard_input(files.iter().chain(&others));
    let to_stdout = check_outputs(args, files.iter().chain(&others))?;
    let is_summed =
        args.merge || !others.is_empty() && others.iter().all(|file| Sums::is_file(file));
    if is_summed && !others.is_empty() && args.mask.is_some() {
        usage(
            "--mask leaves hits out of both runs, and the sums of --reference have them: name the reference's own files",
        );
    }
    check_once(&files, &args.loss)?;
    if !args.merge && !args.inputs.keep_going {
        check_inputs(files.iter().chain(others.iter().filter(|_| !is_summed)))?;
    }
    let start = Instant::now();
    let reference = if is_summed {
        Sums::of_files(&others)?
    } else {
        None
    };
    let (first, second, mask) = if args.merge {
        (
            Sums::of_files(&files)?.ok_or("there are no sums to draw")?,
            reference,
            None,
        )
    } else {
        gather(
            args,
            &files,
            if is_summed { &[] } else { &others },
            reference,
        )?
    };
    let (account, read) = account(args, &first);
    if let Some(refusal) = account.refusal() {
        return Err(refusal.into());
    }
    let both = || [Some(&first), second.as_ref()].into_iter().flatten();
    both().for_each(warn);
    let failures: Vec<String> = both().flat_map(Sums::troubles).collect();
    if failures.is_empty() {
        args.inputs
            .select
            .warning(first.view.events)
            .iter()
            .for_each(|warning| say(&format!("warning: {warning}")));
    }
    if first.view.events == 0
        && let Some(failure) = failures.first()
    {
        return Err(failure.as_str().into());
    }
    let [events, hits] =
        [(first.view.events, "event"), (first.view.hits, "hit")].map(|(n, of)| count(n, of));
    let mut text = format!(
        "{events}, {hits} in {:.2} s\n",
        start.elapsed().as_secs_f64()
    );
    if args.sums.is_none() || args.json.is_some() {
        let mut drawn = draw(
            &first,
            second.as_ref(),
            args.mask.as_deref().zip(mask.as_ref()),
            &format!("ut-decode {}", version_in_words()),
        )?;
        drawn.json["loss"] = account.json(&read);
        args.output
            .iter()
            .try_for_each(|output| write_file(output, &drawn.html))?;
        args.json
            .iter()
            .try_for_each(|path| write_json(path, &drawn.json))?;
        args.mask_out
            .iter()
            .try_for_each(|path| write_file(path, &drawn.mask))?;
        text += &drawn.text;
    }
    if let Some(path) = &args.sums {
        write_file(path, first.to_bytes()?)?;
    }
    let written = written(args);
    print_beside(to_stdout, &format!("{text}{written} written\n"))?;
    verdict(args, &first, &failures, &account, &read)
}

/// Returns the failure of a report that was written; `failures` are of files that could not be
/// read.
fn verdict(
    args: &Args,
    first: &Sums,
    failures: &[String],
    account: &Account,
    read: &[PathBuf],
) -> Result<(), Failure> {
    for failure in failures {
        say(&format!("error: {failure}"));
    }
    if failures.is_empty() {
        let all_may_go =
            first.options.max_cluster_size() != DecodeOptions::default().max_cluster_size();
        let too_much = account.verdict(read, all_may_go);
        let troubled = first.view.count_of_troubles() > 0
            || !account.total.is_none()
            || account.has_repeated()
            || !first.warnings.is_empty();
        match first.view.events {
            // A part of a job may be empty.
            0 if args.inputs.select.shard.is_none() => {
                Err("there is no event in the input, or none was selected".into())
            }
            1.. if args.inputs.strict && troubled => {
                Err("there is trouble in the data (see the page), and --strict was given".into())
            }
            _ => too_much.map_or(Ok(()), |too_much| Err(too_much.into())),
        }
    } else {
        Err(format!(
            "{} covers only the events that could be read",
            written(args)
        )
        .into())
    }
}

/// Returns the account of loss of the run, and the files that it is of.
fn account(args: &Args, sums: &Sums) -> (Account, Vec<PathBuf>) {
    let (mut account, mut files) = (Account::new(&args.loss), Vec::new());
    for (file, loss) in sums.losses() {
        account.add(&[(files.len() as u32, loss)]);
        files.push(file.into());
    }
    account.end();
    account.repeats = sums.repeats.clone();
    (account, files)
}

fn written(args: &Args) -> String {
    [&args.output, &args.sums, &args.mask_out]
        .into_iter()
        .flatten()
        .next()
        .map_or_else(String::new, |path| path.display().to_string())
}

/// Checks that all files begin with an event.
fn check_inputs<'a>(files: impl Iterator<Item = &'a PathBuf>) -> Result<(), Failure> {
    for file in files.filter(|file| {
        file.as_os_str() != "-" && !file.metadata().is_ok_and(|meta| !meta.is_file())
    }) {
        Events::new([file]).next_event()?;
    }
    Ok(())
}

/// Sums up the files of a run and of `others`, or takes `reference`, of the same tables; reads the
/// mask.
fn gather(
    args: &Args,
    files: &[PathBuf],
    others: &[PathBuf],
    reference: Option<Sums>,
) -> Result<(Sums, Option<Sums>, Option<Mask>), Failure> {
    let all: Vec<PathBuf> = files.iter().chain(others).cloned().collect();
    let detector = Arc::new(args.detector.load(&all)?);
    if let Some(reference) = &reference {
        reference.check_made_with(&detector.tables, args.clustering.options())?;
    }
    let threads = match args.threads.unwrap_or_else(config::threads) {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        n => usize::from(n),
    };
    ClusterArgs::check(detector.tables.boards().version);
    let mask = args
        .mask
        .as_ref()
        .map(|path| read_mask(path, &detector.tables))
        .transpose()?;
    let options = args.clustering.options();
    let gatherer = Gatherer {
        threads,
        against: Against::of(files.first().map(PathBuf::as_path)),
        keep_going: args.inputs.keep_going,
        mask: mask.as_ref(),
        ..Gatherer::new(&detector.tables, options)
    };
    let (output, chosen) = (written(args), &args.inputs.select);
    let sums = |files: &[PathBuf], select: &Select| -> Result<Sums, Failure> {
        let gathered = with_progress(&gatherer, files, select, &output)?;
        check_makers(&detector, &gathered.seen)?;
        if *select != Select::default()
            && let Some(impossible) = chosen.impossible(&gathered.seen)
        {
            return Err(impossible.into());
        }
        Ok(Sums::new(files, Arc::clone(&detector), options, gathered))
    };
    let first = sums(files, &chosen.select(files, args.inputs.keep_going)?)?;
    let first = first.of_part(chosen.part(files));
    // The chosen places belong to the first run.
    let second = if others.is_empty() {
        reference
    } else {
        Some(sums(others, &Select::default())?)
    };
    Ok((first, second, mask))
}

/// Sums up files, with a bar on a terminal. Ends the program when it is interrupted; `output` is
/// not written then.
fn with_progress(
    gatherer: &Gatherer<'_>,
    files: &[PathBuf],
    select: &Select,
    output: &str,
) -> Result<Gathered, Failure> {
    let template = "decoding {wide_bar} {bytes}/{total_bytes}, {msg}, {eta} left";
    let mut progress = (!is_quiet()).then(|| Progress::new(total_bytes(files), template));
    let parts: Vec<InputPart> = files.iter().map(InputPart::file).collect();
    let (start, mut n) = (Instant::now(), 0);
    signals::end_gently();
    let gathered = gatherer.gather(&parts, select, CpuDecoder::new, |events, read| {
        n = events;
        if let Some(progress) = &mut progress {
            let rate = number(rate(events, start) as u64);
            progress.message(&format!("{}, {rate}/s", count(events, "event")));
            progress.set(read);
        }
        !signals::interrupted()
    })?;
    drop(progress);
    if signals::interrupted() {
        say(&format!(
            "interrupted after {}; {output} was not written",
            count(n, "event")
        ));
        signals::end();
    }
    Ok(gathered)
}

fn warn(sums: &Sums) {
    for warning in sums
        .warnings
        .iter()
        .map(String::as_str)
        .chain(sums.is_synthetic().then_some(SYNTHETIC))
    {
        say(&format!("warning: {warning}"));
    }
}
