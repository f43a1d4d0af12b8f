//! Status of a call, and a message kept for the calling thread.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use ut_decoding::{DecodeError, TablesError};

/// Result of a call: UT_OK, or one of the errors below. `ut_message()` says more.
pub type UtStatus = i32;

/// The call succeeded.
pub const UT_OK: UtStatus = 0;
/// An argument is wrong: NULL where a pointer is required, misaligned, a value that does not exist,
/// a struct of a size that no version has, arrays that overlap, an event that the batch does not
/// have. Nothing was written.
pub const UT_BAD_ARGUMENT: UtStatus = 1;
/// Boards or geometry cannot be read, or contradict each other or the UT. The message names file,
/// field and byte.
pub const UT_BAD_TABLES: UtStatus = 2;
/// The system refused the memory.
pub const UT_NO_MEMORY: UtStatus = 3;
/// There is no GPU, or none that can run the kernels. The message says why, and what to do.
pub const UT_NO_DEVICE: UtStatus = 4;
/// The results do not fit into the caller's arrays. Ask for the size first, or decode half of the
/// events at a time.
pub const UT_CAPACITY: UtStatus = 5;
/// The driver of the GPU reported a failure. The context may be lost.
pub const UT_DEVICE_FAILED: UtStatus = 6;
/// A bug of this library.
pub const UT_INTERNAL: UtStatus = 7;
/// All banks have another version than the tables. Their versions say so or, if the batch has none,
/// their sizes do. There are no hits.
pub const UT_WRONG_VERSION: UtStatus = 8;

/// Maximum size of a message in bytes, with the terminating 0.
const MESSAGE_BYTES: usize = 1024;

thread_local! {
    /// The message. It is not a `String`, because it may say that memory has run out.
    static MESSAGE: RefCell<[u8; MESSAGE_BYTES]> = const { RefCell::new([0; MESSAGE_BYTES]) };
}

/// Error of a call.
#[derive(Debug)]
pub struct Failure {
    pub status: UtStatus,
    pub message: String,
}

impl Failure {
    pub fn new(status: UtStatus, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    pub fn argument(message: impl Into<String>) -> Self {
        Self::new(UT_BAD_ARGUMENT, message)
    }
}

impl From<TablesError> for Failure {
    fn from(error: TablesError) -> Self {
        Self::new(UT_BAD_TABLES, error.to_string())
    }
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        let status = match error {
            DecodeError::TooManyEvents { .. }
            | DecodeError::TooManyHits { .. }
            | DecodeError::WorkSpace { .. } => UT_CAPACITY,
            DecodeError::NoMemory { .. } => UT_NO_MEMORY,
            DecodeError::OtherVersion { .. } => UT_WRONG_VERSION,
            DecodeError::Device {
                backend: "cuda", ..
            } => UT_DEVICE_FAILED,
            DecodeError::Device { .. } => UT_INTERNAL,
            _ => UT_BAD_ARGUMENT,
        };
        Self::new(status, error.to_string())
    }
}

/// Runs `body` and returns the status of the call. Errors and panics of `body` become statuses.
pub fn guarded(body: impl FnOnce() -> Result<(), Failure>) -> UtStatus {
    static SILENCE: Once = Once::new();
    // The library has a separate Rust runtime, so that the panics of no other code are silenced.
    SILENCE.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let result =
        catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(of_panic(panic.as_ref())));
    match result {
        Ok(()) => UT_OK,
        Err(Failure { status, message }) => {
            keep(&message);
            status
        }
    }
}

fn of_panic(panic: &(dyn Any + Send)) -> Failure {
    let text = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref().cloned());
    Failure::new(
        UT_INTERNAL,
        format!("internal error: {}", text.unwrap_or_default()),
    )
}

/// Keeps a message for the calling thread, cut to fit.
fn keep(message: &str) {
    let _ = MESSAGE.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        let len = message.floor_char_boundary(MESSAGE_BYTES - 1);
        kept[..len].copy_from_slice(&message.as_bytes()[..len]);
        kept[len] = 0;
    });
}

/// Returns the message of this thread's last call that failed: one line, ended by 0, "" before the
/// first. Valid until the thread's next failure; do not free it.
#[unsafe(no_mangle)]
pub extern "C" fn ut_message() -> *const c_char {
    MESSAGE
        .try_with(|message| message.as_ptr().cast_const().cast())
        .unwrap_or(c"".as_ptr())
}
