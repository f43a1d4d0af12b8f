//! A file that appears under its name only when it is complete.
//!
//! Bytes go to a temporary file in the target's folder, created exclusively under a unique name;
//! only [`NewFile::finish`] renames it to the target. A symbolic link at the path is followed to
//! its target. Anything that is not a regular file, such as a FIFO, is written to directly. So is
//! an open file that the path names by its number, as `/dev/stdout` and `/dev/fd/3` do: a shell
//! that says `>> file` wants its file to grow, not to be replaced. `-` is standard output.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tempfile::{Builder, NamedTempFile, TempPath};

use super::OutputError;

const PREFIX: &str = ".ut-decode-";
const SUFFIX: &str = ".part";

/// Number of bytes to collect before they are written.
const BUFFER: usize = 1 << 18;

/// Symbolic links that are followed one after the other, as on Linux.
const MAX_LINKS: usize = 40;

/// Temporary files of this process, for [`remove_unfinished`].
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes the temporary file of every [`NewFile`] that is not finished: for a program that a
/// signal is about to end.
pub fn remove_unfinished() {
    if let Ok(mut paths) = UNFINISHED.lock() {
        for path in paths.drain(..) {
            // The name says what the file is, and the program has no time left to say more.
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes the temporary files without a lock, which processes have left behind in `folder`, if
/// they can be opened.
pub fn remove_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_temporary = name
            .to_str()
            .is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX));
        if !is_temporary || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        if let Ok(file) = OpenOptions::new().append(true).open(entry.path())
            && file.try_lock().is_ok()
        {
            // The file may be gone meanwhile.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// A file in the making. Dropped without [`Self::finish`], it leaves nothing behind.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    output: BufWriter<File>,
    /// The temporary file and its final path, or `None` if the target is written to directly.
    temporary: Option<(TempPath, PathBuf)>,
}

impl NewFile {
    /// Begins a file.
    ///
    /// # Errors
    /// If the path is a folder, or a file that may not be written to, or its folder takes no new
    /// file.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, OutputError> {
        let path = path.into();
        match begin(&path) {
            Ok((file, temporary)) => Ok(Self {
                path,
                output: BufWriter::with_capacity(BUFFER, file),
                temporary,
            }),
            Err(source) => Err(OutputError::Io { file: path, source }),
        }
    }

    /// Checks that [`Self::create`] would work, and leaves nothing behind. FIFOs and devices pass
    /// unopened.
    pub fn check(path: &Path) -> Result<(), OutputError> {
        if fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
            return Ok(());
        }
        Self::create(path).map(|_| ())
    }

    /// Checks that a folder takes new files, whatever their names, and leaves nothing behind.
    pub fn check_folder(folder: &Path) -> Result<(), OutputError> {
        temporary_in(folder)
            .map(drop)
            .map_err(|source| OutputError::Io {
                file: folder.to_path_buf(),
                source,
            })
    }

    /// Returns the error that this file cannot be written because of `source`.
    pub fn cannot(&self, source: io::Error) -> OutputError {
        OutputError::Io {
            file: self.path.clone(),
            source,
        }
    }

    /// Writes the buffer out and gives the file its name; if that fails, nothing is left behind.
    pub fn finish(mut self) -> Result<(), OutputError> {
        self.output.flush().map_err(|source| self.cannot(source))?;
        close_copy(self.output.get_ref()).map_err(|source| self.cannot(source))?;
        if let Some((temporary, target)) = self.temporary.take() {
            let name = temporary.to_path_buf();
            let renamed = temporary.persist(target);
            forget(&name);
            renamed.map_err(|error| self.cannot(error.error))?;
        }
        Ok(())
    }
}

