//! Files of hits: one for all inputs, or one per input. Each file is complete or absent.
//!
//! A file is written under a temporary name in the folder where it will lie, and renamed when it is
//! complete. So a reader never sees half a file, and a run that is killed leaves the file of the
//! run before in its place. Temporary files of runs that no longer live are removed by the next
//! run.
//!
//! An output of an input is named after it: `run1.mdf.zst` becomes `run1.parquet`, and in the
//! second of eight shards `run1-2-of-8.parquet`. Two inputs of the same name, from different
//! folders, are refused before anything is decoded.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::resume::{MANIFEST, Resume};
use crate::output::is_stdout;
use crate::paths::Protected;
use crate::{Failure, usage};
use ut_data::input::without_compression;
use ut_files::{
    Columns, Encoded, Encoder, HitFile, HitFormat, HitStyle, NewFile, OutputError, Provenance,
    place_of, remove_abandoned,
};

/// Endings of inputs that the names of their outputs leave out, after the endings of compression.
const RAW: [&str; 4] = [".mdf", ".raw", ".mep", ".bin"];

/// Metadata of the outputs: how the hits were made.
pub struct Story {
    pub entries: Vec<(String, String)>,
    pub files: Arc<[PathBuf]>,
    pub warning: Option<&'static str>,
}

impl Story {
    /// Returns the metadata of hits of `inputs`; `measured` says whether there were measured events
    /// among them.
    pub fn provenance(
        &self,
        inputs: &[PathBuf],
        measured: bool,
        incomplete: Option<String>,
    ) -> Provenance {
        let mut entries = self.entries.clone();
        let inputs: Vec<String> = inputs
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        entries.push(("inputs".to_owned(), inputs.join("\n")));
        entries.extend(
            self.warning
                .filter(|_| measured)
                .map(|text| ("warning".to_owned(), text.to_owned())),
        );
        Provenance {
            entries,
            incomplete,
        }
    }
}

/// Files to write. With one file for each input, files are completed in the order of the inputs,
/// and `next` moves on when a piece of a later input arrives.
pub enum Plan {
    One(PathBuf),
    /// One an input, in their order; `next` is the input in work.
    Inputs {
        paths: Vec<PathBuf>,
        next: usize,
        why: Option<String>,
        resume: Option<Resume>,
    },
}

/// File that is being written. A file for an input is only begun with its first hit: a job that
/// fails early does not leave empty files for inputs that it never came to.
struct Open {
    file: HitFile,
    has_hits: bool,
    measured: bool,
}

impl Open {
    fn create(style: &HitStyle, path: &Path) -> Result<Self, OutputError> {
        Ok(Self {
            file: style.create(path)?,
            has_hits: false,
            measured: false,
        })
    }
}

pub struct Outputs {
    style: HitStyle,
    plan: Plan,
    story: Arc<Story>,
    open: Option<Open>,
    written: Written,
    made: Vec<PathBuf>,
}

#[derive(Default)]
pub struct Written {
    pub files: Vec<PathBuf>,
    /// Written files that lack hits at their end.
    pub incomplete: Vec<PathBuf>,
    /// True if each input has a file.
    pub by_file: bool,
}

/// Output as the options ask for it.
pub struct OutputOptions<'a> {
    pub path: &'a Path,
    /// Format by its name; else the path's ending says it.
    pub format: Option<HitFormat>,
    pub columns: Columns,
    pub shard: Option<(u64, u64)>,
    /// Files that no output may be written over.
    pub protected: Protected,
    /// Leaves out inputs whose hits are there already.
    pub resume: bool,
}

