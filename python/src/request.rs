//! Arguments from Python, checked.

use std::io::{self, Read};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use ut_decoding::decoder::{Backend, threads};
use ut_decoding::detector::Mask;
use ut_decoding::input::{InputPart, Places, Section, Seen, Select, count_events};
use ut_decoding::job::BATCH_SIZE;
use ut_decoding::views;
use ut_decoding::{DecodeOptions, DetectorTables, Flip, Position};

use crate::failure::Failure;
use crate::piece::Columns;
use crate::tables::Tables;
use crate::wait::{Progress, wait_for};

/// A file; a name with its bytes or an object to `read`; or a section: first and last byte, events
/// before it.
#[derive(FromPyObject)]
pub enum Part {
    Section(PathBuf, u64, u64, u64),
    Memory(PathBuf, PyBackedBytes),
    Object(PathBuf, Py<PyAny>),
    File(PathBuf),
}

/// An object of Python that is read like a file.
struct Object(Py<PyAny>);

impl Read for Object {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = |py: Python<'_>| {
            let bytes: PyBackedBytes = self
                .0
                .call_method1(py, "read", (buffer.len(),))?
                .extract(py)?;
            let target = buffer.get_mut(..bytes.len());
            target
                .ok_or_else(|| PyValueError::new_err("read returned more bytes than requested"))?
                .copy_from_slice(&bytes);
            Ok::<_, PyErr>(bytes.len())
        };
        // Fails when the interpreter ends.
        Ok(Python::try_attach(read).ok_or_else(|| io::Error::other("Python has ended"))??)
    }
}

impl Part {
    /// Returns true if the input can be read a second time.
    fn is_kept(&self) -> bool {
        match self {
            Self::File(path) | Self::Section(path, ..) => !is_read_once(path),
            Self::Memory(..) => true,
            Self::Object(..) => false,
        }
    }

    /// Returns the number of bytes, for files on the disk.
    fn bytes(&self) -> u64 {
        match self {
            Self::File(path) => path.metadata().map_or(0, |meta| meta.len()),
            Self::Memory(_, bytes) => bytes.len() as u64,
            Self::Section(_, start, end, _) => end.saturating_sub(*start),
            Self::Object(..) => 0,
        }
    }
}

/// Returns true if a file gives its bytes only once: standard input, pipes, devices; not if it is
/// missing.
pub fn is_read_once(path: &Path) -> bool {
    path.as_os_str() == "-" || path.metadata().is_ok_and(|meta| !meta.is_file())
}

impl From<Part> for InputPart {
    fn from(part: Part) -> Self {
        match part {
            Part::File(path) => Self::file(path),
            Part::Memory(name, bytes) => Self::memory(name, bytes),
            Part::Object(name, object) => Self::stream(name, Object(object)),
            Part::Section(path, start, end, first_event) => Self::section(
                path,
                Section {
                    bytes: start..end,
                    first_event,
                    n_events: None,
                },
            ),
        }
    }
}

/// The options of a call, with the meanings, types and defaults of `Options` in `_options.py`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
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
    pub batch: Option<usize>,
    checksum: bool,
    keep_going: bool,
    events: Option<String>,
    run: Option<u32>,
    event_number: Option<u64>,
    run_events: Option<Vec<(u32, u64)>>,
    time: Option<(u64, u64)>,
    crossing: Option<Vec<String>>,
    mask: Option<PathBuf>,
    shard: Option<(u64, u64)>,
    skip: u64,
    limit: Option<u64>,
    progress: Option<Py<PyAny>>,
}

/// Typical number of bytes of raw data per hit, in files of UT banks.
const BYTES_OF_HIT: u64 = 13;

/// Upper limit of the mean number of hits of an event.
pub const HITS_OF_EVENT: u64 = 2048;

/// Maximum number of hits for which memory is reserved in advance.
const MOST_HITS: u64 = 1 << 30;

/// Maximum number of events in a batch, as on the command line.
const MAX_BATCH: usize = 1 << 20;

/// Upper limit of the number of threads.
const MAX_THREADS: usize = 1024;

/// A request that was checked.
pub struct Task {
    pub parts: Vec<InputPart>,
    pub names: Vec<PathBuf>,
    pub tables: Arc<DetectorTables>,
    pub columns: Columns,
    pub options: DecodeOptions,
    pub backend: Backend,
    pub n_workers: usize,
    /// Approximate number of hits to expect from all inputs.
    pub hits: usize,
    pub batch: usize,
    pub check: bool,
    pub keep_going: bool,
    pub select: Select,
    /// Mask and its file.
    pub mask: Option<(PathBuf, Mask)>,
    /// Option `skip`, and true if places were listed; `None` if a part of a job may be empty.
    whole: Option<(u64, bool)>,
    pub progress: Arc<Progress>,
}

impl Task {
    /// Checks that the events belong to the tables.
    pub fn check_events(&self, seen: &Seen) -> Result<(), Failure> {
        seen.check(&self.tables)?;
        self.check_selection(seen)
    }

    /// Checks that an event could have been selected.
    pub fn check_selection(&self, seen: &Seen) -> Result<(), Failure> {
        let found = self
            .whole
            .and_then(|(skip, by_list)| self.select.impossible(seen, by_list, skip));
        found.map_or(Ok(()), |(option, why)| {
            Err(Failure::Value(format!("{option}: {why}")))
        })
    }
}

/// Reads a mask, which names at least one strip.
pub fn read_mask(path: PathBuf, tables: &DetectorTables) -> Result<(PathBuf, Mask), Failure> {
    let mask = Mask::read(&path, tables)?;
    if mask.n_strips() == 0 {
        return Err(Failure::Value(format!(
            "mask: {} names no strip: leave the option out",
            path.display()
        )));
    }
    Ok((path, mask))
}

