//! Overview of all events of all files.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::output::{count, print_beside, write_json};
use crate::progress::Progress;
use serde_json::{Value, json};
use ut_data::detector::BankVersion;
use ut_data::error::with_causes;
use ut_data::input::{Events, Format, InputError, Origin, RawEvent, kind};
use ut_format::bank::board_of;

use super::error_banks::ErrorBanks;
use super::kinds::{Kinds, add_kinds, kinds_table};
use super::troubles::{Finder, Sums};

/// Maximum number of events to list; of later events, only damaged ones are listed.
const LISTED: u64 = 20;

/// Head of the list of events.
const HEAD: &str = "event   at byte     bytes     run         number        banks  UT    remark\n";

/// Maximum number of damaged events to list.
const LISTED_DAMAGES: u64 = 1000;

/// Contents of the events so far.
#[derive(Default)]
struct Overview {
    events: u64,
    generated: u64,
    damaged: u64,
    format: Option<Format>,
    kinds: Kinds,
    sources: BTreeSet<u32>,
    troubles: Sums,
    error_banks: ErrorBanks,
    /// Lines of the first events, and of damaged ones.
    list: String,
    damages: Vec<Value>,
}

impl Overview {
    /// Adds event `place` of all files.
    fn add(&mut self, place: u64, event: &RawEvent<'_>, finder: &Finder) {
        self.events += 1;
        self.format = Some(event.format);
        finder.find(event, |found| self.troubles.add(place, event, &found));
        self.error_banks.add(place, event);
        if let Some(damage) = event.damage {
            self.damaged += 1;
            if self.damaged <= LISTED_DAMAGES {
                self.damages.push(
                    json!({"event": place, "byte": event.offset, "damage": damage.to_string()}),
                );
            }
        }
        self.generated += u64::from(event.is_generated());
        add_kinds(&mut self.kinds, event.entries);
        self.sources.extend(
            event
                .entries
                .iter()
                .filter(|bank| kind::is_decoded(bank.kind))
                .map(|bank| bank.source_id),
        );
        if self.events <= LISTED || event.damage.is_some() && self.damaged <= LISTED_DAMAGES {
            let _ = writeln!(self.list, "{}", event_line(place, event));
        }
    }

    /// Returns the text for a person; `size` is the number of bytes of all files, and `remark` says
    /// how troubles were found.
    fn text(&self, files: &[PathBuf], size: u64, remark: &str) -> String {
        let several = if files.len() > 1 {
            count(files.len(), "file") + ", "
        } else {
            String::new()
        };
        let n = self.events;
        let (size, n_events) = (count(size, "byte"), count(n, "event"));
        let mut text = format!(
            "{}, {several}{size}, {n_events}\n\n",
            self.format.map_or("No event", Format::name)
        );
        if n > 0 {
            let _ = writeln!(
                text,
                "{}\n{HEAD}{}{}\n",
                kinds_table(&self.kinds, n),
                self.list.trim_end(),
                if n > LISTED {
                    "\n…       (of the rest, only damaged events are listed)"
                } else {
                    ""
                }
            );
        }
        let is_dump = self.format == Some(Format::AllenDump);
        for line in advice(&self.kinds, &self.sources, is_dump) {
            let _ = writeln!(text, "{line}");
        }
        if n > 0 {
            let _ = write!(
                text,
                "\n{}{remark}\n\n{}",
                self.troubles.text(),
                self.error_banks.text()
            );
        }
        if self.damaged > 0 {
            let _ = writeln!(
                text,
                "{}: banks before the damage are decoded, the rest is given up.",
                count(self.damaged, "damaged event"),
            );
        }
        if self.generated > 0 {
            let _ = writeln!(
                text,
                "{} made by ut-decode generate.",
                count(self.generated, "event")
            );
        }
        text
    }

    /// Returns the overview for a program; `error` ended a file early.
    fn json(&self, size: u64, error: Option<&InputError>) -> Value {
        json!({
            "format": self.format.map(Format::name),
            "bytes": size,
            "events": self.events,
            "generated_events": self.generated,
            "damaged_events": self.damages,
            "n_damaged_events": self.damaged,
            "types": self.kinds.iter().map(|(key, sizes)| sizes.json(*key)).collect::<Vec<_>>(),
            "source_ids": self.sources,
            "troubles": self.troubles.json(),
            "error_banks": self.error_banks.json(),
            "complete": error.is_none(),
            "error": error.map(|error| with_causes(error)),
        })
    }
}

/// Shows what is in all events, and returns the number of kinds of trouble.
pub fn overview(
    events: &mut Events,
    files: &[PathBuf],
    json: Option<&Path>,
    finder: &Finder,
    remark: &str,
) -> Result<u64, Failure> {
    let mut progress = Progress::new(
        events.total_bytes(),
        "reading {wide_bar} {bytes}/{total_bytes}, {eta} left",
    );
    let mut found = Overview::default();
    let error = loop {
        progress.set(events.bytes_read());
        match events.next_with_origin() {
            Ok(Some((event, Origin { place, .. }))) => found.add(place, &event, finder),
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    drop(progress);
    let size = events.total_bytes();
    if let Some(path) = json {
        let failure = error.as_ref().or_else(|| events.failures().0.first());
        write_json(path, &found.json(size, failure))?;
    }
    print_beside(json, &found.text(files, size, remark))?;
    error.map_or(Ok(found.troubles.n_kinds()), |error| Err(error.into()))
}

fn advice(kinds: &Kinds, sources: &BTreeSet<u32>, is_dump: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let versions: BTreeSet<_> = kinds
        .keys()
        .filter(|key| kind::is_decoded(key.0))
        .filter_map(|key| key.1)
        .collect();
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
    if is_dump {
        lines.push(
            "A dump does not hold the version of its banks: choose the boards file that belongs to it.".to_owned(),
        );
    }
    let Some((first, last)) = sources.first().zip(sources.last()) else {
        lines.push("There are no banks to decode (types 66 UT and 68 UTError).".to_owned());
        return lines;
    };
    let boards: BTreeSet<_> = sources
        .iter()
        .filter_map(|&source| board_of(source))
        .collect();
    lines.push(format!(
        "{} from 0x{first:04x} to 0x{last:04x}: {}{}.",
        count(sources.len(), "sourceID"),
        count(boards.len(), "board"),
        boards
            .first()
            .zip(boards.last())
            .map_or_else(String::new, |(a, b)| format!(", {a} to {b}")),
    ));
    lines
}

fn event_line(place: u64, event: &RawEvent<'_>) -> String {
    let number =
        |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let ut = event
        .entries
        .iter()
        .filter(|bank| kind::is_decoded(bank.kind))
        .count();
    let line = format!(
        "{:<6}  {:<10}  {:<8}  {:<10}  {:<12}  {:<5}  {ut:<4}  {}",
        place,
        event.offset,
        event.n_bytes(),
        number(event.run.map(u64::from)),
        number(event.number),
        event.entries.len(),
        event.damage.map_or_else(String::new, ToString::to_string),
    );
    line.trim_end().to_owned()
}
