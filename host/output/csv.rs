//! Hits as comma-separated values: one row a hit, in output order.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::backend::UtHits;

/// The first row.
const COLUMNS: &str = "event,group,lhcb_id,x_at_y_eq0,z_at_y_eq0,y_begin,y_end,dx_dy,weight\n";

/// Writes hits as CSV: plain decimals, as short as reads back to the same f32.
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
                    writeln!(self.text, "{event},{group},{id},{x},{z},{begin},{end},{slope},{weight}")
                        .map_err(io::Error::other)?;
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
