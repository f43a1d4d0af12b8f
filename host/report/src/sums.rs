//! What the events of a run, or of a part of it, add up to, as it is kept in a file and added to that of other parts.
//!
//! A part can be summed by any process on any machine. The sums of all parts, added in any order, are those of the whole run,
//! and so is the page that is drawn of them: nothing on it is about a part.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::RunView;
use crate::page::names::count;
use ut_data::detector::{Boards, Geometry};
use ut_data::error::{WorkError, with_causes};
use ut_data::input::{FileVersions, Seen};
use ut_data::{DecodeOptions, DetectorTables, Grouping};

/// How a file of sums begins, before compression; it changes with what follows.
const FORMAT: &str = "ut-decode sums 3";

/// Bytes of the largest sums, unpacked. They take twelve times as much in memory if they are nothing but short names.
const MOST_BYTES: u64 = 64 << 20;

/// Warnings that are kept.
const WARNINGS: usize = 16;

/// Failures that are kept.
const FAILURES: usize = 100;

/// Tables, and where they come from.
#[derive(Clone, Debug)]
pub struct Detector {
    /// The tables.
    pub tables: DetectorTables,
    /// Name of the boards file; `None`: embedded.
    pub boards: Option<PathBuf>,
    /// Name of the geometry file; `None`: embedded.
    pub geometry: Option<PathBuf>,
}

/// Events of some files.
#[derive(Debug)]
pub struct Gathered {
    /// Their sums.
    pub view: RunView,
    /// What was seen beside the hits.
    pub seen: Seen,
    /// Why files could not be read to their end.
    pub failures: Vec<WorkError>,
    /// The least and the greatest event number.
    pub numbers: Option<(u64, u64)>,
}

