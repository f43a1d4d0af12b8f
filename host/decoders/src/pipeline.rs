//! Two sets of kernels that decode on a device.

use super::Backend;
use ut_data::named;

/// Division of the work among device kernels; the bits are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Pipeline {
    /// A kernel for ordinary events, everything in between in shared memory, and one for the others.
    Fused,
    /// Seven kernels in nine launches, as Allen has them.
    #[default]
    Allen,
    /// Five kernels: clusters as records, in the order of the hits; then, once their number is known, the hits.
    Ranked,
}

named!("pipeline" Pipeline: Fused "fused", Allen "allen", Ranked "ranked");

impl Pipeline {
    /// Default kernels: `fused` on a GPU, `allen` in the executor.
    ///
    /// On an H200 `fused` decodes 22.4 M v5 events/s in y-rows where `allen` decodes 6.4 M (`docs/benchmarks.md`). For
    /// v4 and unique-x it issues 4.1 and 1.8 times fewer instructions for a real event, counted in the committed PTX.
    pub fn default_for(backend: Backend) -> Self {
        if backend == Backend::Cuda { Self::Fused } else { Self::Allen }
    }
}
