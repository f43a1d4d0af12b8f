//! Checks what the library believes of a Parquet file: how deep its schema is nested, how many values a page has, and how
//! large its pages are. A file of a few kilobytes can claim so much that memory or stack would not suffice, and the program
//! would end. Other damage is an error of the library, or a panic that is caught.

use std::fs::File;
use std::io::Read;

use ::parquet::basic::Compression;
use ::parquet::file::metadata::ColumnChunkMetaData;
use ::parquet::file::reader::{ChunkReader, Length};

/// The largest footer, in bytes. Files of this program have some kilobytes a batch.
const MAX_FOOTER: u64 = 128 << 20;

/// The largest header of a page, in bytes; and what nearly all fit in.
const MAX_HEADER: u64 = 1 << 16;
const USUAL_HEADER: u64 = 1 << 8;

/// How deep groups of a schema may be nested.
const MAX_DEPTH: usize = 32;

/// What the pages of a row group that are in memory at once may take, in bytes: one page of each column, and the dictionaries.
const MAX_PAGES: u64 = 512 << 20;

/// What a value of a dictionary takes in memory, in bytes.
const DICTIONARY_VALUE: u64 = 32;

/// A value in Thrift's compact protocol, in which footers and page headers are written.
enum Item {
    Struct,
    Number(i64),
    /// One of another type, by the number of that type.
    Other(u8),
}

/// What is left to read.
struct Thrift<'a>(&'a [u8]);

impl Thrift<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    fn skip(&mut self, n: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(n).ok()?..)?;
        Some(())
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let value = self.unsigned()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Goes through a struct, and tells `found` of everything in it, with the fields that lead there. `None` where it is
    /// none, or has fields out of order: the library might read another number then than is told of here.
    fn walk(&mut self, found: &mut dyn FnMut(&[i64], Item)) -> Option<()> {
        self.value(12, &mut Vec::new(), 0, found)
    }

    fn value(
        &mut self,
        kind: u8,
        path: &mut Vec<i64>,
        depth: usize,
        found: &mut dyn FnMut(&[i64], Item),
    ) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        if !matches!(kind, 4..=6 | 12) {
            found(path, Item::Other(kind));
        }
        match kind {
            // A field's type says whether it is true.
            1 | 2 => {}
            3 => self.skip(1)?,
            4..=6 => found(path, Item::Number(self.signed()?)),
            7 => self.skip(8)?,
            8 => {
                let n = self.unsigned()?;
                self.skip(n)?;
            }
            9 | 10 => {
                let (kind, few) = self.byte().map(|byte| (byte & 15, u64::from(byte >> 4)))?;
                let n = if few == 15 { self.unsigned()? } else { few };
                match kind {
                    1..=3 => self.skip(n)?,
                    // Anything else takes a byte at least, so the bytes end before a false number does.
                    _ => (0..n).try_for_each(|_| self.value(kind, path, depth + 1, found))?,
                }
            }
            12 => {
                found(path, Item::Struct);
                let mut last = 0;
                loop {
                    let head = self.byte()?;
                    if head == 0 {
                        return Some(());
                    }
                    let id = if head < 16 { self.signed()? } else { last + i64::from(head >> 4) };
                    if id <= last || id > 1000 {
                        return None;
                    }
                    last = id;
                    path.push(id);
                    self.value(head & 15, path, depth + 1, found)?;
                    path.pop();
                }
            }
            _ => return None,
        }
        Some(())
    }
}

/// Checks the footer of a file. Where it has none, the library says so.
pub fn footer(file: &File) -> Result<(), String> {
    let size = Length::len(file);
    let io = |error: std::io::Error| error.to_string();
    let read = |at: u64, n: u64| {
        let mut bytes = Vec::new();
        file.get_read(at).map_err(|error| error.to_string())?.take(n).read_to_end(&mut bytes).map_err(io)?;
        Ok::<_, String>(bytes)
    };
    let Some(end) = size.checked_sub(8) else { return Ok(()) };
    let Some((length, b"PAR1")) = read(end, 8)?.split_first_chunk().map(|(a, b)| (u32::from_le_bytes(*a), b)) else {
        return Ok(());
    };
    let Some(begin) = end.checked_sub(length.into()) else { return Ok(()) };
    if u64::from(length) > MAX_FOOTER {
        return Err(format!("its footer of {length} bytes is larger than {} MiB", MAX_FOOTER >> 20));
    }
    schema(&read(begin, length.into())?)
}

