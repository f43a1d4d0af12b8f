//! The detector tables of a command: from files, or the embedded synthetic detector.

use std::path::{Path, PathBuf};

use ut_data::DetectorTables;
use ut_data::detector::{BankVersion, Boards, Geometry};
use ut_data::input::{Bank, Events, Seen, kind, shape_of};
use ut_report::Detector;

use crate::Failure;
use crate::args::DetectorArgs;
use crate::config;
use crate::output::{detail, say};
use crate::tables::Cabling;

const NAME_TABLES: &str = "name the tables in ut-decode.toml, which every command reads, or with --boards and --geometry; for \
events that ut-decode generate made, --synthetic-detector";

impl DetectorArgs {
    /// Returns the detector of the named tables; without them the embedded one, of the format of
    /// the first UT banks (else v5), if it was asked for or `ut-decode generate` made the events of
    /// all `files`; else an error. Warns of boards that `ut-decode tables` finds odd, unless they
    /// are trusted.
    pub fn load(&self, files: &[PathBuf]) -> Result<Detector, Failure> {
        let detector = self.choose(files)?;
        let Some(boards) = detector.boards.as_ref().filter(|_| !self.trust_tables) else {
            return Ok(detector);
        };
        let odd = Cabling::of(&detector.tables).odd;
        if !odd.is_empty() {
            say(&format!(
                "warning: {}: {} (ut-decode tables says more)",
                boards.display(),
                odd.join("; ")
            ));
        }
        Ok(detector)
    }

    fn choose(&self, files: &[PathBuf]) -> Result<Detector, Failure> {
        if let Some((boards, geometry)) = self.boards.clone().zip(self.geometry.clone()) {
            return self.read(boards, geometry);
        }
        if let Some(format) = self.synthetic_detector {
            return Ok(self.embedded(
                format
                    .or_else(|| first_version(files))
                    .unwrap_or(BankVersion::V5),
            ));
        }
        let maker = Maker::of(files);
        let set =
            config::tables().filter(|_| !files.is_empty() && !matches!(maker, Maker::Generate));
        match (set, maker) {
            (Some((boards, geometry)), _) => self.read(boards, geometry),
            (None, Maker::Other(why)) => Err(format!("{why}: {NAME_TABLES}").into()),
            (None, _) => Ok(self.embedded(first_version(files).unwrap_or(BankVersion::V5))),
        }
    }

    pub fn read(&self, boards: PathBuf, geometry: PathBuf) -> Result<Detector, Failure> {
        detail(&format!(
            "tables: {} and {}",
            boards.display(),
            geometry.display()
        ));
        let make = if self.trust_tables {
            DetectorTables::trusting
        } else {
            DetectorTables::new
        };
        let tables = make(
            Boards::read(&boards)?,
            Geometry::read(&geometry)?,
            self.grouping(),
        );
        let tables = tables.map_err(|error| {
            format!(
                "{} with {}: {error}; name the geometry of these boards, or --trust-tables if you know better",
                geometry.display(),
                boards.display()
            )
        })?;
        Ok(Detector {
            tables,
            boards: Some(boards),
            geometry: Some(geometry),
        })
    }

    pub fn embedded(&self, version: BankVersion) -> Detector {
        detail("tables: the embedded synthetic detector");
        let mut tables = ut_data::synth::tables(version, self.grouping());
        if self.synthetic_detector.is_some() || self.trust_tables {
            tables = tables.of_any_maker();
        }
        Detector {
            tables,
            boards: None,
            geometry: None,
        }
    }
}

/// Checks that events come from a maker that fits this detector; versions of banks are not checked.
pub fn check_makers(detector: &Detector, seen: &Seen) -> Result<(), Failure> {
    let other = "name their own tables, or --trust-tables if you know better";
    let remedy = if detector.is_embedded() {
        NAME_TABLES
    } else {
        other
    };
    seen.check_makers(&detector.tables)
        .map_err(|error| format!("{error}: {remedy}").into())
}

/// Returns the error of each file with UT banks of which none has the board table's version.
pub fn check_versions(detector: &Detector, seen: &Seen) -> impl Iterator<Item = Failure> {
    seen.files
        .iter()
        .filter_map(|file| Some(file.check(&detector.tables).err()?.into()))
}

/// Maker of files, by the first undamaged event of each: damage can remove the mark of generated
/// events, not make it.
pub enum Maker {
    /// No file has an undamaged event, or can be read.
    Unknown,
    Generate,
    /// Another program, or an input whose first event cannot be read without taking it away; with
    /// the reason.
    Other(String),
}

impl Maker {
    /// Returns the maker of all files, [`Self::Other`] if one file has another.
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
            return Self::Other(format!(
                "{name} can be read only once, so its first event cannot be looked at"
            ));
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

fn is_pipe(file: &Path) -> bool {
    file.as_os_str() == "-"
        || file
            .metadata()
            .is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
}

/// Returns the format of the first UT bank of a known version in files that can be read twice.
pub fn first_version(files: &[PathBuf]) -> Option<BankVersion> {
    let mut events = Events::new(files.iter().filter(|file| file.is_file()));
    while let Ok(Some(event)) = events.next_event() {
        let mut banks = event.banks().filter(|bank| kind::is_decoded(bank.kind));
        let version = |bank: Bank<'_>| {
            bank.version
                .map_or_else(|| shape_of(bank.payload), BankVersion::from_byte)
        };
        if let Some(version) = banks.find_map(version) {
            return Some(version);
        }
    }
    None
}
