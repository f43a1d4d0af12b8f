//! `ut-decode diff`: what differs between two files of hits.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::cli::Failure;
use crate::cli::output::{count, print_beside, say, write_json};
use crate::cli::table::table;
use crate::detector::LAYER_NAMES;
use crate::output::diff::{Diff, DiffOptions, Difference, LayerDiff, What, diff};
use crate::output::read::{Cell, HitReader, Names, ReadColumn, Values};
use serde_json::{Value, json};

/// Exit status where the files differ.
const DIFFERENT: u8 = 1;

/// Exit status where the command fails: 1 says something else here.
pub const FAILED: u8 = 2;

/// Compare two files of hits, hit by hit.
///
/// Says which events and hits are in one file only, which columns differ and by how much, whether the order is the same,
/// and the first differences. Reads CSV, Parquet and NumPy files of decode, and CSV of other programs, whose columns
/// --names translates. Floats are equal when all their bits are. Events are matched by the names of their input files; if
/// the tables share no name, by the order of those files. Columns that one file lacks are not compared. Exit code: 0 no
/// difference, 1 some, 2 failed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// One file.
    a: PathBuf,
    /// The other.
    b: PathBuf,
    /// Names of columns in a file of another program, as ours=theirs, comma-separated, for example
    /// id=LHCbID,event=evt; id is short for `lhcb_id`.
    #[arg(long, value_name = "LIST")]
    names: Option<Names>,
    /// Ignore differences in the order of hits.
    #[arg(long)]
    any_order: bool,
    /// How many differences to print.
    #[arg(long, value_name = "N", default_value_t = 10)]
    first: usize,
    /// Write the same as JSON here; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<u8, Failure> {
    let names = args.names.clone().unwrap_or_default();
    let options = DiffOptions { any_order: args.any_order, first: args.first };
    let (mut a, mut b) = (HitReader::open(&args.a, &names)?, HitReader::open(&args.b, &names)?);
    let found = diff(&mut a, &mut b, options)?;
    if let Some(path) = &args.json {
        write_json(path, &as_json(args, &found))?;
    }
    print_beside(args.json.as_deref(), &text(args, &found))?;
    for reader in [&a, &b] {
        if reader.may_be_cut() {
            let file = reader.path().display();
            say(&format!("warning: {file} does not end with a newline: its last row may be cut short"));
        }
    }
    if let [a, b] = found.files
        && a != b
        && found.fell
    {
        say(&format!(
            "warning: A has events of {}, B of {}: a new file begins where event numbers fall. If that is not so, sort both \
             by event",
            count(a as usize, "file"),
            count(b as usize, "file")
        ));
    }
    Ok(if found.is_same() { 0 } else { DIFFERENT })
}

