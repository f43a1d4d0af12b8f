//! The hits of consecutive events, as they go to Python.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Weak};

use arrow_buffer::ToByteSlice;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use ut_decoding::UtHits;
use ut_decoding::decoder::{Count, EventReport};
use ut_decoding::input::{Damage, EventMeta, Origin, Place};

use crate::array::Array;
use crate::failure::Failure;
use crate::pages::{Pages, Pool};

/// A column of hits: its name, NumPy's name of its type, and its bytes.
struct Column {
    name: &'static str,
    kind: &'static str,
    bytes: fn(&UtHits) -> &[u8],
}

/// The columns, in the order of files of hits.
static COLUMNS: [Column; 7] = [
    Column { name: "lhcb_id", kind: "<u4", bytes: |hits| hits.id().to_byte_slice() },
    Column { name: "x_at_y_eq0", kind: "<f4", bytes: |hits| hits.x_at_y_eq0().to_byte_slice() },
    Column { name: "z_at_y_eq0", kind: "<f4", bytes: |hits| hits.z_at_y_eq0().to_byte_slice() },
    Column { name: "y_begin", kind: "<f4", bytes: |hits| hits.y_begin().to_byte_slice() },
    Column { name: "y_end", kind: "<f4", bytes: |hits| hits.y_end().to_byte_slice() },
    Column { name: "dx_dy", kind: "<f4", bytes: |hits| hits.dx_dy().to_byte_slice() },
    Column { name: "weight", kind: "<f4", bytes: |hits| hits.weight().to_byte_slice() },
];

/// The names of all columns.
pub fn names() -> Vec<&'static str> {
    COLUMNS.iter().map(|column| column.name).collect()
}

/// Some of the columns.
#[derive(Clone)]
pub struct Columns(Vec<&'static Column>);

impl Columns {
    pub fn of(names: &[String]) -> Result<Self, Failure> {
        let of = |name: &String| {
            let found = COLUMNS.iter().find(|column| column.name == name);
            found.ok_or_else(|| Failure::Value(format!("columns: there is no column {name:?}")))
        };
        Ok(Self(names.iter().map(of).collect::<Result<_, _>>()?))
    }
}

/// A decoded batch, and what is known of its events.
pub struct Batch {
    pub hits: UtHits,
    pub reports: Vec<EventReport>,
    pub origins: Vec<Origin>,
    pub meta: Vec<EventMeta>,
}

/// The hits of consecutive events.
pub struct Piece {
    columns: Vec<(&'static Column, Pages)>,
    n_groups: usize,
    offsets: Vec<i64>,
    events: Vec<u64>,
    files: Vec<u32>,
    runs: Vec<u32>,
    has_run: Vec<u8>,
    numbers: Vec<u64>,
    has_number: Vec<u8>,
    counts: Vec<u32>,
    pub damages: Vec<(Place, Damage)>,
    pub failures: Vec<Failure>,
}

impl Piece {
    /// A piece without events, with room for about `hits` hits.
    pub fn new(columns: &Columns, n_groups: usize, hits: usize, pool: &Weak<Pool>) -> io::Result<Self> {
        let pages = |column| Ok((column, Pages::new(4 * hits, Weak::clone(pool))?));
        Ok(Self {
            columns: columns.0.iter().copied().map(pages).collect::<io::Result<_>>()?,
            n_groups,
            offsets: vec![0],
            events: Vec::new(),
            files: Vec::new(),
            runs: Vec::new(),
            has_run: Vec::new(),
            numbers: Vec::new(),
            has_number: Vec::new(),
            counts: Vec::new(),
            damages: Vec::new(),
            failures: Vec::new(),
        })
    }

    /// Events that it has.
    pub fn n_events(&self) -> usize {
        self.events.len()
    }

    /// Hits that it has.
    pub fn n_hits(&self) -> usize {
        self.offsets.last().map_or(0, |&n| n as usize)
    }

    /// Appends some events of a batch.
    pub fn append(&mut self, batch: &Batch, events: Range<usize>) -> io::Result<()> {
        let Batch { hits, reports, origins, meta } = batch;
        let ends = &hits.offsets()[events.start * self.n_groups..=events.end * self.n_groups];
        let (first, last) = (ends[0] as usize, ends[ends.len() - 1] as usize);
        for (column, pages) in &mut self.columns {
            pages.extend(&(column.bytes)(hits)[4 * first..4 * last])?;
        }
        let before = self.n_hits() as i64 - first as i64;
        self.offsets.extend(ends[1..].iter().map(|&end| before + i64::from(end)));
        for e in events {
            self.events.push(origins[e].event);
            self.files.push(origins[e].file);
            let EventMeta { run, event, .. } = meta.get(e).copied().unwrap_or_default();
            self.runs.push(run.unwrap_or_default());
            self.has_run.push(u8::from(run.is_some()));
            self.numbers.push(event.unwrap_or_default());
            self.has_number.push(u8::from(event.is_some()));
            self.counts.extend(reports[e].counts);
        }
        Ok(())
    }

    /// The piece as a dictionary of arrays.
    pub fn into_dict(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let columns = PyDict::new(py);
        for (column, pages) in self.columns {
            columns.set_item(column.name, Array::of_pages(pages, column.kind).into_py_any(py)?)?;
        }
        let all = PyDict::new(py);
        all.set_item("columns", columns)?;
        all.set_item("n_groups", self.n_groups)?;
        all.set_item("offsets", Array::of_vec(self.offsets, "<i8").into_py_any(py)?)?;
        all.set_item("event", Array::of_vec(self.events, "<u8").into_py_any(py)?)?;
        all.set_item("file", Array::of_vec(self.files, "<u4").into_py_any(py)?)?;
        all.set_item("run", Array::of_vec(self.runs, "<u4").into_py_any(py)?)?;
        all.set_item("has_run", Array::of_vec(self.has_run, "|b1").into_py_any(py)?)?;
        all.set_item("event_number", Array::of_vec(self.numbers, "<u8").into_py_any(py)?)?;
        all.set_item("has_event_number", Array::of_vec(self.has_number, "|b1").into_py_any(py)?)?;
        let counts = Array::of_vec(self.counts, "<u4").with_rows(Count::ALL.len());
        all.set_item("counts", counts.into_py_any(py)?)?;
        all.set_item("damages", damages(py, &self.damages)?)?;
        let failures = PyList::empty(py);
        for failure in self.failures {
            failures.append(failure.exception(py)?)?;
        }
        all.set_item("failures", failures)?;
        Ok(all)
    }
}

/// What was wrong with events: file, event, bank, byte of the file, message.
pub fn damages<'py>(py: Python<'py>, damages: &[(Place, Damage)]) -> PyResult<Bound<'py, PyList>> {
    let rows = damages.iter().map(|(place, damage)| {
        (place.file.display().to_string(), place.event, damage.bank(), place.byte, damage.to_string())
    });
    PyList::new(py, rows.collect::<Vec<_>>())
}

/// A pool that nobody has.
pub fn no_pool() -> Weak<Pool> {
    Arc::downgrade(&Arc::default())
}
