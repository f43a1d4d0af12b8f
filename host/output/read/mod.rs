//! Files of hits, read back event by event: CSV, Parquet and NumPy files of this program, and tables of others that have
//! an event and an LHCbID in every row.
//!
//! A file is read in pieces of some thousand rows, so that memory depends on its largest event alone.

mod csv;
mod numpy;
mod parquet;

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[doc(hidden)]
pub use parquet::silence_caught_panics;

use super::DetectorColumn;
use crate::input::file_at::fill;

/// Rows that are read at a time.
const PIECE: usize = 4096;

/// Values that an event may have, 256 MiB of them: beyond, the column of events is no such column. A file of some kilobytes
/// can claim any number.
const MAX_CELLS: usize = 1 << 24;

/// The longest name of a file, in bytes, twice the longest path on Linux. A piece holds one for each of its rows.
const LONGEST_NAME: usize = 8 << 10;

/// What the names of all files may take in memory, in bytes, and what a name takes beside its text.
const MAX_NAMES: u64 = 256 << 20;
const NAME: u64 = 64;

/// The columns of integers that every output of this program has.
const INTEGERS: [&str; 5] = ["event", "run", "event_number", "group", "lhcb_id"];

/// Those of 32-bit floats.
const FLOATS: [&str; 6] = ["x_at_y_eq0", "z_at_y_eq0", "y_begin", "y_end", "dx_dy", "weight"];

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Integers from 0 on.
    Integers,
    /// 32-bit floats, as their bits.
    Floats,
}

/// A column that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadColumn {
    /// Its name in the outputs of this program.
    pub name: &'static str,
    /// What its values are.
    pub values: Values,
}

/// Every column that is read where a file has it; others are passed over.
fn known() -> impl Iterator<Item = ReadColumn> {
    let integers = INTEGERS.into_iter().chain(DetectorColumn::all().map(DetectorColumn::name));
    let integers = integers.map(|name| ReadColumn { name, values: Values::Integers });
    integers.chain(FLOATS.map(|name| ReadColumn { name, values: Values::Floats }))
}

/// Names of columns in files of other programs: ours and theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(Vec<(&'static str, String)>);

impl Names {
    /// What a file may call a column, the likeliest first.
    fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let theirs = self.0.iter().filter(move |(ours, _)| *ours == name).map(|(_, theirs)| theirs.as_str());
        theirs.chain([name])
    }
}

/// A list of `ours=theirs` with commas between them; `id` is short for `lhcb_id`.
impl std::str::FromStr for Names {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pairs = text.split(',').map(|pair| {
            let (ours, theirs) =
                pair.split_once('=').ok_or_else(|| format!("\"{pair}\" is not of the form NAME=THEIRS"))?;
            let ours = match ours.trim() {
                "id" => "lhcb_id",
                name => name,
            };
            let column = known().map(|column| column.name).chain(["file"]).find(|name| *name == ours);
            Ok((column.ok_or_else(|| format!("no output has a column \"{ours}\""))?, theirs.trim().to_owned()))
        });
        Ok(Self(pairs.collect::<Result<_, String>>()?))
    }
}

/// Why a file of hits could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system says no.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// What it says.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{file}: {what}")]
    Content {
        /// The file.
        file: String,
        /// What is wrong, and where.
        what: String,
    },
}

/// A value; `None` is null.
pub type Cell = Option<u64>;

/// Some rows, column by column.
#[derive(Debug, Default)]
struct Piece {
    /// As the columns of the file.
    columns: Vec<Vec<Cell>>,
    /// The name of each row's file, or what stands for it; empty without that column.
    files: Vec<Arc<[u8]>>,
}

impl Piece {
    fn clear(&mut self, columns: usize) {
        self.columns.resize_with(columns, Vec::new);
        self.columns.iter_mut().for_each(Vec::clear);
        self.files.clear();
    }
}

/// A format.
trait Source {
    /// The columns that the file has.
    fn columns(&self) -> &[ReadColumn];

    /// Whether the files of events are told by name.
    fn has_names(&self) -> bool;

    /// Once all rows are read: whether the last one may be cut short.
    fn may_be_cut(&self) -> bool {
        false
    }

    /// Reads the next rows, at most [`PIECE`]; none at the end.
    fn read(&mut self, piece: &mut Piece) -> Result<(), String>;
}

/// The name of the last row's file, which the next row probably shares.
#[derive(Debug, Default)]
struct LastName(Arc<[u8]>);

impl LastName {
    fn of(&mut self, name: &[u8]) -> Result<Arc<[u8]>, String> {
        if name.len() > LONGEST_NAME {
            return Err(format!("a file name of {} bytes in column file: no path is that long", name.len()));
        }
        if *self.0 != *name {
            self.0 = name.into();
        }
        Ok(Arc::clone(&self.0))
    }
}

/// A file of events: its name, and how many files of that name come before it.
pub type FileKey = (Arc<[u8]>, u64);

