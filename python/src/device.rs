//! Hits that are decoded on a GPU and stay there.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, TryLockError};

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use ut_decoding::decoder::cuda::{CudaDenseDecoder, CudaDevice, CudaMemory, DenseHits, Device};
use ut_decoding::decoder::{Backend, EventReport};
use ut_decoding::input::{Chunks, Origin, Parser, Seen};
use ut_decoding::{BatchView, DecodeError};

use crate::array::Array;
use crate::dlpack::DeviceColumn;
use crate::failure::Failure;
use crate::job::{check, wait_for};
use crate::request::{Request, Task};

/// The arrays of hits, in the order in which they lie on the device.
const ARRAYS: [(&str, &str); 7] = [
    ("y_begin", "<f4"),
    ("y_end", "<f4"),
    ("z_at_y_eq0", "<f4"),
    ("x_at_y_eq0", "<f4"),
    ("dx_dy", "<f4"),
    ("weight", "<f4"),
    ("lhcb_id", "<u4"),
];

/// Bytes of a word.
const WORD: usize = 4;

/// A batch whose hits are on the device.
struct Batch {
    memory: Arc<CudaMemory>,
    hits: usize,
    offsets: usize,
    report: usize,
    events: Vec<u64>,
    files: Vec<u32>,
    /// What only the reader knows: banks that it left out, and 1 for events that were given up before their end.
    other_banks: Vec<u32>,
    broken: Vec<u8>,
}

/// A GPU at work.
struct Work {
    task: Task,
    chunks: Chunks,
    parser: Parser,
    decoder: CudaDenseDecoder,
    seen: Seen,
    ready: VecDeque<Batch>,
}

impl Work {
    fn new(task: Task, ordinal: usize, stream: Option<u64>) -> Result<Self, Failure> {
        let mut device = CudaDevice::new(ordinal, 0)?;
        let stream = match stream {
            None => device.stream()?,
            // SAFETY:
            // - it is a stream of the device's primary context, which is the one that `new` uses, and outlives the job, as
            //   `iterate_on_gpu` asks its caller, who alone knows what the number is.
            Some(stream) => unsafe { device.borrow_stream(stream as *mut c_void) },
        };
        let decoder = CudaDenseDecoder::new(device, stream, &task.tables, task.options)?;
        let chunks = Chunks::new(task.parts.iter().cloned(), task.batch, task.check, task.select.clone());
        let parser = Parser::new(task.check, task.select.clone()).together(true);
        Ok(Self { task, chunks, parser, decoder, seen: Seen::default(), ready: VecDeque::new() })
    }

