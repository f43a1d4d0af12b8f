//! Explains the reasons of a decision.

use std::path::PathBuf;

use serde_json::json;

use crate::report::Report;
use crate::report::explain::explain;
use crate::store::open_to_read;
use crate::{Failure, Host};

/// Explain a decision: the configurations compared, how sure it is, and which parameters matter.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of the run, as `store list` shows it [default: the latest that decided something].
    run: Option<i64>,
    /// Write the decision and the effects of the parameters as JSON here; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the command.
pub fn run(host: &Host, args: &Args) -> Result<(), Failure> {
    let store = open_to_read(host)?;
    let runs: Vec<_> = store
        .runs()?
        .into_iter()
        .map(|summary| summary.record)
        .collect();
    // The latest decision: a run that began later may have decided earlier.
    let latest = || {
        runs.iter()
            .filter(|run| run.decision.is_some())
            .max_by_key(|run| &run.finished)
            .map(|run| run.run)
    };
    let run = args.run.or_else(latest);
    let run =
        run.ok_or_else(|| format!("{}: no run decided anything yet", store.file().display()))?;
    let record = store.run_record(run)?;
    if let Some(path) = &args.json {
        let summary = Report::of(&record, None).summary();
        let value = json!({
            "decision": record.decision, "importance": summary.importance, "interactions": summary.interactions,
            "together": summary.together,
        });
        (host.write_json)(path, &value)?;
    }
    host.print_beside(args.json.as_deref(), &explain(&record))
}
