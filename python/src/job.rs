//! A job: files in, pieces of hits out, on threads that know nothing of Python.

use std::iter::from_fn;
use std::mem::{replace, take};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use ut_decoding::decoder::{Backend, CapacityError};
use ut_decoding::error::WorkError;
use ut_decoding::input::{Damage, Origin, Place, Seen};
use ut_decoding::job::{Decoded, Done, Work};
use ut_decoding::output::{Encoded, Encoder, Rows};
use ut_decoding::{DecodeError, Decoder, UtHits};

use crate::failure::{Failure, panicked};
use crate::pages::{Pool, Spare};
use crate::piece::{Batch, Piece, no_pool};
use crate::request::{HITS_OF_EVENT, Request, Task, check};
use crate::wait::{LOOK, Progress, start};

struct Worker<'a> {
    task: &'a Task,
    decoder: Option<Box<dyn Decoder>>,
    encoder: Option<Encoder>,
    spare: &'a Spare,
}

pub struct Made {
    pub batch: Batch,
    pub encoded: Option<Encoded>,
}

impl Work for Worker<'_> {
    type Made = Made;

    fn reserve(
        &mut self,
        hits: &mut UtHits,
        n_events: usize,
        max_hits: usize,
    ) -> Result<(), CapacityError> {
        if let Some(spare) = self
            .spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop()
        {
            *hits = spare;
        }
        let has_room = hits.stride() >= max_hits && hits.max_events() >= n_events;
        // Makes room for somewhat larger batches to come.
        if has_room {
            Ok(())
        } else {
            hits.try_reserve(n_events, max_hits + max_hits / 4)
        }
    }

    fn decoder(&mut self) -> Result<&mut dyn Decoder, DecodeError> {
        let Self { task, decoder, .. } = self;
        // A job of a few events needs one decoder, however many threads it may have.
        let decoder = match decoder {
            Some(decoder) => decoder,
            None => decoder.insert(task.backend.decoder(&task.tables, task.options)?),
        };
        Ok(&mut **decoder)
    }

    fn make(&mut self, decoded: Decoded<'_>) -> Result<Made, WorkError> {
        let Self { task, encoder, .. } = self;
        let Decoded {
            batch,
            origins,
            hits,
            report,
            ..
        } = decoded;
        // Masked hits are not lost.
        let losses = report.losses(batch.meta, hits).collect();
        let ends = |hits: &UtHits| -> Vec<u32> {
            let n_groups = task.tables.n_groups();
            hits.offsets().iter().copied().step_by(n_groups).collect()
        };
        let before = ends(hits);
        task.mask
            .as_ref()
            .map(|(_, mask)| hits.retain(|id| !mask.contains(id)));
        let left_out = before
            .iter()
            .zip(ends(hits))
            .map(|(before, end)| before - end);
        let left_out: Vec<u32> = left_out.collect();
        let masked = left_out.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let rows = Rows {
            files: &[],
            origins,
            meta: batch.meta,
            hits,
            tables: &task.tables,
        };
        let encoded = encoder
            .as_mut()
            .map(|encoder| encoder.encode(&rows))
            .transpose()?;
        // A file of hits needs no columns.
        let made = if encoded.is_none() {
            task.columns.make(&task.tables, hits)
        } else {
            Vec::new()
        };
        let none = UtHits::try_with_capacity(0, task.tables.n_groups(), 0)?;
        let none = if task.columns.need_clusters() {
            none.try_with_clusters()?
        } else {
            none
        };
        let (origins, meta) = (origins.to_vec(), batch.meta.to_vec());
        let batch = Batch {
            hits: replace(hits, none),
            made,
            reports: take(&mut report.events),
            losses,
            masked,
            origins,
            meta,
        };
        Ok(Made { batch, encoded })
    }
}

/// Does a task: hands each piece's result to `take`, in order, with the bytes read so far, until it
/// returns false.
pub fn run(
    task: &Task,
    stop: &AtomicBool,
    encoder: impl Fn() -> Option<Encoder>,
    mut take: impl FnMut(u64, Result<Done<Made>, Failure>, &Arc<Spare>) -> bool,
) {
    let spare = Arc::new(Spare::default());
    let worker = |_| Worker {
        task,
        decoder: None,
        encoder: encoder(),
        spare: &spare,
    };
    let job = ut_decoding::job::Job {
        parts: task.parts.clone(),
        select: task.select.clone(),
        check: task.check,
        by_file: false,
        layout: None,
        together: matches!(task.backend, Backend::Emulated | Backend::Cuda),
        keep_going: task.keep_going,
        first_place: 0,
        clusters: task.columns.need_clusters(),
        tables: &task.tables,
    };
    let goes_on = || !stop.load(Ordering::Relaxed);
    job.run(
        (0..task.n_workers).map(worker).collect(),
        || goes_on().then_some(task.batch),
        |reached, _, done| {
            goes_on() && take(reached.bytes, done.map_err(Failure::Work), &spare) && goes_on()
        },
    );
}

