//! A job whose hits go to a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use ut_decoding::decoder::{Count, EventReport, Loss};
use ut_decoding::input::{Damage, Place, Seen};
use ut_decoding::job::{Done, LARGE_BATCH_SIZE};
use ut_decoding::output::{Columns, HitFormat, HitStyle, Provenance, remove_abandoned};
use ut_decoding::views::{Detector, SYNTHETIC, facts};

use crate::failure::Failure;
use crate::job::{Made, give_back, run};
use crate::made_by::{COMMIT, VERSION};
use crate::piece::damages;
use crate::request::{Request, Task, check};
use crate::wait::wait_for;

#[derive(Default)]
struct Written {
    events: u64,
    hits: u64,
    masked: u64,
    counts: [u64; Count::ALL.len()],
    loss: Loss,
    damages: Vec<(Place, Damage)>,
    failures: Vec<Failure>,
}

/// Returns how the hits were made, as the tool writes it into its files; `measured` says if there
/// are measured events.
fn provenance(task: &Task, detector: &Detector, measured: bool) -> Provenance {
    let inputs: Vec<String> = task
        .names
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let mut entries = vec![
        ("version", VERSION.to_owned()),
        ("commit", COMMIT.unwrap_or_default().to_owned()),
        ("backend", task.backend.name().to_owned()),
        ("layout", "as read".to_owned()),
    ];
    let mask = task
        .mask
        .as_ref()
        .map(|(file, mask)| (file.as_path(), mask));
    entries.extend(facts(task.options, detector, mask));
    entries.push(("inputs", inputs.join("\n")));
    entries.extend((measured && detector.is_embedded()).then(|| ("warning", SYNTHETIC.to_owned())));
    let entries = entries
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    Provenance {
        entries,
        incomplete: None,
    }
}

fn write(
    task: &Task,
    path: PathBuf,
    detector: &Detector,
    stop: &AtomicBool,
) -> Result<Written, Failure> {
    let columns = Columns {
        detector: task.columns.detector().collect(),
        ..Columns::default()
    };
    let style = HitStyle::new(path.clone(), HitFormat::Parquet, &task.names, columns)?;
    let style = style.without(task.columns.left_out())?;
    // A worker that was killed has left a file.
    remove_abandoned(
        path.parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new(".")),
    );
    let mut file = style.create(path)?;
    let (mut written, mut all, mut failed) = (Written::default(), Seen::default(), None);
    run(
        task,
        stop,
        || Some(style.encoder()),
        |reached, done, spare| {
            task.progress.add(0, reached);
            let Done {
                mut seen, mut made, ..
            } = match done {
                Ok(done) => done,
                Err(failure) if task.keep_going && failure.is_of_input() => {
                    written.failures.push(failure);
                    return true;
                }
                Err(failure) => {
                    failed = Some(failure);
                    return false;
                }
            };
            written.damages.append(&mut seen.damages);
            all.merge(seen);
            for Made { batch, encoded } in &mut made {
                written.events += batch.origins.len() as u64;
                task.progress.add(batch.origins.len() as u64, reached);
                written.hits += batch.hits.len() as u64;
                written.masked += batch.masked.iter().map(|&n| u64::from(n)).sum::<u64>();
                for EventReport { counts } in &batch.reports {
                    written
                        .counts
                        .iter_mut()
                        .zip(counts)
                        .for_each(|(sum, &n)| *sum += u64::from(n));
                }
                batch
                    .losses
                    .iter()
                    .for_each(|loss| written.loss.merge(loss));
                if let Some(Err(error)) = encoded.take().map(|encoded| file.append(encoded)) {
                    failed = Some(error.into());
                    return false;
                }
            }
            give_back(made, spare);
            true
        },
    );
    if let Some(failure) = failed {
        return Err(failure);
    }
    if stop.load(Ordering::Relaxed) {
        // The answer is no longer wanted; the file is dropped.
        return Ok(written);
    }
    task.check_events(&all)?;
    let incomplete = written.failures.first().map(ToString::to_string);
    file.finish(&Provenance {
        incomplete,
        ..provenance(task, detector, all.measured > 0)
    })?;
    Ok(written)
}

/// Decodes into a Parquet file, which appears complete or not at all. Returns the counts.
#[pyfunction]
pub fn to_parquet(
    py: Python<'_>,
    mut request: Request,
    path: PathBuf,
) -> PyResult<Bound<'_, PyDict>> {
    request.batch.get_or_insert(LARGE_BATCH_SIZE);
    let detector = request.detector(py);
    let task = check(py, request)?;
    let stop: Arc<AtomicBool> = Arc::default();
    let seen = Arc::clone(&stop);
    let progress = Arc::clone(&task.progress);
    let written = wait_for(py, &stop, Some(&progress), move || {
        write(&task, path, &detector, &seen)
    })?;
    let all = PyDict::new(py);
    all.set_item("events", written.events)?;
    all.set_item("hits", written.hits)?;
    all.set_item("masked", written.masked)?;
    all.set_item("counts", written.counts)?;
    all.set_item("loss", written.loss.numbers())?;
    all.set_item("damages", damages(py, &written.damages)?)?;
    let failures = written
        .failures
        .iter()
        .map(|failure| failure.exception(py))
        .collect::<PyResult<Vec<_>>>()?;
    all.set_item("failures", failures)?;
    Ok(all)
}
