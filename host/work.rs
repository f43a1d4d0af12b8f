//! What can go wrong with a piece of the inputs, on the threads that take it apart, decode it and encode its hits.

use crate::decoder::DecodeError;
use crate::input::{BuildError, InputError};

/// Hits that a bank can give, at most: cluster words of two bytes in a payload of 64 KiB.
pub const HITS_OF_BANK: usize = 1 << 15;

/// Why a piece of the inputs gave no hits.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The inputs cannot be read further.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The decoder failed.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The batch cannot be brought into the layout that was asked for.
    #[error(transparent)]
    Layout(#[from] BuildError),
    /// Its hits cannot be written.
    #[cfg(feature = "parquet")]
    #[error(transparent)]
    Output(#[from] crate::output::OutputError),
}

impl WorkError {
    /// Whether a file is to blame, so that the next one can be read all the same.
    pub const fn is_of_input(&self) -> bool {
        matches!(self, Self::Input(_))
    }
}
