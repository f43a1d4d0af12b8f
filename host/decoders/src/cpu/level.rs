//! The stages of the fast path, compiled for each level of vector instructions.
//!
//! A function can only use AVX instructions if it is compiled for them, and calling it on a CPU
//! without them is undefined behaviour. So the stages are generic and always inlined, and the macro
//! below wraps them into functions with `target_feature` for each level. A [`Level`] is a table of
//! pointers to such functions. It has a private field, and is made only by [`Level::new`], which
//! asks the CPU first. So a `Level` in hand is the proof that its instructions exist.

use super::policy::NeedsFallback;
use super::prefetch::Prefetch;
use super::scratch::Scratch;
use super::setup::Setup;
use super::simd;
use super::{copy_lanes, find_clusters, find_lanes, make_hits};
use ut_data::detector::BankVersion;
use ut_data::input::BatchView;
use ut_data::{EventReport, UtHitsMut, named};

/// Vector instructions that the decoder uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Simd {
    /// The widest of this CPU.
    #[default]
    Auto,
    /// Portable code.
    Scalar,
    /// AVX2.
    Avx2,
    /// AVX-512 F, BW, DQ, VL and VBMI2.
    Avx512,
}

named!("level" Simd: Auto "auto", Scalar "scalar", Avx2 "avx2", Avx512 "avx512");

impl Simd {
    /// Returns the level to use, with `Auto` replaced by the widest; `None` if this CPU lacks it.
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

/// The stages with the instructions of a level that the CPU has. Calling one requires what the
/// stage itself does.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::type_complexity,
    reason = "signatures that stand in full where the stages are"
)]
pub struct Level {
    pub find_lanes: unsafe fn(
        &Setup,
        &mut Scratch,
        BatchView<'_>,
        (usize, usize),
    ) -> Result<EventReport, NeedsFallback>,
    pub copy_lanes: unsafe fn(&Setup, &mut Scratch, Prefetch) -> Result<usize, NeedsFallback>,
    pub find_clusters: unsafe fn(
        &Setup,
        &mut Scratch,
        usize,
        &mut [u32],
        &mut EventReport,
    ) -> Result<(), NeedsFallback>,
    pub make_hits:
        unsafe fn(&Setup, &mut Scratch, &[u32], &mut UtHitsMut<'_>) -> Result<(), NeedsFallback>,
    /// Only here is a level made, and only one that the CPU has.
    _private: (),
}

impl Level {
    /// Chooses the stages for the widest instructions of this CPU.
    pub fn widest() -> Self {
        Self::new(Simd::Auto).unwrap_or(portable::STAGES)
    }

    /// Chooses the stages for a level; `None` if the CPU lacks its instructions.
    pub fn new(simd: Simd) -> Option<Self> {
        Some(match simd.resolve()? {
            #[cfg(target_arch = "x86_64")]
            Simd::Avx512 => avx512::STAGES,
            #[cfg(target_arch = "x86_64")]
            Simd::Avx2 => avx2::STAGES,
            _ => portable::STAGES,
        })
    }
}

/// Makes `STAGES`: the stages with the instructions of a level switched on.
macro_rules! level {
    ($name:ident, $simd:ty $(, $features:literal)?) => {
        mod $name {
            use super::*;

            pub(super) const STAGES: Level = Level { find_lanes, copy_lanes, find_clusters, make_hits, _private: () };

            /// # Safety
            /// The CPU has the instructions.
            $(#[target_feature(enable = $features)])?
            unsafe fn find_lanes(
                setup: &Setup,
                scratch: &mut Scratch,
                batch: BatchView<'_>,
                events: (usize, usize),
            ) -> Result<EventReport, NeedsFallback> {
                // SAFETY: `new` asks for the level's instructions; the CPU has them, by this
                // function's precondition.
                let s = unsafe { <$simd>::new() };
                super::find_lanes::find_lanes(s, setup, scratch, batch, events)
            }

            /// # Safety
            /// - the CPU has the instructions;
            /// - stage 1 has filled the scratch with the same setup, from a batch that is still
            ///   borrowed.
            $(#[target_feature(enable = $features)])?
            unsafe fn copy_lanes(
                setup: &Setup,
                scratch: &mut Scratch,
                ahead: Prefetch,
            ) -> Result<usize, NeedsFallback> {
                // SAFETY:
                // - the CPU has the instructions, by this function's first precondition;
                // - stage 1 has filled the scratch as required, by its second;
                // - pairs of hits are 4 bytes apart in v4 banks, 32 in v5 banks.
                unsafe {
                    let s = <$simd>::new();
                    match setup.lanes.version {
                        BankVersion::V4 => super::copy_lanes::copy_lanes::<_, 4>(s, setup, scratch, ahead),
                        BankVersion::V5 => super::copy_lanes::copy_lanes::<_, 32>(s, setup, scratch, ahead),
                    }
                }
            }

            /// # Safety
            /// The CPU has the instructions.
            $(#[target_feature(enable = $features)])?
            unsafe fn find_clusters(
                setup: &Setup,
                scratch: &mut Scratch,
                n_strips: usize,
                ends: &mut [u32],
                report: &mut EventReport,
            ) -> Result<(), NeedsFallback> {
                // SAFETY: `new` asks for the level's instructions; the CPU has them, by this
                // function's precondition.
                let s = unsafe { <$simd>::new() };
                super::find_clusters::find_clusters(s, setup, scratch, n_strips, ends, report)
            }

            /// # Safety
            /// - the CPU has the instructions;
            /// - the clusters are as stages 1 to 3 have made them of one event with the same setup.
            $(#[target_feature(enable = $features)])?
            unsafe fn make_hits(
                setup: &Setup,
                scratch: &mut Scratch,
                ends: &[u32],
                hits: &mut UtHitsMut<'_>,
            ) -> Result<(), NeedsFallback> {
                // SAFETY:
                // - the CPU has the instructions, by this function's first precondition;
                // - the clusters are of one event, from stages 1 to 3 with this setup, by its
                //   second. Stage 3 leaves them in the order of the stream, in which stage 2 has
                //   put connected lanes alone, by rank: so the ranks ascend.
                unsafe { super::make_hits::make_hits(<$simd>::new(), setup, scratch, ends, hits) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
level!(
    avx512,
    simd::Avx512,
    "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
);
#[cfg(target_arch = "x86_64")]
level!(avx2, simd::Avx2, "avx2,bmi1,bmi2,lzcnt,popcnt");
level!(portable, simd::Portable);
