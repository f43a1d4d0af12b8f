//! The table of events, with one row per event, also for events without hits: time and trigger, and
//! the counts of the report.

use EventColumnType::{Integer, Text, Time};

use crate::hits::{BatchReport, Count, EventReport, UtHits};
use crate::input::{Crossing, EventMeta, OdinFacts, Origin, Tae};

/// Decoded event in a table of events.
#[derive(Clone, Copy, Debug)]
pub struct EventRow {
    /// File and place of the event.
    pub origin: Origin,
    /// Run, event number, and ODIN's facts.
    pub meta: EventMeta,
    /// Number of hits.
    pub hits: u32,
    /// Banks, strips, and troubles.
    pub report: EventReport,
}

/// Column of a table of events. The name of the file comes before them.
#[derive(Clone, Copy, Debug)]
pub struct EventColumn {
    /// Name in files.
    pub name: &'static str,
    /// Type of the values.
    pub kind: EventColumnType,
    /// True if a row may lack the value: for an event without ODIN bank, or with one of an unknown
    /// layout.
    pub may_be_null: bool,
    value: ColumnValue,
}

/// Type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventColumnType {
    /// Unsigned integers of this many bits.
    Integer(u32),
    /// Microseconds since 1970, UTC.
    Time,
    /// One of these texts; the value is the index.
    Text(&'static [&'static str]),
}

#[derive(Clone, Copy, Debug)]
enum ColumnValue {
    OfRow(fn(&EventRow) -> Option<u64>),
    OfOdin(fn(OdinFacts) -> Option<u64>),
    Count(Count),
}

const CROSSINGS: &[&str] = &[
    Crossing::NoBeam.name(),
    Crossing::Beam1.name(),
    Crossing::Beam2.name(),
    Crossing::BeamCrossing.name(),
];
const TAE: &[&str] = &[Tae::Central.name(), Tae::Neighbour.name()];

/// The columns before the counters of the report.
const COLUMNS: [(&str, EventColumnType, bool, ColumnValue); 13] = [
    (
        "event",
        Integer(64),
        false,
        ColumnValue::OfRow(|row| Some(row.origin.event)),
    ),
    (
        "run",
        Integer(32),
        true,
        ColumnValue::OfRow(|row| row.meta.run.map(u64::from)),
    ),
    (
        "event_number",
        Integer(64),
        true,
        ColumnValue::OfRow(|row| row.meta.event),
    ),
    ("time", Time, true, ColumnValue::OfOdin(|odin| odin.time)),
    (
        "bcid",
        Integer(16),
        true,
        ColumnValue::OfOdin(|odin| Some(odin.bcid.into())),
    ),
    (
        "crossing",
        Text(CROSSINGS),
        true,
        ColumnValue::OfOdin(|odin| Some(odin.crossing as u64)),
    ),
    (
        "trigger_type",
        Integer(8),
        true,
        ColumnValue::OfOdin(|odin| Some(odin.trigger_type.into())),
    ),
    (
        "event_type",
        Integer(16),
        true,
        ColumnValue::OfOdin(|odin| Some(odin.event_type.into())),
    ),
    (
        "orbit",
        Integer(32),
        true,
        ColumnValue::OfOdin(|odin| Some(odin.orbit.into())),
    ),
    (
        "tck",
        Integer(32),
        true,
        ColumnValue::OfOdin(|odin| Some(odin.tck.into())),
    ),
    (
        "tae",
        Text(TAE),
        true,
        ColumnValue::OfOdin(|odin| odin.tae.map(|tae| tae as u64)),
    ),
    (
        "odin_version",
        Integer(8),
        true,
        ColumnValue::OfRow(|row| row.meta.odin.map(|odin| odin.version.into())),
    ),
    (
        "hits",
        Integer(32),
        false,
        ColumnValue::OfRow(|row| Some(row.hits.into())),
    ),
];

impl EventColumn {
    /// Returns all columns, in the order of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        let counts =
            Count::ALL.map(|count| (count.name(), Integer(32), false, ColumnValue::Count(count)));
        let all = COLUMNS.into_iter().chain(counts);
        all.map(|(name, kind, may_be_null, value)| Self {
            name,
            kind,
            may_be_null,
            value,
        })
    }

    /// Returns the value in a row. In a text column, it is an index into the texts of the type.
    pub fn value(&self, row: &EventRow) -> Option<u64> {
        match self.value {
            ColumnValue::OfRow(value) => value(row),
            ColumnValue::OfOdin(value) => row.meta.odin.and_then(|odin| odin.facts).and_then(value),
            ColumnValue::Count(count) => Some(row.report.get(count).into()),
        }
    }
}

impl EventRow {
    /// Returns the rows of a batch. `meta` is empty, or has one entry per event.
    pub fn of_batch<'a>(
        origins: &'a [Origin],
        meta: &'a [EventMeta],
        hits: &'a UtHits,
        report: &'a BatchReport,
    ) -> impl Iterator<Item = Self> + 'a {
        let groups = hits.n_groups();
        origins
            .iter()
            .zip(&report.events)
            .enumerate()
            .map(move |(e, (&origin, &report))| Self {
                origin,
                meta: meta.get(e).copied().unwrap_or_default(),
                hits: hits.offsets()[(e + 1) * groups] - hits.offsets()[e * groups],
                report,
            })
    }
}
