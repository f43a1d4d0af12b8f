//! The detector tables of a command: from files, or the embedded synthetic detector.

use std::path::{Path, PathBuf};

use ut_data::DetectorTables;
use ut_data::detector::{BankVersion, Boards, Geometry};
use ut_data::input::{Events, Seen, kind};
use ut_data::synth;

use crate::Failure;
use crate::args::DetectorArgs;
use crate::config;
use crate::output::{count, detail};

/// The file version of the embedded geometry: with dxDy a sector.
const GEOMETRY_VERSION: u16 = 1;

/// What to say of hits of the embedded detector, when it is not certain that they belong to it.
pub const SYNTHETIC: &str = "these are the hits of a synthetic detector, whose cabling and positions are not those of yours; \
name your detector with --boards and --geometry, or in ut-decode.toml";

/// Tables, and where they come from.
#[derive(Clone, Debug)]
pub struct Detector {
    pub tables: DetectorTables,
    /// Name of the boards file; `None`: embedded.
    pub boards: Option<PathBuf>,
    /// Name of the geometry file; `None`: embedded.
    pub geometry: Option<PathBuf>,
}

impl Detector {
    /// The detector that `args` ask for; the embedded one is made for the format of the first UT banks in `files`, v5
    /// where there are none.
    pub fn load(args: &DetectorArgs, files: &[PathBuf]) -> Result<Self, Failure> {
        let asked = args.boards.clone().zip(args.geometry.clone());
        // Generated events belong to the embedded detector, whatever the settings say.
        let set = || config::tables().filter(|_| !files.is_empty() && !is_generated(files));
        let Some((boards, geometry)) = asked.or_else(set) else {
            detail("tables: the embedded synthetic detector");
            let version = first_version(files)?.unwrap_or(BankVersion::V5);
            return Self::embedded(version, args);
        };
        Self::read(boards, geometry, args)
    }

    /// The detector of these files.
    pub fn read(boards: PathBuf, geometry: PathBuf, args: &DetectorArgs) -> Result<Self, Failure> {
        detail(&format!("tables: {} and {}", boards.display(), geometry.display()));
        let tables = DetectorTables::new(Boards::read(&boards)?, Geometry::read(&geometry)?, args.grouping())?;
        Ok(Self { tables, boards: Some(boards), geometry: Some(geometry) })
    }

    /// The embedded detector of a bank format.
    pub fn embedded(version: BankVersion, args: &DetectorArgs) -> Result<Self, Failure> {
        let (boards, geometry) = synth::detector(version, GEOMETRY_VERSION);
        Ok(Self { tables: DetectorTables::new(boards, geometry, args.grouping())?, boards: None, geometry: None })
    }

    /// Whether these are the tables of the synthetic detector that is part of the program.
    pub const fn is_embedded(&self) -> bool {
        self.boards.is_none()
    }

    /// The warning if `generated` events of `ut-decode generate` were decoded with tables other than their own.
    pub fn check_generated(&self, generated: u64) -> Option<String> {
        let boards = self.boards.as_ref().filter(|_| generated > 0)?;
        let (mine, geometry) = (self.tables.boards(), self.tables.geometry());
        let theirs = synth::detector(mine.version, geometry.version);
        // As files, because reading fills in what a geometry of the first version lacks.
        let alike = theirs.0 == *mine && theirs.1.to_bytes() == geometry.to_bytes();
        (!alike).then(|| {
            format!(
                "{} were made by ut-decode generate, and their hits are wrong: such events belong to its synthetic \
                 detector, not to that of {}",
                count(generated as usize, "event"),
                boards.display()
            )
        })
    }

    /// What to say of a file that was read if it has UT banks of which none has the board table's version.
    pub fn check_file(&self, seen: &Seen, file: &Path) -> Option<String> {
        let found = seen.files.iter().rev().find(|seen| seen.file == file)?;
        Some(found.check(self.tables.boards().version).err()?.to_string())
    }

    /// The files that were read which have UT banks, and none of the board table's version.
    pub fn check_versions(&self, seen: &Seen) -> impl Iterator<Item = Failure> {
        seen.files.iter().filter_map(|file| Some(file.check(self.tables.boards().version).err()?.into()))
    }
}

/// Whether the first undamaged event of the files was made by `ut-decode generate`. Damage can remove the mark of such an
/// event, but does not make one. Pipes, which can be read only once, are passed over.
pub fn is_generated(files: &[PathBuf]) -> bool {
    for file in files.iter().filter(|file| file.is_file()) {
        let mut events = Events::new([file]);
        while let Ok(Some(event)) = events.next_event() {
            if event.is_generated() || event.damage.is_none() {
                return event.is_generated();
            }
        }
    }
    false
}

/// The format of the first UT bank of a known version. A file that cannot be read ends the search: the command itself
/// will come to it and say so.
pub fn first_version(files: &[PathBuf]) -> Result<Option<BankVersion>, Failure> {
    let pipe = files
        .iter()
        .find(|file| file.as_os_str() == "-" || file.metadata().is_ok_and(|meta| !meta.is_file() && !meta.is_dir()));
    if let Some(pipe) = pipe {
        let what = pipe.display();
        return Err(format!("{what} can be read only once: name the detector with --boards and --geometry").into());
    }
    let mut events = Events::new(files);
    while let Ok(Some(event)) = events.next_event() {
        let mut banks = event.entries.iter().filter(|bank| kind::is_decoded(bank.kind));
        if banks.clone().any(|bank| bank.version.is_none()) {
            let what = event.file.display();
            let why = "an Allen-layout dump does not say the version of its banks";
            return Err(format!("{what}: {why}: name the detector with --boards and --geometry").into());
        }
        if let Some(version) = banks.find_map(|bank| BankVersion::from_byte(bank.version?)) {
            return Ok(Some(version));
        }
    }
    Ok(None)
}
