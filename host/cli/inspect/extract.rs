//! One event cut out of a file, as small an MDF file as can show what is wrong with it.

use std::io::Write as _;
use std::path::Path;

use crate::cli::Failure;
use crate::cli::output::write_failure;
use crate::detector::BankVersion;
use crate::input::{Bank, EventHeader, Format, MdfWriter, RawEvent, kind};
use crate::output::NewFile;

/// Writes an event: one of an MDF file byte by byte as it is stored there, with all its damage; of another file, its banks.
/// `format` is that of banks that do not say it.
pub fn extract(event: &RawEvent<'_>, format: Option<BankVersion>, path: &Path) -> Result<(), Failure> {
    let mut file = NewFile::create(path)?;
    if event.format == Format::Mdf {
        file.write_all(event.stored).map_err(|error| file.cannot(error))?;
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
