//! `--resume`: a manifest in the outputs' folder says which inputs need not be decoded again.
//!
//! An input is skipped if nothing on which its hits depend has changed since its output was
//! written: the input itself (by size and time of its last change), the tables, the options, the
//! mask and the program. The manifest is replaced as a whole, so that it never says of a
//! half-written output that it is done. It is replaced now and then, and not for each input: with a
//! million small inputs, writing the manifest would otherwise take longer than decoding.
//!
//! Times of change are compared for equality and not for order: a file that was restored from a
//! backup has an older time, and other contents. Hits are recognised in the same way, so that an
//! output that was replaced by hand is made anew.
//!
//! ```text
//! {
//!   "version": 1,
//!   "outputs": {
//!     "run1.parquet": {
//!       "input": {"path": "/data/run1.mdf", "size": 81904, "modified": 1780315200000000000,
//!                 "made_with": "4be1c0a2905d77f3"},
//!       "hits": {"size": 20511, "modified": 1780315260123456789}
//!     }
//!   }
//! }
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use twox_hash::XxHash64;

use super::Args;
use crate::output::say;
use ut_bench::Machine;
use ut_data::detector::Mask;
use ut_data::memory::read_text;
use ut_files::{NewFile, OutputError};
use ut_report::Detector;

/// Name of the manifest in the folder of outputs, hidden from programs that read the folder.
pub const MANIFEST: &str = ".ut-decode.json";

const VERSION: u32 = 1;

/// Maximum size in bytes of a manifest to read: a million outputs.
const LARGEST: u64 = 512 << 20;

/// Pause between two replacements of the manifest, in units of the time that the last one took.
///
/// So writing it takes at most a twentieth of the time. A job that is killed decodes again what
/// came after the last replacement.
const PATIENCE: u32 = 20;

/// Size and modification time of a regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    size: u64,
    /// Nanoseconds since 1970.
    modified: i64,
}

