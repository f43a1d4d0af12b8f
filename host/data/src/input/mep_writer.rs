//! MEP packets, written: as many consecutive events as have the same sources go into one.

use std::io::{self, Write};

use super::mdf_writer::checked;
use super::packet::{HEADER, MAGIC, MFP_HEADER, MFP_MAGIC, PAGE};
use super::{Bank, WriteError};

/// Logarithm to base 2 of the bytes to which fragments are padded.
const ALIGN: u8 = 3;

/// Number of bytes of fragments and their tables after which a packet ends.
const MAX_BYTES: usize = 64 << 20;

/// Number of bytes of a fragment's type and size.
const TABLES: usize = 3;

/// Writes events as MEP packets.
#[derive(Debug)]
pub struct MepWriter<W: Write> {
    output: W,
    max_events: usize,
    written: u64,
    first: u64,
    n_events: usize,
    /// One source per bank of the events; empty before the first event.
    sources: Vec<MepSource>,
    bytes: usize,
}

#[derive(Debug)]
struct MepSource {
    source_id: u16,
    version: u8,
    types: Vec<u8>,
    sizes: Vec<u16>,
    data: Vec<u8>,
}

impl<W: Write> MepWriter<W> {
    /// Returns a writer on `output`, which should be buffered, of packets with at most `max_events`
    /// events (at least 1).
    pub fn new(output: W, max_events: usize) -> Self {
        let max_events = max_events.clamp(1, usize::from(u16::MAX));
        Self {
            output,
            max_events,
            written: 0,
            first: 0,
            n_events: 0,
            sources: Vec::new(),
            bytes: 0,
        }
    }

    /// Adds an event. A new packet begins where `number` is not the next, since a packet states
    /// only its first number.
    ///
    /// # Errors
    /// If a bank does not fit the format, or writing fails. Nothing of an event that does not fit
    /// is written.
    pub fn write<'a>(
        &mut self,
        number: u64,
        banks: impl IntoIterator<Item = Bank<'a>, IntoIter: Clone>,
    ) -> Result<(), WriteError> {
        let banks = banks.into_iter();
        let mut n_banks = 0;
        for (i, bank) in banks.clone().enumerate() {
            checked(i, &bank, u16::MAX.into())?;
            n_banks += 1;
        }
        if n_banks == 0 {
            return Err(WriteError::NoBanks);
        }
        if n_banks > usize::from(u16::MAX) {
            let what = format!("an event of {n_banks} banks; a MEP packet holds at most 65535");
            return Err(WriteError::Unfit(what));
        }
        let same = self.sources.len() == n_banks
            && banks.clone().zip(&self.sources).all(|(bank, source)| {
                bank.source_id == u32::from(source.source_id)
                    && bank.version == Some(source.version)
            });
        let next = number == self.first.wrapping_add(self.n_events as u64);
        if !(same && next) || self.n_events == self.max_events || self.bytes > MAX_BYTES {
            self.flush_packet()?;
            self.first = number;
            self.sources = banks
                .clone()
                .map(|bank| MepSource {
                    source_id: bank.source_id as u16,
                    version: bank.version.unwrap_or_default(),
                    types: Vec::new(),
                    sizes: Vec::new(),
                    data: Vec::new(),
                })
                .collect();
        }
        for (bank, source) in banks.zip(&mut self.sources) {
            source.types.push(bank.kind);
            source.sizes.push(bank.payload.len() as u16);
            source.data.extend(bank.payload);
            source
                .data
                .resize(source.data.len().next_multiple_of(1 << ALIGN), 0);
            self.bytes += bank.payload.len().next_multiple_of(1 << ALIGN) + TABLES;
        }
        self.n_events += 1;
        Ok(())
    }

    /// Writes the current packet, after zeros up to the next page.
    fn flush_packet(&mut self) -> io::Result<()> {
        if self.n_events == 0 {
            return Ok(());
        }
        let n = self.n_events;
        let pad = self.written.next_multiple_of(PAGE) - self.written;
        self.output.write_all(&vec![0; pad as usize])?;
        let n_sources = self.sources.len();
        let tables = HEADER + 2 * n_sources.next_multiple_of(2) + 4 * n_sources;
        let mfp_tables = MFP_HEADER + n.next_multiple_of(4) + (2 * n).next_multiple_of(4);
        // Each MFP begins at a multiple of 4, and ends at one.
        let size = |source: &MepSource| mfp_tables + source.data.len();
        let total = tables + self.sources.iter().map(size).sum::<usize>();
        let mut head = Vec::with_capacity(tables);
        head.extend(MAGIC.to_le_bytes());
        head.extend((n_sources as u16).to_le_bytes());
        head.extend(((total / 4) as u32).to_le_bytes());
        for source in &self.sources {
            head.extend(source.source_id.to_le_bytes());
        }
        head.resize(HEADER + 2 * n_sources.next_multiple_of(2), 0);
        let mut at = tables;
        for source in &self.sources {
            head.extend(((at / 4) as u32).to_le_bytes());
            at += size(source);
        }
        self.output.write_all(&head)?;
        for source in &self.sources {
            head.clear();
            head.extend(MFP_MAGIC.to_le_bytes());
            head.extend((n as u16).to_le_bytes());
            head.extend((size(source) as u32).to_le_bytes());
            head.extend(self.first.to_le_bytes());
            head.extend(source.source_id.to_le_bytes());
            head.extend([ALIGN, source.version]);
            head.extend(&source.types);
            head.resize(MFP_HEADER + n.next_multiple_of(4), 0);
            head.extend(source.sizes.iter().flat_map(|size| size.to_le_bytes()));
            head.resize(mfp_tables, 0);
            self.output.write_all(&head)?;
            self.output.write_all(&source.data)?;
        }
        self.written += pad + total as u64;
        (self.n_events, self.bytes) = (0, 0);
        self.sources.clear();
        Ok(())
    }

    /// Writes the last packet, and hands the output back; it is not flushed.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush_packet()?;
        Ok(self.output)
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_BYTES, MepWriter};
    use crate::input::Bank;

    #[test]
    fn many_small_or_empty_fragments_also_fill_a_packet() {
        let banks = |payload: &'static [u8]| {
            (0..60_000).map(move |source_id| Bank {
                kind: 66,
                version: Some(4),
                source_id,
                payload,
            })
        };
        // With their tables, fragments of a byte take 11 bytes, and empty ones 3.
        for (payload, bytes) in [(&[7][..], 11), (&[], 3)] {
            let mut writer = MepWriter::new(Vec::new(), usize::MAX);
            let events = MAX_BYTES / (60_000 * bytes) + 1;
            for number in 0..events as u64 {
                writer.write(number, banks(payload)).unwrap();
            }
            assert!(writer.output.is_empty(), "{bytes}");
            writer.write(events as u64, banks(payload)).unwrap();
            assert!(!writer.output.is_empty(), "{bytes}");
        }
    }
}
