//! Work on threads of our own, while the thread of the caller waits without Python's lock and looks for signals. Where it
//! gives up, it leaves the work behind: a thread that waits for a pipe cannot be woken, and ends with the process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::failure::{Failure, panicked};

/// How often the caller looks for signals.
pub const LOOK: Duration = Duration::from_millis(50);

/// Starts a thread.
pub fn start(work: impl FnOnce() + Send + 'static) -> PyResult<JoinHandle<()>> {
    let thread = Builder::new().name("ut-decoding".to_owned()).spawn(work);
    thread.map_err(|error| PyRuntimeError::new_err(format!("cannot start a thread: {error}")))
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
