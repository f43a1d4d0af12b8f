//! A job: files in, pieces of hits out, on threads that know nothing of Python.
//!
//! The thread of the caller waits without Python's lock and looks for signals in between. Where it gives up, it leaves the
//! job behind: a thread that waits for a pipe cannot be woken, and ends with the process.

use std::iter::from_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use ut_decoding::decoder::Backend;
use ut_decoding::input::{Chunk, Chunks, Damage, InputError, Parser, Place, Seen};
use ut_decoding::output::{Encoded, Encoder, Rows};
use ut_decoding::pipeline::ordered;
use ut_decoding::{BatchReport, Decoder, UtHits};

use crate::failure::{Failure, panicked};
use crate::pages::Pool;
use crate::piece::{Batch, Piece, no_pool};
use crate::request::{Request, Task};

/// Hits that an event has, at most, in the mean.
pub const HITS_OF_EVENT: u64 = 2048;

/// How often the caller looks for signals.
const LOOK: Duration = Duration::from_millis(50);

/// What became of a piece of the inputs.
#[derive(Default)]
pub struct Done {
    pub seen: Seen,
    pub batches: Vec<Batch>,
    pub encoded: Vec<Encoded>,
}

/// Buffers that are used again.
type Spare = Arc<Mutex<Vec<UtHits>>>;

/// A thread that decodes.
struct Worker<'a> {
    task: &'a Task,
    parser: Parser,
    decoder: Option<Box<dyn Decoder>>,
    encoder: Option<Encoder>,
    spare: Spare,
}

impl Worker<'_> {
    fn work(&mut self, chunk: Chunk) -> Result<Done, Failure> {
        let Self { task, parser, decoder, encoder, spare } = self;
        let mut done = Done::default();
        let Done { seen, batches, encoded } = &mut done;
        let decoder = match decoder {
            Some(decoder) => decoder,
            // A job of a few events needs one decoder, however many threads it may have.
            None => decoder.insert(task.backend.decoder(&task.tables, task.options, 1)?),
        };
        parser.parse(chunk, seen, |(batch, origins, max_hits)| -> Result<(), Failure> {
            let spared = spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let room = task.tables.hits_at_most(batch.n_events, max_hits);
            let mut hits = with_room(spared, task, batch.n_events, room)?;
            let mut report = BatchReport::new();
            decoder.decode(batch, &mut hits, &mut report)?;
            if let Some(encoder) = encoder {
                let rows = Rows { files: &[], origins, meta: batch.meta, hits: &hits, tables: &task.tables };
                encoded.push(encoder.encode(&rows)?);
            }
            let (origins, meta) = (origins.to_vec(), batch.meta.to_vec());
            // A file has been written by now.
            let made = if encoder.is_none() { task.columns.make(&task.tables, &hits) } else { Vec::new() };
            batches.push(Batch { hits, made, reports: report.events, origins, meta });
            Ok(())
        })?;
        Ok(done)
    }
}

/// Hits with room for a batch, and some more for the next ones; the spare ones where those have it.
fn with_room(spare: Option<UtHits>, task: &Task, n_events: usize, max_hits: usize) -> Result<UtHits, Failure> {
    let (events, room) = match spare {
        Some(hits) if hits.stride() >= max_hits && hits.max_events() >= n_events => return Ok(hits),
        Some(hits) => (n_events.max(hits.max_events()), max_hits.max(hits.stride())),
        None => (n_events, max_hits),
    };
    let hits = UtHits::try_with_capacity(events, task.tables.n_groups(), room + room / 4)?;
    Ok(if task.columns.need_clusters() { hits.try_with_clusters()? } else { hits })
}

/// Does a task: hands what became of each piece of the inputs to `take`, in their order, until it says `false`.
pub fn run(
    task: &Task,
    stop: &AtomicBool,
    encoder: impl Fn() -> Option<Encoder>,
    mut take: impl FnMut(Result<Done, Failure>, &Spare) -> bool,
) {
    let chunks = Chunks::new(task.parts.iter().cloned(), task.batch, task.check, task.select.clone());
    let mut chunks = chunks.unpack_at_once(task.n_workers);
    let spare = Spare::default();
    let is_device = matches!(task.backend, Backend::Emulated | Backend::Cuda);
    let workers = (0..task.n_workers).map(|_| {
        let mut worker = Worker {
            task,
            parser: Parser::new(task.check, task.select.clone()).together(is_device),
            decoder: None,
            encoder: encoder(),
            spare: Arc::clone(&spare),
        };
        move |chunk: Result<Chunk, InputError>| worker.work(chunk?)
    });
    let workers = workers.collect();
    let produce = || if stop.load(Ordering::Relaxed) { None } else { chunks.next_chunk().transpose() };
    ordered(2 * task.n_workers + 1, produce, workers, |done| {
        !stop.load(Ordering::Relaxed) && take(done, &spare) && !stop.load(Ordering::Relaxed)
    });
}

