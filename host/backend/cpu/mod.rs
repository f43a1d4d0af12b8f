//! The decoder for CPUs.

mod banks;
mod ordinary;

use self::ordinary::Ordinary;
use super::{BatchReport, DecodeError, DecodeOptions, Decoder, UtHits};
use crate::detector::DetectorTables;
use crate::input::BatchView;

/// Which vector instructions the decoder uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Simd {
    /// The widest that this CPU has.
    #[default]
    Auto,
    /// None: portable code.
    Scalar,
    /// AVX2.
    Avx2,
    /// AVX-512 F, BW, DQ, VL and VBMI2.
    Avx512,
}

impl Simd {
    /// What `Auto` stands for on this CPU; `None` where the CPU lacks what was asked for.
    pub fn resolve(self) -> Option<Self> {
        match self {
            Self::Auto => Some(Self::Scalar),
            Self::Scalar => Some(self),
            Self::Avx2 | Self::Avx512 => None,
        }
    }
}

/// How a [`CpuDecoder`] works; nothing here changes its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuConfig {
    /// Threads; 0: as many as the machine has cores.
    pub threads: usize,
    /// Vector instructions.
    pub simd: Simd,
    /// Events that a thread takes at a time.
    pub chunk: usize,
}

impl Default for CpuConfig {
    fn default() -> Self {
        Self { threads: 0, simd: Simd::Auto, chunk: 16 }
    }
}

/// Decodes on the CPU.
#[derive(Debug)]
pub struct CpuDecoder {
    ordinary: Ordinary,
    n_groups: usize,
}

impl CpuDecoder {
    /// A decoder for one detector and one set of options.
    ///
    /// # Errors
    /// When the CPU lacks the instructions that `config.simd` asks for.
    pub fn new(tables: &DetectorTables, options: DecodeOptions, config: CpuConfig) -> Result<Self, DecodeError> {
        config.simd.resolve().ok_or_else(|| DecodeError::Device {
            backend: "cpu",
            message: format!("this CPU has no {:?} instructions", config.simd),
        })?;
        Ok(Self { ordinary: Ordinary::new(tables, options), n_groups: tables.n_groups })
    }
}

impl Decoder for CpuDecoder {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn decode(&mut self, batch: BatchView<'_>, hits: &mut UtHits, report: &mut BatchReport) -> Result<(), DecodeError> {
        report.reset(batch.n_events);
        let mut out = hits.begin(batch.n_events, self.n_groups)?;
        let capacity = out.id.len();
        let mut at = 0;
        for event in 0..batch.n_events {
            let n_hits = self.ordinary.count(batch, event, &mut report.events[event]);
            let end = at as u64 + n_hits;
            if end > capacity as u64 {
                return Err(DecodeError::TooManyHits { event, hits: end as usize, capacity });
            }
            self.ordinary.write(batch, event, at, &mut out);
            at = end as usize;
        }
        Ok(())
    }
}
