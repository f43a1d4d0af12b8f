//! Which of two sets of kernels decodes on a device.

use std::fmt;
use std::str::FromStr;

use super::Backend;
use ut_data::detector::{BankVersion, DetectorTables, Grouping};

/// How the device kernels divide the work. Both give the same bits.
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

    /// The kernels that run where nobody chose: on a GPU `fused` for v5 banks in y-rows, `allen` for everything else.
    ///
    /// No GPU has measured either. Counts of instructions, and a cycle-level model that ran the committed PTX, have `fused`
    /// 2.4 to 2.8 times ahead for v5 in y-rows; for v4 the model has it 1.4 times ahead, for unique-x behind (0.7).
    pub fn default_for(backend: Backend, tables: &DetectorTables) -> Self {
        match (backend, tables.boards().version, tables.grouping()) {
            (Backend::Cuda, BankVersion::V5, Grouping::YRows) => Self::Fused,
            _ => Self::Allen,
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use ut_data::synth;

    #[test]
    fn a_gpu_runs_the_fused_kernels_for_v5_in_y_rows_alone() {
        for version in [BankVersion::V4, BankVersion::V5] {
            for grouping in Grouping::ALL {
                let (boards, geometry) = synth::detector(version, 1);
                let tables = DetectorTables::new(boards, geometry, grouping).unwrap();
                for backend in Backend::ALL {
                    let is_fused = Pipeline::default_for(backend, &tables) == Pipeline::Fused;
                    let expected =
                        backend == Backend::Cuda && version == BankVersion::V5 && grouping == Grouping::YRows;
                    assert_eq!(is_fused, expected, "{backend}, {version:?}, {grouping:?}");
                }
            }
        }
    }
}
