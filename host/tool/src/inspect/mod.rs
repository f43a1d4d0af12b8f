//! `ut-decode inspect`: contents and faults of files.

mod error_banks;
mod event;
mod extract;
mod kinds;
mod overview;
mod troubles;

use std::path::PathBuf;

use crate::args::{bank_format, one_of};
use crate::detector::{Maker, first_version};
use crate::inputs::{InputArgs, check_files};
use crate::output::{count, print, print_beside, say};
use crate::paths::Protected;
use crate::progress::Progress;
use crate::{Failure, config, usage};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ut_data::detector::{BankVersion, Boards};
use ut_data::input::{Events, RawEvent};
use ut_data::synth;

use self::event::{one_bank, one_event};
use self::extract::extract;
use self::troubles::{Finder, List, ListFormat, remark};

/// Show what is in files, and what is wrong with it.
///
/// Alone: bank types and versions with counts and sizes, the events, troubles by kind and board
/// with the first event of each, and banks of boards that reported an error. With --troubles: each
/// trouble with its event, bank, board and byte. With --event or --event-number: the boards and
/// lanes of one event. With --bank: one bank's header and words. With --extract: an event as a file
/// of its own. Nothing is decoded into hits, and no detector tables are needed; with the board
/// table (--boards, or that of ut-decode.toml), the troubles are those that decode counts.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    inputs: InputArgs,
    /// Show this event, counted over all files from 0.
    #[arg(long, value_name = "N")]
    event: Option<u64>,
    /// Show the first event that has this event number.
    #[arg(long, value_name = "N", conflicts_with = "event")]
    event_number: Option<u64>,
    /// Show this bank of the event (of event 0 without --event), counting banks of all types from
    /// 0.
    #[arg(long, value_name = "N")]
    bank: Option<usize>,
    /// List all troubles, as a table or as --troubles=jsonl. Bytes count from the start of the
    /// event, in MEP files from the start of its packet.
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "table",
        value_parser = one_of!(ListFormat::ALL, ListFormat::name), conflicts_with_all = ["event", "event_number", "bank", "json"])]
    troubles: Option<ListFormat>,
    /// Write the chosen event, or without a choice the first with a trouble, as an MDF file for a
    /// bug report.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["bank", "json", "troubles"])]
    extract: Option<PathBuf>,
    /// Boards file of your detector (ut_boards*.bin), to tell which banks and lanes it does not
    /// have.
    #[arg(long, value_name = "FILE")]
    boards: Option<PathBuf>,
    /// Format of the banks if the file does not record it (Allen-layout dumps).
    #[arg(long = "bank-format", alias = "format", value_name = "FORMAT", value_parser = bank_format())]
    format: Option<BankVersion>,
    /// Write the overview as JSON here; - is standard output.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["event", "event_number", "bank"])]
    json: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let files = args.inputs.expand()?;
    check_files(&files)?;
    let inputs = Protected::inputs(&files);
    for to in args.extract.iter().chain(&args.json) {
        inputs.check(to).unwrap_or_else(|message| usage(&message));
    }
    let chosen = args.event.is_some() || args.event_number.is_some() || args.bank.is_some();
    if chosen {
        return one(args, Events::new(&files));
    }
    let (finder, table) = finder(args, &files)?;
    let remark = remark(&finder, table.as_deref());
    match (args.troubles, &args.extract) {
        (Some(format), _) => list(Events::new(&files), &finder, format, &remark),
        (None, Some(path)) => {
            let wanted = |_: u64, event: &RawEvent<'_>| finder.has_trouble(event);
            let missing = || "there is no event with a trouble; --event chooses another".to_owned();
            with_event(Events::new(&files), wanted, missing, |place, event| {
                extract(event, args.format, path)?;
                let mut text = format!(
                    "event {place} ({}) written to {}\n",
                    event.place(),
                    path.display()
                );
                finder.find(event, |found| text += &found.in_words());
                print_beside(Some(path), &text)
            })
        }
        (None, None) => overview::overview(
            Events::new(&files),
            &files,
            args.json.as_deref(),
            &finder,
            &remark,
        ),
    }
}

