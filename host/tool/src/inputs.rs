//! The inputs of a command: files, folders and lists of files.

use std::path::{Path, PathBuf};

use crate::loss::LossArgs;
use crate::output::{count, number, say};
use crate::select::SelectArgs;
use crate::{Failure, paths, usage};
use ut_data::error::with_causes;
use ut_data::input::{Events, check_file, is_table};
use ut_data::memory::read_text;

const LARGEST_LIST: u64 = 256 << 20;
const MOST_LINES: usize = 1 << 20;

/// Inputs of a command, and the events that it takes from them. The headings of the events' options also cover
/// later options: flatten it after a command's other options without a heading.
#[derive(Debug, clap::Args)]
pub struct InputArgs {
    /// MDF files, MEP packets or Allen-layout dumps (<run>_<event>.bin), in zstd or gzip or not;
    /// folders, of which all files with events are taken; @LIST for the inputs in a file, one per
    /// line; - is standard input.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// If a file cannot be read to its end, go on with the next one; list such files at the end,
    /// and exit with 1.
    #[arg(long)]
    pub keep_going: bool,
    /// Fail (exit code 1) when anything is wrong with the data, after the output was written.
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    pub select: SelectArgs,
}

impl InputArgs {
    /// Returns the files in order; the files of a folder are sorted by name.
    pub fn expand(&self) -> Result<Vec<PathBuf>, Failure> {
        let files = expand(&self.files)?;
        check_standard_input(files.iter().chain(&self.lists()));
        Ok(files)
    }

    /// Checks that all `files` can be opened and may hold raw data, unless the job keeps going
    /// where they cannot.
    pub fn check(&self, files: &[PathBuf]) -> Result<(), Failure> {
        let mut files = files.iter().filter(|_| !self.keep_going);
        Ok(files.try_for_each(|file| check_file(file))?)
    }

    /// Opens the selected events of `files`.
    pub fn events(&self, files: &[PathBuf]) -> Result<Events, Failure> {
        self.check(files)?;
        let select = self.select.select(files, self.keep_going)?;
        Ok(Events::selected(files, &select).keep_going(self.keep_going))
    }

    /// Ends a command that read all `events` of `files`: lists the files that could not be read,
    /// and judges what was selected. `trouble` says what is wrong with the data.
    pub fn end(
        &self,
        events: &Events,
        files: &[PathBuf],
        trouble: Option<&str>,
    ) -> Result<(), Failure> {
        let (failures, n) = events.failures();
        for failure in failures {
            say(&format!("error: {}", with_causes(failure)));
        }
        if n > 0 {
            return Err(unread(n, files.len()));
        }
        if let Some(trouble) = trouble.filter(|_| self.strict) {
            return Err(format!("{trouble}, and --strict was given").into());
        }
        let seen = events.seen();
        if let Some(impossible) = self.select.impossible(seen) {
            return Err(impossible.into());
        }
        let missing = self.select.missing(seen);
        self.judge(missing.as_deref(), seen.events)?;
        if let Some(missing) = missing {
            say(&format!("warning: {missing}"));
        }
        Ok(())
    }

    /// Fails for what is `missing` of the wanted events if that was asked for; `n` events were
    /// selected.
    pub fn judge(&self, missing: Option<&str>, n: u64) -> Result<(), Failure> {
        let option = if self.strict {
            "--strict"
        } else if self.select.require_events && n == 0 {
            "--require-events"
        } else {
            return Ok(());
        };
        missing.map_or(Ok(()), |missing| {
            Err(format!("{missing}, and {option} was given").into())
        })
    }

    pub fn lists(&self) -> Vec<PathBuf> {
        self.files
            .iter()
            .filter_map(|path| list(path))
            .map(Path::to_path_buf)
            .collect()
    }
}

/// Returns the file that an argument `@LIST` names; a file whose name begins so is itself an input.
pub fn list(path: &Path) -> Option<&Path> {
    path.to_str()?
        .strip_prefix('@')
        .map(Path::new)
        .filter(|_| !path.exists())
}

/// Returns the files that some inputs stand for: see [`InputArgs::expand`].
pub fn expand(inputs: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in inputs {
        let Some(list) = list(path) else {
            add(path, &mut files)?;
            continue;
        };
        let text = if list.as_os_str() == "-" {
            read_text(std::io::stdin().lock(), LARGEST_LIST)
        } else {
            std::fs::File::open(list).and_then(|text| read_text(text, LARGEST_LIST))
        };
        let text =
            text.map_err(|error| format!("cannot read the list {}: {error}", list.display()))?;
        if text.lines().count() > MOST_LINES {
            return Err(format!(
                "the list {} has more than {} lines",
                list.display(),
                number(MOST_LINES as u64)
            )
            .into());
        }
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            add(Path::new(line.trim_end_matches('\r')), &mut files)?;
        }
    }
    Ok(files)
}

/// Checks that no file is named twice: its events would count twice.
pub fn check_once(files: &[PathBuf], args: &LossArgs) -> Result<(), Failure> {
    match paths::named_twice(files).filter(|_| !args.allow_repeated) {
        Some(file) => {
            let file = file.display();
            Err(format!("{file}: given twice, so its events would count twice: give it once, or --allow-repeated")
                .into())
        }
        None => Ok(()),
    }
}

/// Returns the number of bytes in the files, of those that say it.
pub fn total_bytes(files: &[PathBuf]) -> u64 {
    let sizes = files.iter().filter_map(|file| file.metadata().ok());
    sizes.map(|meta| meta.len()).sum()
}

/// Returns the failure of a job in which `n` of `all` files could not be read to their end.
pub fn unread(n: usize, all: usize) -> Failure {
    format!(
        "{} of {} could not be read to their end",
        number(n as u64),
        count(all, "file")
    )
    .into()
}

/// Ends the program if two of the files are standard input.
pub fn check_standard_input<'a>(files: impl Iterator<Item = &'a PathBuf>) {
    if files.filter(|file| file.as_os_str() == "-").count() > 1 {
        usage("standard input can be read only once");
    }
}

fn add(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let before = files.len();
    if path.is_dir() {
        let cannot = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
        let mut left_out = Vec::new();
        for entry in std::fs::read_dir(path).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // A file that cannot be examined, such as a broken link, counts as an input, so that
            // opening it reports the error.
            if name.starts_with('.') || entry.path().metadata().is_ok_and(|meta| !meta.is_file()) {
                continue;
            }
            // `generate` writes these into the folder of its events.
            if entry.path().extension().is_some_and(|ext| ext == "json") || is_table(&entry.path())
            {
                left_out.push(name);
            } else {
                files.push(entry.path());
            }
        }
        if !left_out.is_empty() {
            left_out.sort();
            say(&format!(
                "{}: left out {}: tables and JSON hold no events",
                path.display(),
                left_out.join(", ")
            ));
        }
        if files.len() == before {
            return Err(format!(
                "{}: there is no file with events in this folder",
                path.display()
            )
            .into());
        }
        files[before..].sort();
        return Ok(());
    }
    files.push(path.to_path_buf());
    Ok(())
}
