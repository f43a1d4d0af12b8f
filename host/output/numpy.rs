//! Hits as a NumPy `.npz` file: one array a column, as `numpy.savez` stores them.
//!
//! An archive has its members one after the other, and hits come batch by batch: so each column is collected in a
//! temporary file without a name, and all are put together at the end. They are not compressed, as numpy's own are not,
//! so that they can be read at any place.

use std::fs::File;
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write};
use std::path::Path;

use rawzip::{CompressionMethod, ZipArchiveWriter};

use super::{ColumnType, DetectorColumn, NULL, NewFile, Provenance, Rows};

/// A column of hits in the making.
struct Array {
    name: &'static str,
    kind: &'static str,
    values: BufWriter<File>,
    /// A byte a value, 1 where it is null; only if any is.
    nulls: Option<BufWriter<File>>,
}

/// Values of a column: little-endian bytes, and which of them are null, if any is.
#[derive(Default)]
struct Values {
    bytes: Vec<u8>,
    nulls: Vec<u8>,
}

/// The hits of a batch.
pub struct Arrays {
    columns: Vec<Values>,
    /// Ends of the groups, counted from the batch's first hit.
    ends: Vec<u32>,
    n_groups: usize,
    n_hits: u64,
}

impl Arrays {
    /// Encodes the hits of a batch.
    pub fn encode(rows: &Rows<'_>, detector: &[DetectorColumn]) -> Self {
        let hits = rows.hits;
        let event = |e: usize| Some(rows.origins[e].event.to_le_bytes());
        let run = |e: usize| rows.meta.get(e)?.run.map(u32::to_le_bytes);
        let number = |e: usize| rows.meta.get(e)?.event.map(u64::to_le_bytes);
        let file = |e: usize| Some(rows.origins[e].file.to_le_bytes());
        let mut groups = Vec::with_capacity(2 * hits.len());
        let mut begin = 0;
        for (i, &end) in hits.offsets().iter().skip(1).enumerate() {
            groups.extend(((i % hits.n_groups()) as u16).to_le_bytes().repeat((end - begin) as usize));
            begin = end;
        }
        let plain = |bytes: Vec<u8>| Values { bytes, nulls: Vec::new() };
        let words = |words: &[u32]| plain(words.iter().flat_map(|word| word.to_le_bytes()).collect());
        let mut columns = vec![
            of_events(rows, event),
            of_events(rows, run),
            of_events(rows, number),
            plain(groups),
            words(hits.id()),
        ];
        let floats = [hits.x_at_y_eq0(), hits.z_at_y_eq0(), hits.y_begin(), hits.y_end(), hits.dx_dy(), hits.weight()];
        columns.extend(floats.map(|array| words(bytemuck::cast_slice(array))));
        columns.push(of_events(rows, file));
        for column in detector {
            let values = column.values(rows.tables, hits);
            let nulls = values.contains(&NULL);
            let nulls = if nulls { values.iter().map(|&value| u8::from(value == NULL)).collect() } else { Vec::new() };
            let values = values.into_iter().map(|value| if value == NULL { 0 } else { value });
            let bytes = match column.kind() {
                ColumnType::U16 => values.flat_map(u16::to_le_bytes).collect(),
                ColumnType::U8 | ColumnType::Bool => values.map(|value| value as u8).collect(),
            };
            columns.push(Values { bytes, nulls });
        }
        let ends = hits.offsets().get(1..).unwrap_or_default().to_vec();
        Self { columns, ends, n_groups: hits.n_groups(), n_hits: hits.len() as u64 }
    }
}

/// A column that has the same value in every hit of an event.
fn of_events<const N: usize>(rows: &Rows<'_>, value: impl Fn(usize) -> Option<[u8; N]>) -> Values {
    let hits = rows.hits;
    let (mut values, groups) = (Values::default(), hits.n_groups());
    for e in 0..hits.n_events() {
        let n = (hits.offsets()[(e + 1) * groups] - hits.offsets()[e * groups]) as usize;
        let value = value(e);
        if value.is_none() && n > 0 {
            values.nulls.resize(values.bytes.len() / N, 0);
            values.nulls.resize(values.bytes.len() / N + n, 1);
        }
        values.bytes.extend(value.unwrap_or([0; N]).repeat(n));
    }
    if !values.nulls.is_empty() {
        values.nulls.resize(values.bytes.len() / N, 0);
    }
    values
}

