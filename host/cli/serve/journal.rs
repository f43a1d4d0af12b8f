//! What became of every file: one line of JSON each, appended and on the disk before anything relies on it.
//!
//! A file is decoded into a folder of work, moved under its final name, and then entered here. A crash between the last
//! two steps costs a second decoding of that file, with the same bytes under the same name; one before them leaves
//! nothing but work, which the next start removes.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::watch::Mark;

/// One file that was decoded, or could not be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Path of the input from the watched folder.
    pub file: String,
    /// Which content of it.
    #[serde(flatten)]
    pub mark: Mark,
    /// Path of the hits from the output folder; `None` where there are none.
    pub output: Option<String>,
    /// Why it could not be decoded to its end; `None` where it could.
    pub reason: Option<String>,
    /// Events that were decoded.
    pub events: u64,
    /// Hits in them.
    pub hits: u64,
    /// Counters of trouble that are not 0.
    pub troubles: BTreeMap<String, u64>,
    /// Time it took, in seconds.
    pub seconds: f64,
    /// When it was entered, in seconds since 1970 by the clock of the machine.
    pub at: u64,
}

impl Entry {
    /// Of a file whose process ended without a result.
    pub fn crashed(file: String, mark: Mark, reason: &str, took: Duration) -> Self {
        let (output, reason, seconds) = (None, Some(reason.to_owned()), took.as_secs_f64());
        Self { file, mark, output, reason, events: 0, hits: 0, troubles: BTreeMap::new(), seconds, at: now() }
    }
}

/// Seconds since 1970 by the clock of the machine.
pub fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Sums over entries.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sums {
    pub done: u64,
    pub failed: u64,
    pub bytes: u64,
    pub events: u64,
    pub hits: u64,
    pub seconds: f64,
    pub troubles: BTreeMap<String, u64>,
}

impl Sums {
    fn add(&mut self, entry: &Entry) {
        *(if entry.reason.is_none() { &mut self.done } else { &mut self.failed }) += 1;
        // A line may say anything.
        for (sum, n) in
            [(&mut self.bytes, entry.mark.size), (&mut self.events, entry.events), (&mut self.hits, entry.hits)]
        {
            *sum = sum.saturating_add(n);
        }
        self.seconds += entry.seconds;
        for (name, n) in &entry.troubles {
            let sum = self.troubles.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*n);
        }
    }
}

/// The last entry of a file.
#[derive(Debug)]
struct Known {
    mark: Mark,
    /// Whether it is to be decoded again even if it has not changed.
    again: bool,
    failed: bool,
    output: Option<String>,
}

/// The journal of an output folder.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    /// Bytes of whole lines.
    length: u64,
    known: HashMap<String, Known>,
    sums: Sums,
}

