//! One event cut out of a file.

use std::io::Write as _;
use std::path::Path;

use crate::Failure;
use crate::convert::for_mdf;
use crate::output::write_failure;
use ut_data::detector::BankVersion;
use ut_data::input::{Format, MdfWriter, RawEvent};
use ut_files::NewFile;

/// Writes an event of an MDF file byte by byte, with all its damage, or the banks of an event of
/// another file, in `format` if they have none.
pub fn extract(
    event: &RawEvent<'_>,
    format: Option<BankVersion>,
    path: &Path,
) -> Result<(), Failure> {
    let mut file = NewFile::create(path)?;
    if event.format == Format::Mdf {
        file.write_all(event.stored)
            .map_err(|error| file.cannot(error))?;
        return Ok(file.finish()?);
    }
    let (header, banks) = for_mdf(event, format);
    let mut writer = MdfWriter::new(file);
    writer
        .write(&header, banks)
        .map_err(|error| write_failure(path, error))?;
    Ok(writer.into_inner().finish()?)
}