pub fn give_back(made: impl IntoIterator<Item = Made>, spare: &Spare) {
    let mut spare = spare.lock().unwrap_or_else(PoisonError::into_inner);
    spare.extend(made.into_iter().map(|made| made.batch.hits));
}

struct Pieces<'a> {
    task: &'a Task,
    /// Events of a piece, and the bytes that it takes.
    step: (usize, u64),
    /// True if batches may be pieces as they are.
    lends: bool,
    pool: Weak<Pool>,
    send: &'a SyncSender<Result<Piece, Failure>>,
    piece: Option<Piece>,
    /// Number of hits in the last piece; before the first, the expected number.
    last: usize,
    sent: bool,
    seen: Seen,
}

impl Pieces<'_> {
    fn piece(&mut self) -> Result<&mut Piece, Failure> {
        if self.piece.is_none() {
            let room = self.last + self.last / 16;
            self.piece = Some(Piece::new(
                &self.task.columns,
                self.task.tables.n_groups(),
                room,
                &self.pool,
            )?);
        }
        self.piece
            .as_mut()
            .ok_or_else(|| Failure::Value("no piece".to_owned()))
    }

    /// Sends the piece in hand; returns true if another one is wanted.
    fn flush(&mut self) -> bool {
        let Some(piece) = self.piece.take() else {
            return true;
        };
        self.last = piece.n_hits();
        self.sent = true;
        self.send.send(Ok(piece)).is_ok()
    }

    /// Takes the result of a piece of the inputs; returns true to go on.
    fn take(
        &mut self,
        bytes: u64,
        done: Result<Done<Made>, Failure>,
        spare: &Arc<Spare>,
    ) -> Result<bool, Failure> {
        let Done { mut seen, made, .. } = match done {
            Ok(done) => done,
            Err(failure) if self.task.keep_going && failure.is_of_input() => {
                self.piece()?.failures.push(failure);
                return Ok(true);
            }
            Err(failure) => return Err(failure),
        };
        let task = self.task;
        let mut damages = take(&mut seen.damages).into_iter().peekable();
        self.seen.merge(seen);
        let mut damages_of = |origins: &[Origin]| {
            let mut found = Vec::new();
            for origin in origins {
                let is_of = |(place, _): &(Place, Damage)| {
                    place.event == origin.event
                        && task.names.get(origin.file as usize) == Some(&place.file)
                };
                // Damages come in the order of the events.
                found.extend(from_fn(|| damages.next_if(is_of)));
            }
            found
        };
        for one in made {
            let batch = &one.batch;
            let (mut next, n) = (0, batch.origins.len());
            task.progress.add(n as u64, bytes);
            if self.piece.is_none() && self.is_piece(batch) {
                let damages = damages_of(&batch.origins);
                let mut piece =
                    Piece::of_batch(&task.columns, task.tables.n_groups(), one.batch, spare);
                piece.damages = damages;
                self.piece = Some(piece);
                if !self.flush() {
                    return Ok(false);
                }
                continue;
            }
            while next < n {
                let step = self.step;
                let piece = self.piece()?;
                let end = piece.end(&task.columns, batch, next, step.0, step.1);
                piece.append(batch, next..end)?;
                piece
                    .damages
                    .append(&mut damages_of(&batch.origins[next..end]));
                next = end;
                // Where an event does not fit any more, the piece is full.
                if (piece.n_events() == step.0 || end < n) && !self.flush() {
                    return Ok(false);
                }
            }
            give_back([one], spare);
        }
        Ok(true)
    }

    /// Returns true if a batch becomes a piece as it is, without a copy of its hits, which would
    /// take a fifth of the time.
    fn is_piece(&self, batch: &Batch) -> bool {
        let (columns, n) = (&self.task.columns, batch.origins.len());
        let bytes = columns.bytes(self.task.tables.n_groups(), n, batch.hits.len());
        self.lends
            && n > 0
            && columns.keep_most()
            && (self.step.1 / 16..=self.step.1).contains(&bytes)
    }
}

