//! Lists, imports and prunes the tuner's runs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use tuner::store::contents::{Prune, RunSummary};
use tuner::store::{Locations, RECORDED, RunLock, Store, StoreError};
use tuner_score::interchange::{import as keep_recording, read_recording};

use crate::output::{count, print, say};
use crate::report::words::in_words;
use crate::{Failure, Host};

/// Opens the user's store for reading.
pub fn open_to_read(host: &Host) -> Result<Store, Failure> {
    Ok(Store::open_existing(
        &Locations::choose(host.application)?.user,
    )?)
}

/// Opens or makes the user's store.
pub fn open(host: &Host) -> Result<Store, Failure> {
    Ok(Store::open(&Locations::choose(host.application)?.user)?)
}

/// Opens the user's store for a tuning, once no other process measures with it.
pub fn open_to_measure(host: &Host) -> Result<(Store, Option<RunLock>), Failure> {
    let store = open(host)?;
    let mut told = false;
    loop {
        match store.measure_alone() {
            Err(StoreError::Measuring) => {
                if !std::mem::replace(&mut told, true) {
                    say("another tuning is measuring on this machine: waiting until it has ended");
                }
                std::thread::sleep(Duration::from_millis(200));
            }
            lock => return Ok((store, lock?)),
        }
    }
}

/// List, import and prune the runs of the tuner.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List all runs.
    List {
        /// Write the runs as JSON here; - is standard output.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Import a Kernel Tuner cache, a T4 file or a compact CSV.
    Import {
        /// Files, gzipped or not.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Remove runs that no living process is measuring.
    Prune {
        /// Runs, by number.
        runs: Vec<i64>,
        /// Unfinished runs.
        #[arg(long)]
        unfinished: bool,
    },
}

/// Runs the command.
pub fn run(host: &Host, args: &Args) -> Result<(), Failure> {
    match &args.command {
        Command::List { json } => list(host, &open_to_read(host)?, json.as_deref()),
        Command::Import { files } => import(&mut open(host)?, files),
        Command::Prune { runs, unfinished } => {
            let prune = Prune {
                runs: runs.clone(),
                unfinished: *unfinished,
            };
            if prune == Prune::default() {
                return Err("say which runs: by number or --unfinished".into());
            }
            let removed = open(host)?.prune(&prune)?;
            let numbers: Vec<String> = removed.iter().map(ToString::to_string).collect();
            match removed.len() {
                0 => print("nothing to remove\n")?,
                n => print(&format!(
                    "removed {}: {}\n",
                    count(n, "run"),
                    numbers.join(" ")
                ))?,
            }
            Ok(())
        }
    }
}

fn state(summary: &RunSummary) -> &'static str {
    match (&summary.record.finished, &summary.record.decision) {
        (None, _) => "unfinished",
        (_, Some(_)) => "decided",
        (_, None) if summary.record.plan.strategy == RECORDED => "recorded",
        (_, None) if summary.failed == summary.measured => "all failed",
        (_, None) => "undecided",
    }
}

fn list(host: &Host, store: &Store, json: Option<&Path>) -> Result<(), Failure> {
    let runs = store.runs()?;
    if let Some(path) = json {
        let runs: Vec<_> = runs
            .iter()
            .map(|summary| {
                json!({
                    "run": summary.record.run, "tunable": summary.record.tunable, "device": summary.record.device,
                    "workload": summary.record.workload, "strategy": summary.record.plan.strategy,
                    "seed": summary.record.plan.seed, "budget": summary.record.plan.budget,
                    "started": summary.record.started, "finished": summary.record.finished,
                    "measurements": summary.measured, "failures": summary.failed, "state": state(summary),
                    "decision": summary.record.decision,
                })
            })
            .collect();
        (host.write_json)(
            path,
            &json!({"file": store.file().display().to_string(), "runs": runs}),
        )?;
    }
    let mut text = format!("{}: {}\n", store.file().display(), count(runs.len(), "run"));
    for summary in &runs {
        let record = &summary.record;
        let failures = if summary.failed > 0 {
            format!(" ({} failed)", summary.failed)
        } else {
            String::new()
        };
        let decided = record.decision.as_ref().map(|evidence| {
            format!(
                ": {} {}",
                record.workload.objective().words(evidence.chosen.time_ms),
                in_words(&record.space.parameters, &evidence.chosen.config)
            )
        });
        let _ = writeln!(
            text,
            "{:>5}  {}  {} for {} on {}\n       {}, {} measurements{failures}, {}{}",
            record.run,
            record
                .started
                .get(..19)
                .unwrap_or(&record.started)
                .replace('T', " "),
            record.tunable,
            record.workload,
            record.device,
            record.plan.strategy,
            summary.measured,
            state(summary),
            decided.unwrap_or_default()
        );
    }
    host.print_beside(json, &text)
}

fn import(store: &mut Store, files: &[PathBuf]) -> Result<(), Failure> {
    for file in files {
        let measurements = keep_recording(store, &read_recording(file)?)?;
        print(&format!(
            "{}: {}\n",
            file.display(),
            count(measurements, "new measurement")
        ))?;
    }
    Ok(())
}
