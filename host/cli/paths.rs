//! Files that a command line names: an output must not be an input, nor another output.
//!
//! The rule is that of the whole tool, so it looks at the parsed command line, not at each subcommand's options: whatever
//! names an existing file and is not an output is an input.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::output::NewFile;
use clap::ArgMatches;

use crate::cli::output::is_stdout;
use crate::cli::tune::store::APPLICATION;
use crate::cli::{Failure, config};
use tuner::store::Locations;

/// Options that name a file to write.
const OUTPUTS: [&str; 7] = ["output", "json", "csv", "report", "extract", "sums", "metrics"];

/// Of them, those that are written when the work is done.
const WRITTEN_LAST: [&str; 2] = ["json", "csv"];

/// What makes two paths the same file.
#[derive(PartialEq, Eq)]
enum Identity {
    #[cfg(unix)]
    Inode(u64, u64),
    /// With links followed, as far as it exists.
    Path(PathBuf),
}

/// The identity of a regular file, or of one that is not there yet; `None` for folders, FIFOs and devices, and for `-`, which
/// is standard input here and standard output there.
fn identity(path: &Path) -> Option<Identity> {
    if is_stdout(path) {
        return None;
    }
    match path.metadata() {
        Ok(there) if !there.is_file() => None,
        #[cfg(unix)]
        Ok(there) => {
            use std::os::unix::fs::MetadataExt;
            Some(Identity::Inode(there.dev(), there.ino()))
        }
        #[cfg(not(unix))]
        Ok(_) => path.canonicalize().ok().map(Identity::Path),
        Err(_) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            Some(Identity::Path(folder.canonicalize().ok()?.join(path.file_name()?)))
        }
    }
}

/// Whether two paths name one regular file.
pub fn same_file(a: &Path, b: &Path) -> bool {
    identity(a).is_some_and(|a| identity(b) == Some(a))
}

/// Every value on the command line with the name of its option, subcommands included.
fn values(matches: &ArgMatches) -> Vec<(String, OsString)> {
    let mut values = Vec::new();
    let mut level = Some(matches);
    while let Some(matches) = level {
        for id in matches.ids() {
            // Groups of options have names, too, but no values.
            let raw = matches.try_get_raw(id.as_str()).ok().flatten().into_iter().flatten();
            values.extend(raw.map(|value| (id.as_str().to_owned(), value.to_owned())));
        }
        level = matches.subcommand().map(|(_, matches)| matches);
    }
    values
}

/// Checks that no file would be written over an input or over another output; what is wrong, otherwise.
pub fn check(matches: &ArgMatches) -> Result<(), String> {
    let values = values(matches);
    for (i, (option, output)) in values.iter().enumerate() {
        let output = Path::new(output);
        if !OUTPUTS.contains(&option.as_str()) {
            continue;
        }
        let others = values.iter().enumerate().filter(|&(other, _)| other != i);
        let Some((_, (other, path))) = others.map(|(_, value)| (option, value)).find(|(_, (other, path))| {
            // What is not there is no input: `--format csv --output csv`.
            let path = Path::new(path);
            (OUTPUTS.contains(&other.as_str()) || path.exists()) && same_file(output, path)
        }) else {
            continue;
        };
        let path = Path::new(path).display();
        return Err(if OUTPUTS.contains(&other.as_str()) {
            format!("--{option} and --{other} are the same file: {path}")
        } else {
            format!("--{option} {} would overwrite {path}, which is an input", output.display())
        });
    }
    Ok(())
}

/// Refuses an output that would overwrite a file that is read without being named on the command line: the settings, the
/// tables that they name, and the store of tuned values.
pub fn check_unnamed(matches: &ArgMatches) -> Result<(), String> {
    let store =
        Locations::choose(APPLICATION, None, None).ok().map(|locations| (locations.user, "the store of tuned values"));
    let unnamed: Vec<_> = config::files().into_iter().chain(store).filter(|(path, _)| path.exists()).collect();
    for (option, output) in values(matches) {
        let output = Path::new(&output);
        if let Some((path, what)) =
            unnamed.iter().find(|(path, _)| OUTPUTS.contains(&option.as_str()) && same_file(output, path))
        {
            return Err(format!("--{option} {} would overwrite {}, {what}", output.display(), path.display()));
        }
    }
    Ok(())
}

/// Checks that what is written when the work is done can be written.
pub fn writable(matches: &ArgMatches) -> Result<(), Failure> {
    for (option, path) in values(matches) {
        let path = Path::new(&path);
        if WRITTEN_LAST.contains(&option.as_str()) && !is_stdout(path) {
            NewFile::check(path)?;
        }
    }
    Ok(())
}
