//! The inputs of a command: files, folders and lists of files.

use std::path::{Path, PathBuf};

use crate::loss::LossArgs;
use crate::output::{number, say};
use crate::{Failure, paths, usage};
use ut_data::input::{check_file, is_table};
use ut_data::memory::read_text;

const LARGEST_LIST: u64 = 256 << 20;
const MOST_LINES: usize = 1 << 20;

#[derive(Debug, clap::Args)]
pub struct InputArgs {
    /// MDF files, MEP packets or Allen-layout dumps (<run>_<event>.bin), in zstd or gzip or not;
    /// folders, of which all files with events are taken; @LIST for the inputs in a file, one per
    /// line; - is standard input.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
}

impl InputArgs {
    /// Returns the files in order; the files of a folder are sorted by name.
    pub fn expand(&self) -> Result<Vec<PathBuf>, Failure> {
        let files = expand(&self.files)?;
        check_standard_input(files.iter().chain(&self.lists()));
        Ok(files)
    }

    /// Checks that no file that was named has 0 bytes.
    pub fn check_bytes(&self) -> Result<(), Failure> {
        let is_empty = |file: &&PathBuf| {
            file.metadata()
                .is_ok_and(|meta| meta.is_file() && meta.len() == 0)
        };
        match self.files.iter().find(is_empty) {
            Some(file) => Err(format!(
                "{}: the file has 0 bytes, so there is no event in the input",
                file.display()
            )
            .into()),
            None => Ok(()),
        }
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

/// Checks that all files can be opened and may hold raw data.
pub fn check_files<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> Result<(), Failure> {
    Ok(files.into_iter().try_for_each(|file| check_file(file))?)
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
