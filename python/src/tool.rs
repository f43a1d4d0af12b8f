//! The command `ut-decode`.

use std::ffi::OsString;

use pyo3::prelude::*;
use ut_decoding::cli::{Invocation, main};

/// Runs the tool and returns its exit code. `again`: what starts it again.
#[pyfunction]
pub fn run_tool(py: Python<'_>, again: Vec<OsString>, args: Vec<OsString>) -> u8 {
    py.detach(|| main(&Invocation { again, args }))
}
