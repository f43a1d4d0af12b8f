//! Sums over the events of a run, or of a part of it, which can be kept in a file.
//!
//! Any process on any machine can sum a part. The parts, added in any order, give the sums and page
//! of the whole run.
//!
//! A page needs counts, sums and sums of squares, but no event: they are some megabytes however
//! long the run is, and adding two of them is adding numbers. That is why a page can be drawn from
//! the work of a hundred machines. Adding is exact (all numbers are integers), so that the order of
//! the parts changes nothing, down to the bytes of the page.
//!
//! What must agree for two sums to be added is checked: the tables, by hash; the options of the
//! decoder; and that no part was added before. A part that is missing is noticed where parts are
//! numbered shards of the same job.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::about::hash;
use crate::page::names::count;
use crate::run::{RunView, pairs};
use ut_data::detector::{Boards, Geometry};
use ut_data::error::{ErrorKind, WorkError, with_causes};
use ut_data::hits::{Loss, N_LOSS, Repeats};
use ut_data::input::{FileVersions, Seen, Select};
use ut_data::{DecodeOptions, DetectorTables, Grouping};

/// First line of a file of sums, unpacked, in any format.
const BEGIN: &str = "ut-decode sums ";

/// First line of a file of sums, unpacked; another layout has another number.
const FORMAT: &str = "ut-decode sums 7\n";

/// Maximum size of unpacked sums in bytes. Short names take twelve times as much in memory.
const MOST_BYTES: u64 = 64 << 20;

const WARNINGS: usize = 16;

const FAILURES: usize = 100;

/// Tables with the names of their files.
#[derive(Clone, Debug)]
pub struct Detector {
    /// The tables.
    pub tables: DetectorTables,
    /// Name of the boards file; `None`: embedded.
    pub boards: Option<PathBuf>,
    /// Name of the geometry file; `None`: embedded.
    pub geometry: Option<PathBuf>,
}

impl Detector {
    /// Returns true if these are the tables of the synthetic detector that is part of the program.
    pub const fn is_embedded(&self) -> bool {
        self.boards.is_none()
    }

    /// Returns the error of a file that was read if it has UT banks of which none has the board
    /// table's version.
    pub fn check_file(&self, seen: &Seen, file: &Path) -> Option<String> {
        let found = seen.files.iter().rev().find(|seen| seen.file == file)?;
        Some(found.check(&self.tables).err()?.to_string())
    }
}

/// Sums over some files.
#[derive(Debug)]
pub struct Gathered {
    /// Sums of the events.
    pub view: RunView,
    /// Versions, makers and damage of the events.
    pub seen: Seen,
    /// How much of the data was lost, and why, by file.
    pub losses: BTreeMap<PathBuf, Loss>,
    /// Sketch of the events that came more than once.
    pub repeats: Repeats,
    /// Reasons that files could not be read to their end.
    pub failures: Vec<WorkError>,
}

/// Part of a job with some of its sums, to notice missing and repeated parts of runs whose files
/// look alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Part {
    /// Names and sizes of the inputs, and options that choose events.
    job: String,
    /// Inputs for a message.
    inputs: String,
    /// Number of the shard, and the number of shards.
    shard: (u64, u64),
    events: u64,
    hits: u64,
    numbers: Option<(u64, u64)>,
}

impl Part {
    /// Makes shard `i` of `n` of the events that `select` takes of some files, or of a section of
    /// the only file: its first byte, the byte after its last, and the events of the run
    /// before it. `None` if a file is not regular: another pipe may have the same name.
    pub fn of(
        files: &[PathBuf],
        shard: (u64, u64),
        select: &Select,
        section: Option<[u64; 3]>,
    ) -> Option<Self> {
        // A folder may have another name on another machine.
        let name = |file: &'_ PathBuf| file.file_name().unwrap_or(file.as_os_str()).to_owned();
        let input = |file: &PathBuf| {
            Some((
                name(file),
                file.metadata().ok().filter(Metadata::is_file)?.len(),
            ))
        };
        let all = files.iter().map(input).collect::<Option<Vec<_>>>()?;
        let mut inputs = match files {
            [file] => name(file).to_string_lossy().into_owned(),
            files => count(files.len() as u64, "file"),
        };
        if let Some([start, end, _]) = section {
            inputs = format!("bytes {start} to {end} of {inputs}");
        }
        let job = format!(
            "{all:?} {} {section:?}",
            hash(format!("{select:?}").as_bytes())
        );
        Some(Self {
            job,
            inputs,
            shard,
            events: 0,
            hits: 0,
            numbers: None,
        })
    }