impl OutputOptions<'_> {
    /// Returns true if the path is a folder, ends as one, or says no format itself.
    pub fn is_folder(&self) -> bool {
        let says_none =
            self.format.is_some() && self.path.extension().is_none() && !self.path.exists();
        let ends_as_one = self.path.as_os_str().as_encoded_bytes().ends_with(b"/");
        !is_stdout(self.path) && (ends_as_one || self.path.is_dir() || says_none)
    }

    /// Returns the format; ends the program where nothing says it.
    pub fn format(&self) -> HitFormat {
        if let Some(format) = self.format {
            return format;
        }
        if self.is_folder() {
            usage(&format!(
                "--output {} is a folder: --format csv or parquet says what goes into it",
                self.path.display()
            ))
        }
        if is_stdout(self.path) {
            usage("--output -: --format csv or parquet says what goes to standard output");
        }
        HitFormat::of(self.path).unwrap_or_else(|error| usage(&format!("--output {error}")))
    }

    /// Plans the outputs of `files`, and takes off those whose hits are there already and have the
    /// digest `made_with`; ends the program where two outputs would be one file.
    pub fn plan(&self, files: &mut Vec<PathBuf>, made_with: impl FnOnce() -> String) -> Plan {
        if !self.is_folder() {
            return Plan::One(self.path.to_path_buf());
        }
        let extension = self.format().name();
        // The shards of a job may share a folder.
        let shard = self
            .shard
            .map_or_else(String::new, |(i, n)| format!("-{i}-of-{n}"));
        let name = |file: &PathBuf| self.path.join(format!("{}{shard}.{extension}", stem(file)));
        let mut paths: Vec<PathBuf> = files.iter().map(name).collect();
        let mut inputs = HashMap::new();
        for (path, file) in paths.iter().zip(&*files) {
            // Two names may be links to one file.
            if let Some(other) = inputs.insert(place_of(path).unwrap_or_else(|| path.clone()), file)
            {
                let [a, b] = [other, file].map(|file| file.display());
                usage(&format!(
                    "{} would hold the hits of two inputs, {a} and {b}",
                    path.display()
                ));
            }
            self.protected.refuse(path);
        }
        let resume = self.resume.then(|| {
            self.protected.refuse(&self.path.join(MANIFEST));
            Resume::begin(self.path, &made_with(), files, &mut paths)
        });
        Plan::Inputs {
            paths,
            next: 0,
            why: None,
            resume,
        }
    }
}

/// Returns the name of an input without what says its format.
fn stem(file: &Path) -> String {
    if is_stdout(file) {
        return "stdin".to_owned();
    }
    let name = file
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let stem = without_compression(&name);
    let lower = stem.to_ascii_lowercase();
    let ending = RAW
        .iter()
        .find(|ending| lower.ends_with(**ending) && lower.len() > ending.len());
    stem[..stem.len() - ending.map_or(0, |ending| ending.len())].to_owned()
}

impl Outputs {
    pub fn begin(
        wanted: OutputOptions<'_>,
        plan: Plan,
        story: Arc<Story>,
    ) -> Result<Self, Failure> {
        let format = wanted.format();
        let OutputOptions {
            path: at,
            mut columns,
            ..
        } = wanted;
        columns.file |= story.files.len() > 1 && !matches!(plan, Plan::Inputs { .. });
        let style = HitStyle::new(at, format, &story.files, columns)?;
        let mut outputs = Self {
            style,
            plan,
            story,
            open: None,
            written: Written::default(),
            made: Vec::new(),
        };
        // A failure to write is noticed before the work.
        match &outputs.plan {
            Plan::One(path) => {
                outputs.open = Some(Open::create(&outputs.style, path)?);
            }
            Plan::Inputs { .. } => {
                outputs.make_folder(at)?;
                NewFile::check_folder(at)?;
            }
        }
        Ok(outputs)
    }

    /// Returns true if each input has a separate output, so that a batch must have events of one
    /// file only.
    pub const fn by_file(&self) -> bool {
        matches!(self.plan, Plan::Inputs { .. })
    }

    pub fn encoder(&self) -> Encoder {
        self.style.encoder()
    }

    /// Returns the input in work, if each has a file.
    const fn input(&self) -> Option<usize> {
        match self.plan {
            Plan::Inputs { next, .. } => Some(next),
            Plan::One(_) => None,
        }
    }

    /// Completes the file of the input in work, unless hits are missing (`why`) and no hits were
    /// written; then goes on to the next.
    fn next_input(&mut self, why: Option<String>) -> Result<(), OutputError> {
        let Plan::Inputs {
            paths,
            next,
            why: known,
            ..
        } = &mut self.plan
        else {
            return Ok(());
        };
        let (Some(path), why) = (paths.get(*next), known.take().or(why)) else {
            return Ok(());
        };
        let input = *next;
        *next += 1;
        let open = match self.open.take() {
            Some(open) => open,
            None if why.is_some() => return Ok(()),
            None => Open::create(&self.style, path)?,
        };
        self.complete(open, Some(input), why)
    }

