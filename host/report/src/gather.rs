//! Sums up files: every thread decodes its share, and the shares are merged at the end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Against, Gathered, RunFiller, RunView, Stretch, troubles};
use ut_data::detector::Mask;
use ut_data::error::WorkError;
use ut_data::hits::{Repeats, hashes};
use ut_data::input::{Bank, Events, InputPart, Origin, RawEvent, Seen, Select, banks_of};
use ut_data::job::{BATCH_SIZE, CHUNK_MEMORY, Decoded, Job, LISTED_FAILURES, Work};
use ut_data::memory::{TooMuchMemory, check};
use ut_data::{
    BatchReport, BatchView, Count, DecodeError, DecodeOptions, Decoder, DetectorTables, Loss,
};

/// Number of bytes of a thread's decoder, stack and view, with its work buffers.
const THREAD_MEMORY: u64 = 40 << 20;

impl Against {
    /// Returns the axis of time of some inputs: the event number if the first event of `first`, the
    /// first file, has one.
    pub fn of(first: Option<&Path>) -> Self {
        let number = |file| {
            Events::new([file])
                .next_event()
                .ok()
                .flatten()
                .and_then(|event| event.number)
        };
        first
            .filter(|file| file.is_file())
            .and_then(number)
            .map_or(Self::Place, |_| Self::Number)
    }
}

/// Decodes files and sums up their hits and troubles.
///
/// A page about a run, in a program without the command-line tool:
///
/// ```
/// # use std::{error::Error, path::{Path, PathBuf}, sync::Arc};
/// use ut_data::input::{InputPart, Select};
/// use ut_data::{DecodeOptions, Decoder, DetectorTables};
/// use ut_report::{Against, Detector, Gatherer, Sums, draw};
///
/// /// `decoder` is `CpuDecoder::new`.
/// fn page<D: Decoder>(
///     files: &[PathBuf],
///     detector: Arc<Detector>,
///     decoder: impl Fn(&DetectorTables, DecodeOptions) -> D,
/// ) -> Result<String, Box<dyn Error>> {
///     let (options, against) = (DecodeOptions::default(), Against::of(files.first().map(PathBuf::as_path)));
///     let parts: Vec<InputPart> = files.iter().map(InputPart::file).collect();
///     let gatherer = Gatherer { against, threads: 4, ..Gatherer::new(&detector.tables, options) };
///     let gathered = gatherer.gather(&parts, &Select::default(), decoder, |_events, _bytes| true)?;
///     gathered.seen.check_makers(&detector.tables)?;
///     let sums = Sums::new(files, detector, options, gathered);
///     assert!(sums.troubles().is_empty(), "files that cannot be read, or of another version");
///     Ok(draw(&sums, None, None, "my program 1.0")?.html)
/// }
/// ```
///
/// Sums of parts of a run, made at different places, are [added](super::Sums::add) and drawn as
/// one.
#[derive(Clone, Debug)]
pub struct Gatherer<'a> {
    /// Tables of the decoding.
    pub tables: &'a DetectorTables,
    /// Options of the decoding.
    pub options: DecodeOptions,
    /// Number of threads, at least 1, each with a decoder. Default: 1.
    pub threads: usize,
    /// Axis of the charts against time. Default: the event number.
    pub against: Against,
    /// Compares the checksums of events. Default: true.
    pub check: bool,
    /// Continues with the next file after one that cannot be read to its end. Default: false.
    pub keep_going: bool,
    /// Number of the first event: the number of events in the parts of the run before. Default: 0.
    pub first_place: u64,
    /// Mask whose hits are left out. Default: none.
    pub mask: Option<&'a Mask>,
}

struct Worker<'a, D> {
    decoder: D,
    tables: &'a DetectorTables,
    against: Against,
    mask: Option<&'a Mask>,
    filler: &'a mut RunFiller,
}

impl<D> Worker<'_, D> {
    /// Returns the number of an event that pictures against time are over.
    fn key(&self, number: Option<u64>, origin: Origin) -> Option<u64> {
        match self.against {
            Against::Number => number,
            Against::Place => Some(origin.place),
        }
    }
}

