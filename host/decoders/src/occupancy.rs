//! Number of warps that a multiprocessor holds at once, from a kernel's resources: arithmetic,
//! without a device.
//!
//! A block occupies a block slot, its warps' slots, registers and shared memory of one
//! multiprocessor until it ends; whichever runs out first decides. (Hardware barriers could, too,
//! for kernels with several; ours have one.) Rules and limits are from the CUDA programming guide
//! (technical specifications per compute capability) and NVIDIA's `cuda_occupancy.h`:
//! - registers are given to warps, in units of 256, from four partitions of 16384; a launch that
//!   would need more than 65536 for a block, its warps rounded up to four, is refused;
//! - shared memory is given to blocks in units of 128 bytes, with 1 KiB reserved by the system for
//!   each block;
//! - the split between shared memory and L1 cache is taken to be the one with the most shared
//!   memory.

const WARP: u32 = 32;
const MAX_THREADS: u32 = 1024;
const MAX_REGISTERS_PER_THREAD: u32 = 255;
const REGISTERS: u32 = 65536;
const PARTITIONS: u32 = 4;
const REGISTER_UNIT: u32 = 256;
const SHARED_UNIT: u32 = 128;
const SHARED_RESERVED: u32 = 1024;

/// Resources of one multiprocessor of an architecture.
///
/// ```
/// use ut_decoders::occupancy::Architecture;
///
/// let ampere = Architecture::named("sm_86").expect("it is in the list");
/// assert_eq!((ampere.warps, ampere.shared), (48, 100 << 10));
/// // Compute capability 8.7 is not in the list, and runs code for 8.6.
/// assert_eq!(Architecture::newest_up_to(87), Some(ampere));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Architecture {
    /// Name as `ptxas -arch` takes it.
    pub name: &'static str,
    /// Maximum number of resident warps.
    pub warps: u32,
    /// Maximum number of resident blocks.
    pub blocks: u32,
    /// Size of shared memory in bytes.
    pub shared: u32,
}

impl Architecture {
    /// Architectures that the kernels are checked for.
    pub const ALL: [Self; 6] = [
        Self {
            name: "sm_75",
            warps: 32,
            blocks: 16,
            shared: 64 << 10,
        },
        Self {
            name: "sm_80",
            warps: 64,
            blocks: 32,
            shared: 164 << 10,
        },
        Self {
            name: "sm_86",
            warps: 48,
            blocks: 16,
            shared: 100 << 10,
        },
        Self {
            name: "sm_89",
            warps: 48,
            blocks: 24,
            shared: 100 << 10,
        },
        Self {
            name: "sm_90",
            warps: 64,
            blocks: 32,
            shared: 228 << 10,
        },
        Self {
            name: "sm_100",
            warps: 64,
            blocks: 32,
            shared: 228 << 10,
        },
    ];

    /// Finds the architecture of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|arch| arch.name == name)
    }

    /// Finds the newest architecture that is not newer than `capability`: 10 · major + minor.
    pub fn newest_up_to(capability: u32) -> Option<Self> {
        let number = |arch: &Self| {
            arch.name
                .strip_prefix("sm_")
                .and_then(|n| n.parse::<u32>().ok())
        };
        Self::ALL
            .into_iter()
            .rfind(|arch| number(arch).is_some_and(|n| n <= capability))
    }

    /// Computes the blocks and warps of `launch` that a multiprocessor holds.
    pub fn occupancy(&self, launch: Launch) -> Occupancy {
        let Launch {
            threads, registers, ..
        } = launch;
        let warps_per_block = threads.div_ceil(WARP);
        if threads == 0 || threads > MAX_THREADS {
            return Occupancy {
                blocks: 0,
                warps: 0,
                share: 0.0,
                limit: Limit::Threads,
            };
        }
        let by_registers = if registers > MAX_REGISTERS_PER_THREAD {
            0
        } else {
            let per_warp = (registers.max(1) * WARP).next_multiple_of(REGISTER_UNIT);
            let fits = per_warp * warps_per_block.next_multiple_of(PARTITIONS) <= REGISTERS;
            if fits {
                REGISTERS / PARTITIONS / per_warp * PARTITIONS / warps_per_block
            } else {
                0
            }
        };
        let shared_per_block = launch.shared_per_block();
        let limits = [
            (self.warps / warps_per_block, Limit::Warps),
            (self.blocks, Limit::Blocks),
            (by_registers, Limit::Registers),
            (
                shared_per_block.map_or(0, |bytes| self.shared / bytes),
                Limit::Shared,
            ),
        ];
        // Of equal limits the first counts: filled warp slots are the aim.
        let (blocks, limit) = limits
            .into_iter()
            .min_by_key(|&(blocks, _)| blocks)
            .unwrap_or((0, Limit::Warps));
        let warps = blocks * warps_per_block;
        Occupancy {
            blocks,
            warps,
            share: warps as f32 / self.warps as f32,
            limit,
        }
    }

    /// Computes the share of shared memory, in percent, that the resident blocks of `launch` need;
    /// the rest can be L1 cache.
    pub fn carve_out(&self, launch: Launch) -> u32 {
        let blocks = self.occupancy(launch).blocks;
        let bytes = launch
            .shared_per_block()
            .map_or(0, |bytes| u64::from(bytes) * u64::from(blocks));
        (bytes * 100)
            .div_ceil(u64::from(self.shared.max(1)))
            .min(100) as u32
    }
}