impl Journal {
    /// Opens the journal to write to it, or begins one. A last line that a crash cut is taken away.
    ///
    /// # Errors
    /// When the file cannot be read or mended, or a whole line of it is not an entry.
    pub fn open(path: PathBuf) -> io::Result<Self> {
        let journal = Self::read(path)?;
        match OpenOptions::new().write(true).open(&journal.path) {
            Ok(file) if file.metadata()?.len() > journal.length => {
                file.set_len(journal.length)?;
                file.sync_all()?;
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(journal)
    }

    /// Reads the journal and leaves the file as it is: a server may be writing its last line at the moment.
    ///
    /// # Errors
    /// When the file cannot be read, or a whole line of it is not an entry.
    pub fn read(path: PathBuf) -> io::Result<Self> {
        let mut journal = Self { path, length: 0, known: HashMap::new(), sums: Sums::default() };
        let file = match File::open(&journal.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(journal),
            Err(error) => return Err(error),
        };
        let mut lines = BufReader::new(file);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            let entry: Entry = serde_json::from_slice(&line).map_err(|error| {
                let at = journal.length;
                io::Error::new(io::ErrorKind::InvalidData, format!("the line at byte {at} is not an entry: {error}"))
            })?;
            journal.length += line.len() as u64;
            journal.note(entry);
            line.clear();
        }
        Ok(journal)
    }

    fn note(&mut self, entry: Entry) {
        self.sums.add(&entry);
        let known = Known { mark: entry.mark, again: false, failed: entry.reason.is_some(), output: entry.output };
        self.known.insert(entry.file, known);
    }

    /// Enters a file; when this returns, the entry survives a loss of power.
    ///
    /// # Errors
    /// When it cannot be written, or somebody removed or cut the journal; it is as before then.
    pub fn enter(&mut self, entry: Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        let there = match self.path.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            there => there?.len(),
        };
        if there < self.length {
            let length = self.length;
            let what = format!("it has {there} bytes of {length}: put it back, or start the server again");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let mut file = OpenOptions::new().create(true).truncate(false).write(true).open(&self.path)?;
        // What a failed attempt left goes.
        file.set_len(self.length)?;
        file.seek(SeekFrom::End(0))?;
        file.write_all(&line)?;
        file.sync_all()?;
        if self.length == 0
            && let Some(folder) = self.path.parent()
        {
            File::open(folder)?.sync_all()?;
        }
        self.length += line.len() as u64;
        self.note(entry);
        Ok(())
    }

    /// Whether this content of a file needs nothing any more.
    pub fn knows(&self, file: &str, mark: Mark) -> bool {
        self.known.get(file).is_some_and(|known| !known.again && known.mark == mark)
    }

    /// Which content of a file its last entry is of.
    pub fn mark(&self, file: &str) -> Option<Mark> {
        Some(self.known.get(file)?.mark)
    }

    /// The hits that the last entry of a file names, from the output folder.
    pub fn output(&self, file: &str) -> Option<&str> {
        self.known.get(file)?.output.as_deref()
    }

    /// Has the files that failed tried again; how many there are.
    pub fn forget_failures(&mut self) -> usize {
        let failures = self.known.values_mut().filter(|known| known.failed);
        failures.map(|known| known.again = true).count()
    }

    /// Sums over all entries.
    pub fn sums(&self) -> &Sums {
        &self.sums
    }

    /// The last `n` failures of files that have not been decoded since, the latest last.
    ///
    /// # Errors
    /// When the journal cannot be read again.
    pub fn failures(&self, n: usize) -> io::Result<Vec<Entry>> {
        // Bytes: the line that is being written, or that a crash cut, may end within a letter.
        let mut bytes = match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            bytes => bytes?,
        };
        bytes.truncate(usize::try_from(self.length).unwrap_or(usize::MAX));
        let mut failures: Vec<Entry> = Vec::new();
        let stands =
            |entry: &Entry| self.known.get(&entry.file).is_some_and(|known| known.failed && known.mark == entry.mark);
        let entries = bytes.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        for entry in entries.filter(|entry: &Entry| entry.reason.is_some() && stands(entry)) {
            failures.retain(|other| other.file != entry.file);
            failures.push(entry);
        }
        Ok(failures.split_off(failures.len().saturating_sub(n)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::io::Write;

    use super::{Entry, Journal, Mark};

    fn entry(file: &str, modified: i64, reason: Option<&str>) -> Entry {
        Entry {
            file: file.to_owned(),
            mark: Mark { size: 10, modified },
            output: Some(format!("{file}.parquet")),
            reason: reason.map(str::to_owned),
            events: 2,
            hits: 3,
            troubles: BTreeMap::from([("truncated".to_owned(), 1)]),
            seconds: 0.5,
            at: 1,
        }
    }

    #[test]
    fn a_journal_that_was_cut_anywhere_keeps_its_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let mut journal = Journal::open(path.clone()).unwrap();
        for entry in [entry("a", 1, None), entry("b", 2, Some("no")), entry("a\n\"µ", -3, None)] {
            journal.enter(entry).unwrap();
        }
        let whole = fs::read(&path).unwrap();
        let ends: Vec<usize> = (0..whole.len()).filter(|&i| whole[i] == b'\n').map(|i| i + 1).collect();
        for cut in 0..=whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let mut journal = Journal::open(path.clone()).unwrap();
            let lines = ends.iter().filter(|&&end| end <= cut).count();
            assert_eq!(journal.knows("a", Mark { size: 10, modified: 1 }), lines > 0);
            assert_eq!(journal.sums().done + journal.sums().failed, lines as u64);
            journal.enter(entry("z", 9, None)).unwrap();
            assert!(Journal::open(path.clone()).unwrap().knows("z", Mark { size: 10, modified: 9 }));
        }
    }

    #[test]
    fn the_last_entry_of_a_file_counts_and_failures_can_be_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let mut journal = Journal::open(path.clone()).unwrap();
        for entry in [entry("a", 1, Some("cut")), entry("b", 1, Some("empty")), entry("a", 2, None)] {
            journal.enter(entry).unwrap();
        }
        assert!(!journal.knows("a", Mark { size: 10, modified: 1 }));
        let reasons = |journal: &Journal| -> Vec<_> {
            journal.failures(9).unwrap().into_iter().map(|entry| (entry.file, entry.reason.unwrap())).collect()
        };
        assert_eq!(reasons(&journal), [("b".to_owned(), "empty".to_owned())]);
        // Each file once, with its last reason; the latest stay where there are too many.
        for (file, reason) in [("c", "first"), ("d", "once"), ("c", "second")] {
            journal.enter(entry(file, 1, Some(reason))).unwrap();
        }
        let files: Vec<_> = reasons(&journal).into_iter().map(|(file, reason)| format!("{file} {reason}")).collect();
        assert_eq!(files, ["b empty", "d once", "c second"]);
        assert_eq!(journal.failures(1).unwrap()[0].file, "c");
        let sums = journal.sums();
        assert_eq!((sums.done, sums.failed, sums.bytes, sums.events, sums.hits), (1, 5, 60, 12, 18));
        assert_eq!((sums.seconds, sums.troubles["truncated"]), (3.0, 6));
        assert_eq!(journal.forget_failures(), 3);
        // What hits they left is still known.
        assert_eq!(journal.output("b"), Some("b.parquet"));
        assert_eq!(journal.mark("b"), Some(Mark { size: 10, modified: 1 }));
        assert!(!journal.knows("b", Mark { size: 10, modified: 1 }));
        assert!(journal.knows("a", Mark { size: 10, modified: 2 }));
    }

