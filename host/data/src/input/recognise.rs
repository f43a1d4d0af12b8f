//! Recognises the kind of a file by its first bytes, and unpacks compressed files.
//!
//! The content decides and not the name, since files are renamed, piped and copied out of archives.
//! The first 16 bytes show, in this order: an MDF event, which begins with its size three times in
//! a row, so that hardly anything else looks like it; a compression, which is taken off, after
//! which the first bytes inside are looked at in the same way; a packet, by its magic number. Where
//! none of these fits, the ending of the name counts, and without a known ending a file that can be
//! a dump is one.
//!
//! The size of an MDF event can be any number, also one whose bytes look like the magic number of
//! zstd. So the three equal sizes come first. Files of other well-known formats (ROOT, Parquet,
//! HDF5, zip, xz) are refused by name: "this is a ROOT file" helps more than "the event at byte 0
//! has a wrong size".

use std::fmt;
use std::fs::File;
#[cfg(feature = "containers")]
use std::io::BufRead as _;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::InputError;
use super::event::Format;
use super::file_at::FileAt;
use super::mdf_format::{u16_at, u32_at};
use super::packet;
use crate::detector::table_of;

/// Number of first bytes of a file that show its kind.
const BEGIN: usize = 16;

/// Maximum number of nested compressions that are unpacked.
///
/// A stream could contain compressions without end, each smaller than the last. Two occur in
/// practice: a file that was compressed again when it was archived.
const MAX_LAYERS: usize = 2;

/// Logarithm of the largest zstd window that takes little memory: frames made with `--long` or
/// `--ultra` need more.
const SMALL_WINDOW: u32 = 23;

pub(super) const BUFFER: usize = 1 << 18;

/// Number of bytes to request from a decoder at a time: the maximum size of a zstd block.
#[cfg(feature = "containers")]
const UNPACKED: usize = 1 << 17;

/// First bytes of other formats, and their names.
const NOT_TAKEN: [(&[u8], &str); 7] = [
    (b"\xfd7zXZ\0", "an xz stream; unpack it first (xz -d)"),
    (b"BZh", "a bzip2 stream; unpack it first (bzip2 -d)"),
    (
        b"\x04\x22\x4d\x18",
        "an lz4 stream; unpack it first (lz4 -d)",
    ),
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (
        b"root",
        "a ROOT file; raw data come in MDF files, MEP packets or Allen-layout dumps",
    ),
    (b"PAR1", "a Parquet file, which holds no raw data"),
    (b"\x89HDF", "an HDF5 file, which holds no raw data"),
];

#[derive(Clone, Copy)]
enum Compression {
    Zstd,
    Gzip,
}

impl Compression {
    fn of(begin: &[u8]) -> Option<Self> {
        match begin {
            // The size of an MDF event may look like anything.
            _ if sizes_agree(begin) => None,
            // The second is a skippable frame, with which `pzstd` begins.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }
}

/// The bytes of a file, out of its compression.
pub struct Input(Box<dyn Read + Send>);

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Input")
    }
}

impl Input {
    pub(super) fn new(input: impl Read + Send + 'static) -> Self {
        Self(Box::new(input))
    }
}

