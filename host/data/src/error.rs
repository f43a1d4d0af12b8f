//! Kinds of errors, errors of the threads that parse, decode and encode a piece of the inputs, and the text of an error
//! with its causes.

use std::error::Error;

use crate::hits::{CapacityError, DecodeError};
use crate::input::{BuildError, InputError};

/// Kind of an error, for a program that reacts to it. The text is for people, and may change.
///
/// Errors have a method `kind`. More kinds may come: a `match` needs an arm for them.
///
/// ```
/// use ut_data::{Boards, ErrorKind, TablesError};
///
/// fn boards_or_older(path: &str, older: &str) -> Result<Boards, TablesError> {
///     match Boards::read(path) {
///         Err(error) if error.kind() == ErrorKind::File => Boards::read(older),
///         result => result,
///     }
/// }
///
/// assert_eq!(boards_or_older("no/boards.bin", "no/older.bin").unwrap_err().kind(), ErrorKind::File);
/// assert_eq!(Boards::parse(b"no boards", "boards").unwrap_err().kind(), ErrorKind::Tables);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file cannot be opened, read or written.
    File,
    /// The bytes are not of a format that is known, or a format cannot hold what is to be written.
    Format,
    /// The events' banks have another version than the tables.
    Version,
    /// Tables or a mask are wrong, or do not belong to each other or to the events.
    Tables,
    /// Buffers or memory are too small.
    Capacity,
    /// A device, or an instruction of the CPU, is missing or failed.
    Device,
    /// The call contradicts itself, or asks for what the decoder, the batch or this program does not have.
    Request,
}

/// Why a piece of the inputs gave no hits.
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
            Self::Output(_) => ErrorKind::File,
        }
    }

    /// Returns true if the fault is in a file, so that the next file may still be readable.
    pub const fn is_of_input(&self) -> bool {
        matches!(self, Self::Input(_))
    }
}

/// An error and its causes, the outermost first, without causes that an earlier message already contains.
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

/// An error and its [causes], in one line.
pub fn with_causes(error: &dyn Error) -> String {
    causes(error).join(": ")
}
