//! Where the hits go: into one file, a file an input, or a file a run. Each is whole or not there.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::resume::{MANIFEST, Resume};
use crate::output::is_stdout;
use crate::paths::Protected;
use crate::{Failure, usage};
use ut_data::input::{Apart, without_compression};
use ut_files::{
    Columns, Encoded, Encoder, HitFile, HitFormat, HitStyle, NewFile, OutputError, Packing, Provenance, place_of,
    remove_abandoned,
};

/// Runs whose files are open at a time. A run that comes back after its file was completed gets another one.
const MAX_OPEN: usize = 64;

/// The folder of events that do not tell their run, as Hive calls what is null.
const NO_RUN: &str = "__HIVE_DEFAULT_PARTITION__";

/// Endings of inputs that are left out of the name of their hits, after those of compression.
const RAW: [&str; 4] = [".mdf", ".raw", ".mep", ".bin"];

/// How the hits were made, for the outputs' metadata.
pub struct Story {
    /// What holds for every file.
    pub entries: Vec<(String, String)>,
    /// All inputs.
    pub files: Arc<[PathBuf]>,
    /// What to say of measured events.
    pub warning: Option<&'static str>,
}

impl Story {
    /// The metadata of hits of `inputs`; `measured` says whether there were measured events among them.
    pub fn provenance(&self, inputs: &[PathBuf], measured: bool, incomplete: Option<String>) -> Provenance {
        let mut entries = self.entries.clone();
        let inputs: Vec<String> = inputs.iter().map(|file| file.display().to_string()).collect();
        entries.push(("inputs".to_owned(), inputs.join("\n")));
        entries.extend(self.warning.filter(|_| measured).map(|text| ("warning".to_owned(), text.to_owned())));
        Provenance { entries, incomplete }
    }
}

/// How many files there are.
pub enum Plan {
    One(PathBuf),
    /// One an input, in the order of the inputs; the next is that which is in work.
    Inputs {
        paths: Vec<PathBuf>,
        next: usize,
        why: Option<String>,
        resume: Option<Resume>,
    },
    /// One a run, in folders that say which; the files of a run are counted.
    Runs {
        folder: PathBuf,
        name: String,
        parts: BTreeMap<Option<u32>, u32>,
        protected: Protected,
        /// Where files of runs are, their links followed.
        places: HashSet<PathBuf>,
    },
}

/// A file in the making.
struct Open {
    run: Option<u32>,
    file: HitFile,
    has_hits: bool,
    measured: bool,
}

/// The outputs of a job.
pub struct Outputs {
    style: HitStyle,
    plan: Plan,
    story: Arc<Story>,
    /// That which was written to last comes last.
    open: Vec<Open>,
    written: Written,
    /// Folders that were made for files to come.
    made: Vec<PathBuf>,
}

/// Files that were written.
#[derive(Default)]
pub struct Written {
    pub files: Vec<PathBuf>,
    /// Of those, the ones that lack hits at their end.
    pub incomplete: Vec<PathBuf>,
}

/// What an output option asks for.
pub struct Wanted<'a> {
    pub path: &'a Path,
    /// As it was named; else the path's ending says it.
    pub format: Option<HitFormat>,
    pub packing: Packing,
    pub columns: Columns,
    /// Whether there is to be a file a run.
    pub by_run: bool,
    /// The part of all events that this is, if it is one.
    pub shard: Option<(u64, u64)>,
    /// Files that no output may be written over.
    pub protected: Protected,
    /// Whether inputs whose hits are there already are left out.
    pub resume: bool,
}

impl Wanted<'_> {
    /// Returns true if the path is a folder of files: it is one, or ends as one, or says no format itself.
    pub fn is_folder(&self) -> bool {
        let says_none = self.format.is_some() && self.path.extension().is_none() && !self.path.exists();
        let ends_as_one = self.path.as_os_str().as_encoded_bytes().ends_with(b"/");
        !is_stdout(self.path) && (self.by_run || ends_as_one || self.path.is_dir() || says_none)
    }

    /// Ends the program where nothing says the format.
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
        HitFormat::of(self.path).unwrap_or_else(|error| usage(&format!("--output {error}")))
    }

    /// Plans the outputs of `files`, and takes those off whose hits are there already and made with the same as
    /// `made_with` says; ends the program where what is wanted makes no sense.
    pub fn plan(&mut self, files: &mut Vec<PathBuf>, made_with: impl FnOnce() -> String) -> Plan {
        if !self.is_folder() {
            return Plan::One(self.path.to_path_buf());
        }
        let extension = self.format().name();
        // The shards of a job may share a folder.
        let shard = self.shard.map_or_else(String::new, |(i, n)| format!("-{i}-of-{n}"));
        if self.by_run {
            let (folder, name) = (self.path.to_path_buf(), format!("hits{shard}.{extension}"));
            let protected = std::mem::take(&mut self.protected);
            return Plan::Runs { folder, name, parts: BTreeMap::new(), protected, places: HashSet::new() };
        }
        let name = |file: &PathBuf| self.path.join(format!("{}{shard}.{extension}", stem(file)));
        let mut paths: Vec<PathBuf> = files.iter().map(name).collect();
        let mut inputs = HashMap::new();
        for (path, file) in paths.iter().zip(&*files) {
            // Two names may be links to one file. In a folder that is not there yet there are no links.
            if let Some(other) = inputs.insert(place_of(path).unwrap_or_else(|| path.clone()), file) {
                let [a, b] = [other, file].map(|file| file.display());
                usage(&format!("{} would hold the hits of two inputs, {a} and {b}", path.display()));
            }
            self.protected.check(path).unwrap_or_else(|message| usage(&message));
        }
        let resume = self.resume.then(|| {
            self.protected.check(&self.path.join(MANIFEST)).unwrap_or_else(|message| usage(&message));
            Resume::begin(self.path, &made_with(), files, &mut paths)
        });
        Plan::Inputs { paths, next: 0, why: None, resume }
    }
}

