//! A detector's tables.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use ut_decoding::detector::{BankVersion, Boards, Geometry};
use ut_decoding::{DetectorTables, Grouping, synth};

use crate::array::Array;
use crate::failure::Failure;

/// Which sensor hangs on which lane of which board, where it is, and how sensors form groups.
#[pyclass(frozen, eq, module = "ut_decoding._native", name = "Tables")]
pub struct Tables {
    pub detector: Arc<DetectorTables>,
    /// Names of the files.
    #[pyo3(get)]
    pub boards: String,
    #[pyo3(get)]
    pub geometry: String,
}

// Hits depend on what the files hold, not on what they are called.
impl PartialEq for Tables {
    fn eq(&self, other: &Self) -> bool {
        self.detector == other.detector
    }
}

/// What the tables of the synthetic detector are called.
pub const SYNTHETIC: &str = "synthetic detector";

fn grouping_of(name: &str) -> Result<Grouping, Failure> {
    name.parse().map_err(|error: ut_decoding::detector::UnknownGrouping| Failure::Value(error.to_string()))
}

/// A format of banks by its name.
pub fn version_of(name: &str) -> Result<BankVersion, Failure> {
    let found = [BankVersion::V4, BankVersion::V5].into_iter().find(|version| version.name() == name);
    found.ok_or_else(|| Failure::Value(format!("no format of banks is called {name:?}: it is v4 or v5")))
}

impl Tables {
    fn make(
        boards: Boards,
        geometry: Geometry,
        grouping: &str,
        [boards_name, geometry_name]: [String; 2],
    ) -> Result<Self, Failure> {
        let detector = Arc::new(DetectorTables::new(boards, geometry, grouping_of(grouping)?)?);
        Ok(Self { detector, boards: boards_name, geometry: geometry_name })
    }
}

#[pymethods]
impl Tables {
    #[new]
    #[pyo3(signature = (boards, geometry, *, grouping = "y-rows"))]
    fn new(py: Python<'_>, boards: PathBuf, geometry: PathBuf, grouping: &str) -> PyResult<Self> {
        Ok(py.detach(|| {
            let names = [&boards, &geometry].map(|path| path.display().to_string());
            Self::make(Boards::read(&boards)?, Geometry::read(&geometry)?, grouping, names)
        })?)
    }

    #[staticmethod]
    #[pyo3(signature = (version = "v5", *, grouping = "y-rows"))]
    fn synthetic(version: &str, grouping: &str) -> PyResult<Self> {
        let (boards, geometry) = synth::detector(version_of(version)?, 1);
        Ok(Self::make(boards, geometry, grouping, [SYNTHETIC; 2].map(str::to_owned))?)
    }

    #[staticmethod]
    #[pyo3(signature = (boards, geometry, *, grouping = "y-rows", names = None))]
    fn from_bytes(boards: &[u8], geometry: &[u8], grouping: &str, names: Option<(String, String)>) -> PyResult<Self> {
        let (boards_name, geometry_name) = names.unwrap_or_else(|| ("boards".to_owned(), "geometry".to_owned()));
        let (boards, geometry) = parse(boards, geometry, &boards_name, &geometry_name)?;
        Ok(Self::make(boards, geometry, grouping, [boards_name, geometry_name])?)
    }

    /// The bytes of the boards file and of the geometry file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
        let (boards, geometry) = (self.detector.boards().to_bytes(), self.detector.geometry().to_bytes());
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
    pub fn is_synthetic(&self) -> bool {
        self.boards == SYNTHETIC
    }

    /// By sector: its group.
    fn groups(&self) -> Array {
        Array::of_vec(self.detector.groups().to_vec(), "<u2")
    }

    fn __repr__(&self) -> String {
        let what =
            if self.is_synthetic() { SYNTHETIC.to_owned() } else { format!("{:?}, {:?}", self.boards, self.geometry) };
        format!(
            "Tables({what}: {} boards, format {}, {} groups by {})",
            self.n_boards(),
            self.bank_version(),
            self.n_groups(),
            self.grouping()
        )
    }
}

fn parse(
    boards: &[u8],
    geometry: &[u8],
    boards_name: &str,
    geometry_name: &str,
) -> Result<(Boards, Geometry), Failure> {
    Ok((Boards::parse(boards, boards_name)?, Geometry::parse(geometry, geometry_name)?))
}
