//! Hits out of NumPy's `.npz` files: arrays that were stored without compression, read side by side. The
//! checksum of an array is compared when its last byte has been read.

use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use rawzip::{CompressionMethod, Crc32, RECOMMENDED_BUFFER_SIZE, ZipArchive};

use super::{Cell, LastName, MAX_NAMES, NAME, Names, PIECE, Piece, ReadColumn, Source, Values, known};

/// Arrays that a file may have.
const MAX_MEMBERS: usize = 1000;

/// Bytes that the header of an array may have.
const MAX_HEADER: usize = 1 << 16;

/// A file of arrays.
pub struct NumpySource {
    columns: Vec<ReadColumn>,
    arrays: Vec<Array>,
    /// By column: where it is null, if anywhere.
    nulls: Vec<Option<Array>>,
    /// By hit: the place of its file in `names`.
    file: Option<Array>,
    /// The files' names, if it has them.
    names: Option<Vec<Arc<[u8]>>>,
    /// The number that stands for a name where there are none.
    number: LastName,
    left: u64,
}

/// A member of the archive.
struct Member {
    name: Vec<u8>,
    stored: bool,
    checksum: u32,
    /// Where its bytes begin and end.
    range: (u64, u64),
}

/// The rest of a member, still to be read.
struct Unread {
    file: BufReader<File>,
    left: u64,
    /// The checksum of what has been read.
    so_far: Crc32,
    /// What it must be at the end.
    checksum: u32,
}

impl Unread {
    fn open(path: &Path, member: &Member) -> std::io::Result<Self> {
        let (start, end) = member.range;
        let mut file = BufReader::new(File::open(path)?);
        file.seek(SeekFrom::Start(start))?;
        Ok(Self { file, left: end.saturating_sub(start), so_far: Crc32::new(), checksum: member.checksum })
    }

    /// The next `n` bytes.
    fn take(&mut self, n: usize) -> Result<Vec<u8>, String> {
        let Some(left) = self.left.checked_sub(n as u64) else { return Err("it ends early".to_owned()) };
        self.left = left;
        let mut bytes = vec![0; n];
        self.file.read_exact(&mut bytes).map_err(|error| error.to_string())?;
        self.so_far.update(&bytes);
        let found = self.so_far.checksum();
        if left == 0 && found != self.checksum {
            return Err(format!("it is damaged: its checksum is {found:08x}, not {:08x}", self.checksum));
        }
        Ok(bytes)
    }
}

/// An array of one dimension.
struct Array {
    name: String,
    /// Behind the header.
    bytes: Unread,
    kind: Kind,
    len: u64,
}

/// The types that are read: unsigned integers and booleans of so many bytes, and floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Integer(usize),
    Float,
    Double,
}

impl NumpySource {
    /// Opens a file.
    pub fn open(path: &Path, names: &Names) -> Result<Self, String> {
        let members = members(path)?;
        let array = |name: &str| Array::open(path, &members, name).transpose();
        let (mut columns, mut arrays, mut nulls) = (Vec::new(), Vec::new(), Vec::new());
        for column in known() {
            if let Some(found) = names.of(column.name).find_map(array).transpose()? {
                if (column.values == Values::Integers) != matches!(found.kind, Kind::Integer(_)) {
                    return Err(format!("array {} is of another type", found.name));
                }
                nulls.push(array(&format!("{}_null", found.name)).transpose()?);
                columns.push(column);
                arrays.push(found);
            }
        }
        // Other programs may have anything there; it is not compared.
        let file = names.of("file").find_map(|name| Array::open(path, &members, name).ok().flatten());
        let left = arrays.first().or(file.as_ref()).map_or(0, |array| array.len);
        if let Some(other) = arrays.iter().chain(nulls.iter().flatten()).chain(&file).find(|array| array.len != left) {
            return Err(format!("array {} has {} values, {} has {left}", other.name, other.len, arrays[0].name));
        }
        let names = if file.is_some() { texts(path, &members, "files")? } else { None };
        Ok(Self { columns, arrays, nulls, file, names, number: LastName::default(), left })
    }
}

impl Source for NumpySource {
    fn columns(&self) -> &[ReadColumn] {
        &self.columns
    }

    fn has_names(&self) -> bool {
        self.names.is_some()
    }

