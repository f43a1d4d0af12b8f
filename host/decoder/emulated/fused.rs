//! The one-launch pipeline in the executor.

use simt::Global;
use ut_kernels::clustering::ClusterOptions;
use ut_kernels::fused::gather::{GATHER_THREADS, gather_banks, gather_blocks, gather_shared_bytes};
use ut_kernels::fused::{FusedInput, FusedOptions, FusedOutput, Room, count_clusters, fused, fused_shared_bytes};
use ut_kernels::hit::HitArrays;
use ut_kernels::status;
use ut_kernels::switches::{BatchLayout, Switches};

use super::decoder::{Launcher, device_batch, sized};
use crate::decoder::plan::too_many_hits;
use crate::decoder::rank_tables::RankTables;
use crate::decoder::{DecodeError, UtHitsMut};
use crate::input::BatchView;

/// Tables and work buffers.
#[derive(Debug)]
pub struct FusedWork {
    tables: RankTables,
    bank_words: Vec<u32>,
    counts: Vec<u32>,
    bases: Vec<u32>,
    tile_totals: Vec<u32>,
    look_back: Vec<u32>,
    status: [u32; 1],
}

impl FusedWork {
    pub const fn new(tables: RankTables) -> Self {
        Self {
            tables,
            bank_words: Vec::new(),
            counts: Vec::new(),
            bases: Vec::new(),
            tile_totals: Vec::new(),
            look_back: Vec::new(),
            status: [0],
        }
    }

    /// All launches for a batch of at least one event. `report` has `N_COUNTS` words an event.
    #[expect(clippy::too_many_arguments, reason = "what the decoder is made of, and what it is given")]
    pub fn run(
        &mut self,
        launcher: &mut Launcher,
        switches: Switches,
        cluster: ClusterOptions,
        flip_origin: f32,
        batch: &BatchView<'_>,
        hits: &mut UtHitsMut<'_>,
        report: &mut [u32],
    ) -> Result<(), DecodeError> {
        let Self { tables, bank_words, counts, bases, tile_totals, look_back, status: status_word } = self;
        let tables = tables.view();
        let events = batch.n_events as u32;
        let device_batch = device_batch(batch);
        let params = launcher.params;
        let (room, block) = (params.fused_room(), (params.fused_block_x(), 1));
        let shared = |room| fused_shared_bytes(switches.version, tables.n_boards(), tables.n_groups(), room);
        launcher.executor.constant([
            tables.ranks.as_ptr().addr(),
            tables.first_ranks.as_ptr().addr(),
            tables.strips_per_hybrid.as_ptr().addr(),
            tables.chan_ids.as_ptr().addr(),
            tables.first_channels.as_ptr().addr(),
            tables.p0_x.as_ptr().addr(),
            tables.p0_y.as_ptr().addr(),
            tables.p0_z.as_ptr().addr(),
            tables.classes.as_ptr().addr(),
            tables.constants.as_ptr().addr(),
        ]);
        match switches.layout {
            BatchLayout::Allen => bank_words.clear(),
            BatchLayout::Mep => {
                sized(bank_words, batch.offsets.len())?;
                let (grid, block) = (gather_blocks(events), (GATHER_THREADS, 1));
                let view = launcher.executor.writable(bank_words);
                launcher.launch("gather_banks", grid, block, gather_shared_bytes(), |block| {
                    gather_banks(block, switches, &device_batch, events, view);
                })?;
            }
        }
        let input = FusedInput { batch: device_batch, bank_words: Global::from_slice(bank_words) };
        if params.fused_count_first() {
            let options = FusedOptions { cluster, flip_origin, room: Room { tile: 0, ..room } };
            sized(counts, batch.n_events)?;
            sized(bases, batch.n_events + 1)?;
            let view = launcher.executor.writable(counts);
            launcher.launch("count_clusters", events, block, shared(options.room), |block| {
                count_clusters(block, switches, &options, &input, &tables, view);
            })?;
            launcher.prefix_sum(counts, bases, tile_totals)?;
        } else {
            bases.clear();
        }

        let options = FusedOptions { cluster, flip_origin, room };
        sized(look_back, 1 + batch.n_events)?;
        look_back.fill(0);
        *status_word = [0];
        let output = FusedOutput {
            hits: HitArrays {
                y_begin: launcher.executor.writable(hits.y_begin),
                y_end: launcher.executor.writable(hits.y_end),
                z_at_y_eq0: launcher.executor.writable(hits.z_at_y_eq0),
                x_at_y_eq0: launcher.executor.writable(hits.x_at_y_eq0),
                dx_dy: launcher.executor.writable(hits.dx_dy),
                weight: launcher.executor.writable(hits.weight),
                id: launcher.executor.writable(hits.id),
            },
            offsets: launcher.executor.writable(hits.offsets),
            report: launcher.executor.writable(report),
            status: launcher.executor.writable(status_word),
            look_back: launcher.executor.writable(look_back),
            bases: Global::from_slice(bases),
        };
        launcher.launch("fused", events, block, shared(room), |block| {
            fused(block, switches, &options, &input, &tables, &output);
        })?;
        if status_word[0] & status::HITS_OVERFLOW != 0 {
            return Err(too_many_hits(hits.offsets, tables.n_groups() as usize, hits.id.len()));
        }
        Ok(())
    }
}
