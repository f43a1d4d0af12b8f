//! MDF files, written: with sub-header and checksum, banks padded to 4 bytes.

use std::io::{self, Write};

use super::Bank;
use super::event::kind;
use super::mdf_format::{BANK_HEADER, CHECKED_FROM, HEADER, MAGIC, RAW_BANKS, checksum};
use crate::error_kind::ErrorKind;

/// Header version 3 (high nibble) and a sub-header of 7 words, as LHCb's own files have it.
const HEADER_TYPE: u8 = 0x37;
const SUB_HEADER_WORDS: usize = 7;

/// The longest payload of a bank: its size, header included, has 16 bits.
pub const MAX_PAYLOAD: usize = u16::MAX as usize - BANK_HEADER;

/// Facts about an event for its MDF header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventHeader {
    /// Trigger mask. [`GENERATED_MASK`](super::GENERATED_MASK) says that the event was generated.
    pub trigger_mask: [u32; 4],
    /// Run number, in the sub-header.
    pub run: u32,
    /// Event number. When there is one, an ODIN bank (version 7) that holds it and the run comes
    /// first in the event.
    pub number: Option<u64>,
}

/// Reason that an event cannot be written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says it")]
#[non_exhaustive]
pub enum WriteError {
    #[error("{0}")]
    Unfit(String),
    #[error("an event without banks; a MEP packet cannot hold it")]
    NoBanks,
    #[error("cannot write")]
    Io(#[from] io::Error),
}

impl WriteError {
    /// Returns the kind: [`ErrorKind::File`] or [`ErrorKind::Format`].
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Unfit(_) | Self::NoBanks => ErrorKind::Format,
            Self::Io(_) => ErrorKind::File,
        }
    }
}

/// Returns sourceID and version of bank `i` of an event, whose payload may have `most` bytes.
pub(super) fn checked(i: usize, bank: &Bank<'_>, most: usize) -> Result<(u16, u8), WriteError> {
    let unfit = |what: String| WriteError::Unfit(format!("bank {i}: {what}"));
    if bank.payload.len() > most {
        return Err(unfit(format!(
            "a payload of {} bytes; the format holds at most {most}",
            bank.payload.len()
        )));
    }
    let source_id = u16::try_from(bank.source_id);
    let source_id = source_id.map_err(|_| {
        unfit(format!(
            "sourceID 0x{:x}; the format holds 16 bits",
            bank.source_id
        ))
    })?;
    Ok((
        source_id,
        bank.version
            .ok_or_else(|| unfit("it has no version byte, and none was given".to_owned()))?,
    ))
}

/// Writes events back to back.
#[derive(Debug)]
pub struct MdfWriter<W: Write> {
    output: W,
    data: Vec<u8>,
}

impl<W: Write> MdfWriter<W> {
    /// Returns a writer on `output`, which should be buffered if events are small.
    pub const fn new(output: W) -> Self {
        Self {
            output,
            data: Vec::new(),
        }
    }

    /// Writes one event.
    ///
    /// # Errors
    /// If a bank does not fit the format, or writing fails. Nothing of an event that does not fit
    /// is written.
    pub fn write<'a>(
        &mut self,
        header: &EventHeader,
        banks: impl IntoIterator<Item = Bank<'a>>,
    ) -> Result<(), WriteError> {
        self.data.clear();
        self.data.resize(CHECKED_FROM, 0);
        self.data.extend([0, HEADER_TYPE, RAW_BANKS, 0]);
        let mask = header.trigger_mask;
        for word in [mask[0], mask[1], mask[2], mask[3], header.run, 0, 0] {
            self.data.extend(word.to_le_bytes());
        }
        debug_assert_eq!(self.data.len(), HEADER + 4 * SUB_HEADER_WORDS);
        let mut odin = [0; 40];
        odin[..4].copy_from_slice(&header.run.to_le_bytes());
        odin[32..].copy_from_slice(&header.number.unwrap_or_default().to_le_bytes());
        let odin = Bank {
            kind: kind::ODIN,
            version: Some(7),
            source_id: 0,
            payload: &odin,
        };
        if header.number.is_some() {
            self.append(0, &odin)?;
        }
        for (i, bank) in banks.into_iter().enumerate() {
            self.append(i, &bank)?;
        }
        let long =
            || WriteError::Unfit("an event of more than 4 GiB, which MDF cannot hold".to_owned());
        let size = u32::try_from(self.data.len()).map_err(|_| long())?;
        let sum = checksum(&self.data[CHECKED_FROM..]);
        // 0 would say "no checksum"; an event whose sum is 0 goes without the check.
        for (at, word) in [(0, size), (4, size), (8, size), (12, sum)] {
            self.data[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        self.output.write_all(&self.data)?;
        Ok(())
    }

    /// Writes the bytes of an event of another MDF file as they are, damage included.
    ///
    /// # Errors
    /// If writing fails.
    pub fn copy(&mut self, event: &[u8]) -> io::Result<()> {
        self.output.write_all(event)
    }

    fn append(&mut self, bank: usize, what: &Bank<'_>) -> Result<(), WriteError> {
        let (source_id, version) = checked(bank, what, MAX_PAYLOAD)?;
        self.data.extend(MAGIC.to_le_bytes());
        self.data
            .extend(((BANK_HEADER + what.payload.len()) as u16).to_le_bytes());
        self.data.extend([what.kind, version]);
        self.data.extend(source_id.to_le_bytes());
        self.data.extend(what.payload);
        self.data.resize(self.data.len().next_multiple_of(4), 0);
        Ok(())
    }

    /// Hands the output back. Every event was passed on to it; nothing is flushed.
    pub fn into_inner(self) -> W {
        self.output
    }

    /// Flushes, and hands the output back.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }
}