/// The hits of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventOfFile {
    /// The place of the event's file among those that have hits, and of the event in its file.
    pub place: (u64, u64),
    /// As the columns of the file; all of one length.
    pub columns: Vec<Vec<Cell>>,
}

/// A file of hits, event by event.
pub struct HitReader {
    path: PathBuf,
    source: Box<dyn Source>,
    event: usize,
    piece: Piece,
    next: usize,
    /// What the file calls its columns, to read it again.
    names: Names,
    /// File and event of the row before.
    before: Option<(u64, u64)>,
    file: FileKey,
    /// By name: the files so far.
    files: HashMap<Arc<[u8]>, u64>,
    /// What their names take in memory, in bytes.
    names_size: u64,
    fell: bool,
}

impl HitReader {
    /// Opens a file, whose format its content says.
    ///
    /// # Errors
    /// When it cannot be read, or has no events or ids.
    pub fn open(path: impl Into<PathBuf>, names: &Names) -> Result<Self, ReadError> {
        let path = path.into();
        let io = |source| ReadError::Io { file: path.display().to_string(), source };
        let mut magic = [0; 4];
        let mut file = File::open(&path).map_err(io)?;
        let n = fill(&mut magic, |rest, _| file.read(rest)).map_err(io)?;
        let content = |what| ReadError::Content { file: path.display().to_string(), what };
        let is_pipe = !file.metadata().map_err(io)?.is_file();
        let source: Box<dyn Source> = match &magic[..n] {
            [] => return Err(content("it is empty".to_owned())),
            b"PAR1" | b"PK\x03\x04" if is_pipe => {
                return Err(content("Parquet and NumPy files cannot be read from a pipe: save it first".to_owned()));
            }
            [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd] => {
                return Err(content("it is compressed: unpack it first".to_owned()));
            }
            b"PAR1" => Box::new(parquet::ParquetSource::open(&path, names).map_err(content)?),
            b"PK\x03\x04" => Box::new(numpy::NumpySource::open(&path, names).map_err(content)?),
            start => Box::new(csv::CsvSource::open(start.to_vec(), file, names).map_err(content)?),
        };
        let place = |name| source.columns().iter().position(|column| column.name == name);
        let (Some(event), Some(_)) = (place("event"), place("lhcb_id")) else {
            let absent = if place("event").is_none() { "event" } else { "lhcb_id" };
            let there: Vec<_> = source.columns().iter().map(|column| column.name).collect();
            let there = if there.is_empty() { "none that is known".to_owned() } else { there.join(", ") };
            let what = format!("no column {absent}; it has {there}; --names {absent}=… says what the file calls it");
            return Err(content(what));
        };
        Ok(Self::of(path, source, event, names.clone()))
    }

    fn of(path: PathBuf, source: Box<dyn Source>, event: usize, names: Names) -> Self {
        let (piece, file, files) = (Piece::default(), FileKey::default(), HashMap::new());
        Self { path, source, event, piece, next: 0, names, before: None, file, files, names_size: 0, fell: false }
    }

    /// What the user called the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The columns that the file has.
    pub fn columns(&self) -> &[ReadColumn] {
        self.source.columns()
    }

    /// Files whose events were read so far: a new one begins where the name changes, if there is such a column, and where event
    /// numbers fall.
    pub fn n_files(&self) -> u64 {
        self.before.map_or(0, |(file, _)| file + 1)
    }

    /// Whether a file began where event numbers fall.
    pub const fn has_fallen(&self) -> bool {
        self.fell
    }

    /// Once all events are read: whether the last row may be cut short, because the file does not end with a newline.
    pub fn may_be_cut(&self) -> bool {
        self.source.may_be_cut()
    }

    /// Whether it tells the files of its events by name.
    pub fn has_names(&self) -> bool {
        self.source.has_names()
    }

    /// The file of the last event that was read.
    pub const fn file(&self) -> &FileKey {
        &self.file
    }

    /// Whether a file is that of the last event that was read, or came before.
    pub fn has_reached(&self, (name, before): &FileKey) -> bool {
        self.files.get(name).is_some_and(|files| files > before)
    }

    /// All files whose events it has, by name, out of a second reading.
    ///
    /// # Errors
    /// When it cannot be read again, as a pipe.
    pub fn all_files(&self) -> Result<HashMap<Arc<[u8]>, u64>, ReadError> {
        if !self.path.is_file() {
            return Err(self.content(
                "its file names differ from the other table's, and a pipe can be read only once: save it to a file"
                    .to_owned(),
            ));
        }
        let (mut again, mut event) = (Self::open(&self.path, &self.names)?, EventOfFile::default());
        while again.next_event(&mut event)? {}
        Ok(again.files)
    }

