//! Compiled part of the Python package, `ut_decoding._native`: the Python files in the same package
//! wrap and document it.
//!
//! Our threads touch no object of Python but the bytes to decode; the caller's thread waits without
//! Python's lock.

#![allow(
    clippy::needless_pass_by_value,
    reason = "what comes from Python comes as values"
)]

mod array;
mod arrow;
mod failure;
mod job;
mod made_by;
mod pages;
mod parquet;
mod piece;
mod report;
mod request;
mod synthetic;
mod tables;
mod tool;
mod wait;

use pyo3::pymodule;

#[pymodule]
mod _native {
    use std::path::PathBuf;
    use std::sync::atomic::AtomicBool;

    use pyo3::prelude::*;
    use ut_decoding::decoder::{Backend, Cause, Count, Kind, Loss, N_LOSS};
    use ut_decoding::input;

    use crate::failure::Failure;
    use crate::request::is_read_once;
    use crate::wait::wait_for;

    #[pymodule_export]
    use crate::array::Array;
    #[pymodule_export]
    use crate::arrow::{schema, stream};
    #[pymodule_export]
    use crate::job::Job;
    #[pymodule_export]
    use crate::parquet::to_parquet;
    #[pymodule_export]
    use crate::report::{RunSums, count, run_sums};
    #[pymodule_export]
    use crate::synthetic::generate;
    #[pymodule_export]
    use crate::tables::Tables;
    #[pymodule_export]
    use crate::tool::run_tool;

    /// Byte range, number of earlier events, and number of events.
    type Section = (u64, u64, u64, Option<u64>);

    /// The sections of a file.
    #[pyfunction]
    fn sections(py: Python<'_>, path: PathBuf, events: u64) -> PyResult<Vec<Section>> {
        let found = wait_for(py, &AtomicBool::new(false), None, move || {
            if is_read_once(&path) {
                // Other processes open the file again, and would get the rest of it.
                return Err(Failure::Value(format!(
                    "plan: {} can be read only once",
                    path.display()
                )));
            }
            Ok(input::sections(&path, events)?)
        })?;
        Ok(found
            .into_iter()
            .map(|s| (s.bytes.start, s.bytes.end, s.first_event, s.n_events))
            .collect())
    }

    /// Removes the files that no call will finish: for the end of the process.
    #[pyfunction]
    fn remove_unfinished() {
        ut_decoding::output::remove_unfinished();
    }

    /// Account of loss in words.
    #[pyfunction]
    fn loss_text(numbers: [u64; N_LOSS]) -> String {
        Loss::of_numbers(numbers).to_string()
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let kind = |count: Count| match count.kind() {
            Kind::Size => "size",
            Kind::Statistic => "statistic",
            Kind::Trouble => "trouble",
        };
        module.add("CAUSES", Cause::ALL.map(Cause::name))?;
        module.add(
            "COUNTS",
            Count::ALL.map(|count| (count.name(), kind(count))).to_vec(),
        )?;
        let [columns, detector] = crate::piece::names();
        module.add("COLUMNS", columns)?;
        module.add("DETECTOR_COLUMNS", detector)?;
        module.add("FACTS", crate::piece::facts())?;
        module.add("BACKENDS", Backend::ALL.map(Backend::name))?;
        module.add("VERSION", env!("CARGO_PKG_VERSION"))
    }
}
