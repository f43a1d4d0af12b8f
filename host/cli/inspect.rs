//! `ut-decode inspect`: what is in a file, for the person whose data looks wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::detector::{BankVersion, LANES_PER_BOARD};
use crate::input::{Bank, BankEntry, Events, Format, RawEvent, kind};
use serde_json::{Value, json};

use crate::cli::Failure;
use crate::cli::args::bank_format;
use ut_kernels::bank::board_of;

use crate::cli::describe::{Words, hex, source_in_words};
use crate::cli::output::{print, print_beside, write_json};
use crate::cli::progress::Progress;

/// Events that the overview lists; of those after them, only the damaged.
const LISTED: u64 = 20;

/// Damaged events that it lists.
const LISTED_DAMAGES: u64 = 1000;

/// Bytes of a bank that are shown.
const SHOWN_BYTES: usize = 1024;

/// Show what is in a file.
///
/// Alone: bank types and versions with counts and sizes, and the events. With --event: the boards and lanes of one
/// event. With --bank: one bank's header and words. Nothing is decoded into hits, and no detector tables are needed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// An MDF file or an Allen-layout dump.
    file: PathBuf,
    /// Show this event of the file; the first is 0.
    #[arg(long, value_name = "N")]
    event: Option<u64>,
    /// Show this bank of the event (of event 0 without --event), all types counted from 0.
    #[arg(long, value_name = "N")]
    bank: Option<usize>,
    /// Format of the banks where the file does not say it (Allen-layout dumps).
    #[arg(long, value_parser = bank_format())]
    format: Option<BankVersion>,
    /// Write the overview as JSON here; - is standard output.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["event", "bank"])]
    json: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let mut events = Events::new([&args.file]);
    if args.event.is_none() && args.bank.is_none() {
        return overview(events, args.json.as_deref());
    }
    let wanted = args.event.unwrap_or(0);
    let mut n = 0;
    while let Some(event) = events.next_event()? {
        if event.index == wanted {
            let text = match args.bank {
                None => one_event(&event, args.format),
                Some(bank) => one_bank(&event, bank, args.format)?,
            };
            return print(&text);
        }
        n += 1;
    }
    Err(format!("{}: there is no event {wanted}: it has {n} events", args.file.display()).into())
}

/// Banks of one type and version.
#[derive(Default)]
struct Sizes {
    banks: u64,
    bytes: u64,
    least: Option<usize>,
    most: usize,
}

impl Sizes {
    fn add(&mut self, bytes: usize) {
        self.banks += 1;
        self.bytes += bytes as u64;
        self.least = Some(self.least.unwrap_or(bytes).min(bytes));
        self.most = self.most.max(bytes);
    }
}

impl Sizes {
    fn json(&self, (kind, version): (u8, Option<u8>)) -> Value {
        let (banks, bytes, least, most) = (self.banks, self.bytes, self.least, self.most);
        let name = kind::name(kind);
        json!({
            "type": kind, "name": name, "version": version, "banks": banks, "payload_bytes": bytes, "least": least, "most": most,
        })
    }
}

type Kinds = BTreeMap<(u8, Option<u8>), Sizes>;

fn add_kinds(kinds: &mut Kinds, entries: &[BankEntry]) {
    for bank in entries {
        kinds.entry((bank.kind, bank.version)).or_default().add(bank.length);
    }
}

/// A table of bank types; writing to a String cannot fail, here and below.
fn kinds_table(kinds: &Kinds, events: u64) -> String {
    let mut text = "type  name        version  banks     an event  payload bytes: least  mean    most\n".to_owned();
    for (&(kind, version), sizes) in kinds {
        let version = version.map_or_else(|| "?".to_owned(), |version| version.to_string());
        let Sizes { banks, bytes, least, most } = sizes;
        let _ = writeln!(
            text,
            "{kind:<4}  {:<10}  {version:<7}  {banks:<8}  {:<8.1}  {:<20}  {:<6.1}  {most}",
            kind::name(kind),
            *banks as f64 / events.max(1) as f64,
            least.unwrap_or_default(),
            *bytes as f64 / (*banks).max(1) as f64,
        );
    }
    text
}