/// Closes a copy of the descriptor, for the error that this may give: on network file systems a
/// full disk often shows only when a file is closed, and the standard library ignores it.
fn close_copy(file: &File) -> io::Result<()> {
    let descriptor = file.try_clone()?.into_raw_fd();
    // SAFETY:
    // - `descriptor` is open: it was made in the line before.
    // - Nothing closes or uses it afterwards: no other line has it.
    let is_closed = unsafe { libc::close(descriptor) } == 0;
    match io::Error::last_os_error() {
        // Interrupted, it is closed all the same.
        error if !is_closed && error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some((temporary, _)) = &self.temporary {
            forget(temporary);
        }
    }
}

fn begin(path: &Path) -> io::Result<(File, Option<(TempPath, PathBuf)>)> {
    if let Some(number) = numbered(path) {
        // SAFETY:
        // - `number` is not negative, so it is not the one value that a `BorrowedFd` cannot hold;
        // - the file is used for no more than a copy, which fails if nothing is open under that
        //   number.
        let open = unsafe { BorrowedFd::borrow_raw(number) };
        // The copy keeps the position and the mode, such as append.
        return Ok((open.try_clone_to_owned()?.into(), None));
    }
    let there = match fs::metadata(path) {
        Ok(there) if there.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(there) if !there.is_file() => {
            return Ok((OpenOptions::new().write(true).open(path)?, None));
        }
        Ok(there) => {
            // A rename would replace a file that is protected from writing, too.
            OpenOptions::new().append(true).open(path)?;
            Some(there)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let target = target_of(path)?;
    let (file, temporary) = temporary_in(folder_of(&target))?.into_parts();
    if let Some(there) = there {
        // The new file may lack the right to the old one's mode; it then keeps the usual one.
        let _ = file.set_permissions(there.permissions());
    }
    if let Ok(mut paths) = UNFINISHED.lock() {
        paths.push(temporary.to_path_buf());
    }
    Ok((file, Some((temporary, target))))
}

/// Folders whose entries are the open files of this process.
const OPEN_FILES: [&str; 3] = ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"];

/// Returns true if `path` means standard output: `-`, the number of that file, or a link to it.
pub fn names_stdout(path: &Path) -> bool {
    numbered(path) == Some(1)
}

/// Returns the number of the open file that `path`, or a link there, names by its number.
fn numbered(path: &Path) -> Option<RawFd> {
    if path.as_os_str() == "-" {
        return Some(io::stdout().as_raw_fd());
    }
    let mut path = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        let number = path
            .file_name()
            .and_then(|name| name.to_str()?.parse().ok())
            .filter(|&number: &i32| number >= 0);
        if let Some(number) = number {
            let folder = folder_of(&path).canonicalize().ok()?;
            if OPEN_FILES
                .iter()
                .any(|own| Path::new(own).canonicalize().is_ok_and(|own| own == folder))
            {
                return Some(number);
            }
        }
        let link = fs::read_link(&path).ok()?;
        path = folder_of(&path).join(link);
    }
    None
}

/// Creates a file in `folder`, with the mode that the umask leaves, and locks it for as long as it
/// is open: a process that ends, in whatever way and on whatever machine, gives its locks back, and
/// then [`remove_abandoned`] may remove the file.
fn temporary_in(folder: &Path) -> io::Result<NamedTempFile> {
    let mut refused = None;
    let create = |path: &Path| {
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        let file = file.inspect_err(|error| refused = error.raw_os_error())?;
        // `remove_abandoned` of another process may come first; another name is tried then.
        if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) || !path.exists() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok(file)
    };
    let file = Builder::new()
        .prefix(PREFIX)
        .suffix(SUFFIX)
        .make_in(folder, create);
    // `tempfile` adds the temporary name, which the user has never heard of.
    file.map_err(|error| refused.map_or(error, io::Error::from_raw_os_error))
}