impl Read for Input {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

/// A file whose format is known.
pub(super) struct Opened {
    pub input: BufReader<Input>,
    /// Bytes of the file; `None` if it is compressed or not a regular file.
    pub length: Option<u64>,
    pub format: Format,
    /// The file, for positioned reads; `None` if it is compressed or not a regular file.
    pub file: Option<FileAt>,
}

/// Opens a file, `-` for standard input. The bytes that are read of it, as they lie on the disk,
/// are added to `read`.
pub(super) fn open(path: &Path, read: &Arc<AtomicU64>) -> Result<Opened, InputError> {
    let cannot = |source| InputError::Open {
        file: path.to_path_buf(),
        source,
    };
    if path.as_os_str() == "-" {
        return open_bytes(io::stdin(), None, path, read, None);
    }
    let file = File::open(path).map_err(cannot)?;
    let meta = file.metadata().map_err(cannot)?;
    if meta.is_dir() {
        return Err(cannot(io::ErrorKind::IsADirectory.into()));
    }
    let (file, length) = (Arc::new(file), meta.is_file().then_some(meta.len()));
    open_file(&file, Arc::clone(&file), length, path, read)
}

/// Returns the first bytes and the length of a regular file, or `None` for an input that can be
/// read only once.
fn begin_of(path: &Path) -> io::Result<Option<(Vec<u8>, u64)>> {
    if path.as_os_str() == "-" || !path.metadata()?.is_file() {
        return Ok(None);
    }
    let mut begin = Vec::with_capacity(BEGIN);
    let mut file = File::open(path)?;
    file.by_ref().take(BEGIN as u64).read_to_end(&mut begin)?;
    Ok(Some((begin, file.metadata()?.len())))
}

/// Checks that a regular file can be opened, has a byte, and is not of a format that is not taken. What can be
/// read only once is left alone.
pub fn check_file(path: &Path) -> Result<(), InputError> {
    let begin = begin_of(path).map_err(|source| InputError::Open {
        file: path.to_path_buf(),
        source,
    })?;
    let Some((begin, length)) = begin else {
        return Ok(());
    };
    if length == 0 {
        return Err(is_empty(path));
    }
    table_of(&begin, length).map_or_else(|| refuse(&begin, path), |what| Err(not_taken(path, what)))
}

/// Returns the error for an empty file.
pub(super) fn is_empty(path: &Path) -> InputError {
    let what = "the file has 0 bytes, so there is no event in the input";
    not_taken(path, what)
}

/// Returns true if a regular file is a table of a detector, boards or geometry.
pub fn is_table(path: &Path) -> bool {
    begin_of(path)
        .is_ok_and(|begin| begin.is_some_and(|(begin, length)| table_of(&begin, length).is_some()))
}

fn not_taken(path: &Path, what: &str) -> InputError {
    InputError::NotTaken {
        file: path.to_path_buf(),
        what: what.to_owned(),
    }
}

/// Refuses a file that begins like a file of a known format that cannot be read here.
fn refuse(begin: &[u8], path: &Path) -> Result<(), InputError> {
    match NOT_TAKEN
        .iter()
        .find(|(magic, _)| begin.starts_with(magic) && !sizes_agree(begin))
    {
        Some((_, what)) => Err(not_taken(path, what)),
        None => Ok(()),
    }
}

/// Opens `bytes`, the contents of `file` from its current position to byte `length`, if the length
/// is known.
pub(super) fn open_file(
    file: &Arc<File>,
    bytes: impl Read + Send + 'static,
    length: Option<u64>,
    path: &Path,
    read: &Arc<AtomicU64>,
) -> Result<Opened, InputError> {
    let opened = open_bytes(bytes, length, path, read, None)?;
    let file = opened
        .length
        .map(|_| FileAt::new(Arc::clone(file), Arc::clone(read)));
    Ok(Opened { file, ..opened })
}

/// Opens bytes that messages say are of `path`, and that end at its byte `length`, if that is
/// known. With a `window`, frames of zstd that need a window whose logarithm is larger are errors.
pub(super) fn open_bytes(
    bytes: impl Read + Send + 'static,
    mut length: Option<u64>,
    path: &Path,
    read: &Arc<AtomicU64>,
    window: Option<u32>,
) -> Result<Opened, InputError> {
    let cannot = |source| InputError::Open {
        file: path.to_path_buf(),
        source,
    };
    let mut input = Input(Box::new(Counted {
        input: bytes,
        read: Arc::clone(read),
    }));
    let mut layers = 0;
    loop {
        let mut begin = Vec::with_capacity(BEGIN);
        input
            .by_ref()
            .take(BEGIN as u64)
            .read_to_end(&mut begin)
            .map_err(cannot)?;
        let compression = Compression::of(&begin);
        let table = length.and_then(|length| table_of(&begin, length));
        let not_taken =
            table.map_or_else(|| refuse(&begin, path), |what| Err(not_taken(path, what)));
        let format = format_of(&begin, length, path);
        let whole = Cursor::new(begin).chain(input);
        let Some(compression) = compression else {
            not_taken?;
            let input = BufReader::with_capacity(BUFFER, Input(Box::new(whole)));
            return Ok(Opened {
                input,
                length,
                format,
                file: None,
            });
        };
        layers += 1;
        input = unpacked(whole, compression, layers, (path, window))?;
        length = None;
    }
}

pub(super) fn is_compressed_file(path: &Path) -> bool {
    begin_of(path)
        .is_ok_and(|begin| begin.is_some_and(|(begin, _)| Compression::of(&begin).is_some()))
}

/// Opens a compressed file with little memory: a frame that needs more is an error when its turn
/// comes.
pub(super) fn open_sparingly(path: &Path, read: &Arc<AtomicU64>) -> Result<Opened, InputError> {
    let file = File::open(path).map_err(|source| InputError::Open {
        file: path.to_path_buf(),
        source,
    })?;
    open_bytes(file, None, path, read, Some(SMALL_WINDOW))
}

/// Returns true if reading after [`open_sparingly`] failed for lack of memory. (The library shows
/// this only in the message.)
pub(super) fn takes_more_memory(error: &io::Error) -> bool {
    error.to_string().contains("requires too much memory")
}

#[cfg(feature = "containers")]
fn unpacked(
    input: impl Read + Send + 'static,
    compression: Compression,
    layers: usize,
    (path, window): (&Path, Option<u32>),
) -> Result<Input, InputError> {
    if layers > MAX_LAYERS {
        return Err(not_taken(
            path,
            "compressed again and again; unpack it first",
        ));
    }
    let input = BufReader::with_capacity(BUFFER, input);
    let input: Box<dyn Read + Send> = match compression {
        Compression::Zstd => {
            let decoder =
                zstd::stream::read::Decoder::with_buffer(input).and_then(|mut decoder| {
                    window.map_or(Ok(()), |window| decoder.window_log_max(window))?;
                    Ok(decoder)
                });
            Box::new(decoder.map_err(|source| InputError::Open {
                file: path.to_path_buf(),
                source,
            })?)
        }
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
    };
    let input = BufReader::with_capacity(UNPACKED, input);
    Ok(Input(Box::new(Unpacked {
        input,
        name: compression.name(),
    })))
}

#[cfg(not(feature = "containers"))]
fn unpacked(
    _: impl Read,
    compression: Compression,
    _: usize,
    (path, _): (&Path, Option<u32>),
) -> Result<Input, InputError> {
    Err(not_taken(
        path,
        &format!(
            "a {} stream; this build lacks the feature `containers`",
            compression.name()
        ),
    ))
}

/// Returns a file name without its compression endings, such as `.zst`.
pub fn without_compression(name: &str) -> &str {
    let mut name = name;
    for _ in 0..MAX_LAYERS {
        let lower = name.to_ascii_lowercase();
        let ending = [".zst", ".gz"]
            .into_iter()
            .find(|ending| lower.ends_with(ending) && lower.len() > ending.len());
        name = &name[..name.len() - ending.map_or(0, str::len)];
    }
    name
}

/// Returns true if a file begins with the three equal words of an MDF event.
fn sizes_agree(begin: &[u8]) -> bool {
    begin.len() >= 12
        && begin[..4] == begin[4..8]
        && begin[..4] == begin[8..12]
        && u32_at(begin, 0) != 0
}

/// Finds the format from a file's first bytes, then its extension, then the first bytes again.
fn format_of(begin: &[u8], length: Option<u64>, path: &Path) -> Format {
    if sizes_agree(begin) {
        return Format::Mdf;
    }
    if begin.len() >= 8 && u16_at(begin, 0) == packet::MAGIC {
        return Format::Mep;
    }
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("mdf" | "raw") => Format::Mdf,
        Some("mep") => Format::Mep,
        Some("bin") => Format::AllenDump,
        _ if looks_like_dump(begin, length) => Format::AllenDump,
        _ => Format::Mdf,
    }
}

