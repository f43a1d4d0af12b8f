//! Which files of a folder are complete.
//!
//! The folder is listed again and again rather than watched by the kernel: network file systems do not report changes,
//! and a list cannot overflow. Clocks don't matter: a file is complete when it looked the same for some time of ours,
//! or when it had a temporary name before.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use glob::Pattern;
use serde::{Deserialize, Serialize};

/// What tells one content of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Bytes.
    pub size: u64,
    /// Last change, in nanoseconds since 1970; negative before.
    pub modified: i64,
}

impl Mark {
    /// Of a file that is there.
    pub fn of(there: &Metadata) -> Self {
        let modified = there.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let modified = match modified.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => after.as_nanos() as i64,
            Err(before) => -(before.duration().as_nanos() as i64),
        };
        Self { size: there.len(), modified }
    }
}

/// A folder and what was last seen in it.
#[derive(Debug)]
pub struct Watch {
    root: PathBuf,
    pattern: Pattern,
    settle: Duration,
    /// A folder that is left out, should it lie inside: that of the outputs.
    except: PathBuf,
    /// Files that are not known to be complete, with the time since when they look as they do.
    unsettled: HashMap<String, (Mark, Instant)>,
    /// Files under temporary names, with their sizes.
    temporary: HashMap<Identity, u64>,
    /// Paths that are left out, and that the user was warned about.
    odd: HashSet<PathBuf>,
}

/// What a look into the folder found.
#[derive(Debug, Default)]
pub struct Found {
    /// Files that are complete and not known, the oldest first.
    pub complete: Vec<(String, Mark)>,
    /// Files that may still be written to.
    pub unsettled: usize,
    /// Folders and files that cannot be looked at, or whose names are not UTF-8, with the reason. There may be inputs
    /// among them.
    pub unread: BTreeMap<PathBuf, String>,
    /// Those that the looks before did not find.
    pub odd: Vec<PathBuf>,
}

impl Watch {
    /// Watches the files below `root` whose paths from there match `pattern`. They are complete when they have not
    /// changed for `settle`.
    pub fn new(root: &Path, pattern: Pattern, settle: Duration, except: &Path) -> Self {
        let except = except.canonicalize().unwrap_or_else(|_| except.to_path_buf());
        Self {
            root: root.to_path_buf(),
            pattern,
            settle,
            except,
            unsettled: HashMap::new(),
            temporary: HashMap::new(),
            odd: HashSet::new(),
        }
    }

    /// Lists the folder. `known` says whether a file with this mark needs nothing any more.
    ///
    /// # Errors
    /// When the folder itself cannot be listed. Folders inside may come and go.
    pub fn look(&mut self, known: impl Fn(&str, Mark) -> bool) -> io::Result<Found> {
        let now = Instant::now();
        let mut found = Found::default();
        let mut temporary = HashMap::new();
        let mut unsettled = HashMap::new();
        let mut unread = |path: &Path, error: io::Error| {
            // What went meanwhile is not missing.
            if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) {
                found.unread.insert(path.to_path_buf(), error.to_string());
            }
        };
        let mut not_utf8 = Vec::new();
        let mut unknown = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if folder == self.root => return Err(error),
                Err(error) => {
                    unread(&folder, error);
                    continue;
                }
            };
            for entry in entries {
                let entry = entry.and_then(|entry| Ok((entry.path(), fs::symlink_metadata(entry.path())?)));
                let (path, itself) = match entry {
                    Ok(entry) => entry,
                    Err(error) => {
                        unread(&folder, error);
                        continue;
                    }
                };
                if itself.is_dir() {
                    if !is_hidden(&path) {
                        match path.canonicalize() {
                            Ok(path) if path == self.except => {}
                            Ok(_) => folders.push(path),
                            Err(error) => unread(&path, error),
                        }
                    }
                    continue;
                }
                let Ok(name) = path.strip_prefix(&self.root) else { continue };
                // Links to files count as files; links to folders could lead in a circle.
                let there = match fs::metadata(&path) {
                    Ok(there) => there,
                    Err(error) => {
                        if !is_temporary(&path) && self.pattern.matches(&name.to_string_lossy()) {
                            unread(&path, error);
                        }
                        continue;
                    }
                };
                if !there.is_file() {
                    continue;
                }
                if is_temporary(&path) {
                    temporary.extend(Identity::of(&there).map(|identity| (identity, there.len())));
                    continue;
                }
                let Some(name) = name.to_str() else {
                    if self.pattern.matches(&name.to_string_lossy()) {
                        not_utf8.push(path);
                    }
                    continue;
                };
                let mark = Mark::of(&there);
                if self.pattern.matches(name) && !known(name, mark) {
                    unknown.push((name.to_owned(), mark, Identity::of(&there)));
                }
            }
        }
        // Once the whole folder is listed: what still has its temporary name was not renamed, but has a link as well.
        for (name, mark, identity) in unknown {
            let identity = identity.filter(|identity| !temporary.contains_key(identity));
            // A file only grows while it is written: a smaller one is another file with the same inode.
            let before = identity.and_then(|identity| self.temporary.get(&identity));
            let renamed = before.is_some_and(|&size| size <= mark.size);
            let since = self.unsettled.get(&name).filter(|(before, _)| *before == mark).map_or(now, |&(_, at)| at);
            if renamed || now.duration_since(since) >= self.settle {
                found.complete.push((name, mark));
            } else {
                unsettled.insert(name, (mark, since));
            }
        }
        found.complete.sort_by(|a, b| (a.1.modified, &a.0).cmp(&(b.1.modified, &b.0)));
        found.unsettled = unsettled.len();
        (self.unsettled, self.temporary) = (unsettled, temporary);
        found.unread.extend(not_utf8.into_iter().map(|path| (path, "its name is not UTF-8".to_owned())));
        found.odd = found.unread.keys().filter(|&path| self.odd.insert(path.clone())).cloned().collect();
        Ok(found)
    }
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// Whether a writer will give the file another name: hidden, or called so.
fn is_temporary(path: &Path) -> bool {
    let called = |end: &str| path.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(end.as_bytes()));
    is_hidden(path) || [".part", ".tmp", "~"].into_iter().any(called)
}

