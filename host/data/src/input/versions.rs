//! Checks that events belong to a detector's tables: by the versions of their banks, and by who
//! made them.
//!
//! Decoding with the wrong tables gives hits at wrong places, and nothing about such hits looks
//! wrong. So events and tables are compared before hits are believed. The version byte of a bank is
//! the best evidence. Dumps have none, and there the shape decides: a v5 payload has a length that
//! follows from its six counts, a v4 payload one that follows from its number of clusters, and no
//! payload with hits fits both.
//!
//! For example, a payload of 32 bytes whose largest count is 1 has the shape of v5 (one row). A
//! payload of 11 bytes with one cluster has 4 bytes of header, one word of 2 bytes, and up to 10
//! bytes after it: v4.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ut_format::bank::COUNT_BYTES;

use crate::detector::{BankVersion, DetectorTables};
use crate::error_kind::ErrorKind;

/// Minimum number of banks without a version byte that must have the shape of one format, while no
/// bank has the shape of the other format, before a file counts as that format: one or two damaged
/// banks may look like anything.
pub const MANY: u64 = 4;

/// The versions of a file's banks.
#[derive(Clone, Debug)]
pub struct FileVersions {
    /// The file.
    pub file: PathBuf,
    /// Banks of the types that are decoded (66, 68), by version byte; `None` where the file has
    /// none.
    pub versions: BTreeMap<Option<u8>, u64>,
    /// Banks without a version byte and with hits that have the shape of format v4, and of v5.
    pub shapes: [u64; 2],
}

/// Returns the index of a version into [`FileVersions::shapes`].
const fn shape(version: BankVersion) -> usize {
    matches!(version, BankVersion::V5) as usize
}

impl FileVersions {
    /// Returns the counts of a file of which no bank has been seen yet.
    pub fn new(file: &Path) -> Self {
        Self {
            file: file.to_path_buf(),
            versions: BTreeMap::new(),
            shapes: [0; 2],
        }
    }

    pub(super) fn add(&mut self, version: Option<u8>, n: u64) {
        if n > 0 {
            *self.versions.entry(version).or_default() += n;
        }
    }

    /// Looks at a bank without a version byte.
    pub(super) fn look(&mut self, payload: &[u8]) {
        if let Some(version) = shape_of(payload) {
            self.shapes[shape(version)] += 1;
        }
    }

    /// Adds what was seen later in the same file.
    pub(super) fn merge(&mut self, later: &Self) {
        later
            .versions
            .iter()
            .for_each(|(&version, &n)| self.add(version, n));
        self.shapes
            .iter_mut()
            .zip(later.shapes)
            .for_each(|(sum, n)| *sum += n);
    }

    /// Returns the number of banks by version byte. Banks without a version byte count for the
    /// format that their shapes clearly show.
    pub fn judged(&self) -> BTreeMap<Option<u8>, u64> {
        let mut versions = self.versions.clone();
        let clear = |version: &BankVersion| {
            self.shapes[shape(*version)] >= MANY && self.shapes.contains(&0)
        };
        if let Some(version) = [BankVersion::V4, BankVersion::V5].into_iter().find(clear)
            && let Some(n) = versions.remove(&None)
        {
            *versions.entry(Some(version.byte())).or_default() += n;
        }
        versions
    }

    /// Checks that one of the banks, if there are any, has the version of the board table, or may
    /// have it.
    pub fn check(&self, tables: &DetectorTables) -> Result<(), Stranger> {
        let table = tables.boards().version;
        let versions = if tables.is_trusted() {
            self.versions.clone()
        } else {
            self.judged()
        };
        let fits = |version: &Option<u8>| version.is_none_or(|version| version == table.byte());
        if versions.is_empty() || versions.keys().any(fits) {
            return Ok(());
        }
        let words: Vec<String> = versions
            .keys()
            .flatten()
            .map(|&version| version_in_words(version))
            .collect();
        let what = format!(
            "{}: none of its UT banks has the board table's version: the banks have version {}, the board table is for \
             version {}",
            self.file.display(),
            words.join(" and "),
            version_in_words(table.byte())
        );
        Err(Stranger {
            file: Some(self.file.clone()),
            what,
        })
    }
}

/// Returns the format of a payload with hits, judged by its size: the counts in a payload say how
/// long it is, and no payload is valid in both formats.
pub fn shape_of(payload: &[u8]) -> Option<BankVersion> {
    let at = |byte: usize| payload.get(byte).copied().unwrap_or_default();
    let most = usize::from(COUNT_BYTES.map(at).into_iter().max().unwrap_or_default());
    let rows = 32 * most.div_ceil(2);
    if most > 0 && (rows..=rows + 8).contains(&payload.len()) {
        return Some(BankVersion::V5);
    }
    // Cluster words; then a byte and one to four ADC bytes for each, of which dumps lose up to
    // three.
    let n = usize::from(u16::from_le_bytes([at(0), at(1)]));
    let least = 4 + 2 * n;
    (n > 0 && (least..=least + 5 * n + 5).contains(&payload.len())).then_some(BankVersion::V4)
}

/// Events that do not belong to the tables.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
#[non_exhaustive]
pub struct Stranger {
    /// The file, where none of its banks has the version of the board table.
    pub file: Option<PathBuf>,
    pub(super) what: String,
}

impl Stranger {
    /// Returns the kind: [`ErrorKind::Version`], or [`ErrorKind::Tables`] for real events with
    /// invented tables.
    pub const fn kind(&self) -> ErrorKind {
        if self.file.is_some() {
            ErrorKind::Version
        } else {
            ErrorKind::Tables
        }
    }
}

/// Returns a version byte in words.
pub fn version_in_words(version: u8) -> String {
    match BankVersion::from_byte(version) {
        Some(known) => format!("{version} (format {})", known.name()),
        None => format!("{version} (unknown)"),
    }
}
