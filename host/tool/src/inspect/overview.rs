//! Overview of all events of all files.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::output::{count, print_beside, write_json};
use crate::progress::Progress;
use serde_json::json;
use ut_data::detector::BankVersion;
use ut_data::error::with_causes;
use ut_data::input::{Events, Format, Origin, RawEvent, kind};
use ut_format::bank::board_of;

use super::error_banks::ErrorBanks;
use super::kinds::{Kinds, add_kinds, kinds_table};
use super::troubles::{Finder, Sums};

/// Events that are listed; of those after them, only the damaged.
const LISTED: u64 = 20;

/// Damaged events that are listed.
const LISTED_DAMAGES: u64 = 1000;

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
    let mut kinds = Kinds::new();
    let mut sources = BTreeSet::new();
    let mut list =
        "event   at byte     bytes     run         number        banks  UT    remark\n".to_owned();
    let (mut n, mut generated, mut damaged) = (0, 0, 0);
    let mut damages = Vec::new();
    let mut format = None;
    let (mut troubles, mut error_banks) = (Sums::default(), ErrorBanks::default());
    let error = loop {
        progress.set(events.bytes_read());
        let (event, Origin { place, .. }) = match events.next_with_origin() {
            Ok(Some(found)) => found,
            Ok(None) => break None,
            Err(error) => break Some(error),
        };
        n += 1;
        format = Some(event.format);
        finder.find(&event, |found| troubles.add(place, &event, &found));
        error_banks.add(place, &event);
        if let Some(damage) = event.damage {
            damaged += 1;
            if damaged <= LISTED_DAMAGES {
                damages.push(
                    json!({"event": place, "byte": event.offset, "damage": damage.to_string()}),
                );
            }
        }
        generated += u64::from(event.is_generated());
        add_kinds(&mut kinds, event.entries);
        sources.extend(
            event
                .entries
                .iter()
                .filter(|bank| kind::is_decoded(bank.kind))
                .map(|bank| bank.source_id),
        );
        if n <= LISTED || event.damage.is_some() && damaged <= LISTED_DAMAGES {
            let _ = writeln!(list, "{}", event_line(place, &event));
        }
    };
    let size = events.total_bytes();
    drop(progress);
    let several = if files.len() > 1 {
        count(files.len(), "file") + ", "
    } else {
        String::new()
    };
    let (size_text, n_events) = (count(size as usize, "byte"), count(n as usize, "event"));
    let mut text = format!(
        "{}, {several}{size_text}, {n_events}\n\n",
        format.map_or("No event", Format::name)
    );
    if n > 0 {
        let _ = write!(text, "{}\n{}", kinds_table(&kinds, n), list.trim_end());
        let _ = writeln!(
            text,
            "{}\n",
            if n > LISTED {
                "\n…       (of the others, only damaged ones are listed)"
            } else {
                ""
            }
        );
    }
    for line in advice(&kinds, &sources, format == Some(Format::AllenDump)) {
        let _ = writeln!(text, "{line}");
    }
    if n > 0 {
        let _ = write!(
            text,
            "\n{}{remark}\n\n{}",
            troubles.text(),
            error_banks.text()
        );
    }
    if damaged > 0 {
        let _ = writeln!(
            text,
            "{}: banks before the damage are decoded, the rest is given up.",
            count(damaged as usize, "damaged event"),
        );
    }
    if generated > 0 {
        let _ = writeln!(
            text,
            "{} made by ut-decode generate.",
            count(generated as usize, "event")
        );
    }
    if let Some(path) = json {
        let failure = error.as_ref().or_else(|| events.failures().0.first());
        let value = json!({
            "format": format.map(Format::name),
            "bytes": size,
            "events": n,
            "generated_events": generated,
            "damaged_events": damages,
            "n_damaged_events": damaged,
            "types": kinds.iter().map(|(key, sizes)| sizes.json(*key)).collect::<Vec<_>>(),
            "source_ids": sources,
            "troubles": troubles.json(),
            "error_banks": error_banks.json(),
            "complete": failure.is_none(),
            "error": failure.map(|error| with_causes(error)),
        });
        write_json(path, &value)?;
    }
    print_beside(json, &text)?;
    error.map_or(Ok(troubles.n_kinds()), |error| Err(error.into()))
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
