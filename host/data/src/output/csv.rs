//! Hits as comma-separated values: one row per hit, in output order.
//!
//! Floats are written as plain decimals, the shortest that read back to the same f32. If two
//! decimals are equally short and equally near, the one with an even last digit is written, as by
//! C++'s `to_chars` and by numpy, so that files of other software are equal byte for byte. (Rust's
//! own formatting takes the larger one.)

use std::io::{self, Write};

use super::{Columns, NULL};
use crate::hits::UtHits;

const COLUMNS: &str = "event,group,lhcb_id,x_at_y_eq0,z_at_y_eq0,y_begin,y_end,dx_dy,weight";

const FLOATS: usize = 6;

/// Writes hits as CSV.
///
/// ```
/// use ut_data::{CsvWriter, UtHits};
///
/// let mut hits = UtHits::with_capacity(1, 1, 1);
/// let arrays = hits.begin(1, 1)?;
/// (arrays.id[0], arrays.x_at_y_eq0[0], arrays.offsets[1]) = (0x3040_0000, -12.5, 1);
///
/// let mut csv = CsvWriter::new(Vec::new())?;
/// csv.write(7, &hits)?;
/// let text = String::from_utf8(csv.finish()?)?;
/// assert_eq!(text.lines().nth(1), Some("7,0,809500672,-12.5,0,0,0,0,0"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CsvWriter<W> {
    output: W,
    rows: CsvRows,
    text: Vec<u8>,
}

impl<W: Write> CsvWriter<W> {
    /// Makes a writer, and writes the row of column names to `output`.
    pub fn new(mut output: W) -> io::Result<Self> {
        output.write_all(CsvRows::header(&Columns::default()).as_bytes())?;
        Ok(Self {
            output,
            rows: CsvRows::default(),
            text: Vec::new(),
        })
    }

    /// Writes the hits of a batch whose first event has the number `first_event`.
    pub fn write(&mut self, first_event: u64, hits: &UtHits) -> io::Result<()> {
        self.text.clear();
        self.rows
            .append(hits, |e| (first_event + e as u64, ""), &[], &mut self.text);
        self.output.write_all(&self.text)
    }

    /// Flushes the output, and returns it.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }
}

/// Formatter of rows. It keeps the last text of each column of floats, since successive hits share
/// many values.
#[derive(Debug)]
pub struct CsvRows {
    last: [(u32, Vec<u8>); FLOATS],
}

impl Default for CsvRows {
    fn default() -> Self {
        Self {
            last: std::array::from_fn(|_| (0, b",0".to_vec())),
        }
    }
}

impl CsvRows {
    /// Returns the row of column names.
    pub fn header(columns: &Columns) -> String {
        let Columns {
            file,
            run,
            event_number,
            detector,
        } = columns;
        let of_event = [(file, "file"), (run, "run"), (event_number, "event_number")];
        let of_event = of_event
            .into_iter()
            .filter(|(asked_for, _)| **asked_for)
            .map(|(_, name)| name);
        let names = of_event.chain(detector.iter().map(|column| column.name()));
        names.fold(COLUMNS.to_owned(), |header, name| header + "," + name) + "\n"
    }

    /// Appends the rows of a batch. `event_of` returns the number of an event, and its fields after
    /// the plain ones, each with a comma in front. `columns` follow, each with one value per hit.
    pub fn append<'a>(
        &mut self,
        hits: &UtHits,
        event_of: impl Fn(usize) -> (u64, &'a str),
        columns: &[Vec<u16>],
        text: &mut Vec<u8>,
    ) {
        let [x, z, begin, end] = [
            hits.x_at_y_eq0(),
            hits.z_at_y_eq0(),
            hits.y_begin(),
            hits.y_end(),
        ];
        let (slope, weight, id) = (hits.dx_dy(), hits.weight(), hits.id());
        let mut head = Vec::new();
        for e in 0..hits.n_events() {
            let (event, of_event) = event_of(e);
            for group in 0..hits.n_groups() {
                let range = hits.range(e, group);
                if range.is_empty() {
                    continue;
                }
                head.clear();
                push_integer(&mut head, event);
                head.push(b',');
                push_integer(&mut head, group as u64);
                head.push(b',');
                for i in range {
                    text.extend_from_slice(&head);
                    push_integer(text, u64::from(id[i]));
                    let values = [x[i], z[i], begin[i], end[i], slope[i], weight[i]];
                    for (value, (bits, last)) in values.into_iter().zip(&mut self.last) {
                        if *bits != value.to_bits() {
                            *bits = value.to_bits();
                            last.clear();
                            last.push(b',');
                            push_decimal(last, value);
                        }
                        text.extend_from_slice(last);
                    }
                    text.extend_from_slice(of_event.as_bytes());
                    for values in columns {
                        text.push(b',');
                        if values[i] != NULL {
                            push_integer(text, values[i].into());
                        }
                    }
                    text.push(b'\n');
                }
            }
        }
    }
}

/// Formats a text as a field of CSV, in quotes where needed.
///
/// ```
/// use ut_data::output::quoted;
///
/// assert_eq!(quoted("run.mdf"), "run.mdf");
/// assert_eq!(quoted("a,b.mdf"), "\"a,b.mdf\"");
/// ```
pub fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn push_integer(text: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[at..]);
}

fn push_decimal(text: &mut Vec<u8>, value: f32) {
    let mut buffer = zmij::Buffer::new();
    let shortest = buffer.format(value);
    match shortest.strip_suffix(".0") {
        Some(whole) => text.extend_from_slice(whole.as_bytes()),
        None if shortest.contains('e') => text.extend_from_slice(value.to_string().as_bytes()),
        None => text.extend_from_slice(shortest.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::{push_decimal, push_integer, quoted};

    #[test]
    fn floats_are_plain_decimals_with_ties_to_even_digits() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (2320.0, "2320"),
            (-631.615, "-631.615"),
            (190.015_63, "190.01562"),
            (-283.578_13, "-283.57812"),
            (0.08748867, "0.08748867"),
            (1e-7, "0.0000001"),
            (16_777_216.0, "16777216"),
            (f32::MAX, "340282350000000000000000000000000000000"),
        ] {
            let mut text = Vec::new();
            push_decimal(&mut text, value);
            let text = String::from_utf8(text).unwrap();
            assert_eq!(text, expected);
            assert_eq!(text.parse::<f32>().map(f32::to_bits), Ok(value.to_bits()));
        }
    }

    #[test]
    fn integers_and_names_are_written_whole() {
        for value in [0, 7, 10, 4_294_967_295, u64::MAX] {
            let mut text = b",".to_vec();
            push_integer(&mut text, value);
            assert_eq!(text, format!(",{value}").as_bytes());
        }
        assert_eq!(quoted("a.mdf"), "a.mdf");
        assert_eq!(quoted("a,\"b\".mdf"), "\"a,\"\"b\"\".mdf\"");
    }
}
