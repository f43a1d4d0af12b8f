//! Launches, sizes of the work buffers, and tables on a device, for every backend that runs the
//! device kernels.
//!
//! A plan is computed before anything is launched, from numbers that the host knows: the events of
//! the batch, the boards and groups of the tables, the launch parameters, and the device's
//! multiprocessors. It does not depend on the data, so that a framework can ask for the memory of a
//! stage before the events arrive, and a batch can be queued in one go. What depends on the data,
//! the number of strips, is bounded by the number of bytes ([`most_records`]).

pub use simt::Shape;
use simt::{WARP_SIZE, blocks_of_warps};
use ut_kernels::allen::count_hits::items_capacity;
use ut_kernels::allen::pipeline::AllenShapes;
use ut_kernels::allen::prefix_sum::tiles;
use ut_kernels::bank::layout::Batch;
use ut_kernels::clustering::ClusterOptions;
use ut_kernels::detector::{BankVersion, Lane, SectorConstants, Slot};
use ut_kernels::ptx::MAX_REGISTERS;
use ut_kernels::ranked;
use ut_kernels::ranked::gather::{GATHER_THREADS, gather_blocks};
use ut_kernels::ranked::pipeline::RankedShapes;
use ut_kernels::ranked::select::{SELECT_THREADS, select_blocks};
use ut_kernels::tables::Tables;

use super::occupancy::{Launch, Multiprocessors};
use super::parameters::Parameters;
use super::placer::{InPlace, Placer};
use super::ptx::Kernel;
use super::rank_tables::RankTables;
use super::{Count, DecodeError, DecodeOptions, EventReport, Position};
use ut_data::detector::{DetectorTables, N_LAYERS, sectors_of_layer};
use ut_data::hits::BatchCheck;
use ut_data::input::{BatchView, EventMeta};

/// A detector's tables in the layout of the kernels.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "as in `Tables`")]
pub struct DeviceTables {
    pub version: BankVersion,
    pub check: BatchCheck,
    pub slots: Vec<Slot>,
    pub board_lanes: Vec<Lane>,
    pub groups: Vec<u16>,
    pub sectors: Vec<SectorConstants>,
    pub strips_per_hybrid: Vec<u32>,
    pub layer_groups: Vec<u32>,
    pub n_groups: u32,
}

impl DeviceTables {
    /// Lays out the tables for `backend`.
    pub fn new(backend: &'static str, tables: &DetectorTables) -> Result<Self, DecodeError> {
        if tables.slots().len() > usize::from(u16::MAX) {
            let message = "the board table has more lane slots than 16 bits can count".to_owned();
            return Err(DecodeError::Device { backend, message });
        }
        let first_group = |layer: usize| {
            let sectors = &tables.groups()[sectors_of_layer(layer)];
            u32::from(sectors.iter().copied().min().unwrap_or(0))
        };
        let n_groups = tables.n_groups() as u32;
        Ok(Self {
            version: tables.boards().version,
            check: BatchCheck::new(tables),
            slots: tables.slots().to_vec(),
            board_lanes: tables.boards().lanes.clone(),
            groups: tables.groups().to_vec(),
            sectors: tables.sectors().to_vec(),
            strips_per_hybrid: tables.boards().strips_per_hybrid.clone(),
            layer_groups: (0..N_LAYERS).map(first_group).chain([n_groups]).collect(),
            n_groups,
        })
    }

    /// Returns the number of boards in the table.
    pub const fn n_boards(&self) -> u32 {
        self.strips_per_hybrid.len() as u32
    }

