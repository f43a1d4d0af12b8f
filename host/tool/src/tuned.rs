//! Tuned values for the commands that decode.

use std::path::PathBuf;

use tuner::store::{Locations, StoreError, Workload};
use ut_bench::tunable::{self, Subject, Tuned};
use ut_data::DecodeOptions;
use ut_data::detector::DetectorTables;
use ut_decoders::Parameters;

use crate::output::{detail, say};

/// Use of tuned values.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Tuning")]
pub struct TunedArgs {
    /// Ignore what `ut-decode tune run` has found; use the defaults.
    #[arg(long)]
    pub untuned: bool,
    /// The store of tuned values; without it, $UT_DECODE_TUNE_DB, else tune.sqlite in your cache folder.
    #[arg(long, value_name = "FILE")]
    pub tune_db: Option<PathBuf>,
    /// Use what `ut-decode tune workloads` found for this workload (pp-low, or the name of a file without its
    /// extension), and nothing that was tuned for another one.
    #[arg(long, value_name = "NAME", conflicts_with = "untuned")]
    pub workload: Option<String>,
}

impl TunedArgs {
    /// Returns the workload that values must have been tuned for.
    pub fn tuned_for(&self, tables: &DetectorTables, options: &DecodeOptions) -> Result<Workload, StoreError> {
        match &self.workload {
            None => tunable::workload(tables, options),
            Some(name) => tunable::workload_of(tables, options, name),
        }
    }

    /// Returns the values that were tuned for this machine and these banks, and prints them on standard error. A store
    /// that cannot be read is only a warning: any values decode the same hits.
    pub fn configuration(
        &self,
        what: impl Into<Subject>,
        tables: &DetectorTables,
        options: &DecodeOptions,
    ) -> Option<Parameters> {
        if self.untuned {
            return None;
        }
        if let Some(file) = self.tune_db.as_ref().filter(|file| !file.exists()) {
            say(&format!("warning: no tuned values: {}: there is no such file", file.display()));
        }
        let locations = Locations::choose(crate::tune::store::APPLICATION, self.tune_db.clone(), None);
        let store = locations.as_ref().map(|locations| locations.user.display().to_string()).unwrap_or_default();
        let workload = self.tuned_for(tables, options);
        match locations.and_then(|locations| tunable::look_up(&locations, what, &workload?)) {
            Ok(Some(Tuned { parameters, values, origin })) => {
                say(&format!("tuned values: {values}; {origin}"));
                Some(parameters)
            }
            Ok(None) => {
                detail(&format!("nothing was tuned for this in {store}"));
                if let Some(name) = &self.workload {
                    say(&format!("warning: nothing was tuned for the workload {name:?}: the defaults are used"));
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
