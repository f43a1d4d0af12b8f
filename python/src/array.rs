//! Memory of Rust as NumPy sees it.

use std::sync::Arc;

use arrow_buffer::{ArrowNativeType, Buffer};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use ut_decoding::UtHits;

use crate::pages::{Lent, Pages};

/// An array that NumPy can look at without copying it: `numpy.asarray(array)` keeps it alive.
#[pyclass(frozen)]
pub struct Array {
    memory: Memory,
    kind: &'static str,
    /// Number of items of a row; 0 where there are no rows.
    row: usize,
}

enum Memory {
    Pages(Pages),
    Buffer(Buffer),
    /// A column of the decoder's.
    Lent(Arc<Lent>, fn(&UtHits) -> &[u8]),
}

/// Returns the size of an item from NumPy's name for its type.
pub fn item_size(kind: &str) -> usize {
    usize::from(kind.as_bytes()[2] - b'0')
}

impl Array {
    pub fn of_pages(pages: Pages, kind: &'static str) -> Self {
        Self {
            memory: Memory::Pages(pages),
            kind,
            row: 0,
        }
    }

    pub fn of_lent(hits: Arc<Lent>, column: fn(&UtHits) -> &[u8], kind: &'static str) -> Self {
        Self {
            memory: Memory::Lent(hits, column),
            kind,
            row: 0,
        }
    }

    pub fn of_vec<T: ArrowNativeType>(items: Vec<T>, kind: &'static str) -> Self {
        Self {
            memory: Memory::Buffer(Buffer::from_vec(items)),
            kind,
            row: 0,
        }
    }

    /// Sets the number of items of a row.
    pub const fn with_rows(mut self, items: usize) -> Self {
        self.row = items;
        self
    }

    fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Pages(pages) => pages.as_ref(),
            Memory::Buffer(buffer) => buffer.as_slice(),
            Memory::Lent(hits, column) => hits.bytes(*column),
        }
    }
}

#[pymethods]
impl Array {
    /// Array interface of NumPy. The memory does not move and is not written any more: the array is
    /// frozen.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let bytes = self.bytes();
        let items = bytes.len() / item_size(self.kind);
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", self.kind)?;
        interface.set_item("data", (bytes.as_ptr() as usize, true))?;
        match items.checked_div(self.row) {
            Some(rows) => interface.set_item("shape", (rows, self.row))?,
            None => interface.set_item("shape", (items,))?,
        }
        Ok(interface)
    }
}
