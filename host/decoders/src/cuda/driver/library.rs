//! What the driver tells of itself and of the machine's GPUs.

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUresult};
use cudarc::driver::{DriverError, result};

use super::error::{CallError, check};

/// Whether `libcuda` can be opened. Nothing else here may be called where it cannot.
pub fn is_installed() -> bool {
    // SAFETY:
    // - Opening a library runs its initialisers: libcuda is the vendor's and is made to be opened by any program.
    // - It is closed again, and no symbol of it has been used yet through this handle.
    unsafe { sys::is_culib_present() }
}

/// Says why not, where there is no driver: cudarc would panic at the first call.
fn require(action: &'static str) -> Result<(), CallError> {
    if is_installed() { Ok(()) } else { Err(CallError::of_message(action, "libcuda cannot be opened".to_owned())) }
}

/// The newest CUDA release that the driver knows: 1000 · major + 10 · minor.
pub fn version() -> Result<i32, CallError> {
    let action = "tell its version";
    require(action)?;
    let mut version = 0;
    // SAFETY: writes one integer, which is ours; the driver allows this call before `cuInit`.
    check(action, unsafe { sys::cuDriverGetVersion(&raw mut version) })?;
    Ok(version)
}

/// How many GPUs there are to be used.
pub fn device_count() -> Result<usize, CallError> {
    let action = "count its devices";
    require(action)?;
    match result::init().and_then(|()| result::device::get_count()) {
        Ok(n) => Ok(usize::try_from(n).unwrap_or(0)),
        // Initialisation says so where there is a driver and no device.
        Err(DriverError(CUresult::CUDA_ERROR_NO_DEVICE)) => Ok(0),
        Err(error) => Err(CallError::new(action, error.0)),
    }
}

/// The driver's handle of GPU `ordinal`.
pub(super) fn device(action: &'static str, ordinal: usize) -> Result<sys::CUdevice, CallError> {
    require(action)?;
    let number = i32::try_from(ordinal).map_err(|error| CallError::of_message(action, error.to_string()))?;
    let found = result::init().and_then(|()| result::device::get(number));
    found.map_err(|error| CallError::new(action, error.0))
}

/// What `cuDeviceGetAttribute` tells of a device, and its name and memory.
pub struct Attributes {
    /// What it calls itself.
    pub name: String,
    /// Bytes of memory.
    pub memory: usize,
    /// Compute capability, major and minor.
    pub capability: (i32, i32),
    /// Multiprocessors.
    pub multiprocessors: i32,
    /// PCI domain, bus and device.
    pub pci: [Option<u32>; 3],
    /// Highest clock of the multiprocessors, kHz.
    pub clock: Option<u32>,
    /// Highest clock of the memory, kHz.
    pub memory_clock: Option<u32>,
    /// Width of the memory's bus, bits.
    pub memory_bus: Option<u32>,
    /// Most threads of a multiprocessor.
    pub threads: Option<u32>,
    /// Most blocks of a multiprocessor.
    pub blocks: Option<u32>,
    /// Bytes of shared memory of a multiprocessor.
    pub shared: Option<u32>,
}

/// What the driver tells of GPU `ordinal`.
pub fn describe(ordinal: usize) -> Result<Attributes, CallError> {
    let action = "describe a device";
    let device = device(action, ordinal)?;
    let failed = |error: DriverError| CallError::new(action, error.0);
    // SAFETY: the device handle was given by the driver above, and handles of devices stay valid.
    let number = |which| unsafe { result::device::get_attribute(device, which) };
    let some = |which| number(which).ok().and_then(|value| u32::try_from(value).ok());
    let positive = |which| some(which).filter(|&value| value > 0);
    Ok(Attributes {
        name: result::device::get_name(device).map_err(failed)?,
        // SAFETY: as for `number`: the driver gave this handle, which stays valid.
        memory: unsafe { result::device::total_mem(device) }.map_err(failed)?,
        capability: (
            number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR).map_err(failed)?,
            number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR).map_err(failed)?,
        ),
        multiprocessors: number(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).map_err(failed)?,
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

/// The UUID of GPU `ordinal`.
pub fn uuid(ordinal: usize) -> Result<[u8; 16], CallError> {
    let action = "tell the UUID of a device";
    let device = device(action, ordinal)?;
    let uuid = result::device::get_uuid(device).map_err(|error| CallError::new(action, error.0))?;
    // A C char is signed on some machines.
    Ok(uuid.bytes.map(|byte| byte as u8))
}
