//! `ut-decode kernels --predict`: how fast the kernels could be on a card, and beside a measurement.

use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};

use crate::bench::prediction::{Card, Compared, Measured, Prediction};
use crate::memory::read_text;
use serde_json::{Value, json};

use crate::cli::Failure;
use crate::cli::output::{print_beside, write_json};
use crate::cli::table::table;

/// Bytes of the largest card or measurement that is read.
const LARGEST: u64 = 1 << 24;

/// Stands before every number.
const NOTE: &str = "prediction, not measured";

const ASSUMPTIONS: [&str; 7] = [
    "as many SASS instructions as PTX instructions; a multiprocessor issues 4 in a cycle",
    "the highest clock and the whole bandwidth of the data sheet, all the time",
    "memory brings each sector that a launch touches once, and takes each that it writes once; tables as a small sample has them",
    "a block waits for its own loads one behind the other, in the order of the PTX, and its longest warp issues alone",
    "multiprocessors are full of blocks, as many as registers and shared memory allow; no block waits for another",
    "batches of thousands of events: launching takes no time; banks and hits lie on the device",
    "low: instructions, bandwidth and latency do not overlap at all; high: they overlap wholly",
];

#[derive(Debug, clap::Args)]
pub struct PredictArgs {
    /// Predict, from counts, how many events a second a GPU would decode; may be given several times.
    ///
    /// A card (a5000, a100, rtx4090, l40s, h100, h200), or a TOML file with name, arch, multiprocessors, clock_mhz and
    /// bandwidth_gb_s. Bounds by instructions, bandwidth and latency, for each kind of event that was counted: a
    /// prediction, not a measurement.
    #[arg(long, value_name = "CARD", conflicts_with_all = ["unit", "arch", "n_boards", "n_groups", "measure"])]
    predict: Vec<String>,
    /// Show a measurement (JSON of `throughput --backend cuda`) beside the prediction for its GPU; may be given several
    /// times.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["unit", "arch", "n_boards", "n_groups", "measure"])]
    measured: Vec<PathBuf>,
}

impl PredictArgs {
    /// Whether there is anything to predict.
    pub const fn is_asked(&self) -> bool {
        !self.predict.is_empty() || !self.measured.is_empty()
    }
}

pub fn run(args: &PredictArgs, to: Option<&Path>) -> Result<(), Failure> {
    let mut text = format!("{NOTE}: million events a second, from counts of the kernels (docs/prediction.md)\n");
    let (mut cards, mut compared) = (Vec::new(), Vec::new());
    for name in &args.predict {
        let card = card(name)?;
        let predictions = Prediction::all(&card).map_err(|error| error.to_string())?;
        text += &in_words(&card, &predictions);
        cards.push(json!({ "card": card, "predictions": predictions }));
    }
    for path in &args.measured {
        let (card, found) = measured(path)?;
        text += &beside(path, &card, &found);
        compared.push(json!({ "file": path.display().to_string(), "card": card, "batches": found }));
    }
    text += "\nassumed:\n";
    for line in ASSUMPTIONS {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "- {line}");
    }
    if let Some(path) = to {
        let value: Value = json!({ "note": NOTE, "assumptions": ASSUMPTIONS, "cards": cards, "measured": compared });
        write_json(path, &value)?;
    }
    print_beside(to, &text)?;
    Ok(())
}

/// The card of this name, or of this file.
fn card(name: &str) -> Result<Card, Failure> {
    let mut known = Card::known();
    if let Some(card) = known.remove(name) {
        return Ok(card);
    }
    let path = Path::new(name);
    if !path.is_file() {
        let names: Vec<_> = known.into_keys().collect();
        return Err(format!("no card and no file is called {name:?}: the cards are {}", names.join(", ")).into());
    }
    Card::parse(&text_of(path)?).map_err(|error| format!("{name}: {}", error.trim_end()).into())
}

fn text_of(path: &Path) -> Result<String, Failure> {
    let text = File::open(path).and_then(|file| read_text(file, LARGEST));
    text.map_err(|error| format!("cannot read {}: {error}", path.display()).into())
}

/// The GPU of a measurement, and each rate beside what is predicted.
fn measured(path: &Path) -> Result<(Card, Vec<Compared>), Failure> {
    let of_file = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    let measured: Measured = serde_json::from_str(&text_of(path)?)
        .map_err(|error| of_file(&format!("not the JSON of throughput --backend cuda: {error}")))?;
    let gpu = measured.gpu().ok_or_else(|| of_file(&"not measured on a GPU"))?;
    let card = Card::of_measured(gpu).map_err(|error| of_file(&error))?;
    let predictions = Prediction::all(&card).map_err(|error| error.to_string())?;
    let found = measured.compare(&predictions);
    if found.is_empty() {
        let Measured { sample, layout, bank_version, .. } = measured;
        let what = format!("{sample}, {layout} layout, banks of version {bank_version}: such events were not counted");
        return Err(of_file(&what).into());
    }
    Ok((card, found))
}

fn head(card: &Card) -> String {
    let Card { name, arch, multiprocessors, clock_mhz, bandwidth_gb_s, latency_cycles, cycles_per_instruction } = card;
    format!(
        "\n{name}: {arch}, {multiprocessors} multiprocessors, {clock_mhz:.0} MHz, {bandwidth_gb_s:.0} GB/s; {latency_cycles} cycles a \
         load, {cycles_per_instruction} an instruction of a warp\n"
    )
}

fn millions(rate: f64) -> String {
    format!("{:.2}", rate * 1e-6)
}

fn in_words(card: &Card, predictions: &[Prediction]) -> String {
    let titles = ["events", "layout", "pipeline", "instructions", "bandwidth", "latency", "predicted", "held back by"];
    let titles = titles.map(str::to_owned).to_vec();
    let rows = predictions.iter().map(|of| {
        let Prediction { events, layout, pipeline, instructions, bandwidth, latency, low, high, limit } = of;
        let [instructions, bandwidth, latency, low, high] =
            [instructions, bandwidth, latency, low, high].map(|&rate| millions(rate));
        let between = format!("{low} to {high}");
        let limit = (*limit).to_owned();
        vec![events.clone(), layout.clone(), pipeline.clone(), instructions, bandwidth, latency, between, limit]
    });
    head(card) + &table(&[titles].into_iter().chain(rows).collect::<Vec<_>>())
}

fn beside(path: &Path, card: &Card, found: &[Compared]) -> String {
    let titles = ["events", "pipeline", "batch", "measured", "predicted", "measured/high"];
    let titles = titles.map(str::to_owned).to_vec();
    let rows = found.iter().map(|Compared { sample, batch, measured, predicted }| {
        let between = format!("{} to {}", millions(predicted.low), millions(predicted.high));
        let share = format!("{:.2}", measured / predicted.high);
        vec![sample.clone(), predicted.pipeline.clone(), batch.to_string(), millions(*measured), between, share]
    });
    let mut text = head(card);
    let _ = writeln!(text, "measured in {}, beside the prediction:", path.display());
    text + &table(&[titles].into_iter().chain(rows).collect::<Vec<_>>())
}