/// What a file keeps when it is renamed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Identity {
    device: u64,
    inode: u64,
    /// A new file may get the inode of one that was removed; `None` where the file system does not tell.
    born: Option<SystemTime>,
}

impl Identity {
    #[cfg(unix)]
    #[allow(clippy::unnecessary_wraps, reason = "other systems tell no identity")]
    fn of(there: &Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let born = there.created().ok();
        Some(Self { device: there.dev(), inode: there.ino(), born })
    }

    /// Without inodes a renamed file waits like any other.
    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Option<Self> {
        None
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use glob::Pattern;

    use super::{Identity, Mark, Watch};

    fn watch(root: &Path, settle: Duration) -> Watch {
        Watch::new(root, Pattern::new("*").unwrap(), settle, &root.join("out"))
    }

    fn names(watch: &mut Watch) -> Vec<String> {
        watch.look(|_, _| false).unwrap().complete.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn a_file_is_complete_when_it_stops_changing_or_was_renamed_into_place() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let mut hour = watch(root, Duration::from_hours(1));
        fs::write(root.join("growing"), "a").unwrap();
        fs::write(root.join("b.part"), "b").unwrap();
        fs::write(root.join(".c"), "c").unwrap();
        assert!(names(&mut hour).is_empty());
        fs::rename(root.join("b.part"), root.join("b")).unwrap();
        fs::rename(root.join(".c"), root.join("c")).unwrap();
        assert_eq!(names(&mut hour), ["b", "c"]);
        let mut moment = watch(root, Duration::from_millis(1));
        assert_eq!(moment.look(|_, _| false).unwrap().unsettled, 3);
        std::thread::sleep(Duration::from_millis(2));
        fs::write(root.join("growing"), "ab").unwrap();
        assert_eq!(names(&mut moment), ["b", "c"]);
        std::thread::sleep(Duration::from_millis(2));
        // The others, once they are taken, are known.
        let rest = moment.look(|name, _| name != "growing").unwrap().complete;
        assert_eq!(rest.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), ["growing"]);
    }