/// Follows the symbolic links at `path` and returns the path of the file, which need not exist.
fn target_of(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        let Ok(link) = fs::read_link(&target) else {
            return Ok(target);
        };
        target = folder_of(&target).join(link);
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Returns the place of a file written to `path`, with links followed; `None` if the folder is not
/// there.
pub fn place_of(path: &Path) -> Option<PathBuf> {
    let target = target_of(path).ok()?;
    Some(
        folder_of(&target)
            .canonicalize()
            .ok()?
            .join(target.file_name()?),
    )
}

fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Strikes a temporary file from the list of those to remove.
fn forget(path: &Path) {
    if let Ok(mut paths) = UNFINISHED.lock() {
        paths.retain(|other| other != path);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::{NewFile, remove_abandoned};

    fn names(folder: &std::path::Path) -> Vec<String> {
        let names = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn the_old_file_stays_until_the_new_file_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hits");
        fs::write(&path, "old").unwrap();
        let mut dropped = NewFile::create(&path).unwrap();
        dropped.write_all(b"half").unwrap();
        drop(dropped);
        assert_eq!(
            (fs::read_to_string(&path).unwrap(), names(folder.path())),
            ("old".into(), vec!["hits".into()])
        );
        let [mut first, mut second] = [(); 2].map(|()| NewFile::create(&path).unwrap());
        first.write_all(b"first").unwrap();
        second.write_all(b"second").unwrap();
        first.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        second.finish().unwrap();
        assert_eq!(
            (fs::read_to_string(&path).unwrap(), names(folder.path())),
            ("second".into(), vec!["hits".into()])
        );
    }

    #[test]
    fn leftovers_of_a_dead_process_are_removed_and_other_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut growing = NewFile::create(folder.join("hits")).unwrap();
        growing.write_all(b"hits").unwrap();
        let before = names(folder);
        for name in [".ut-decode-dead.part", ".ut-decode.json", "mine.part"] {
            fs::write(folder.join(name), "left").unwrap();
        }
        fs::create_dir(folder.join(".ut-decode-folder.part")).unwrap();
        std::os::unix::fs::symlink("mine.part", folder.join(".ut-decode-link.part")).unwrap();
        let all = names(folder);
        remove_abandoned(folder);
        let left = names(folder);
        assert!(
            left.iter().all(|name| name != ".ut-decode-dead.part") && left.len() == all.len() - 1,
            "{left:?}"
        );
        assert!(before.iter().all(|name| left.contains(name)), "{left:?}");
        growing.finish().unwrap();
        assert_eq!(fs::read(folder.join("hits")).unwrap(), b"hits");
        remove_abandoned(&folder.join("absent"));
    }

    #[test]
    fn a_link_is_followed_and_stays_a_link_and_the_mode_is_kept() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let [link, target] = ["link", "elsewhere/target"].map(|name| folder.path().join(name));
        fs::create_dir(folder.path().join("elsewhere")).unwrap();
        symlink("elsewhere/target", &link).unwrap();
        for content in ["one", "two"] {
            let mut file = NewFile::create(&link).unwrap();
            file.write_all(content.as_bytes()).unwrap();
            file.finish().unwrap();
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
            assert_eq!(fs::read_to_string(&target).unwrap(), content);
            fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
        }
        assert_eq!(
            fs::metadata(&target).unwrap().permissions().mode() & 0o777,
            0o640
        );
        symlink("circle", folder.path().join("circle")).unwrap();
        assert!(NewFile::create(folder.path().join("circle")).is_err());
    }

    #[test]
    fn only_regular_files_are_opened_to_try_them() {
        // A FIFO would wait for a reader, and take the trial for the whole output. A socket cannot
        // be opened at all.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        NewFile::check(&path).unwrap();
        assert!(NewFile::create(&path).is_err());
    }

    #[test]
    fn an_output_that_cannot_be_created_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        for path in [".", "absent/hits"] {
            assert!(NewFile::create(folder.path().join(path)).is_err(), "{path}");
            assert!(NewFile::check(&folder.path().join(path)).is_err(), "{path}");
        }
        NewFile::check(&folder.path().join("hits")).unwrap();
        NewFile::check_folder(folder.path()).unwrap();
        assert!(NewFile::check_folder(&folder.path().join("absent")).is_err());
        assert!(names(folder.path()).is_empty());
    }
}
