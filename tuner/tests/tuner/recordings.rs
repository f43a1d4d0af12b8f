//! The recorded spaces and noise series, which are not part of the repository.
//!
//! Tests that need them are ignored; `TUNER_DATA=folder cargo test -p tuner -- --include-ignored` runs them.

use std::path::{Path, PathBuf};

/// A file of the recordings, if it is there.
pub fn find(name: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/tuning");
    let path = std::env::var_os("TUNER_DATA").map_or_else(beside, PathBuf::from).join(name);
    path.exists().then_some(path)
}

/// A file of the recordings, which must be there.
pub fn recorded(name: &str) -> PathBuf {
    find(name).unwrap_or_else(|| panic!("{name} is not there: TUNER_DATA names the folder of the recordings"))
}
