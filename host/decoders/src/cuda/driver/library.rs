//! Facts about the driver and the machine's GPUs.

use std::sync::OnceLock;

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUresult};
use cudarc::driver::{DriverError, result};

use super::error::{CallError, check};

/// Returns true if `libcuda` can be opened. Nothing else here may be called if it cannot.
pub fn is_installed() -> bool {
    // SAFETY:
    // - Opening a library runs its initialisers: libcuda is the vendor's and is made to be opened
    //   by any program.
    // - It is closed again, and no symbol of it has been used yet through this handle.
    unsafe { sys::is_culib_present() }
}

/// Functions that decoding calls. New enough drivers have them all; a library under the driver's
/// name may not.
const NEEDED: [&str; 38] = [
    "cuCtxGetCurrent",
    "cuCtxGetDevice",
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetUuid_v2",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncGetAttribute",
    "cuFuncGetParamInfo",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAlloc_v2",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemcpy2DAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD32Async",
    "cuModuleGetFunction",
    "cuModuleLoadDataEx",
    "cuModuleUnload",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
];

/// Requires `functions` of the driver, of which cudarc would panic when a missing one is called.
fn require(action: &'static str, functions: &[&str]) -> Result<(), CallError> {
    if !is_installed() {
        return Err(CallError::of_message(
            action,
            "libcuda cannot be opened".to_owned(),
        ));
    }
    // SAFETY: libcuda can be opened; it is never closed.
    let library = unsafe { sys::culib() };
    // SAFETY: the address is looked at as one, and never called.
    let is_missing = |name: &&&str| unsafe { library.get::<*const ()>(name.as_bytes()) }.is_err();
    match functions.iter().find(is_missing) {
        None => Ok(()),
        Some(name) => Err(CallError::of_message(
            action,
            format!("libcuda has no {name}: update the driver"),
        )),
    }
}

/// [Requires](require) the functions for decoding; looks once.
fn require_all(action: &'static str) -> Result<(), CallError> {
    static FOUND: OnceLock<Result<(), CallError>> = OnceLock::new();
    let found = FOUND.get_or_init(|| require(action, &NEEDED));
    found.clone().map_err(|error| CallError { action, ..error })
}

/// Newest CUDA release that the driver knows: 1000 · major + 10 · minor.
pub fn version() -> Result<i32, CallError> {
    let action = "tell its version";
    require(
        action,
        &["cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString"],
    )?;
    let mut version = 0;
    // SAFETY: writes one integer, which is ours; the driver allows this call before `cuInit`.
    check(action, unsafe { sys::cuDriverGetVersion(&raw mut version) })?;
    Ok(version)
}

pub fn device_count() -> Result<usize, CallError> {
    let action = "count its devices";
    require_all(action)?;
    match result::init().and_then(|()| result::device::get_count()) {
        Ok(n) => Ok(usize::try_from(n).unwrap_or(0)),
        // The answer of the initialisation where there is a driver and no device.
        Err(DriverError(CUresult::CUDA_ERROR_NO_DEVICE)) => Ok(0),
        Err(error) => Err(CallError::new(action, error.0)),
    }
}

pub(super) fn device(action: &'static str, ordinal: usize) -> Result<sys::CUdevice, CallError> {
    require_all(action)?;
    let number =
        i32::try_from(ordinal).map_err(|error| CallError::of_message(action, error.to_string()))?;
    let found = result::init().and_then(|()| result::device::get(number));
    found.map_err(|error| CallError::new(action, error.0))
}

/// Name, memory, and attributes (`cuDeviceGetAttribute`) of a device.
pub struct Attributes {
    pub name: String,
    pub memory: usize,
    pub capability: (i32, i32),
    pub multiprocessors: i32,
    pub pci: [Option<u32>; 3],
    pub clock: Option<u32>,
    pub memory_clock: Option<u32>,
    pub memory_bus: Option<u32>,
    pub threads: Option<u32>,
    pub blocks: Option<u32>,
    pub shared: Option<u32>,
}

pub fn describe(ordinal: usize) -> Result<Attributes, CallError> {
    let action = "describe a device";
    let device = device(action, ordinal)?;
    let failed = |error: DriverError| CallError::new(action, error.0);
    // SAFETY: the device handle was given by the driver above, and handles of devices stay valid.
    let number = |which| unsafe { result::device::get_attribute(device, which) };
    let some = |which| {
        number(which)
            .ok()
            .and_then(|value| u32::try_from(value).ok())
    };
    let positive = |which| some(which).filter(|&value| value > 0);
    Ok(Attributes {
        name: result::device::get_name(device).map_err(failed)?,
        // SAFETY: as for `number`: the driver gave this handle, which stays valid.
        memory: unsafe { result::device::total_mem(device) }.map_err(failed)?,
        capability: (
            number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR).map_err(failed)?,
            number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR).map_err(failed)?,
        ),
        multiprocessors: number(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
            .map_err(failed)?,
        pci: [
            Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID,
            Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
            Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID,
        ]
        .map(some),
        clock: positive(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
        memory_clock: positive(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE),
        memory_bus: positive(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH),
        threads: positive(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
        blocks: positive(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR),
        shared: positive(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
    })
}

pub fn uuid(ordinal: usize) -> Result<[u8; 16], CallError> {
    let action = "tell the UUID of a device";
    let device = device(action, ordinal)?;
    let uuid = result::device::get_uuid(device).map_err(|error| CallError::new(action, error.0))?;
    // A C char is signed on some machines.
    Ok(uuid.bytes.map(|byte| byte as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_called_driver_function_is_looked_up_at_start() {
        let sources = [
            include_str!("context.rs"),
            include_str!("library.rs"),
            include_str!("modules.rs"),
            include_str!("stream.rs"),
        ];
        let names = sources
            .iter()
            .flat_map(|text| text.split("sys::cu").skip(1))
            .map(|rest| {
                let end = rest
                    .find(|c: char| !c.is_alphanumeric() && c != '_')
                    .unwrap_or(rest.len());
                format!("cu{}", &rest[..end])
            });
        let known = |name: &str| NEEDED.contains(&name) || name == "cuDriverGetVersion";
        let unknown: Vec<_> = names
            .filter(|name| name != "culib" && !known(name))
            .collect();
        assert_eq!(unknown, ["cu"], "(the one is this test's)");
    }
}