/// The name of an input without what says its format.
fn stem(file: &Path) -> String {
    if is_stdout(file) {
        return "stdin".to_owned();
    }
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stem = without_compression(&name);
    let lower = stem.to_ascii_lowercase();
    let ending = RAW.iter().find(|ending| lower.ends_with(**ending) && lower.len() > ending.len());
    stem[..stem.len() - ending.map_or(0, |ending| ending.len())].to_owned()
}

impl Outputs {
    /// Begins the outputs of a job.
    pub fn begin(wanted: Wanted<'_>, plan: Plan, story: Arc<Story>) -> Result<Self, Failure> {
        let format = wanted.format();
        let Wanted { path: at, packing, mut columns, .. } = wanted;
        columns.file |= story.files.len() > 1 && !matches!(plan, Plan::Inputs { .. });
        let style = HitStyle::new(at, format, packing, &story.files, columns)?;
        let style = if let Plan::Runs { .. } = plan { style.without_run()? } else { style };
        let (open, written, made) = (Vec::new(), Written::default(), Vec::new());
        let mut outputs = Self { style, plan, story, open, written, made };
        // What cannot be written is noticed before the work.
        match &outputs.plan {
            Plan::One(path) => {
                let file = outputs.style.create(path)?;
                outputs.open.push(Open { run: None, file, has_hits: false, measured: false });
            }
            Plan::Inputs { .. } | Plan::Runs { .. } => {
                outputs.make_folder(at)?;
                NewFile::check_folder(at)?;
            }
        }
        Ok(outputs)
    }

    /// Returns which events must not share a batch.
    pub const fn apart(&self) -> Apart {
        match self.plan {
            Plan::One(_) => Apart::Nothing,
            Plan::Inputs { .. } => Apart::Files,
            Plan::Runs { .. } => Apart::Runs,
        }
    }

    /// An encoder for what [`Self::append`] takes.
    pub fn encoder(&self) -> Encoder {
        self.style.encoder()
    }

    /// The input whose file is in work, if each has one.
    const fn input(&self) -> Option<usize> {
        match self.plan {
            Plan::Inputs { next, .. } => Some(next),
            _ => None,
        }
    }

    /// Completes the file of the input in work, and goes on to the next. `why` its hits are not all there, if they are
    /// not; a file without a single one is then of no use.
    fn next_input(&mut self, why: Option<String>) -> Result<(), OutputError> {
        let Plan::Inputs { paths, next, why: known, .. } = &mut self.plan else { return Ok(()) };
        let (Some(path), why) = (paths.get(*next), known.take().or(why)) else { return Ok(()) };
        let input = *next;
        *next += 1;
        let open = match self.open.pop() {
            Some(open) => open,
            None if why.is_some() => return Ok(()),
            None => Open { run: None, file: self.style.create(path)?, has_hits: false, measured: false },
        };
        self.complete(open, Some(input), why)
    }

    /// Notes why the hits of the input in work are not all there.
    pub fn note(&mut self, what: String) {
        if let Plan::Inputs { why, .. } = &mut self.plan {
            why.get_or_insert(what);
        }
    }

    /// Writes the hits of a batch. With [`Self::apart`] they are of one file, or of one `run`. `measured`: some may be
    /// of measured events.
    pub fn append(
        &mut self,
        run: Option<u32>,
        encoded: Encoded,
        has_hits: bool,
        measured: bool,
    ) -> Result<(), OutputError> {
        let run = run.filter(|_| matches!(self.plan, Plan::Runs { .. }));
        let open = match self.open.iter().position(|open| open.run == run) {
            Some(place) => self.open.remove(place),
            None if !has_hits => return Ok(()),
            None => Open { run, file: self.create(run)?, has_hits: false, measured: false },
        };
        self.open.push(open);
        if let Some(open) = self.open.last_mut() {
            open.has_hits |= has_hits;
            open.measured |= measured;
            open.file.append(encoded)?;
        }
        Ok(())
    }

