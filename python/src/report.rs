//! Sums over the events of a run, and the page drawn from the sums.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use ut_decoding::CpuDecoder;
use ut_decoding::error::WorkError;
use ut_decoding::input::{InputPart, count_readable};
use ut_decoding::output::NewFile;
use ut_decoding::views::{self, Against, Detector, Gatherer, Sums, draw};

use crate::array::Array;
use crate::failure::Failure;
use crate::made_by;
use crate::request::{Part, Request, check, read_mask};
use crate::wait::wait_for;

/// Sums over the events of a run, or of a part of it.
#[pyclass(frozen, module = "ut_decoding._native", name = "RunSums")]
pub struct RunSums(Arc<Sums>);

#[pymethods]
impl RunSums {
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8], name: &str) -> PyResult<Self> {
        let sums = py
            .detach(|| Sums::from_bytes(bytes, name))
            .map_err(Failure::from)?;
        Ok(Self(Arc::new(sums)))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.0.to_bytes()).map_err(Failure::Pages)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// These and those of other events.
    fn plus(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        let (mine, theirs) = (Arc::clone(&self.0), Arc::clone(&other.0));
        let sum = py.detach(move || {
            let mut sum = (*mine).clone();
            sum.add(&theirs).map(|()| sum)
        });
        Ok(Self(Arc::new(sum.map_err(Failure::from)?)))
    }

    /// Draws the page into a file, and returns what stands out, as JSON.
    #[pyo3(signature = (page, compare = None, mask = None))]
    fn draw(
        &self,
        py: Python<'_>,
        page: PathBuf,
        compare: Option<&Self>,
        mask: Option<PathBuf>,
    ) -> PyResult<String> {
        let (first, second) = (
            Arc::clone(&self.0),
            compare.map(|other| Arc::clone(&other.0)),
        );
        // The page may be a pipe.
        wait_for(py, &AtomicBool::new(false), None, move || {
            let mask = mask
                .map(|path| read_mask(path, &first.detector.tables))
                .transpose()?;
            let mask = mask.as_ref().map(|(file, mask)| (file.as_path(), mask));
            let drawn = draw(&first, second.as_deref(), mask, &made_by::in_words())?;
            let mut file = NewFile::create(&page)?;
            file.write_all(drawn.html.as_bytes())
                .map_err(|error| file.cannot(error))?;
            file.finish()?;
            Ok(drawn.json.to_string())
        })
    }

    /// Numbers behind the pictures, by name.
    fn numbers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (view, all) = (&self.0.view, PyDict::new(py));
        let rows = |rows: &[Vec<u64>]| rows.concat();
        let (mut edges, events): (Vec<_>, Vec<_>) = view
            .spans
            .iter()
            .map(|(key, span)| (key, span.events))
            .unzip();
        edges.extend(edges.last().map(|last| last + view.spans.width()));
        for (name, values) in [
            ("strips", view.strips.clone()),
            ("charge_of_layer", rows(&view.charge_of_layer)),
            ("size_of_layer", rows(&view.size_of_layer)),
            ("spans", edges),
            ("events", events),
        ] {
            all.set_item(name, Array::of_vec(values, "<u8").into_py_any(py)?)?;
        }
        Ok(all)
    }

    #[getter]
    fn events(&self) -> u64 {
        self.0.view.events
    }

    #[getter]
    fn hits(&self) -> u64 {
        self.0.view.hits
    }

    #[getter]
    fn files(&self) -> Vec<OsString> {
        self.0.files.clone()
    }

    /// The files of the tables.
    #[getter]
    fn tables(&self) -> Vec<PathBuf> {
        let Detector {
            boards, geometry, ..
        } = &*self.0.detector;
        boards.iter().chain(geometry).cloned().collect()
    }

    #[getter]
    fn failures(&self) -> Vec<String> {
        self.0.failures.clone()
    }

    #[getter]
    fn wrong_version(&self) -> Option<String> {
        self.0.wrong_version()
    }

    #[getter]
    fn against(&self) -> &'static str {
        match self.0.view.against {
            Against::Number => "number",
            Against::Place => "place",
        }
    }
}

/// Sums up the events of some inputs; `first_place`: events of the run before these.
#[pyfunction]
#[pyo3(signature = (request, first_place = 0))]
pub fn run_sums(py: Python<'_>, request: Request, first_place: u64) -> PyResult<RunSums> {
    let first = request.first_file();
    let against = py.detach(|| Against::of(first.as_deref()));
    let detector = request.detector(py);
    let part = py.detach(|| request.part(first_place));
    let task = check(py, request)?;
    let stop: Arc<AtomicBool> = Arc::default();
    let seen = Arc::clone(&stop);
    let progress = Arc::clone(&task.progress);
    let sums = wait_for(py, &stop, Some(&progress), move || {
        let gatherer = Gatherer {
            threads: task.n_workers,
            against,
            check: task.check,
            keep_going: task.keep_going,
            mask: task.mask.as_ref().map(|(_, mask)| mask),
            first_place,
            ..Gatherer::new(&detector.tables, task.options)
        };
        let mut before = 0;
        let mut gathered = gatherer.gather(
            &task.parts,
            &task.select,
            CpuDecoder::new,
            |events, bytes| {
                task.progress.add(events - before, bytes);
                before = events;
                !seen.load(Ordering::Relaxed)
            },
        )?;
        let fails = |error: &WorkError| !(task.keep_going && error.is_of_input());
        if let Some(at) = gathered.failures.iter().position(fails) {
            return Err(gathered.failures.swap_remove(at).into());
        }
        gathered.seen.check_makers(&detector.tables)?;
        task.check_selection(&gathered.seen)?;
        Ok(Sums::new(&task.names, Arc::clone(&detector), task.options, gathered).of_part(part))
    })?;
    Ok(RunSums(Arc::new(sums)))
}

/// The number of events in a section of a file; with `keep_going`, up to where it cannot be
/// followed.
#[pyfunction]
pub fn count(py: Python<'_>, part: Part, keep_going: bool) -> PyResult<u64> {
    let part: InputPart = part.into();
    let stop = AtomicBool::new(false);
    wait_for(py, &stop, None, move || match count_readable(&part) {
        (n, Some(_)) if keep_going => Ok(n),
        (_, Some(error)) => Err(error.into()),
        (n, None) => Ok(n),
    })
}

impl Request {
    fn first_file(&self) -> Option<PathBuf> {
        self.parts.first().and_then(|part| match part {
            Part::File(path) | Part::Section(path, ..) => Some(path.clone()),
            Part::Memory(..) | Part::Object(..) => None,
        })
    }

    /// Returns the part of a job that this is. `None` of bytes, which have no name of their own,
    /// and of pipes.
    fn part(&self, first_place: u64) -> Option<views::Part> {
        let mut section = None;
        let file = |part: &Part| match part {
            Part::File(path) => Some(path.clone()),
            Part::Section(path, start, end, _) => {
                // A file may be named twice: its splits then differ by the events before them.
                section = Some([*start, *end, first_place]);
                Some(path.clone())
            }
            Part::Memory(..) | Part::Object(..) => None,
        };
        let files: Vec<PathBuf> = self.parts.iter().map(file).collect::<Option<_>>()?;
        self.part_of(&files, section)
    }

    pub fn detector(&self, py: Python<'_>) -> Arc<Detector> {
        let tables = self.tables.bind(py).get();
        let (boards, geometry) = tables.files.clone().map(<(PathBuf, PathBuf)>::from).unzip();
        Arc::new(Detector {
            tables: (*tables.detector).clone(),
            boards,
            geometry,
        })
    }
}
