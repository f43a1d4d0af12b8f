//! Tuned values for the commands that decode.
//!
//! Tuned values never change a hit. So looking them up never ends a command: a store that cannot be
//! read costs speed and a warning, and the defaults are used.

use std::path::PathBuf;
use std::time::Duration;

use tuner::budget::Budget;
use tuner::objective::Objective;
use tuner::session::Session;
use tuner::store::{Locations, Store, StoreError, Task, Workload};
use tuner::strategy::StrategyKind;
use tuner::tune_watched;
use tuner::watch::Limits;
use ut_bench::ENOUGH_DISTINCT;
use ut_bench::decoding::DecodeDevice;
use ut_bench::environment::watch;
use ut_bench::tunable::{self, Subject, TunedParameters};
use ut_data::detector::DetectorTables;
use ut_data::{DecodeOptions, Layout};
use ut_decoders::{Backend, Parameters};
use ut_report::Detector;

use crate::Failure;
use crate::config;
use crate::output::{detail, say};
use crate::paths::APPLICATION;
use crate::sample::read;
use tuner_command::watcher::Watcher;

/// Budget of the search of a first use.
const FIRST_USE: &str = "evaluations=30,time=20";

/// Longest time that a first use waits for a quiet machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// Use of tuned values.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Tuning")]
pub struct TunedArgs {
    /// Ignore what `ut-decode tune run` has found; use the defaults.
    #[arg(long)]
    pub untuned: bool,
    /// Use what `ut-decode tune chain` found for the workload of this name, and nothing that was
    /// tuned for another one.
    #[arg(long, value_name = "NAME", conflicts_with = "untuned")]
    pub workload: Option<String>,
}

impl TunedArgs {
    /// Returns the workload that values must have been tuned for.
    pub fn tuned_for(
        &self,
        tables: &DetectorTables,
        options: &DecodeOptions,
    ) -> Result<Workload, StoreError> {
        match &self.workload {
            None => tunable::workload(tables, options),
            Some(name) => tunable::workload_of(tables, options, name),
        }
    }

    /// Tunes a decoder for which nothing was tuned, if the settings ask for it, on the first
    /// events; only warns.
    pub fn tune_first(
        &self,
        what: Subject,
        detector: &Detector,
        options: DecodeOptions,
        files: &[PathBuf],
    ) {
        // A pipe could be read only once; a decoder on the emulated GPU is for experiments.
        let wanted =
            config::tunes_on_first_use() && matches!(what.backend, Backend::Cpu | Backend::Cuda);
        if !wanted
            || self.untuned
            || self.workload.is_some()
            || !files.iter().all(|file| file.is_file())
        {
            return;
        }
        let tune = || -> Result<(), Failure> {
            let locations = Locations::choose(APPLICATION)?;
            let workload = self.tuned_for(&detector.tables, &options)?;
            if tunable::look_up(&locations, what, &workload)?.is_some() {
                return Ok(());
            }
            let device = tunable::device(what.backend)?;
            say(&format!(
                "nothing was tuned for {device} yet: tuning it now, as the settings ask for"
            ));
            let mut store = Store::open(&locations.user)?;
            let _alone = store.measure_alone()?;
            let (thing, space) = (
                tunable::tunable(what),
                tunable::space(what, device.sm_count as usize)?,
            );
            let varied = tunable::varied(what, &space)?;
            let task = Task {
                device: &device,
                tunable: &thing,
                workload: &workload,
                space: &space,
            };
            let budget: Budget = FIRST_USE.parse()?;
            let strategy = StrategyKind::default_for(space.len(), budget.most_evaluations());
            let session = Session {
                default: Some(varied.default()),
                patience: PATIENCE,
                ..Session::new(task, strategy, 1, budget)
            };
            let events = read(files, detector, ENOUGH_DISTINCT)?;
            let mut decoder = DecodeDevice::new(&detector.tables, options, events, varied);
            decoder
                .expect(Layout::Allen)
                .map_err(|failure| failure.message)?;
            let mut watch = watch(what.backend, Limits::default());
            let mut watcher = Watcher::new(Objective::Time);
            let tuning = tune_watched(
                &session,
                &mut decoder,
                &mut store,
                &mut *watch,
                &mut |step| {
                    watcher.step(step, |config| space.named(config).to_string());
                    true
                },
            )?;
            if !tuning.decided {
                say(&format!(
                    "{} (of `ut-decode tune run`); the next run tunes again",
                    tuning.evidence.verdict
                ));
            }
            Ok(())
        };
        if let Err(error) = tune() {
            say(&format!("warning: not tuned: {error}"));
        }
    }

    /// Returns the values that were tuned for this machine and these banks, and prints them on
    /// standard error. A store that cannot be read is only a warning: any values decode the same
    /// hits.
    pub fn configuration(
        &self,
        what: impl Into<Subject>,
        tables: &DetectorTables,
        options: &DecodeOptions,
    ) -> Option<Parameters> {
        if self.untuned {
            return None;
        }
        let locations = Locations::choose(APPLICATION);
        let store = locations
            .as_ref()
            .map(|locations| locations.user.display().to_string())
            .unwrap_or_default();
        let workload = self.tuned_for(tables, options);
        match locations.and_then(|locations| tunable::look_up(&locations, what, &workload?)) {
            Ok(Some(TunedParameters {
                parameters,
                values,
                origin,
            })) => {
                say(&format!("tuned values: {values}; {origin}"));
                Some(parameters)
            }
            Ok(None) => {
                detail(&format!(
                    "no values tuned for this backend, machine and bank format in {store}"
                ));
                if let Some(name) = &self.workload {
                    say(&format!(
                        "warning: nothing was tuned for the workload {name:?}: the defaults are used"
                    ));
                }
                None
            }
            Err(error) => {
                say(&format!("warning: no tuned values: {error}"));
                None
            }
        }
    }
}
