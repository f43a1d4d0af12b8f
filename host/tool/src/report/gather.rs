//! Sums up files: every thread decodes its share, and the shares are merged at the end.

use ut_data::detector::Mask;
use ut_data::error::WorkError;
use ut_data::input::{Bank, InputPart, Origin, RawEvent, Seen, Select, banks_of};
use ut_data::memory::TooMuchMemory;
use ut_data::{BatchReport, BatchView, Count, DecodeError, DecodeOptions, Decoder, DetectorTables, UtHits, memory};
use ut_decoders::cpu::{CpuDecoder, memory_of_threads};
use ut_decoders::job::{BATCH_SIZE, CHUNK_MEMORY, Decoded, Job, Work};
use ut_report::{Against, Gathered, RunFiller, RunView, troubles};

use crate::decode::LISTED_FAILURES;

/// Bytes of a thread's view, with its work buffers.
const VIEW_MEMORY: u64 = 16 << 20;

pub struct Gatherer<'a> {
    pub tables: &'a DetectorTables,
    pub options: DecodeOptions,
    pub threads: usize,
    pub against: Against,
    pub check: bool,
    pub keep_going: bool,
    /// Events of the run before these.
    pub first_place: u64,
    pub mask: Option<&'a Mask>,
}

#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    #[error(transparent)]
    Memory(#[from] TooMuchMemory),
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

struct Worker<'a> {
    decoder: CpuDecoder,
    tables: &'a DetectorTables,
    against: Against,
    mask: Option<&'a Mask>,
    filler: &'a mut RunFiller,
}

impl Worker<'_> {
    /// Returns the number of an event that pictures against time are over.
    fn key(&self, number: Option<u64>, origin: Origin) -> Option<u64> {
        match self.against {
            Against::Number => number,
            Against::Place => Some(origin.place),
        }
    }
}

impl Work for Worker<'_> {
    type Made = ();

    const LOOKS: bool = true;

    fn look(&mut self, event: &RawEvent<'_>, origin: Origin) {
        self.filler.add_banks(event, self.key(event.number, origin));
    }

    fn decode(&mut self, batch: BatchView<'_>, hits: &mut UtHits, report: &mut BatchReport) -> Result<(), DecodeError> {
        self.decoder.decode(batch, hits, report)
    }

    fn make(&mut self, decoded: Decoded<'_>) -> Result<(), WorkError> {
        let Decoded { batch, origins, hits, report, .. } = decoded;
        let keys: Vec<Option<u64>> =
            (0..batch.n_events).map(|e| self.key(batch.meta_of(e).event, origins[e])).collect();
        self.mask.map(|mask| hits.retain(|id| !mask.contains(id)));
        self.filler.add(hits, report, |e| keys[e]);
        add_troubles(self.filler, self.tables, batch, report, origins);
        Ok(())
    }
}

fn add_troubles(
    filler: &mut RunFiller,
    tables: &DetectorTables,
    batch: BatchView<'_>,
    report: &BatchReport,
    origins: &[Origin],
) {
    let mut banks: Vec<Bank<'_>> = Vec::new();
    for (e, event) in report.events.iter().enumerate().filter(|(_, event)| event.has_trouble()) {
        let place = origins[e].place;
        if event.get(Count::BrokenEvent) > 0 {
            filler.add_trouble(Count::BrokenEvent, 1, None, place);
        }
        banks_of(batch, e, &mut banks);
        troubles(tables.boards(), banks.iter().copied(), |trouble| {
            filler.add_trouble(trouble.count, trouble.n, trouble.board, place);
        });
    }
}

impl Gatherer<'_> {
    /// Sums up the events of `parts` that `select` takes. `go_on` gets the number of events and of bytes of the files
    /// so far, and may end it. Failures of files are in [`Gathered`].
    pub fn gather(
        &self,
        parts: &[InputPart],
        select: &Select,
        mut go_on: impl FnMut(u64, u64) -> bool,
    ) -> Result<Gathered, GatherError> {
        let (tables, against, mask, n) = (self.tables, self.against, self.mask, self.threads.max(1));
        let needed = memory_of_threads(n) + n as u64 * (2 * CHUNK_MEMORY + VIEW_MEMORY);
        memory::check(format!("a report with {n} threads"), needed)?;
        let mut fillers: Vec<RunFiller> = (0..n).map(|_| RunFiller::new(tables, against)).collect();
        let worker = |filler| Worker { decoder: CpuDecoder::new(tables, self.options), tables, against, mask, filler };
        let workers = fillers.iter_mut().map(worker).collect();
        let job = Job {
            parts: parts.to_vec(),
            select: select.clone(),
            check: self.check,
            by_file: false,
            layout: None,
            together: false,
            keep_going: self.keep_going,
            first_place: self.first_place,
            clusters: true,
            tables,
        };
        let (mut seen, mut failures) = (Seen::default(), Vec::new());
        job.run(
            workers,
            || Some(BATCH_SIZE),
            |reached, _, done| {
                let mut more = true;
                match done {
                    Ok(done) => seen.merge(done.seen),
                    Err(error) => {
                        more = self.keep_going && error.is_of_input();
                        if failures.len() < LISTED_FAILURES {
                            failures.push(error);
                        }
                    }
                }
                go_on(seen.events, reached.bytes) && more
            },
        );
        let mut view = RunView::new(tables, against);
        for filler in fillers {
            view.merge(&filler.finish());
        }
        Ok(Gathered { view, seen, failures })
    }
}
