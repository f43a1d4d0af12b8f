//! The detector tables of a command: from files, or the embedded synthetic detector.

use std::path::{Path, PathBuf};

use twox_hash::XxHash64;
use ut_data::detector::{BankVersion, Boards, Geometry};
use ut_data::input::{Bank, Events, Seen, kind, shape_of, version_in_words};
use ut_data::{DetectorTables, TablesError};

use crate::Failure;
use crate::args::DetectorArgs;
use crate::config;
use crate::output::detail;

/// What to say of hits of the embedded detector, when it is not certain that they belong to it.
pub const SYNTHETIC: &str = "these are the hits of a synthetic detector, whose cabling and positions are not those of yours; \
name your detector with --boards and --geometry, or in ut-decode.toml";

/// What to do where no tables are known.
const NAME_TABLES: &str = "name the tables with --boards and --geometry, or in ut-decode.toml; for events that ut-decode \
generate made, --synthetic-detector";

/// Tables, and where they come from.
#[derive(Clone, Debug)]
pub struct Detector {
    pub tables: DetectorTables,
    /// Name of the boards file; `None`: embedded.
    pub boards: Option<PathBuf>,
    /// Name of the geometry file; `None`: embedded.
    pub geometry: Option<PathBuf>,
}

impl From<&ut_report::Detector> for Detector {
    fn from(of: &ut_report::Detector) -> Self {
        Self { tables: of.tables.clone(), boards: of.boards.clone(), geometry: of.geometry.clone() }
    }
}

impl Detector {
    /// The detector that `args` ask for. Without tables, the embedded one if `ut-decode generate` made the events of all
    /// `files`, or if it was asked for: for the format of the first UT banks in the files, v5 where that cannot be seen.
    ///
    /// # Errors
    /// If no tables are named, and the events are not seen to be of the embedded detector.
    pub fn load(args: &DetectorArgs, files: &[PathBuf]) -> Result<Self, Failure> {
        if let Some((boards, geometry)) = args.boards.clone().zip(args.geometry.clone()) {
            return Self::read(boards, geometry, args);
        }
        if let Some(format) = args.synthetic_detector {
            let version = format.or_else(|| first_version(files)).unwrap_or(BankVersion::V5);
            return Ok(Self::embedded(version, args));
        }
        let maker = Maker::of(files);
        let set = config::tables().filter(|_| !files.is_empty() && !matches!(maker, Maker::Generate));
        match (set, maker) {
            (Some((boards, geometry)), _) => Self::read(boards, geometry, args),
            (None, Maker::Other(why)) => Err(format!("{why}: {NAME_TABLES}").into()),
            (None, _) => Ok(Self::embedded(first_version(files).unwrap_or(BankVersion::V5), args)),
        }
    }

    /// The detector of these files.
    pub fn read(boards: PathBuf, geometry: PathBuf, args: &DetectorArgs) -> Result<Self, Failure> {
        detail(&format!("tables: {} and {}", boards.display(), geometry.display()));
        let make = if args.trust_tables { DetectorTables::trusting } else { DetectorTables::new };
        let tables = make(Boards::read(&boards)?, Geometry::read(&geometry)?, args.grouping());
        let tables = tables.map_err(|error| match error {
            TablesError::Unfit { version, why, .. } => format!(
                "{} does not fit {}, whose banks are of format {version}: {why}; name the geometry of these boards, or \
                 --trust-tables if you know better",
                geometry.display(),
                boards.display()
            ),
            error => error.to_string(),
        })?;
        Ok(Self { tables, boards: Some(boards), geometry: Some(geometry) })
    }

    /// The embedded detector of a bank format.
    pub fn embedded(version: BankVersion, args: &DetectorArgs) -> Self {
        detail("tables: the embedded synthetic detector");
        let mut tables = DetectorTables::synthetic(version, args.grouping());
        if args.synthetic_detector.is_some() || args.trust_tables {
            tables = tables.of_any_maker();
        }
        Self { tables, boards: None, geometry: None }
    }