/// Whether this is what the library expects there. It skips fields that it does not know, and checks the lists after the
/// schema itself.
fn is_expected(path: &[i64], item: &Item) -> bool {
    let is_free = matches!(path, [3..=i64::MAX, ..] | [2, 11..=i64::MAX, ..] | [2, 10, 19..=i64::MAX, ..]);
    is_free
        || match item {
            // Elements, their logical types, and the units of times.
            Item::Struct => matches!(path, [] | [2] | [2, 10] | [2, 10, _] | [2, 10, 7 | 8, 2] | [2, 10, 7 | 8, 2, _]),
            Item::Number(_) => matches!(path, [1] | [2, 1..=3 | 5..=9] | [2, 10, 5, 1 | 2] | [2, 10, 18, 2]),
            // Whether a time is adjusted and an integer signed.
            Item::Other(1 | 2) => matches!(path, [2, 10, 7 | 8, 1] | [2, 10, 10, 2]),
            // Bits of an integer, and a version.
            Item::Other(3) => matches!(path, [2, 10, 10 | 16, 1]),
            // Names.
            Item::Other(8) => matches!(path, [2, 4] | [2, 10, 17 | 18, 1]),
            Item::Other(kind) => matches!(kind, 9 | 10) && path == [2],
        }
}

/// Checks the schema of a footer: the children that each of its elements claims.
fn schema(footer: &[u8]) -> Result<(), String> {
    let (mut children, mut is_list, mut is_sound) = (Vec::new(), false, true);
    let walked = Thrift(footer).walk(&mut |path, item| {
        // The library does not look at types: with another one it would read the rest from the wrong byte on.
        is_sound &= is_expected(path, &item) && (path != [2] || is_list != matches!(item, Item::Other(_)));
        match (path, item) {
            ([2], Item::Other(_)) => is_list = true,
            ([2], Item::Struct) => children.push(0),
            ([2, 5], Item::Number(n)) => *children.last_mut().expect("behind its element") = n,
            _ => {}
        }
    });
    walked.filter(|()| is_sound).ok_or("its footer is damaged")?;
    // Of each group that is open: children to come.
    let mut open: Vec<i64> = Vec::new();
    for &n in &children {
        if n < 0 || n > children.len() as i64 {
            return Err(format!("its schema is damaged: a group of {n} columns"));
        }
        open.push(n);
        if open.len() > MAX_DEPTH {
            return Err(format!("its schema is nested more than {MAX_DEPTH} deep"));
        }
        while open.pop_if(|left| *left == 0).is_some() {
            if let Some(left) = open.last_mut() {
                *left -= 1;
            }
        }
    }
    Ok(())
}

/// The header of a page.
#[derive(Debug, Default, PartialEq, Eq)]
struct Header {
    /// Its own bytes, and those of the page in the file and unpacked.
    length: u64,
    packed: i32,
    unpacked: i32,
    /// Values of a dictionary.
    dictionary: i32,
    encoding: i32,
}

impl Header {
    /// The header at the beginning of `bytes`; `None` if there is none, or not all of it.
    fn of(bytes: &[u8]) -> Option<Self> {
        let mut header = Self::default();
        let mut rest = Thrift(bytes);
        // Its kind and its sizes. Zeros are a struct without any field, and one a byte would keep us busy for hours.
        let (mut required, mut is_sound) = (0, true);
        rest.walk(&mut |path, item| match (path, item) {
            // Statistics, which the library skips.
            ([5, 5, ..] | [8, 8, ..], _) | ([] | [5..=8], Item::Struct) | ([7, 3] | [8, 7], Item::Other(_)) => {}
            ([1..=4] | [5 | 7 | 8, _], Item::Number(n)) => {
                // The library takes the lower half of a larger number.
                let Ok(n) = i32::try_from(n) else { return is_sound = false };
                match path {
                    [1] => required += 1,
                    [2] => (header.unpacked, required) = (n, required + 1),
                    [3] => (header.packed, required) = (n, required + 1),
                    [5 | 7, 2] | [8, 4] => header.encoding = n,
                    [7, 1] => header.dictionary = n,
                    _ => {}
                }
            }
            // The library does not look at types: it would read a number here.
            _ => is_sound = false,
        })?;
        header.length = (bytes.len() - rest.0.len()) as u64;
        (is_sound && required == 3).then_some(header)
    }

