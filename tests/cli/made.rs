//! Recordings of devices that do not exist.

use std::path::Path;

use tuner_score::synthetic::Synthetic;

/// Returns the name of a device for `--backend`: a recording in `folder` of the made device that `spec` describes.
pub fn device(folder: &Path, spec: &str) -> String {
    let name = format!("synthetic{spec}.json");
    if !folder.join(&name).exists() {
        std::fs::write(folder.join(&name), Synthetic::new(spec.parse().unwrap()).recording(20)).unwrap();
    }
    format!("replay:{name}")
}
