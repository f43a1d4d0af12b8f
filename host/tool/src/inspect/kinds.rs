//! Banks by type and version.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};
use ut_data::input::{BankEntry, kind};

#[derive(Default)]
pub struct Sizes {
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
    pub fn json(&self, (kind, version): (u8, Option<u8>)) -> Value {
        let (banks, bytes, least, most) = (self.banks, self.bytes, self.least, self.most);
        let name = kind::name(kind);
        json!({
            "type": kind, "name": name, "version": version, "banks": banks, "payload_bytes": bytes, "least": least, "most": most,
        })
    }
}

pub type Kinds = BTreeMap<(u8, Option<u8>), Sizes>;

pub fn add_kinds(kinds: &mut Kinds, entries: &[BankEntry]) {
    for bank in entries {
        kinds
            .entry((bank.kind, bank.version))
            .or_default()
            .add(bank.length);
    }
}

pub fn kinds_table(kinds: &Kinds, events: u64) -> String {
    let mut text =
        "type  name        version  banks     per event  payload bytes: least  mean    most\n"
            .to_owned();
    for (&(kind, version), sizes) in kinds {
        let version = version.map_or_else(|| "?".to_owned(), |version| version.to_string());
        let Sizes {
            banks,
            bytes,
            least,
            most,
        } = sizes;
        let _ = writeln!(
            text,
            "{kind:<4}  {:<10}  {version:<7}  {banks:<8}  {:<9.1}  {:<20}  {:<6.1}  {most}",
            kind::name(kind),
            *banks as f64 / events.max(1) as f64,
            least.unwrap_or_default(),
            *bytes as f64 / (*banks).max(1) as f64,
        );
    }
    text
}
