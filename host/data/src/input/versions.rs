//! The versions of a file's banks, beside the version of a board table.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::detector::BankVersion;

/// The versions of a file's banks.
#[derive(Clone, Debug)]
pub struct FileVersions {
    /// The file.
    pub file: PathBuf,
    /// Its banks of the types that are decoded (66, 68), by version byte; `None` where the file has none.
    pub versions: BTreeMap<Option<u8>, u64>,
}

impl FileVersions {
    /// Checks that one of the banks, if there are any, has the version of the board table.
    ///
    /// # Errors
    /// When none has.
    pub fn check(&self, table: BankVersion) -> Result<(), WrongVersion> {
        let fits = |version: &Option<u8>| version.is_none_or(|version| version == table.byte());
        if self.versions.is_empty() || self.versions.keys().any(fits) {
            return Ok(());
        }
        let words: Vec<String> = self.versions.keys().flatten().map(|&version| version_in_words(version)).collect();
        Err(WrongVersion { file: self.file.clone(), found: words.join(" and "), table: version_in_words(table.byte()) })
    }
}

/// No bank of a file has the version of the board table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}: none of its UT banks has the board table's version: the banks have version {found}, the board table is for \
     version {table}",
    file.display()
)]
pub struct WrongVersion {
    /// The file.
    pub file: PathBuf,
    found: String,
    table: String,
}

/// A version byte in words.
pub fn version_in_words(version: u8) -> String {
    match BankVersion::from_byte(version) {
        Some(known) => format!("{version} (format {})", known.name()),
        None => format!("{version} (unknown)"),
    }
}