    fn read(&mut self, piece: &mut Piece) -> Result<(), String> {
        let n = self.left.min(PIECE as u64) as usize;
        self.left -= n as u64;
        for ((array, null), to) in self.arrays.iter_mut().zip(&mut self.nulls).zip(&mut piece.columns) {
            to.extend(array.read(n)?.map(Some));
            if let Some(null) = null {
                for (to, null) in to.iter_mut().zip(null.read(n)?) {
                    *to = if null == 0 { *to } else { Cell::None };
                }
            }
        }
        if let Some(file) = &mut self.file {
            for place in file.read(n)? {
                piece.files.push(match &self.names {
                    Some(names) => {
                        usize::try_from(place).ok().and_then(|place| names.get(place)).cloned().ok_or_else(|| {
                            format!("array file names file {place} of array files, which has {}", names.len())
                        })?
                    }
                    None => self.number.of(&place.to_le_bytes())?,
                });
            }
        }
        Ok(())
    }
}

impl Array {
    /// Finds an array in the archive; `None` where there is none of this name.
    fn open(path: &Path, members: &[Member], name: &str) -> Result<Option<Self>, String> {
        let Some(Stored { bytes, header }) = stored(path, members, name)? else { return Ok(None) };
        let wrong = |what: &str| format!("array {name}: {what}");
        let Some((len, kind)) = shape(&header).zip(kind(&header)) else {
            return Err(wrong(&format!("not a one-dimensional, little-endian array of numbers: {}", header.trim())));
        };
        if len.checked_mul(kind.size() as u64) != Some(bytes.left) {
            return Err(wrong("its size is not what its header says"));
        }
        Ok(Some(Self { name: name.to_owned(), bytes, kind, len }))
    }

    /// The next `n` values.
    fn read(&mut self, n: usize) -> Result<impl Iterator<Item = u64>, String> {
        let bytes = self.bytes.take(n * self.kind.size()).map_err(|error| format!("array {}: {error}", self.name))?;
        let kind = self.kind;
        let values: Vec<u64> = bytes
            .chunks_exact(kind.size())
            .map(|bytes| {
                let word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
                if kind == Kind::Double { (f64::from_bits(word) as f32).to_bits().into() } else { word }
            })
            .collect();
        Ok(values.into_iter())
    }
}

impl Kind {
    const fn size(self) -> usize {
        match self {
            Self::Integer(size) => size,
            Self::Float => 4,
            Self::Double => 8,
        }
    }
}

/// An array whose header was read.
struct Stored {
    /// Behind the header.
    bytes: Unread,
    header: String,
}

/// Finds an array in the archive and reads its header; `None` where there is none of this name.
fn stored(path: &Path, members: &[Member], name: &str) -> Result<Option<Stored>, String> {
    let of_name = |member: &&Member| member.name.strip_suffix(b".npy") == Some(name.as_bytes());
    let Some(member) = members.iter().find(of_name) else { return Ok(None) };
    let wrong = |what: &str| format!("array {name}: {what}");
    if !member.stored {
        return Err(wrong("it is compressed; numpy.savez writes it without"));
    }
    let mut bytes = Unread::open(path, member).map_err(|error| wrong(&error.to_string()))?;
    let mut read = |n: usize| bytes.take(n).map_err(|error| wrong(&error));
    let start = read(8)?;
    if &start[..6] != b"\x93NUMPY" {
        return Err(wrong("it does not begin as arrays do"));
    }
    // Version 1 has a length of two bytes, the others of four.
    let length = read(if start[6] == 1 { 2 } else { 4 })?;
    let header_len = length.iter().rev().fold(0, |len, &byte| len << 8 | usize::from(byte));
    if header_len > MAX_HEADER {
        return Err(wrong("its header is too long"));
    }
    let header = String::from_utf8(read(header_len)?).map_err(|_| wrong("its header is not text"))?;
    Ok(Some(Stored { bytes, header }))
}

/// An array of texts; `None` where there is none of this name, or it holds something else.
fn texts(path: &Path, members: &[Member], name: &str) -> Result<Option<Vec<Arc<[u8]>>>, String> {
    let Some(Stored { mut bytes, header }) = stored(path, members, name)? else { return Ok(None) };
    let size = bytes.left;
    let chars =
        value_of(&header, "descr").and_then(|kind| kind.strip_prefix("'<U")?.split_once('\'')?.0.parse::<u64>().ok());
    let Some((chars, len)) = chars.filter(|&chars| chars > 0).zip(shape(&header)) else { return Ok(None) };
    if chars.checked_mul(4).and_then(|text| text.checked_mul(len)) != Some(size) {
        return Err(format!("array {name}: its size is not what its header says"));
    }
    if len.checked_mul(NAME).and_then(|more| more.checked_add(size)).is_none_or(|all| all > MAX_NAMES) {
        return Err(format!("array {name}: the names of its files take more than {} MiB", MAX_NAMES >> 20));
    }
    let all = bytes.take(size as usize).map_err(|error| format!("array {name}: {error}"))?;
    let text = |text: &[u8]| -> Arc<[u8]> {
        let chars = text.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).take_while(|&c| c != 0);
        let text: String = chars.map(|c| char::from_u32(c).unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        text.into_bytes().into()
    };
    Ok(Some(all.chunks(4 * chars as usize).map(text).collect()))
}

