//! A thread that decodes: takes pieces of the inputs apart, decodes them and encodes their hits.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use super::Args;
use super::sets::Sets;
use crate::bench::{Configuration, features};
use crate::cli::Failure;
use crate::cli::summary::Part;
use crate::decoder::cpu::memory_of_threads;
use crate::decoder::emulated::{EmulatedConfig, EmulatedDecoder};
use crate::decoder::{Backend, DecodeError, Decoder, DecoderConfig};
use crate::detector::Mask;
use crate::error::WorkError;
use crate::input::{Chunk, Parser, Seen, to_allen, to_mep};
use crate::output::{Encoded, Encoder, Rows};
use crate::{BatchReport, DetectorTables, Layout, UtHits, memory};

/// Bytes that a piece of the inputs takes, with its hits in every form, in the mean.
pub const CHUNK_MEMORY: u64 = 48 << 20;

/// Threads that decode, each with a decoder of its own; the decoders get one thread each.
pub fn n_workers(args: &Args, config: &mut DecoderConfig) -> Result<usize, Failure> {
    let n = match args.backend.backend {
        Backend::Cpu => std::mem::replace(&mut config.cpu.threads, 1),
        Backend::Reference => usize::from(args.backend.threads()),
        Backend::Emulated => 1,
        // One reads while the device works for the other.
        Backend::Cuda => 2,
    };
    let n = if n == 0 { std::thread::available_parallelism().map_or(1, std::num::NonZero::get) } else { n };
    let needed = memory_of_threads(n) + 2 * n as u64 * CHUNK_MEMORY;
    memory::check(format!("decoding with {n} threads"), needed)?;
    Ok(n)
}

/// A decoder as it is asked for.
pub fn decoder(args: &Args, tables: &DetectorTables, config: &DecoderConfig) -> Result<Box<dyn Decoder>, DecodeError> {
    let options = args.clustering.options();
    if args.backend.backend == Backend::Emulated {
        let config = EmulatedConfig {
            schedule_seed: args.schedule_seed,
            launch: config.launch,
            pipeline: config.pipeline,
            ..EmulatedConfig::default()
        };
        return Ok(Box::new(EmulatedDecoder::new(tables, options, config)?));
    }
    args.backend.backend.decoder_with(tables, options, config)
}

/// Makes a decoder with the parameters of a set.
pub type Again<'a> = dyn Fn(&Configuration) -> Result<Box<dyn Decoder>, DecodeError> + Sync + 'a;

/// A thread that decodes, and what it works with.
pub struct Worker<'a> {
    pub parser: Parser,
    pub decoder: Box<dyn Decoder>,
    pub layout: Option<Layout>,
    pub layers: Arc<[usize]>,
    pub hits: UtHits,
    pub tables: &'a DetectorTables,
    pub report: BatchReport,
    pub mask: Option<Arc<Mask>>,
    pub encoder: Option<Encoder>,
    /// The sets of several workloads, and which of them the decoder has.
    pub sets: Option<(&'a Sets, usize)>,
    /// Makes the decoder again, with another set.
    pub again: &'a Again<'a>,
}

/// Batches in MEP layout that a batch may become: one that falls apart into more, because banks are missing in many of its
/// events, is decoded as it is. A backend would launch all its kernels for each of them.
const MOST_MEP_BATCHES: usize = 4;

/// What became of a batch.
pub struct Batch {
    pub part: Part,
    /// The run of its first event.
    pub run: Option<u32>,
    pub encoded: Option<Encoded>,
}

/// What became of a piece of the inputs.
#[derive(Default)]
pub struct Done {
    pub seen: Seen,
    pub batches: Vec<Batch>,
    pub copied: u64,
    pub runs: BTreeSet<u32>,
}

impl Worker<'_> {
    /// Decodes a piece of the inputs.
    pub fn work(&mut self, chunk: Chunk) -> Result<Done, WorkError> {
        if let Some((sets, set)) = &mut self.sets
            && sets.current() != *set
        {
            *set = sets.current();
            self.decoder = (self.again)(sets.configuration(*set))?;
        }
        let Self { parser, decoder, layout, layers, hits, tables, report, mask, encoder, sets, .. } = self;
        let mut done = Done::default();
        let Done { seen, batches, copied, runs } = &mut done;
        let before = parser.copied();
        parser.parse(chunk, seen, |(batch, origins, max_hits)| -> Result<(), WorkError> {
            let mut first = 0;
            let mut decode = |batch: crate::BatchView<'_>, max_hits: usize| -> Result<(), WorkError> {
                hits.try_reserve(batch.n_events, tables.hits_at_most(batch.n_events, max_hits))?;
                runs.extend(batch.meta.iter().filter_map(|meta| meta.run));
                let start = Instant::now();
                decoder.decode(batch, hits, report)?;
                let decoding = start.elapsed();
                if let Some((sets, set)) = sets
                    && batch.n_events > 0
                {
                    sets.look(*set, &features(hits, report));
                }
                let masked = mask.as_ref().map_or(0, |mask| hits.retain(|id| !mask.contains(id)));
                let origins = &origins[first..first + batch.n_events];
                let part = Part::of(layers, origins, hits, report, masked, decoding);
                let encoded = match encoder {
                    Some(encoder) => {
                        Some(encoder.encode(&Rows { files: &[], origins, meta: batch.meta, hits, tables })?)
                    }
                    None => None,
                };
                batches.push(Batch { part, run: batch.meta_of(0).run, encoded });
                first += batch.n_events;
                Ok(())
            };
            match (*layout, batch.layout) {
                (Some(Layout::Mep), Layout::Allen) => {
                    let meps = to_mep(batch)?;
                    if meps.len() > MOST_MEP_BATCHES {
                        return decode(batch, max_hits);
                    }
                    meps.iter().try_for_each(|mep| decode(mep.view(), mep.view().max_hits()))
                }
                (Some(Layout::Allen), Layout::Mep) => {
                    let allen = to_allen(batch)?;
                    decode(allen.view(), allen.view().max_hits())
                }
                _ => decode(batch, max_hits),
            }
        })?;
        *copied = parser.copied() - before;
        Ok(done)
    }
}
