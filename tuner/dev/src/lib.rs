//! Scores the tuner's searches and races on recorded spaces, and gives its tests what they need: devices that do not
//! exist, spaces of others in the T1 form, and recordings that a kill left unclosed.

pub mod mend;
pub mod races;
pub mod score;
pub mod synthetic;
pub mod t1;

use std::path::Path;

use tuner::interchange::{InterchangeError, read_recording, read_text, recording_of};
use tuner::replay::Recording;

/// Reads a recorded space in any of the forms that the tuner knows, and mends what Python's programs leave behind.
///
/// # Errors
/// As [`read_recording`].
pub fn read(file: &Path) -> Result<Recording, InterchangeError> {
    match read_recording(file) {
        Err(InterchangeError::Content { .. }) => recording_of(&mend::mend(&read_text(file)?), file, None),
        recording => recording,
    }
}
