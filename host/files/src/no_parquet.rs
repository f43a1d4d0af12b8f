//! Stands for Parquet where the feature `parquet` is not built in: nothing can be written.
//!
//! The types that would hold something cannot be made, so that the compiler checks that no code
//! path writes Parquet, and that the code for either format compiles unchanged.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::path::Path;

use super::{DetectorColumn, OutputError, Provenance, Rows};
use ut_data::output::EventRow;

pub struct NotBuilt;

type Result<T> = std::result::Result<T, NotBuilt>;

/// The form of CSV files, which need none.
#[derive(Clone)]
pub struct Form;

impl Form {
    #[expect(clippy::unnecessary_wraps, reason = "as the other one, which can fail")]
    pub fn new(_: &[DetectorColumn], _: Vec<String>) -> Result<Self> {
        Ok(Self)
    }
}

pub struct RowGroup(Infallible);

impl RowGroup {
    pub fn encode(_: &Form, _: &Rows<'_>) -> Result<Option<Self>> {
        Err(NotBuilt)
    }
}

pub struct ParquetWriter<W>(Infallible, PhantomData<W>);

impl<W> ParquetWriter<W> {
    pub fn of_hits(_: W, _: &Form) -> Result<Self> {
        Err(NotBuilt)
    }

    pub fn of_events(_: W) -> Result<Self> {
        Err(NotBuilt)
    }

    pub fn append(&mut self, _: RowGroup) -> Result<()> {
        match self.0 {}
    }

    pub fn append_events(&mut self, _: &[EventRow], _: &[String]) -> Result<()> {
        match self.0 {}
    }

    pub fn finish(self, _: &Provenance) -> Result<W> {
        match self.0 {}
    }
}

pub fn output_error(path: &Path, _: NotBuilt) -> OutputError {
    OutputError::NotBuilt(path.to_path_buf())
}