    fn name(&self) -> String {
        match self.shard {
            (_, 1) => self.inputs.clone(),
            (i, n) => format!("part {i} of {n} of {}", self.inputs),
        }
    }
}

/// Returns a warning for each job of which parts are missing.
fn missing(parts: &BTreeSet<Part>) -> Vec<String> {
    let mut jobs: BTreeMap<(&str, &str, u64), BTreeSet<u64>> = BTreeMap::new();
    for Part {
        job,
        inputs,
        shard: (i, n),
        ..
    } in parts
    {
        jobs.entry((job, inputs, *n)).or_default().insert(*i);
    }
    let warning = |((_, inputs, n), there): ((&str, &str, u64), BTreeSet<u64>)| {
        let missing = n - there.iter().filter(|i| (1..=n).contains(*i)).count() as u64;
        let first = (1..=n).find(|i| !there.contains(i))?;
        Some(format!(
            "of {inputs}, {missing} of {n} parts are missing, the first of them {first}/{n}: the sums are too small"
        ))
    };
    jobs.into_iter().filter_map(warning).collect()
}

/// Sums over the events of a run, or of a part of it, with their detector and files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sums {
    /// Files, each once, in the order of their names on the command line.
    pub files: Vec<OsString>,
    /// The detector.
    #[serde(serialize_with = "write_detector", deserialize_with = "read_detector")]
    pub detector: Arc<Detector>,
    /// Options of clustering.
    pub options: DecodeOptions,
    /// The sums.
    pub view: RunView,
    /// Number of events that `ut-decode generate` did not make.
    pub measured: u64,
    /// Number of events that it made.
    pub generated: u64,
    /// Warnings about the first damaged events.
    pub warnings: Vec<String>,
    /// Reasons that files could not be read to their end.
    pub failures: Vec<String>,
    parts: BTreeSet<Part>,
    /// Versions of the banks, by file.
    #[serde(with = "pairs")]
    pub versions: BTreeMap<OsString, BTreeSet<Option<u8>>>,
    /// Numbers of the account of loss, by file.
    #[serde(with = "pairs")]
    losses: BTreeMap<OsString, [u64; N_LOSS]>,
    /// Sketch of the events that came more than once.
    #[serde(serialize_with = "write_repeats", deserialize_with = "read_repeats")]
    pub repeats: Repeats,
}

fn write_detector<S: Serializer>(detector: &Detector, to: S) -> Result<S::Ok, S::Error> {
    let Detector {
        tables,
        boards,
        geometry,
    } = detector;
    let names = [boards, geometry].map(|name| name.clone().map(OsString::from));
    (
        tables.boards().to_bytes(),
        tables.geometry().to_bytes(),
        tables.grouping(),
        names,
    )
        .serialize(to)
}

fn read_detector<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<Detector>, D::Error> {
    type Kept = (Vec<u8>, Vec<u8>, Grouping, [Option<OsString>; 2]);
    let (boards, geometry, grouping, names) = Kept::deserialize(from)?;
    let boards = Boards::parse(&boards, "boards").map_err(D::Error::custom)?;
    let geometry = Geometry::parse(&geometry, "geometry").map_err(D::Error::custom)?;
    // The tables were checked before they were used.
    let tables = DetectorTables::trusting(boards, geometry, grouping).map_err(D::Error::custom)?;
    let [boards, geometry] = names.map(|name| name.map(PathBuf::from));
    Ok(Arc::new(Detector {
        tables,
        boards,
        geometry,
    }))
}

fn write_repeats<S: Serializer>(repeats: &Repeats, to: S) -> Result<S::Ok, S::Error> {
    repeats.parts().serialize(to)
}

fn read_repeats<'de, D: Deserializer<'de>>(from: D) -> Result<Repeats, D::Error> {
    Repeats::of_parts(Deserialize::deserialize(from)?)
        .ok_or_else(|| D::Error::custom("no sketch of repeated events"))
}

/// Reason that sums are refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SumsError {
    /// A file holds no sums, or damaged ones.
    #[error("{name}: not sums of ut-decode report: {why}")]
    NoSums {
        /// Name of the file.
        name: String,
        /// Fault that was found.
        why: String,
    },
    /// Two are of different detectors or options, or of the same events.
    #[error("{0}")]
    Different(String),
}

impl SumsError {
    /// Returns the kind: [`ErrorKind::Format`] or [`ErrorKind::Request`].
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::NoSums { .. } => ErrorKind::Format,
            Self::Different(_) => ErrorKind::Request,
        }
    }
}

fn different(why: &str) -> SumsError {
    SumsError::Different(format!("these sums do not belong together: {why}"))
}

