//! `ut-decode tune explain`: why this configuration.

use std::fmt::Write as _;
use std::path::PathBuf;

use tuner::report::explain::{explain, importance};
use tuner::report::words::{in_words, objective_of, tried, word};
use tuner::store::contents::RunRecord;

use serde_json::json;

use crate::Failure;
use crate::output::{print_beside, write_json};
use crate::tune::store::StoreArgs;

/// Say why a configuration was chosen: against what, how sure that is, and which parameters matter.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The run, by the number that `tune store list` shows; without it, the latest that decided something.
    run: Option<i64>,
    /// Also list this many of the configurations that were tried, the fastest first.
    #[arg(long, value_name = "N", default_value_t = 0)]
    top: usize,
    /// Write the evidence and the effects of the parameters as JSON here; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let store = args.store.read()?;
    let run = match args.run {
        Some(run) => run,
        None => store
            .latest_decisions()?
            .first()
            .copied()
            .ok_or_else(|| format!("{}: no run decided anything yet", store.file().display()))?,
    };
    let record = store.run_record(run)?;
    if let Some(path) = &args.json {
        write_json(path, &json!({ "decision": record.decision, "importance": importance(&record) }))?;
    }
    let mut text = String::new();
    let mut devices: Vec<String> = store.runs()?.iter().map(|summary| summary.record.device.to_string()).collect();
    devices.sort_unstable();
    devices.dedup();
    if args.run.is_none() && devices.len() > 1 {
        let n = devices.len();
        let _ =
            writeln!(text, "The latest decision of any device; the store has runs on {n} (`store list` shows them).");
    }
    text += &explain(&record);
    if args.top > 0 {
        text += &configurations(&record, args.top);
    }
    print_beside(args.json.as_deref(), &text)
}

/// The configurations of a run that were tried, the fastest first.
fn configurations(record: &RunRecord, top: usize) -> String {
    let tried = tried(&record.measurements);
    let mut text = format!("{} configurations tried, {} measurements:\n", tried.len(), record.measurements.len());
    for tried in tried.iter().take(top) {
        let words = in_words(&record.space.parameters, tried.config);
        let _ = match (tried.median(), tried.failure) {
            (_, Some((kind, message))) => writeln!(text, "  {:>14}           {words}: {message}", word(kind)),
            (Some(median), None) => {
                writeln!(text, "  {:>14} {:>4} samples  {words}", objective_of(record).words(median), tried.times.len())
            }
            (None, None) => writeln!(text, "  {:>14}           {words}", "no sample"),
        };
    }
    if top < tried.len() {
        let _ = writeln!(text, "  and {} more", tried.len() - top);
    }
    text
}