/// Returns the least and the greatest number of two runs.
pub fn both(one: Option<(u64, u64)>, other: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (one, other) {
        (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
        (one, other) => one.or(other),
    }
}

/// Which part of a job some sums are, so that a part that is missing or comes twice is noticed.
#[derive(Clone, Debug)]
pub struct Part {
    job: Job,
    i: u64,
    section: Option<[u64; 3]>,
}

impl Part {
    /// A shard `i` of `n` of the events that the options in words choose of some files, or of a section of the only file: its
    /// first byte, the byte behind its last one, and the events of the run before it. `None` if one is no regular file:
    /// another pipe may have the same name.
    pub fn of(files: &[PathBuf], ((i, n), selection): ((u64, u64), String), section: Option<[u64; 3]>) -> Option<Self> {
        let input = |file: &PathBuf| {
            let bytes = file.metadata().ok().filter(Metadata::is_file)?.len();
            Some((Name::without_folder(file), bytes))
        };
        let inputs = files.iter().map(input).collect::<Option<_>>()?;
        Some(Self { job: Job { n, selection, inputs }, i, section })
    }
}

/// What the events of a run, or of a part of it, add up to, and what a page says beside it.
#[derive(Clone, Debug)]
pub struct Sums {
    /// The files, each once, in the order in which they were named.
    pub files: Vec<PathBuf>,
    /// The detector.
    pub detector: Arc<Detector>,
    /// How strips became clusters.
    pub options: DecodeOptions,
    /// The sums.
    pub view: RunView,
    /// The least and the greatest event number.
    pub numbers: Option<(u64, u64)>,
    /// Events that `ut-decode generate` did not make.
    pub measured: u64,
    /// Those that it made.
    pub generated: u64,
    /// What was wrong with the first events that were given up.
    pub warnings: Vec<String>,
    /// Why files could not be read to their end.
    pub failures: Vec<String>,
    /// Which parts of jobs they are, as far as that is known.
    parts: Parts,
    /// By file: the versions of its banks.
    pub versions: BTreeMap<PathBuf, BTreeMap<Option<u8>, u64>>,
}

/// A file, and its banks by version byte.
type KeptVersions = (Name, Vec<(Option<u8>, u64)>);

/// The name of a file, in a file: text, where it is text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
enum Name {
    Text(String),
    Other(OsString),
}

impl Name {
    /// A folder may have another name on another machine.
    fn without_folder(path: &Path) -> Self {
        Self::from(&PathBuf::from(path.file_name().unwrap_or(path.as_os_str())))
    }
}

impl From<&PathBuf> for Name {
    fn from(path: &PathBuf) -> Self {
        path.to_str().map_or_else(|| Self::Other(path.into()), |text| Self::Text(text.to_owned()))
    }
}

impl From<Name> for PathBuf {
    fn from(name: Name) -> Self {
        match name {
            Name::Text(text) => text.into(),
            Name::Other(name) => name.into(),
        }
    }
}

/// The same in a file.
#[derive(Serialize, Deserialize)]
struct Kept {
    format: String,
    files: Vec<Name>,
    boards_name: Option<Name>,
    geometry_name: Option<Name>,
    boards: Vec<u8>,
    geometry: Vec<u8>,
    grouping: Grouping,
    options: DecodeOptions,
    view: RunView,
    numbers: Option<(u64, u64)>,
    measured: u64,
    generated: u64,
    warnings: Vec<String>,
    failures: Vec<String>,
    versions: Vec<KeptVersions>,
    parts: Vec<(Job, BTreeSet<Known>)>,
}

/// Why sums are refused.
#[derive(Debug, thiserror::Error)]
pub enum SumsError {
    /// A file cannot be read.
    #[error("cannot read {}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It holds no sums, or damaged ones.
    #[error("{name}: not sums of ut-decode report: {why}")]
    NoSums {
        /// What they are called.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// Two are the same part of a job.
    #[error("{0}, which would count twice")]
    Twice(String),
    /// They do not belong together.
    #[error("these sums do not belong together: they are of {0}")]
    Different(&'static str),
}

impl Sums {
    /// The sums of what was gathered from `files`.
    pub fn new(files: &[PathBuf], detector: Arc<Detector>, options: DecodeOptions, gathered: Gathered) -> Self {
        let Gathered { view, seen, failures, numbers } = gathered;
        let warnings = seen.warnings().collect();
        let mut versions: BTreeMap<PathBuf, BTreeMap<Option<u8>, u64>> = BTreeMap::new();
        for file in seen.files {
            let judged = file.judged();
            add_versions(versions.entry(file.file).or_default(), judged);
        }
        let mut sums = Self {
            files: Vec::new(),
            detector,
            options,
            view,
            numbers,
            measured: seen.measured,
            generated: seen.generated,
            warnings,
            failures: failures.iter().map(|failure| with_causes(failure)).collect(),
            parts: Parts::default(),
            versions,
        };
        sums.add_files(files);
        sums
    }

    /// Notes which part of a job these are, if that is known.
    #[must_use]
    pub fn of_part(mut self, part: Option<Part>) -> Self {
        let (events, hits, numbers) = (self.view.events, self.view.hits, self.numbers);
        let known = |Part { job, i, section }| (job, [Known { i, section, events, hits, numbers }].into());
        self.parts = Parts(part.into_iter().map(known).collect());
        self
    }

    /// Checks that these are sums of hits of one kind, which can be added, or drawn beside each other.
    ///
    /// # Errors
    /// When the detector or the options are not the same.
    pub fn check_alike(&self, other: &Self) -> Result<(), SumsError> {
        self.check_made_with(&other.detector.tables, other.options)
    }

    /// Checks that these are sums of hits that were decoded with these tables and options.
    ///
    /// # Errors
    /// If the detector or the options are not the same.
    pub fn check_made_with(&self, tables: &DetectorTables, options: DecodeOptions) -> Result<(), SumsError> {
        if self.detector.tables != *tables {
            return Err(SumsError::Different("different detectors"));
        }
        if self.options != options {
            return Err(SumsError::Different("hits with different clustering"));
        }
        Ok(())
    }

    /// Adds the sums of other events. The sums do not depend on the order; the list of files is in that of the additions.
    ///
    /// # Errors
    /// When detector, options, or the number that the pictures against time are over, are not the same, the other sums are of
    /// a part that is among these, or there are more events, hits or the like than can be counted. The sums then stay as they
    /// were.
    pub fn add(&mut self, other: &Self) -> Result<(), SumsError> {
        self.check_alike(other)?;
        if self.view.against != other.view.against {
            return Err(SumsError::Different("events by their number and events by their place"));
        }
        if let Some((job, part)) = self.parts.shared(&other.parts) {
            return Err(SumsError::Twice(format!("both are sums of {}", job.called(part))));
        }
        let mut view = self.view.clone();
        view.merge(&other.view).map_err(|_| SumsError::Different("different detectors"))?;
        if !view.is_of(&self.detector.tables) {
            return Err(SumsError::Different("more than can be counted"));
        }
        self.view = view;
        self.parts.add(other.parts.0.clone());
        self.add_files(&other.files);
        self.numbers = both(self.numbers, other.numbers);
        self.measured = self.measured.saturating_add(other.measured);
        self.generated = self.generated.saturating_add(other.generated);
        for (mine, theirs, most) in
            [(&mut self.warnings, &other.warnings, WARNINGS), (&mut self.failures, &other.failures, FAILURES)]
        {
            let room = most.saturating_sub(mine.len());
            // Several parts may read past the same broken file to reach their events, and each reports it.
            let new: Vec<String> = theirs.iter().filter(|line| !mine.contains(line)).take(room).cloned().collect();
            mine.extend(new);
        }
        for (file, versions) in &other.versions {
            add_versions(self.versions.entry(file.clone()).or_default(), versions.clone());
        }
        Ok(())
    }

    /// Returns what to say where a file has banks of which none has the version of the board table.
    pub fn wrong_version(&self) -> Option<String> {
        let wrong = |(file, versions): (&PathBuf, &BTreeMap<Option<u8>, u64>)| {
            let file = FileVersions { versions: versions.clone(), ..FileVersions::new(file) };
            file.check(&self.detector.tables).err().map(|error| error.to_string())
        };
        self.versions.iter().find_map(wrong)
    }

    /// What is wrong with the whole: why files could not be read to their end, or else that one is of another version.
    pub fn troubles(&self) -> Vec<String> {
        if self.failures.is_empty() { self.wrong_version().into_iter().collect() } else { self.failures.clone() }
    }

    fn add_files(&mut self, files: &[PathBuf]) {
        let mut known: std::collections::HashSet<PathBuf> = self.files.iter().cloned().collect();
        self.files.extend(files.iter().filter(|file| known.insert((*file).clone())).cloned());
    }

    /// The bytes of a file of these sums.
    ///
    /// # Errors
    /// When there is no memory for them, or they are more than can be read.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let tables = &self.detector.tables;
        let kept = Kept {
            format: FORMAT.to_owned(),
            files: self.files.iter().map(Name::from).collect(),
            boards_name: self.detector.boards.as_ref().map(Name::from),
            geometry_name: self.detector.geometry.as_ref().map(Name::from),
            boards: tables.boards().to_bytes(),
            geometry: tables.geometry().to_bytes(),
            grouping: tables.grouping(),
            options: self.options,
            view: self.view.clone(),
            numbers: self.numbers,
            measured: self.measured,
            generated: self.generated,
            parts: self.parts.0.clone().into_iter().collect(),
            warnings: self.warnings.clone(),
            failures: self.failures.clone(),
            versions: self.versions.iter().map(|(file, of)| (file.into(), of.clone().into_iter().collect())).collect(),
        };
        let mut packed = zstd::Encoder::new(Vec::new(), 1)?;
        // A flipped bit would otherwise be another number on the page.
        packed.include_checksum(true)?;
        let text = serde_json::to_vec(&kept)?;
        if text.len() as u64 > MOST_BYTES {
            let mib = MOST_BYTES >> 20;
            let why = format!("the sums are larger than {mib} MiB, the most that --merge reads: sum fewer files");
            return Err(io::Error::other(why));
        }
        packed.write_all(&text)?;
        packed.finish()
    }

    /// Sums from the bytes of a file of them, which messages call `name`.
    ///
    /// # Errors
    /// When the bytes are not a file of sums. They may be anything.
    pub fn from_bytes(bytes: impl Read, name: &str) -> Result<Self, SumsError> {
        let refused = |why: String| SumsError::NoSums { name: name.to_owned(), why };
        let io = |error: io::Error| refused(error.to_string());
        let mut text = Vec::new();
        zstd::Decoder::new(bytes).map_err(io)?.take(MOST_BYTES + 1).read_to_end(&mut text).map_err(io)?;
        if text.len() as u64 > MOST_BYTES {
            return Err(refused(format!("larger than {} MiB", MOST_BYTES >> 20)));
        }
        let kept: Kept = serde_json::from_slice(&text).map_err(|error| refused(error.to_string()))?;
        if kept.format != FORMAT {
            return Err(refused(format!("the format is {:?}, not {FORMAT:?}", kept.format)));
        }
        let no_tables = |error: ut_data::TablesError| refused(error.to_string());
        let boards = Boards::parse(&kept.boards, "boards").map_err(no_tables)?;
        let geometry = Geometry::parse(&kept.geometry, "geometry").map_err(no_tables)?;
        // What was summed was checked then.
        let tables = DetectorTables::trusting(boards, geometry, kept.grouping).map_err(no_tables)?;
        if !kept.view.is_of(&tables) {
            return Err(refused("the numbers do not fit the detector".to_owned()));
        }
        let path = |name: Option<Name>| name.map(PathBuf::from);
        let detector = Detector { tables, boards: path(kept.boards_name), geometry: path(kept.geometry_name) };
        let mut sums = Self {
            files: kept.files.into_iter().map(PathBuf::from).collect(),
            detector: Arc::new(detector),
            options: kept.options,
            view: kept.view,
            numbers: kept.numbers,
            measured: kept.measured,
            generated: kept.generated,
            parts: Parts::default(),
            warnings: kept.warnings,
            failures: kept.failures,
            versions: kept.versions.into_iter().map(|(file, of)| (file.into(), of.into_iter().collect())).collect(),
        };
        sums.parts.add(kept.parts);
        Ok(sums)
    }

    /// The sums in files, added in this order; `None` where there is no file. Warns of parts that are missing.
    ///
    /// # Errors
    /// When a file cannot be read, the sums cannot be added, or a part comes twice.
    pub fn of_files(files: &[PathBuf]) -> Result<Option<Self>, SumsError> {
        let (mut all, mut parts): (Option<Self>, Vec<(&Path, Parts)>) = (None, Vec::new());
        for path in files {
            let sums = Self::of_file(path)?;
            let added = all.as_mut().map_or(Ok(()), |all| all.add(&sums));
            let twice = |(_, parts): &&(_, Parts)| parts.shared(&sums.parts).is_some();
            // Who names files knows them better than their parts.
            if let (Err(SumsError::Twice(_)), Some((other, _))) = (&added, parts.iter().find(twice)) {
                let both = format!("{} and {} are sums of the same events", other.display(), path.display());
                return Err(SumsError::Twice(both));
            }
            added?;
            parts.push((path, sums.parts.clone()));
            all.get_or_insert(sums);
        }
        if let Some(all) = &mut all {
            all.warnings.extend(all.parts.missing(&parts));
        }
        Ok(all)
    }

    fn of_file(path: &Path) -> Result<Self, SumsError> {
        let name = path.display().to_string();
        if name == "-" {
            return Self::from_bytes(io::stdin().lock(), &name);
        }
        let file = File::open(path).map_err(|source| SumsError::Io { file: path.to_path_buf(), source })?;
        Self::from_bytes(file, &name)
    }
}

/// Parts by job, each once.
#[derive(Clone, Debug, Default)]
struct Parts(BTreeMap<Job, BTreeSet<Known>>);

/// A job that was done in parts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Job {
    /// Shards.
    n: u64,
    /// The other options that choose events, in words.
    selection: String,
    /// Names and bytes.
    inputs: Vec<(Name, u64)>,
}

/// A part of a job: which, and some of its sums. Not known by the job alone: the files of two runs may have the same names
/// and sizes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Known {
    i: u64,
    section: Option<[u64; 3]>,
    events: u64,
    hits: u64,
    numbers: Option<(u64, u64)>,
}

