//! The hits of consecutive events, as they go to Python.

use std::io;
use std::mem::take;
use std::ops::Range;
use std::sync::{Arc, Weak};

use arrow_buffer::ToByteSlice;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use ut_decoding::decoder::{Count, EventReport, Loss, N_LOSS};
use ut_decoding::detector::BankVersion;
use ut_decoding::input::{Damage, EventMeta, Origin, Place};
use ut_decoding::output::{ColumnType, DetectorColumn, EventColumn, EventColumnType, EventRow};
use ut_decoding::{DetectorTables, UtHits};

use crate::array::{Array, item_size};
use crate::failure::Failure;
use crate::pages::{Lent, Pages, Pool, Spare};

#[derive(Clone, Copy)]
enum Source {
    /// Bytes that the decoder wrote.
    Hits(fn(&UtHits) -> &[u8]),
    /// Bytes that follow from the decoder's, and from the tables.
    Detector(DetectorColumn),
}

#[derive(Clone, Copy)]
struct Column {
    name: &'static str,
    /// NumPy's name of its type.
    kind: &'static str,
    source: Source,
}

/// The columns that decoders write, in the order of files of hits.
const COLUMNS: [Column; 7] = [
    of_hits("lhcb_id", "<u4", |hits| hits.id().to_byte_slice()),
    of_hits("x_at_y_eq0", "<f4", |hits| {
        hits.x_at_y_eq0().to_byte_slice()
    }),
    of_hits("z_at_y_eq0", "<f4", |hits| {
        hits.z_at_y_eq0().to_byte_slice()
    }),
    of_hits("y_begin", "<f4", |hits| hits.y_begin().to_byte_slice()),
    of_hits("y_end", "<f4", |hits| hits.y_end().to_byte_slice()),
    of_hits("dx_dy", "<f4", |hits| hits.dx_dy().to_byte_slice()),
    of_hits("weight", "<f4", |hits| hits.weight().to_byte_slice()),
];

const fn of_hits(name: &'static str, kind: &'static str, bytes: fn(&UtHits) -> &[u8]) -> Column {
    Column {
        name,
        kind,
        source: Source::Hits(bytes),
    }
}

fn of_detector(column: DetectorColumn) -> Column {
    let kind = match column.kind() {
        ColumnType::U8 => "|u1",
        ColumnType::U16 => "<u2",
        ColumnType::Bool => "|b1",
    };
    Column {
        name: column.name(),
        kind,
        source: Source::Detector(column),
    }
}

/// Returns the names of the default columns, and of all other columns.
pub fn names() -> [Vec<&'static str>; 2] {
    [
        COLUMNS.iter().map(|column| column.name).collect(),
        DetectorColumn::NAMES.to_vec(),
    ]
}

#[derive(Clone)]
pub struct Columns {
    all: Vec<Column>,
    version: BankVersion,
}

impl Columns {
    pub fn of(names: &[String], version: BankVersion) -> Result<Self, Failure> {
        let of = |name: &String| {
            let mut known = COLUMNS
                .into_iter()
                .chain(DetectorColumn::ALL.into_iter().map(of_detector));
            let found = known.find(|column| column.name == name);
            found.ok_or_else(|| Failure::Value(format!("columns: there is no column {name:?}")))
        };
        Ok(Self {
            all: names.iter().map(of).collect::<Result<_, _>>()?,
            version,
        })
    }

    /// Returns the columns that decoders write and that are not among these.
    pub fn left_out(&self) -> Vec<String> {
        let is_there = |column: &&Column| !self.all.iter().any(|other| other.name == column.name);
        COLUMNS
            .iter()
            .filter(is_there)
            .map(|column| column.name.to_owned())
            .collect()
    }

    /// Returns the size of a hit in bytes.
    pub fn size(&self) -> u64 {
        self.all
            .iter()
            .map(|column| item_size(column.kind) as u64)
            .sum()
    }

