//! Synthetic events.

use std::io;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use ut_decoding::input::{Bank, EventHeader, GENERATED_MASK, MdfWriter, WriteError, kind};
use ut_decoding::memory;
use ut_decoding::synth::{Generator, Profile};

use crate::failure::Failure;
use crate::pages::too_much;
use crate::tables::version_of;

/// A file in memory that asks before it grows: an allocation that fails would end the process.
#[derive(Default)]
struct MemoryFile(Vec<u8>);

impl io::Write for MemoryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Self(all) = self;
        if bytes.len() > all.capacity() - all.len() {
            // The file doubles, and Python gets a copy.
            memory::check("the events", 3 * (all.capacity() + bytes.len()) as u64)
                .map_err(too_much)?;
            all.try_reserve(bytes.len())?;
        }
        all.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The bytes of an MDF file of synthetic events.
#[pyfunction]
#[pyo3(signature = (events, *, profile = "pp-nominal", version = "v5", seed = 1))]
pub fn generate<'py>(
    py: Python<'py>,
    events: u64,
    profile: &str,
    version: &str,
    seed: u64,
) -> PyResult<Bound<'py, PyBytes>> {
    let named = profile
        .parse::<Profile>()
        .map_err(|error| Failure::Value(error.to_string()))?;
    let generator = Generator::new(named, version_of(version)?, seed);
    let mut writer = MdfWriter::new(MemoryFile::default());
    for index in 0..events {
        py.check_signals()?;
        let written = py.detach(|| write(&mut writer, &generator, index));
        written.map_err(|error| match error {
            WriteError::Io(error) => Failure::Pages(error),
            error => Failure::Value(error.to_string()),
        })?;
    }
    let MemoryFile(all) = writer.into_inner();
    PyBytes::new_with(py, all.len(), |bytes| {
        bytes.copy_from_slice(&all);
        Ok(())
    })
}

fn write<W: io::Write>(
    writer: &mut MdfWriter<W>,
    generator: &Generator,
    index: u64,
) -> Result<(), WriteError> {
    let event = generator.event(index);
    let header = EventHeader {
        trigger_mask: GENERATED_MASK,
        run: event.run,
        number: None,
    };
    let odin = event.odin.as_ref().map(|(version, payload)| Bank {
        kind: kind::ODIN,
        version: Some(*version),
        source_id: 0,
        payload,
    });
    let banks = event.banks.iter().map(|(source_id, payload)| Bank {
        kind: kind::UT,
        version: Some(generator.version().byte()),
        source_id: u32::from(*source_id),
        payload,
    });
    writer.write(&header, odin.into_iter().chain(banks))
}
