//! The hit-parallel pipeline in the executor: ordinary events, then the others.

use simt::Global;
use ut_kernels::clustering::ClusterOptions;
use ut_kernels::fused::gather::{GATHER_THREADS, gather_banks, gather_blocks, gather_shared_bytes};
use ut_kernels::fused::{FusedInput, FusedOptions, FusedOutput, decode_others, fused_shared_bytes};
use ut_kernels::hit::HitArrays;
use ut_kernels::hit_parallel::{HitOptions, HitOutput, HitRoom, decode_ordinary, hit_shared_bytes};
use ut_kernels::status;
use ut_kernels::switches::{BatchLayout, Switches};

use super::decoder::{Launcher, device_batch, sized};
use crate::decoder::hit_tables::HitRecords;
use crate::decoder::plan::too_many_hits;
use crate::decoder::rank_tables::RankTables;
use crate::decoder::{DecodeError, UtHitsMut};
use crate::detector::BankVersion;
use crate::input::BatchView;

/// Blocks that share the events which the first kernel left.
const OTHERS_BLOCKS: u32 = 3;

/// Views of the hits for one launch.
macro_rules! arrays {
    ($launcher:ident, $hits:ident) => {
        HitArrays {
            y_begin: $launcher.executor.writable($hits.y_begin),
            y_end: $launcher.executor.writable($hits.y_end),
            z_at_y_eq0: $launcher.executor.writable($hits.z_at_y_eq0),
            x_at_y_eq0: $launcher.executor.writable($hits.x_at_y_eq0),
            dx_dy: $launcher.executor.writable($hits.dx_dy),
            weight: $launcher.executor.writable($hits.weight),
            id: $launcher.executor.writable($hits.id),
        }
    };
}

/// Tables and work buffers.
#[derive(Debug)]
pub struct HitWork {
    tables: RankTables,
    records: HitRecords,
    bank_words: Vec<u32>,
    look_back: Vec<u32>,
    others: Vec<u32>,
    status: [u32; 1],
}

impl HitWork {
    pub fn new(tables: RankTables, version: BankVersion) -> Self {
        let records = HitRecords::new(&tables, version);
        Self { tables, records, bank_words: Vec::new(), look_back: Vec::new(), others: Vec::new(), status: [0] }
    }

    /// Events of the last batch that the first kernel left.
    pub fn n_others(&self) -> u32 {
        self.others.first().copied().unwrap_or(0)
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
        let Self { tables, records, bank_words, look_back, others, status: status_word } = self;
        let (tables, records) = (tables.view(), records.view());
        let events = batch.n_events as u32;
        let device_batch = device_batch(batch);
        let params = launcher.params;
        let block = (params.fused_block_x(), 1);
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
            records.boards.as_ptr().addr(),
            records.lanes.as_ptr().addr(),
            records.groups.as_ptr().addr(),
            records.classes.as_ptr().addr(),
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
        sized(look_back, 1 + batch.n_events)?;
        look_back.fill(0);
        sized(others, 1 + batch.n_events)?;
        others[0] = 0;
        *status_word = [0];

        let options = HitOptions { cluster, flip_origin, strips: params.fused_strips() };
        let output = HitOutput {
            hits: arrays!(launcher, hits),
            offsets: launcher.executor.writable(hits.offsets),
            report: launcher.executor.writable(report),
            status: launcher.executor.writable(status_word),
            look_back: launcher.executor.writable(look_back),
            others: launcher.executor.writable(others),
        };
        let shared = hit_shared_bytes(HitRoom { version: switches.version, threads: block.0, strips: options.strips });
        launcher.launch("decode_ordinary", events, block, shared, |block| {
            decode_ordinary(block, switches, &options, &input, &records, &tables, &output);
        })?;

        let room = params.fused_room();
        let options = FusedOptions { cluster, flip_origin, room };
        let output = FusedOutput {
            hits: arrays!(launcher, hits),
            offsets: launcher.executor.writable(hits.offsets),
            report: launcher.executor.writable(report),
            status: launcher.executor.writable(status_word),
            look_back: launcher.executor.writable(&mut []),
            bases: Global::from_slice(&[]),
        };
        let shared = fused_shared_bytes(switches.version, tables.n_boards(), tables.n_groups(), room);
        let others = Global::from_slice(others);
        launcher.launch("decode_others", events.min(OTHERS_BLOCKS), block, shared, |block| {
            decode_others(block, switches, &options, &input, &tables, &output, events, others);
        })?;
        if status_word[0] & status::HITS_OVERFLOW != 0 {
            return Err(too_many_hits(hits.offsets, tables.n_groups() as usize, hits.id.len()));
        }
        Ok(())
    }
}
