//! The tables by rank, a lane's place in the static order, which the CPU decoder has, too.

use std::collections::HashMap;

use ut_kernels::detector::{LANES_PER_BOARD, SectorConstants};
use ut_kernels::ranked::lane_tables::{
    CLASS_FLIPPED, CLASS_REVERSED, CLASS_WORDS, MAX_RANKS, REVERSED, UNCONNECTED,
};
use ut_kernels::ranked::pipeline::AllTables;

use super::cpu::lanes::LaneOrder;
use super::lane_columns::LaneColumns;
use super::placer::{InPlace, Placer};
use super::ranked_records::{RankedLane, RankedRecords, is_reversed};
use super::{DecodeError, DecodeOptions};
use ut_data::detector::{BankVersion, DetectorTables};

/// The tables of a detector in the order of the ranks.
#[derive(Clone, Debug)]
pub struct RankTables {
    /// One column for each constant.
    pub lanes: LaneColumns,
    /// The records that all kernels read.
    pub ranked: RankedRecords,
}

impl RankTables {
    /// Makes the tables for `backend`. Of the options only the flip matters, and only for the order
    /// of two lanes.
    pub fn new(
        backend: &'static str,
        tables: &DetectorTables,
        options: DecodeOptions,
    ) -> Result<Self, DecodeError> {
        let order = LaneOrder::new(tables, options);
        let n = order.n_connected;
        if n > MAX_RANKS as usize || tables.slots().len() > usize::from(u16::MAX) {
            let message = format!("{n} connected lanes are too many for the kernels");
            return Err(DecodeError::Device { backend, message });
        }
        // By rank: slot, and true if it is reversed.
        let mut lanes = vec![(0, false); n];
        for slot in 0..tables.slots().len() {
            let rank =
                usize::from(order.boards[slot / LANES_PER_BOARD].ranks[slot % LANES_PER_BOARD]);
            if rank < n {
                lanes[rank] = (slot, order.sources[rank].direction != 0);
            }
        }
        let mut ranks = vec![UNCONNECTED; tables.slots().len()];
        for (rank, &(slot, is_reversed)) in lanes.iter().enumerate() {
            ranks[slot] = rank as u16 | if is_reversed { REVERSED } else { 0 };
        }
        let slots: Vec<usize> = lanes.iter().map(|&(slot, _)| slot).collect();
        let sector = |slot: usize| &tables.sectors()[usize::from(tables.slots()[slot].sector)];
        let column = |value: fn(&SectorConstants) -> f32| {
            slots.iter().map(|&slot| value(sector(slot))).collect()
        };

        let mut numbers = HashMap::new();
        let mut constants = Vec::new();
        let mut classes = Vec::with_capacity(n);
        for &slot in &slots {
            let class = class(sector(slot), ranks[slot] & REVERSED != 0);
            // No more classes than ranks.
            let next = numbers.len() as u16;
            classes.push(*numbers.entry(class).or_insert_with(|| {
                constants.extend(class);
                next
            }));
        }
        let version = tables.boards().version;
        let chan_id = |slot: usize| match version {
            BankVersion::V4 => tables.slots()[slot].chan_id,
            BankVersion::V5 => tables.slots()[slot].chan_id & !0x1FF,
        };
        let strips_per_hybrid = tables.boards().strips_per_hybrid.clone();
        let first_channel = |slot: usize| {
            (slot % LANES_PER_BOARD) as u32 * strips_per_hybrid[slot / LANES_PER_BOARD]
        };
        let lanes = LaneColumns {
            first_ranks: order
                .first_ranks
                .iter()
                .map(|&rank| u32::from(rank))
                .collect(),
            chan_ids: slots.iter().map(|&slot| chan_id(slot)).collect(),
            first_channels: slots.iter().map(|&slot| first_channel(slot)).collect(),
            p0_x: column(|sector| sector.p0_x),
            p0_y: column(|sector| sector.p0_y),
            p0_z: column(|sector| sector.p0_z),
            ranks,
            strips_per_hybrid,
            classes,
            constants,
        };
        let of_rank = slots.iter().map(|&slot| RankedLane {
            slot,
            is_reversed: is_reversed(lanes.ranks[slot]),
            is_second_half: tables.slots()[slot].chan_id & 0x100 != 0,
        });
        let ranked = RankedRecords::new(
            &of_rank.collect::<Vec<_>>(),
            &lanes,
            version,
            options.flip().origin(),
        );
        Ok(Self { lanes, ranked })
    }

    /// Returns a view of the tables in the host's memory.
    pub fn view(&self) -> AllTables<'_> {
        self.placed(&mut InPlace)
    }

    pub(crate) fn placed<'t, 'v>(&'t self, by: &mut impl Placer<'t, 'v>) -> AllTables<'v> {
        AllTables {
            lanes: self.lanes.placed(by),
            ranks: self.ranked.placed(by),
        }
    }
}

/// Constants that many sectors share.
fn class(sector: &SectorConstants, reversed: bool) -> [u32; CLASS_WORDS as usize] {
    let floats = [
        sector.dp0di_x,
        sector.dp0di_y,
        sector.dp0di_z,
        sector.dy,
        sector.dx_dy,
        sector.weight,
    ]
    .map(f32::to_bits);
    let flags = if sector.flipped == 0 {
        0
    } else {
        CLASS_FLIPPED
    } | if reversed { CLASS_REVERSED } else { 0 };
    let [x, y, z, dy, dx_dy, weight] = floats;
    [x, y, z, dy, dx_dy, weight, sector.first_strip, flags]
}