impl Job {
    /// Returns what messages call a part of it.
    fn called(&self, part: &Known) -> String {
        let name = match &self.inputs[..] {
            [(name, _)] => PathBuf::from(name.clone()).display().to_string(),
            inputs => count(inputs.len() as u64, "file"),
        };
        let which = match (part.section, self.n) {
            (Some([start, end, _]), _) => format!("bytes {start} to {end} of "),
            (None, 1) => String::new(),
            (None, n) => format!("part {} of {n} of ", part.i),
        };
        which + &name
    }
}

impl Parts {
    fn add(&mut self, others: impl IntoIterator<Item = (Job, BTreeSet<Known>)>) {
        for (job, parts) in others {
            self.0.entry(job).or_default().extend(parts);
        }
    }

    /// A part of both. One without events does not count, however often it comes: empty files may well have the same name.
    fn shared<'a>(&'a self, other: &'a Self) -> Option<(&'a Job, &'a Known)> {
        self.0.iter().find_map(|(job, parts)| {
            let shared = parts.intersection(other.0.get(job)?).find(|part| part.events > 0)?;
            Some((job, shared))
        })
    }

    /// A warning for each job of which parts are missing; `files`: where parts came from.
    fn missing(&self, files: &[(&Path, Self)]) -> Vec<String> {
        let warning = |(job, known): (&Job, &BTreeSet<Known>)| {
            let n = job.n;
            let there: BTreeSet<u64> = known.iter().map(|part| part.i).filter(|i| (1..=n).contains(i)).collect();
            let missing = n - there.len() as u64;
            let first = (1..=n).find(|i| !there.contains(i))?;
            let file = files.iter().find(|(_, parts)| parts.0.contains_key(job))?.0.display();
            Some(format!(
                "{file} is one of {n} parts. Missing: {missing}, the first of them {first}/{n}. The numbers are too small"
            ))
        };
        self.0.iter().filter_map(warning).collect()
    }
}

fn add_versions(all: &mut BTreeMap<Option<u8>, u64>, more: BTreeMap<Option<u8>, u64>) {
    for (version, n) in more {
        let sum = all.entry(version).or_default();
        *sum = sum.saturating_add(n);
    }
}
