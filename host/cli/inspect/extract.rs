//! One event cut out of a file, as small an MDF file as can show what is wrong with it.

use std::io::Write as _;
use std::path::Path;

use crate::cli::Failure;
use crate::cli::output::write_failure;
use crate::detector::BankVersion;
use crate::input::{Bank, EventHeader, Format, MdfWriter, RawEvent, kind};
use crate::output::NewFile;

/// Byte of an MDF event that says how it is compressed.
const COMPRESSION: usize = 16;

/// Writes an event: one of an MDF file byte by byte, with all its damage; of another file, its banks. `format` is that of
/// banks that do not say it.
pub fn extract(event: &RawEvent<'_>, format: Option<BankVersion>, path: &Path) -> Result<(), Failure> {
    let mut file = NewFile::create(path)?;
    if event.format == Format::Mdf {
        let mut bytes = event.data.to_vec();
        if bytes.get(COMPRESSION).is_some_and(|&compression| compression != 0) {
            // It came out of its compression; size and checksum are those of the compressed bytes.
            let size = u32::try_from(bytes.len())
                .map_err(|_| format!("{}: an event of more than 4 GiB cannot be written", event.place()))?;
            for at in [0, 4, 8] {
                bytes[at..at + 4].copy_from_slice(&size.to_le_bytes());
            }
            bytes[12..=COMPRESSION].fill(0);
        }
        file.write_all(&bytes).map_err(|error| file.cannot(error))?;
        return Ok(file.finish()?);
    }
    let has_odin = event.entries.iter().any(|bank| bank.kind == kind::ODIN);
    let header = EventHeader {
        trigger_mask: event.trigger_mask.unwrap_or_default(),
        run: event.run.unwrap_or_default(),
        number: event.number.filter(|_| !has_odin),
    };
    let banks = event.banks().map(|bank| Bank { version: bank.version.or(format.map(BankVersion::byte)), ..bank });
    let mut writer = MdfWriter::new(file);
    writer.write(&header, banks).map_err(|error| write_failure(path, error))?;
    Ok(writer.into_inner().finish()?)
}