    #[test]
    fn a_new_file_with_the_inode_of_another_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().metadata().unwrap();
        let (identity, born) = (Identity::of(&there).unwrap(), there.created());
        assert_eq!(identity.born, born.ok());
        assert_ne!(identity, Identity { born: Some(SystemTime::UNIX_EPOCH), ..identity });
    }

    #[test]
    fn what_is_known_and_unchanged_is_left_and_what_changed_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::write(root.join("a"), "a").unwrap();
        let mark = Mark::of(&root.join("a").metadata().unwrap());
        let mut now = watch(root, Duration::ZERO);
        let is_known = |_: &str, seen: Mark| seen == mark;
        assert!(now.look(is_known).unwrap().complete.is_empty());
        fs::write(root.join("a"), "ab").unwrap();
        assert_eq!(now.look(is_known).unwrap().complete.len(), 1);
        // Before 1970 times differ, too.
        let file = fs::File::options().write(true).open(root.join("a")).unwrap();
        for before in [1, 2] {
            file.set_modified(SystemTime::UNIX_EPOCH - Duration::from_secs(before)).unwrap();
            assert_eq!(Mark::of(&file.metadata().unwrap()).modified, -(before as i64) * 1_000_000_000);
        }
    }

    #[test]
    fn a_name_that_cannot_be_told_is_told_of_once_and_counted_every_time() {
        use std::os::unix::ffi::OsStrExt;
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(std::ffi::OsStr::from_bytes(b"\xff")), "").unwrap();
        let mut now = watch(folder.path(), Duration::ZERO);
        let mut look = || now.look(|_, _| false).map(|found| (found.odd.len(), found.unread.len())).unwrap();
        assert_eq!((look(), look()), ((1, 1), (0, 1)));
    }

    #[test]
    fn what_cannot_be_looked_at_is_told_of_once_and_counted_every_time() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (link, to) in [("circle.mdf", "circle.mdf"), ("circle.part", "circle.part"), ("gone.mdf", "absent")] {
            std::os::unix::fs::symlink(to, root.join(link)).unwrap();
        }
        let locked = root.join("locked");
        fs::create_dir(&locked).unwrap();
        fs::set_permissions(&locked, std::os::unix::fs::PermissionsExt::from_mode(0o0)).unwrap();
        // Permissions do not bind root.
        let n = 1 + usize::from(fs::read_dir(&locked).is_err());
        let mut now = Watch::new(root, Pattern::new("*.mdf").unwrap(), Duration::ZERO, &root.join("out"));
        let first = now.look(|_, _| false).unwrap();
        assert!(first.odd[0].ends_with("circle.mdf") && first.odd.len() == n, "{:?}", first.odd);
        let second = now.look(|_, _| false).unwrap();
        assert_eq!((first.unread.len(), second.unread.len(), second.odd.len()), (n, n, 0));
        fs::remove_file(root.join("circle.mdf")).unwrap();
        assert_eq!(now.look(|_, _| false).unwrap().unread.len(), n - 1);
        fs::set_permissions(&locked, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_new_file_with_the_inode_of_a_temporary_one_waits() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let mut hour = watch(root, Duration::from_hours(1));
        fs::write(root.join("a.part"), "ab").unwrap();
        assert!(names(&mut hour).is_empty());
        fs::rename(root.join("a.part"), root.join("a")).unwrap();
        // What was begun anew is shorter, even where its birth is not known.
        let seen = hour.temporary.clone();
        fs::write(root.join("a"), "a").unwrap();
        assert!(names(&mut hour).is_empty());
        fs::write(root.join("a"), "ab").unwrap();
        let born = Some(SystemTime::UNIX_EPOCH);
        hour.temporary = seen.clone().into_iter().map(|(file, size)| (Identity { born, ..file }, size)).collect();
        assert!(names(&mut hour).is_empty());
        hour.temporary = seen;
        assert_eq!(names(&mut hour), ["a"]);
    }

    #[test]
    fn a_link_to_a_file_that_still_has_its_temporary_name_waits() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let mut hour = watch(root, Duration::from_hours(1));
        fs::write(root.join("a.part"), "a").unwrap();
        assert!(names(&mut hour).is_empty());
        std::os::unix::fs::symlink("a.part", root.join("link")).unwrap();
        fs::hard_link(root.join("a.part"), root.join("hard")).unwrap();
        assert!(names(&mut hour).is_empty());
        fs::rename(root.join("a.part"), root.join("a")).unwrap();
        assert_eq!(names(&mut hour), ["a", "hard"]);
    }

    #[test]
    fn folders_inside_count_and_outputs_links_in_circles_and_other_names_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in ["day/run/x.mdf", "out/y.mdf", "day/notes.txt"] {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), "").unwrap();
        }
        std::os::unix::fs::symlink(root, root.join("day/circle")).unwrap();
        let pattern = Pattern::new("*.mdf").unwrap();
        let mut now = Watch::new(root, pattern, Duration::ZERO, &root.join("out"));
        assert_eq!(names(&mut now), ["day/run/x.mdf"]);
        assert!(watch(&root.join("absent"), Duration::ZERO).look(|_, _| false).is_err());
    }
}