    /// Returns true if most of the columns that decoders write are among these.
    pub fn keep_most(&self) -> bool {
        2 * self.left_out().len() < COLUMNS.len()
    }

    /// Returns the bytes of events with all their hits.
    pub fn bytes(&self, n_groups: usize, events: usize, hits: usize) -> u64 {
        // One end per group; place, file, masked hits, facts, counts and account of loss.
        let of_event =
            8 * n_groups + 16 + 9 * Fact::columns().count() + 4 * (Count::ALL.len() + N_LOSS);
        hits as u64 * self.size() + (events * of_event) as u64
    }

    /// Returns the columns that are made for each batch.
    pub fn detector(&self) -> impl Iterator<Item = DetectorColumn> {
        self.all.iter().filter_map(|column| match column.source {
            Source::Detector(column) => Some(column),
            Source::Hits(_) => None,
        })
    }

    /// Returns true if the decoder must say what the hits were made of, which v4 banks do not
    /// contain.
    pub fn need_clusters(&self) -> bool {
        self.version == BankVersion::V5 && self.detector().any(DetectorColumn::needs_clusters)
    }

    /// Makes the computed columns of a batch.
    pub fn make(&self, tables: &DetectorTables, hits: &UtHits) -> Vec<Vec<u8>> {
        let make = |column: DetectorColumn| {
            let values = column.values(tables, hits);
            match column.kind() {
                ColumnType::U16 => values.to_byte_slice().to_vec(),
                // All values fit but missing ones: clusters of v4 banks, which Python masks.
                ColumnType::U8 | ColumnType::Bool => {
                    values.into_iter().map(|value| value as u8).collect()
                }
            }
        };
        self.detector().map(make).collect()
    }
}

/// Column of the table of events: run, event number, and the facts of ODIN.
struct Fact {
    column: EventColumn,
    values: Vec<u64>,
    known: Vec<u8>,
}

impl Fact {
    /// Returns the columns that not every event has.
    fn columns() -> impl Iterator<Item = EventColumn> {
        EventColumn::all().filter(|column| column.may_be_null)
    }

    fn all() -> Vec<Self> {
        Self::columns()
            .map(|column| Self {
                column,
                values: Vec::new(),
                known: Vec::new(),
            })
            .collect()
    }
}

/// Returns name, NumPy's name of the type, and words (none of numbers) of the facts about events.
pub fn facts() -> Vec<(&'static str, &'static str, Vec<&'static str>)> {
    let kind = |column: EventColumn| match column.kind {
        EventColumnType::Integer(8) => ("|u1", Vec::new()),
        EventColumnType::Integer(16) => ("<u2", Vec::new()),
        EventColumnType::Integer(32) => ("<u4", Vec::new()),
        EventColumnType::Integer(_) => ("<u8", Vec::new()),
        EventColumnType::Time => ("<M8[us]", Vec::new()),
        EventColumnType::Text(words) => ("<i4", words.to_vec()),
    };
    let of = |Fact { column, .. }: Fact| (column.name, kind(column).0, kind(column).1);
    Fact::all().into_iter().map(of).collect()
}

pub struct Batch {
    pub hits: UtHits,
    /// Columns computed from the hits, in the requested order.
    pub made: Vec<Vec<u8>>,
    pub reports: Vec<EventReport>,
    pub losses: Vec<Loss>,
    /// Number of hits of each event that the mask left out.
    pub masked: Vec<u32>,
    pub origins: Vec<Origin>,
    pub meta: Vec<EventMeta>,
}

/// Values of a column of hits.
enum Values {
    Pages(Pages),
    Made(Vec<u8>),
    Lent(Arc<Lent>, fn(&UtHits) -> &[u8]),
}

pub struct Piece {
    version: BankVersion,
    columns: Vec<(Column, Values)>,
    n_groups: usize,
    offsets: Vec<i64>,
    events: Vec<u64>,
    files: Vec<u32>,
    facts: Vec<Fact>,
    counts: Vec<u32>,
    losses: Vec<u32>,
    masked: Vec<u32>,
    pub damages: Vec<(Place, Damage)>,
    pub failures: Vec<Failure>,
}

