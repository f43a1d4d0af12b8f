//! Checks of the files that a command line names: an output must be neither an input nor another
//! output.
//!
//! Any value that names an existing file and is not an output is an input, whatever the subcommand.
//!
//! Files are compared by device and inode, and not by name: a link, another path or a redirected
//! standard output lead to the same file. For an output that does not exist yet, there is only its
//! path, with links followed.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use ut_files::{NewFile, place_of};

use crate::output::is_stdout;
use crate::{Failure, config, usage};
use tuner::store::Locations;

/// Name of this program, to which the stores belong.
pub const APPLICATION: &str = "ut-decode";

/// Ids of the options that name outputs, with `-` for `_`. An option that writes a file and is
/// missing here counts as an input, and two such options may name one file.
const OUTPUTS: [&str; 8] = [
    "output",
    "json",
    "csv",
    "report",
    "extract",
    "sums",
    "mask-out",
    "event-table",
];

/// Options whose file is written when the work is done.
const WRITTEN_LAST: [&str; 2] = ["json", "csv"];

/// Identity of a file, whatever its path.
#[derive(PartialEq, Eq, Hash)]
enum Identity {
    #[cfg(unix)]
    Inode(u64, u64),
    /// Path with links followed, as far as it exists.
    Path(PathBuf),
}

impl Identity {
    /// Returns the identity of a regular file that is read, `-` for standard input; `None` of
    /// anything else.
    fn of_input(path: &Path) -> Option<Self> {
        if is_stdout(path) {
            return Self::of_open(&io::stdin());
        }
        Self::of(path, &path.metadata().ok()?)
    }

    /// Returns the identity of a regular file to write, which need not exist, with `-` for standard
    /// output; `None` for anything else.
    fn of_output(path: &Path) -> Option<Self> {
        if is_stdout(path) {
            return Self::of_open(&io::stdout());
        }
        match path.metadata() {
            Ok(there) => Self::of(path, &there),
            Err(_) => place_of(path).map(Self::Path),
        }
    }

    #[cfg(unix)]
    fn of(_: &Path, there: &Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        there
            .is_file()
            .then(|| Self::Inode(there.dev(), there.ino()))
    }

    #[cfg(not(unix))]
    fn of(path: &Path, there: &Metadata) -> Option<Self> {
        path.canonicalize()
            .ok()
            .filter(|_| there.is_file())
            .map(Self::Path)
    }

    /// Returns the identity of a stream that a shell may have redirected to a file.
    #[cfg(unix)]
    fn of_open(stream: &impl std::os::fd::AsFd) -> Option<Self> {
        let file = std::fs::File::from(stream.as_fd().try_clone_to_owned().ok()?);
        Self::of(Path::new("-"), &file.metadata().ok()?)
    }

    #[cfg(not(unix))]
    fn of_open<T>(_: &T) -> Option<Self> {
        None
    }
}

/// Returns the first file that was named before, by any path.
pub fn named_twice(files: &[PathBuf]) -> Option<&PathBuf> {
    let mut known = HashSet::new();
    files
        .iter()
        .find(|file| Identity::of_input(file).is_some_and(|identity| !known.insert(identity)))
}

const INPUT: &str = "which is an input";

