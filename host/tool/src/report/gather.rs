//! Files into a view: every thread decodes and adds up its share, and the shares are merged at the end.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use crate::decode::LISTED_FAILURES;
use ut_data::error::WorkError;
use ut_data::input::{Bank, Chunk, Chunks, InputError, InputPart, Origin, Parser, Seen, Select, banks_of};
use ut_data::memory::TooMuchMemory;
use ut_data::pipeline::ordered;
use ut_data::{BatchReport, BatchView, Count, DecodeError, DecodeOptions, Decoder, DetectorTables, UtHits, memory};
use ut_decoders::cpu::{CpuConfig, CpuDecoder, memory_of_threads};
use ut_decoders::job::{BATCH_SIZE, CHUNK_MEMORY};
use ut_report::{Against, MergeError, RunFiller, RunView, troubles};

/// Bytes that a thread's view takes, with its work buffers.
const VIEW_MEMORY: u64 = 16 << 20;

/// How views are gathered.
pub struct Gatherer<'a> {
    pub tables: &'a DetectorTables,
    pub options: DecodeOptions,
    pub threads: usize,
    pub against: Against,
    pub check: bool,
    pub keep_going: bool,
    /// Events before these, among all of the run.
    pub first_place: u64,
}

/// Why nothing could be gathered.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    /// There is too little memory.
    #[error(transparent)]
    Memory(#[from] TooMuchMemory),
    /// No decoder can be made.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A thread has sums of something else, which is a bug.
    #[error(transparent)]
    Merge(#[from] MergeError),
}

/// What became of the files.
pub struct Gathered {
    pub view: RunView,
    pub seen: Seen,
    /// Why files could not be read to their end.
    pub failures: Vec<WorkError>,
    /// The least and the greatest event number.
    pub numbers: Option<(u64, u64)>,
}

/// What a thread works with.
struct Worker<'a> {
    parser: Parser,
    decoder: CpuDecoder,
    tables: &'a DetectorTables,
    against: Against,
    hits: UtHits,
    report: BatchReport,
    /// Shared with the thread that gathers, which takes it at the end.
    filler: Arc<Mutex<Option<RunFiller>>>,
}

/// What became of a piece, beside what the filler has.
#[derive(Default)]
struct Done {
    seen: Seen,
    numbers: Option<(u64, u64)>,
}

impl Worker<'_> {
    fn work(&mut self, chunk: Chunk) -> Result<Done, WorkError> {
        let Self { parser, decoder, tables, against, hits, report, filler } = self;
        let mut done = Done::default();
        let Done { seen, numbers } = &mut done;
        // Nobody else locks it while there is work, and a thread that panicked ends the program.
        let Ok(mut filler) = filler.lock() else { return Ok(done) };
        let Some(filler) = filler.as_mut() else { return Ok(Done::default()) };
        let key = |number: Option<u64>, origin: Origin| match against {
            Against::Number => number,
            Against::Place => Some(origin.place),
        };
        // The parser shows an event before it is decoded; what it shows is kept until then.
        let filler = std::cell::RefCell::new(filler);
        let mut look = |event: &ut_data::input::RawEvent<'_>, origin: Origin| {
            filler.borrow_mut().add_banks(event, key(event.number, origin));
            if let Some(number) = event.number {
                let (least, greatest) = numbers.get_or_insert((number, number));
                (*least, *greatest) = ((*least).min(number), (*greatest).max(number));
            }
        };
        parser.parse(chunk, seen, Some(&mut look), |(batch, origins, max_hits)| -> Result<(), WorkError> {
            hits.try_reserve(batch.n_events, tables.hits_at_most(batch.n_events, max_hits))?;
            decoder.decode(batch, hits, report)?;
            let mut filler = filler.borrow_mut();
            filler.add(hits, report, |e| key(batch.meta_of(e).event, origins[e]));
            add_troubles(&mut filler, tables, batch, report, origins);
            Ok(())
        })?;
        Ok(done)
    }
}

/// Finds out which banks the troubles of a batch are of.
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
    /// Gathers the events of `parts` that `select` takes. `go_on` hears how many events that were so far, of how many bytes
    /// of the files, and may end it.
    ///
    /// # Errors
    /// Where there is too little memory, or no decoder can be made; what is wrong with files is in [`Gathered`].
    pub fn gather(
        &self,
        parts: &[InputPart],
        select: &Select,
        mut go_on: impl FnMut(u64, u64) -> bool,
    ) -> Result<Gathered, GatherError> {
        let (tables, n) = (self.tables, self.threads.max(1));
        let needed = memory_of_threads(n) + n as u64 * (2 * CHUNK_MEMORY + VIEW_MEMORY);
        memory::check(format!("a report with {n} threads"), needed)?;
        let mut chunks = Chunks::new(parts.iter().cloned(), BATCH_SIZE, self.check, select.clone())
            .begin_at(self.first_place)
            .unpack_at_once(n);
        let config = CpuConfig { threads: 1, ..CpuConfig::default() };
        let (mut workers, mut fillers) = (Vec::new(), Vec::new());
        for _ in 0..n {
            let filler = Arc::new(Mutex::new(Some(RunFiller::new(tables, self.against))));
            fillers.push(Arc::clone(&filler));
            let mut worker = Worker {
                parser: Parser::new(self.check, select.clone()),
                decoder: CpuDecoder::new(tables, self.options, config)?,
                tables,
                against: self.against,
                hits: UtHits::with_capacity(0, tables.n_groups(), 0).with_clusters(),
                report: BatchReport::new(),
                filler,
            };
            workers.push(move |chunk: Result<Chunk, InputError>| worker.work(chunk?));
        }
        let read = chunks.read();
        let mut gathered = Gathered {
            view: RunView::new(tables, self.against),
            seen: Seen::default(),
            failures: Vec::new(),
            numbers: None,
        };
        // Nothing after a failure is started: threads add up chunks as they come, so the sums would depend on timing.
        let mut ended = false;
        let produce = || {
            let chunk = if ended { None } else { chunks.next_chunk().transpose() };
            ended = !self.keep_going && matches!(chunk, Some(Err(_)));
            chunk
        };
        ordered(2 * n + 1, produce, workers, |done| {
            let mut more = true;
            match done {
                Ok(Done { seen, numbers }) => {
                    gathered.seen.merge(seen);
                    gathered.numbers = both(gathered.numbers, numbers);
                }
                Err(error) => {
                    more = self.keep_going && error.is_of_input();
                    if gathered.failures.len() < LISTED_FAILURES {
                        gathered.failures.push(error);
                    }
                }
            }
            go_on(gathered.seen.events, read.load(Ordering::Relaxed)) && more
        });
        for filler in fillers {
            if let Some(filler) = filler.lock().ok().and_then(|mut filler| filler.take()) {
                gathered.view.merge(&filler.finish())?;
            }
        }
        Ok(gathered)
    }
}

/// The least and the greatest number of two runs.
pub fn both(one: Option<(u64, u64)>, other: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (one, other) {
        (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
        (one, other) => one.or(other),
    }
}