    /// What the page takes in memory, in bytes.
    fn takes(&self) -> Result<u64, String> {
        let [packed, unpacked, dictionary] =
            [self.packed, self.unpacked, self.dictionary].map(|n| u64::try_from(n).map_err(|_| "a negative size"));
        let (packed, unpacked, dictionary) = (packed?, unpacked?, dictionary?);
        if dictionary > unpacked {
            return Err(format!("a dictionary of {dictionary} values in {unpacked} bytes"));
        }
        // The library believes the number of strings that these claim.
        let believed = match self.encoding {
            6 => Some("DELTA_LENGTH_BYTE_ARRAY"),
            7 => Some("DELTA_BYTE_ARRAY"),
            _ => None,
        };
        if let Some(encoding) = believed {
            return Err(format!("the encoding {encoding} is not supported; rewrite it with a dictionary"));
        }
        Ok(packed + unpacked + DICTIONARY_VALUE * dictionary)
    }
}

/// Checks the columns of a row group that are read: their pages, one after the other.
pub fn pages<'a>(file: &File, columns: impl Iterator<Item = &'a ColumnChunkMetaData>) -> Result<(), String> {
    let mut all = 0;
    for column in columns {
        let wrong = |what: &str| format!("column {}: {what}", column.column_path().string());
        let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
        let (Ok(mut at), Ok(mut left)) = (u64::try_from(start), u64::try_from(column.compressed_size())) else {
            return Err(wrong("a negative place or size"));
        };
        if column.compression() == Compression::LZ4 {
            return Err(wrong(
                "its compression is the former LZ4, which says no sizes; rewrite it with snappy, zstd or lz4",
            ));
        }
        let (mut dictionaries, mut largest) = (0, 0);
        while left > 0 {
            let header = header(file, at, left)?.ok_or_else(|| wrong(&format!("no page begins at byte {at}")))?;
            let takes = header.takes().map_err(|what| wrong(&format!("page at byte {at}: {what}")))?;
            if header.dictionary > 0 {
                dictionaries += takes;
            } else {
                largest = takes.max(largest);
            }
            if all + dictionaries + largest > MAX_PAGES {
                let most = MAX_PAGES >> 20;
                return Err(wrong(&format!("page at byte {at}: more than {most} MiB for one page of each column")));
            }
            let page = header.length + header.packed as u64;
            left = left.checked_sub(page).ok_or_else(|| wrong(&format!("the page at byte {at} is too long")))?;
            at += page;
        }
        all += dictionaries + largest;
    }
    Ok(())
}

