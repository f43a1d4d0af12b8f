//! Recordings of devices that do not exist.

use std::path::Path;

use tuner_score::synthetic::Synthetic;

/// An argument of the tool; `synthetic:SPEC` becomes the replay of such a device, whose recording is put into `folder`.
pub fn argument(folder: &Path, argument: &str) -> String {
    let Some(spec) = argument.strip_prefix("synthetic:") else { return argument.to_owned() };
    let file = folder.join(format!("synthetic {spec}.json"));
    if !file.exists() {
        std::fs::write(&file, Synthetic::new(spec.parse().unwrap()).recording(20)).unwrap();
    }
    format!("replay:{}", file.display())
}
