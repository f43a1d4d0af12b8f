//! A detector's tables.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use ut_decoding::detector::{BankVersion, Boards, Connection, Geometry};
use ut_decoding::{DetectorTables, Grouping, synth};

use crate::array::Array;
use crate::failure::Failure;
use crate::wait::wait_for;

/// Detector tables: the sensor on each lane of each board, its position, and the groups of sectors.
#[pyclass(frozen, eq, module = "ut_decoding._native", name = "Tables")]
pub struct Tables {
    pub detector: Arc<DetectorTables>,
    /// The boards file and the geometry file; `None` for the synthetic detector, which has no
    /// files.
    pub files: Option<[PathBuf; 2]>,
}

// Hits depend on what the files hold, not on what they are called.
impl PartialEq for Tables {
    fn eq(&self, other: &Self) -> bool {
        self.detector == other.detector
    }
}

const SYNTHETIC: &str = "synthetic detector";

fn grouping_of(name: &str) -> Result<Grouping, Failure> {
    name.parse::<Grouping>()
        .map_err(|error| Failure::Value(error.to_string()))
}

pub fn version_of(name: &str) -> Result<BankVersion, Failure> {
    let found = [BankVersion::V4, BankVersion::V5]
        .into_iter()
        .find(|version| version.name() == name);
    found.ok_or_else(|| {
        Failure::Value(format!(
            "no format of banks is called {name:?}: possible are v4 and v5"
        ))
    })
}

impl Tables {
    fn make(
        (boards, geometry): (Boards, Geometry),
        grouping: &str,
        trust: bool,
        files: Option<[PathBuf; 2]>,
    ) -> Result<Self, Failure> {
        let grouping = grouping_of(grouping)?;
        let detector = match &files {
            _ if trust => DetectorTables::trusting(boards, geometry, grouping)?,
            Some(_) => DetectorTables::new(boards, geometry, grouping)?,
            None => DetectorTables::new(boards, geometry, grouping)?.only_generated(),
        };
        Ok(Self {
            detector: Arc::new(detector),
            files,
        })
    }

    fn name(&self, of: usize) -> &Path {
        self.files
            .as_ref()
            .map_or(Path::new(SYNTHETIC), |files| files[of].as_path())
    }
}

#[pymethods]
impl Tables {
    #[new]
    #[pyo3(signature = (boards, geometry, *, grouping = "y-rows", trust = false))]
    fn new(
        py: Python<'_>,
        boards: PathBuf,
        geometry: PathBuf,
        grouping: &str,
        trust: bool,
    ) -> PyResult<Self> {
        let grouping = grouping.to_owned();
        // The files may be pipes.
        wait_for(py, &AtomicBool::new(false), None, move || {
            let files = [boards, geometry];
            Self::make(
                (Boards::read(&files[0])?, Geometry::read(&files[1])?),
                &grouping,
                trust,
                Some(files),
            )
        })
    }

    #[staticmethod]
    #[pyo3(signature = (version = "v5", *, grouping = "y-rows", trust = false))]
    fn synthetic(version: &str, grouping: &str, trust: bool) -> PyResult<Self> {
        Ok(Self::make(
            synth::detector(version_of(version)?, 1),
            grouping,
            trust,
            None,
        )?)
    }

    /// `names`: of the files, or `None` for the synthetic detector.
    #[staticmethod]
    fn from_bytes(
        boards: &[u8],
        geometry: &[u8],
        grouping: &str,
        names: Option<(PathBuf, PathBuf)>,
        trust: bool,
    ) -> PyResult<Self> {
        let files = names.map(<[PathBuf; 2]>::from);
        let [boards_name, geometry_name] = files
            .as_ref()
            .map_or([SYNTHETIC; 2].map(str::to_owned), shown);
        let tables = parse(boards, geometry, &boards_name, &geometry_name)?;
        Ok(Self::make(tables, grouping, trust, files)?)
    }

    #[getter]
    fn boards(&self) -> OsString {
        self.name(0).into()
    }

    #[getter]
    fn geometry(&self) -> OsString {
        self.name(1).into()
    }

    /// The bytes of the boards file and of the geometry file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
        let (boards, geometry) = (
            self.detector.boards().to_bytes(),
            self.detector.geometry().to_bytes(),
        );
        (PyBytes::new(py, &boards), PyBytes::new(py, &geometry))
    }

    #[getter]
    fn grouping(&self) -> &'static str {
        self.detector.grouping().name()
    }

    #[getter]
    fn n_groups(&self) -> usize {
        self.detector.n_groups()
    }

    #[getter]
    fn n_boards(&self) -> usize {
        self.detector.boards().n_boards()
    }

    #[getter]
    fn bank_version(&self) -> &'static str {
        self.detector.boards().version.name()
    }

    #[getter]
    fn is_synthetic(&self) -> bool {
        self.files.is_none()
    }

    #[getter]
    fn is_trusted(&self) -> bool {
        self.detector.is_trusted()
    }

    /// By sector: its group.
    fn groups(&self) -> Array {
        Array::of_vec(self.detector.groups().to_vec(), "<u2")
    }

    /// Returns the strips of the sector that each lane reads: (board, lane, sector, first strip,
    /// last strip).
    fn connections(&self) -> Vec<(u8, u8, u16, u16, u16)> {
        let of = |c: Connection| (c.lane.board, c.lane.lane, c.sector, c.strips.0, c.strips.1);
        self.detector.connections().map(of).collect()
    }

    fn __repr__(&self) -> String {
        let what = match &self.files {
            Some(files) => {
                let [boards, geometry] = shown(files);
                format!("{boards:?}, {geometry:?}")
            }
            None => SYNTHETIC.to_owned(),
        };
        format!(
            "Tables({what}: {} boards, format {}, {} groups by {})",
            self.n_boards(),
            self.bank_version(),
            self.n_groups(),
            self.grouping()
        )
    }
}

fn shown(files: &[PathBuf; 2]) -> [String; 2] {
    files.each_ref().map(|path| path.display().to_string())
}

fn parse(
    boards: &[u8],
    geometry: &[u8],
    boards_name: &str,
    geometry_name: &str,
) -> Result<(Boards, Geometry), Failure> {
    Ok((
        Boards::parse(boards, boards_name)?,
        Geometry::parse(geometry, geometry_name)?,
    ))
}
