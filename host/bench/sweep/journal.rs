//! What a sweep has measured so far, a line a measurement, so that one that is killed goes on where it was.
//!
//! The first line says of what: a sweep that would measure something else does not go on with it. A line is written and
//! handed to the system before the next measurement begins. A last line that a kill cut short is dropped.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The axes' values.
    pub point: Vec<u32>,
    /// Which round.
    pub round: usize,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What came of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Events a second.
    Rate(f64),
    /// Counts an event, in the order of the metrics.
    Work(Vec<f64>),
    /// It gives other bits than the reference, and which.
    Wrong(String),
    /// It does not run, and why.
    Failed(String),
}

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

/// Why there is no journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system refuses.
    #[error("{}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It belongs to another sweep.
    #[error(
        "{} belongs to another sweep: its {what} is {there}, now it would be {here}; choose another folder, or --restart",
        path.display()
    )]
    Other {
        /// The file.
        path: PathBuf,
        /// The first thing that differs.
        what: String,
        /// What the file says.
        there: String,
        /// What is to be measured now.
        here: String,
    },
    /// It is not a journal.
    #[error("{}, line {line}: not a line of a sweep's journal; choose another folder, or --restart", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
    },
}

impl Journal {
    /// Opens the journal at `path` for a sweep described by `header`, an object, and returns what it holds; makes it if
    /// it is not there.
    ///
    /// # Errors
    /// When it cannot be read or written, or belongs to another sweep.
    pub fn open(path: &Path, header: &Value) -> Result<(Self, Vec<Record>), JournalError> {
        let io = |source| JournalError::Io { path: path.to_owned(), source };
        let text = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(io(error)),
        };
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let damaged = |line| JournalError::Damaged { path: path.to_owned(), line };
        let text = std::str::from_utf8(&text[..whole]).map_err(|_| damaged(1))?;
        let mut lines = text.lines();
        let mut records = Vec::new();
        let first = lines.next();
        if let Some(first) = first {
            let found: Value = serde_json::from_str(first).map_err(|_| damaged(1))?;
            if let Some((what, there, here)) = difference(&found, header) {
                return Err(JournalError::Other { path: path.to_owned(), what, there, here });
            }
            for (i, line) in lines.enumerate() {
                records.push(serde_json::from_str(line).map_err(|_| damaged(i + 2))?);
            }
        }
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(io)?;
        file.set_len(whole as u64).map_err(io)?;
        let mut journal = Self { path: path.to_owned(), file };
        if first.is_none() {
            journal.line(header)?;
        }
        Ok((journal, records))
    }

    /// Adds a measurement.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, record: &Record) -> Result<(), JournalError> {
        self.line(record)
    }

    fn line(&mut self, value: &impl Serialize) -> Result<(), JournalError> {
        let io = |source| JournalError::Io { path: self.path.clone(), source };
        let mut line = serde_json::to_string(value).map_err(|error| io(error.into()))?;
        line.push('\n');
        // One write: whole lines only, whenever the kill comes.
        self.file.write_all(line.as_bytes()).map_err(io)
    }
}

/// The first entry in which two headers differ.
fn difference(there: &Value, here: &Value) -> Option<(String, String, String)> {
    let (Some(a), Some(b)) = (there.as_object(), here.as_object()) else {
        return Some(("header".to_owned(), there.to_string(), here.to_string()));
    };
    let text = |value: Option<&Value>| value.map_or_else(|| "missing".to_owned(), Value::to_string);
    let key = b.keys().chain(a.keys()).find(|key| a.get(*key) != b.get(*key))?;
    Some((key.clone(), text(a.get(key)), text(b.get(key))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record(round: usize, outcome: Outcome) -> Record {
        Record { point: vec![32, 4], round, outcome }
    }

    #[test]
    fn what_was_measured_is_there_again_and_a_line_cut_short_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let header = json!({ "backend": "cpu", "seed": 1 });
        let records = [
            record(0, Outcome::Rate(12_345.678_901_234)),
            record(1, Outcome::Work(vec![1.5, 2.0])),
            record(2, Outcome::Wrong("batch 0: \"other\"".to_owned())),
            record(3, Outcome::Failed("no memory\nat all".to_owned())),
        ];
        let (mut journal, before) = Journal::open(&path, &header).unwrap();
        assert_eq!(before, []);
        for record in &records {
            journal.add(record).unwrap();
        }
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        for cut in [1, 7, 20] {
            std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            let (mut journal, before) = Journal::open(&path, &header).unwrap();
            assert_eq!(before, records[..3]);
            journal.add(&records[3]).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), whole);
        }
        // A kill before the first line was whole.
        std::fs::write(&path, "{\"back").unwrap();
        assert_eq!(Journal::open(&path, &header).unwrap().1, []);
    }

    #[test]
    fn the_journal_of_another_sweep_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        drop(Journal::open(&path, &json!({ "backend": "cpu", "seed": 1 })).unwrap());
        let before = std::fs::read(&path).unwrap();
        let error = Journal::open(&path, &json!({ "backend": "cpu", "seed": 2 })).unwrap_err().to_string();
        assert!(error.contains("its seed is 1, now it would be 2"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
        std::fs::write(&path, "{\"backend\":\"cpu\",\"seed\":1}\nhello\n").unwrap();
        let error = Journal::open(&path, &json!({ "backend": "cpu", "seed": 1 })).unwrap_err();
        assert!(matches!(error, JournalError::Damaged { line: 2, .. }), "{error}");
    }
}
