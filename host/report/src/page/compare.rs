//! Differences between a run and its reference, in words and numbers.

use chart_page::Page;

use super::names::{count, lanes_of_sectors, sector as sector_name, short};
use super::{Drawing, Run};
use crate::{Difference, MARKED, Overall, RunView, overall};
use ut_data::DetectorTables;

/// Returns the larger of the two deviations of a sector; 0 where nothing is known.
pub fn most(d: &Difference) -> f64 {
    let known =
        [d.sigmas, d.charge_sigmas].map(|sigmas| if sigmas.is_nan() { 0.0 } else { sigmas.abs() });
    known[0].max(known[1])
}

pub fn said(d: &Difference, lanes: &[usize], tables: &DetectorTables) -> String {
    let [in_a, in_b] = d.hits.map(short);
    let hits = if d.is_marked() {
        format!(": {in_a} and {in_b} hits per event, {} σ", short(d.sigmas))
    } else {
        String::new()
    };
    let [of_a, of_b] = d.charge.map(short);
    let charge = format!(
        ": mean charge {of_a} and {of_b}, {} σ",
        short(d.charge_sigmas)
    );
    format!(
        "{}{hits}{}",
        sector_name(d.sector, lanes, tables),
        if d.is_charge_marked() { &charge } else { "" }
    )
}

/// Relative difference of the hits per event from which it is said.
const BUSIER: f64 = 0.1;

/// Returns what differs in the whole detector, in words.
pub fn said_of_all(run: &RunView, reference: &RunView) -> Vec<String> {
    let Overall { hits, charge } = overall(run, reference);
    let line = |what: &str, ratio: f64| {
        format!(
            "{what} of the whole detector in A: {} times that in B",
            short(ratio)
        )
    };
    let mut lines = Vec::new();
    lines.extend((charge != 1.0).then(|| line("mean charge", charge)));
    lines.extend(((hits - 1.0).abs() >= BUSIER).then(|| line("hits per event", hits)));
    lines
}

pub fn summary(
    page: &mut Page,
    drawing: &Drawing<'_>,
    reference: &Run<'_>,
    differences: &[Difference],
) {
    let (run, tables) = (&drawing.run, drawing.tables());
    page.heading(&format!(
        "What differs: {} (A) from {} (B)",
        run.name, reference.name
    ));
    for line in said_of_all(&run.sums.view, &reference.sums.view) {
        page.text(&format!("{line}. Sectors are compared without it."));
    }
    let n =
        |pick: &dyn Fn(&Difference) -> bool| differences.iter().filter(|d| pick(d)).count() as u64;
    let more = n(&|d| d.is_marked() && d.sigmas > 0.0);
    let fewer = n(&|d| d.is_marked() && d.sigmas < 0.0);
    page.text(&format!(
        "By {MARKED} standard deviations or more: {} with a larger share of the hits in A, {} with a smaller one, {} with \
         another mean charge.",
        count(more, "sector"),
        count(fewer, "sector"),
        count(n(&Difference::is_charge_marked), "sector"),
    ));
    let lanes = lanes_of_sectors(tables);
    let head = [
        "sector",
        "A, hits per event",
        "B, hits per event",
        "A by B, shares",
        "σ",
        "A, mean charge",
        "B, mean charge",
        "σ of charge",
    ];
    let row = |d: &Difference| {
        let ([hits_a, hits_b], [charge_a, charge_b]) = (d.hits.map(short), d.charge.map(short));
        let name = sector_name(d.sector, &lanes[d.sector], tables);
        vec![
            name,
            hits_a,
            hits_b,
            short(d.ratio),
            short(d.sigmas),
            charge_a,
            charge_b,
            short(d.charge_sigmas),
        ]
    };
    let marked = drawing.marked();
    if !marked.is_empty() {
        let rows = marked.iter().map(|d| (true, row(d))).collect();
        page.long_table("Sectors that differ", &head.map(str::to_owned), rows);
    }
}