/// Files that must not be written over, with their names for messages; each is looked at once for
/// all outputs.
#[derive(Default)]
pub struct Protected(HashMap<Identity, (PathBuf, &'static str)>);

impl Protected {
    pub fn inputs<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        let mut protected = Self::default();
        protected.add(files, INPUT);
        protected
    }

    pub fn add<'a>(&mut self, files: impl IntoIterator<Item = &'a PathBuf>, what: &'static str) {
        for file in files {
            self.insert(Identity::of_input(file), file, what);
        }
    }

    pub fn add_output(&mut self, file: &Path, what: &'static str) {
        self.insert(Identity::of_output(file), file, what);
    }

    /// Adds the settings, the tables that they name, and the store of tuned values.
    pub fn add_unnamed(&mut self) {
        let store = Locations::choose(APPLICATION).ok();
        let store = store.map(|locations| (locations.user, "the store of tuned values"));
        for (file, what) in config::files().into_iter().chain(store) {
            self.add([&file], what);
        }
    }

    fn insert(&mut self, identity: Option<Identity>, file: &Path, what: &'static str) {
        if let Some(identity) = identity {
            self.0
                .entry(identity)
                .or_insert_with(|| (file.to_path_buf(), what));
        }
    }

    /// Ends the program with wrong usage if the output is a protected file.
    pub fn refuse(&self, output: &Path) {
        self.check(output).unwrap_or_else(|message| usage(&message));
    }

    /// Returns an error that says which file `output` would overwrite.
    pub fn check(&self, output: &Path) -> Result<(), String> {
        match Identity::of_output(output).and_then(|identity| self.0.get(&identity)) {
            Some((file, what)) => Err(format!(
                "{} would overwrite {}, {what}",
                output.display(),
                file.display()
            )),
            None => Ok(()),
        }
    }
}

/// Returns every value on the command line with the name of its option, subcommands included.
fn values(matches: &ArgMatches) -> Vec<(String, OsString)> {
    let mut values = Vec::new();
    let mut level = Some(matches);
    while let Some(matches) = level {
        for id in matches.ids() {
            // Groups of options have names, too, but no values.
            let raw = matches
                .try_get_raw(id.as_str())
                .ok()
                .flatten()
                .into_iter()
                .flatten();
            values.extend(raw.map(|value| (id.as_str().replace('_', "-"), value.to_owned())));
        }
        level = matches.subcommand().map(|(_, matches)| matches);
    }
    values
}

/// Returns the files that a value may name: itself, a list, or `@FILE`.
pub fn named(value: &OsStr) -> impl Iterator<Item = PathBuf> + use<> {
    let of_text = |text: &str| text.strip_prefix('@').map(PathBuf::from);
    [PathBuf::from(value)]
        .into_iter()
        .chain(value.to_str().and_then(of_text))
}

fn is_output(option: &str) -> bool {
    OUTPUTS.contains(&option)
}

/// Refuses an output that is an input or another output.
pub fn check(matches: &ArgMatches) -> Result<(), String> {
    let values = values(matches);
    for (i, (option, output)) in values
        .iter()
        .enumerate()
        .filter(|(_, (option, _))| is_output(option))
    {
        let output = Path::new(output);
        let Some(identity) = Identity::of_output(output) else {
            continue;
        };
        let same = |(other, value): &(String, OsString)| {
            let is = |of: Option<Identity>| of.as_ref() == Some(&identity);
            // Values that name no file are not inputs: `--format csv --output csv`.
            let is_input = || named(value).any(|path| is(Identity::of_input(&path)));
            if is_output(other) {
                is(Identity::of_output(Path::new(value)))
            } else {
                is_input()
            }
        };
        let mut others = values.iter().enumerate().filter(|&(other, _)| other != i);
        if let Some((_, (other, path))) = others.find(|(_, value)| same(value)) {
            let path = Path::new(path).display();
            return Err(if is_output(other) {
                format!("--{option} and --{other} are the same file: {path}")
            } else {
                format!(
                    "--{option} {} would overwrite {path}, {INPUT}",
                    output.display()
                )
            });
        }
    }
    Ok(())
}

/// Refuses an output that would overwrite a file that is read without being named on the command
/// line.
pub fn check_unnamed(matches: &ArgMatches) -> Result<(), String> {
    let mut unnamed = Protected::default();
    unnamed.add_unnamed();
    let values = values(matches);
    let mut outputs = values.iter().filter(|(option, _)| is_output(option));
    outputs.try_for_each(|(option, output)| {
        unnamed
            .check(Path::new(output))
            .map_err(|message| format!("--{option} {message}"))
    })
}

/// Checks that the files can be written that are written when the work is done.
pub fn writable(matches: &ArgMatches) -> Result<(), Failure> {
    for (option, path) in values(matches) {
        let path = Path::new(&path);
        if WRITTEN_LAST.contains(&option.as_str()) && !is_stdout(path) {
            NewFile::check(path)?;
        }
    }
    Ok(())
}
