//! One event, and one bank, in words.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::Failure;
use crate::describe::{Words, hex, source_in_words};
use crate::output::count;
use ut_data::detector::{BankVersion, LANES_PER_BOARD};
use ut_data::input::{Bank, Format, Odin, OdinFacts, RawEvent, Tae, kind, utc};
use ut_format::bank::board_of;

use super::kinds::{Kinds, add_kinds, kinds_table};

const SHOWN_BYTES: usize = 1024;

fn event_head(event: &RawEvent<'_>) -> String {
    let mut text = format!("{}, {} bytes", event.place(), event.n_bytes());
    if let Some(run) = event.run {
        let _ = write!(text, ", run {run}");
    }
    if let Some(number) = event.number {
        let _ = write!(text, ", event number {number}");
    }
    if event.is_generated() {
        text += ", generated";
    } else if let Some(mask) = event.trigger_mask {
        let _ = write!(
            text,
            ", trigger mask {}",
            mask.map(|word| format!("{word:08x}")).join(" ")
        );
    }
    text.push('\n');
    if let Some(damage) = event.damage {
        let _ = writeln!(
            text,
            "DAMAGED: {damage}; what follows in the event is given up"
        );
    }
    text
}

pub fn one_event(event: &RawEvent<'_>, format: Option<BankVersion>) -> String {
    let mut kinds = Kinds::new();
    add_kinds(&mut kinds, event.entries);
    let mut text = format!("{}\n{}\n", event_head(event), kinds_table(&kinds, 1));
    text += "bank   type  version  sourceID  board  bytes   hits (v4: clusters) of lanes 0-5   remark\n";
    let mut seen = BTreeSet::new();
    let mut undecided = false;
    for (i, bank) in event
        .banks()
        .enumerate()
        .filter(|(_, bank)| kind::is_decoded(bank.kind))
    {
        let version = bank.version.map_or(format, BankVersion::from_byte);
        undecided |= bank.version.is_none() && format.is_none();
        let words = version
            .map(|version| Words::of(version, bank.payload))
            .unwrap_or_default();
        let mut remarks = words.remarks;
        if version.is_none() && bank.version.is_some() {
            remarks.push("unknown version".to_owned());
        }
        if let (Some(BankVersion::V5), &[_, _, b2, b3, ..]) = (version, bank.payload)
            && (b2, b3) != (0, 0)
        {
            remarks.push(format!("header bytes 2 and 3 are 0x{b2:02x} 0x{b3:02x}"));
        }
        let board = board_of(bank.source_id);
        match board {
            None => remarks.push("no board has this sourceID".to_owned()),
            Some(board) if !seen.insert(board) => {
                remarks.push("this board has sent a bank already".to_owned());
            }
            Some(_) => {}
        }
        let lanes = match version {
            None => ["-"; LANES_PER_BOARD].map(str::to_owned),
            Some(_) => words.lanes.map(|n| n.to_string()),
        };
        let line = format!(
            "{i:<5}  {:<4}  {:<7}  0x{:04x}    {:<5}  {:<6}  {}   {}",
            bank.kind,
            bank.version
                .map_or_else(|| "?".to_owned(), |version| version.to_string()),
            bank.source_id,
            board.map_or_else(|| "-".to_owned(), |board| board.to_string()),
            bank.payload.len(),
            lanes.map(|n| format!("{n:>5}")).join(""),
            remarks.join("; "),
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if undecided {
        text += "The file does not say the format of its banks: --bank-format v4 or --bank-format v5 shows their hits.\n";
    }
    text
}

pub fn one_bank(
    event: &RawEvent<'_>,
    number: usize,
    format: Option<BankVersion>,
) -> Result<String, Failure> {
    let Some((entry, bank)) = event.entries.get(number).zip(event.banks().nth(number)) else {
        let place = event.place();
        return Err(format!(
            "{place}: there is no bank {number}: the event has {}",
            count(event.entries.len(), "bank")
        )
        .into());
    };
    let Bank {
        kind,
        source_id,
        payload,
        ..
    } = bank;
    let mut text = event_head(event);
    let _ = writeln!(
        text,
        "bank {number}: type {kind}{}, version {}, sourceID 0x{source_id:04x}, {} bytes of payload from byte {} of the {}",
        Some(kind::name(kind))
            .filter(|name| !name.is_empty())
            .map_or_else(String::new, |name| format!(" ({name})")),
        bank.version.map_or_else(
            || "not in the file".to_owned(),
            |version| version.to_string()
        ),
        payload.len(),
        entry.byte,
        if event.format == Format::Mep {
            "packet"
        } else {
            "event"
        },
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
                text += "NOTE: to see its words, say its format: --bank-format v4 or --bank-format v5\n";
            }
            None => text += "NOTE: no format of that version is known\n",
        }
    } else if kind == kind::ODIN {
        let number = |n: Option<u64>| n.map_or_else(|| "not known".to_owned(), |n| n.to_string());
        let (run, event) = (number(event.run.map(u64::from)), number(event.number));
        let _ = writeln!(text, "run {run}, event number {event}");
        match Odin::of(bank.version, payload) {
            Some(Odin {
                facts: Some(facts), ..
            }) => {
                let OdinFacts {
                    time,
                    bcid,
                    crossing,
                    trigger_type,
                    event_type,
                    orbit,
                    tck,
                    tae,
                } = facts;
                let time = time.map_or_else(|| "not known".to_owned(), utc);
                let tae = tae.map_or("no", Tae::name);
                let _ = writeln!(
                    text,
                    "time {time}, bunch crossing {bcid} ({}), orbit {orbit}",
                    crossing.name()
                );
                let _ = writeln!(
                    text,
                    "trigger type {trigger_type}, event type 0x{event_type:04x}, TCK 0x{tck:08x}, TAE {tae}"
                );
            }
            _ => {
                text += "NOTE: the layout of this version is not known, or the bank is too short\n";
            }
        }
    }
    text += "payload\n";
    text += &hex(payload, SHOWN_BYTES);
    Ok(text)
}
