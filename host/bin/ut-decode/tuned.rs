//! Tuned values for the commands that decode: looked up by themselves, and said.

use std::path::PathBuf;

use ut_decoding::DecodeOptions;
use ut_decoding::backend::Backend;
use ut_decoding::bench::cpu_tunable::{self, CpuLaunch};
use ut_decoding::detector::DetectorTables;
use ut_decoding::tuning::store::{Layers, Locations, StoreError};

use crate::output::say;

/// Whether tuned values are used.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Tuning")]
pub struct TunedArgs {
    /// Ignore what `ut-decode tune` has found; use the defaults.
    #[arg(long)]
    pub untuned: bool,
    /// The store of tuned values; without it, $UT_DECODE_TUNE_DB, else tune.sqlite in your cache folder.
    #[arg(long, value_name = "FILE")]
    pub tune_db: Option<PathBuf>,
    /// Use what `ut-decode workloads` has found for this workload (pp-low, or the name of a file without its ending), and
    /// nothing that was tuned for another one.
    #[arg(long, value_name = "NAME", conflicts_with = "untuned")]
    pub workload: Option<String>,
}

impl TunedArgs {
    /// What was tuned for this machine and these banks, said on standard error where there is something. A store that
    /// cannot be read is a warning: any values decode the same hits.
    pub fn cpu_launch(&self, backend: Backend, tables: &DetectorTables, options: &DecodeOptions) -> Option<CpuLaunch> {
        if self.untuned || backend != Backend::Cpu {
            return None;
        }
        match self.look_up(tables, options) {
            Ok(Some((launch, words))) => {
                let CpuLaunch { batch, cpu } = launch;
                let threads = if cpu.threads == 0 { "all".to_owned() } else { cpu.threads.to_string() };
                say(&format!("tuned values: batch {batch}, chunk {}, threads {threads}; {words}", cpu.chunk));
                Some(launch)
            }
            Ok(None) => {
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

    fn look_up(
        &self,
        tables: &DetectorTables,
        options: &DecodeOptions,
    ) -> Result<Option<(CpuLaunch, String)>, StoreError> {
        let layers = Layers::open(Locations::choose(self.tune_db.clone(), None)?)?;
        match &self.workload {
            None => cpu_tunable::look_up(&layers, tables, options),
            Some(name) => cpu_tunable::look_up_for(&layers, &cpu_tunable::workload_of(tables, options, name)?),
        }
    }
}
