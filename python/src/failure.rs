//! Errors of the library as exceptions of Python.

use std::ffi::OsString;
use std::io;

use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use ut_decoding::decoder::CapacityError;
use ut_decoding::detector::MaskError;
use ut_decoding::error::{WorkError, with_causes};
use ut_decoding::input::Stranger;
use ut_decoding::memory::TooMuchMemory;
use ut_decoding::views::SumsError;
use ut_decoding::{BuildError, DecodeError, InputError, OutputError, TablesError};

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Work(#[from] WorkError),
    #[error(transparent)]
    Tables(#[from] TablesError),
    #[error(transparent)]
    Sums(#[from] SumsError),
    #[error(transparent)]
    Memory(#[from] TooMuchMemory),
    /// The system did not give memory for hits or events.
    #[error(transparent)]
    Pages(#[from] io::Error),
    #[error("{0}")]
    Value(String),
    #[error(transparent)]
    Versions(#[from] Stranger),
    #[error(transparent)]
    Mask(#[from] MaskError),
}

/// Makes these errors failures of the work on a piece of the inputs.
macro_rules! of_work {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::Work(error.into())
            }
        })*
    };
}

of_work!(
    InputError,
    DecodeError,
    CapacityError,
    BuildError,
    OutputError
);

impl Failure {
    /// Returns true if a file is to blame, so that the next one can be read all the same.
    pub const fn is_of_input(&self) -> bool {
        matches!(self, Self::Work(error) if error.is_of_input())
    }

    pub fn exception(&self, py: Python<'_>) -> PyResult<PyErr> {
        let message = with_causes(self);
        let mut place: (Option<OsString>, _, Option<u64>, _) = (None, None, None, None);
        let class = match self {
            Self::Value(_) | Self::Sums(SumsError::Different(_)) => {
                return Ok(PyValueError::new_err(message));
            }
            Self::Work(WorkError::Capacity(_)) | Self::Memory(_) | Self::Pages(_) => {
                return Ok(PyMemoryError::new_err(message));
            }
            Self::Work(WorkError::Input(error)) => {
                place.0 = Some(error.file().into());
                if let Some(at) = error.place() {
                    place.1 = Some(at.event);
                    place.3 = Some(at.byte);
                }
                match error {
                    InputError::Open { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                        "NoSuchFileError"
                    }
                    _ => "InputError",
                }
            }
            Self::Versions(error) => {
                place.0 = error.file.clone().map(Into::into);
                "InputError"
            }
            Self::Sums(_) => "InputError",
            Self::Tables(error) => {
                place.0 = Some(error.file().into());
                place.3 = error.byte();
                match error {
                    TablesError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                        "NoSuchTablesError"
                    }
                    _ => "TablesError",
                }
            }
            Self::Mask(error) => {
                if let MaskError::Read { file, .. } | MaskError::Line { file, .. } = error {
                    place.0 = Some(file.into());
                }
                match error {
                    MaskError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                        "NoSuchTablesError"
                    }
                    _ => "TablesError",
                }
            }
            Self::Work(WorkError::Output(error)) => {
                place.0 = error.downcast_ref().and_then(|error| match error {
                    OutputError::Format(file)
                    | OutputError::Io { file, .. }
                    | OutputError::Parquet { file, .. } => Some(file.into()),
                    _ => None,
                });
                "OutputError"
            }
            Self::Work(_) => "DecodeError",
        };
        let class = py.import("ut_decoding._errors")?.getattr(class)?;
        let (file, event, bank, byte) = place;
        Ok(PyErr::from_value(
            class.call1((message, file, event, bank, byte))?,
        ))
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        Python::attach(|py| failure.exception(py).unwrap_or_else(|error| error))
    }
}

/// Exception for a thread of ours that panicked, which is a bug.
pub fn panicked() -> PyErr {
    PyRuntimeError::new_err("a thread of the decoder panicked; this is a bug of ut-decoding")
}