/// Checks a request. Its inputs may be counted, which takes as long as it takes to read them.
pub fn check(py: Python<'_>, request: Request) -> PyResult<Task> {
    wait_for(py, &AtomicBool::new(false), None, move || request.check())
}

impl Request {
    /// Returns the part of a job of these files, or of this section of the only one.
    pub fn part_of(&self, files: &[PathBuf], section: Option<[u64; 3]>) -> Option<views::Part> {
        let select = self
            .of_job(self.places().ok()?.as_ref())
            .ok()?
            .window(self.skip, self.limit);
        views::Part::of(files, self.shard.unwrap_or((1, 1)), &select, section)
    }

    /// Returns the places of `events`.
    fn places(&self) -> Result<Option<Places>, Failure> {
        let places = self
            .events
            .as_ref()
            .map(|places| places.parse())
            .transpose();
        places.map_err(|error| Failure::Value(format!("events: {error}")))
    }

    /// Returns the selection of the whole job, whatever the shard and the window.
    fn of_job(&self, places: Option<&Places>) -> Result<Select, Failure> {
        let names = |names: &Vec<String>| names.iter().map(|name| name.parse()).collect();
        let crossings: Result<Option<Vec<_>>, _> = self.crossing.as_ref().map(names).transpose();
        let crossings = crossings.map_err(|error| Failure::Value(format!("crossing: {error}")))?;
        let select = Select::default()
            .run(self.run)
            .number(self.event_number)
            .pairs(self.run_events.clone());
        let select = select
            .time(self.time.map(|(from, to)| from..to))
            .crossings(crossings);
        Ok(places.into_iter().fold(select, Select::places))
    }

    fn check(self) -> Result<Task, Failure> {
        let bad = |message: String| Failure::Value(message);
        let backend: Backend = self
            .backend
            .parse()
            .map_err(|error| bad(format!("backend: {error}")))?;
        if self.threads > MAX_THREADS {
            return Err(bad(format!(
                "threads: {} is more than {MAX_THREADS}",
                self.threads
            )));
        }
        if let Some(batch) = self.batch
            && !(1..=MAX_BATCH).contains(&batch)
        {
            return Err(bad(format!("batch: {batch} is not from 1 to {MAX_BATCH}")));
        }
        let position: Position = self
            .position
            .parse()
            .map_err(|error| bad(format!("position: {error}")))?;
        let flip = match self.flip {
            511 => Flip::From511,
            512 => Flip::From512,
            other => return Err(bad(format!("flip: {other} is neither 511 nor 512"))),
        };
        let max_cluster_size = NonZeroU32::new(self.max_cluster_size)
            .ok_or_else(|| bad("max_cluster_size: a cluster has at least 1 strip".to_owned()))?;
        let options = DecodeOptions::default()
            .with_clustering(self.clustering)
            .with_position(position)
            .with_max_cluster_size(max_cluster_size)
            .with_save_above_max(self.save_above_max)
            .with_flip(flip);
        if self
            .parts
            .iter()
            .filter(|part| matches!(part, Part::File(path) if path.as_os_str() == "-"))
            .count()
            > 1
        {
            return Err(bad("standard input can be read only once".to_owned()));
        }
        let places = self.places()?;
        let mut select = self.of_job(places.as_ref())?;
        let is_section = |part: &Part| matches!(part, Part::Section(..));
        let is_part =
            self.shard.is_some() || self.limit == Some(0) || self.parts.iter().any(is_section);
        let bytes: u64 = self.parts.iter().map(Part::bytes).sum();
        let total = self.parts.iter().all(Part::is_kept).then_some(bytes);
        let mut most_events = self.limit.unwrap_or(u64::MAX);
        let once = self.parts.iter().position(|part| !part.is_kept());
        let parts: Vec<InputPart> = self.parts.into_iter().map(Into::into).collect();
        let names: Vec<PathBuf> = parts.iter().map(|part| part.name().to_path_buf()).collect();
        if let Some(places) = &places {
            most_events = most_events.min(places.count());
        }
        if let Some((i, n)) = self.shard {
            if i < 1 || i > n {
                return Err(bad(format!("shard: {i}/{n} is not i/n with i from 1 to n")));
            }
            if let Some(once) = once {
                return Err(bad(format!(
                    "shard: {} can be read only once",
                    names[once].display()
                )));
            }
            let places = Places::shard(i, n, count_events(&parts)?);
            most_events = most_events.min(places.count());
            select = select.places(&places);
        }
        let is_device = matches!(backend, Backend::Emulated | Backend::Cuda);
        let tables = Arc::clone(&self.tables.get().detector);
        let version = tables.boards().version;
        let mask = self.mask.map(|path| read_mask(path, &tables)).transpose()?;
        Ok(Task {
            parts,
            names,
            tables,
            columns: Columns::of(&self.columns, version)?,
            options,
            backend,
            n_workers: threads(backend, self.threads)?,
            hits: (bytes / BYTES_OF_HIT)
                .min(most_events.saturating_mul(HITS_OF_EVENT))
                .min(MOST_HITS) as usize,
            batch: self.batch.unwrap_or(if is_device {
                backend.batch()
            } else {
                BATCH_SIZE
            }),
            check: self.checksum,
            keep_going: self.keep_going,
            select: select.window(self.skip, self.limit),
            mask,
            whole: (!is_part).then_some((self.skip, places.is_some())),
            progress: Arc::new(Progress::new(self.progress, total)),
        })
    }
}
