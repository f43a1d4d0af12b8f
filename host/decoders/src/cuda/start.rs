//! Finds out if a GPU can run the kernels, and says why not and what to do: all that can go wrong
//! before the first launch, in the order in which it would show. `tests/cuda/device.rs` has the
//! cases, on a stand-in for the driver.

use super::driver::{self, Attributes, CallError};
use ut_data::DecodeError;
use ut_data::error::ErrorKind;

/// Oldest driver, as `cuDriverGetVersion` counts: 1000 · major + 10 · minor of its CUDA release.
/// 12.4 brought `cuFuncGetParamInfo`, the newest call that is used.
const MIN_DRIVER: i32 = 12040;

/// Oldest compute capability: the target of the PTX.
const MIN_CAPABILITY: (i32, i32) = (7, 5);

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Number among the visible devices.
    pub ordinal: usize,
    /// Model, as the driver names it: `NVIDIA H200`.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (i32, i32),
    /// Size of the memory in bytes.
    pub memory: usize,
    /// Number of streaming multiprocessors; a slice of a GPU has fewer.
    pub multiprocessors: i32,
}

/// Reason why the kernels cannot run on a GPU here, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StartError(pub(super) String);

impl StartError {
    /// Returns the kind: [`ErrorKind::Device`].
    pub const fn kind(&self) -> ErrorKind {
        ErrorKind::Device
    }
}

impl From<CallError> for StartError {
    fn from(error: CallError) -> Self {
        Self(format!("the NVIDIA driver {error}"))
    }
}

impl From<StartError> for DecodeError {
    fn from(error: StartError) -> Self {
        Self::Device {
            backend: "cuda",
            message: error.0,
        }
    }
}

/// Writes a CUDA release as people do: 12.4.
pub(super) fn release(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// Returns the number of devices, at least one.
pub(super) fn check_driver() -> Result<usize, StartError> {
    let refuse = |why: String| Err(StartError(why));
    if !driver::is_installed() {
        let why = "there is no NVIDIA driver: libcuda cannot be opened. Install the driver, or decode on the CPU";
        return refuse(why.to_owned());
    }
    let found = driver::version()?;
    if found < MIN_DRIVER {
        let (found, needed) = (release(found), release(MIN_DRIVER));
        return refuse(format!(
            "the NVIDIA driver is too old: it supports CUDA {found}, but {needed} is needed. \
             Update the driver, or decode on the CPU"
        ));
    }
    match driver::device_count()? {
        0 => refuse(
            "the NVIDIA driver finds no GPU: see what nvidia-smi says, and whether CUDA_VISIBLE_DEVICES or the container \
             hides it; or decode on the CPU"
                .to_owned(),
        ),
        found => Ok(found),
    }
}

/// Describes GPU `ordinal`, if the kernels can run on it.
pub fn choose(ordinal: usize) -> Result<Gpu, StartError> {
    let found = check_driver()?;
    if ordinal >= found {
        return Err(StartError(format!(
            "there is no GPU {ordinal}: the driver finds {found}, numbered from 0"
        )));
    }
    let Attributes {
        name,
        capability,
        memory,
        multiprocessors,
        ..
    } = driver::describe(ordinal)?;
    if capability < MIN_CAPABILITY {
        let ((major, minor), needed) = (capability, MIN_CAPABILITY);
        return Err(StartError(format!(
            "GPU {ordinal}, {name}, is of compute capability {major}.{minor}; the kernels need {}.{} (RTX 2080 Ti and \
             newer). Choose another GPU, or decode on the CPU",
            needed.0, needed.1
        )));
    }
    Ok(Gpu {
        ordinal,
        name,
        capability,
        memory,
        multiprocessors,
    })
}

impl From<CallError> for DecodeError {
    fn from(error: CallError) -> Self {
        StartError::from(error).into()
    }
}