impl Sums {
    /// Makes the sums of `files`.
    pub fn new(
        files: &[PathBuf],
        detector: Arc<Detector>,
        options: DecodeOptions,
        gathered: Gathered,
    ) -> Self {
        let Gathered {
            view,
            seen,
            failures,
            losses,
            repeats,
        } = gathered;
        let warnings = seen.warnings().collect();
        let mut versions: BTreeMap<OsString, BTreeSet<Option<u8>>> = BTreeMap::new();
        for file in seen.files {
            versions
                .entry(file.file.clone().into())
                .or_default()
                .extend(file.judged().into_keys());
        }
        let mut sums = Self {
            files: Vec::new(),
            detector,
            options,
            view,
            measured: seen.measured,
            generated: seen.generated,
            warnings,
            failures: failures
                .iter()
                .map(|failure| with_causes(failure))
                .collect(),
            parts: BTreeSet::new(),
            versions,
            losses: losses
                .into_iter()
                .map(|(file, loss)| (file.into(), loss.numbers()))
                .collect(),
            repeats,
        };
        sums.add_files(files.iter().map(OsString::from));
        sums
    }

    /// Sets the part of a job, if that is known.
    #[must_use]
    pub fn of_part(mut self, part: Option<Part>) -> Self {
        let (events, hits, numbers) = (self.view.events, self.view.hits, self.view.numbers());
        self.parts = part
            .map(|part| Part {
                events,
                hits,
                numbers,
                ..part
            })
            .into_iter()
            .collect();
        self
    }

    /// Checks that two sums have the same detector and options, so that they can be added, or drawn
    /// side by side.
    pub fn check_alike(&self, other: &Self) -> Result<(), SumsError> {
        self.check_made_with(&other.detector.tables, other.options)
    }

    /// Checks that the hits were decoded with these tables and options.
    pub fn check_made_with(
        &self,
        tables: &DetectorTables,
        options: DecodeOptions,
    ) -> Result<(), SumsError> {
        if self.detector.tables != *tables {
            return Err(different("they are of different detectors"));
        }
        if self.options != options {
            return Err(different("they are of hits with different clustering"));
        }
        Ok(())
    }

    /// Adds the sums of other events. Only the list of files depends on the order.
    ///
    /// # Errors
    /// If detector, options or time axis differ, both have the same part, or a sum overflows. The
    /// sums then stay as they were.
    pub fn add(&mut self, other: &Self) -> Result<(), SumsError> {
        self.check_alike(other)?;
        // Without events, either axis will do.
        if self.view.against != other.view.against && self.view.events > 0 && other.view.events > 0
        {
            return Err(different(
                "some have event numbers and some the order of reading: draw each by itself",
            ));
        }
        // Empty files may well have the same name.
        if let Some(part) = self
            .parts
            .intersection(&other.parts)
            .find(|part| part.events > 0)
        {
            return Err(different(&format!(
                "both contain {}, which would count twice",
                part.name()
            )));
        }
        let mut view = self.view.clone();
        view.merge(&other.view);
        if !view.is_of(&self.detector.tables) {
            return Err(different("their numbers are too large to add"));
        }
        self.view = view;
        self.parts.extend(other.parts.iter().cloned());
        self.add_files(other.files.iter().cloned());
        self.measured = self.measured.saturating_add(other.measured);
        self.generated = self.generated.saturating_add(other.generated);
        for (mine, theirs, most) in [
            (&mut self.warnings, &other.warnings, WARNINGS),
            (&mut self.failures, &other.failures, FAILURES),
        ] {
            let room = most.saturating_sub(mine.len());
            // Several parts may read past the same broken file to reach their events, and each
            // reports it.
            let new: Vec<String> = theirs
                .iter()
                .filter(|line| !mine.contains(line))
                .take(room)
                .cloned()
                .collect();
            mine.extend(new);
        }
        for (file, versions) in &other.versions {
            self.versions
                .entry(file.clone())
                .or_default()
                .extend(versions);
        }
        self.repeats.merge(&other.repeats);
        for (file, loss) in &other.losses {
            let mine = self.losses.entry(file.clone()).or_default();
            let mut sum = Loss::of_numbers(*mine);
            sum.merge(&Loss::of_numbers(*loss));
            *mine = sum.numbers();
        }
        Ok(())
    }

    /// Returns how much of each file was lost, and why, by the names of the files.
    pub fn losses(&self) -> impl Iterator<Item = (&OsStr, Loss)> {
        self.losses
            .iter()
            .map(|(file, numbers)| (file.as_os_str(), Loss::of_numbers(*numbers)))
    }