/// The members of an archive.
fn members(path: &Path) -> Result<Vec<Member>, String> {
    let mut members = Vec::new();
    let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
    let file = File::open(path).map_err(|error| error.to_string())?;
    let archive = ZipArchive::from_file(file, &mut buffer).map_err(|error| error.to_string())?;
    let mut entries = archive.entries(&mut buffer);
    while let Some(entry) = entries.next_entry().map_err(|error| error.to_string())? {
        if members.len() == MAX_MEMBERS {
            return Err(format!("more than {MAX_MEMBERS} arrays"));
        }
        let stored = entry.compression_method() == CompressionMethod::STORE;
        let range = archive.get_entry(entry.wayfinder()).map_err(|error| error.to_string())?.compressed_data_range();
        members.push(Member { name: entry.file_path().as_ref().to_vec(), stored, checksum: entry.crc32(), range });
    }
    Ok(members)
}

/// What stands behind a key of an array's header, a dictionary of Python.
fn value_of<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = header.split_once(&format!("'{key}':"))?;
    Some(rest.trim_start())
}

fn kind(header: &str) -> Option<Kind> {
    let kind = value_of(header, "descr")?.strip_prefix('\'')?.split_once('\'')?.0;
    Some(match kind {
        "|b1" | "|u1" => Kind::Integer(1),
        "<u2" => Kind::Integer(2),
        "<u4" => Kind::Integer(4),
        "<u8" | "<i8" => Kind::Integer(8),
        "<f4" => Kind::Float,
        "<f8" => Kind::Double,
        _ => return None,
    })
}

