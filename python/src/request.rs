//! What Python asks for, checked.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use ut_decoding::cli::decode::SelectArgs;
use ut_decoding::decoder::Backend;
use ut_decoding::input::{InputPart, Places, Section, Select, count_events};
use ut_decoding::{DecodeOptions, DetectorTables, Flip, Position, memory};

use crate::failure::Failure;
use crate::job::HITS_OF_EVENT;
use crate::piece::Columns;
use crate::tables::Tables;

/// A file, its name with its bytes, or a section of it: first and last byte, events before it.
#[derive(FromPyObject)]
pub enum Part {
    Section(PathBuf, u64, u64, u64),
    Memory(String, PyBackedBytes),
    File(PathBuf),
}

impl Part {
    /// Whether it can be read a second time.
    fn is_kept(&self) -> bool {
        match self {
            Self::File(path) | Self::Section(path, ..) => !is_read_once(path),
            Self::Memory(..) => true,
        }
    }

    /// Its bytes, of files those on the disk.
    fn bytes(&self) -> u64 {
        match self {
            Self::File(path) => path.metadata().map_or(0, |meta| meta.len()),
            Self::Memory(_, bytes) => bytes.len() as u64,
            Self::Section(_, start, end, _) => end.saturating_sub(*start),
        }
    }
}

/// Whether a file gives its bytes only once: standard input, pipes, devices. One that is not there is an error of who opens it.
pub fn is_read_once(path: &Path) -> bool {
    path.as_os_str() == "-" || path.metadata().is_ok_and(|meta| !meta.is_file())
}

impl From<Part> for InputPart {
    fn from(part: Part) -> Self {
        match part {
            Part::File(path) => Self::file(path),
            Part::Memory(name, bytes) => Self::memory(name, bytes),
            Part::Section(path, start, end, first_event) => {
                Self::section(path, Section { bytes: start..end, first_event, n_events: None })
            }
        }
    }
}

/// The options, as `_decode.py` hands them over.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Request {
    pub parts: Vec<Part>,
    pub tables: Py<Tables>,
    columns: Vec<String>,
    clustering: bool,
    position: String,
    max_cluster_size: u32,
    save_above_max: bool,
    flip: u32,
    backend: String,
    threads: usize,
    /// Without it, what is best for what is asked.
    pub batch: Option<usize>,
    checksum: bool,
    keep_going: bool,
    events: Option<String>,
    run: Option<u32>,
    event_number: Option<u64>,
    shard: Option<(u64, u64)>,
    skip: u64,
    limit: Option<u64>,
}

/// Memory that a piece of the inputs takes, with its hits, in the mean.
const CHUNK_MEMORY: u64 = 48 << 20;

/// Events of a batch: their bytes, a megabyte or so, are read, checked and decoded while they are in a core's caches.
const BATCH: usize = 64;

/// Those of a device's batch, and of a row group of Parquet.
pub const LARGE_BATCH: usize = 256;

/// Bytes of raw data that come with a hit, in files of UT banks.
const BYTES_OF_HIT: u64 = 13;

/// Hits for which room is made before there is one.
const MOST_HITS: u64 = 1 << 30;

/// The most events in a batch, as on the command line.
const MAX_BATCH: usize = 1 << 20;

/// The most threads that are meant.
const MAX_THREADS: usize = 1024;

/// A request that can be done.
pub struct Task {
    pub parts: Vec<InputPart>,
    /// The parts' names.
    pub names: Vec<PathBuf>,
    pub tables: Arc<DetectorTables>,
    pub columns: Columns,
    pub options: DecodeOptions,
    pub backend: Backend,
    pub n_workers: usize,
    /// Hits that are expected of all inputs, about.
    pub hits: usize,
    pub batch: usize,
    pub check: bool,
    pub keep_going: bool,
    pub select: Select,
}

