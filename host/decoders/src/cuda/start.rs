//! Is there a GPU that can run the kernels, and if not, why not, and what is to be done?
//!
//! Everything that can go wrong before the first launch is found here, in the order in which it would show, and said in
//! words. The questions go through [`Driver`], so that each answer can be tested without a GPU.

use super::driver::{self, CallError};
use crate::DecodeError;

/// Oldest driver, as `cuDriverGetVersion` counts: 1000 · major + 10 · minor of its CUDA release. 12.4 brought
/// `cuFuncGetParamInfo`, the newest call that is used.
const MIN_DRIVER: i32 = 12040;

/// Oldest compute capability: that of the PTX.
const MIN_CAPABILITY: (i32, i32) = (8, 0);

/// What start-up asks of the CUDA driver.
pub trait Driver {
    /// Whether `libcuda` can be opened.
    fn is_installed(&self) -> bool;

    /// The newest CUDA release that the driver knows: 1000 · major + 10 · minor.
    ///
    /// # Errors
    /// What the driver said.
    fn version(&self) -> Result<i32, String>;

    /// How many devices there are to be used.
    ///
    /// # Errors
    /// What the driver said.
    fn n_devices(&self) -> Result<usize, String>;

    /// One of them.
    ///
    /// # Errors
    /// What the driver said.
    fn device(&self, ordinal: usize) -> Result<Gpu, String>;
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Its number among the visible devices.
    pub ordinal: usize,
    /// What it calls itself.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (i32, i32),
    /// Bytes of memory.
    pub memory: usize,
    /// Multiprocessors.
    pub multiprocessors: i32,
}

/// Why the kernels cannot run on a GPU here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// `libcuda` cannot be opened.
    #[error("there is no NVIDIA driver: libcuda cannot be opened. Install the driver, or take --backend cpu")]
    NoDriver,
    /// The driver is older than what is used of it.
    #[error(
        "the NVIDIA driver is too old: it knows CUDA {}, needed is {}. Update the driver, or take --backend cpu",
        release(*found), release(MIN_DRIVER)
    )]
    OldDriver {
        /// What it is, as the driver counts.
        found: i32,
    },
    /// The driver is there, but finds no device.
    #[error(
        "the NVIDIA driver finds no GPU: see what nvidia-smi says, and whether CUDA_VISIBLE_DEVICES or the container \
         hides it; or take --backend cpu"
    )]
    NoDevice,
    /// Another device was asked for than there is.
    #[error("there is no GPU {ordinal}: the driver finds {found}, numbered from 0")]
    NoSuchDevice {
        /// What was requested.
        ordinal: usize,
        /// How many there are.
        found: usize,
    },
    /// The GPU lacks instructions that the kernels use.
    #[error(
        "GPU {}, {}, is of compute capability {}.{}; the kernels need {}.{} (A100 and newer). Choose another GPU, or take \
         --backend cpu", gpu.ordinal, gpu.name, gpu.capability.0, gpu.capability.1, MIN_CAPABILITY.0, MIN_CAPABILITY.1
    )]
    OldDevice {
        /// Which.
        gpu: Gpu,
    },
    /// The buffers do not fit.
    #[error(
        "GPU {}, {}: buffers of {needed} bytes do not fit, {free} bytes are free. Take smaller batches or fewer streams, \
         or see with nvidia-smi who else uses it", gpu.ordinal, gpu.name
    )]
    NoMemory {
        /// Which.
        gpu: Gpu,
        /// Bytes that the declared capacity takes.
        needed: usize,
        /// Bytes that are free.
        free: usize,
    },
    /// A launch parameter asks for larger blocks than the compiled kernel can have on this GPU.
    #[error(
        "GPU {}, {}: {kernel} cannot run in blocks of {threads} threads: compiled to {registers} registers a thread, it can \
         have at most {most}. Set a smaller block (--set KERNEL.block_x=…), or limit the registers (--set \
         cuda.registers=…)", gpu.ordinal, gpu.name
    )]
    TooManyThreads {
        /// Which.
        gpu: Gpu,
        /// The kernel.
        kernel: &'static str,
        /// Threads of a block that were asked for.
        threads: u32,
        /// Most threads that a block can have.
        most: u32,
        /// Registers a thread.
        registers: u32,
    },
    /// Something else that the driver said.
    #[error("the NVIDIA driver failed to {action}: {message}")]
    Driver {
        /// What it was to do.
        action: &'static str,
        /// What it said.
        message: String,
    },
}

