//! Kinds of errors.

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
    /// The bytes have no known format, or the contents do not fit into a format.
    Format,
    /// The events' banks have another version than the tables.
    Version,
    /// Tables or a mask are wrong, or do not belong to each other or to the events.
    Tables,
    /// Buffers or memory are too small.
    Capacity,
    /// A device, or an instruction of the CPU, is missing or failed.
    Device,
    /// The call contradicts itself, or asks for something that the decoder, the batch or this
    /// program does not have.
    Request,
}