    /// Returns how much of the data was lost, and why.
    pub fn loss(&self) -> Loss {
        self.losses().fold(Loss::default(), |mut sum, (_, loss)| {
            sum.merge(&loss);
            sum
        })
    }

    /// Returns the error of the first file with banks of which none has the version of the board
    /// table.
    pub fn wrong_version(&self) -> Option<String> {
        let wrong = |(file, versions): (&OsString, &BTreeSet<Option<u8>>)| {
            let versions = versions.iter().map(|version| (*version, 1)).collect();
            let file = FileVersions {
                versions,
                ..FileVersions::new(file.as_ref())
            };
            file.check(&self.detector.tables)
                .err()
                .map(|error| error.to_string())
        };
        self.versions.iter().find_map(wrong)
    }

    /// Returns why files could not be read to their end, or else that one is of another version.
    pub fn troubles(&self) -> Vec<String> {
        if self.failures.is_empty() {
            self.wrong_version().into_iter().collect()
        } else {
            self.failures.clone()
        }
    }

    fn add_files(&mut self, files: impl Iterator<Item = OsString>) {
        let mut known: HashSet<OsString> = self.files.iter().cloned().collect();
        self.files
            .extend(files.filter(|file| known.insert(file.clone())));
    }

    /// Returns the bytes of a file of these sums, or an error if they are more than can be read.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let mut packed = zstd::Encoder::new(Vec::new(), 1)?;
        // Without a checksum, a flipped bit would be another number on the page.
        packed.include_checksum(true)?;
        let text = FORMAT.to_owned() + &serde_json::to_string(self)?;
        if text.len() as u64 > MOST_BYTES {
            let mib = MOST_BYTES >> 20;
            let why = format!(
                "the sums are larger than {mib} MiB, the most that --merge reads: sum fewer files"
            );
            return Err(io::Error::other(why));
        }
        packed.write_all(text.as_bytes())?;
        packed.finish()
    }

    /// Reads sums from the bytes of a file, which may be anything; messages call it `name`.
    pub fn from_bytes(bytes: impl Read, name: &str) -> Result<Self, SumsError> {
        let refused = |why: String| SumsError::NoSums {
            name: name.to_owned(),
            why,
        };
        let io = |error: io::Error| refused(error.to_string());
        let mut text = Vec::new();
        zstd::Decoder::new(bytes)
            .map_err(io)?
            .take(MOST_BYTES + 1)
            .read_to_end(&mut text)
            .map_err(io)?;
        if text.len() as u64 > MOST_BYTES {
            return Err(refused(format!("larger than {} MiB", MOST_BYTES >> 20)));
        }
        let Some(json) = text.strip_prefix(FORMAT.as_bytes()) else {
            return Err(refused(format!(
                "the first line is not {:?}",
                FORMAT.trim_end()
            )));
        };
        let sums: Self =
            serde_json::from_slice(json).map_err(|error| refused(error.to_string()))?;
        if !sums.view.is_of(&sums.detector.tables)
            || !sums.losses().all(|(_, loss)| loss.is_sound())
        {
            return Err(refused("the numbers do not fit the detector".to_owned()));
        }
        Ok(sums)
    }

    /// Returns true if a file begins as one of sums does. Pipes, which can be read only once, are
    /// left alone.
    pub fn is_file(path: &Path) -> bool {
        let mut begin = vec![0; BEGIN.len()];
        let read = |file| zstd::Decoder::new(file)?.read_exact(&mut begin);
        path.is_file() && File::open(path).and_then(read).is_ok() && begin == BEGIN.as_bytes()
    }

    /// Adds the sums in files, in this order; `None` without files. Warns of missing parts, and
    /// refuses repeated ones.
    pub fn of_files(files: &[PathBuf]) -> Result<Option<Self>, SumsError> {
        let mut all: Option<Self> = None;
        for path in files {
            let name = path.display().to_string();
            let sums = if name == "-" {
                Self::from_bytes(io::stdin().lock(), &name)
            } else {
                let refused = |error: io::Error| SumsError::NoSums {
                    name: name.clone(),
                    why: error.to_string(),
                };
                Self::from_bytes(File::open(path).map_err(refused)?, &name)
            }?;
            let Some(all) = &mut all else {
                all = Some(sums);
                continue;
            };
            all.add(&sums)
                .map_err(|error| SumsError::Different(format!("{name}: {error}")))?;
        }
        if let Some(all) = &mut all {
            all.warnings.extend(missing(&all.parts));
        }
        Ok(all)
    }
}