    /// The next batch, until there is none.
    fn next(&mut self) -> Result<Option<Batch>, Failure> {
        while self.ready.is_empty() {
            let chunk = match self.chunks.next_chunk() {
                Ok(Some(chunk)) => chunk,
                Ok(None) => {
                    self.seen.check_versions(self.task.tables.boards().version)?;
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            };
            let Self { parser, decoder, seen, ready, task, .. } = self;
            let n_groups = task.tables.n_groups();
            parser.parse(chunk, seen, |(batch, origins, _)| -> Result<(), Failure> {
                ready.push_back(decode(decoder, n_groups, batch, origins)?);
                Ok(())
            })?;
        }
        Ok(self.ready.pop_front())
    }
}

/// Decodes a batch into memory of its own.
fn decode(
    decoder: &mut CudaDenseDecoder,
    n_groups: usize,
    batch: BatchView<'_>,
    origins: &[Origin],
) -> Result<Batch, DecodeError> {
    let DenseHits { memory, hits } = decoder.decode(batch)?;
    Ok(Batch {
        memory: Arc::new(memory),
        hits,
        offsets: batch.n_events * n_groups + 1,
        report: batch.n_events * EventReport::default().counts.len(),
        other_banks: (0..batch.n_events).map(|e| batch.meta_of(e).other_banks).collect(),
        broken: (0..batch.n_events).map(|e| batch.meta_of(e).broken.into()).collect(),
        events: origins.iter().map(|origin| origin.event).collect(),
        files: origins.iter().map(|origin| origin.file).collect(),
    })
}

/// A job on a GPU.
#[pyclass(frozen)]
pub struct DeviceJob {
    work: Arc<Mutex<Work>>,
    ordinal: i32,
    n_groups: usize,
    stopped: AtomicBool,
}

#[pymethods]
impl DeviceJob {
    #[new]
    #[pyo3(signature = (request, device = 0, stream = None))]
    fn new(py: Python<'_>, request: Request, device: u16, stream: Option<u64>) -> PyResult<Self> {
        let task = check(py, request)?;
        if task.backend != Backend::Cuda {
            return Err(Failure::Value("backend: hits on a GPU come from cuda".to_owned()).into());
        }
        if task.keep_going {
            let message = "keep_going: hits on a GPU do not carry the errors of files".to_owned();
            return Err(Failure::Value(message).into());
        }
        if task.columns.detector().next().is_some() {
            let message = "columns: those of the detector are made in the memory of the host".to_owned();
            return Err(Failure::Value(message).into());
        }
        if matches!(stream, Some(0 | 2)) {
            // Work is done on threads of ours, each of which would have a stream 2 of its own.
            let message =
                "stream: 1 is the default stream; 0 could mean another, and 2 is one of each thread".to_owned();
            return Err(Failure::Value(message).into());
        }
        let n_groups = task.tables.n_groups();
        let stopped = AtomicBool::new(false);
        let work = wait_for(py, &stopped, move || Work::new(task, device.into(), stream))?;
        Ok(Self { work: Arc::new(Mutex::new(work)), ordinal: device.into(), n_groups, stopped })
    }

    /// The next batch, or `None` after the last.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        if self.stopped.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let work = Arc::clone(&self.work);
        let next = wait_for(py, &self.stopped, move || match work.try_lock() {
            Ok(mut work) => work.next(),
            Err(TryLockError::WouldBlock) => Err(Failure::Value("another thread asks for the next hits".to_owned())),
            Err(TryLockError::Poisoned(_)) => Ok(None),
        });
        let batch = match next {
            Ok(Some(batch)) => batch,
            Ok(None) => {
                self.stopped.store(true, Ordering::Relaxed);
                return Ok(None);
            }
            Err(error) => {
                self.stopped.store(true, Ordering::Relaxed);
                return Err(error);
            }
        };
        let Batch { memory, hits, offsets, report, events, files, other_banks, broken } = batch;
        let column = |word: usize, len: usize, kind: &'static str| {
            let address = CudaDevice::address(&memory) + (WORD * word) as u64;
            DeviceColumn { memory: Arc::clone(&memory), address, len, kind, ordinal: self.ordinal }
        };
        let columns = PyDict::new(py);
        for (i, (name, kind)) in ARRAYS.into_iter().enumerate() {
            columns.set_item(name, column(i * hits, hits, kind).into_py_any(py)?)?;
        }
        let all = PyDict::new(py);
        all.set_item("columns", columns)?;
        all.set_item("offsets", column(ARRAYS.len() * hits, offsets, "<u4").into_py_any(py)?)?;
        let before = ARRAYS.len() * hits + offsets;
        all.set_item("report", column(before, report, "<u4").into_py_any(py)?)?;
        all.set_item("other_banks", Array::of_vec(other_banks, "<u4").into_py_any(py)?)?;
        all.set_item("broken", Array::of_vec(broken, "|b1").into_py_any(py)?)?;
        all.set_item("n_groups", self.n_groups)?;
        all.set_item("event", Array::of_vec(events, "<u8").into_py_any(py)?)?;
        all.set_item("file", Array::of_vec(files, "<u4").into_py_any(py)?)?;
        Ok(Some(all))
    }
}
