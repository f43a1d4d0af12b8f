//! Resources of a multiprocessor of an architecture, and the part that the kernels use and fill.

use ut_data::detector::DetectorTables;
use ut_decoders::cuda::Facts;
use ut_decoders::occupancy::{Architecture, Launch, Multiprocessors, Occupancy};
use ut_decoders::parameters::Parameters;
use ut_decoders::plan::{DeviceTables, Plan};
use ut_decoders::ptx::{Kernel, KernelUse, Resources};

/// A kind of multiprocessor, with the resources that each compiled kernel uses.
#[derive(Clone, Debug)]
pub struct Chip {
    /// Name: `sm_86`, or the name of a GPU with its architecture.
    pub name: String,
    /// Resources of one multiprocessor.
    pub architecture: Architecture,
    kernels: Vec<KernelUse>,
}

/// Resources that a launch of a kernel uses and fills.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filled {
    /// Kernel that is launched.
    pub kernel: Kernel,
    /// Number of threads per block.
    pub threads: u32,
    /// Number of registers per thread.
    pub registers: u32,
    /// Number of bytes of shared memory per block.
    pub shared: u32,
    /// Blocks and warps that a multiprocessor holds at once, and the resource that limits them.
    pub occupancy: Occupancy,
}

impl Chip {
    /// Takes an architecture and the committed figures of the kernels.
    pub fn of(architecture: Architecture) -> Self {
        let committed = Resources::committed()
            .map(|resources| resources.kernels)
            .unwrap_or_default();
        let kernels = committed
            .into_iter()
            .filter(|of| of.arch == architecture.name)
            .collect();
        Self {
            name: architecture.name.to_owned(),
            architecture,
            kernels,
        }
    }

    /// Takes the newest known architecture that is not newer than the GPU with these facts. Without
    /// facts, takes the architecture of the merge request's RTX A5000.
    pub fn of_environment(facts: Option<&Facts>) -> Self {
        let Some(gpu) = facts.map(|facts| &facts.gpu) else {
            return Self::of(Architecture::named("sm_86").unwrap_or(Architecture::ALL[0]));
        };
        let (major, minor) = gpu.capability;
        let known = Architecture::newest_up_to(u32::try_from(10 * major + minor).unwrap_or(0));
        let chip = Self::of(known.unwrap_or(Architecture::ALL[0]));
        Self {
            name: format!("{}, as {}", gpu.name, chip.name),
            ..chip
        }
    }

    /// Computes the resources that the kernels of a variant fill at these launch parameters, in the
    /// order of `Kernel`; none for a variant that was not compiled.
    pub fn filled(
        &self,
        variant: &str,
        launch: Parameters,
        tables: &DetectorTables,
    ) -> Vec<Filled> {
        let Ok(tables) = DeviceTables::new("cuda", tables) else {
            return Vec::new();
        };
        let plan = Plan::new(
            &tables,
            launch,
            1,
            Multiprocessors {
                number: 1,
                each: self.architecture,
            },
        );
        let of = |kernel: Kernel| {
            let entry = kernel.entry(variant);
            let usage = self.kernels.iter().find(|of| of.kernel == entry)?;
            let shape = plan.shape(kernel);
            let (threads, registers) = (shape.block.0 * shape.block.1, usage.registers);
            let shared = usage.shared.saturating_add(shape.shared_bytes);
            let occupancy = self.architecture.occupancy(Launch {
                threads,
                registers,
                shared,
            });
            Some(Filled {
                kernel,
                threads,
                registers,
                shared,
                occupancy,
            })
        };
        Kernel::ALL.into_iter().filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ut_data::detector::{BankVersion, Grouping};

    #[test]
    fn the_kernels_of_every_variant_fill_every_architecture() {
        let tables = ut_data::synth::tables(BankVersion::V5, Grouping::default());
        for architecture in Architecture::ALL {
            let chip = Chip::of(architecture);
            for variant in ["v5_allen", "v5_mep", "v5_allen__rung0", "v5_allen__rung6"] {
                let filled = chip.filled(variant, Parameters::default(), &tables);
                assert!(filled.len() >= 7, "{variant}");
                assert!(
                    filled
                        .iter()
                        .all(|of| of.occupancy.blocks > 0 && of.registers > 0 && of.threads >= 32)
                );
            }
            assert_eq!(chip.filled("v6_allen", Parameters::default(), &tables), []);
        }
        let mut launch = Parameters::default();
        launch.set("count.block_x", 64).unwrap();
        let filled = Chip::of(Architecture::ALL[0]).filled("v5_allen", launch, &tables);
        assert_eq!(
            (filled[0].kernel, filled[0].threads),
            (Kernel::CountHits, 64)
        );
    }
}
