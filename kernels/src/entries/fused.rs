//! Entry points of the fused pipeline: a PTX file (`ptx_unit`) for each format and layout, with the prefix sum that
//! `fused.count_first` needs. Preconditions of a launch: see [`entries`](super).

use crate::allen::prefix_sum::{PrefixSumOffsets, PrefixSumTiles};
use crate::bank::layout::Batch;
use crate::detector::BankVersion;
use crate::fused::hit_tables::HitTables;
use crate::fused::others::{FusedOthers, Left};
use crate::fused::{Fused, FusedInput, FusedOptions, FusedOutput, Written};
#[cfg(any(ptx_unit = "v4_mep_fused", ptx_unit = "v5_mep_fused"))]
use crate::ranked::gather::GatherBanks;
use crate::ranked::lane_tables::LaneTables;
use crate::ranked::select::SelectEvents;
use crate::switches::{Layout, Switches};
use simt::{Global, GlobalMut, Kernel};

macro_rules! fused {
    ($variant:literal, $version:ident, $layout:ident) => {
        const SWITCHES: Switches = Switches::production(BankVersion::$version, Layout::$layout);

        prefix_sum!($variant);

        #[unsafe(export_name = concat!("select_events__", $variant))]
        unsafe extern "ptx-kernel" fn select_events(
            list: Global<'_, u32>,
            n_events: u32,
            mask: GlobalMut<'_, u32>,
            status: GlobalMut<'_, u32>,
        ) {
            SelectEvents.run(&hardware!(), &(list, n_events, mask, status));
        }

        #[unsafe(export_name = concat!("fused__", $variant))]
        unsafe extern "ptx-kernel" fn fused(
            options: FusedOptions,
            input: FusedInput<'_>,
            tables: HitTables<'_>,
            all_tables: LaneTables<'_>,
            output: FusedOutput<'_>,
        ) {
            Fused { switches: SWITCHES }.run(&hardware!(), &(options, input, tables, all_tables, output));
        }

        #[unsafe(export_name = concat!("fused_others__", $variant))]
        unsafe extern "ptx-kernel" fn fused_others(
            options: FusedOptions,
            batch: Batch<'_>,
            tables: LaneTables<'_>,
            left: Left<'_>,
            to: Written<'_>,
        ) {
            FusedOthers { switches: SWITCHES }.run(&hardware!(), &(options, batch, tables, left, to));
        }
    };
}

#[cfg(any(ptx_unit = "v4_mep_fused", ptx_unit = "v5_mep_fused"))]
macro_rules! gather {
    ($variant:literal) => {
        #[unsafe(export_name = concat!("gather_banks__", $variant))]
        unsafe extern "ptx-kernel" fn gather_banks(batch: Batch<'_>, n_events: u32, words: GlobalMut<'_, u32>) {
            GatherBanks { switches: SWITCHES }.run(&hardware!(), &(batch, n_events, words));
        }
    };
}

#[cfg(ptx_unit = "v4_allen_fused")]
fused!("v4_allen_fused", V4, Allen);
#[cfg(ptx_unit = "v4_mep_fused")]
fused!("v4_mep_fused", V4, Mep);
#[cfg(ptx_unit = "v4_mep_fused")]
gather!("v4_mep_fused");
#[cfg(ptx_unit = "v5_allen_fused")]
fused!("v5_allen_fused", V5, Allen);
#[cfg(ptx_unit = "v5_mep_fused")]
fused!("v5_mep_fused", V5, Mep);
#[cfg(ptx_unit = "v5_mep_fused")]
gather!("v5_mep_fused");
