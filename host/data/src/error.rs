//! Errors of the threads that parse, decode and encode a piece of the inputs, and the text of an
//! error with its causes.

use std::error::Error;

pub use crate::error_kind::ErrorKind;
use crate::hits::{CapacityError, DecodeError};
use crate::input::{BuildError, InputError, Stranger};

/// Reason that a piece of the inputs gave no hits.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the errors that it passes on say it")]
pub enum WorkError {
    #[error(transparent)]
    Input(#[from] InputError),
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Capacity(#[from] CapacityError),
    #[error(transparent)]
    Layout(#[from] BuildError),
    #[error(transparent)]
    Stranger(#[from] Stranger),
    /// Hits that cannot be written.
    #[error(transparent)]
    Output(Box<dyn Error + Send + Sync>),
}

impl WorkError {
    /// Returns the kind.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Input(error) => error.kind(),
            Self::Decode(error) => error.kind(),
            Self::Capacity(_) => ErrorKind::Capacity,
            Self::Layout(error) => error.kind(),
            Self::Stranger(error) => error.kind(),
            Self::Output(_) => ErrorKind::File,
        }
    }

    /// Returns true if the fault is in a file, so that the next file may still be readable.
    pub const fn is_of_input(&self) -> bool {
        matches!(self, Self::Input(_))
    }
}

/// Returns the messages of an error and its causes, outermost first, without causes that an earlier
/// message already contains.
pub fn causes(error: &dyn Error) -> Vec<String> {
    let mut texts = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !texts.iter().any(|said| said.contains(&text)) {
            texts.push(text);
        }
        cause = error.source();
    }
    texts
}

/// Formats an error and its [causes] in one line.
pub fn with_causes(error: &dyn Error) -> String {
    causes(error).join(": ")
}
