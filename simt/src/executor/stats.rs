//! Counted cost of a launch, for comparing variants of a kernel without a GPU.

use std::collections::HashSet;
use std::panic::Location;

use super::shadow::Touch;

/// Size of a memory sector in bytes, the unit in which a GPU moves global memory.
const SECTOR: u64 = 32;

/// Number of visits to a place in the source, between two collectives, whose lanes are combined;
/// later visits are counted lane by lane.
const MAX_STEPS: usize = 1024;

/// Counts of one launch, or sums over several. Loads, stores and atomics are counted per thread.
///
/// The executor has no clock: it knows what a kernel asks of the hardware, and not how long that
/// takes. Two kernels can be compared by these numbers if one asks for less of everything.
/// Otherwise a device must decide.
///
/// ```
/// use simt::Block;
/// use simt::executor::Executor;
///
/// let mut out = [0u32; 64];
/// let mut executor = Executor::new(0);
/// let view = executor.writable(&mut out);
/// let stats = executor.launch("ones", 1, (64, 1), 0, |block| {
///     block.store(view, block.thread(), 1);
/// })?;
/// assert_eq!(stats.global_stores, 64);
/// // Two warps, each with one store of 32 words: 128 bytes are four sectors.
/// assert_eq!((stats.warp_steps, stats.global_sectors), (2, 8));
/// # Ok::<(), simt::executor::Violation>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "shared_loads to global_atomics: accesses by kind of memory and access"
)]
pub struct LaunchStats {
    /// Number of blocks.
    pub blocks: u64,
    /// Number of barriers, each counted once per block.
    pub barriers: u64,
    /// Number of warp collectives, each counted once for all lanes of its mask.
    pub collectives: u64,
    /// Number of lanes that took part in collectives, summed over collectives.
    pub collective_lanes: u64,
    pub shared_loads: u64,
    pub shared_stores: u64,
    pub shared_atomics: u64,
    /// Additional turns of shared memory because lanes of a warp want different words of one bank.
    /// Lanes access together as for [`global_sectors`](Self::global_sectors).
    pub bank_conflicts: u64,
    pub global_loads: u64,
    pub global_stores: u64,
    pub global_atomics: u64,
    /// Number of sectors of 32 bytes that global accesses touch. Lanes of a warp access together,
    /// and so share sectors, if they are at the same place in the source for the same time since
    /// the last collective.
    pub global_sectors: u64,
    /// Number of these sectors in tables that all events share; see
    /// [`Executor::constant`](super::Executor::constant).
    pub table_sectors: u64,
    /// Number of different sectors that the launch reads, plus the number that it writes, without
    /// these tables: the traffic of device memory if caches kept each sector until its last use.
    pub distinct_sectors: u64,
    /// Number of accesses of warps to global memory; lanes that access together count once.
    pub warp_steps: u64,
    /// Number of lanes that took part in these accesses.
    pub step_lanes: u64,
}