/// Multiprocessors of a device, by which the default grids are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiprocessors {
    /// Their number.
    pub number: u32,
    /// Limits of each.
    pub each: Architecture,
}

impl Multiprocessors {
    /// Returns the blocks of a grid with `each` blocks per multiprocessor. 0: as many blocks of
    /// `threads` threads as a multiprocessor has warp and block slots for.
    pub const fn grid(self, each: u32, threads: u32) -> u32 {
        let by_warps = self.each.warps / threads.div_ceil(WARP);
        let slots = if by_warps < self.each.blocks {
            by_warps
        } else {
            self.each.blocks
        };
        let each = if each == 0 { slots } else { each };
        let grid = self.number.saturating_mul(each);
        if grid == 0 { 1 } else { grid }
    }
}

/// Resources that a launch asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// Number of threads per block.
    pub threads: u32,
    /// Number of registers per thread.
    pub registers: u32,
    /// Number of bytes of shared memory per block, static and dynamic.
    pub shared: u32,
}

impl Launch {
    const fn shared_per_block(self) -> Option<u32> {
        self.shared
            .saturating_add(SHARED_RESERVED)
            .checked_next_multiple_of(SHARED_UNIT)
    }
}

/// Blocks and warps of a launch that a multiprocessor holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Occupancy {
    /// Number of blocks at once; 0 if the launch would be refused.
    pub blocks: u32,
    /// Maximum number of resident warps.
    pub warps: u32,
    /// Share of the warps that the multiprocessor can hold, 0…1.
    pub share: f32,
    /// Resource that runs out first.
    pub limit: Limit,
}

/// Resource that runs out first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The block has no thread, or more than a block may have.
    Threads,
    /// All warps of the multiprocessor are in use.
    Warps,
    /// All blocks of the multiprocessor are in use.
    Blocks,
    /// The registers are in use.
    Registers,
    /// The shared memory is in use.
    Shared,
}

