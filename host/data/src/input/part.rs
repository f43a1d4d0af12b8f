//! Inputs of every kind: whole files, bytes in memory, streams, and sections of files that are read
//! separately.
//!
//! [`sections`] cuts a file between events, so that several processes can share it. It looks at the
//! headers only where it can; a [`Section`] says how its events are numbered, so that hits do not
//! depend on how a file was cut.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use super::InputError;
use super::event::Format;
use super::frames::{Frame, Frames, Source};
use super::recognise::{Opened, is_compressed_file, open, open_bytes, open_file};

/// Bytes in memory that can be read from any thread.
type Bytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A stream that can be read once.
type Stream = Arc<Mutex<Option<Box<dyn Read + Send>>>>;

/// One input: a file, a section of one, bytes that are in memory, or a stream.
#[derive(Clone)]
pub struct InputPart {
    name: PathBuf,
    content: PartContent,
}

#[derive(Clone)]
enum PartContent {
    File,
    Section(Section),
    Memory(Bytes),
    Stream(Stream),
}

/// Consecutive events of a file; of a compressed file, all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Bytes of the file, from the beginning of an event or packet to the end of another.
    pub bytes: Range<u64>,
    /// Number of events of the file before it.
    pub first_event: u64,
    /// Events; `None` where they have not been counted.
    pub n_events: Option<u64>,
}

impl InputPart {
    /// Returns a whole file as an input; `-` is standard input.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self {
            name: path.into(),
            content: PartContent::File,
        }
    }

    /// Returns a section of an uncompressed file as an input.
    pub fn section(path: impl Into<PathBuf>, section: Section) -> Self {
        Self {
            name: path.into(),
            content: PartContent::Section(section),
        }
    }

    /// Returns the bytes of a file as an input, which messages call `name`.
    pub fn memory(
        name: impl Into<PathBuf>,
        bytes: impl AsRef<[u8]> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            content: PartContent::Memory(Arc::new(bytes)),
        }
    }

    /// Returns bytes that can be read once, such as from a socket, as an input, which messages call
    /// `name`.
    pub fn stream(name: impl Into<PathBuf>, input: impl Read + Send + 'static) -> Self {
        Self {
            name: name.into(),
            content: PartContent::Stream(Arc::new(Mutex::new(Some(Box::new(input))))),
        }
    }

    /// Returns the name of the input in messages.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Returns the number of events of the file that come before this input.
    pub(super) const fn first_event(&self) -> u64 {
        match &self.content {
            PartContent::Section(section) => section.first_event,
            PartContent::File | PartContent::Memory(_) | PartContent::Stream(_) => 0,
        }
    }

    /// Returns true if it is a whole file.
    pub(super) const fn is_file(&self) -> bool {
        matches!(self.content, PartContent::File)
    }

    /// Returns true if it is a whole file that is compressed, and can be opened again.
    pub(super) fn is_compressed_file(&self) -> bool {
        self.is_file() && is_compressed_file(&self.name)
    }

    /// Opens the input. Also returns the byte of the file at which it begins, and the number of
    /// events before it.
    pub(super) fn open(&self, read: &Arc<AtomicU64>) -> Result<(Opened, u64, u64), InputError> {
        let name = &self.name;
        match &self.content {
            PartContent::File => Ok((open(name, read)?, 0, 0)),
            PartContent::Memory(bytes) => {
                let length = (**bytes).as_ref().len() as u64;
                Ok((
                    open_bytes(
                        Cursor::new(SharedBytes(Arc::clone(bytes))),
                        Some(length),
                        name,
                        read,
                        None,
                    )?,
                    0,
                    0,
                ))
            }
            PartContent::Stream(stream) => {
                let input = stream.lock().ok().and_then(|mut input| input.take());
                let input = input.ok_or_else(|| io::Error::other("a stream can be read only once"));
                let input = input.map_err(|source| InputError::Open {
                    file: name.clone(),
                    source,
                })?;
                Ok((open_bytes(input, None, name, read, None)?, 0, 0))
            }
            PartContent::Section(Section {
                bytes, first_event, ..
            }) => {
                let cannot = |source| InputError::Open {
                    file: name.clone(),
                    source,
                };
                let mut file = File::open(name).map_err(cannot)?;
                if bytes.start > 0 {
                    file.seek(SeekFrom::Start(bytes.start)).map_err(cannot)?;
                }
                let file = Arc::new(file);
                let input = Arc::clone(&file).take(bytes.end.saturating_sub(bytes.start));
                let opened = open_file(&file, input, Some(bytes.end), name, read)?;
                Ok((opened, bytes.start, *first_event))
            }
        }
    }
}

impl fmt::Debug for InputPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.content {
            PartContent::File => write!(f, "{}", self.name.display()),
            PartContent::Section(section) => write!(f, "{}: {section:?}", self.name.display()),
            PartContent::Stream(_) => write!(f, "{}: a stream", self.name.display()),
            PartContent::Memory(bytes) => write!(
                f,
                "{}: {} bytes",
                self.name.display(),
                (**bytes).as_ref().len()
            ),
        }
    }
}

impl<T: Into<PathBuf>> From<T> for InputPart {
    fn from(path: T) -> Self {
        Self::file(path)
    }
}

struct SharedBytes(Bytes);

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

/// Number of bytes to read at a time from a file of which only headers are wanted.
const HEADERS: usize = 128;

/// Cuts a file into sections of `events` events (at least 1) or, if it holds packets, into sections
/// of whole packets with at least `events` events each. A compressed file, a dump, or a file that
/// is not a regular file becomes one section, whose events are not counted.
///
/// If the file is damaged, the last section runs from the event before the damage to the end of the
/// file, so that reading it reports the place.
pub fn sections(path: &Path, events: u64) -> Result<Vec<Section>, InputError> {
    let cannot = |source| InputError::Open {
        file: path.to_path_buf(),
        source,
    };
    let Opened {
        length,
        format,
        file,
        ..
    } = open(path, &Arc::default())?;
    let Some((length, file)) = length.zip(file).filter(|_| format != Format::AllenDump) else {
        let meta = path.metadata().map_err(cannot)?;
        let end = if meta.is_file() { meta.len() } else { u64::MAX };
        return Ok(vec![Section {
            bytes: 0..end,
            first_event: 0,
            n_events: None,
        }]);
    };
    let file = BufReader::with_capacity(HEADERS, file.bytes(0, length));
    let mut frames = Frames::new(Source::Events(file), path, Some(length), format);
    frames.check = false;
    frames.pass_bodies();
    let (mut found, mut data) = (Vec::new(), Vec::new());
    let (mut start, mut first, mut n_events) = (0, 0, Some(0));
    loop {
        data.clear();
        let before = frames.events;
        match frames.next(&mut data) {
            Ok(Frame::End) => break,
            Ok(_) => {}
            Err(_) => n_events = None,
        }
        if before - first >= events.max(1) {
            found.push(Section {
                bytes: start..frames.last,
                first_event: first,
                n_events: Some(before - first),
            });
            (start, first) = (frames.last, before);
        }
        n_events = n_events.map(|_| frames.events - first);
    }
    found.push(Section {
        bytes: start..length,
        first_event: first,
        n_events,
    });
    Ok(found)
}
