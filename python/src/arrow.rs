//! Columns as Arrow's C stream, in a capsule: what polars, duckdb and pyarrow take without a copy.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, RecordBatch, RecordBatchIterator, StringArray,
    make_array, types::Int32Type,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayDataBuilder;
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit, ffi::FFI_ArrowSchema};
use bytes::Bytes;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use ut_decoding::output::DetectorColumn;

/// Memory of Python that does not change.
struct PythonMemory {
    /// Keeps the memory alive.
    _buffer: PyUntypedBuffer,
    start: *const u8,
    len: usize,
}

// SAFETY:
// - the memory is only read, which any thread may do;
// - the buffer is released with Python's lock, whichever thread drops it.
unsafe impl Send for PythonMemory {}

impl AsRef<[u8]> for PythonMemory {
    fn as_ref(&self) -> &[u8] {
        // SAFETY:
        // - the buffer is contiguous, `len` bytes from `start`, and alive as long as `self`; `of`
        //   checked the first;
        // - it was exported read-only, so its owner has promised not to write to it.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

/// Returns the bytes of a NumPy array, without a copy.
fn bytes_of(array: &Bound<'_, PyAny>) -> PyResult<(Bytes, usize)> {
    let buffer = PyUntypedBuffer::get(array)?;
    if !buffer.is_c_contiguous() || !buffer.readonly() {
        return Err(PyBufferError::new_err(
            "a column must be contiguous and read-only",
        ));
    }
    let (len, items) = (buffer.len_bytes(), buffer.item_count());
    if len == 0 {
        return Ok((Bytes::new(), items));
    }
    let start = buffer.buf_ptr().cast_const().cast();
    Ok((
        Bytes::from_owner(PythonMemory {
            _buffer: buffer,
            start,
            len,
        }),
        items,
    ))
}

fn type_of(kind: &str) -> PyResult<DataType> {
    Ok(match kind {
        "<f4" => DataType::Float32,
        "|b1" | "|u1" => DataType::UInt8,
        "<u2" => DataType::UInt16,
        "<i4" => DataType::Int32,
        "<u4" => DataType::UInt32,
        "<u8" => DataType::UInt64,
        "<M8[us]" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        _ => {
            return Err(PyBufferError::new_err(format!(
                "no column has items of type {kind}"
            )));
        }
    })
}

fn failed(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// A column: name, NumPy's name of the type, values, where they are known, and the words that they
/// count.
type Spec<'py> = (
    String,
    String,
    Bound<'py, PyAny>,
    Option<Bound<'py, PyAny>>,
    Option<Vec<String>>,
);

fn column(spec: &Spec<'_>) -> PyResult<(Field, ArrayRef)> {
    let (name, kind, values, known, words) = spec;
    // As in Parquet files.
    let may_be_null = |column: &DetectorColumn| column.name() == name && column.may_be_null();
    let nullable = known.is_some() || DetectorColumn::ALL.iter().any(may_be_null);
    let data_type = type_of(kind)?;
    let (bytes, items) = bytes_of(values)?;
    let nulls = match known {
        Some(known) => {
            let (known, n) = bytes_of(known)?;
            if n != items {
                return Err(PyBufferError::new_err(format!(
                    "column {name}: {items} values, but {n} flags that say which are known"
                )));
            }
            Some(NullBuffer::new(BooleanBuffer::collect_bool(n, |i| {
                known[i] != 0
            })))
        }
        None => None,
    };
    if kind == "|b1" {
        let bits = BooleanBuffer::collect_bool(items, |i| bytes[i] != 0);
        let array = Arc::new(BooleanArray::new(bits, nulls));
        return Ok((Field::new(name, DataType::Boolean, nullable), array));
    }
    let data = ArrayDataBuilder::new(data_type)
        .len(items)
        .add_buffer(Buffer::from(bytes))
        .nulls(nulls)
        .align_buffers(true)
        .build()
        .map_err(failed)?;
    let mut array = make_array(data);
    if let Some(words) = words {
        let keys = arrow_array::cast::AsArray::as_primitive::<Int32Type>(&array).clone();
        let words = Arc::new(StringArray::from_iter_values(words));
        array = Arc::new(DictionaryArray::try_new(keys, words).map_err(failed)?);
    }
    Ok((Field::new(name, array.data_type().clone(), nullable), array))
}

/// Returns a capsule `arrow_array_stream` with one batch of rows.
#[pyfunction(name = "arrow_stream")]
pub fn stream<'py>(py: Python<'py>, columns: Vec<Spec<'py>>) -> PyResult<Bound<'py, PyCapsule>> {
    let columns = columns.iter().map(column).collect::<PyResult<Vec<_>>>()?;
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).map_err(failed)?;
    let reader = RecordBatchIterator::new([Ok(batch)], schema);
    PyCapsule::new_with_value(
        py,
        FFI_ArrowArrayStream::new(Box::new(reader)),
        c"arrow_array_stream",
    )
}

/// Returns a capsule `arrow_schema` of a table with these columns.
#[pyfunction(name = "arrow_schema")]
pub fn schema<'py>(py: Python<'py>, columns: Vec<Spec<'py>>) -> PyResult<Bound<'py, PyCapsule>> {
    let fields = columns
        .iter()
        .map(|spec| Ok(column(spec)?.0))
        .collect::<PyResult<Vec<_>>>()?;
    let schema = FFI_ArrowSchema::try_from(Schema::new(fields)).map_err(failed)?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}