    #[test]
    fn sums_of_numbers_that_cannot_be_end_at_the_largest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let troubles = BTreeMap::from([("truncated".to_owned(), u64::MAX)]);
        let mark = Mark { size: u64::MAX, modified: 1 };
        let most = Entry { mark, events: u64::MAX, hits: u64::MAX, troubles, ..entry("a", 1, None) };
        let line = serde_json::to_string(&most).unwrap() + "\n";
        fs::write(&path, line.repeat(2)).unwrap();
        let journal = Journal::read(path).unwrap();
        let sums = journal.sums();
        assert_eq!([sums.bytes, sums.events, sums.hits, sums.troubles["truncated"]], [u64::MAX; 4]);
    }

    #[test]
    fn a_half_line_is_left_to_who_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        Journal::open(path.clone()).unwrap().enter(entry("a", 1, None)).unwrap();
        let whole = fs::read(&path).unwrap();
        let begun = [&whole[..], &whole[..20]].concat();
        fs::write(&path, &begun).unwrap();
        assert_eq!(Journal::read(path.clone()).unwrap().sums().done, 1);
        assert!(fs::read(&path).unwrap() == begun);
        assert_eq!(Journal::open(path.clone()).unwrap().sums().done, 1);
        assert!(fs::read(&path).unwrap() == whole);
    }

    #[test]
    fn the_failures_of_a_journal_that_ends_within_a_letter_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let mut journal = Journal::open(path.clone()).unwrap();
        for file in ["a", "µ"] {
            journal.enter(entry(file, 1, Some("cut"))).unwrap();
        }
        let whole = fs::read(&path).unwrap();
        let within = whole.iter().position(|&byte| byte == "µ".as_bytes()[1]).unwrap();
        fs::write(&path, &whole[..within]).unwrap();
        let failures = Journal::read(path).unwrap().failures(9).unwrap();
        assert_eq!(failures.into_iter().map(|entry| entry.file).collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn a_journal_that_somebody_cut_or_removed_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let mut journal = Journal::open(path.clone()).unwrap();
        journal.enter(entry("a", 1, None)).unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[1..]).unwrap();
        let error = journal.enter(entry("b", 1, None)).unwrap_err().to_string();
        assert!(error.contains(&format!("{} bytes of {}", whole.len() - 1, whole.len())), "{error}");
        fs::remove_file(&path).unwrap();
        assert!(journal.enter(entry("b", 1, None)).is_err() && !path.exists());
        fs::write(&path, &whole).unwrap();
        // What a failed attempt left behind goes.
        fs::write(&path, [&whole[..], &[b'x'; 1000]].concat()).unwrap();
        journal.enter(entry("b", 1, None)).unwrap();
        assert_eq!(Journal::open(path).unwrap().sums().done, 2);
    }

    #[test]
    fn a_line_that_is_no_entry_is_an_error_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        Journal::open(path.clone()).unwrap().enter(entry("a", 1, None)).unwrap();
        let first = fs::metadata(&path).unwrap().len();
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{}\n").unwrap();
        let error = Journal::open(path).unwrap_err().to_string();
        assert!(error.contains(&format!("byte {first}")), "{error}");
    }
}
