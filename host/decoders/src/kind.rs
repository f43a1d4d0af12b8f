//! The backends by name, the one place where a decoder is chosen.

use super::cpu::{CpuDecoder, memory_of_threads};
#[cfg(feature = "cuda")]
use super::cuda::{CudaConfig, CudaDecoder, choose, events_at_once};
#[cfg(feature = "emulated")]
use super::emulated::{EmulatedConfig, EmulatedDecoder};
use super::parameters::{Parameters, cores};
use super::reference::ReferenceDecoder;
use super::{DecodeError, DecodeOptions, Decoder};
use ut_data::detector::DetectorTables;
use ut_data::job::{CHUNK_MEMORY, LARGE_BATCH_SIZE};
use ut_data::{memory, named};

/// Implementation of the decoding.
///
/// ```
/// use ut_data::{BankVersion, DecodeOptions, DetectorTables, Grouping};
/// use ut_decoders::{Backend, Decoder};
///
/// let tables = ut_data::synth::tables(BankVersion::V5, Grouping::YRows);
/// let backend: Backend = "cpu".parse()?;
/// let decoder = backend.decoder(&tables, DecodeOptions::default())?;
/// assert_eq!(decoder.name(), "cpu");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Backend {
    /// Plain, slow and independent: the oracle.
    Reference,
    /// The fast one for CPUs: the one to use.
    #[default]
    Cpu,
    /// Kernels of the GPU, run on the CPU by an executor that checks every access; slow.
    Emulated,
    /// An NVIDIA GPU.
    Cuda,
}

// The decoders have the same names.
named!("backend" Backend: Reference "reference", Cpu "cpu", Emulated "emulated", Cuda "cuda");

impl Backend {
    /// Returns the fastest backend of this machine, and why it is not `cuda`.
    pub fn best() -> (Self, Option<DecodeError>) {
        #[cfg(feature = "cuda")]
        let gpu = choose(0).map_err(DecodeError::from);
        #[cfg(not(feature = "cuda"))]
        let gpu: Result<(), _> = Err(left_out("cuda"));
        match gpu {
            Ok(_) => (Self::Cuda, None),
            Err(error) => (Self::Cpu, Some(error)),
        }
    }

    /// Returns true if the backend runs device kernels, and so has launch parameters.
    pub const fn runs_kernels(self) -> bool {
        matches!(self, Self::Emulated | Self::Cuda)
    }

    /// Returns the default number of events in a batch of a device, or of a measurement: 256; on a
    /// GPU four times as many as the first one clusters at once, if that is more.
    pub fn batch(self) -> usize {
        match self {
            #[cfg(feature = "cuda")]
            Self::Cuda => {
                (4 * events_at_once(0).unwrap_or(0) as usize).clamp(LARGE_BATCH_SIZE, 1 << 20)
            }
            _ => LARGE_BATCH_SIZE,
        }
    }

    /// Makes a decoder of this backend with the default parameters.
    pub fn decoder(
        self,
        tables: &DetectorTables,
        options: DecodeOptions,
    ) -> Result<Box<dyn Decoder>, DecodeError> {
        self.decoder_with(tables, options, &Parameters::default())
    }

    /// Makes a decoder of this backend with these parameters.
    pub fn decoder_with(
        self,
        tables: &DetectorTables,
        options: DecodeOptions,
        parameters: &Parameters,
    ) -> Result<Box<dyn Decoder>, DecodeError> {
        Ok(match self {
            Self::Reference => Box::new(ReferenceDecoder::new(tables, options)),
            Self::Cpu => Box::new(CpuDecoder::with_simd(tables, options, parameters.simd())?),
            #[cfg(not(feature = "emulated"))]
            Self::Emulated => return Err(left_out("emulated")),
            #[cfg(feature = "emulated")]
            Self::Emulated => Box::new(EmulatedDecoder::new(
                tables,
                options,
                EmulatedConfig::of(parameters),
            )?),
            #[cfg(not(feature = "cuda"))]
            Self::Cuda => return Err(left_out("cuda")),
            #[cfg(feature = "cuda")]
            Self::Cuda => Box::new(CudaDecoder::new(
                tables,
                options,
                CudaConfig::of(parameters),
            )?),
        })
    }
}

#[cfg(not(all(feature = "cuda", feature = "emulated")))]
fn left_out(backend: &'static str) -> DecodeError {
    DecodeError::Device {
        backend,
        message: format!("this program was built without the feature `{backend}`"),
    }
}

/// Returns the number of threads, each with a decoder on `backend`, if `asked` were asked for; 0:
/// one per core.
pub fn threads(backend: Backend, asked: usize) -> Result<usize, memory::TooMuchMemory> {
    let n = match (backend, asked) {
        (Backend::Emulated, _) => 1,
        // One reads while the device works for the other.
        (Backend::Cuda, _) => 2,
        (_, 0) => cores(),
        (_, n) => n,
    };
    let needed = memory_of_threads(n) + 2 * n as u64 * CHUNK_MEMORY;
    memory::check(format!("decoding with {n} threads"), needed)?;
    Ok(n)
}