impl Piece {
    /// Makes a piece without events, with room for about `hits` hits.
    pub fn new(
        columns: &Columns,
        n_groups: usize,
        hits: usize,
        pool: &Weak<Pool>,
    ) -> io::Result<Self> {
        let pages = |column: Column| {
            let bytes = hits * item_size(column.kind);
            Ok((column, Values::Pages(Pages::new(bytes, Weak::clone(pool))?)))
        };
        Ok(Self::of(
            columns.version,
            columns
                .all
                .iter()
                .copied()
                .map(pages)
                .collect::<io::Result<_>>()?,
            n_groups,
        ))
    }

    /// Makes a piece of a whole batch, whose hits stay where they are.
    pub fn of_batch(
        columns: &Columns,
        n_groups: usize,
        mut batch: Batch,
        spare: &Arc<Spare>,
    ) -> Self {
        let mut piece = Self::of(columns.version, Vec::new(), n_groups);
        piece.add_events(&batch, 0..batch.origins.len());
        let mut made = take(&mut batch.made).into_iter();
        let lent = Lent::new(batch.hits, spare);
        let values = |column: Column| match column.source {
            Source::Hits(of) => (column, Values::Lent(Arc::clone(&lent), of)),
            Source::Detector(_) => (column, Values::Made(made.next().unwrap_or_default())),
        };
        piece.columns = columns.all.iter().copied().map(values).collect();
        piece
    }

    fn of(version: BankVersion, columns: Vec<(Column, Values)>, n_groups: usize) -> Self {
        Self {
            version,
            columns,
            n_groups,
            offsets: vec![0],
            events: Vec::new(),
            files: Vec::new(),
            facts: Fact::all(),
            counts: Vec::new(),
            losses: Vec::new(),
            masked: Vec::new(),
            damages: Vec::new(),
            failures: Vec::new(),
        }
    }

    pub fn n_events(&self) -> usize {
        self.events.len()
    }

    pub fn n_hits(&self) -> usize {
        self.offsets.last().map_or(0, |&n| n as usize)
    }

    /// End of the events of a batch, from `first` on, that fit into `events` and `bytes`; an empty
    /// piece takes one.
    pub fn end(
        &self,
        columns: &Columns,
        batch: &Batch,
        first: usize,
        events: usize,
        bytes: u64,
    ) -> usize {
        let (ends, n) = (batch.hits.offsets(), batch.origins.len());
        let fits = |end: usize| {
            let hits =
                self.n_hits() + (ends[end * self.n_groups] - ends[first * self.n_groups]) as usize;
            let events = self.n_events() + end - first;
            columns.bytes(self.n_groups, events, hits) <= bytes
        };
        let most = n.min(first.saturating_add(events - self.n_events()));
        let mut end = first + usize::from(self.n_events() == 0);
        while end < most && fits(end + 1) {
            end += 1;
        }
        end
    }

    pub fn append(&mut self, batch: &Batch, events: Range<usize>) -> io::Result<()> {
        let Batch { hits, made, .. } = batch;
        let mut made = made.iter();
        let ends = &hits.offsets()[events.start * self.n_groups..=events.end * self.n_groups];
        let (first, last) = (ends[0] as usize, ends[ends.len() - 1] as usize);
        for (column, values) in &mut self.columns {
            let Values::Pages(pages) = values else {
                continue;
            };
            let size = item_size(column.kind);
            let bytes = match column.source {
                Source::Hits(bytes) => bytes(hits),
                Source::Detector(_) => made.next().map_or(&[][..], Vec::as_slice),
            };
            pages.extend(&bytes[size * first..size * last])?;
        }
        self.add_events(batch, events);
        Ok(())
    }

