//! Entry points of the ranked pipeline: a PTX file (`ptx_unit`) for each format and layout.
//! Preconditions of a launch: see [`entries`](super).

use crate::bank::layout::Batch;
use crate::detector::BankVersion;
use crate::ranked::cluster::Cluster;
#[cfg(any(ptx_unit = "v4_mep_ranked", ptx_unit = "v5_mep_ranked"))]
use crate::ranked::gather::GatherBanks;
use crate::ranked::lane_tables::LaneTables;
use crate::ranked::make_hits::{HitsInput, MakeHits, Written};
use crate::ranked::scan::Scan;
use crate::ranked::select::SelectEvents;
use crate::ranked::sort_groups::SortGroups;
use crate::ranked::tables::RankedTables;
use crate::ranked::unusual::ClusterUnusual;
use crate::ranked::{RankedInput, RankedOptions, Work};
use crate::switches::{Layout, Switches};
use simt::{Global, GlobalMut, Kernel};

macro_rules! ranked {
    ($variant:literal, $version:ident, $layout:ident) => {
        const SWITCHES: Switches = Switches::production(BankVersion::$version, Layout::$layout);

        #[unsafe(export_name = concat!("select_events__", $variant))]
        unsafe extern "ptx-kernel" fn select_events(
            list: Global<'_, u32>,
            n_events: u32,
            mask: GlobalMut<'_, u32>,
            status: GlobalMut<'_, u32>,
        ) {
            SelectEvents.run(&hardware!(), &(list, n_events, mask, status));
        }

        #[unsafe(export_name = concat!("cluster__", $variant))]
        unsafe extern "ptx-kernel" fn cluster(
            options: RankedOptions,
            input: RankedInput<'_>,
            tables: RankedTables<'_>,
            work: Work<'_>,
        ) {
            Cluster { switches: SWITCHES }.run(&hardware!(), &(options, input, tables, work));
        }

        #[unsafe(export_name = concat!("cluster_unusual__", $variant))]
        unsafe extern "ptx-kernel" fn cluster_unusual(
            options: RankedOptions,
            batch: Batch<'_>,
            tables: RankedTables<'_>,
            lanes: LaneTables<'_>,
            work: Work<'_>,
        ) {
            ClusterUnusual { switches: SWITCHES }
                .run(&hardware!(), &(options, batch, tables, lanes, work));
        }

        #[unsafe(export_name = concat!("scan__", $variant))]
        unsafe extern "ptx-kernel" fn scan(
            n_hits: Global<'_, u32>,
            bases: GlobalMut<'_, u32>,
            descriptors: GlobalMut<'_, u64>,
        ) {
            Scan.run(&hardware!(), &(n_hits, bases, descriptors));
        }

        #[unsafe(export_name = concat!("sort_groups__", $variant))]
        unsafe extern "ptx-kernel" fn sort_groups(
            flip_origin: f32,
            tables: RankedTables<'_>,
            work: Work<'_>,
        ) {
            SortGroups { switches: SWITCHES }.run(&hardware!(), &(flip_origin, tables, work));
        }

        #[unsafe(export_name = concat!("make_hits__", $variant))]
        unsafe extern "ptx-kernel" fn make_hits(
            input: HitsInput<'_>,
            tables: RankedTables<'_>,
            to: Written<'_>,
        ) {
            MakeHits { switches: SWITCHES }.run(&hardware!(), &(input, tables, to));
        }
    };
}

#[cfg(any(ptx_unit = "v4_mep_ranked", ptx_unit = "v5_mep_ranked"))]
macro_rules! gather {
    ($variant:literal) => {
        #[unsafe(export_name = concat!("gather_banks__", $variant))]
        unsafe extern "ptx-kernel" fn gather_banks(
            batch: Batch<'_>,
            n_events: u32,
            words: GlobalMut<'_, u32>,
        ) {
            GatherBanks { switches: SWITCHES }.run(&hardware!(), &(batch, n_events, words));
        }
    };
}

#[cfg(ptx_unit = "v4_allen_ranked")]
ranked!("v4_allen_ranked", V4, Allen);
#[cfg(ptx_unit = "v4_mep_ranked")]
ranked!("v4_mep_ranked", V4, Mep);
#[cfg(ptx_unit = "v4_mep_ranked")]
gather!("v4_mep_ranked");
#[cfg(ptx_unit = "v5_allen_ranked")]
ranked!("v5_allen_ranked", V5, Allen);
#[cfg(ptx_unit = "v5_mep_ranked")]
ranked!("v5_mep_ranked", V5, Mep);
#[cfg(ptx_unit = "v5_mep_ranked")]
gather!("v5_mep_ranked");