    /// Returns a view of the tables in the host's memory.
    pub fn view(&self) -> Tables<'_> {
        self.placed(&mut InPlace)
    }

    pub(crate) fn placed<'t, 'v>(&'t self, by: &mut impl Placer<'t, 'v>) -> Tables<'v> {
        Tables {
            slots: by.place(&self.slots),
            board_lanes: by.place(&self.board_lanes),
            groups: by.place(&self.groups),
            sectors: by.place(&self.sectors),
            strips_per_hybrid: by.place(&self.strips_per_hybrid),
            layer_groups: by.place(&self.layer_groups),
            n_groups: self.n_groups,
        }
    }

    /// Checks that 32 bits can count the bytes, words and counters of a batch, whose longest array
    /// has `most_words` words.
    ///
    /// *Example.* With v5 and 72 groups, an event counts as 1296 + 72 + 32 words: slots, groups and
    /// the lanes of a warp. Half of 2³² is the limit, so a batch has at most 1,533,916 events.
    pub fn check_size(
        &self,
        backend: &'static str,
        n_events: usize,
        raw_bytes: usize,
        most_words: usize,
    ) -> Result<(), DecodeError> {
        let failure = |message| Err(DecodeError::Device { backend, message });
        let slots = self.slots.len() + self.n_groups as usize + WARP_SIZE as usize;
        if u32::try_from(raw_bytes).is_err() || most_words > (u32::MAX / 4) as usize {
            return failure("a batch must be smaller than 4 GiB".to_owned());
        }
        if n_events
            .checked_mul(slots)
            .is_none_or(|counters| counters > u32::MAX as usize / 2)
        {
            return failure(format!("{n_events} events are too many for one batch"));
        }
        Ok(())
    }
}

/// Converts clustering options for the kernels.
pub fn cluster_options(options: &DecodeOptions) -> ClusterOptions {
    let flag = |on, flag| if on { flag } else { 0 };
    ClusterOptions {
        flags: flag(options.clustering(), ClusterOptions::CLUSTERING)
            | flag(
                options.position() == Position::Geometric,
                ClusterOptions::GEOMETRIC,
            )
            | flag(options.save_above_max(), ClusterOptions::SAVE_ABOVE_MAX),
        max_size: options.max_cluster_size().get(),
    }
}

/// Refuses a list with an event that the batch does not have, and any list that [`check_list`]
/// refuses.
pub fn check_selected(
    backend: &'static str,
    ranks: Option<&RankTables>,
    batch: &BatchView<'_>,
) -> Result<(), DecodeError> {
    if batch.selected.is_some() {
        check_list(backend, ranks)?;
    }
    super::check_selected(batch)
}

/// Refuses lists of events for Allen's kernels, which have no tables by rank and decode whole
/// batches.
pub fn check_list(backend: &'static str, ranks: Option<&RankTables>) -> Result<(), DecodeError> {
    let message =
        "a list of selected events needs the pipeline ranked: Allen's kernels decode whole batches";
    if ranks.is_some() {
        Ok(())
    } else {
        Err(DecodeError::NoList { backend, message })
    }
}

/// [`Batch::version`](ut_kernels::bank::layout::Batch::version) for batches with one version per
/// bank, with one version for all banks, or, by default, with the version of the tables.
pub fn version_word(of_each: bool, of_all: Option<u8>, tables: BankVersion) -> u32 {
    if of_each {
        Batch::VERSION_OF_EACH
    } else {
        u32::from(of_all.unwrap_or(tables.byte()))
    }
}

/// [`Batch::first_event`](ut_kernels::bank::layout::Batch::first_event), limited to 32 bits: no
/// array has as many events, so that events beyond its end stay beyond.
pub fn first_event_word(first_event: usize, n_events: usize) -> u32 {
    first_event.min((u32::MAX as usize).saturating_sub(n_events)) as u32
}

/// Adds the counters of an event that only the container knew.
pub fn add_meta(meta: EventMeta, counts: &mut EventReport) {
    counts.add(Count::OtherTypes, meta.other_banks);
    if meta.broken && counts.get(Count::BrokenEvent) == 0 {
        counts.add(Count::BrokenEvent, 1);
    }
}