fn one(args: &Args, events: Events) -> Result<(), Failure> {
    let (wanted, number) = (args.event.unwrap_or(0), args.event_number);
    let is_wanted = |place: u64, event: &RawEvent<'_>| match number {
        Some(_) => event.number == number,
        None => place == wanted,
    };
    let missing = || match number {
        Some(number) => format!("there is no event with event number {number}"),
        None => format!("there is no event {wanted}"),
    };
    with_event(events, is_wanted, missing, |place, event| {
        if let Some(path) = &args.extract {
            extract(event, args.format, path)?;
            let text = format!(
                "event {place} ({}) written to {}\n",
                event.place(),
                path.display()
            );
            return print_beside(Some(path), &text);
        }
        print(&match args.bank {
            None => one_event(event, args.format),
            Some(bank) => one_bank(event, bank, args.format)?,
        })
    })
}

/// Calls `act` on the first event that is wanted, with its place among all events; `missing` names
/// it in the error.
fn with_event(
    mut events: Events,
    wanted: impl Fn(u64, &RawEvent<'_>) -> bool,
    missing: impl FnOnce() -> String,
    act: impl FnOnce(u64, &RawEvent<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut n = 0;
    let mut progress = Progress::new(
        events.total_bytes(),
        "reading {wide_bar} {bytes}/{total_bytes}, {eta} left",
    );
    loop {
        progress.set(events.bytes_read());
        let Some(event) = events.next_event()? else {
            break;
        };
        if wanted(n, &event) {
            drop(progress);
            return act(n, &event);
        }
        n += 1;
    }
    drop(progress);
    Err(format!(
        "{}: the input has {}",
        missing(),
        count(n as usize, "event")
    )
    .into())
}

fn list(
    mut events: Events,
    finder: &Finder,
    format: ListFormat,
    remark: &str,
) -> Result<(), Failure> {
    let mut list = List::new(format);
    let mut n = 0;
    let error = loop {
        match events.next_event() {
            Ok(Some(event)) => {
                let mut listed = Ok(true);
                finder.find(&event, |found| {
                    if matches!(listed, Ok(true)) {
                        listed = list.add(n, &event, &found);
                    }
                });
                if !listed? {
                    // The reader has enough of it (`| head`), and the input may have no end.
                    return Ok(());
                }
            }
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
        n += 1;
    };
    if !list.flush()? {
        return Ok(());
    }
    say(&format!(
        "{} in {}. {remark}",
        count(list.n as usize, "trouble"),
        count(n as usize, "event")
    ));
    error.map_or(Ok(()), |error| Err(error.into()))
}

/// Returns the finder, and the file of its board table: of --boards, of generated events, or of the
/// settings.
fn finder(args: &Args, files: &[PathBuf]) -> Result<(Finder, Option<PathBuf>), Failure> {
    let mut finder = Finder {
        boards: None,
        format: args.format,
    };
    // A pipe can be read only once.
    let files: Vec<PathBuf> = files
        .iter()
        .filter(|file| file.is_file())
        .cloned()
        .collect();
    let generated = || {
        matches!(Maker::of(&files), Maker::Generate)
            .then(|| first_version(&files))
            .flatten()
    };
    let mut table = match (&args.boards, generated()) {
        (Some(path), _) => Some(path.clone()),
        (None, Some(version)) => {
            finder.boards = Some(synth::detector(version, 1).0);
            None
        }
        (None, None) => config::tables().map(|(boards, _)| boards),
    };
    if let Some(path) = &table {
        let boards = Boards::read(path)?;
        match args.format.filter(|&format| format != boards.version) {
            None => finder.boards = Some(boards),
            Some(format) if args.boards.is_some() => {
                let (path, has) = (path.display(), boards.version.name());
                usage(&format!(
                    "--bank-format is {}, but {path} is a table for {has} banks",
                    format.name()
                ))
            }
            // The settings are about other files.
            Some(_) => table = None,
        }
    }
    Ok((finder, table))
}
