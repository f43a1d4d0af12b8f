//! Work on threads of our own, while the thread of the caller waits without Python's lock and looks
//! for signals. Where it gives up, it leaves the work behind: a thread that waits for a pipe cannot
//! be woken, and ends with the process.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::failure::{Failure, panicked};

/// Interval at which the caller looks for signals.
pub const LOOK: Duration = Duration::from_millis(50);

/// Progress of a job, and its listener.
pub struct Progress {
    listener: Option<Py<PyAny>>,
    /// Bytes of all inputs, where they are known.
    total: Option<u64>,
    events: AtomicU64,
    bytes: AtomicU64,
}

impl Progress {
    pub const fn new(listener: Option<Py<PyAny>>, total: Option<u64>) -> Self {
        Self {
            listener,
            total,
            events: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Adds events, and sets the bytes so far.
    pub fn add(&self, events: u64, bytes: u64) {
        self.events.fetch_add(events, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Calls the listener with the number of events and the share of the bytes, 1 at the end.
    pub fn tell(&self, py: Python<'_>, ended: bool) -> PyResult<()> {
        let Some(listener) = &self.listener else {
            return Ok(());
        };
        let bytes = self.bytes.load(Ordering::Relaxed);
        let share = self.total.map(|total| {
            if ended {
                1.0
            } else {
                (bytes as f64 / total.max(1) as f64).min(1.0)
            }
        });
        listener
            .call1(py, (self.events.load(Ordering::Relaxed), share))
            .map(drop)
    }
}

pub fn start(work: impl FnOnce() + Send + 'static) -> PyResult<JoinHandle<()>> {
    let thread = Builder::new().name("ut-decoding".to_owned()).spawn(work);
    thread.map_err(|error| PyRuntimeError::new_err(format!("cannot start a thread: {error}")))
}

/// Runs a function on a new thread, without Python's lock, and looks for signals meanwhile. If a
/// signal ends the wait, or the listener to the progress raises, `stop` is set and the thread is
/// left behind.
pub fn wait_for<T: Send + 'static>(
    py: Python<'_>,
    stop: &AtomicBool,
    progress: Option<&Progress>,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let (send, result) = sync_channel(1);
    let result = Mutex::new(result);
    let thread = start(move || {
        // The waiting thread may have gone.
        let _ = send.send(work());
    })?;
    loop {
        match py.detach(|| {
            result
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .recv_timeout(LOOK)
        }) {
            Ok(done) => {
                // It is about to end. If the caller forked before that, the child could inherit a
                // lock held forever.
                py.detach(|| thread.join()).map_err(|_| panicked())?;
                let done = done?;
                return progress
                    .map_or(Ok(()), |progress| progress.tell(py, true))
                    .map(|()| done);
            }
            Err(RecvTimeoutError::Timeout) => {
                let told = || progress.map_or(Ok(()), |progress| progress.tell(py, false));
                py.check_signals()
                    .and_then(|()| told())
                    .inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
            }
            Err(RecvTimeoutError::Disconnected) => return Err(panicked()),
        }
    }
}