/// Makes the error that a batch's hits, whose groups end at `offsets`, exceed `capacity`.
///
/// Names the first event whose last group ends beyond the capacity, and the hits up to there, so
/// that a caller can see how much larger the buffer must be for the batch up to this event.
pub fn too_many_hits(offsets: &[u32], n_groups: usize, capacity: usize) -> DecodeError {
    let ends = || {
        offsets
            .iter()
            .step_by(n_groups.max(1))
            .skip(1)
            .map(|&end| end as usize)
    };
    let event = ends().position(|end| end > capacity).unwrap_or(0);
    DecodeError::TooManyHits {
        event,
        hits: ends().nth(event).unwrap_or(0),
        capacity,
    }
}

/// Returns the largest number of hits, and of records with the places between them, of `n_events`
/// events whose banks have `bytes` bytes in total: a v5 bank has at most two hits of each of six
/// lanes in 32 bytes of payload, a v4 bank a hit in two bytes. Overlapping fragments or events,
/// which no reader makes, can have more: then buffers grow.
///
/// For example, 1000 v5 events of 30 kB together have 30 · 10⁶ / 32 · 12, or 11.25 million hits at
/// most. Real events fill their rows with far fewer: most lanes of a row have no hits or one.
pub const fn most_records(version: BankVersion, bytes: usize, n_events: usize) -> usize {
    let hits = match version {
        BankVersion::V4 => bytes / 2,
        BankVersion::V5 => bytes / 32 * 12,
    };
    hits + ranked::PARTS as usize * n_events
}

/// Number of threads of a block of `cluster_unusual`, which has too many registers for the largest.
pub(super) const UNUSUAL_THREADS: u32 = 256;

/// Returns the number of events that a device clusters at once.
///
/// A block of `cluster` takes one event. By its warps, registers and shared memory, four blocks fit
/// on a multiprocessor of sm_75 and six on one of every later architecture, so an H200 with 132
/// multiprocessors clusters 792 events at once. A batch that is much smaller leaves multiprocessors
/// idle, which is why the default batch of a GPU depends on this number.
pub fn events_at_once(device: Multiprocessors) -> u32 {
    let registers = MAX_REGISTERS
        .iter()
        .find(|(entry, _)| *entry == "cluster__")
        .map_or(0, |&(_, most)| most);
    let launch = Launch {
        threads: ranked::THREADS,
        registers,
        shared: ranked::cluster::cluster_shared_bytes(),
    };
    device
        .number
        .saturating_mul(device.each.occupancy(launch).blocks)
}

/// Launches and buffer sizes of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Number of events; at least 1.
    pub events: u32,
    /// Number of counters of each kind: events × groups.
    pub counters: u32,
    /// Number of elements of the lane lists.
    pub items: usize,
    version: BankVersion,
    n_boards: u32,
    n_groups: u32,
    params: Parameters,
    device: Multiprocessors,
}

impl Plan {
    /// Plans a batch of `n_events`, which [`DeviceTables::check_size`] let pass, for a device with
    /// these multiprocessors.
    pub fn new(
        tables: &DeviceTables,
        params: Parameters,
        n_events: usize,
        device: Multiprocessors,
    ) -> Self {
        let (version, n_boards, n_groups) = (tables.version, tables.n_boards(), tables.n_groups);
        Self {
            events: n_events as u32,
            counters: (n_events * n_groups as usize) as u32,
            items: n_events * items_capacity(version, n_boards) as usize,
            version,
            n_boards,
            n_groups,
            params,
            device,
        }
    }

    /// Returns the number of tiles of a prefix sum over the counters.
    pub fn tiles(&self) -> u32 {
        tiles(self.counters, self.params.scan_block_x())
    }

