//! Entry points of Allen's pipeline: every kernel, for every variant that is shipped.
//!
//! An entry takes the kernel's own argument structs by value, which the host fills in. Its name is
//! the kernel's, two underscores and the variant's: `count_hits__v5_allen`. Each variant is a PTX
//! file (`ptx_unit`), with the counting kernel for 8 size classes beside the one for 16; the rungs
//! of the ladder, `v5_allen__rung0` and on, share one. Preconditions of a launch: see
//! [`entries`](super).

use crate::allen::cluster_and_predecode::{ClusterAndPredecode, ClusterInput, ClusterOutput};
use crate::allen::compress_and_make_keys::{CompressAndMakeKeys, GroupRanges};
use crate::allen::count_hits::{CountHits, CountOutput};
use crate::allen::decode_in_order::{DecodeInOrder, DecodeInput};
use crate::allen::find_permutation::FindPermutation;
use crate::allen::prefix_sum::{PrefixSumOffsets, PrefixSumTiles};
use crate::bank::layout::Batch;
use crate::clustering::ClusterOptions;
use crate::detector::BankVersion;
use crate::hit::HitArrays;
use crate::switches::{Layout, Switches};
use crate::tables::Tables;
use simt::{Global, GlobalMut, Kernel};

macro_rules! count_hits {
    ($variant:literal, $switches:expr) => {
        #[unsafe(export_name = concat!("count_hits__", $variant))]
        unsafe extern "ptx-kernel" fn count_hits(
            batch: Batch<'_>,
            tables: Tables<'_>,
            output: CountOutput<'_>,
        ) {
            CountHits {
                switches: $switches,
            }
            .run(&hardware!(), &(batch, tables, output));
        }
    };
}

macro_rules! cluster_and_predecode {
    ($variant:literal, $switches:expr) => {
        #[unsafe(export_name = concat!("cluster_and_predecode__", $variant))]
        unsafe extern "ptx-kernel" fn cluster_and_predecode(
            options: ClusterOptions,
            input: ClusterInput<'_>,
            tables: Tables<'_>,
            output: ClusterOutput<'_>,
        ) {
            ClusterAndPredecode {
                switches: $switches,
            }
            .run(&hardware!(), &(options, input, tables, output));
        }
    };
}

macro_rules! variant {
    ($module:ident, $variant:literal, $switches:expr) => {
        mod $module {
            use super::*;

            const SWITCHES: Switches = $switches;

            count_hits!($variant, SWITCHES);

            prefix_sum!($variant);

            cluster_and_predecode!($variant, SWITCHES);

            #[unsafe(export_name = concat!("compress_and_make_keys__", $variant))]
            unsafe extern "ptx-kernel" fn compress_and_make_keys(
                flip_origin: f32,
                ranges: GroupRanges<'_>,
                tables: Tables<'_>,
                keys: GlobalMut<'_, u64>,
            ) {
                CompressAndMakeKeys { switches: SWITCHES }
                    .run(&hardware!(), &(flip_origin, ranges, tables, keys));
            }

            #[unsafe(export_name = concat!("find_permutation__", $variant))]
            unsafe extern "ptx-kernel" fn find_permutation(
                flip_origin: f32,
                run: u32,
                ranges: GroupRanges<'_>,
                tables: Tables<'_>,
                keys: Global<'_, u64>,
                permutation: GlobalMut<'_, u32>,
                scratch: GlobalMut<'_, u32>,
            ) {
                let arguments = (flip_origin, run, ranges, tables, keys, permutation, scratch);
                FindPermutation { switches: SWITCHES }.run(&hardware!(), &arguments);
            }

            #[unsafe(export_name = concat!("decode_in_order__", $variant))]
            unsafe extern "ptx-kernel" fn decode_in_order(
                flip_origin: f32,
                input: DecodeInput<'_>,
                tables: Tables<'_>,
                hits: HitArrays<'_>,
                status: GlobalMut<'_, u32>,
            ) {
                DecodeInOrder { switches: SWITCHES }
                    .run(&hardware!(), &(flip_origin, input, tables, hits, status));
            }
        }
    };
}

#[cfg(not(ptx_unit = "v5_allen_ladder"))]
macro_rules! production {
    ($variant:literal, $bins8:literal, $switches:expr) => {
        variant!(all, $variant, $switches);

        mod bins8 {
            use super::*;

            count_hits!(
                $bins8,
                Switches {
                    bins: 8,
                    ..$switches
                }
            );
        }
    };
}

#[cfg(ptx_unit = "v4_allen")]
production!(
    "v4_allen",
    "v4_allen__bins8",
    Switches::production(BankVersion::V4, Layout::Allen)
);
#[cfg(ptx_unit = "v4_mep")]
production!(
    "v4_mep",
    "v4_mep__bins8",
    Switches::production(BankVersion::V4, Layout::Mep)
);
#[cfg(ptx_unit = "v5_allen")]
production!(
    "v5_allen",
    "v5_allen__bins8",
    Switches::production(BankVersion::V5, Layout::Allen)
);
#[cfg(ptx_unit = "v5_mep")]
production!(
    "v5_mep",
    "v5_mep__bins8",
    Switches::production(BankVersion::V5, Layout::Mep)
);

/// The rungs in the order of `Switches::ladder`; the last is production.
#[cfg(ptx_unit = "v5_allen_ladder")]
mod ladder {
    use super::*;

    const RUNGS: [(&str, Switches); 7] = Switches::ladder(BankVersion::V5, Layout::Allen);

    variant!(rung0, "v5_allen__rung0", super::RUNGS[0].1);
    variant!(rung1, "v5_allen__rung1", super::RUNGS[1].1);
    variant!(rung2, "v5_allen__rung2", super::RUNGS[2].1);
    variant!(rung3, "v5_allen__rung3", super::RUNGS[3].1);
    variant!(rung4, "v5_allen__rung4", super::RUNGS[4].1);
    variant!(rung5, "v5_allen__rung5", super::RUNGS[5].1);
    variant!(rung6, "v5_allen__rung6", super::RUNGS[6].1);

    /// Production but for 32-bit sums: what the narrow ones save, all else being equal.
    mod wide {
        use super::*;

        cluster_and_predecode!(
            "v5_allen__wide",
            Switches {
                narrow_sums: false,
                ..RUNGS[6].1
            }
        );
    }
}
