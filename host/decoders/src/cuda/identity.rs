//! Identity of a GPU, by which stored results are found again.

use super::driver;
use super::start::{Gpu, StartError, choose, release};

/// A GPU, with its UUID and its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuIdentity {
    /// Ordinal, model, compute capability and sizes of the GPU.
    pub gpu: Gpu,
    /// UUID, as `nvidia-smi -L` shows it.
    pub uuid: String,
    /// Newest CUDA release that its driver knows.
    pub release: String,
}

/// Identifies GPU `ordinal`, if the kernels can run on it.
pub fn identify(ordinal: usize) -> Result<GpuIdentity, StartError> {
    let gpu = choose(ordinal)?;
    let version = driver::version()?;
    Ok(GpuIdentity {
        gpu,
        uuid: uuid_text(driver::uuid(ordinal)?),
        release: release(version),
    })
}

fn uuid_text(bytes: [u8; 16]) -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(bytes));
    format!(
        "GPU-{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}
