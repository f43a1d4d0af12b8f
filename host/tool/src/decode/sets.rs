//! Parameter sets of several workloads: each piece of the inputs is decoded with the set of the workload that the batches
//! before it look like. Hits are the same with any set.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tuner::workloads::{Features, Picker};

use crate::Failure;
use crate::sets_file::{SetOf, SetsFile};
use ut_bench::tunable;
use ut_decoders::{Backend, Parameters};

/// Batches in a row that must look like no workload before it is said.
const STRANGE: usize = 3;

/// The sets, which of them is in use, and what became of it.
pub struct Sets {
    all: Vec<(SetOf, Parameters)>,
    current: AtomicUsize,
    state: Mutex<State>,
}

struct State {
    picker: Picker,
    /// Batches that were decoded while each set was in use.
    batches: Vec<usize>,
    changes: usize,
    strange: usize,
    streak: usize,
    news: Vec<String>,
}

impl Sets {
    /// The sets of a file, the first of them in use.
    ///
    /// # Errors
    /// A file that holds no sets, or those of another backend or machine; parameters that are none.
    pub fn read(path: &Path, backend: Backend) -> Result<Self, Failure> {
        let here = tunable::device(backend)?.name;
        SetsFile::read(path, |file| Self::new(file, backend, &here))
    }

    fn new(file: SetsFile, backend: Backend, here: &str) -> Result<Self, Failure> {
        file.check_backend(backend)?;
        let picker = Picker::new(file.of.iter().map(|of| file.tuned(of, tuner::Config(Vec::new()))).collect(), here)?;
        let base = tunable::base(backend);
        let mut sets = Vec::with_capacity(file.of.len());
        for of in file.of {
            let configuration = base.with(backend, &of.parameters)?;
            sets.push((of, configuration));
        }
        let batches = vec![0; sets.len()];
        let state = State { picker, batches, changes: 0, strange: 0, streak: 0, news: Vec::new() };
        Ok(Self { all: sets, current: AtomicUsize::new(0), state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the set in use.
    pub fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// A set by its number.
    pub fn configuration(&self, set: usize) -> &Parameters {
        &self.all[set].1
    }

    /// Takes note of what a batch looked like, which may change the set for the next ones.
    pub fn look(&self, set: usize, looks: &Features) {
        let mut state = self.lock();
        let State { picker, batches, changes, strange, streak, news } = &mut *state;
        batches[set] += 1;
        let pick = picker.pick(looks);
        let next = pick.number;
        if pick.changed {
            *changes += 1;
            let SetOf { workload, parameters, .. } = &self.all[next].0;
            news.push(format!("events look like {workload} now: decoding with {parameters}"));
            self.current.store(next, Ordering::Relaxed);
        }
        if !pick.strange {
            *streak = 0;
            return;
        }
        *strange += 1;
        *streak += 1;
        if *streak == STRANGE {
            let known: Vec<&str> = self.all.iter().map(|(of, _)| of.workload.as_str()).collect();
            let mut line =
                format!("warning: events look like none of the workloads that were tuned ({})", known.join(", "));
            let _ = write!(line, ": the set of {} is a guess", self.all[next].0.workload);
            news.push(line);
        }
    }

    /// Returns what there is to be said since it was last asked for.
    pub fn news(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().news)
    }

    /// What became of it: batches by the workload whose set decoded them, changes, batches that looked like none.
    pub fn json(&self) -> Value {
        let state = self.lock();
        let batches: serde_json::Map<String, Value> =
            self.all.iter().zip(&state.batches).map(|((of, _), n)| (of.workload.clone(), json!(n))).collect();
        json!({ "batches": batches, "changes": state.changes, "strange": state.strange })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(workload: &str, hits: f64, parameters: &str) -> SetOf {
        let looks = Features::from([("hits_per_event", hits)]);
        SetOf { workload: workload.to_owned(), looks, parameters: parameters.to_owned() }
    }

    fn file(of: Vec<SetOf>) -> SetsFile {
        SetsFile { backend: "cpu".to_owned(), device: "here".to_owned(), of }
    }

    fn looks(hits: f64) -> Features {
        Features::from([("hits_per_event", hits)])
    }

    #[test]
    fn the_set_follows_the_events_after_some_batches_and_it_is_said_once() {
        let all = file(vec![of("low", 100.0, "cpu.chunk=4,batch=64"), of("high", 900.0, "cpu.chunk=1,batch=32")]);
        let sets = Sets::new(all, Backend::Cpu, "here").unwrap();
        assert_eq!((sets.current(), sets.configuration(0).batch()), (0, 64));
        for hits in [100.0, 900.0, 100.0, 900.0, 900.0] {
            sets.look(0, &looks(hits));
        }
        assert_eq!(sets.current(), 0, "two batches in a row are too few");
        sets.look(0, &looks(900.0));
        assert_eq!((sets.current(), sets.configuration(1).cpu_chunk()), (1, 1));
        assert_eq!(sets.news(), ["events look like high now: decoding with cpu.chunk=1,batch=32"]);
        for _ in 0..5 {
            sets.look(1, &looks(90_000.0));
        }
        let news = sets.news();
        assert!(news.len() == 1 && news[0].contains("none of the workloads that were tuned (low, high)"), "{news:?}");
        assert_eq!(sets.json(), json!({"batches": {"low": 6, "high": 5}, "changes": 1, "strange": 5}));
    }

    #[test]
    fn sets_of_another_machine_or_backend_and_what_is_no_parameter_are_refused() {
        let said = |file: SetsFile, here: &str| Sets::new(file, Backend::Cpu, here).err().unwrap().to_string();
        let one = || vec![of("low", 100.0, "batch=64")];
        assert!(said(file(one()), "elsewhere").contains("tuned on here, this is elsewhere"));
        assert!(said(SetsFile { backend: "cuda".to_owned(), ..file(one()) }, "here").contains("backend cuda"));
        assert!(said(file(vec![]), "here").contains("empty"));
        assert!(said(file(vec![of("low", 1.0, "batsch=64")]), "here").contains("batsch"));
    }
}