impl Mark {
    /// Returns `None` for pipes, devices and folders.
    fn of(there: &Metadata) -> Option<Self> {
        let modified = there.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let modified = match modified.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => after.as_nanos() as i64,
            Err(before) => -(before.duration().as_nanos() as i64),
        };
        there.is_file().then_some(Self {
            size: there.len(),
            modified,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Source {
    /// Absolute path, with links followed.
    path: String,
    #[serde(flatten)]
    mark: Mark,
    /// Digest of [`made_with`].
    made_with: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    input: Source,
    hits: Mark,
}

#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    version: u32,
    /// Outputs by their names in the folder.
    outputs: BTreeMap<String, Entry>,
}

/// Manifest of a folder, which a job continues.
#[derive(Debug)]
pub struct Resume {
    path: PathBuf,
    manifest: Manifest,
    /// Inputs as they were when the job began; `None` for one that cannot be recognised, such as a
    /// pipe.
    inputs: Vec<Option<Source>>,
    is_saved: bool,
    saved: Instant,
    took: Duration,
}

impl Resume {
    /// Reads the manifest of `folder`, and takes inputs off `files` and outputs off `paths` whose
    /// hits are whole and `made_with` the same. A manifest that cannot be read is begun anew, with
    /// a warning.
    pub fn begin(
        folder: &Path,
        made_with: &str,
        files: &mut Vec<PathBuf>,
        paths: &mut Vec<PathBuf>,
    ) -> Self {
        let path = folder.join(MANIFEST);
        let mut manifest = read(&path).unwrap_or_else(|why| {
            say(&format!(
                "warning: {}: {why}: decoding all inputs again",
                path.display()
            ));
            Manifest {
                version: VERSION,
                outputs: BTreeMap::new(),
            }
        });
        let there = |path: &Path| fs::metadata(path).ok().as_ref().and_then(Mark::of);
        manifest
            .outputs
            .retain(|name, entry| there(&folder.join(name)) == Some(entry.hits));
        let mut inputs = Vec::new();
        let of = |file: &Path| {
            let path = file
                .canonicalize()
                .ok()?
                .into_os_string()
                .into_string()
                .ok()?;
            Some(Source {
                path,
                mark: there(file)?,
                made_with: made_with.to_owned(),
            })
        };
        (*files, *paths) = std::mem::take(files)
            .into_iter()
            .zip(std::mem::take(paths))
            .filter(|(file, path)| {
                let source = of(file);
                let entry = name_of(path).and_then(|name| manifest.outputs.get(name));
                let is_left =
                    source.is_none() || entry.map(|entry| &entry.input) != source.as_ref();
                if is_left {
                    inputs.push(source);
                }
                is_left
            })
            .unzip();
        Self {
            path,
            manifest,
            inputs,
            is_saved: true,
            saved: Instant::now(),
            took: Duration::ZERO,
        }
    }

    /// Notes that the hits of an input, by its place among those that were left, are complete in
    /// `output`.
    pub fn note(&mut self, input: usize, output: &Path) -> Result<(), OutputError> {
        let (Some(source), Some(name)) = (
            self.inputs.get_mut(input).and_then(Option::take),
            name_of(output),
        ) else {
            return Ok(());
        };
        // After a power cut the manifest must not name hits that never reached the disk.
        let flush = |file: File| file.sync_all().and_then(|()| file.metadata());
        let there = File::open(output).and_then(flush);
        let there = there.map_err(|source| OutputError::Io {
            file: output.to_path_buf(),
            source,
        })?;
        if let Some(hits) = Mark::of(&there) {
            self.manifest.outputs.insert(
                name.to_owned(),
                Entry {
                    input: source,
                    hits,
                },
            );
            self.is_saved = false;
        }
        if self.saved.elapsed() >= PATIENCE * self.took {
            self.save()
        } else {
            Ok(())
        }
    }

    /// Replaces the manifest, if there is something new in it.
    pub fn save(&mut self) -> Result<(), OutputError> {
        if self.is_saved {
            return Ok(());
        }
        let start = Instant::now();
        let mut file = NewFile::create(&self.path)?;
        serde_json::to_writer_pretty(&mut file, &self.manifest)
            .map_err(|error| file.cannot(error.into()))?;
        file.finish()?;
        (self.is_saved, self.saved, self.took) = (true, Instant::now(), start.elapsed());
        Ok(())
    }
}

impl Drop for Resume {
    fn drop(&mut self) {
        // A job that ends early has said why; what the manifest lacks is decoded again.
        let _ = self.save();
    }
}

fn name_of(output: &Path) -> Option<&str> {
    output.file_name()?.to_str()
}

/// Returns the manifest, empty if there is none, or why it cannot be read.
fn read(path: &Path) -> Result<Manifest, String> {
    let text = match File::open(path).and_then(|file| read_text(file, LARGEST)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Manifest {
                version: VERSION,
                outputs: BTreeMap::new(),
            });
        }
        Err(error) => return Err(error.to_string()),
    };
    let manifest: Manifest =
        serde_json::from_str(&text).map_err(|error| format!("damaged: {error}"))?;
    if manifest.version != VERSION {
        return Err(format!(
            "version {}, this program writes {VERSION}",
            manifest.version
        ));
    }
    Ok(manifest)
}

/// Returns a digest of everything but the input that hits depend on. Backend, layout and threads
/// change no bit.
///
/// Options that change hits, their columns or their order must be listed here. One that is
/// forgotten lets `--resume` keep outputs of other options, which no later check would notice.
/// (`--events`, `--shard`, `--skip` and `--limit` are not: `--resume` refuses them.)
pub fn made_with(args: &Args, detector: &Detector, mask: Option<&Mask>) -> String {
    let tables = &detector.tables;
    let mut digest = XxHash64::with_seed(0);
    (
        tables.boards().to_bytes(),
        tables.geometry().to_bytes(),
        tables.grouping().name(),
        mask,
    )
        .hash(&mut digest);
    let batch = args.backend.batch(args.batch);
    let output = (&args.columns, &args.format, batch);
    let select = &args.inputs.select;
    let events = (
        args.no_checksum,
        select.run,
        select.event_number,
        &select.time,
        &select.crossing,
    );
    let tool = (env!("CARGO_PKG_VERSION"), Machine::COMMIT);
    format!("{:?}", (args.clustering.options(), output, events, tool)).hash(&mut digest);
    format!("{:016x}", digest.finish())
}
