//! Judges strategies and racing on recorded spaces: `cargo run --release -p tuner --features cli --example replay -- --help`.

use std::path::{Path, PathBuf};

use clap::Parser as _;
use tuner::interchange::read_recording;
use tuner::racing_score::{race_table, score_racing};
use tuner::score::{ceiling, score, table};
use tuner::strategy::StrategyKind;

type Failure = Box<dyn std::error::Error>;

/// Replay recorded search spaces, to judge how the tuner searches (--score) and how it races (--race).
///
/// Takes any recorded space: the compact CSV form, Kernel Tuner caches, T4 files and stores, gzipped or not. A score of 0
/// is as good as random search, 1 finds the optimum at once.
#[derive(Debug, clap::Parser)]
struct Args {
    /// Score the strategies: files, or folders of files, one recorded space each.
    #[arg(long, value_name = "PATH", num_args = 1.., required_unless_present = "race")]
    score: Vec<PathBuf>,
    /// Race random configurations of these spaces, which must have samples: files, or folders of files.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    race: Vec<PathBuf>,
    /// Strategies to score.
    #[arg(long, value_delimiter = ',', default_value = "bayesian")]
    strategy: Vec<StrategyKind>,
    /// Also score, as `told`, a Bayesian search that knows the length scales and the noise of the whole recording
    /// beforehand: no learning can do better.
    #[arg(long, requires = "score")]
    ceiling: bool,
    /// Runs of a strategy on each space, or races, each with its own seed.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: u64,
    /// Evaluations of a run (at least 20).
    #[arg(long, value_name = "N", default_value_t = 220, value_parser = clap::value_parser!(u32).range(20..=1_000_000))]
    evaluations: u32,
    /// Configurations of a race.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    candidates: u32,
    /// In races, let the first launch of a configuration be as slow as it was recorded.
    #[arg(long)]
    slow_start: bool,
    /// Write all runs as JSON here.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(serde::Serialize)]
struct Report {
    scores: Vec<tuner::score::ScoreRow>,
    races: Vec<tuner::racing_score::RaceRow>,
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let mut report = Report { scores: Vec::new(), races: Vec::new() };
    let mut text = String::new();
    let spaces = files(&args.score)?;
    for &strategy in &args.strategy {
        for file in &spaces {
            let recording = read_recording(file)?;
            if recording.cut {
                eprintln!("note: {} ends before it is closed: its last entry may be missing", file.display());
            }
            match score(&name(file), &recording, strategy, args.seeds, args.evaluations as usize) {
                Some(row) => report.scores.push(row),
                None => eprintln!("{}: nothing in it is valid; left out", file.display()),
            }
        }
    }
    if args.ceiling {
        for file in &spaces {
            report.scores.extend(ceiling(&name(file), &read_recording(file)?, args.seeds, args.evaluations as usize));
        }
    }
    if !report.scores.is_empty() {
        text += &table(&report.scores);
    }
    for file in files(&args.race)? {
        let recording = read_recording(&file)?;
        match score_racing(&name(&file), &recording, args.candidates as usize, args.seeds, 5, args.slow_start) {
            Some(rows) => report.races.extend(rows),
            None => eprintln!("{}: fewer than {} configurations with samples", file.display(), args.candidates),
        }
    }
    if !report.races.is_empty() {
        text += &race_table(&report.races);
    }
    if report.scores.is_empty() && report.races.is_empty() {
        return Err("none of these files has a space that can be replayed so".into());
    }
    if let Some(path) = &args.json {
        std::fs::write(path, serde_json::to_vec_pretty(&report)?)?;
    }
    print!("{text}");
    Ok(())
}

/// The files themselves, and those in the folders, sorted.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let entries = std::fs::read_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
            let mut found = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
            found.retain(|path| path.is_file());
            found.sort();
            files.extend(found);
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

/// The file's name without its endings.
fn name(file: &Path) -> String {
    let name = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.strip_suffix(".csv").or_else(|| name.strip_suffix(".json")).unwrap_or(name).to_owned()
}
