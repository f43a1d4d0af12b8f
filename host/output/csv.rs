//! Hits as comma-separated values: one row a hit, in output order.
//!
//! Floats are written as plain decimals, the shortest that reads back to the same f32. Where two of them are equally
//! short and equally near, the one with an even last digit is taken, as C++'s `to_chars` and numpy do (Rust's own
//! formatting takes the larger), so that files compare byte for byte with those of other software.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::decoder::UtHits;

/// The first row.
const COLUMNS: &str = "event,group,lhcb_id,x_at_y_eq0,z_at_y_eq0,y_begin,y_end,dx_dy,weight\n";

/// Writes hits as CSV.
#[derive(Debug)]
pub struct CsvWriter<W> {
    output: W,
    text: String,
}

impl<W: Write> CsvWriter<W> {
    /// A writer on `output`; writes the row of column names.
    ///
    /// # Errors
    /// When writing fails.
    pub fn new(mut output: W) -> io::Result<Self> {
        output.write_all(COLUMNS.as_bytes())?;
        Ok(Self { output, text: String::new() })
    }

    /// Writes the hits of a batch whose first event has the number `first_event`.
    ///
    /// # Errors
    /// When writing fails.
    pub fn write(&mut self, first_event: u64, hits: &UtHits) -> io::Result<()> {
        let [x, z, begin, end] = [hits.x_at_y_eq0(), hits.z_at_y_eq0(), hits.y_begin(), hits.y_end()];
        let (slope, weight, id) = (hits.dx_dy(), hits.weight(), hits.id());
        for e in 0..hits.n_events() {
            let event = first_event + e as u64;
            self.text.clear();
            for group in 0..hits.n_groups() {
                for i in hits.range(e, group) {
                    let (id, x, z, begin, end) = (id[i], x[i], z[i], begin[i], end[i]);
                    let (slope, weight) = (slope[i], weight[i]);
                    write!(self.text, "{event},{group},{id}").map_err(io::Error::other)?;
                    for value in [x, z, begin, end, slope, weight] {
                        self.text.push(',');
                        push_decimal(&mut self.text, value);
                    }
                    self.text.push('\n');
                }
            }
            self.output.write_all(self.text.as_bytes())?;
        }
        Ok(())
    }

    /// Flushes, and hands the output back.
    ///
    /// # Errors
    /// When writing fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }
}

/// Appends `value` as a plain decimal.
fn push_decimal(text: &mut String, value: f32) {
    let mut buffer = zmij::Buffer::new();
    let shortest = buffer.format(value);
    match shortest.strip_suffix(".0") {
        Some(whole) => text.push_str(whole),
        None if shortest.contains('e') => text.push_str(&value.to_string()),
        None => text.push_str(shortest),
    }
}

#[cfg(test)]
mod tests {
    use super::push_decimal;

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
            let mut text = String::new();
            push_decimal(&mut text, value);
            assert_eq!(text, expected);
            assert_eq!(text.parse::<f32>().map(f32::to_bits), Ok(value.to_bits()));
        }
    }
}