fn overview(mut events: Events, json: Option<&Path>) -> Result<(), Failure> {
    let mut progress = Progress::new(events.total_bytes(), "reading {wide_bar} {bytes}/{total_bytes}, {eta} left");
    let mut kinds = Kinds::new();
    let mut sources = BTreeSet::new();
    let mut list = "event   at byte     bytes     run         number        banks  UT    remark\n".to_owned();
    let (mut n, mut generated, mut damaged) = (0, 0, 0);
    let mut damages = Vec::new();
    let mut format = None;
    let error = loop {
        progress.set(events.bytes_read());
        let event = match events.next_event() {
            Ok(Some(event)) => event,
            Ok(None) => break None,
            Err(error) => break Some(error),
        };
        n += 1;
        format = Some(event.format);
        if let Some(damage) = event.damage {
            damaged += 1;
            if damaged <= LISTED_DAMAGES {
                damages.push(json!({"event": event.index, "byte": event.offset, "damage": damage.to_string()}));
            }
        }
        generated += u64::from(event.is_generated());
        add_kinds(&mut kinds, event.entries);
        sources.extend(event.entries.iter().filter(|bank| kind::is_decoded(bank.kind)).map(|bank| bank.source_id));
        if event.index < LISTED || event.damage.is_some() && damaged <= LISTED_DAMAGES {
            let _ = writeln!(list, "{}", event_line(&event));
        }
    };
    let size = events.total_bytes();
    drop(progress);
    let mut text = format!("{}, {size} bytes, {n} events\n\n", format.map_or("No event", Format::name));
    if n > 0 {
        let _ = write!(text, "{}\n{}", kinds_table(&kinds, n), list.trim_end());
        let _ = writeln!(
            text,
            "{}\n",
            if n > LISTED { "\n…       (of the others, only damaged ones are listed)" } else { "" }
        );
    }
    for line in advice(&kinds, &sources, format == Some(Format::AllenDump)) {
        let _ = writeln!(text, "{line}");
    }
    if damaged > 0 {
        let _ = writeln!(
            text,
            "{damaged} events are damaged: their banks before the damage are decoded, the rest is given up.",
        );
    }
    if generated > 0 {
        let _ = writeln!(text, "{generated} events were made by ut-decode generate.");
    }
    if let Some(path) = json {
        let value = json!({
            "format": format.map(Format::name),
            "bytes": size,
            "events": n,
            "generated_events": generated,
            "damaged_events": damages,
            "n_damaged_events": damaged,
            "types": kinds.iter().map(|(key, sizes)| sizes.json(*key)).collect::<Vec<_>>(),
            "source_ids": sources,
            "complete": error.is_none(),
            "error": error.as_ref().map(ToString::to_string),
        });
        write_json(path, &value)?;
    }
    print_beside(json, &text)?;
    error.map_or(Ok(()), |error| Err(error.into()))
}

/// What to make of the banks.
fn advice(kinds: &Kinds, sources: &BTreeSet<u32>, is_dump: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let versions: BTreeSet<_> = kinds.keys().filter(|key| kind::is_decoded(key.0)).filter_map(|key| key.1).collect();
    for &version in &versions {
        lines.push(match BankVersion::from_byte(version) {
            Some(known) => format!(
                "UT banks of version {version} are of format {}: decode with a boards file of version {version}.",
                known.name()
            ),
            None => {
                format!("UT banks of version {version}: no format of that version is known; they cannot be decoded.")
            }
        });
    }
    if versions.len() > 1 {
        lines.push("One run of decode takes one version; banks of the others are skipped and counted.".to_owned());
    }
    if is_dump {
        lines.push(
            "A dump does not hold the version of its banks: choose the boards file that belongs to it.".to_owned(),
        );
    }
    let Some((first, last)) = sources.first().zip(sources.last()) else {
        lines.push("There are no banks to decode (types 66 UT and 68 UTError).".to_owned());
        return lines;
    };
    let boards: BTreeSet<_> = sources.iter().filter_map(|&source| board_of(source)).collect();
    lines.push(format!(
        "{} sourceIDs from 0x{first:04x} to 0x{last:04x}, which name {} boards{}.",
        sources.len(),
        boards.len(),
        boards.first().zip(boards.last()).map_or_else(String::new, |(a, b)| format!(", {a} to {b}")),
    ));
    let strange = sources.iter().filter(|&&source| !matches!(source >> 11, 0 | 5 | 6)).count();
    if strange > 0 {
        lines.push(format!(
            "{strange} sourceIDs are neither a board of the simulation nor of the UT's sub-detectors 5 and 6."
        ));
    }
    lines
}

fn event_line(event: &RawEvent<'_>) -> String {
    let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let ut = event.entries.iter().filter(|bank| kind::is_decoded(bank.kind)).count();
    let line = format!(
        "{:<6}  {:<10}  {:<8}  {:<10}  {:<12}  {:<5}  {ut:<4}  {}",
        event.index,
        event.offset,
        event.data.len(),
        number(event.run.map(u64::from)),
        number(event.number),
        event.entries.len(),
        event.damage.map_or_else(String::new, ToString::to_string),
    );
    line.trim_end().to_owned()
}

