//! Facts other than the banks on which hits depend, for pages and for the metadata of files.

use std::iter::once;
use std::path::{Path, PathBuf};

use serde_json::Map;
use twox_hash::XxHash64;

use super::page::{self, About, ReportPage};
use super::{Detector, Sums, SumsError};
use ut_data::DecodeOptions;
use ut_data::detector::Mask;
use ut_data::input::version_in_words;

/// Warning about hits of the embedded detector that may not belong to it.
pub const SYNTHETIC: &str = "these are the hits of a synthetic detector, whose cabling and \
    positions differ from yours; \
name your detector with --boards and --geometry, or in ut-decode.toml";

/// Returns the hash of a file's bytes, as `xxhsum -H64` prints it.
pub fn hash(bytes: &[u8]) -> String {
    format!("xxh64:{:016x}", XxHash64::oneshot(0, bytes))
}

impl Detector {
    /// Returns the facts that tell a detector from others, with their names. File names prove
    /// nothing, so tables have their hashes too.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let name = |path: &Option<PathBuf>| {
            path.as_deref().map_or_else(
                || "embedded synthetic detector".to_owned(),
                |path| path.display().to_string(),
            )
        };
        let (boards, geometry) = (self.tables.boards(), self.tables.geometry());
        vec![
            ("boards", name(&self.boards)),
            ("boards_hash", hash(&boards.to_bytes())),
            ("geometry", name(&self.geometry)),
            ("geometry_hash", hash(&geometry.to_bytes())),
            ("grouping", self.tables.grouping().name().to_owned()),
            ("bank_version", version_in_words(boards.version.byte())),
            ("geometry_version", geometry.version.to_string()),
        ]
    }
}

/// Returns the options, tables and mask on which hits depend, with their names.
pub fn facts(
    options: DecodeOptions,
    detector: &Detector,
    mask: Option<(&Path, &Mask)>,
) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("clustering", options.clustering().to_string()),
        ("position", options.position().name().to_owned()),
        ("max_cluster_size", options.max_cluster_size().to_string()),
        ("save_above_max", options.save_above_max().to_string()),
        (
            "flip",
            options
                .flip()
                .name_for(detector.tables.boards().version)
                .to_owned(),
        ),
    ];
    facts.extend(detector.facts());
    if let Some((file, mask)) = mask {
        facts.push(("mask", file.display().to_string()));
        facts.push(("mask_hash", hash(&mask.to_bytes())));
    }
    facts
}

/// Draws a run, alone or next to a reference of the same detector and options, as a page, JSON and
/// text.
///
/// The hits of the sums lack those on `mask`, which is named with its file. `made_by` is the
/// program and its version, as the page says them.
///
/// # Errors
/// If run and reference have other tables or options.
pub fn draw(
    run: &Sums,
    reference: Option<&Sums>,
    mask: Option<(&Path, &Mask)>,
    made_by: &str,
) -> Result<ReportPage, SumsError> {
    let provenance = facts(run.options, &run.detector, mask);
    let of_page = provenance
        .iter()
        .cloned()
        .chain([("made by", made_by.to_owned())]);
    let is_synthetic = once(run).chain(reference).any(Sums::is_synthetic);
    let about = About {
        facts: of_page
            .map(|(name, fact)| (name.to_owned(), fact))
            .collect(),
        warnings: is_synthetic
            .then(|| SYNTHETIC.to_owned())
            .into_iter()
            .collect(),
        mask: mask.map(|(_, mask)| mask.clone()),
    };
    let mut drawn = page::draw(run, reference, &about)?;
    let provenance = provenance
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.into()));
    drawn.json["provenance"] = provenance.collect::<Map<_, _>>().into();
    Ok(drawn)
}

impl Sums {
    /// Returns true if events of another detector were decoded with the synthetic tables.
    pub fn is_synthetic(&self) -> bool {
        self.detector.is_embedded() && self.measured > 0
    }
}