impl Request {
    /// Which events are chosen, as the tool says it.
    pub fn select(&self) -> Result<SelectArgs, Failure> {
        let &Self { run, event_number, shard, skip, limit, .. } = self;
        let events = self.events.as_ref().map(|places| places.parse()).transpose();
        let events = events.map_err(|error| Failure::Value(format!("events: {error}")))?;
        Ok(SelectArgs { events, run, event_number, shard, skip, limit })
    }

    /// Checks the request.
    pub fn check(self) -> Result<Task, Failure> {
        let bad = |message: String| Failure::Value(message);
        let backend: Backend = self.backend.parse().map_err(|error| bad(format!("backend: {error}")))?;
        if self.threads > MAX_THREADS {
            return Err(bad(format!("threads: {} is more than {MAX_THREADS}", self.threads)));
        }
        if let Some(batch) = self.batch
            && !(1..=MAX_BATCH).contains(&batch)
        {
            return Err(bad(format!("batch: {batch} is not from 1 to {MAX_BATCH}")));
        }
        let position = match self.position.as_str() {
            "adc" => Position::Adc,
            "geometric" => Position::Geometric,
            other => return Err(bad(format!("position: {other:?} is neither adc nor geometric"))),
        };
        let flip = match self.flip {
            512 => Flip::From512,
            511 => Flip::From511,
            other => return Err(bad(format!("flip: {other} is neither 512 nor 511"))),
        };
        let max_cluster_size = NonZeroU32::new(self.max_cluster_size)
            .ok_or_else(|| bad("max_cluster_size: a cluster has at least 1 strip".to_owned()))?;
        let options = DecodeOptions {
            clustering: self.clustering,
            position,
            max_cluster_size,
            save_above_max: self.save_above_max,
            flip,
        };
        if self.parts.iter().filter(|part| matches!(part, Part::File(path) if path.as_os_str() == "-")).count() > 1 {
            return Err(bad("standard input can be read only once".to_owned()));
        }
        let places = self.select()?.events;
        let bytes: u64 = self.parts.iter().map(Part::bytes).sum();
        let mut most_events = self.limit.unwrap_or(u64::MAX);
        let once = self.parts.iter().position(|part| !part.is_kept());
        let parts: Vec<InputPart> = self.parts.into_iter().map(Into::into).collect();
        let names: Vec<PathBuf> = parts.iter().map(|part| part.name().to_path_buf()).collect();
        let mut select = Select::default().run(self.run).number(self.event_number);
        if let Some(places) = &places {
            most_events = most_events.min(places.count());
            select = select.places(places);
        }
        if let Some((i, n)) = self.shard {
            if i < 1 || i > n {
                return Err(bad(format!("shard: {i}/{n} is not i/n with i from 1 to n")));
            }
            if let Some(once) = once {
                return Err(bad(format!("shard: {} can be read only once", names[once].display())));
            }
            let places = Places::shard(i, n, count_events(&parts)?);
            most_events = most_events.min(places.count());
            select = select.places(&places);
        }
        let is_device = matches!(backend, Backend::Emulated | Backend::Cuda);
        let n_workers = match (backend, self.threads) {
            (Backend::Emulated, _) => 1,
            // One reads while the device works for the other.
            (Backend::Cuda, _) => 2,
            (_, 0) => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            (_, n) => n,
        };
        let needed = ut_decoding::decoder::cpu::memory_of_threads(n_workers) + 2 * n_workers as u64 * CHUNK_MEMORY;
        memory::check(format!("decoding with {n_workers} threads"), needed)?;
        let version = self.tables.get().detector.boards().version;
        Ok(Task {
            parts,
            names,
            tables: Arc::clone(&self.tables.get().detector),
            columns: Columns::of(&self.columns, version)?,
            options,
            backend,
            n_workers,
            hits: (bytes / BYTES_OF_HIT).min(most_events.saturating_mul(HITS_OF_EVENT)).min(MOST_HITS) as usize,
            batch: self.batch.unwrap_or(if is_device { LARGE_BATCH } else { BATCH }),
            check: self.checksum,
            keep_going: self.keep_going,
            select: select.window(self.skip, self.limit),
        })
    }
}