/// Gives the buffers of decoded batches back.
pub fn give_back(batches: Vec<Batch>, spare: &Spare) {
    let mut spare = spare.lock().unwrap_or_else(PoisonError::into_inner);
    spare.extend(batches.into_iter().map(|batch| batch.hits));
}

/// Pieces of hits, as a job makes them.
struct Pieces<'a> {
    task: &'a Task,
    /// Events of a piece.
    step: usize,
    pool: Weak<Pool>,
    send: &'a SyncSender<Result<Piece, Failure>>,
    piece: Option<Piece>,
    /// Hits of the last piece, or what is expected of the first.
    last: usize,
    sent: bool,
    seen: Seen,
}

impl Pieces<'_> {
    fn piece(&mut self) -> Result<&mut Piece, Failure> {
        if self.piece.is_none() {
            let room = self.last + self.last / 16;
            self.piece = Some(Piece::new(&self.task.columns, self.task.tables.n_groups(), room, &self.pool)?);
        }
        self.piece.as_mut().ok_or_else(|| Failure::Value("no piece".to_owned()))
    }

    /// Sends the piece in hand; whether there is someone who wants more.
    fn flush(&mut self) -> bool {
        let Some(piece) = self.piece.take() else { return true };
        self.last = piece.n_hits();
        self.sent = true;
        self.send.send(Ok(piece)).is_ok()
    }

    /// Takes what became of a piece of the inputs; whether to go on.
    fn take(&mut self, done: Result<Done, Failure>, spare: &Spare) -> Result<bool, Failure> {
        let Done { mut seen, batches, .. } = match done {
            Ok(done) => done,
            Err(failure) if self.task.keep_going && failure.is_of_input() => {
                self.piece()?.failures.push(failure);
                return Ok(true);
            }
            Err(failure) => return Err(failure),
        };
        let task = self.task;
        let mut damages = std::mem::take(&mut seen.damages).into_iter().peekable();
        self.seen.merge(seen);
        for batch in &batches {
            let (mut next, n) = (0, batch.origins.len());
            while next < n {
                let step = self.step;
                let piece = self.piece()?;
                let end = n.min(next + step - piece.n_events());
                piece.append(batch, next..end)?;
                for origin in &batch.origins[next..end] {
                    let is_of = |(place, _): &(Place, Damage)| {
                        place.event == origin.event && task.names.get(origin.file as usize) == Some(&place.file)
                    };
                    // They come in the order of the events.
                    piece.damages.extend(from_fn(|| damages.next_if(is_of)));
                }
                next = end;
                if piece.n_events() == step && !self.flush() {
                    return Ok(false);
                }
            }
        }
        give_back(batches, spare);
        Ok(true)
    }
}

/// Does a task, and sends its hits in pieces of `step` events.
fn make_pieces(task: &Task, step: Option<u64>, stop: &AtomicBool, send: &SyncSender<Result<Piece, Failure>>) {
    let pool: Arc<Pool> = Arc::default();
    let mut pieces = Pieces {
        task,
        step: step.map_or(usize::MAX, |step| step.max(1) as usize),
        pool: if step.is_some() { Arc::downgrade(&pool) } else { no_pool() },
        send,
        piece: None,
        // Room that is not written takes no memory; to move a column would cost it its huge pages.
        last: step.map_or(task.hits, |step| task.hits.min(step.saturating_mul(HITS_OF_EVENT) as usize)),
        sent: false,
        seen: Seen::default(),
    };
    let mut failed = None;
    run(
        task,
        stop,
        || None,
        |done, spare| match pieces.take(done, spare) {
            Ok(more) => more,
            Err(failure) => {
                failed = Some(failure);
                false
            }
        },
    );
    if stop.load(Ordering::Relaxed) {
        return;
    }
    let wrong = || pieces.seen.check_versions(task.tables.boards().version).err();
    let failed = failed.or_else(|| Some(wrong()?.into()));
    if let Some(failure) = failed {
        // Who asked for everything gets the error instead; the others, what was there before it.
        if step.is_none() || pieces.flush() {
            let _ = send.send(Err(failure));
        }
        return;
    }
    // There is always a piece, so that the columns are known.
    let result = if pieces.sent { Ok(()) } else { pieces.piece().map(|_| ()) };
    match result {
        Ok(()) => drop(pieces.flush()),
        Err(failure) => drop(send.send(Err(failure))),
    }
}

