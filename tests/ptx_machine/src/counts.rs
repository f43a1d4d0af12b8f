//! Counts the cost of a block: instructions, accesses, bank conflicts, sectors.

use std::collections::HashMap;

use super::parse::Space;

/// Size of a sector of global memory in bytes.
const SECTOR: u64 = 32;

/// Number of banks of shared memory; each is four bytes wide.
const BANKS: u64 = 32;

/// Counts of one block, or the sum of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of instructions that warps issue, if lanes that diverge converge again at once.
    pub issued: u64,
    /// Length of the critical path: the largest number that one warp issues between two barriers,
    /// summed over the block.
    pub path: u64,
    /// Number of instructions that lanes execute.
    pub lanes: u64,
    /// Number of barriers that the block passes.
    pub barriers: u64,
    /// Number of accesses to shared memory, each counted once per warp.
    pub shared: u64,
    /// Number of additional passes for these accesses, because of bank conflicts.
    pub conflicts: u64,
    /// Number of sectors of global memory, summed over accesses of warps.
    pub sectors: u64,
}

impl Counts {
    /// Adds the counts of another block.
    pub const fn add(&mut self, other: &Self) {
        self.issued += other.issued;
        self.path += other.path;
        self.lanes += other.lanes;
        self.barriers += other.barriers;
        self.shared += other.shared;
        self.conflicts += other.conflicts;
        self.sectors += other.sectors;
    }
}

/// Accesses of a warp since its last collective. Lanes that execute the same line for the same time
/// share one access.
#[derive(Default)]
pub struct Accesses(HashMap<(usize, u32), Access>);

struct Access {
    space: Space,
    bytes: usize,
    addresses: Vec<(usize, u64)>,
}

impl Accesses {
    pub fn add(
        &mut self,
        space: Space,
        pc: usize,
        visit: u32,
        lane: usize,
        address: u64,
        bytes: usize,
    ) {
        let access = self.0.entry((pc, visit)).or_insert_with(|| Access {
            space,
            bytes,
            addresses: Vec::new(),
        });
        access.addresses.push((lane, address));
    }

    /// Adds the accesses to `counts`, and forgets them.
    pub fn count(&mut self, counts: &mut Counts) {
        for (_, access) in self.0.drain() {
            match access.space {
                Space::Global => {
                    let mut sectors: Vec<_> = access
                        .addresses
                        .iter()
                        .map(|&(_, address)| address / SECTOR)
                        .collect();
                    sectors.sort_unstable();
                    sectors.dedup();
                    counts.sectors += sectors.len() as u64;
                }
                Space::Shared => {
                    counts.shared += 1;
                    counts.conflicts += access.passes() - access.ideal();
                }
            }
        }
    }
}

impl Access {
    /// Returns the number of parts that the access is served in: with eight bytes per lane, one
    /// part per half of a warp.
    const fn parts(&self) -> usize {
        if self.bytes > 4 { self.bytes / 4 } else { 1 }
    }

    fn part(&self, part: usize) -> impl Iterator<Item = u64> {
        let lanes = 32 / self.parts();
        let of_part = self
            .addresses
            .iter()
            .filter(move |(lane, _)| lane / lanes == part);
        of_part.flat_map(|&(_, address)| {
            (address..address + self.bytes as u64)
                .step_by(4)
                .map(|byte| byte / 4)
        })
    }

    fn ideal(&self) -> u64 {
        (0..self.parts())
            .filter(|&part| self.part(part).next().is_some())
            .count() as u64
    }

    /// Returns the number of passes over the banks. Lanes that want the same word are served
    /// together.
    fn passes(&self) -> u64 {
        let of_part = |part| {
            let mut words: Vec<_> = self.part(part).collect();
            words.sort_unstable();
            words.dedup();
            let mut banks = [0u64; BANKS as usize];
            for word in words {
                banks[(word % BANKS) as usize] += 1;
            }
            banks.into_iter().max().unwrap_or(0)
        };
        (0..self.parts()).map(of_part).sum()
    }
}