impl LaunchStats {
    /// Returns the share of lanes, 0…1, that were idle while their warp accessed global memory.
    pub fn idle_share(&self) -> f64 {
        if self.warp_steps == 0 {
            0.0
        } else {
            1.0 - self.step_lanes as f64 / (32 * self.warp_steps) as f64
        }
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
        self.bank_conflicts += other.bank_conflicts;
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
pub struct TouchedSectors {
    read: HashSet<u64>,
    written: HashSet<u64>,
}

impl TouchedSectors {
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

/// Access to the block's shared memory: `size` bytes at `byte`, in pieces of `piece` bytes.
///
/// Shared memory has 32 banks of four bytes. A warp's access takes one turn if its lanes touch
/// different banks or the same words, and as many turns as one bank has different words otherwise.
#[derive(Clone, Copy, Debug)]
pub struct SharedAccess {
    pub touch: Touch,
    pub location: &'static Location<'static>,
    pub byte: u32,
    pub size: u32,
    pub piece: u32,
}

/// One access instruction of a warp, with the sectors of global memory or the places in shared
/// memory that its lanes touch.
#[derive(Debug, Default)]
struct AccessStep {
    lanes: u32,
    sectors: Vec<u64>,
    in_table: bool,
    touch: Touch,
    /// Lane and first byte of each access to shared memory.
    places: Vec<(u32, u32)>,
    size: u32,
}

/// Number of banks of shared memory: consecutive words of four bytes lie in consecutive banks.
const BANKS: u32 = 32;

impl AccessStep {
    /// Returns the number of turns beyond the first that an access to shared memory takes.
    ///
    /// A bank serves one word per turn, to any number of lanes that load or store it, but to one
    /// lane only for an atomic. Accesses of 8 bytes are served to half of the lanes at a time, and
    /// of 16 bytes to a quarter; these turns are not conflicts.
    fn bank_conflicts(&self) -> u64 {
        let words_of_lane = self.size.div_ceil(4).max(1);
        let lanes_at_once = 32 / words_of_lane.min(4);
        let mut turns_in_all = 0;
        for first in (0..32).step_by(lanes_at_once as usize) {
            let mut words: Vec<u32> = Vec::new();
            for &(lane, byte) in &self.places {
                if (first..first + lanes_at_once).contains(&lane) {
                    words.extend((0..words_of_lane).map(|word| byte / 4 + word));
                }
            }
            words.sort_unstable();
            if self.touch != Touch::Atomic {
                words.dedup();
            }
            let mut turns = [0u64; BANKS as usize];
            for word in words {
                turns[(word % BANKS) as usize] += 1;
            }
            turns_in_all += turns.into_iter().max().unwrap_or(0).saturating_sub(1);
        }
        turns_in_all
    }
}

#[derive(Debug)]
struct Site {
    /// Address of the source location. It is compared, never read.
    location: usize,
    visits: [usize; 32],
    steps: Vec<AccessStep>,
    used: usize,
}

impl Site {
    /// Returns the step of a lane's visit.
    #[inline]
    fn step(&mut self, visit: usize) -> &mut AccessStep {
        if visit >= self.used {
            if visit >= self.steps.len() {
                self.steps.resize_with(visit + 1, AccessStep::default);
            }
            self.used = visit + 1;
        }
        &mut self.steps[visit]
    }
}

/// Combines the accesses of a warp's lanes that are one instruction on hardware.
///
/// Lanes run one after the other here. What they did between two collectives is kept by place in
/// the source and number of the visit: the third visit of each lane to a place is the third
/// execution of that instruction. At the next collective the sums are taken
/// ([`flush`](Self::flush)).
#[derive(Debug, Default)]
pub struct Coalescer {
    sites: Vec<Site>,
    used: usize,
}

impl Coalescer {
    #[inline]
    pub fn access(
        &mut self,
        stats: &mut LaunchStats,
        touched: &mut TouchedSectors,
        lane: u32,
        access: Access,
    ) {
        let Access {
            touch,
            location,
            base,
            offset,
            size,
            in_table,
        } = access;
        // On a device, each buffer begins at a sector, and none share a sector.
        let base = base as u64 * (2 * SECTOR);
        let (first, last) = (
            (base + offset) / SECTOR,
            (base + offset + size - 1) / SECTOR,
        );
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
        let step = site.step(visit);
        step.lanes |= 1 << lane;
        (step.in_table, step.touch) = (in_table, touch);
        for sector in first..=last {
            if step.sectors.last() != Some(&sector) && !step.sectors.contains(&sector) {
                step.sectors.push(sector);
            }
        }
    }

    /// Records an access to shared memory.
    #[inline]
    pub fn shared(&mut self, lane: u32, access: SharedAccess) {
        let SharedAccess {
            touch,
            location,
            byte,
            size,
            piece,
        } = access;
        let site = self.site(location);
        for at in (0..size).step_by(piece as usize) {
            let visit = site.visits[lane as usize];
            site.visits[lane as usize] += 1;
            if visit >= MAX_STEPS {
                continue;
            }
            let step = site.step(visit);
            (step.touch, step.size) = (touch, piece);
            step.places.push((lane, byte + at));
        }
    }

    #[inline]
    fn site(&mut self, location: &'static Location<'static>) -> &mut Site {
        let location = std::ptr::from_ref(location).addr();
        let found = self.sites[..self.used]
            .iter()
            .position(|site| site.location == location);
        let place = found.unwrap_or_else(|| {
            if self.used == self.sites.len() {
                self.sites.push(Site {
                    location,
                    visits: [0; 32],
                    steps: Vec::new(),
                    used: 0,
                });
            }
            self.sites[self.used].location = location;
            self.used += 1;
            self.used - 1
        });
        &mut self.sites[place]
    }

    /// Adds up the accesses since the warp last converged, and forgets them.
    pub fn flush(&mut self, stats: &mut LaunchStats, touched: &mut TouchedSectors) {
        for site in &self.sites[..self.used] {
            for step in &site.steps[..site.used] {
                if !step.places.is_empty() {
                    stats.bank_conflicts += step.bank_conflicts();
                    continue;
                }
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

    /// Forgets the accesses since the warp last converged.
    pub fn forget(&mut self) {
        for site in &mut self.sites[..self.used] {
            for step in &mut site.steps[..site.used] {
                step.lanes = 0;
                step.sectors.clear();
                step.places.clear();
            }
            site.used = 0;
            site.visits = [0; 32];
        }
        self.used = 0;
    }
}