/// Returns true if a dump of `length` bytes can begin with these 8 bytes: a table that fits and
/// begins with 0.
fn looks_like_dump(begin: &[u8], length: Option<u64>) -> bool {
    begin.len() >= 8
        && u32_at(begin, 4) == 0
        && length.is_none_or(|length| 8 + 4 * u64::from(u32_at(begin, 0)) <= length)
}

struct Counted<R> {
    input: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let n = self.input.read(bytes)?;
        self.read.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// Adds the stream's name to errors.
///
/// Always asks the decoder for the same number of bytes: a failed call gives none, whoever reads.
#[cfg(feature = "containers")]
struct Unpacked<R> {
    input: BufReader<R>,
    name: &'static str,
}

#[cfg(feature = "containers")]
impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        // Not `read`, which passes large requests on to the decoder.
        let read = self
            .input
            .fill_buf()
            .and_then(|mut there| there.read(bytes));
        let n = read.map_err(|error| {
            let name = self.name;
            let what = match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    format!("the {name} stream ends before its last frame does: truncated?")
                }
                _ if takes_more_memory(&error) => {
                    format!("the {name} stream has a window of more than 128 MiB ({error}); unpack it first (zstd -d --long=31)")
                }
                _ if error.to_string().contains("Dictionary") => {
                    format!("the {name} stream needs a dictionary ({error}); unpack it first (zstd -d -D)")
                }
                _ => format!("the {name} stream is damaged: {error}"),
            };
            io::Error::new(error.kind(), what)
        })?;
        self.input.consume(n);
        Ok(n)
    }
}