    /// Notes why the hits of the input in work are not all there.
    pub fn note(&mut self, what: String) {
        if let Plan::Inputs { why, .. } = &mut self.plan {
            // The first reason is the cause; later ones often follow from it.
            why.get_or_insert(what);
        }
    }

    /// Writes the hits of a batch, with [`Self::by_file`] of one input; `measured` if some may be
    /// of measured events.
    pub fn append(
        &mut self,
        encoded: Encoded,
        has_hits: bool,
        measured: bool,
    ) -> Result<(), OutputError> {
        if let (None, true, Plan::Inputs { paths, next, .. }) = (&self.open, has_hits, &self.plan) {
            self.open = Some(Open::create(&self.style, &paths[*next])?);
        }
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        open.has_hits |= has_hits;
        open.measured |= measured;
        open.file.append(encoded)
    }

    fn make_folder(&mut self, folder: &Path) -> Result<(), OutputError> {
        let there = folder.is_dir();
        fs::create_dir_all(folder).map_err(|source| OutputError::Io {
            file: folder.to_path_buf(),
            source,
        })?;
        if !there {
            self.made.push(folder.to_path_buf());
        }
        remove_abandoned(folder);
        Ok(())
    }

    /// Completes the file of one input, or of all.
    fn complete(
        &mut self,
        open: Open,
        input: Option<usize>,
        why: Option<String>,
    ) -> Result<(), OutputError> {
        let Open {
            file,
            has_hits,
            measured,
        } = open;
        if why.is_some() && !has_hits {
            return Ok(());
        }
        let inputs = input.map_or(&self.story.files[..], |input| {
            &self.story.files[input..=input]
        });
        let path = file.path().to_path_buf();
        let is_whole = why.is_none();
        if !is_whole {
            self.written.incomplete.push(path.clone());
        }
        let finished = file.finish(&self.story.provenance(inputs, measured, why));
        if finished.is_err() {
            self.written.incomplete.retain(|other| *other != path);
        }
        finished?;
        if let (
            Plan::Inputs {
                resume: Some(resume),
                ..
            },
            Some(input),
            true,
        ) = (&mut self.plan, input, is_whole)
        {
            resume.note(input, &path)?;
        }
        self.written.files.push(path);
        Ok(())
    }

    /// Completes the files of the inputs before `input`; `wrong` returns why all hits of an input
    /// are missing.
    pub fn reach(
        &mut self,
        input: usize,
        wrong: impl Fn(&Path) -> Option<String>,
    ) -> Result<(), OutputError> {
        while let Some(current) = self.input().filter(|&current| current < input) {
            let why = self.story.files.get(current).and_then(|file| wrong(file));
            self.next_input(why)?;
        }
        Ok(())
    }

    /// Completes all files. `why`: reason for missing hits. `opened`: inputs read, `None` if
    /// stopped within one.
    pub fn finish(
        &mut self,
        why: Option<&String>,
        opened: Option<usize>,
        wrong: impl Fn(&Path) -> Option<String>,
    ) -> Result<(), OutputError> {
        self.reach(
            opened.unwrap_or_else(|| self.input().map_or(0, |input| input + 1)),
            wrong,
        )?;
        if let Some(open) = self.open.take() {
            self.complete(open, None, why.cloned())?;
        }
        match &mut self.plan {
            Plan::Inputs {
                resume: Some(resume),
                ..
            } => resume.save(),
            _ => Ok(()),
        }
    }

    /// Returns how many files are whole so far.
    pub fn written(&self) -> usize {
        self.written.files.len()
    }

    /// Returns the complete files, and removes unfinished ones.
    pub fn into_written(mut self) -> Written {
        self.written.files.sort();
        self.written.by_file = self.by_file();
        std::mem::take(&mut self.written)
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        self.open = None;
        for folder in self.made.iter().rev() {
            // A folder with files stays.
            let _ = fs::remove_dir(folder);
        }
    }
}
