//! Errors and their kinds.

use std::fmt;

/// Kind of an error, for a program that reacts to it. The text is for people, and may change.
///
/// Errors have a method `kind`. More kinds may come: a `match` needs an arm for them.
///
/// ```
/// use tuner::{ErrorKind, read_space};
///
/// // Without a file, a program has the parameters that it was compiled with.
/// let builtin = || tuner::SpaceBuilder::new().ints("tile", [8, 16]).build().map(|space| (space, None));
/// let (space, _) = match read_space("no/space.toml".as_ref()) {
///     Err(error) if error.kind() == ErrorKind::File => builtin()?,
///     read => read?,
/// };
/// assert_eq!(space.len(), 2);
/// # Ok::<(), tuner::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file cannot be opened, read or written.
    File,
    /// A file or a text is not what it should be: damaged, of another program or version, or
    /// against the rules of its format.
    Format,
    /// The call contradicts itself, or asks for something that does not exist.
    Request,
    /// A command line, or the way in which its numbers are read, cannot be used.
    Program,
    /// A device, a default or every configuration fails.
    Device,
    /// Another process or other load is in the way: the same call may work later.
    Busy,
    /// The caller ended the work.
    Interrupted,
}

/// Error with its kind, and a text for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Error {
    kind: ErrorKind,
    text: String,
}

impl Error {
    /// Makes an error.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
        }
    }

    pub(crate) fn format(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Format, text)
    }

    pub(crate) fn request(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Request, text)
    }

    pub(crate) fn program(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Program, text)
    }

    pub(crate) fn device(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Device, text)
    }

    /// Returns the kind.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Names the subject of the error: the text becomes `subject: text`.
    #[must_use]
    pub fn of(self, subject: impl fmt::Display) -> Self {
        Self {
            text: format!("{subject}: {}", self.text),
            ..self
        }
    }
}