/// Does a task, and sends its hits in pieces of at most as many events and bytes as `step` says;
/// where it is true, a batch that fits and is not much smaller is a piece.
fn make_pieces(
    task: &Task,
    step: Option<(u64, u64, bool)>,
    stop: &AtomicBool,
    send: &SyncSender<Result<Piece, Failure>>,
) {
    let pool: Arc<Pool> = Arc::default();
    let mut pieces = Pieces {
        task,
        step: step.map_or((usize::MAX, u64::MAX), |(events, bytes, _)| {
            (events.max(1) as usize, bytes)
        }),
        lends: step.is_some_and(|(.., lends)| lends),
        pool: if step.is_some() {
            Arc::downgrade(&pool)
        } else {
            no_pool()
        },
        send,
        piece: None,
        // Room that is not written takes no memory; to move a column would cost it its huge pages.
        last: step.map_or(task.hits, |(events, bytes, _)| {
            let most = events
                .saturating_mul(HITS_OF_EVENT)
                .min(bytes / task.columns.size().max(1));
            task.hits.min(most as usize)
        }),
        sent: false,
        seen: Seen::default(),
    };
    let mut failed = None;
    run(
        task,
        stop,
        || None,
        |bytes, done, spare| match pieces.take(bytes, done, spare) {
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
    let failed = failed.or_else(|| task.check_events(&pieces.seen).err());
    if let Some(failure) = failed {
        // Without steps, the caller gets the error instead of hits; else after the hits before it.
        if step.is_none() || pieces.flush() {
            let _ = send.send(Err(failure));
        }
        return;
    }
    // There is always a piece, so that the columns are known.
    let result = if pieces.sent {
        Ok(())
    } else {
        pieces.piece().map(|_| ())
    };
    match result {
        Ok(()) => drop(pieces.flush()),
        Err(failure) => drop(send.send(Err(failure))),
    }
}

/// A job that is on its way.
#[pyclass(frozen)]
pub struct Job {
    pieces: Mutex<Option<Receiver<Result<Piece, Failure>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    stop: Arc<AtomicBool>,
    progress: Arc<Progress>,
    /// The process that started the job.
    process: u32,
}

impl Job {
    /// Returns true if this is the copy that a fork made: without the thread, and maybe with locks
    /// that stay closed.
    fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    /// Reports how far the job has come; if the listener raises, the job ends.
    fn tell(&self, py: Python<'_>, ended: bool) -> PyResult<()> {
        self.progress.tell(py, ended).inspect_err(|_| self.close())
    }

    fn start(task: Task, step: Option<(u64, u64, bool)>) -> PyResult<Self> {
        let stop: Arc<AtomicBool> = Arc::default();
        let (send, pieces) = sync_channel(0);
        let (seen, progress) = (Arc::clone(&stop), Arc::clone(&task.progress));
        let thread = start(move || make_pieces(&task, step, &seen, &send))?;
        let process = std::process::id();
        Ok(Self {
            pieces: Mutex::new(Some(pieces)),
            thread: Mutex::new(Some(thread)),
            stop,
            progress,
            process,
        })
    }
}

#[pymethods]
impl Job {
    /// Starts a job; `step`: events and bytes of a piece, and whether batches may be pieces;
    /// without it all.
    #[new]
    #[pyo3(signature = (request, step = None))]
    fn new(py: Python<'_>, request: Request, step: Option<(u64, u64, bool)>) -> PyResult<Self> {
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
                pieces
                    .as_ref()
                    .map_or(Err(RecvTimeoutError::Disconnected), |pieces| {
                        pieces.recv_timeout(LOOK)
                    })
            });
            match found {
                Ok(Ok(piece)) => {
                    self.tell(py, false)?;
                    return piece.into_dict(py).map(Some);
                }
                Ok(Err(failure)) => {
                    self.close();
                    return Err(failure.into());
                }
                Err(RecvTimeoutError::Timeout) => {
                    py.check_signals().inspect_err(|_| self.close())?;
                    self.tell(py, false)?;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let thread = self
                        .thread
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .take();
                    // A thread that was stopped may still wait for a pipe.
                    let thread = thread.filter(|_| !self.stop.load(Ordering::Relaxed));
                    let ended = thread.map_or(Ok(()), |thread| py.detach(|| thread.join()));
                    ended.map_err(|_| panicked())?;
                    return self.tell(py, true).map(|()| None);
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
        self.pieces
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if self.is_forked() {
            std::mem::forget(
                self.pieces
                    .get_mut()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take(),
            );
            std::mem::forget(
                self.thread
                    .get_mut()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take(),
            );
        }
    }
}
