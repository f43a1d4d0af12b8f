//! Calls of the CUDA driver. Types of the bindings, cudarc, do not leave this folder: their next
//! version changes nothing outside.
//!
//! - `error`: the driver's errors; `library`: its facts about the machine;
//! - `context`: a GPU's context, and the memory in it; `stream`: streams and events; `modules`:
//!   compiled kernels.

mod context;
mod error;
mod library;
mod modules;
mod stream;

pub use context::{CudaHost, CudaMemory};
pub use stream::CudaStream;

pub(super) use context::Context;
pub(super) use error::CallError;
pub(super) use library::{Attributes, describe, device_count, is_installed, uuid, version};
pub(super) use modules::{ANY_CARVE_OUT, Function, Handle};
pub(super) use stream::CudaEvent;