impl<D: Decoder> Work for Worker<'_, D> {
    /// Stretches, losses by file, and the hashes of events.
    type Made = (Vec<Stretch>, Vec<(u32, Loss)>, Vec<u64>);

    const LOOKS: bool = true;

    fn look(&mut self, event: &RawEvent<'_>, origin: Origin) {
        self.filler
            .add_banks(event, origin, self.key(event.number, origin));
    }

    fn decoder(&mut self) -> Result<&mut dyn Decoder, DecodeError> {
        Ok(&mut self.decoder)
    }

    fn make(&mut self, decoded: Decoded<'_>) -> Result<Self::Made, WorkError> {
        let Decoded {
            batch,
            origins,
            hits,
            report,
            ..
        } = decoded;
        // Masked hits are not lost.
        let losses = report.losses_of_files(origins, batch.meta, hits);
        let contents = hashes(batch, hits);
        let keys: Vec<Option<u64>> = (0..batch.n_events)
            .map(|e| self.key(batch.meta_of(e).event, origins[e]))
            .collect();
        self.mask.map(|mask| hits.retain(|id| !mask.contains(id)));
        let crossing = |e: usize| {
            batch
                .meta_of(e)
                .odin
                .and_then(|odin| odin.facts)
                .map(|facts| facts.bcid)
        };
        self.filler.add(hits, report, |e| (keys[e], crossing(e)));
        add_troubles(self.filler, self.tables, (batch, report), (origins, &keys));
        Ok((self.filler.take_stretches(), losses, contents))
    }
}

fn add_troubles(
    filler: &mut RunFiller,
    tables: &DetectorTables,
    (batch, report): (BatchView<'_>, &BatchReport),
    (origins, keys): (&[Origin], &[Option<u64>]),
) {
    let mut banks: Vec<Bank<'_>> = Vec::new();
    for (e, event) in report
        .events
        .iter()
        .enumerate()
        .filter(|(_, event)| event.has_trouble())
    {
        let place = (origins[e].place, keys[e]);
        if event.get(Count::BrokenEvent) > 0 {
            filler.add_trouble(Count::BrokenEvent, 1, None, place);
        }
        banks_of(batch, e, &mut banks);
        troubles(tables.boards(), banks.iter().copied(), |trouble| {
            filler.add_trouble(trouble.count, trouble.n, trouble.board, place);
        });
    }
}

impl<'a> Gatherer<'a> {
    /// Prepares sums over hits that are decoded with these tables and options.
    pub fn new(tables: &'a DetectorTables, options: DecodeOptions) -> Self {
        Self {
            tables,
            options,
            threads: 1,
            against: Against::default(),
            check: true,
            keep_going: false,
            first_place: 0,
            mask: None,
        }
    }

    /// Sums up the events of `parts` that `select` takes. `decoder` makes the decoder of each
    /// thread (`CpuDecoder::new`); `go_on` gets the number of events and of bytes of the files so
    /// far, and returns false to end early. Failures of files are in [`Gathered`].
    ///
    /// # Errors
    /// If the threads would take more memory than there is.
    pub fn gather<D: Decoder>(
        &self,
        parts: &[InputPart],
        select: &Select,
        decoder: impl Fn(&DetectorTables, DecodeOptions) -> D,
        mut go_on: impl FnMut(u64, u64) -> bool,
    ) -> Result<Gathered, TooMuchMemory> {
        let (tables, against, mask, n) =
            (self.tables, self.against, self.mask, self.threads.max(1));
        check(
            format!("a report with {n} threads"),
            (n as u64).saturating_mul(2 * CHUNK_MEMORY + THREAD_MEMORY),
        )?;
        let mut fillers: Vec<RunFiller> = (0..n).map(|_| RunFiller::new(tables, against)).collect();
        let worker = |filler| Worker {
            decoder: decoder(tables, self.options),
            tables,
            against,
            mask,
            filler,
        };
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
        let (mut seen, mut losses, mut failures) = (
            Seen::default(),
            BTreeMap::<PathBuf, Loss>::new(),
            Vec::new(),
        );
        let mut repeats = Repeats::default();
        // Stretches come in the order of the events, so that few are waiting for their neighbours.
        let mut joined = RunView::new(tables, against);
        job.run(
            workers,
            || Some(BATCH_SIZE),
            |reached, _, done| {
                let mut more = true;
                match done {
                    Ok(done) => {
                        seen.merge(done.seen);
                        for (stretches, of_files, contents) in done.made {
                            for content in contents {
                                repeats.add(content);
                            }
                            for (file, loss) in of_files {
                                losses
                                    .entry(parts[file as usize].name().to_owned())
                                    .or_default()
                                    .merge(&loss);
                            }
                            for stretch in stretches {
                                joined.add_stretch(stretch);
                            }
                        }
                    }
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
        // Into a worker's view, since all of its memory is in use already.
        let mut views = fillers.into_iter().map(RunFiller::finish);
        let mut view = views.next().expect("one thread at least");
        view.merge(&joined);
        views.for_each(|other| view.merge(&other));
        Ok(Gathered {
            view,
            seen,
            losses,
            repeats,
            failures,
        })
    }
}
