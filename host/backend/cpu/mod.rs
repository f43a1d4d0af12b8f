//! The decoder for CPUs.

mod banks;
mod cluster;
mod copy;
mod fast;
mod headers;
mod hits;
mod lanes;
mod make_hits;
mod ordinary;
mod scratch;
mod simd;

use self::fast::{Fast, Unusual};
use self::hits::SharedHits;
use self::lanes::LaneOrder;
use self::ordinary::Ordinary;
use self::scratch::Scratch;
use self::simd::Level;
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
    /// None by name: portable code.
    Scalar,
    /// AVX2.
    Avx2,
    /// AVX-512 F, BW, DQ, VL and VBMI2.
    Avx512,
}

impl Simd {
    /// What `Auto` stands for on this CPU; `None` where the CPU lacks what was asked for.
    pub fn resolve(self) -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        let (avx2, avx512) = (
            is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt"),
            is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vbmi2"),
        );
        #[cfg(not(target_arch = "x86_64"))]
        let (avx2, avx512) = (false, false);
        match self {
            Self::Auto if avx2 && avx512 => Some(Self::Avx512),
            Self::Auto if avx2 => Some(Self::Avx2),
            Self::Auto | Self::Scalar => Some(Self::Scalar),
            Self::Avx2 => avx2.then_some(self),
            Self::Avx512 => (avx2 && avx512).then_some(self),
        }
    }
}

fn level_of(simd: Simd) -> Level {
    match simd {
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512 => simd::avx512::LEVEL,
        _ => simd::portable::LEVEL,
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
pub struct CpuDecoder {
    fast: Fast,
    ordinary: Ordinary,
    scratch: Scratch,
    n_groups: usize,
}

impl CpuDecoder {
    /// A decoder for one detector and one set of options.
    ///
    /// # Errors
    /// When the CPU lacks the instructions that `config.simd` asks for.
    pub fn new(tables: &DetectorTables, options: DecodeOptions, config: CpuConfig) -> Result<Self, DecodeError> {
        let simd = config.simd.resolve().ok_or_else(|| DecodeError::Device {
            backend: "cpu",
            message: format!("this CPU has no {:?} instructions", config.simd),
        })?;
        Ok(Self {
            fast: Fast::new(LaneOrder::new(tables, options), options, level_of(simd)),
            ordinary: Ordinary::new(tables, options),
            scratch: Scratch::new(),
            n_groups: tables.n_groups,
        })
    }
}

impl Decoder for CpuDecoder {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn decode(&mut self, batch: BatchView<'_>, hits: &mut UtHits, report: &mut BatchReport) -> Result<(), DecodeError> {
        report.reset(batch.n_events);
        let mut out = hits.begin(batch.n_events, self.n_groups)?;
        let shared = SharedHits::new(&mut out);
        let capacity = shared.capacity().min(u32::MAX as usize);
        let mut at = 0;
        for (event, report) in report.events.iter_mut().enumerate() {
            let ends = &mut out.offsets[1 + event * self.n_groups..][..self.n_groups];
            self.scratch.begin_chunk();
            let fast = self.fast.front(&mut self.scratch, batch, event, ends, report);
            let too_many = |n: u64| DecodeError::TooManyHits { event, hits: (at as u64 + n) as usize, capacity };
            let n_hits = match fast {
                Ok(n_hits) => n_hits,
                Err(Unusual) => self.ordinary.count(batch, event, ends, report).map_err(too_many)?,
            };
            if n_hits > capacity - at {
                return Err(too_many(n_hits as u64));
            }
            // SAFETY: the arrays are borrowed as `out`, and each event has places of its own.
            let mut hits = unsafe { shared.event(at, n_hits) };
            let done = fast.and_then(|_| self.fast.back(&mut self.scratch, 0, ends, &mut hits));
            if done.is_err() {
                if fast.is_ok() {
                    self.ordinary.count(batch, event, ends, report).map_err(too_many)?;
                }
                self.ordinary.write(batch, event, ends, &mut hits);
            }
            for end in ends {
                *end += at as u32;
            }
            at += n_hits;
        }
        Ok(())
    }
}