impl Limit {
    /// Returns the name as one word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Warps => "warps",
            Self::Blocks => "blocks",
            Self::Registers => "registers",
            Self::Shared => "shared",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_vendors_calculator() {
        // Blocks a multiprocessor, from `cuda_occupancy.h` of CUDA 13 with the whole carve-out for
        // shared memory: (threads, registers, shared), then sm_80, sm_86, sm_89, sm_90.
        let known = [
            ((32, 32, 0), [32, 16, 24, 32]),
            ((64, 32, 0), [32, 16, 24, 32]),
            ((96, 40, 0), [16, 16, 16, 16]),
            ((128, 32, 0), [16, 12, 12, 16]),
            ((128, 40, 0), [12, 12, 12, 12]),
            ((128, 41, 2592), [10, 10, 10, 10]),
            ((128, 53, 0), [9, 9, 9, 9]),
            ((128, 55, 0), [9, 9, 9, 9]),
            ((128, 55, 2592), [9, 9, 9, 9]),
            ((128, 64, 4096), [8, 8, 8, 8]),
            ((128, 255, 0), [2, 2, 2, 2]),
            ((160, 40, 1024), [9, 9, 9, 9]),
            ((160, 56, 0), [7, 7, 7, 7]),
            ((256, 40, 2592), [6, 6, 6, 6]),
            ((256, 80, 0), [3, 3, 3, 3]),
            ((384, 48, 10000), [3, 3, 3, 3]),
            ((512, 40, 0), [3, 3, 3, 3]),
            ((768, 64, 0), [1, 1, 1, 1]),
            ((768, 72, 0), [1, 1, 1, 1]),
            ((1024, 32, 0), [2, 1, 1, 2]),
            ((1024, 40, 4096), [1, 1, 1, 1]),
            ((1024, 64, 0), [1, 1, 1, 1]),
            ((1024, 65, 0), [0, 0, 0, 0]),
            ((128, 16, 49152), [3, 2, 2, 4]),
            ((128, 16, 98304), [1, 1, 1, 2]),
            ((128, 16, 101376), [1, 1, 1, 2]),
            ((128, 16, 166912), [1, 0, 0, 1]),
            ((32, 129, 256), [12, 12, 12, 12]),
        ];
        for ((threads, registers, shared), expected) in known {
            let launch = Launch {
                threads,
                registers,
                shared,
            };
            let blocks = ["sm_80", "sm_86", "sm_89", "sm_90"].map(|name| {
                Architecture::named(name)
                    .expect("it is known")
                    .occupancy(launch)
                    .blocks
            });
            assert_eq!(blocks, expected, "{launch:?}");
        }
    }

    #[test]
    fn a_grid_is_a_multiple_of_the_multiprocessors_and_by_default_fills_their_slots() {
        let device = |name, number| Multiprocessors {
            number,
            each: Architecture::named(name).unwrap(),
        };
        let h200 = device("sm_90", 132);
        assert_eq!(
            (h200.grid(0, 256), h200.grid(0, 32), h200.grid(3, 256)),
            (132 * 8, 132 * 32, 132 * 3)
        );
        let a5000 = device("sm_86", 64);
        assert_eq!(
            (a5000.grid(0, 256), a5000.grid(0, 64), a5000.grid(64, 64)),
            (64 * 6, 64 * 16, 64 * 64)
        );
        assert_eq!(
            (
                device("sm_75", 0).grid(1, 32),
                device("sm_75", u32::MAX).grid(2, 32)
            ),
            (1, u32::MAX)
        );
    }

    #[test]
    fn occupancy_names_the_limiting_resource() {
        let arch = Architecture::named("sm_86").unwrap();
        let of = |threads, registers, shared| {
            arch.occupancy(Launch {
                threads,
                registers,
                shared,
            })
            .limit
        };
        assert_eq!(of(0, 32, 0), Limit::Threads);
        assert_eq!(of(1025, 32, 0), Limit::Threads);
        assert_eq!(of(128, 32, 0), Limit::Warps);
        assert_eq!(of(32, 32, 0), Limit::Blocks);
        assert_eq!(of(128, 53, 0), Limit::Registers);
        assert_eq!(of(128, 32, 20 << 10), Limit::Shared);
    }

    #[test]
    fn the_carve_out_is_exactly_what_the_resident_blocks_need() {
        let needed = |arch, threads, registers, shared| {
            Architecture::named(arch).unwrap().carve_out(Launch {
                threads,
                registers,
                shared,
            })
        };
        // Four blocks of 28 KiB and one reserved: 116 of 228, of 164.
        assert_eq!(
            (
                needed("sm_90", 256, 64, 28 << 10),
                needed("sm_80", 256, 64, 28 << 10)
            ),
            (51, 71)
        );
        assert_eq!(needed("sm_90", 256, 48, 28 << 10), 64);
        // As many as shared memory has room for: nearly all of it.
        assert_eq!(needed("sm_86", 256, 64, 28 << 10), 87);
        assert_eq!(
            (needed("sm_90", 256, 32, 0), needed("sm_90", 1024, 65, 0)),
            (4, 0)
        );
    }
}
