//! `tuner-score`: judges strategies on recorded spaces.

use std::error::Error;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use tuner::strategy::StrategyKind;
use tuner_score::interchange::read_recording;
use tuner_score::score::{ScoreRow, score, table};

/// Replay recorded search spaces, to judge how the tuner searches.
///
/// Takes files or folders of any recorded spaces, one each: the compact CSV form, Kernel Tuner
/// caches and T4 files, gzipped or not. A score of 0 is as good as random search, 1 finds the
/// optimum at once.
#[derive(Debug, clap::Parser)]
struct Args {
    /// Recorded spaces: files, or folders of files.
    #[arg(value_name = "PATH", required = true)]
    spaces: Vec<PathBuf>,
    /// Strategies to score.
    #[arg(long, value_delimiter = ',', default_value = "bayesian")]
    strategy: Vec<StrategyKind>,
    /// Runs of a strategy on each space, each with its own seed.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: u64,
    /// Evaluations of a run (at least 20).
    #[arg(long, value_name = "N", default_value_t = 220, value_parser = clap::value_parser!(u32).range(20..=1_000_000))]
    evaluations: u32,
    /// Write all runs as JSON here.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let mut scores: Vec<ScoreRow> = Vec::new();
    let files = files(&args.spaces)?;
    for &strategy in &args.strategy {
        for file in &files {
            match score(
                &name(file),
                &read_recording(file)?,
                strategy,
                args.seeds,
                args.evaluations as usize,
            ) {
                Some(row) => scores.push(row),
                None => eprintln!("{}: nothing in it is valid; left out", file.display()),
            }
        }
    }
    if scores.is_empty() {
        return Err("none of these files has a space that can be replayed".into());
    }
    if let Some(path) = &args.json {
        std::fs::write(
            path,
            serde_json::to_string_pretty(&serde_json::json!({ "scores": scores }))?,
        )?;
    }
    print!("{}", table(&scores));
    Ok(())
}

/// Lists the files, and those in the folders, sorted.
fn files(paths: &[PathBuf]) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let entries = std::fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path()));
            let mut found = entries.collect::<Result<Vec<_>, _>>()?;
            found.retain(|path| path.is_file());
            found.sort();
            files.extend(found);
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

/// Returns a file's name without endings.
fn name(file: &Path) -> String {
    let name = file
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.strip_suffix(".csv")
        .or_else(|| name.strip_suffix(".json"))
        .unwrap_or(name)
        .to_owned()
}