fn event_head(event: &RawEvent<'_>) -> String {
    let mut text = format!("{}, {} bytes", event.place(), event.data.len());
    if let Some(run) = event.run {
        let _ = write!(text, ", run {run}");
    }
    if let Some(number) = event.number {
        let _ = write!(text, ", event number {number}");
    }
    if event.is_generated() {
        text += ", generated";
    } else if let Some(mask) = event.trigger_mask {
        let _ = write!(text, ", trigger mask {}", mask.map(|word| format!("{word:08x}")).join(" "));
    }
    text.push('\n');
    if let Some(damage) = event.damage {
        let _ = writeln!(text, "DAMAGED: {damage}; what follows in the event is given up");
    }
    text
}

fn one_event(event: &RawEvent<'_>, format: Option<BankVersion>) -> String {
    let mut kinds = Kinds::new();
    add_kinds(&mut kinds, event.entries);
    let mut text = format!("{}\n{}\n", event_head(event), kinds_table(&kinds, 1));
    text += "bank   type  version  sourceID  board  bytes   hits (v4: clusters) of lanes 0-5   remark\n";
    let mut seen = BTreeSet::new();
    let mut undecided = false;
    for (i, bank) in event.banks().enumerate().filter(|(_, bank)| kind::is_decoded(bank.kind)) {
        let version = bank.version.map_or(format, BankVersion::from_byte);
        undecided |= bank.version.is_none() && format.is_none();
        let words = version.map(|version| Words::of(version, bank.payload)).unwrap_or_default();
        let mut remarks = words.remarks;
        if version.is_none() && bank.version.is_some() {
            remarks.push("unknown version".to_owned());
        }
        let board = board_of(bank.source_id);
        match board {
            None => remarks.push("no board has this sourceID".to_owned()),
            Some(board) if !seen.insert(board) => remarks.push("this board has sent a bank already".to_owned()),
            Some(_) => {}
        }
        let lanes = match version {
            None => ["-"; LANES_PER_BOARD].map(str::to_owned),
            Some(_) => words.lanes.map(|n| n.to_string()),
        };
        let line = format!(
            "{i:<5}  {:<4}  {:<7}  0x{:04x}    {:<5}  {:<6}  {}   {}",
            bank.kind,
            bank.version.map_or_else(|| "?".to_owned(), |version| version.to_string()),
            bank.source_id,
            board.map_or_else(|| "-".to_owned(), |board| board.to_string()),
            bank.payload.len(),
            lanes.map(|n| format!("{n:>5}")).join(""),
            remarks.join("; "),
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if undecided {
        text += "The file does not say the format of its banks: --format v4 or --format v5 shows their hits.\n";
    }
    text
}

fn one_bank(event: &RawEvent<'_>, number: usize, format: Option<BankVersion>) -> Result<String, Failure> {
    let Some((entry, bank)) = event.entries.get(number).zip(event.banks().nth(number)) else {
        let place = event.place();
        return Err(format!("{place}: there is no bank {number}: the event has {} banks", event.entries.len()).into());
    };
    let Bank { kind, source_id, payload, .. } = bank;
    let mut text = event_head(event);
    let _ = writeln!(
        text,
        "bank {number}: type {kind}{}, version {}, sourceID 0x{source_id:04x}, {} bytes of payload from byte {} of the event",
        Some(kind::name(kind)).filter(|name| !name.is_empty()).map_or_else(String::new, |name| format!(" ({name})")),
        bank.version.map_or_else(|| "not in the file".to_owned(), |version| version.to_string()),
        payload.len(),
        entry.start,
    );
    if kind::is_decoded(kind) {
        let _ = writeln!(text, "from {}", source_in_words(source_id));
        match bank.version.map_or(format, BankVersion::from_byte) {
            Some(version) => {
                let words = Words::of(version, payload);
                for remark in &words.remarks {
                    let _ = writeln!(text, "NOTE: {remark}");
                }
                text += &words.text;
            }
            None if bank.version.is_none() => {
                text += "NOTE: to see its words, say its format: --format v4 or --format v5\n";
            }
            None => text += "NOTE: no format of that version is known\n",
        }
    } else if kind == kind::ODIN {
        let number = |n: Option<u64>| n.map_or_else(|| "not known".to_owned(), |n| n.to_string());
        let (run, event) = (number(event.run.map(u64::from)), number(event.number));
        let _ = writeln!(text, "run {run}, event number {event}");
    }
    text += "payload\n";
    text += &hex(payload, SHOWN_BYTES);
    Ok(text)
}