/// A NumPy file in the making.
pub struct NumpyWriter {
    target: NewFile,
    /// The inputs' names.
    files: Vec<String>,
    arrays: Vec<Array>,
    offsets: BufWriter<File>,
    n_groups: usize,
    n_offsets: u64,
    n_hits: u64,
    temporary: Box<dyn Fn() -> io::Result<File> + Send>,
}

impl NumpyWriter {
    /// Begins the file of the hits of the inputs `files`, in `n_groups` groups an event unless a batch has another number.
    ///
    /// # Errors
    /// When temporary files cannot be made.
    pub fn new(target: NewFile, files: &[String], detector: &[DetectorColumn], n_groups: usize) -> io::Result<Self> {
        // Beside the target, where there is room for it; a FIFO may be anywhere.
        let folder = target.folder().map_or_else(std::env::temp_dir, Path::to_path_buf);
        let temporary = Box::new(move || tempfile::tempfile_in(&folder));
        let plain = [
            ("event", "<u8"),
            ("run", "<u4"),
            ("event_number", "<u8"),
            ("group", "<u2"),
            ("lhcb_id", "<u4"),
            ("x_at_y_eq0", "<f4"),
            ("z_at_y_eq0", "<f4"),
            ("y_begin", "<f4"),
            ("y_end", "<f4"),
            ("dx_dy", "<f4"),
            ("weight", "<f4"),
            ("file", "<u4"),
        ];
        let detector = detector.iter().map(|column| match column.kind() {
            ColumnType::U8 => (column.name(), "|u1"),
            ColumnType::U16 => (column.name(), "<u2"),
            ColumnType::Bool => (column.name(), "|b1"),
        });
        let array = |(name, kind)| Ok(Array { name, kind, values: BufWriter::new(temporary()?), nulls: None });
        let arrays = plain.into_iter().chain(detector).map(array).collect::<io::Result<_>>()?;
        let mut offsets = BufWriter::new(temporary()?);
        offsets.write_all(&0u64.to_le_bytes())?;
        let files = files.to_vec();
        Ok(Self { target, files, arrays, offsets, n_groups, n_offsets: 1, n_hits: 0, temporary })
    }

    /// Writes the hits of a batch.
    ///
    /// # Errors
    /// When writing fails.
    pub fn append(&mut self, batch: &Arrays) -> io::Result<()> {
        for (array, Values { bytes, nulls }) in self.arrays.iter_mut().zip(&batch.columns) {
            array.values.write_all(bytes)?;
            if !nulls.is_empty() && array.nulls.is_none() {
                let mut before = BufWriter::new((self.temporary)()?);
                zeros(&mut before, self.n_hits)?;
                array.nulls = Some(before);
            }
            match &mut array.nulls {
                Some(to) if nulls.is_empty() => zeros(to, batch.n_hits)?,
                Some(to) => to.write_all(nulls)?,
                None => {}
            }
        }
        for &end in &batch.ends {
            self.offsets.write_all(&(self.n_hits + u64::from(end)).to_le_bytes())?;
        }
        self.n_offsets += batch.ends.len() as u64;
        self.n_hits += batch.n_hits;
        self.n_groups = batch.n_groups;
        Ok(())
    }