/// Starts a thread.
fn start(work: impl FnOnce() + Send + 'static) -> PyResult<JoinHandle<()>> {
    let thread = Builder::new().name("ut-decoding".to_owned()).spawn(work);
    thread.map_err(|error| PyRuntimeError::new_err(format!("cannot start a thread: {error}")))
}

/// Checks a request. Its inputs may be counted, which takes as long as it takes to read them.
pub fn check(py: Python<'_>, request: Request) -> PyResult<Task> {
    wait_for(py, &AtomicBool::new(false), move || request.check())
}

/// Does something on a thread of its own, without Python's lock, and looks for signals meanwhile. Where a signal ends the
/// wait, `stop` is set, and the thread left behind.
pub fn wait_for<T: Send + 'static>(
    py: Python<'_>,
    stop: &AtomicBool,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let (send, result) = sync_channel(1);
    let result = Mutex::new(result);
    let thread = start(move || {
        // Nobody may wait for it any more.
        let _ = send.send(work());
    })?;
    loop {
        match py.detach(|| result.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LOOK)) {
            Ok(done) => {
                // It is about to end. If the caller forked before that, the child could inherit a lock held forever.
                py.detach(|| thread.join()).map_err(|_| panicked())?;
                return Ok(done?);
            }
            Err(RecvTimeoutError::Timeout) => {
                py.check_signals().inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
            }
            Err(RecvTimeoutError::Disconnected) => return Err(panicked()),
        }
    }
}

/// A job that is on its way.
#[pyclass(frozen)]
pub struct Job {
    pieces: Mutex<Option<Receiver<Result<Piece, Failure>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    stop: Arc<AtomicBool>,
    /// The process that started it.
    process: u32,
}

impl Job {
    /// Whether this is the copy that a fork made: without the thread, and maybe with locks that nobody will open.
    fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    fn start(task: Task, step: Option<u64>) -> PyResult<Self> {
        let stop: Arc<AtomicBool> = Arc::default();
        let (send, pieces) = sync_channel(0);
        let seen = Arc::clone(&stop);
        let thread = start(move || make_pieces(&task, step, &seen, &send))?;
        let process = std::process::id();
        Ok(Self { pieces: Mutex::new(Some(pieces)), thread: Mutex::new(Some(thread)), stop, process })
    }
}

#[pymethods]
impl Job {
    /// Starts a job; `step`: events of a piece, without it all.
    #[new]
    #[pyo3(signature = (request, step = None))]
    fn new(py: Python<'_>, request: Request, step: Option<u64>) -> PyResult<Self> {
        Self::start(check(py, request)?, step)
    }

    /// The next piece, or `None` after the last.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        if self.is_forked() {
            return Err(PyRuntimeError::new_err(
                "these hits are decoded by the process that this one was forked from: call iterate after the fork",
            ));
        }
        loop {
            let found = py.detach(|| {
                let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
                pieces.as_ref().map_or(Err(RecvTimeoutError::Disconnected), |pieces| pieces.recv_timeout(LOOK))
            });
            match found {
                Ok(Ok(piece)) => return piece.into_dict(py).map(Some),
                Ok(Err(failure)) => {
                    self.close();
                    return Err(failure.into());
                }
                Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| self.close())?,
                Err(RecvTimeoutError::Disconnected) => {
                    let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
                    // One that was told to stop may wait for a pipe.
                    let thread = thread.filter(|_| !self.stop.load(Ordering::Relaxed));
                    let ended = thread.map_or(Ok(()), |thread| py.detach(|| thread.join()));
                    return ended.map(|()| None).map_err(|_| panicked());
                }
            }
        }
    }

    /// Ends the job.
    fn close(&self) {
        if self.is_forked() {
            return;
        }
        self.stop.store(true, Ordering::Relaxed);
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if self.is_forked() {
            std::mem::forget(self.pieces.get_mut().unwrap_or_else(PoisonError::into_inner).take());
            std::mem::forget(self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}
