//! Hits out of NumPy's `.npz` files: arrays that were stored without compression, read side by side.

use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use rawzip::{CompressionMethod, RECOMMENDED_BUFFER_SIZE, ZipArchive};

use super::{Cell, Names, PIECE, Piece, ReadColumn, Source, Values, known};

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
    file: Option<Array>,
    left: u64,
}

/// A member of the archive.
struct Member {
    name: Vec<u8>,
    stored: bool,
    /// Where its bytes begin and end.
    range: (u64, u64),
}

/// An array of one dimension.
struct Array {
    name: String,
    /// Behind the header.
    bytes: BufReader<File>,
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
        let left = arrays.first().map_or(0, |array| array.len);
        if let Some(other) = arrays.iter().chain(nulls.iter().flatten()).chain(&file).find(|array| array.len != left) {
            return Err(format!("array {} has {} values, {} has {left}", other.name, other.len, arrays[0].name));
        }
        Ok(Self { columns, arrays, nulls, file, left })
    }
}

impl Source for NumpySource {
    fn columns(&self) -> &[ReadColumn] {
        &self.columns
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
            piece.files.extend(file.read(n)?);
        }
        Ok(())
    }
}

impl Array {
    /// Finds an array in the archive; `None` where there is none of this name.
    fn open(path: &Path, members: &[Member], name: &str) -> Result<Option<Self>, String> {
        let of_name = |member: &&Member| member.name.strip_suffix(b".npy") == Some(name.as_bytes());
        let Some(Member { stored, range, .. }) = members.iter().find(of_name) else { return Ok(None) };
        let wrong = |what: &str| format!("array {name}: {what}");
        if !stored {
            return Err(wrong("it is compressed; numpy.savez writes it without"));
        }
        let (start, size) = (range.0, range.1.saturating_sub(range.0));
        let mut bytes = File::open(path).map(BufReader::new).map_err(|error| wrong(&error.to_string()))?;
        bytes.seek(SeekFrom::Start(start)).map_err(|error| wrong(&error.to_string()))?;
        let mut read = |n: usize| {
            let mut buffer = vec![0; n];
            bytes.read_exact(&mut buffer).map_err(|error| wrong(&error.to_string())).map(|()| buffer)
        };
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
        let header = String::from_utf8(read(header_len)?).map_err(|_| wrong("its header is no text"))?;
        let Some((len, kind)) = shape(&header).zip(kind(&header)) else {
            return Err(wrong(&format!("not a one-dimensional, little-endian array of numbers: {}", header.trim())));
        };
        let head = 8 + length.len() as u64 + header_len as u64;
        if len.checked_mul(kind.size() as u64).and_then(|bytes| bytes.checked_add(head)) != Some(size) {
            return Err(wrong("its size is not what its header says"));
        }
        Ok(Some(Self { name: name.to_owned(), bytes, kind, len }))
    }

    /// The next `n` values.
    fn read(&mut self, n: usize) -> Result<impl Iterator<Item = u64>, String> {
        let mut bytes = vec![0; n * self.kind.size()];
        self.bytes.read_exact(&mut bytes).map_err(|error| format!("array {}: {error}", self.name))?;
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
        members.push(Member { name: entry.file_path().as_ref().to_vec(), stored, range });
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