    /// Reads the next event that has hits into `to`; false at the end.
    ///
    /// # Errors
    /// When the file cannot be read, or an event has no number or no end.
    pub fn next_event(&mut self, to: &mut EventOfFile) -> Result<bool, ReadError> {
        let n = self.source.columns().len();
        to.columns.resize_with(n, Vec::new);
        to.columns.iter_mut().for_each(Vec::clear);
        let mut rows = 0;
        loop {
            if self.next == self.piece.columns.first().map_or(0, Vec::len) {
                self.piece.clear(n);
                self.next = 0;
                self.source.read(&mut self.piece).map_err(|what| self.content(what))?;
                if self.piece.columns.first().is_none_or(Vec::is_empty) {
                    return Ok(rows > 0);
                }
            }
            let Some(event) = self.piece.columns[self.event][self.next] else {
                return Err(self.content("a row has no event".to_owned()));
            };
            let name = self.piece.files.get(self.next);
            let is_renamed = name.is_some_and(|name| *name != self.file.0);
            let falls = self.before.is_some_and(|(_, before)| event < before);
            let is_new = is_renamed || falls || self.before.is_none();
            if rows > 0 && (is_new || event != to.place.1) {
                return Ok(true);
            }
            if is_new {
                self.fell |= falls && !is_renamed;
                self.file.0 = name.cloned().unwrap_or_default();
                let files = self.files.entry(Arc::clone(&self.file.0)).or_default();
                self.file.1 = *files;
                *files += 1;
                if self.file.1 == 0 {
                    self.names_size += self.file.0.len() as u64 + NAME;
                }
                if self.names_size > MAX_NAMES {
                    let mib = MAX_NAMES >> 20;
                    return Err(self.content(format!("the names of its files take more than {mib} MiB")));
                }
            }
            let file = self.before.map_or(0, |(file, _)| file + u64::from(is_new));
            to.place = (file, event);
            self.before = Some(to.place);
            rows += 1;
            if rows > MAX_CELLS / n {
                return Err(self.content(format!("event {event} has more than {} hits", MAX_CELLS / n)));
            }
            for (to, from) in to.columns.iter_mut().zip(&self.piece.columns) {
                to.push(from[self.next]);
            }
            self.next += 1;
        }
    }

    fn content(&self, what: String) -> ReadError {
        ReadError::Content { file: self.path.display().to_string(), what }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{EventOfFile, HitReader, MAX_CELLS, MAX_NAMES, Names, PIECE, Piece, ReadColumn, Source, known};

    /// Hits of one event, without end.
    struct Endless(Vec<ReadColumn>);

    impl Source for Endless {
        fn columns(&self) -> &[ReadColumn] {
            &self.0
        }

        fn has_names(&self) -> bool {
            false
        }

        fn read(&mut self, piece: &mut Piece) -> Result<(), String> {
            piece.columns.iter_mut().for_each(|column| column.resize(PIECE, Some(7)));
            Ok(())
        }
    }

    #[test]
    fn an_event_takes_little_memory_however_many_columns_there_are() {
        let columns: Vec<_> = known().collect();
        let most = MAX_CELLS / columns.len();
        let mut reader = HitReader::of(PathBuf::from("a"), Box::new(Endless(columns)), 0, Names::default());
        let error = reader.next_event(&mut EventOfFile::default()).unwrap_err().to_string();
        assert_eq!(error, format!("a: event 7 has more than {most} hits"));
    }

    /// An event of each of the files 0, 1, 2, …, and again, without end.
    struct ManyFiles(Vec<ReadColumn>, usize);

    impl Source for ManyFiles {
        fn columns(&self) -> &[ReadColumn] {
            &self.0
        }

        fn has_names(&self) -> bool {
            true
        }

        fn read(&mut self, piece: &mut Piece) -> Result<(), String> {
            piece.columns.iter_mut().for_each(|column| column.resize(self.1, Some(7)));
            piece.files = (0..self.1).map(|i| format!("{i:04}").into_bytes().into()).collect();
            Ok(())
        }
    }

    #[test]
    fn the_names_of_files_take_little_memory_however_many_there_are() {
        let source = Box::new(ManyFiles(known().collect(), 10));
        let mut reader = HitReader::of(PathBuf::from("a"), source, 0, Names::default());
        // Room for nine names of four bytes.
        reader.names_size = MAX_NAMES - 9 * (4 + 64);
        let mut event = EventOfFile::default();
        assert!((0..8).all(|_| reader.next_event(&mut event).unwrap()));
        let error = (0..2).find_map(|_| reader.next_event(&mut event).err()).unwrap().to_string();
        assert_eq!(error, "a: the names of its files take more than 256 MiB");
        // A name that comes again takes nothing.
        let source = Box::new(ManyFiles(known().collect(), 9));
        let mut reader = HitReader::of(PathBuf::from("a"), source, 0, Names::default());
        reader.names_size = MAX_NAMES - 9 * (4 + 64);
        assert!((0..30).all(|_| reader.next_event(&mut event).unwrap()));
    }
}
