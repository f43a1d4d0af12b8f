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
use crate::inputs::InputArgs;
use crate::output::{count, print, print_beside, say};
use crate::paths::Protected;
use crate::progress::Progress;
use crate::{Failure, config, usage};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ut_data::detector::{BankVersion, Boards};
use ut_data::input::{Events, Origin, RawEvent};
use ut_data::synth;

use self::event::{one_bank, one_event};
use self::extract::extract;
use self::troubles::{Finder, List, ListFormat, remark};

/// Show the contents of files, and their faults.
///
/// Alone: bank types and versions with counts and sizes, the events, troubles by kind and board
/// with the first event of each, and banks of boards that reported an error. With --troubles: each
/// trouble with its event, bank, board and byte. With --event, or --event-number alone: the boards
/// and lanes of one event. With --bank: one bank's header and words. With --extract: one event as a
/// separate file. Nothing is decoded into hits, and no detector tables are needed; with a board
/// table (--boards, or the one in ut-decode.toml), the troubles are the same that decode counts.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show this event, counted over all files from 0.
    #[arg(long, value_name = "N", conflicts_with = "SelectArgs")]
    event: Option<u64>,
    /// Show this bank of the event (without --event, of the first that is selected), counting banks
    /// of all types from 0.
    #[arg(long, value_name = "N")]
    bank: Option<usize>,
    /// List all troubles, as a table or as --troubles=jsonl. Bytes count from the start of the
    /// event, in MEP files from the start of its packet.
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "table",
        value_parser = one_of!(ListFormat::ALL, ListFormat::name), conflicts_with_all = ["event", "bank", "json"])]
    troubles: Option<ListFormat>,
    /// Write the event of --event or --event-number, or else the first with a trouble, as an MDF
    /// file for a bug report.
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
    #[arg(long, value_name = "FILE", conflicts_with_all = ["event", "bank"])]
    json: Option<PathBuf>,
    #[command(flatten)]
    inputs: InputArgs,
}

impl Args {
    /// Returns true if one event is shown or cut out, not what is in all.
    const fn chooses(&self) -> bool {
        let has_list = self.troubles.is_some() || self.json.is_some();
        self.event.is_some()
            || self.bank.is_some()
            || self.inputs.select.event_number.is_some() && !has_list
    }
}

const TROUBLE: &str = "there is trouble in the data";

pub fn run(args: &Args) -> Result<(), Failure> {
    let files = args.inputs.expand()?;
    let inputs = Protected::inputs(&files);
    for to in args.extract.iter().chain(&args.json) {
        inputs.refuse(to);
    }
    let mut events = args.inputs.events(&files)?;
    let (finder, table) = finder(args, &files)?;
    let remark = remark(&finder, table.as_deref());
    let troubles = match (args.troubles, &args.extract) {
        _ if args.chooses() || args.extract.is_some() => return one(args, events, &files, &finder),
        (Some(format), _) => list(&mut events, &finder, format, &remark)?,
        (None, _) => {
            let json = args.json.as_deref();
            overview::overview(&mut events, &files, json, &finder, &remark)?
        }
    };
    let is_troubled = troubles > 0 || !events.seen().error_banks.is_empty();
    args.inputs
        .end(&events, &files, is_troubled.then_some(TROUBLE))
}

/// Shows or cuts out the event that was chosen, else the first with a trouble.
fn one(args: &Args, mut events: Events, files: &[PathBuf], finder: &Finder) -> Result<(), Failure> {
    let mut progress = Progress::new(
        events.total_bytes(),
        "reading {wide_bar} {bytes}/{total_bytes}, {eta} left",
    );
    let is_wanted = |place: u64, event: &RawEvent<'_>| match args.event {
        Some(wanted) => place == wanted,
        None => args.chooses() || finder.has_trouble(event),
    };
    loop {
        progress.set(events.bytes_read());
        let Some((event, Origin { place, .. })) = events.next_with_origin()? else {
            break;
        };
        if !is_wanted(place, &event) {
            continue;
        }
        drop(progress);
        let strict = if args.inputs.strict && finder.has_trouble(&event) {
            Err(format!("{TROUBLE}, and --strict was given").into())
        } else {
            Ok(())
        };
        if let Some(path) = &args.extract {
            extract(&event, args.format, path)?;
            let mut text = format!(
                "event {place} ({}) written to {}\n",
                event.place(),
                path.display()
            );
            if !args.chooses() {
                finder.find(&event, |found| text += &found.in_words());
            }
            print_beside(Some(path), &text)?;
            return strict;
        }
        print(&match args.bank {
            None => one_event(&event, args.format),
            Some(bank) => one_bank(&event, bank, args.format)?,
        })?;
        return strict;
    }
    drop(progress);
    let seen = events.seen();
    if events.failures().1 > 0 || args.inputs.select.impossible(seen).is_some() {
        return args.inputs.end(&events, files, None);
    }
    let missing = match (args.event, args.inputs.select.event_number) {
        (Some(place), _) => format!("there is no event {place}"),
        (None, Some(number)) => format!("there is no event with event number {number}"),
        _ if args.chooses() => "there is no event".to_owned(),
        _ => "there is no event with a trouble; --event chooses another".to_owned(),
    };
    let n = count(seen.events.max(seen.examined), "event");
    Err(format!("{missing}: the input has {n}").into())
}

/// Lists all troubles, and returns their number.
fn list(
    events: &mut Events,
    finder: &Finder,
    format: ListFormat,
    remark: &str,
) -> Result<u64, Failure> {
    let mut list = List::new(format);
    let mut n = 0;
    let error = loop {
        match events.next_with_origin() {
            Ok(Some((event, Origin { place, .. }))) => {
                let mut listed = Ok(true);
                finder.find(&event, |found| {
                    if matches!(listed, Ok(true)) {
                        listed = list.add(place, &event, &found);
                    }
                });
                if !listed? {
                    // The reader has enough of it (`| head`), and the input may have no end.
                    return Ok(0);
                }
            }
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
        n += 1;
    };
    if !list.flush()? {
        return Ok(0);
    }
    say(&format!(
        "{} in {}. {remark}",
        count(list.n, "trouble"),
        count(n, "event")
    ));
    error.map_or(Ok(list.n), |error| Err(error.into()))
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