    fn add_events(&mut self, batch: &Batch, events: Range<usize>) {
        let Batch {
            hits,
            reports,
            losses,
            masked,
            origins,
            meta,
            ..
        } = batch;
        let ends = &hits.offsets()[events.start * self.n_groups..=events.end * self.n_groups];
        let before = self.n_hits() as i64 - ends[0] as i64;
        self.offsets
            .extend(ends[1..].iter().map(|&end| before + i64::from(end)));
        for e in events {
            let meta = meta.get(e).copied().unwrap_or_default();
            let row = EventRow {
                origin: origins[e],
                meta,
                hits: 0,
                report: reports[e],
            };
            self.events.push(row.origin.event);
            self.files.push(row.origin.file);
            for fact in &mut self.facts {
                let value = fact.column.value(&row);
                fact.values.push(value.unwrap_or_default());
                fact.known.push(u8::from(value.is_some()));
            }
            self.counts.extend(row.report.counts);
            self.masked.push(masked[e]);
            self.losses.extend(
                losses[e]
                    .numbers()
                    .map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
            );
        }
    }

    pub fn into_dict(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let (columns, mut missing) = (PyDict::new(py), Vec::new());
        for (column, values) in self.columns {
            if matches!(column.source, Source::Detector(of) if of.needs_clusters())
                && self.version == BankVersion::V4
            {
                missing.push(column.name);
            }
            let array = match values {
                Values::Pages(pages) => Array::of_pages(pages, column.kind),
                Values::Made(bytes) => Array::of_vec(bytes, column.kind),
                Values::Lent(hits, of) => Array::of_lent(hits, of, column.kind),
            };
            columns.set_item(column.name, array.into_py_any(py)?)?;
        }
        let all = PyDict::new(py);
        all.set_item("columns", columns)?;
        all.set_item("missing", missing)?;
        all.set_item("n_groups", self.n_groups)?;
        all.set_item(
            "offsets",
            Array::of_vec(self.offsets, "<i8").into_py_any(py)?,
        )?;
        all.set_item("event", Array::of_vec(self.events, "<u8").into_py_any(py)?)?;
        all.set_item("file", Array::of_vec(self.files, "<u4").into_py_any(py)?)?;
        let facts = PyDict::new(py);
        for Fact {
            column,
            values,
            known,
        } in self.facts
        {
            let (values, known) = (Array::of_vec(values, "<u8"), Array::of_vec(known, "|b1"));
            facts.set_item(
                column.name,
                (values.into_py_any(py)?, known.into_py_any(py)?),
            )?;
        }
        all.set_item("facts", facts)?;
        let counts = Array::of_vec(self.counts, "<u4").with_rows(Count::ALL.len());
        all.set_item("counts", counts.into_py_any(py)?)?;
        let losses = Array::of_vec(self.losses, "<u4").with_rows(N_LOSS);
        all.set_item("losses", losses.into_py_any(py)?)?;
        all.set_item("masked", Array::of_vec(self.masked, "<u4").into_py_any(py)?)?;
        all.set_item("damages", damages(py, &self.damages)?)?;
        let failures = PyList::empty(py);
        for failure in self.failures {
            failures.append(failure.exception(py)?)?;
        }
        all.set_item("failures", failures)?;
        Ok(all)
    }
}

/// Lists the damage of events: file, event, bank, byte of the file, message.
pub fn damages<'py>(py: Python<'py>, damages: &[(Place, Damage)]) -> PyResult<Bound<'py, PyList>> {
    let rows = damages.iter().map(|(place, damage)| {
        // Files are named as the inputs are.
        (
            place.file.as_os_str(),
            place.event,
            damage.bank,
            place.byte,
            damage.to_string(),
        )
    });
    PyList::new(py, rows.collect::<Vec<_>>())
}

/// Returns a pool that is gone already.
pub fn no_pool() -> Weak<Pool> {
    Arc::downgrade(&Arc::default())
}
