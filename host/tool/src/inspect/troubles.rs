//! Troubles of events, bank by bank: counted for the overview, or listed one per line.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use ut_data::detector::{BankVersion, Boards};
use ut_data::input::{Damage, RawEvent};
use ut_data::{Count, named};
use ut_report::{troubles, troubles_without_table};

use crate::Failure;
use crate::output::{escaped, escaped_json, print_data};
use crate::summary::meaning;
use crate::table::table;

/// Maximum number of boards that the overview names for one kind of trouble.
const NAMED_BOARDS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListFormat {
    Table,
    JsonLines,
}

named!("list" ListFormat: Table "table", JsonLines "jsonl");

/// A trouble of an event or of one of its banks.
pub struct Found {
    count: Count,
    n: u32,
    bank: Option<usize>,
    source_id: Option<u32>,
    board: Option<u32>,
    lane: Option<u8>,
    /// Byte of the event, or of its MEP packet.
    byte: Option<u64>,
    what: String,
}

impl Found {
    pub fn in_words(&self) -> String {
        let part = |name: &str, value: Option<u64>| {
            value.map_or_else(String::new, |value| format!(", {name} {value}"))
        };
        let place = part("bank", self.bank.map(|bank| bank as u64))
            + &part("board", self.board.map(u64::from))
            + &part("lane", self.lane.map(u64::from))
            + &part("byte", self.byte);
        let what = if self.what.is_empty() {
            meaning(self.count)
        } else {
            &self.what
        };
        format!("  {}{place}: {what}\n", self.count.name())
    }
}

pub struct Finder {
    pub boards: Option<Boards>,
    /// Format of banks that do not state theirs.
    pub format: Option<BankVersion>,
}

impl Finder {
    pub fn find(&self, event: &RawEvent<'_>, mut found: impl FnMut(Found)) {
        if let Some(damage) = event.damage {
            let (
                count,
                &Damage {
                    bank,
                    byte,
                    ref what,
                    ..
                },
            ) = (Count::BrokenEvent, damage);
            let what = what.clone();
            found(Found {
                count,
                n: 1,
                bank,
                source_id: None,
                board: None,
                lane: None,
                byte,
                what,
            });
        }
        let of_bank = |trouble: ut_report::BankTrouble| {
            let bank = trouble.bank;
            found(Found {
                count: trouble.count,
                n: trouble.n,
                bank: Some(bank),
                source_id: Some(trouble.source_id),
                board: trouble.board,
                lane: trouble.lane,
                byte: Some(event.entries[bank].byte + trouble.byte as u64),
                what: trouble.what,
            });
        };
        match &self.boards {
            Some(boards) => troubles(boards, event.banks(), of_bank),
            None => troubles_without_table(self.format, event.banks(), of_bank),
        }
    }

    pub fn has_trouble(&self, event: &RawEvent<'_>) -> bool {
        let mut any = false;
        self.find(event, |_| any = true);
        any
    }
}

pub struct List {
    format: ListFormat,
    text: String,
    pub n: u64,
}

/// Number of bytes of text to collect before printing.
const PRINTED_AT: usize = 1 << 16;

impl List {
    pub fn new(format: ListFormat) -> Self {
        let text = match format {
            ListFormat::Table => {
                "event     run         number        bank   sourceID  board  lane  byte     kind              count  what, file\n"
                    .to_owned()
            }
            ListFormat::JsonLines => String::new(),
        };
        Self { format, text, n: 0 }
    }

    /// Lists a trouble of event `place` of all files; returns false if the list's reader has gone.
    pub fn add(
        &mut self,
        place: u64,
        event: &RawEvent<'_>,
        found: &Found,
    ) -> Result<bool, Failure> {
        self.n += 1;
        let file = event.file.display().to_string();
        let text =
            |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        let numbers = [
            event.run.map(u64::from),
            event.number,
            found.bank.map(|bank| bank as u64),
            found.board.map(u64::from),
            found.lane.map(u64::from),
            found.byte,
        ];
        let kind = found.count.name();
        match self.format {
            ListFormat::JsonLines => {
                let [run, number, bank, board, lane, byte] = numbers;
                let line = json!({
                    "file": file, "event": place, "run": run, "event_number": number, "bank": bank,
                    "source_id": found.source_id, "board": board, "lane": lane, "byte": byte, "kind": kind,
                    "count": found.n, "what": found.what,
                });
                let _ = writeln!(self.text, "{line}");
            }
            ListFormat::Table => {
                let [run, number, bank, board, lane, byte] = numbers.map(text);
                let source = found
                    .source_id
                    .map_or_else(|| "-".to_owned(), |id| format!("0x{id:04x}"));
                let (n, what) = (
                    found.n,
                    if found.what.is_empty() {
                        meaning(found.count)
                    } else {
                        &found.what
                    },
                );
                let _ = writeln!(
                    self.text,
                    "{place:<8}  {run:<10}  {number:<12}  {bank:<5}  {source:<8}  {board:<5}  {lane:<4}  {byte:<7}  \
                     {kind:<16}  {n:<5}  {what}, {file}"
                );
            }
        }
        if self.text.len() > PRINTED_AT {
            self.flush()
        } else {
            Ok(true)
        }
    }

