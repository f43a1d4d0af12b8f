//! Resources of the kernels on each architecture, as committed or measured with the installed
//! `ptxas`.
//!
//! The driver compiles the PTX on the user's machine, and only it knows the registers there. The
//! committed figures, of `ptxas` on every architecture, let tests without a GPU say that no kernel
//! spills and that enough blocks are resident, and `ut-decode kernels` prints them anywhere.

use std::path::Path;

use super::{Kernel, Unit};
use crate::occupancy::{Architecture, Launch, Occupancy};
use simt::ptx::{ARCHS, Ptxas};
use ut_kernels::ptx::RESOURCES;

/// Registers, shared memory and barriers of every kernel on every architecture.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Resources {
    /// Version of the `ptxas` that gave the figures, such as `V13.0.88`.
    pub ptxas: String,
    /// By unit, architecture and kernel.
    pub kernels: Vec<KernelUse>,
}

/// Resources of one kernel on one architecture.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[expect(missing_docs, reason = "as in `simt::ptx::Usage`")]
pub struct KernelUse {
    pub unit: String,
    pub kernel: String,
    pub arch: String,
    pub registers: u32,
    pub stack: u32,
    pub spill_stores: u32,
    pub spill_loads: u32,
    pub shared: u32,
    pub barriers: u32,
}

const NO_PTXAS: &str = "ptxas was not found in UT_DECODE_PTXAS, target/ptx-tools/bin, CUDA_HOME and PATH; \
     kernels/install-ptx-tools.sh installs it";

impl Resources {
    /// Reads the committed resources; `docs/ptx.md` says how they are made.
    pub fn committed() -> Result<Self, String> {
        serde_json::from_str(RESOURCES)
            .map_err(|error| format!("kernels/ptx/resources.json: {error}"))
    }

    /// Measures the embedded PTX with the installed `ptxas`.
    pub fn measured() -> Result<Self, String> {
        let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/ptx-tools/bin");
        let ptxas = Ptxas::find("UT_DECODE_PTXAS", &installed).ok_or(NO_PTXAS)?;
        // A new folder for this process: no file is overwritten.
        let folder = std::env::temp_dir().join(format!("ut-decode-ptxas-{}", std::process::id()));
        let failed = |error| format!("a folder for ptxas to work in: {error}");
        std::fs::create_dir(&folder).map_err(failed)?;
        let measured = Self::measure(&ptxas, &folder);
        std::fs::remove_dir_all(&folder).map_err(failed)?;
        measured
    }

    fn measure(ptxas: &Ptxas, folder: &Path) -> Result<Self, String> {
        let mut kernels = Vec::new();
        for unit in Unit::all() {
            for arch in ARCHS {
                for usage in ptxas.assemble(unit.text, arch, folder)? {
                    kernels.push(KernelUse {
                        unit: unit.name.to_owned(),
                        kernel: usage.kernel,
                        arch: arch.to_owned(),
                        registers: usage.registers,
                        stack: usage.stack,
                        spill_stores: usage.spill_stores,
                        spill_loads: usage.spill_loads,
                        shared: usage.shared,
                        barriers: usage.barriers,
                    });
                }
            }
        }
        Ok(Self {
            ptxas: ptxas.version()?,
            kernels,
        })
    }

    /// Finds the resources of a variant's kernel on an architecture.
    pub fn of(&self, kernel: Kernel, variant: &str, arch: &str) -> Option<&KernelUse> {
        let entry = kernel.entry(variant);
        self.kernels
            .iter()
            .find(|of| of.kernel == entry && of.arch == arch)
    }
}

