//! The kernels as PTX, embedded in `ut_kernels`, and their resources on each architecture. A stable
//! compiler and a driver suffice to run it; `docs/ptx.md` says how it is made and checked.
//!
//! A module holds a pipeline for one bank format and one layout. Format and layout are constants of
//! the compilation and not arguments, so a kernel has no branches on them. The price is four
//! modules for each pipeline. The format follows from the tables and the layout from the batch, so
//! a decoder needs at most two.
//!
//! An entry is named by kernel and variant: `count_hits__v5_allen__bins8` is the kernel
//! `count_hits` of the variant `v5_allen__bins8`. Kernels have single underscores, so the first
//! double one divides the two.

mod registers;
mod resources;

pub use resources::{KernelUse, Resources};

use ut_data::named;
use ut_format::detector::BankVersion;
use ut_kernels::allen::cluster_and_predecode::cluster_and_predecode_shared_bytes;
use ut_kernels::allen::count_hits::count_hits_shared_bytes;
use ut_kernels::allen::prefix_sum::prefix_sum_shared_bytes;
use ut_kernels::ranked::cluster::cluster_shared_bytes;
use ut_kernels::ranked::gather::gather_shared_bytes;
use ut_kernels::ranked::scan::scan_shared_bytes;
use ut_kernels::ranked::sort_groups::sort_groups_shared_bytes;
use ut_kernels::ranked::unusual::cluster_unusual_shared_bytes;
use ut_kernels::switches::Layout;

/// One PTX module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Name of the file in `kernels/ptx`, without `.ptx`.
    pub name: &'static str,
    /// PTX source of the module.
    pub text: &'static str,
    /// Bank format that the kernels decode.
    pub version: BankVersion,
    /// Layout of the batches that the kernels read.
    pub layout: Layout,
}

macro_rules! unit {
    ($name:literal, $text:ident, $version:ident, $layout:ident) => {
        Unit {
            name: $name,
            text: ut_kernels::ptx::$text,
            version: BankVersion::$version,
            layout: Layout::$layout,
        }
    };
}

impl Unit {
    /// Returns the number of parameters of an entry; 0 if the entry does not exist.
    pub fn parameters(&self, entry: &str) -> usize {
        let head = self
            .text
            .split(".entry ")
            .find_map(|text| text.strip_prefix(entry)?.strip_prefix('('));
        head.and_then(|head| head.split('{').next())
            .map_or(0, |head| head.matches(".param ").count())
    }

    /// The production variants: a module for each format and layout.
    pub const PRODUCTION: [Self; 4] = [
        unit!("v4_allen", V4_ALLEN, V4, Allen),
        unit!("v4_mep", V4_MEP, V4, Mep),
        unit!("v5_allen", V5_ALLEN, V5, Allen),
        unit!("v5_mep", V5_MEP, V5, Mep),
    ];

    /// The rungs of `Switches::ladder` for v5 in Allen layout, variants `v5_allen__rung0` and on,
    /// and the clustering kernel with 32-bit sums, variant [`WIDE`](Self::WIDE).
    pub const LADDER: Self = unit!("v5_allen_ladder", V5_ALLEN_LADDER, V5, Allen);

    /// The ranked pipeline: a module for each format and layout.
    pub const RANKED: [Self; 4] = [
        unit!("v4_allen_ranked", V4_ALLEN_RANKED, V4, Allen),
        unit!("v4_mep_ranked", V4_MEP_RANKED, V4, Mep),
        unit!("v5_allen_ranked", V5_ALLEN_RANKED, V5, Allen),
        unit!("v5_mep_ranked", V5_MEP_RANKED, V5, Mep),
    ];

    /// Variant of the clustering kernel that differs from production in its 32-bit sums only.
    pub const WIDE: &'static str = "v5_allen__wide";

    /// Returns the name of the counting kernel with 8 size classes, which every production module
    /// has in addition to the kernel with 16.
    pub fn bins8(&self) -> String {
        format!("{}__bins8", self.name)
    }

    /// Returns all modules.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::PRODUCTION
            .into_iter()
            .chain([Self::LADDER])
            .chain(Self::RANKED)
    }

    /// Kernels of each variant, but for those with 8 size classes and with 32-bit sums.
    pub fn kernels(&self) -> &'static [Kernel] {
        match self.layout {
            _ if !Self::RANKED.contains(self) => &Kernel::ALLEN,
            Layout::Allen => &Kernel::RANKED,
            Layout::Mep => &Kernel::RANKED_MEP,
        }
    }

    /// Returns the production module for a format and a layout.
    pub fn production(version: BankVersion, layout: Layout) -> Self {
        Self::of(Self::PRODUCTION, version, layout)
    }

    /// Returns the module of the ranked pipeline for a format and a layout.
    pub fn ranked(version: BankVersion, layout: Layout) -> Self {
        Self::of(Self::RANKED, version, layout)
    }

    fn of(
        [v4_allen, v4_mep, v5_allen, v5_mep]: [Self; 4],
        version: BankVersion,
        layout: Layout,
    ) -> Self {
        match (version, layout) {
            (BankVersion::V4, Layout::Allen) => v4_allen,
            (BankVersion::V4, Layout::Mep) => v4_mep,
            (BankVersion::V5, Layout::Allen) => v5_allen,
            (BankVersion::V5, Layout::Mep) => v5_mep,
        }
    }
}