    /// Prints the collected text; returns false if the list's reader has gone.
    pub fn flush(&mut self) -> Result<bool, Failure> {
        let text = std::mem::take(&mut self.text);
        match self.format {
            ListFormat::Table => print_data(&escaped(&text)),
            ListFormat::JsonLines => print_data(&escaped_json(&text)),
        }
    }
}

struct First {
    place: u64,
    file: String,
    index: u64,
    number: Option<u64>,
    bank: Option<usize>,
}

struct Sum {
    count: u64,
    events: u64,
    last: u64,
    first: First,
    /// Count by sourceID and board; `None` where no bank is known.
    boards: BTreeMap<Option<(u32, Option<u32>)>, u64>,
}

#[derive(Default)]
pub struct Sums(BTreeMap<Count, Sum>);

impl Sums {
    /// Counts a trouble of event `place` of all files.
    pub fn add(&mut self, place: u64, event: &RawEvent<'_>, found: &Found) {
        let sum = self.0.entry(found.count).or_insert_with(|| Sum {
            count: 0,
            events: 0,
            last: u64::MAX,
            first: First {
                place,
                file: event.file.display().to_string(),
                index: event.index,
                number: event.number,
                bank: found.bank,
            },
            boards: BTreeMap::new(),
        });
        sum.count += u64::from(found.n);
        if sum.last != place {
            sum.last = place;
            sum.events += 1;
        }
        *sum.boards
            .entry(found.source_id.map(|id| (id, found.board)))
            .or_default() += u64::from(found.n);
    }

    pub fn n_kinds(&self) -> u64 {
        self.0.len() as u64
    }

    pub fn text(&self) -> String {
        if self.0.is_empty() {
            return "troubles  none\n".to_owned();
        }
        let mut rows = vec![
            ["troubles", "count", "events", "first event", "by board"]
                .map(str::to_owned)
                .to_vec(),
        ];
        for (kind, sum) in &self.0 {
            let First { place, bank, .. } = &sum.first;
            let bank = bank.map_or_else(String::new, |bank| format!(", bank {bank}"));
            let (count, events) = (sum.count.to_string(), sum.events.to_string());
            rows.push(vec![
                kind.name().to_owned(),
                count,
                events,
                format!("{place}{bank}"),
                boards_text(&sum.boards),
            ]);
        }
        table(&rows)
    }

    pub fn json(&self) -> Vec<Value> {
        let one = |(kind, sum): (&Count, &Sum)| {
            let First {
                place,
                file,
                index,
                number,
                bank,
            } = &sum.first;
            let board = |(key, count): (&Option<(u32, Option<u32>)>, &u64)| json!({"source_id": key.map(|key| key.0), "board": key.and_then(|key| key.1), "count": count});
            json!({
                "kind": kind.name(), "count": sum.count, "events": sum.events,
                "first": {"event": place, "file": file, "event_of_file": index, "event_number": number, "bank": bank},
                "boards": sum.boards.iter().map(board).collect::<Vec<_>>(),
            })
        };
        self.0.iter().map(one).collect()
    }
}

/// Returns the boards with their counts, the worst first.
fn boards_text(boards: &BTreeMap<Option<(u32, Option<u32>)>, u64>) -> String {
    let mut order: Vec<_> = boards
        .iter()
        .filter_map(|(key, count)| Some(((*key)?, *count)))
        .collect();
    order.sort_by_key(|&(key, count)| (std::cmp::Reverse(count), key));
    let name = |&((source, board), count): &((u32, Option<u32>), u64)| match board {
        Some(board) => format!("{board} ({count})"),
        None => format!("sourceID 0x{source:04x} ({count})"),
    };
    let named: Vec<String> = order.iter().take(NAMED_BOARDS).map(name).collect();
    let more = order.len() - named.len();
    named.join(", ")
        + &if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        }
}

pub fn remark(finder: &Finder, table: Option<&Path>) -> String {
    match (&finder.boards, table) {
        (Some(_), Some(path)) => format!("Troubles by the board table {}.", path.display()),
        (Some(_), None) => "Troubles by the board table of the embedded synthetic detector.".to_owned(),
        (None, _) => "Troubles without a board table: unknown boards are recognised only by their number, and hits on \
             unconnected lanes are not reported. --boards FILE names the table."
            .to_owned(),
    }
}