    /// Puts the arrays together, with the metadata, and hands the file back.
    ///
    /// # Errors
    /// When writing fails.
    pub fn finish(self, provenance: &Provenance) -> io::Result<NewFile> {
        let mut zip = ZipArchiveWriter::new(self.target);
        let mut member = |name: &str, kind: &str, shape: &str, values: &mut dyn io::Read| {
            let name = format!("{name}.npy");
            let file = zip.new_file(&name).compression_method(CompressionMethod::STORE);
            let (mut entry, checked) = file.start().map_err(io::Error::other)?;
            let mut checked = checked.wrap(&mut entry);
            checked.write_all(&header(kind, shape))?;
            io::copy(values, &mut checked)?;
            let (_, descriptor) = checked.finish().map_err(io::Error::other)?;
            entry.finish(descriptor).map(|_| ()).map_err(io::Error::other)
        };
        let line = format!("({},)", self.n_hits);
        for Array { name, kind, values, nulls } in self.arrays {
            member(name, kind, &line, &mut begin(values)?)?;
            if let Some(nulls) = nulls {
                member(&format!("{name}_null"), "|b1", &line, &mut begin(nulls)?)?;
            }
        }
        member("offsets", "<u8", &format!("({},)", self.n_offsets), &mut begin(self.offsets)?)?;
        member("n_groups", "<u8", "()", &mut &(self.n_groups as u64).to_le_bytes()[..])?;
        let (kind, bytes) = text(&self.files);
        member("files", &kind, &format!("({},)", self.files.len()), &mut &bytes[..])?;
        let complete = provenance.incomplete.is_none().to_string();
        // The names of the inputs are in `files`. As one text they would be the longest, which all others take the room of.
        let told = provenance.entries.iter().filter(|(key, _)| key != "inputs").cloned();
        let entries = told.chain([("complete".to_owned(), complete)]);
        let entries = entries.chain(provenance.incomplete.iter().map(|why| ("incomplete".to_owned(), why.clone())));
        let lines: Vec<String> = entries.flat_map(|(key, value)| [key, value]).collect();
        let (kind, bytes) = text(&lines);
        member("metadata", &kind, &format!("({}, 2)", lines.len() / 2), &mut &bytes[..])?;
        zip.finish().map_err(io::Error::other)
    }
}

fn zeros(to: &mut impl Write, n: u64) -> io::Result<()> {
    io::copy(&mut io::Read::take(io::repeat(0), n), to).map(|_| ())
}

/// The file from its beginning.
fn begin(file: BufWriter<File>) -> io::Result<File> {
    let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

/// The header of an array, version 1: magic, version, length, a dictionary of Python, blanks up to a multiple of 64.
fn header(kind: &str, shape: &str) -> Vec<u8> {
    let dictionary = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    let len = (10 + dictionary.len() + 1).next_multiple_of(64) - 10;
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend((len as u16).to_le_bytes());
    header.extend(format!("{dictionary:<width$}\n", width = len - 1).into_bytes());
    header
}

/// Texts as numpy holds them: 32 bits a character, all as long as the longest.
fn text(texts: &[String]) -> (String, Vec<u8>) {
    let len = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1);
    let padded = |text: &String| text.chars().chain(std::iter::repeat('\0')).take(len).collect::<Vec<_>>();
    let bytes = texts.iter().flat_map(padded).flat_map(|c| u32::from(c).to_le_bytes()).collect();
    (format!("<U{len}"), bytes)
}

#[cfg(test)]
mod tests {
    use super::{header, text};

    #[test]
    fn headers_end_on_a_multiple_of_64() {
        for n in [0, 1, 1_000_000, u64::MAX] {
            let header = header("<f4", &format!("({n},)"));
            assert!(header.len().is_multiple_of(64) && header.ends_with(b" \n"), "{n}");
            assert_eq!(usize::from(u16::from_le_bytes([header[8], header[9]])) + 10, header.len());
        }
        assert!(
            header("|u1", "()").starts_with(b"\x93NUMPY\x01\0v\0{'descr': '|u1', 'fortran_order': False, 'shape': ()")
        );
    }

    #[test]
    fn texts_are_as_long_as_the_longest() {
        let (kind, bytes) = text(&["ä".to_owned(), "bc".to_owned()]);
        assert_eq!((kind.as_str(), bytes.len(), &bytes[..8]), ("<U2", 16, &[0xE4, 0, 0, 0, 0, 0, 0, 0][..]));
        assert_eq!(text(&[]), ("<U1".to_owned(), Vec::new()));
    }
}
