//! Banks of boards that reported an error or whose fragment was lost, by board. Words that
//! `docs/format.md` does not explain stay in hexadecimal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::describe::source_in_words;
use crate::output::count;
use serde_json::{Value, json};
use ut_data::detector::BankVersion;
use ut_data::input::{Bank, RawEvent, kind};
use ut_format::bank::board_of;

#[derive(Default)]
struct Sum {
    banks: u64,
    first: u64,
    version: Option<u8>,
    least: usize,
    most: usize,
    /// First eight bytes of the first bank.
    head: Vec<u8>,
}

impl Sum {
    fn hex(&self, between: &str) -> String {
        self.head
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<Vec<_>>()
            .join(between)
    }
}

#[derive(Default)]
pub struct ErrorBanks(BTreeMap<(u8, u32), Sum>);

impl ErrorBanks {
    /// Counts the error banks of event `place` of all files.
    pub fn add(&mut self, place: u64, event: &RawEvent<'_>) {
        let is_error = |kind: u8| kind == kind::UT_ERROR || kind::is_daq_error(kind);
        if !event.entries.iter().any(|bank| is_error(bank.kind)) {
            return;
        }
        for Bank {
            kind,
            source_id,
            payload,
            version,
        } in event.banks().filter(|bank| is_error(bank.kind))
        {
            let sum = self.0.entry((kind, source_id)).or_insert_with(|| Sum {
                first: place,
                version,
                least: payload.len(),
                head: payload[..payload.len().min(8)].to_vec(),
                ..Sum::default()
            });
            sum.banks += 1;
            (sum.least, sum.most) = (sum.least.min(payload.len()), sum.most.max(payload.len()));
        }
    }

    /// Returns the text for a person, empty if there is no such bank.
    pub fn text(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let mut text = "error banks\n".to_owned();
        for (&(kind, source), sum) in &self.0 {
            let sender = if is_of_ut(kind, source) {
                source_in_words(source)
            } else {
                "not known to be the UT's".to_owned()
            };
            let bytes = if sum.least == sum.most {
                sum.most.to_string()
            } else {
                format!("{} to {}", sum.least, sum.most)
            };
            let _ = writeln!(
                text,
                "  {} ({kind}), sourceID 0x{source:04x}, {sender}: {} banks of {bytes} bytes, the first in event {}",
                kind::name(kind),
                sum.banks,
                sum.first,
            );
            let _ = writeln!(
                text,
                "      it begins with {}{}",
                sum.hex(" "),
                known(kind, sum.version, &sum.head)
            );
        }
        if self.0.keys().any(|&(kind, _)| kind::is_daq_error(kind)) {
            text += "  The contents of DaqError banks are not known.\n";
        }
        text
    }

    pub fn json(&self) -> Vec<Value> {
        let one = |(&(kind, source), sum): (&(u8, u32), &Sum)| {
            json!({
                "type": kind, "name": kind::name(kind), "version": sum.version, "source_id": source,
                "board": board_of(source).filter(|_| is_of_ut(kind, source)), "banks": sum.banks,
                "first_event": sum.first, "least": sum.least, "most": sum.most,
                "first_bytes": sum.hex(""),
            })
        };
        self.0.iter().map(one).collect()
    }
}

/// Returns true if a bank is certainly the UT's: the read-out uses the types of DAQ errors for all
/// detectors.
fn is_of_ut(kind: u8, source: u32) -> bool {
    !kind::is_daq_error(kind) || matches!(source >> 11, 5 | 6)
}

fn known(kind: u8, version: Option<u8>, bytes: &[u8]) -> String {
    if kind != kind::UT_ERROR {
        return String::new();
    }
    match (version.and_then(BankVersion::from_byte), bytes) {
        (Some(BankVersion::V4), &[a, b, pcn, flags, ..]) => {
            let n = count(usize::from(u16::from_le_bytes([a, b])), "cluster");
            format!(
                ": {n}, PCN {pcn}, error flag {}, other bits 0x{:02x}",
                flags & 1,
                flags & 0xFE
            )
        }
        (Some(BankVersion::V5), &[l4, l5, b2, b3, l0, l1, l2, l3]) => format!(
            ": {l0} {l1} {l2} {l3} {l4} {l5} hits of lanes 0 to 5; bytes 2 and 3, 0x{b2:02x} \
             0x{b3:02x}, are not counts, and have no known meaning"
        ),
        _ => String::new(),
    }
}