/// The length of an array of one dimension.
fn shape(header: &str) -> Option<u64> {
    let shape = value_of(header, "shape")?.strip_prefix('(')?.split_once(')')?.0;
    shape.trim_end().strip_suffix(',')?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use rawzip::{CompressionMethod, ZipArchiveWriter};

    use crate::output::read::{Cell, EventOfFile, HitReader, Names};

    /// An array with a header of this version, as numpy stores it.
    fn array(version: u8, kind: &str, len: usize, values: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({len},), }}\n");
        let length = header.len() as u32;
        let length = if version == 1 { (length as u16).to_le_bytes().to_vec() } else { length.to_le_bytes().to_vec() };
        [b"\x93NUMPY", &[version, 0][..], &length, header.as_bytes(), values].concat()
    }

    fn bytes<const N: usize>(values: &[[u8; N]]) -> Vec<u8> {
        values.concat()
    }

    /// Two hits of events 3 and 4.
    fn hits() -> Vec<(&'static str, Vec<u8>)> {
        let integers = |values: [u32; 2]| array(1, "<u4", 2, &bytes(&values.map(u32::to_le_bytes)));
        vec![("event", integers([3, 4])), ("lhcb_id", integers([7, 8]))]
    }

    fn archive(method: CompressionMethod, arrays: &[(&str, Vec<u8>)]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut zip = ZipArchiveWriter::new(file.reopen().unwrap());
        for (name, array) in arrays {
            let (mut entry, writer) =
                zip.new_file(format!("{name}.npy").as_str()).compression_method(method).start().unwrap();
            let mut writer = writer.wrap(&mut entry);
            writer.write_all(array).unwrap();
            let (_, descriptor) = writer.finish().unwrap();
            entry.finish(descriptor).unwrap();
        }
        zip.finish().unwrap();
        file
    }

    fn open(method: CompressionMethod, arrays: &[(&str, Vec<u8>)]) -> Result<HitReader, String> {
        HitReader::open(archive(method, arrays).path(), &Names::default()).map_err(|error| error.to_string())
    }

    /// The values of a column, and the files of the events, of the two hits and more arrays.
    fn read(name: &str, more: Vec<(&str, Vec<u8>)>) -> (Vec<Cell>, Vec<u64>) {
        let mut reader = open(CompressionMethod::STORE, &[hits(), more].concat()).unwrap();
        let at = reader.columns().iter().position(|column| column.name == name).unwrap();
        let (mut values, mut files, mut event) = (Vec::new(), Vec::new(), EventOfFile::default());
        while reader.next_event(&mut event).unwrap() {
            values.extend(&event.columns[at]);
            files.push(event.place.0);
        }
        (values, files)
    }

    #[test]
    fn arrays_of_other_programs_are_read_by_what_their_headers_say() {
        let doubles = bytes(&[0.1_f64.to_le_bytes(), 2.5_f64.to_le_bytes()]);
        let floats = [0.1_f32, 2.5].map(|value| Some(value.to_bits().into()));
        assert_eq!(read("weight", vec![("weight", array(1, "<f8", 2, &doubles))]).0, floats);
        assert_eq!(read("layer", vec![("layer", array(2, "|u1", 2, &[3, 2]))]).0, [Some(3), Some(2)]);
        let null = vec![("run", array(1, "|u1", 2, &[5, 6])), ("run_null", array(1, "|b1", 2, &[0, 1]))];
        assert_eq!(read("run", null).0, [Some(5), None]);
        assert_eq!(read("event", vec![("file", array(1, "|u1", 2, &[0, 2]))]).1, [0, 1]);
    }

    #[test]
    fn an_array_with_a_changed_byte_is_damaged() {
        let more = vec![("file", array(1, "|u1", 2, &[0, 1])), ("files", array(1, "<U1", 2, b"a\0\0\0b\0\0\0"))];
        let arrays =
            [hits(), vec![("run", array(1, "<u4", 2, &[0; 8])), ("run_null", array(1, "|b1", 2, &[0; 2]))], more];
        let arrays = arrays.concat();
        let file = archive(CompressionMethod::STORE, &arrays);
        let whole = std::fs::read(file.path()).unwrap();
        let read = |bytes: &[u8]| -> Result<usize, String> {
            std::fs::write(file.path(), bytes).unwrap();
            let mut reader = HitReader::open(file.path(), &Names::default()).map_err(|error| error.to_string())?;
            let (mut events, mut event) = (0, EventOfFile::default());
            while reader.next_event(&mut event).map_err(|error| error.to_string())? {
                events += 1;
            }
            Ok(events)
        };
        assert_eq!(read(&whole), Ok(2));
        for (name, array) in &arrays {
            let start = whole.windows(array.len()).position(|window| window == array).unwrap();
            let values = start + array.iter().position(|&byte| byte == b'\n').unwrap() + 1;
            // Files of other programs may have anything for `file` and `files`, which then are left alone.
            let first = if name.starts_with("file") { values } else { start };
            for at in first..start + array.len() {
                let mut changed = whole.clone();
                changed[at] ^= 1;
                let error = read(&changed).expect_err(&format!("byte {} of {name}", at - start));
                assert!(error.contains(&format!("array {name}")), "{error}");
                assert!(at < values || error.contains("it is damaged: its checksum is "), "{error}");
            }
        }
    }

    #[test]
    fn arrays_that_do_not_belong_together_are_refused() {
        let with = |name, array| [hits(), vec![(name, array)]].concat();
        for (arrays, what) in [
            (with("weight", array(1, "<f4", 1, &[0; 4])), "array weight has 1 values, event has 2"),
            (
                [with("run", array(1, "|u1", 2, &[5, 6])), vec![("run_null", array(1, "|b1", 1, &[0]))]].concat(),
                "array run_null has 1 values, event has 2",
            ),
            (with("file", array(1, "|u1", 3, &[0; 3])), "array file has 3 values, event has 2"),
            (with("weight", array(1, "<u4", 2, &[0; 8])), "array weight is of another type"),
            (with("run", array(1, "<f4", 2, &[0; 8])), "array run is of another type"),
            (with("run", array(1, "|u1", 3, &[0; 2])), "array run: its size is not what its header says"),
            // A file of something else, whose only known array says how many values there are.
            (vec![("file", array(1, "|u1", 3, &[0; 3]))], "no column event"),
        ] {
            let error = open(CompressionMethod::STORE, &arrays).err().unwrap();
            assert!(error.contains(what), "{error}, and not {what}");
        }
        let error = open(CompressionMethod::DEFLATE, &hits()).err().unwrap();
        assert!(error.contains("array event: it is compressed"), "{error}");
    }
}