    /// Shape of a kernel's launch.
    pub fn shape(&self, kernel: Kernel) -> Shape {
        let params = self.params;
        let (grid, block) = match kernel {
            Kernel::CountHits => (self.events, (params.count_block_x(), 1)),
            Kernel::PrefixSumTiles | Kernel::PrefixSumOffsets => {
                (self.tiles(), (params.scan_block_x(), 1))
            }
            Kernel::ClusterAndPredecode => (self.events, params.cluster_block()),
            Kernel::CompressAndMakeKeys => {
                let x = params.compress_block_x();
                (blocks_of_warps(self.counters, x), (x, 1))
            }
            Kernel::FindPermutation => {
                let x = params.sort_block_x();
                (blocks_of_warps(self.counters, x), (x, 1))
            }
            Kernel::DecodeInOrder => (self.events, (params.decode_block_x(), 1)),
            // For a list as long as the batch; the pipeline looks at the list.
            Kernel::SelectEvents => (select_blocks(self.events), (SELECT_THREADS, 1)),
            Kernel::GatherBanks => (gather_blocks(self.events), (GATHER_THREADS, 1)),
            Kernel::Cluster => (self.events, (ranked::THREADS, 1)),
            Kernel::ClusterUnusual => self.sharing(params.unusual_grid(), UNUSUAL_THREADS),
            Kernel::SortGroups => {
                self.sharing(params.sort_groups_grid(), params.sort_groups_block_x())
            }
            Kernel::MakeHits => self.sharing(params.make_hits_grid(), ranked::HITS_THREADS),
            Kernel::Scan => (self.event_tiles(), (params.scan_block_x(), 1)),
        };
        Shape {
            grid,
            block,
            shared_bytes: kernel.shared_bytes(self.version, self.n_boards, self.n_groups),
        }
    }

    /// Returns the grid and the block of a kernel whose blocks share the events, with `each` blocks
    /// per multiprocessor.
    ///
    /// A grid of one block per event would start and end far more blocks than a device holds at a
    /// time. Here each resident block takes one event after the other, and keeps in registers and
    /// shared memory what all events need. More blocks than events would only start and end.
    fn sharing(&self, each: u32, threads: u32) -> (u32, (u32, u32)) {
        let grid = self.device.grid(each, threads);
        (self.events.min(grid), (threads, 1))
    }

    /// Shapes of the launches of Allen's pipeline.
    pub fn allen_shapes(&self) -> AllenShapes {
        AllenShapes {
            count_hits: self.shape(Kernel::CountHits),
            prefix_sum: self.shape(Kernel::PrefixSumTiles),
            cluster_and_predecode: self.shape(Kernel::ClusterAndPredecode),
            compress_and_make_keys: self.shape(Kernel::CompressAndMakeKeys),
            find_permutation: self.shape(Kernel::FindPermutation),
            decode_in_order: self.shape(Kernel::DecodeInOrder),
        }
    }

    /// Shapes of the launches of the ranked pipeline.
    pub fn ranked_shapes(&self) -> RankedShapes {
        RankedShapes {
            gather_banks: self.shape(Kernel::GatherBanks),
            cluster: self.shape(Kernel::Cluster),
            cluster_unusual: self.shape(Kernel::ClusterUnusual),
            scan: self.shape(Kernel::Scan),
            sort_groups: self.shape(Kernel::SortGroups),
            make_hits: self.shape(Kernel::MakeHits),
        }
    }

    /// Returns the number of tiles of a prefix sum over the events.
    pub fn event_tiles(&self) -> u32 {
        tiles(self.events, self.params.scan_block_x())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ut_data::detector::Grouping;

    fn tables() -> DeviceTables {
        DeviceTables::new(
            "emulated",
            &ut_data::synth::tables(BankVersion::V5, Grouping::default()),
        )
        .unwrap()
    }

    #[test]
    fn batches_that_32_bits_cannot_count_are_refused() {
        let tables = tables();
        let most = u32::MAX as usize;
        assert!(tables.check_size("emulated", 1000, most, most / 4).is_ok());
        assert!(tables.check_size("emulated", 1, most + 1, 0).is_err());
        assert!(tables.check_size("emulated", 1, 0, most / 4 + 1).is_err());
        assert!(tables.check_size("emulated", usize::MAX, 0, 0).is_err());
        assert!(tables.check_size("emulated", most, 0, 0).is_err());
        // The largest number of events in the example of `check_size`.
        assert!(tables.check_size("emulated", 1_533_916, 0, 0).is_ok());
        assert!(tables.check_size("emulated", 1_533_917, 0, 0).is_err());
    }
}