impl From<StartError> for DecodeError {
    fn from(error: StartError) -> Self {
        Self::Device { backend: "cuda", message: error.to_string() }
    }
}

/// A CUDA release as people write it.
pub(super) fn release(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// Turns the driver's message into an error that names what it was asked to do.
fn failed_to(action: &'static str) -> impl Fn(String) -> StartError {
    move |message| StartError::Driver { action, message }
}

/// The number of devices, at least one.
///
/// # Errors
/// Without a driver that is new enough, or without a device; the message says which, and what to do.
pub(super) fn check_driver(driver: &impl Driver) -> Result<usize, StartError> {
    if !driver.is_installed() {
        return Err(StartError::NoDriver);
    }
    let found = driver.version().map_err(failed_to("tell its version"))?;
    if found < MIN_DRIVER {
        return Err(StartError::OldDriver { found });
    }
    let found = driver.n_devices().map_err(failed_to("count its devices"))?;
    if found == 0 { Err(StartError::NoDevice) } else { Ok(found) }
}

/// GPU `ordinal`, if the kernels can run on it.
///
/// # Errors
/// When they cannot; the message says why and what to do.
pub fn choose(driver: &impl Driver, ordinal: usize) -> Result<Gpu, StartError> {
    let found = check_driver(driver)?;
    if ordinal >= found {
        return Err(StartError::NoSuchDevice { ordinal, found });
    }
    let gpu = driver.device(ordinal).map_err(failed_to("describe a device"))?;
    if gpu.capability < MIN_CAPABILITY {
        return Err(StartError::OldDevice { gpu });
    }
    Ok(gpu)
}

impl Gpu {
    /// Whether buffers of `needed` bytes fit into the `free` bytes that are left.
    ///
    /// # Errors
    /// When they do not.
    pub fn check_memory(&self, needed: usize, free: usize) -> Result<(), StartError> {
        if needed > free { Err(StartError::NoMemory { gpu: self.clone(), needed, free }) } else { Ok(()) }
    }
}

impl From<CallError> for StartError {
    fn from(error: CallError) -> Self {
        Self::Driver { action: error.action, message: error.message }
    }
}

impl From<CallError> for DecodeError {
    fn from(error: CallError) -> Self {
        StartError::from(error).into()
    }
}

/// The driver of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cuda;

impl Driver for Cuda {
    fn is_installed(&self) -> bool {
        driver::is_installed()
    }

    fn version(&self) -> Result<i32, String> {
        driver::version().map_err(|error| error.message)
    }

    fn n_devices(&self) -> Result<usize, String> {
        driver::device_count().map_err(|error| error.message)
    }

    fn device(&self, ordinal: usize) -> Result<Gpu, String> {
        let found = driver::describe(ordinal).map_err(|error| error.message)?;
        let driver::Attributes { name, capability, memory, multiprocessors, .. } = found;
        Ok(Gpu { ordinal, name, capability, memory, multiprocessors })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine, as the driver would describe it.
    struct Fake {
        installed: bool,
        version: Result<i32, String>,
        devices: Result<Vec<Result<Gpu, String>>, String>,
    }

    impl Driver for Fake {
        fn is_installed(&self) -> bool {
            self.installed
        }

        fn version(&self) -> Result<i32, String> {
            assert!(self.installed, "asked a driver that is not there");
            self.version.clone()
        }

        fn n_devices(&self) -> Result<usize, String> {
            assert!(self.installed, "asked a driver that is not there");
            self.devices.as_ref().map(Vec::len).map_err(Clone::clone)
        }

        fn device(&self, ordinal: usize) -> Result<Gpu, String> {
            self.devices.as_ref().map_err(Clone::clone)?[ordinal].clone()
        }
    }

    fn gpu(ordinal: usize, capability: (i32, i32)) -> Gpu {
        Gpu { ordinal, name: "Fake GPU".to_owned(), capability, memory: 24 << 30, multiprocessors: 64 }
    }

    fn good() -> Fake {
        Fake { installed: true, version: Ok(13000), devices: Ok(vec![Ok(gpu(0, (8, 6))), Ok(gpu(1, (9, 0)))]) }
    }

    fn says(fake: &Fake, ordinal: usize, words: &[&str]) -> StartError {
        let error = choose(fake, ordinal).unwrap_err();
        let text = error.to_string();
        for word in words {
            assert!(text.contains(word), "{text:?} does not say {word:?}");
        }
        error
    }

    #[test]
    fn a_gpu_that_is_new_enough_is_taken() {
        assert_eq!(choose(&good(), 0), Ok(gpu(0, (8, 6))));
        assert_eq!(choose(&good(), 1), Ok(gpu(1, (9, 0))));
        let oldest = Fake { version: Ok(MIN_DRIVER), devices: Ok(vec![Ok(gpu(0, (8, 0)))]), ..good() };
        assert_eq!(choose(&oldest, 0), Ok(gpu(0, (8, 0))));
    }

    #[test]
    fn without_a_driver_nothing_is_asked_of_it() {
        let fake = Fake { installed: false, ..good() };
        assert_eq!(says(&fake, 0, &["no NVIDIA driver", "Install", "--backend cpu"]), StartError::NoDriver);
    }

    #[test]
    fn an_old_driver_is_told_apart_before_devices_are_counted() {
        let fake = Fake { version: Ok(12030), devices: Err("not to be asked".to_owned()), ..good() };
        says(&fake, 0, &["too old", "CUDA 12.3", "needed is 12.4", "Update"]);
    }

    #[test]
    fn a_machine_without_a_gpu_is_no_machine_without_a_driver() {
        let fake = Fake { devices: Ok(Vec::new()), ..good() };
        assert_eq!(says(&fake, 0, &["no GPU", "nvidia-smi", "CUDA_VISIBLE_DEVICES"]), StartError::NoDevice);
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        says(&good(), 2, &["no GPU 2", "finds 2", "from 0"]);
    }

    #[test]
    fn an_old_gpu_is_named_with_what_it_lacks() {
        for capability in [(7, 5), (7, 9)] {
            let fake = Fake { devices: Ok(vec![Ok(gpu(0, capability))]), ..good() };
            says(&fake, 0, &["GPU 0, Fake GPU", &format!("{}.{}", capability.0, capability.1), "need 8.0"]);
        }
    }

    #[test]
    fn an_old_gpu_beside_a_newer_one_keeps_only_itself_from_being_used() {
        let fake = Fake { devices: Ok(vec![Ok(gpu(0, (7, 5))), Ok(gpu(1, (9, 0)))]), ..good() };
        assert_eq!((check_driver(&fake), choose(&fake, 1)), (Ok(2), Ok(gpu(1, (9, 0)))));
        says(&fake, 0, &["GPU 0", "7.5"]);
    }

    #[test]
    fn whatever_else_the_driver_says_is_passed_on_with_what_it_was_to_do() {
        let broken = || "CUDA_ERROR_UNKNOWN".to_owned();
        says(&Fake { version: Err(broken()), ..good() }, 0, &["version", "CUDA_ERROR_UNKNOWN"]);
        says(&Fake { devices: Err(broken()), ..good() }, 0, &["count", "CUDA_ERROR_UNKNOWN"]);
        says(&Fake { devices: Ok(vec![Err(broken())]), ..good() }, 0, &["describe", "CUDA_ERROR_UNKNOWN"]);
    }

    #[test]
    fn buffers_that_do_not_fit_are_refused_before_they_are_asked_for() {
        let gpu = gpu(0, (8, 6));
        assert_eq!(gpu.check_memory(100, 100), Ok(()));
        let text = gpu.check_memory(101, 100).unwrap_err().to_string();
        assert!(text.contains("101 bytes") && text.contains("100 bytes are free") && text.contains("smaller batches"));
    }

    #[test]
    fn the_errors_reach_the_user_of_a_decoder() {
        let error = DecodeError::from(StartError::NoDriver).to_string();
        assert!(error.starts_with("cuda backend: ") && error.contains("no NVIDIA driver"), "{error}");
    }

    #[test]
    fn this_machine_answers_one_way_or_another() {
        match choose(&Cuda, 0) {
            Ok(gpu) => assert!(gpu.capability >= MIN_CAPABILITY && gpu.memory > 0 && gpu.multiprocessors > 0),
            Err(error) => assert_eq!(error == StartError::NoDriver, !Cuda.is_installed(), "{error}"),
        }
    }

    #[test]
    fn where_there_is_no_driver_every_question_has_an_error_for_an_answer() {
        if !Cuda.is_installed() {
            assert!(Cuda.version().is_err() && Cuda.n_devices().is_err() && Cuda.device(0).is_err());
        }
    }
}
