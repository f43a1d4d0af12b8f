//! Errors of the driver's calls.

use std::fmt;

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;

/// A call that the driver refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    /// Purpose of the call, as "the driver failed to …" goes on.
    pub action: &'static str,
    pub message: String,
    /// Is true if there was not enough memory.
    pub out_of_memory: bool,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed to {}: {}", self.action, self.message)
    }
}

impl std::error::Error for CallError {}

impl CallError {
    pub(super) fn new(action: &'static str, code: CUresult) -> Self {
        Self {
            action,
            message: describe(code),
            out_of_memory: code == CUresult::CUDA_ERROR_OUT_OF_MEMORY,
        }
    }

    /// Wraps a message that is not the driver's.
    pub const fn of_message(action: &'static str, message: String) -> Self {
        Self {
            action,
            message,
            out_of_memory: false,
        }
    }
}

pub(super) fn check(action: &'static str, code: CUresult) -> Result<(), CallError> {
    if code == CUresult::CUDA_SUCCESS {
        Ok(())
    } else {
        Err(CallError::new(action, code))
    }
}

fn describe(code: CUresult) -> String {
    let error = DriverError(code);
    let name = error.error_name().map_or_else(
        |_| format!("{code:?}"),
        |name| name.to_string_lossy().into_owned(),
    );
    match error.error_string() {
        Ok(text) => format!("{name} ({})", text.to_string_lossy()),
        Err(_) => name,
    }
}
