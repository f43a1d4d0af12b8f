//! The settings file, `ut-decode.toml`.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use etcetera::{BaseStrategy, choose_base_strategy};
use serde::Deserialize;

use crate::Failure;
use crate::output::detail;
use ut_data::detector::Grouping;
use ut_data::memory::read_text;
use ut_data::{DecodeOptions, Flip};

/// Environment variable that names the file; if it is empty, none is read.
pub const VARIABLE: &str = "UT_DECODE_CONFIG";

const NAME: &str = "ut-decode.toml";

/// Maximum size in bytes of a file to read.
const LARGEST: u64 = 1 << 20;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    boards: Option<PathBuf>,
    geometry: Option<PathBuf>,
    grouping: Option<Grouping>,
    flip: Option<u16>,
    threads: Option<u16>,
    max_loss: Option<MaxLoss>,
    tune: Option<WhenToTune>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum MaxLoss {
    Share(f64),
    Text(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WhenToTune {
    Never,
    FirstUse,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

static FILE: OnceLock<PathBuf> = OnceLock::new();

/// Reads the requested file, else the file named by [`VARIABLE`], in the current folder, or of the
/// user.
pub fn load(asked: Option<&Path>) -> Result<(), Failure> {
    let named = asked
        .map(Path::to_owned)
        .or_else(|| std::env::var_os(VARIABLE).map(PathBuf::from));
    let found = match named {
        Some(path) if path.as_os_str().is_empty() => None,
        Some(path) => Some(path),
        None => {
            let of_user = choose_base_strategy()
                .ok()
                .map(|folders| folders.config_dir().join("ut-decode").join(NAME));
            [Some(PathBuf::from(NAME)), of_user]
                .into_iter()
                .flatten()
                .find(|path| path.symlink_metadata().is_ok())
        }
    };
    if let Some(path) = found {
        let settings = read(&path)?;
        detail(&format!("settings from {}", path.display()));
        // `main` is called once.
        let _ = SETTINGS.set(settings);
        let _ = FILE.set(path);
    }
    Ok(())
}

fn read(path: &Path) -> Result<Settings, String> {
    let text = std::fs::File::open(path)
        .and_then(|text| read_text(text, LARGEST))
        .map_err(|error| format!("cannot read the settings in {}: {error}", path.display()))?;
    parse(&text, path.parent().unwrap_or(Path::new("")))
        .map_err(|error| format!("{}: {}", path.display(), error.trim_end()))
}

/// Returns the settings of a file in `folder`, or an error in words.
pub fn parse(text: &str, folder: &Path) -> Result<Settings, String> {
    let mut settings: Settings = toml::from_str(text).map_err(|error| error.to_string())?;
    for path in [&mut settings.boards, &mut settings.geometry]
        .into_iter()
        .flatten()
    {
        *path = folder.join(&*path);
    }
    if settings.boards.is_some() != settings.geometry.is_some() {
        return Err("boards and geometry belong together: name both".to_owned());
    }
    if let Some(flip) = settings.flip.filter(|flip| ![511, 512].contains(flip)) {
        return Err(format!("flip must be 511 or 512, not {flip}"));
    }
    if let Some(threads) = settings.threads.filter(|&threads| threads > 1024) {
        return Err(format!("threads is at most 1024, not {threads}"));
    }
    if let Some(share) = &settings.max_loss {
        let text = match share {
            MaxLoss::Share(share) => share.to_string(),
            MaxLoss::Text(text) => text.clone(),
        };
        let share = self::share(&text).map_err(|error| format!("max-loss: {error}"))?;
        settings.max_loss = Some(MaxLoss::Share(share));
    }
    Ok(settings)
}

fn settings() -> Settings {
    SETTINGS.get().cloned().unwrap_or_default()
}

pub fn file() -> Option<&'static Path> {
    FILE.get().map(PathBuf::as_path)
}

/// Returns the files that are read because of the settings, with their names for messages.
pub fn files() -> Vec<(PathBuf, &'static str)> {
    let tables = tables()
        .into_iter()
        .flat_map(|(boards, geometry)| [boards, geometry]);
    let file = file().map(|file| (file.to_path_buf(), "the settings file"));
    file.into_iter()
        .chain(tables.map(|table| (table, "a table that the settings name")))
        .collect()
}

pub fn tables() -> Option<(PathBuf, PathBuf)> {
    let Settings {
        boards, geometry, ..
    } = settings();
    boards.zip(geometry)
}

pub fn grouping() -> Grouping {
    settings().grouping.unwrap_or_default()
}

/// Returns the default options of decoding, with the flip convention of the settings.
pub fn options() -> DecodeOptions {
    DecodeOptions::default().with_flip(flip())
}

pub fn flip() -> Flip {
    match settings().flip {
        Some(512) => Flip::From512,
        Some(_) => Flip::From511,
        None => Flip::default(),
    }
}

pub fn max_loss() -> Option<f64> {
    match settings().max_loss? {
        MaxLoss::Share(share) => Some(share),
        // `parse` leaves no text.
        MaxLoss::Text(_) => None,
    }
}

pub fn threads() -> u16 {
    settings().threads.unwrap_or_default()
}

/// Returns true if `decode` tunes a device for which nothing was tuned.
pub fn tunes_on_first_use() -> bool {
    settings().tune == Some(WhenToTune::FirstUse)
}

/// Returns a share, 0 to 1, from "10%" or "0.1".
pub fn share(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let (number, unit) = text
        .strip_suffix('%')
        .map_or((text, 1.0), |number| (number.trim_end(), 100.0));
    let share = number.parse::<f64>().ok().map(|number| number / unit);
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "expected a share from 0 to 1, as 0.1, or in per cent, as 10%".to_owned())
}
