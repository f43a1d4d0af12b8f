//! Two sets of kernels that decode on a device.

use std::fmt;
use std::str::FromStr;

use super::Backend;

/// Division of the work among device kernels. Both give the same bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Pipeline {
    /// A kernel for ordinary events, everything in between in shared memory, and one for the others.
    Fused,
    /// Seven kernels in nine launches, as Allen has them.
    #[default]
    Allen,
}

impl Pipeline {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Fused, Self::Allen];

    /// Chooses the kernels where the user chose none: `fused` on a GPU, `allen` in the executor.
    ///
    /// On an H200 `fused` decodes 22.4 M v5 events/s in y-rows where `allen` decodes 6.4 M (`docs/benchmarks.md`). For v4 and
    /// unique-x it is ahead by the instructions that the committed PTX issues for a real event: 4.1 and 1.8 times.
    pub fn default_for(backend: Backend) -> Self {
        if backend == Backend::Cuda { Self::Fused } else { Self::Allen }
    }

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fused => "fused",
            Self::Allen => "allen",
        }
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No pipeline has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no pipeline is called {0:?}; there are fused and allen")]
pub struct UnknownPipeline(pub String);

impl FromStr for Pipeline {
    type Err = UnknownPipeline;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|pipeline| pipeline.name() == name).ok_or_else(|| UnknownPipeline(name.into()))
    }
}
