//! Number of hits of an event for the other kernel: a thread a bank, every rule of the policy, no hurry.

use super::shared::FusedShared;
use crate::bank::layout::{Banks, Batch};
use crate::bank::{is_ut, v4, v5};
use crate::clustering::{ClusterOptions, LaneClustering, NarrowSums, Step};
use crate::detector::BankVersion;
use crate::ranked::lane_tables::LaneTables;
use crate::switches::Switches;
use simt::Block;
use simt::primitives::block_scan::block_exclusive;

#[derive(Clone, Copy)]
pub(super) struct Slow<'a> {
    pub switches: Switches,
    pub options: ClusterOptions,
    pub batch: &'a Batch<'a>,
    pub tables: &'a LaneTables<'a>,
}

impl Slow<'_> {
    /// Counts the hits of an event. All threads of the block call, after a barrier since the counters were cleared.
    #[inline(always)]
    pub fn count<B: Block>(&self, block: &B, shared: &FusedShared, event: u32) -> u32 {
        let Self { switches, batch, .. } = self;
        let Some(event) = batch.event(block, switches.layout, event) else { return 0 };
        let n_banks = Banks::<B>::n_banks(event);
        let mut i = block.thread();
        while i < n_banks {
            if event.bank(block, batch, switches.layout, i).is_none() {
                block.shared_atomic_min(shared.first_broken, 0, i);
            }
            i = i.saturating_add(block.threads());
        }
        // All banks looked at before the first broken one is known.
        block.sync_threads();
        let end = block.shared_load(shared.first_broken, 0).min(n_banks);
        let mut chunk = 0;
        let mut ut_banks = 0u32;
        // Uniform in the block.
        while chunk < end && ut_banks < self.tables.n_boards() {
            let i = chunk + block.thread();
            let bank = if i < end { event.bank(block, batch, switches.layout, i) } else { None };
            let bank = bank.filter(|bank| is_ut(bank.kind));
            let (before, in_chunk) = block_exclusive(block, shared.warp_totals, u32::from(bank.is_some()));
            if let Some(bank) = bank
                && ut_banks + before < self.tables.n_boards()
                && bank.version == switches.version.byte()
                && bank.board < self.tables.n_boards()
                && block.load(self.tables.strips_per_hybrid, bank.board) != 0
            {
                let n = match switches.version {
                    BankVersion::V4 => self.words(block, bank.payload, bank.size, bank.board),
                    BankVersion::V5 => self.clusters(block, bank.payload, bank.size, bank.board),
                };
                if n > 0 {
                    block.shared_atomic_add(shared.n_slow, 0, n);
                }
            }
            ut_banks += in_chunk;
            chunk = chunk.saturating_add(block.threads());
            // The sums of this chunk are read before the next chunk's are written; all hits are counted.
            block.sync_threads();
        }
        block.shared_load(shared.n_slow, 0)
    }

    #[inline(always)]
    fn words<B: Block>(&self, block: &B, payload: u32, size: u32, board: u32) -> u32 {
        let Some(n) = v4::n_words(block, self.batch.raw, payload, size) else { return 0 };
        // Known boards have strips; the guard spares the device a trap.
        let strips = block.load(self.tables.strips_per_hybrid, board).max(1);
        let mut hits = 0;
        let mut i = 0;
        while i < n {
            let word: u16 = block.load_bytes(self.batch.raw, payload + v4::word_offset(i));
            let index = v4::channel(word) / strips;
            if index < v5::LANES && self.tables.rank(block, board * v5::LANES + index).is_some() {
                hits += 1;
            }
            i += 1;
        }
        hits
    }

    #[inline(always)]
    fn clusters<B: Block>(&self, block: &B, payload: u32, size: u32, board: u32) -> u32 {
        let v5::Header::Hits(counts) = v5::header(block, self.batch.raw, payload, size) else { return 0 };
        let mut hits = 0;
        let mut lane = 0;
        while lane < v5::LANES {
            let n = counts.of(lane);
            if n > 0 && self.tables.rank(block, board * v5::LANES + lane).is_some() {
                let first = payload + v5::lane_offset(lane);
                let mut state = LaneClustering::<NarrowSums>::default();
                let mut i = 0;
                while i <= n {
                    let step: Step = if i < n {
                        let hit: u16 = block.load_bytes(self.batch.raw, first + v5::hit_offset(i));
                        state.hit(v5::strip(hit), v5::adc(hit), self.options)
                    } else {
                        state.end(self.options)
                    };
                    hits += u32::from(step.weight > 0);
                    i += 1;
                }
            }
            lane += 1;
        }
        hits
    }
}
