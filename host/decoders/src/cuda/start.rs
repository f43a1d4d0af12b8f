//! Finds out if a GPU can run the kernels, and says why not and what to do: all that can go wrong before the first
//! launch, in the order in which it would show. `tests/cuda/device.rs` has the cases, on a stand-in for the driver.

use super::driver::{self, Attributes, CallError};
use ut_data::DecodeError;

/// Oldest driver, as `cuDriverGetVersion` counts: 1000 · major + 10 · minor of its CUDA release. 12.4 brought
/// `cuFuncGetParamInfo`, the newest call that is used.
const MIN_DRIVER: i32 = 12040;

/// Oldest compute capability: the target of the PTX.
const MIN_CAPABILITY: (i32, i32) = (7, 5);

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Gpu {
    /// Number among the visible devices.
    pub ordinal: usize,
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (i32, i32),
    /// Bytes of memory.
    pub memory: usize,
    pub multiprocessors: i32,
}

/// Why the kernels cannot run on a GPU here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says it")]
pub enum StartError {
    #[error("there is no NVIDIA driver: libcuda cannot be opened. Install the driver, or decode on the CPU")]
    NoDriver,
    #[error(
        "the NVIDIA driver is too old: it knows CUDA {}, needed is {}. Update the driver, or decode on the CPU",
        release(*found), release(MIN_DRIVER)
    )]
    OldDriver { found: i32 },
    #[error(
        "the NVIDIA driver finds no GPU: see what nvidia-smi says, and whether CUDA_VISIBLE_DEVICES or the container \
         hides it; or decode on the CPU"
    )]
    NoDevice,
    #[error("there is no GPU {ordinal}: the driver finds {found}, numbered from 0")]
    NoSuchDevice { ordinal: usize, found: usize },
    #[error(
        "GPU {}, {}, is of compute capability {}.{}; the kernels need {}.{} (RTX 2080 Ti and newer). Choose another GPU, or \
         decode on the CPU", gpu.ordinal, gpu.name, gpu.capability.0, gpu.capability.1, MIN_CAPABILITY.0, MIN_CAPABILITY.1
    )]
    OldDevice { gpu: Gpu },
    #[error(
        "GPU {}, {}: buffers of {needed} bytes do not fit, {free} bytes are free. Take smaller batches or fewer streams, \
         or see with nvidia-smi who else uses it", gpu.ordinal, gpu.name
    )]
    NoMemory { gpu: Gpu, needed: usize, free: usize },
    #[error(
        "GPU {}, {}: {kernel} cannot run in blocks of {threads} threads: compiled to {registers} registers a thread, it can \
         have at most {most}. Set a smaller block (--set KERNEL.block_x=…), or limit the registers (--set \
         cuda.registers=…)", gpu.ordinal, gpu.name
    )]
    TooManyThreads { gpu: Gpu, kernel: &'static str, threads: u32, most: u32, registers: u32 },
    #[error("the NVIDIA driver {0}")]
    Driver(#[from] CallError),
}

impl From<StartError> for DecodeError {
    fn from(error: StartError) -> Self {
        Self::Device { backend: "cuda", message: error.to_string() }
    }
}

/// Writes a CUDA release as people do: 12.4.
pub(super) fn release(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// Returns the number of devices, at least one.
pub(super) fn check_driver() -> Result<usize, StartError> {
    if !driver::is_installed() {
        return Err(StartError::NoDriver);
    }
    let found = driver::version()?;
    if found < MIN_DRIVER {
        return Err(StartError::OldDriver { found });
    }
    let found = driver::device_count()?;
    if found == 0 { Err(StartError::NoDevice) } else { Ok(found) }
}

/// Describes GPU `ordinal`, if the kernels can run on it.
pub fn choose(ordinal: usize) -> Result<Gpu, StartError> {
    let found = check_driver()?;
    if ordinal >= found {
        return Err(StartError::NoSuchDevice { ordinal, found });
    }
    let Attributes { name, capability, memory, multiprocessors, .. } = driver::describe(ordinal)?;
    let gpu = Gpu { ordinal, name, capability, memory, multiprocessors };
    if capability < MIN_CAPABILITY { Err(StartError::OldDevice { gpu }) } else { Ok(gpu) }
}

impl From<CallError> for DecodeError {
    fn from(error: CallError) -> Self {
        StartError::from(error).into()
    }
}