    /// Returns true if these are the tables of the synthetic detector that is part of the program.
    pub const fn is_embedded(&self) -> bool {
        self.boards.is_none()
    }

    /// What tells this detector from others, for metadata: names prove nothing, so tables have their hashes too.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let name = |path: &Option<PathBuf>| {
            path.as_deref().map_or_else(|| "embedded synthetic detector".to_owned(), |path| path.display().to_string())
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

    /// Checks that events that were seen are of this detector; banks of another version are another matter.
    pub fn check_makers(&self, seen: &Seen) -> Result<(), Failure> {
        seen.check_makers(&self.tables).map_err(|error| format!("{error}: {}", self.remedy()).into())
    }

    /// Returns what to do about events that are not of this detector.
    fn remedy(&self) -> &'static str {
        if self.is_embedded() { NAME_TABLES } else { "name their own tables, or --trust-tables if you know better" }
    }

    /// Returns what to say of a file that was read if it has UT banks of which none has the board table's version.
    pub fn check_file(&self, seen: &Seen, file: &Path) -> Option<String> {
        let found = seen.files.iter().rev().find(|seen| seen.file == file)?;
        Some(found.check(&self.tables).err()?.to_string())
    }

    /// The files that were read which have UT banks, and none of the board table's version.
    pub fn check_versions(&self, seen: &Seen) -> impl Iterator<Item = Failure> {
        seen.files.iter().filter_map(|file| Some(file.check(&self.tables).err()?.into()))
    }
}

/// Who made the events of some files, by the first undamaged event of each. Damage can remove the mark of `ut-decode
/// generate`, but does not make one.
pub enum Maker {
    /// No file has an undamaged event, or can be read: that is the command's business.
    Unknown,
    /// `ut-decode generate`.
    Generate,
    /// Another program, or looking at the first event would take it away from the command: why it is not seen to be one of
    /// `ut-decode generate`.
    Other(String),
}

impl Maker {
    /// The maker of all files, [`Self::Other`] if that is one's.
    pub fn of(files: &[PathBuf]) -> Self {
        let mut all = Self::Unknown;
        for file in files {
            match Self::of_file(file) {
                Self::Unknown => {}
                Self::Generate => all = Self::Generate,
                other @ Self::Other(_) => return other,
            }
        }
        all
    }

    fn of_file(file: &Path) -> Self {
        let name = file.display();
        if is_pipe(file) {
            return Self::Other(format!("{name} can be read only once, so its first event cannot be looked at"));
        }
        let mut events = Events::new([file]);
        while let Ok(Some(event)) = events.next_event() {
            if event.is_generated() {
                return Self::Generate;
            }
            if event.damage.is_none() {
                let why = "as far as can be seen, ut-decode generate did not make its events, and no tables are named";
                return Self::Other(format!("{name}: {why}"));
            }
        }
        Self::Unknown
    }
}

/// The hash of a file's bytes, as `xxhsum -H64` prints it.
pub fn hash(bytes: &[u8]) -> String {
    format!("xxh64:{:016x}", XxHash64::oneshot(0, bytes))
}

fn is_pipe(file: &Path) -> bool {
    file.as_os_str() == "-" || file.metadata().is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
}

/// The format of the first UT bank of a known version in files that can be read twice.
pub fn first_version(files: &[PathBuf]) -> Option<BankVersion> {
    let mut events = Events::new(files.iter().filter(|file| file.is_file()));
    while let Ok(Some(event)) = events.next_event() {
        let mut banks = event.banks().filter(|bank| kind::is_decoded(bank.kind));
        let version = |bank: Bank<'_>| bank.version.map_or_else(|| shape_of(bank.payload), BankVersion::from_byte);
        if let Some(version) = banks.find_map(version) {
            return Some(version);
        }
    }
    None
}
