//! Counted cost of a launch, for comparing variants of a kernel without a GPU.

use std::collections::HashSet;
use std::panic::Location;

use super::shadow::Touch;

/// Bytes of a memory sector, the unit in which a GPU moves global memory.
const SECTOR: u64 = 32;

/// Visits of one place in the source that are kept apart; a warp's later ones between two collectives count alone.
const MAX_STEPS: usize = 1024;

/// Counts of one launch, or of several added up; loads, stores and atomics count once a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct LaunchStats {
    pub blocks: u64,
    /// Block barriers: one for all threads of a block.
    pub barriers: u64,
    /// Warp collectives: one per mask.
    pub collectives: u64,
    /// Threads that took part in collectives.
    pub collective_lanes: u64,
    pub shared_loads: u64,
    pub shared_stores: u64,
    pub shared_atomics: u64,
    pub global_loads: u64,
    pub global_stores: u64,
    pub global_atomics: u64,
    /// Sectors of 32 bytes that global accesses touch. Threads of a warp share sectors at the same place in the source
    /// and the same number of visits after the last collective.
    pub global_sectors: u64,
    /// Sectors in tables that all events share (see `Executor::constant`).
    pub table_sectors: u64,
    /// Different sectors that the launch reads, plus those that it writes, without these tables: the device memory's
    /// traffic if caches kept each sector until its last use. Of several launches: the sum.
    pub distinct_sectors: u64,
    /// Steps of warps that access global memory.
    pub warp_steps: u64,
    /// Threads that took part in these steps.
    pub step_lanes: u64,
}

impl LaunchStats {
    /// Share of warp lanes that were idle while their warp accessed global memory, 0…1.
    pub fn idle_share(&self) -> f64 {
        if self.warp_steps == 0 { 0.0 } else { 1.0 - self.step_lanes as f64 / (32 * self.warp_steps) as f64 }
    }

    /// Adds the counts of another launch.
    pub const fn add(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.barriers += other.barriers;
        self.collectives += other.collectives;
        self.collective_lanes += other.collective_lanes;
        self.shared_loads += other.shared_loads;
        self.shared_stores += other.shared_stores;
        self.shared_atomics += other.shared_atomics;
        self.global_loads += other.global_loads;
        self.global_stores += other.global_stores;
        self.global_atomics += other.global_atomics;
        self.global_sectors += other.global_sectors;
        self.table_sectors += other.table_sectors;
        self.distinct_sectors += other.distinct_sectors;
        self.warp_steps += other.warp_steps;
        self.step_lanes += other.step_lanes;
    }
}

/// Sectors outside tables that a launch has touched so far.
#[derive(Debug, Default)]
pub struct Touched {
    read: HashSet<u64>,
    written: HashSet<u64>,
}

impl Touched {
    pub fn clear(&mut self) {
        self.read.clear();
        self.written.clear();
    }

    /// Returns the number of sectors; sectors both read and written count twice.
    pub fn count(&self) -> u64 {
        (self.read.len() + self.written.len()) as u64
    }

    fn add(&mut self, sectors: impl IntoIterator<Item = u64>, touch: Touch) {
        match touch {
            Touch::Read => self.read.extend(sectors),
            Touch::Write => self.written.extend(sectors),
            Touch::Atomic => {
                for sector in sectors {
                    self.read.insert(sector);
                    self.written.insert(sector);
                }
            }
        }
    }
}

/// Access to global memory: `size` bytes at byte `offset` of the memory at `base`.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub touch: Touch,
    pub location: &'static Location<'static>,
    pub base: usize,
    pub offset: u64,
    pub size: u64,
    pub in_table: bool,
}

/// One instruction of a warp: its lanes and sectors.
#[derive(Debug, Default)]
struct Step {
    lanes: u32,
    sectors: Vec<u64>,
    in_table: bool,
    touch: Touch,
}

#[derive(Debug)]
struct Site {
    /// Address of the source location, only compared.
    location: usize,
    visits: [usize; 32],
    steps: Vec<Step>,
    used: usize,
}

/// Groups the accesses of one warp's threads that are one instruction on hardware.
#[derive(Debug, Default)]
pub struct Coalescer {
    sites: Vec<Site>,
    used: usize,
}

impl Coalescer {
    #[inline]
    pub fn access(&mut self, stats: &mut LaunchStats, touched: &mut Touched, lane: u32, access: Access) {
        let Access { touch, location, base, offset, size, in_table } = access;
        // (On a device, buffers begin on a sector, and no two share one.)
        let base = base as u64 * (2 * SECTOR);
        let (first, last) = ((base + offset) / SECTOR, (base + offset + size - 1) / SECTOR);
        let site = self.site(location);
        let visit = site.visits[lane as usize];
        site.visits[lane as usize] += 1;
        if visit >= MAX_STEPS {
            stats.warp_steps += 1;
            stats.step_lanes += 1;
            stats.global_sectors += last - first + 1;
            if in_table {
                stats.table_sectors += last - first + 1;
            } else {
                touched.add(first..=last, touch);
            }
            return;
        }
        if visit >= site.used {
            if visit >= site.steps.len() {
                site.steps.push(Step::default());
            }
            site.used = visit + 1;
        }
        let step = &mut site.steps[visit];
        step.lanes |= 1 << lane;
        (step.in_table, step.touch) = (in_table, touch);
        for sector in first..=last {
            if step.sectors.last() != Some(&sector) && !step.sectors.contains(&sector) {
                step.sectors.push(sector);
            }
        }
    }

    #[inline]
    fn site(&mut self, location: &'static Location<'static>) -> &mut Site {
        let location = std::ptr::from_ref(location).addr();
        let found = self.sites[..self.used].iter().position(|site| site.location == location);
        let place = found.unwrap_or_else(|| {
            if self.used == self.sites.len() {
                self.sites.push(Site { location, visits: [0; 32], steps: Vec::new(), used: 0 });
            }
            self.sites[self.used].location = location;
            self.used += 1;
            self.used - 1
        });
        &mut self.sites[place]
    }

    /// Counts the steps since the warp converged last.
    pub fn flush(&mut self, stats: &mut LaunchStats, touched: &mut Touched) {
        for site in &self.sites[..self.used] {
            for step in &site.steps[..site.used] {
                stats.warp_steps += 1;
                stats.step_lanes += u64::from(step.lanes.count_ones());
                stats.global_sectors += step.sectors.len() as u64;
                if step.in_table {
                    stats.table_sectors += step.sectors.len() as u64;
                } else {
                    touched.add(step.sectors.iter().copied(), step.touch);
                }
            }
        }
        self.forget();
    }

    /// Forgets the steps since the warp converged last.
    pub fn forget(&mut self) {
        for site in &mut self.sites[..self.used] {
            for step in &mut site.steps[..site.used] {
                step.lanes = 0;
                step.sectors.clear();
            }
            site.used = 0;
            site.visits = [0; 32];
        }
        self.used = 0;
    }
}