impl KernelUse {
    /// Occupancy in blocks of `threads` threads with `dynamic_shared` bytes; `None` on an unknown
    /// architecture.
    pub fn occupancy(&self, threads: u32, dynamic_shared: u32) -> Option<Occupancy> {
        let shared = self.shared.saturating_add(dynamic_shared);
        Some(Architecture::named(&self.arch)?.occupancy(Launch {
            threads,
            registers: self.registers,
            shared,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::occupancy::Multiprocessors;
    use crate::parameters::Parameters;
    use crate::plan::{DeviceTables, Plan, UNUSUAL_THREADS, events_at_once};
    use ut_data::detector::Grouping;

    #[test]
    fn every_kernel_of_every_module_has_figures_on_every_architecture() {
        let committed = Resources::committed().unwrap();
        for unit in Unit::PRODUCTION.into_iter().chain(Unit::RANKED) {
            for (kernel, arch) in unit
                .kernels()
                .iter()
                .flat_map(|&k| ARCHS.map(|arch| (k, arch)))
            {
                let found = committed.of(kernel, unit.name, arch).unwrap();
                assert!(
                    found.unit == unit.name && found.occupancy(128, 0).unwrap().blocks > 0,
                    "{found:?}"
                );
            }
        }
        let ladder = committed
            .kernels
            .iter()
            .filter(|of| of.unit == Unit::LADDER.name)
            .count();
        assert_eq!(ladder, ARCHS.len() * (7 * Kernel::ALLEN.len() + 1));
    }

    #[test]
    fn only_kernels_with_a_register_limit_spill_and_only_a_few_words() {
        let kernels = Resources::committed().unwrap().kernels;
        let few = |of: &&KernelUse| {
            of.kernel.starts_with("cluster__") && of.stack <= 16 && of.spill_loads <= 64
        };
        let spills = |of: &&KernelUse| of.stack + of.spill_stores + of.spill_loads > 0;
        let dirty: Vec<_> = kernels.iter().filter(|of| spills(of) && !few(of)).collect();
        assert!(dirty.is_empty(), "{dirty:#?}");
    }

    /// Limits of compute capability 12.0, for which there are no figures: the driver compiles for
    /// it as for sm_100.
    const SM_120: Architecture = Architecture {
        name: "sm_120",
        warps: 48,
        blocks: 24,
        shared: 100 << 10,
    };

    #[test]
    fn the_ranked_kernels_fill_the_multiprocessors_of_every_architecture() {
        let committed = Resources::committed().unwrap();
        for (each, most) in Architecture::ALL
            .into_iter()
            .chain([SM_120])
            .zip([4, 6, 6, 6, 6, 6, 6])
        {
            let arch = if each == SM_120 { "sm_100" } else { each.name };
            let device = Multiprocessors { number: 1, each };
            assert_eq!(events_at_once(device), most, "{}", each.name);
            for unit in Unit::RANKED {
                let tables = ut_data::synth::tables(unit.version, Grouping::UniqueX);
                let plan = Plan::new(
                    &DeviceTables::new("cuda", &tables).unwrap(),
                    Parameters::default(),
                    1 << 16,
                    device,
                );
                let blocks = |kernel: Kernel| {
                    let (of, shape) = (
                        committed.of(kernel, unit.name, arch).unwrap(),
                        plan.shape(kernel),
                    );
                    let (threads, registers) = (shape.block.0, of.registers);
                    each.occupancy(Launch {
                        threads,
                        registers,
                        shared: of.shared + shape.shared_bytes,
                    })
                    .blocks
                };
                // (Blocks of 256 threads: four fill the slots of sm_75.)
                assert_eq!(
                    blocks(Kernel::Cluster),
                    most,
                    "{} on {}",
                    unit.name,
                    each.name
                );
                assert!(
                    blocks(Kernel::MakeHits) >= most.min(5),
                    "{} on {}",
                    unit.name,
                    each.name
                );
                assert!(
                    blocks(Kernel::ClusterUnusual) >= 2,
                    "{} on {}",
                    unit.name,
                    each.name
                );
                assert!(
                    blocks(Kernel::SortGroups) >= 2,
                    "{} on {}",
                    unit.name,
                    each.name
                );
            }
        }
    }

    #[test]
    fn on_sm_80_the_clustering_kernel_uses_40_registers_and_fewer_than_with_32_bit_sums() {
        let committed = Resources::committed().unwrap();
        for arch in ARCHS {
            let registers = |variant| {
                committed
                    .of(Kernel::ClusterAndPredecode, variant, arch)
                    .unwrap()
                    .registers
            };
            for unit in Unit::PRODUCTION {
                assert!(registers(unit.name) <= 40, "{} on {arch}", unit.name);
            }
            // (On sm_90 and sm_100 ptxas takes one register more.)
            assert!(registers("v5_allen") <= registers(Unit::WIDE) + 1, "{arch}");
        }
        let on_sm_80 = |variant| {
            committed
                .of(Kernel::ClusterAndPredecode, variant, "sm_80")
                .unwrap()
                .registers
        };
        assert!(on_sm_80("v5_allen") < on_sm_80(Unit::WIDE));
    }

    #[test]
    fn every_kernel_can_be_launched_with_its_largest_blocks() {
        for of in Resources::committed().unwrap().kernels {
            let (kernel, _) = Kernel::of_entry(&of.kernel).unwrap();
            let shared = kernel.shared_bytes(ut_kernels::detector::BankVersion::V5, 240, 84);
            let threads = match kernel {
                Kernel::ClusterUnusual | Kernel::SortGroups => UNUSUAL_THREADS,
                Kernel::Cluster => ut_kernels::ranked::THREADS,
                Kernel::MakeHits => ut_kernels::ranked::HITS_THREADS,
                _ => 1024,
            };
            assert!(
                of.occupancy(threads, shared).unwrap().blocks > 0,
                "{} on {}",
                of.kernel,
                of.arch
            );
        }
    }
}