    /// Begins the file of the input in work, or of a run.
    fn create(&mut self, run: Option<u32>) -> Result<HitFile, OutputError> {
        let (folder, path) = match &mut self.plan {
            Plan::One(path) => return self.style.create(&*path),
            Plan::Inputs { paths, next, .. } => return self.style.create(&paths[*next]),
            Plan::Runs { folder, name, parts, .. } => {
                let part = parts.entry(run).or_default();
                let numbered =
                    if *part == 0 { name.clone() } else { name.replacen("hits", &format!("hits-{part}"), 1) };
                *part += 1;
                let folder =
                    folder.join(format!("run={}", run.map_or_else(|| NO_RUN.to_owned(), |run| run.to_string())));
                let path = folder.join(numbered);
                (folder, path)
            }
        };
        self.make_folder(&folder)?;
        if let Plan::Runs { protected, places, .. } = &mut self.plan {
            let other = || "it is a link to the file of another run".to_owned();
            let first = place_of(&path).is_none_or(|place| places.insert(place));
            let checked = protected.check(&path).and_then(|()| if first { Ok(()) } else { Err(other()) });
            checked.map_err(|why| OutputError::Io { file: path.clone(), source: io::Error::other(why) })?;
        }
        if self.open.len() == MAX_OPEN {
            let oldest = self.open.remove(0);
            self.complete(oldest, None, None)?;
        }
        self.style.create(path)
    }

    fn make_folder(&mut self, folder: &Path) -> Result<(), OutputError> {
        let there = folder.is_dir();
        fs::create_dir_all(folder).map_err(|source| OutputError::Io { file: folder.to_path_buf(), source })?;
        if !there {
            self.made.push(folder.to_path_buf());
        }
        remove_abandoned(folder);
        Ok(())
    }

    /// Completes a file of the hits of one input, or of all.
    fn complete(&mut self, open: Open, input: Option<usize>, why: Option<String>) -> Result<(), OutputError> {
        let Open { file, has_hits, measured, .. } = open;
        if why.is_some() && !has_hits {
            return Ok(());
        }
        let inputs = input.map_or(&self.story.files[..], |input| &self.story.files[input..=input]);
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
        if let (Plan::Inputs { resume: Some(resume), .. }, Some(input), true) = (&mut self.plan, input, is_whole) {
            resume.note(input, &path)?;
        }
        self.written.files.push(path);
        Ok(())
    }

    /// Completes the files of the inputs before `input`; `wrong` says what is wrong with all of an input.
    pub fn reach(&mut self, input: usize, wrong: impl Fn(&Path) -> Option<String>) -> Result<(), OutputError> {
        while let Some(current) = self.input().filter(|&current| current < input) {
            let why = self.story.files.get(current).and_then(|file| wrong(file));
            self.next_input(why)?;
        }
        Ok(())
    }

    /// Completes all files; `why` hits are missing, if they are. The inputs behind the first `opened` were not read; without
    /// that number the job was stopped, and those behind that in work were not.
    pub fn finish(
        &mut self,
        why: Option<&String>,
        opened: Option<usize>,
        wrong: impl Fn(&Path) -> Option<String>,
    ) -> Result<(), OutputError> {
        self.reach(opened.unwrap_or_else(|| self.input().map_or(0, |input| input + 1)), wrong)?;
        for open in std::mem::take(&mut self.open) {
            self.complete(open, None, why.cloned())?;
        }
        match &mut self.plan {
            Plan::Inputs { resume: Some(resume), .. } => resume.save(),
            _ => Ok(()),
        }
    }

    /// Files that are whole so far.
    pub fn written(&self) -> usize {
        self.written.files.len()
    }

    /// Those files; what is unfinished goes.
    pub fn into_written(mut self) -> Written {
        self.written.files.sort();
        std::mem::take(&mut self.written)
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        self.open.clear();
        for folder in self.made.iter().rev() {
            // One with files stays.
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::stem;

    #[test]
    fn a_file_is_called_as_its_input_without_what_says_the_format() {
        for (input, expected) in [
            ("a/run1.mdf", "run1"),
            ("run1.MDF.ZST", "run1"),
            ("run.1.mep.gz", "run.1"),
            ("1_2.bin", "1_2"),
            ("plain", "plain"),
            ("a.zst", "a"),
            ("a.bin.zst.gz", "a"),
            (".mdf", ".mdf"),
            ("data.dat", "data.dat"),
            ("-", "stdin"),
        ] {
            assert_eq!(stem(Path::new(input)), expected, "{input}");
        }
    }
}