/// A kernel: the seven of Allen's pipeline, then the seven of the ranked one.
///
/// `ALLEN`, `RANKED` and `RANKED_MEP` list the kernels in the order of their first launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kernel {
    /// Checks the banks by the policy, counts, and lists the lanes with hits.
    CountHits,
    /// Sums the counters inside each tile; launched for strips, then for clusters.
    PrefixSumTiles,
    /// Adds the totals of earlier tiles, after each launch of `PrefixSumTiles`.
    PrefixSumOffsets,
    /// Clusters the lanes, and puts every cluster into the range of its group.
    ClusterAndPredecode,
    /// Closes the gaps and makes the sort keys.
    CompressAndMakeKeys,
    /// Sorts the hits of each group, and stores the order as a permutation.
    FindPermutation,
    /// Works out the hits.
    DecodeInOrder,
    /// Turns a list of events into a mask.
    SelectEvents,
    /// Gathers an event's banks (MEP layout).
    GatherBanks,
    /// Writes the records of ordinary events.
    Cluster,
    /// Writes the records of the other events.
    ClusterUnusual,
    /// Adds up the hits of the events.
    Scan,
    /// Sorts the groups in which lanes overlap.
    SortGroups,
    /// Works out the hits of the records.
    MakeHits,
}

// The names of the modules in `ut_kernels`, with which entry points begin.
named!("kernel" Kernel: CountHits "count_hits", PrefixSumTiles "prefix_sum_tiles",
    PrefixSumOffsets "prefix_sum_offsets", ClusterAndPredecode "cluster_and_predecode",
    CompressAndMakeKeys "compress_and_make_keys", FindPermutation "find_permutation",
    DecodeInOrder "decode_in_order", SelectEvents "select_events", GatherBanks "gather_banks", Cluster "cluster", ClusterUnusual "cluster_unusual", Scan "scan",
    SortGroups "sort_groups", MakeHits "make_hits");

impl Kernel {
    /// Kernels of the ranked pipeline in Allen layout; the mask only runs for a list of events.
    pub const RANKED: [Self; 6] = [
        Self::SelectEvents,
        Self::Cluster,
        Self::ClusterUnusual,
        Self::SortGroups,
        Self::Scan,
        Self::MakeHits,
    ];

    /// Same in MEP layout, where the banks are gathered first.
    pub const RANKED_MEP: [Self; 7] = [
        Self::SelectEvents,
        Self::GatherBanks,
        Self::Cluster,
        Self::ClusterUnusual,
        Self::SortGroups,
        Self::Scan,
        Self::MakeHits,
    ];

    /// The seven kernels of Allen's pipeline.
    pub const ALLEN: [Self; 7] = [
        Self::CountHits,
        Self::PrefixSumTiles,
        Self::PrefixSumOffsets,
        Self::ClusterAndPredecode,
        Self::CompressAndMakeKeys,
        Self::FindPermutation,
        Self::DecodeInOrder,
    ];

    /// Returns the kernel that has the name of a kernel type. A type of which there is no PTX does
    /// not compile.
    pub const fn of<K: simt::Kernel>() -> Self {
        let (name, mut kernel) = (K::NAME.as_bytes(), 0);
        loop {
            let (other, mut i) = (Self::NAMES[kernel].as_bytes(), 0);
            while i < name.len() && i < other.len() && name[i] == other[i] {
                i += 1;
            }
            if i == name.len() && i == other.len() {
                return Self::ALL[kernel];
            }
            kernel += 1;
        }
    }

    /// Entry point of a variant, such as `v5_allen` or `v5_allen__rung3`.
    pub fn entry(self, variant: &str) -> String {
        format!("{}__{variant}", self.name())
    }

    /// Kernel and variant of an entry point.
    pub fn of_entry(entry: &str) -> Option<(Self, &str)> {
        let (name, variant) = entry.split_once("__")?;
        Some((name.parse().ok()?, variant))
    }

    /// Returns the size in bytes of a block's dynamic shared memory, for `n_boards` boards and
    /// `n_groups` groups.
    pub const fn shared_bytes(self, version: BankVersion, n_boards: u32, n_groups: u32) -> u32 {
        match self {
            Self::CountHits => count_hits_shared_bytes(version, n_boards, n_groups),
            Self::PrefixSumTiles | Self::PrefixSumOffsets => prefix_sum_shared_bytes(),
            Self::ClusterAndPredecode => cluster_and_predecode_shared_bytes(n_groups),
            Self::CompressAndMakeKeys
            | Self::FindPermutation
            | Self::DecodeInOrder
            | Self::SelectEvents
            | Self::MakeHits => 0,
            Self::SortGroups => sort_groups_shared_bytes(),
            Self::Cluster => cluster_shared_bytes(),
            Self::ClusterUnusual => cluster_unusual_shared_bytes(version, n_boards),
            Self::Scan => scan_shared_bytes(),
            Self::GatherBanks => gather_shared_bytes(),
        }
    }
}