fn header(file: &File, at: u64, left: u64) -> Result<Option<Header>, String> {
    for most in [USUAL_HEADER, MAX_HEADER] {
        let mut bytes = Vec::new();
        let read = file.get_read(at).map_err(|error| error.to_string())?.take(most.min(left)).read_to_end(&mut bytes);
        read.map_err(|error| error.to_string())?;
        if let Some(header) = Header::of(&bytes) {
            return Ok(Some(header));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, SeekFrom, Write as _};
    use std::sync::Arc;

    use ::parquet::basic::Compression;
    use ::parquet::file::metadata::ColumnChunkMetaData;
    use ::parquet::schema::parser::parse_message_type;
    use ::parquet::schema::types::SchemaDescriptor;

    use super::{Header, MAX_DEPTH, pages, schema};

    /// A field of a struct: its distance to the one before, its type and its bytes.
    type Field<'a> = (u8, u8, &'a [u8]);

    /// Fields of a struct, and its end.
    fn fields(of: &[Field<'_>]) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            of.iter().flat_map(|(by, kind, value)| [&[by << 4 | kind][..], value].concat()).collect();
        bytes.push(0);
        bytes
    }

    /// A footer whose schema has elements with so many children.
    fn footer(children: &[u8]) -> Vec<u8> {
        let mut list = vec![0xfc, children.len() as u8];
        for &n in children {
            list.extend(fields(&[(4, 8, b"\x01x"), (1, 5, &[2 * n])]));
        }
        // A version, the schema, a number of rows, and what nobody asks for.
        fields(&[(1, 5, &[2]), (1, 9, &list), (1, 6, &[0x80, 1]), (2, 9, &[0x21, 1, 2]), (1, 1, &[]), (1, 7, &[0; 8])])
    }

    #[test]
    fn a_schema_has_as_many_elements_as_it_claims_and_is_not_deep() {
        for good in [&[2, 0, 0][..], &[2, 1, 0, 0], &[0], &[]] {
            assert_eq!(schema(&footer(good)), Ok(()), "{good:?}");
        }
        // Groups beside each other are not deep.
        assert_eq!(schema(&footer(&[&[MAX_DEPTH as u8 + 1][..], &[1, 0].repeat(MAX_DEPTH + 1)].concat())), Ok(()));
        let mut deep = [1; MAX_DEPTH];
        deep[MAX_DEPTH - 1] = 0;
        assert_eq!(schema(&footer(&deep)), Ok(()));
        let error = |children: &[u8]| schema(&footer(children)).unwrap_err();
        assert!(error(&[[1].as_slice(), &deep].concat()).contains("more than 32 deep"));
        assert!(error(&[4, 0, 0]).contains("a group of 4 columns"));
        // One group of -1.
        let negative = fields(&[(2, 9, &[&[0x1c][..], &fields(&[(5, 5, &[1])])].concat())]);
        assert!(schema(&negative).unwrap_err().contains("a group of -1 columns"));
    }

    #[test]
    fn a_footer_that_is_cut_or_misleads_is_damaged() {
        let whole = footer(&[2, 0, 0]);
        for n in 0..whole.len() {
            assert!(schema(&whole[..n]).is_err(), "{n}");
        }
        let damaged = |bytes: &[u8]| assert_eq!(schema(bytes), Err("its footer is damaged".to_owned()), "{bytes:?}");
        // The same field twice; a list of 2^31 structs; a map; a string of 2^63 bytes; a number without end; more
        // lists of lists than the stack has room for.
        damaged(&[0x15, 2, 5, 2, 2, 0]);
        damaged(&[0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 7, 0, 0]);
        damaged(&[0x1b, 0, 0]);
        damaged(&[&[0x18][..], &[0xff; 8], &[0x7f, 0]].concat());
        damaged(&[&[0x16][..], &[0xff; 11], &[0, 0]].concat());
        damaged(&[vec![0x19; 100_000], vec![0; 100_000]].concat());
        assert_eq!(schema(&[&[0x39][..], &[0x19; 7], &[0, 0]].concat()), Ok(()));
    }

    #[test]
    fn a_schema_of_other_types_than_the_library_expects_is_damaged() {
        // An element with these fields behind its name.
        let schema = |of: &[Field<'_>]| {
            let element = fields(&[&[(4, 8, &b"\x01x"[..])][..], of].concat());
            schema(&fields(&[(1, 5, &[2]), (1, 9, &[&[0x1c][..], &element].concat())]))
        };
        // A logical type.
        let logical = |kind: u8, of: &[Field<'_>]| schema(&[(6, 12, &fields(&[(kind, 12, &fields(of))]))]);
        let unit = fields(&[(1, 12, &[0])]);
        assert_eq!(schema(&[(1, 5, &[0]), (1, 5, &[2]), (3, 5, &[2])]), Ok(()));
        let good: [(u8, &[Field<'_>]); 4] = [
            (1, &[]),
            (5, &[(1, 5, &[2]), (1, 5, &[4])]),
            (8, &[(1, 1, &[]), (1, 12, &unit)]),
            (10, &[(1, 3, &[64]), (1, 2, &[])]),
        ];
        for (kind, good) in good {
            assert_eq!(logical(kind, good), Ok(()), "{kind}");
        }
        let damaged = Err("its footer is damaged".to_owned());
        // Children as a byte and as text, a number as a struct, and in a logical type a scale as text.
        let wrong: [Field<'_>; 3] = [(1, 3, &[0x7e]), (1, 8, &[1, 0x7e]), (2, 12, &[0])];
        for wrong in wrong {
            assert_eq!(schema(&[wrong]), damaged, "{wrong:?}");
        }
        assert_eq!(logical(5, &[(1, 8, &[1, 1])]), damaged);
        // A version that is text, and one element in place of a list.
        assert_eq!(super::schema(&fields(&[(1, 8, &[1, 1])])), damaged);
        assert_eq!(super::schema(&fields(&[(2, 12, &fields(&[(5, 5, &[2])]))])), damaged);
    }

    #[test]
    fn a_footer_of_many_row_groups_is_read_and_one_that_is_too_large_is_not() {
        let footer = |mib: u32| {
            let mut file = tempfile::tempfile().unwrap();
            let length = mib << 20;
            file.set_len(length.into()).unwrap();
            file.seek(SeekFrom::End(0)).unwrap();
            file.write_all(&[&length.to_le_bytes()[..], b"PAR1"].concat()).unwrap();
            super::footer(&file)
        };
        assert_eq!(footer(64), Ok(()));
        assert!(footer(129).unwrap_err().contains("larger than 128 MiB"));
    }

    #[test]
    fn pages_are_measured_by_their_headers() {
        // A page of the first kind with 3 values, plain, and statistics; 300 bytes, 100 in the file.
        let statistics = fields(&[(1, 8, b"\x02ab"), (2, 6, &[0])]);
        let data = fields(&[(1, 5, &[6]), (1, 5, &[0]), (1, 5, &[6]), (1, 5, &[6]), (1, 12, &statistics)]);
        let page = fields(&[(1, 5, &[0]), (1, 5, &[0xd8, 4]), (1, 5, &[0xc8, 1]), (2, 12, &data)]);
        let header = Header::of(&[&page[..], &[7; 100]].concat()).unwrap();
        let expected = Header { length: page.len() as u64, packed: 100, unpacked: 300, dictionary: 0, encoding: 0 };
        assert_eq!((&header, header.takes()), (&expected, Ok(400)));
        assert_eq!(Header::of(&page[..page.len() - 1]), None);

        let of_dictionary = fields(&[(1, 5, &[20]), (1, 5, &[0])]);
        let dictionary = fields(&[(1, 5, &[4]), (1, 5, &[20]), (1, 5, &[20]), (4, 12, &of_dictionary)]);
        let header = Header::of(&dictionary).unwrap();
        assert_eq!((header.dictionary, header.takes()), (10, Ok(20 + 320)));
        assert!(Header { dictionary: 11, ..header }.takes().unwrap_err().contains("11 values in 10 bytes"));
        for wrong in [Header { packed: -1, ..expected }, Header { unpacked: -1, ..expected }] {
            assert!(wrong.takes().unwrap_err().contains("negative"), "{wrong:?}");
        }
        // The second kind has its encoding behind the numbers of values, nulls and rows.
        for (encoding, name) in [(12, "DELTA_LENGTH_BYTE_ARRAY"), (14, " DELTA_BYTE_ARRAY")] {
            let data = fields(&[(1, 5, &[6]), (1, 5, &[0]), (1, 5, &[6]), (1, 5, &[encoding])]);
            let page = fields(&[(1, 5, &[6]), (1, 5, &[10]), (1, 5, &[10]), (5, 12, &data)]);
            assert!(Header::of(&page).unwrap().takes().unwrap_err().contains(name));
        }
    }

    #[test]
    fn what_the_library_would_read_as_another_number_is_no_header() {
        let number = |mut n: u64| {
            n <<= 1;
            let mut bytes = Vec::new();
            while n >= 0x80 {
                bytes.push(n as u8 | 0x80);
                n >>= 7;
            }
            bytes.push(n as u8);
            bytes
        };
        let page = |unpacked: &[u8], packed: &[u8], encoding: (u8, &[u8])| {
            let data = fields(&[(1, 5, &[6]), (1, encoding.0, encoding.1), (1, 5, &[6]), (1, 5, &[6])]);
            fields(&[(1, 5, &[0]), (1, 5, unpacked), (1, 5, packed), (2, 12, &data)])
        };
        let ten = &number(10)[..];
        assert!(Header::of(&page(ten, ten, (5, &[0]))).is_some());
        for encoding in [6, 7] {
            assert_eq!(Header::of(&page(ten, ten, (5, &number((1 << 32) + encoding)))), None);
            // A byte, which the library reads as a number.
            assert_eq!(Header::of(&page(ten, ten, (3, &number(encoding)))), None);
        }
        // Text, whose length it reads as a number.
        assert_eq!(Header::of(&page(ten, ten, (8, &[12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]))), None);
        assert_eq!(Header::of(&page(&number((1 << 32) + 1), ten, (5, &[0]))), None);
        assert_eq!(Header::of(&page(ten, &number((1 << 32) + 1), (5, &[0]))), None);
        // Together, what these would take is 0 in 64 bits.
        let huge = number(1 << 62);
        let head = fields(&[(1, 5, &number(1 << 58)), (1, 5, &[0])]);
        let dictionary = fields(&[(1, 5, &[4]), (1, 5, &huge), (1, 5, &huge), (4, 12, &head)]);
        assert_eq!(Header::of(&dictionary), None);
    }

    /// The header of a page of values, with its sizes in the file and unpacked; both below 2^20.
    fn page_of(packed: u32, unpacked: u32) -> Vec<u8> {
        let size = |n: u32| [n << 1, n >> 6, n >> 13].map(|n| (n & 0x7f) as u8 | 0x80);
        let number = |n| [&size(n)[..], &[0]].concat();
        let data = fields(&[(1, 5, &[6]), (1, 5, &[0])]);
        fields(&[(1, 5, &[0]), (1, 5, &number(unpacked)), (1, 5, &number(packed)), (2, 12, &data)])
    }

    /// What is wrong with so many columns that all have these bytes, of which they claim `size`.
    fn wrong(bytes: &[u8], size: i64, columns: usize, compression: Compression) -> Result<(), String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let schema = Arc::new(parse_message_type("message hits { required int64 event; }").unwrap());
        let column = ColumnChunkMetaData::builder(SchemaDescriptor::new(schema).column(0))
            .set_data_page_offset(0)
            .set_total_compressed_size(size)
            .set_compression(compression)
            .build()
            .unwrap();
        pages(&file, std::iter::repeat_n(&column, columns))
    }

    #[test]
    fn pages_follow_each_other_to_the_end_of_their_column() {
        let two = [page_of(3, 3), vec![7; 3], page_of(2, 2), vec![7; 2]].concat();
        let wrong = |size| wrong(&two, size, 1, Compression::UNCOMPRESSED);
        let n = two.len() as i64;
        assert_eq!(wrong(n), Ok(()));
        assert_eq!(wrong(0), Ok(()));
        assert!(wrong(n - 1).unwrap_err().contains("column event: the page at byte 22 is too long"));
        assert!(wrong(n + 1).unwrap_err().contains("column event: no page begins at byte 43"));
        assert!(wrong(-1).unwrap_err().contains("a negative place or size"));
    }

    #[test]
    fn zeros_are_no_pages() {
        let error = wrong(&[0; 1000], 1000, 1, Compression::UNCOMPRESSED).unwrap_err();
        assert!(error.contains("no page begins at byte 0"), "{error}");
        // The kind alone, and without one of the sizes.
        for fields in
            [fields(&[(1, 5, &[0])]), fields(&[(1, 5, &[0]), (1, 5, &[2])]), fields(&[(1, 5, &[0]), (2, 5, &[2])])]
        {
            assert_eq!(Header::of(&fields), None);
        }
    }

    #[test]
    fn a_header_longer_than_most_is_read() {
        // Statistics of strings.
        let text = [&[0x80, 4][..], &[b'x'; 512]].concat();
        let data = fields(&[(1, 5, &[6]), (1, 5, &[0]), (3, 12, &fields(&[(1, 8, &text)]))]);
        let page = fields(&[(1, 5, &[0]), (1, 5, &[0]), (1, 5, &[0]), (2, 12, &data)]);
        assert_eq!(wrong(&page, page.len() as i64, 1, Compression::UNCOMPRESSED), Ok(()));
    }

    #[test]
    fn the_largest_pages_of_all_columns_fit_in_memory() {
        // Each 1 MiB - 1 unpacked, and nothing in the file.
        let page = page_of(0, (1 << 20) - 1);
        let of = |pages: usize, columns| {
            let bytes = page.repeat(pages);
            wrong(&bytes, bytes.len() as i64, columns, Compression::UNCOMPRESSED)
        };
        assert_eq!(of(1, 512), Ok(()));
        assert_eq!(of(1000, 1), Ok(()));
        assert!(of(1, 513).unwrap_err().contains("more than 512 MiB"));
        // Dictionaries stay.
        let head = fields(&[(1, 5, &[2]), (1, 5, &[0])]);
        let dictionary = fields(&[(1, 5, &[4]), (1, 5, &[0xfe, 0xff, 0x7f]), (1, 5, &[0]), (4, 12, &head)]);
        let bytes = dictionary.repeat(513);
        assert!(wrong(&bytes, bytes.len() as i64, 1, Compression::UNCOMPRESSED).unwrap_err().contains("512 MiB"));
    }

    #[test]
    fn the_former_lz4_is_refused() {
        let error = wrong(&page_of(0, 0), 0, 1, Compression::LZ4).unwrap_err();
        assert!(error.contains("the former LZ4"), "{error}");
    }
}