fn text(args: &Args, found: &Diff) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<22}{value}");
    };
    row("A", &args.a.display().to_string());
    row("B", &args.b.display().to_string());
    let Diff { same_events, different_events, only_a_events, only_b_events, .. } = found;
    row(
        "events with hits",
        &format!(
            "{same_events} same, {different_events} different, {only_a_events} only in A, {only_b_events} only in B"
        ),
    );
    row(
        "order of hits",
        &match found.other_order_events {
            0 => "the same".to_owned(),
            n => format!("another in {}", count(n as usize, "event")),
        },
    );
    let columns: Vec<_> = found.columns.iter().map(|column| column.column.name).collect();
    row("compared", &["event", "lhcb_id"].into_iter().chain(columns).collect::<Vec<_>>().join(", "));
    for (side, only) in ["A", "B"].iter().zip(&found.only_in).filter(|(_, only)| !only.is_empty()) {
        row(&format!("only {side} has"), &only.join(", "));
    }
    let head = ["layer", "same", "different", "only in A", "only in B"].map(str::to_owned).to_vec();
    let mut rows = vec![head];
    for (name, layer) in LAYER_NAMES.iter().chain(&["other"]).zip(found.layers) {
        if *name != "other" || layer != LayerDiff::default() {
            let LayerDiff { same, different, only_a, only_b } = layer;
            let counts = [same, different, only_a, only_b].map(|n| n.to_string());
            rows.push([(*name).to_owned()].into_iter().chain(counts).collect());
        }
    }
    text.push('\n');
    text += &table(&rows);
    if found.columns.iter().any(|column| column.hits > 0) {
        let head = ["column", "hits", "by at most", "last place", "null in one"].map(str::to_owned).to_vec();
        let mut rows = vec![head];
        for column in found.columns.iter().filter(|column| column.hits > 0) {
            let floats = column.column.values == Values::Floats;
            let ulps = if floats { column.most_ulps.to_string() } else { String::new() };
            let most = if floats { format!("{:.3e}", column.most) } else { column.most.to_string() };
            rows.push(vec![
                column.column.name.to_owned(),
                column.hits.to_string(),
                most,
                ulps,
                column.nulls.to_string(),
            ]);
        }
        text.push('\n');
        text += &table(&rows);
    }
    if !found.first.is_empty() {
        let _ = writeln!(text, "\nfirst differences");
        for difference in &found.first {
            let _ = writeln!(text, "  {}", line(difference));
        }
    }
    text + if found.is_same() { "\nno difference\n" } else { "\nthe files differ\n" }
}

fn line(difference: &Difference) -> String {
    let Difference { place: (file, event), id, what } = difference;
    let file = if *file > 0 { format!("file {file}, ") } else { String::new() };
    let hit =
        id.map_or_else(String::new, |id| format!(", id {}", id.map_or_else(|| "null".to_owned(), |id| id.to_string())));
    let what = match what {
        What::OnlyA(n) if id.is_none() => format!("only in A, with {}", count(*n, "hit")),
        What::OnlyB(n) if id.is_none() => format!("only in B, with {}", count(*n, "hit")),
        What::OnlyA(_) => "only in A".to_owned(),
        What::OnlyB(_) => "only in B".to_owned(),
        What::Order => "the hits come in another order".to_owned(),
        What::Value(column, a, b) => {
            format!("{} is {} in A and {} in B", column.name, value(*column, *a), value(*column, *b))
        }
    };
    format!("{file}event {event}{hit}: {what}")
}

fn value(column: ReadColumn, cell: Cell) -> String {
    match (cell, column.values) {
        (None, _) => "null".to_owned(),
        (Some(value), Values::Integers) => value.to_string(),
        (Some(bits), Values::Floats) => f32::from_bits(bits as u32).to_string(),
    }
}

fn as_json(args: &Args, found: &Diff) -> Value {
    let layers: serde_json::Map<String, Value> = LAYER_NAMES
        .iter()
        .chain(&["other"])
        .zip(found.layers)
        .map(|(name, LayerDiff { same, different, only_a, only_b })| {
            let counts = json!({ "same": same, "different": different, "only_a": only_a, "only_b": only_b });
            ((*name).to_owned(), counts)
        })
        .collect();
    let columns: serde_json::Map<String, Value> = found
        .columns
        .iter()
        .map(|column| {
            let floats = column.column.values == Values::Floats;
            // Infinity is not JSON.
            let most = column.most.is_finite().then_some(column.most);
            let value = json!({
                "hits": column.hits, "nulls": column.nulls, "most": most,
                "most_ulps": floats.then_some(column.most_ulps),
            });
            (column.column.name.to_owned(), value)
        })
        .collect();
    json!({
        // JSON is text, and names need not be.
        "a": args.a.display().to_string(), "b": args.b.display().to_string(), "same": found.is_same(),
        "events": {
            "same": found.same_events, "different": found.different_events, "only_a": found.only_a_events,
            "only_b": found.only_b_events, "other_order": found.other_order_events,
        },
        "files": found.files, "layers": layers, "columns": columns,
        "only_a_columns": found.only_in[0], "only_b_columns": found.only_in[1],
        "first": found.first.iter().map(line).collect::<Vec<_>>(),
    })
}
