//! The inputs of a command: files, folders, patterns and lists of them.

use std::path::{Path, PathBuf};

use crate::{Failure, usage};
use ut_data::input::check_file;
use ut_data::memory::read_text;

/// Bytes and lines of the longest list of inputs.
const LARGEST_LIST: u64 = 256 << 20;
const MOST_LINES: usize = 1 << 20;

/// The inputs of a command.
#[derive(Debug, clap::Args)]
pub struct InputArgs {
    /// MDF files, MEP packets or Allen-layout dumps (<run>_<event>.bin), in zstd or gzip or not; folders, of which all
    /// files are taken; patterns in quotes ('run*.mdf'); - is standard input.
    #[arg(value_name = "FILE", required_unless_present = "files_from")]
    pub files: Vec<PathBuf>,
    /// Take inputs from this file too, one per line; - is standard input.
    #[arg(long, value_name = "FILE")]
    pub files_from: Option<PathBuf>,
}

impl InputArgs {
    /// The files, in order: those of a folder or a pattern by name.
    pub fn expand(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut files = Vec::new();
        for path in &self.files {
            add(path, &mut files)?;
        }
        if let Some(list) = &self.files_from {
            let cannot = |error: std::io::Error| format!("cannot read {}: {error}", list.display());
            let text = if list.as_os_str() == "-" {
                read_text(std::io::stdin().lock(), LARGEST_LIST)
            } else {
                std::fs::File::open(list).and_then(|text| read_text(text, LARGEST_LIST))
            };
            let text = text.map_err(cannot)?;
            if text.lines().count() > MOST_LINES {
                return Err(format!("{}: more than {MOST_LINES} lines", list.display()).into());
            }
            for line in text.lines() {
                if !line.trim().is_empty() {
                    add(Path::new(line.trim_end_matches('\r')), &mut files)?;
                }
            }
        }
        check_standard_input(files.iter().chain(&self.files_from));
        Ok(files)
    }
}

/// Checks that files can be opened and may hold raw data, before the first of them is worked through.
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
        for entry in std::fs::read_dir(path).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            // What cannot be looked at, as a link to nowhere, is an input: opening it says what is wrong.
            if !hidden && !entry.path().metadata().is_ok_and(|meta| !meta.is_file()) {
                files.push(entry.path());
            }
        }
        if files.len() == before {
            return Err(format!("{}: there is no file in this folder", path.display()).into());
        }
        files[before..].sort();
        return Ok(());
    }
    let name = path.to_string_lossy();
    if path.as_os_str() != "-" && !path.exists() && name.contains(['*', '?', '[']) {
        let paths = glob::glob(&name).map_err(|error| format!("{name}: {error}"))?;
        for path in paths {
            let path = path?;
            if !path.is_dir() {
                files.push(path);
            }
        }
        if files.len() == before {
            return Err(format!("{name}: no file fits this pattern").into());
        }
        return Ok(());
    }
    files.push(path.to_path_buf());
    Ok(())
}
