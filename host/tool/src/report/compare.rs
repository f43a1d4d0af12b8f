//! What differs between two runs.

use chart_page::{Page, Shading, Sign};

use super::maps::{Drawing, MapOf};
use super::names::{lanes_of_sectors, sector as sector_name, short};
use super::run::Run;
use crate::detector::Detector;
use ut_report::{Difference, distributions};

/// Standard deviations from which a difference is marked: of a thousand sectors and two quantities, chance gives fewer
/// than one in a hundred runs.
const MARKED: f64 = 5.0;

/// Sectors that the table lists.
const LISTED: usize = 200;

/// B by A. Of a sector that has hits in B alone, it is beyond all numbers.
fn ratio(difference: &Difference) -> String {
    if difference.ratio.is_infinite() { "∞".to_owned() } else { short(difference.ratio) }
}

/// The section.
pub fn section(page: &mut Page, detector: &Detector, a: &Run<'_>, b: &Run<'_>, differences: &[Difference]) {
    page.heading(&format!("What differs: {} (A) and {} (B)", a.name, b.name));
    let is_marked = |sigmas: f64| sigmas.is_finite() && sigmas.abs() >= MARKED;
    let which = |pick: &dyn Fn(&Difference) -> bool| -> Vec<usize> {
        differences.iter().filter(|difference| pick(difference)).map(|difference| difference.sector).collect()
    };
    let more = which(&|d| is_marked(d.sigmas) && d.sigmas > 0.0);
    let fewer = which(&|d| is_marked(d.sigmas) && d.sigmas < 0.0);
    let charged = which(&|d| is_marked(d.charge_sigmas));
    page.text(&format!(
        "By {MARKED} standard deviations or more: {} sectors have a larger share of the hits in B, {} a smaller one, {} \
         another mean charge.",
        more.len(),
        fewer.len(),
        charged.len()
    ));
    let drawing = Drawing::new(page, detector);
    let hover = |sector: usize| {
        let d = &differences[sector];
        let [in_a, in_b] = d.hits.map(short);
        format!("A: {in_a} hits an event, B: {in_b}\nB to A, as shares: {}, {} σ", ratio(d), short(d.sigmas))
    };
    page.large_charts(&drawing.charts(&MapOf {
        name: "hits in B to A".to_owned(),
        unit: "share of the hits, B by A",
        shading: Shading::Ratio,
        range: Some((0.5, 2.0)),
        values: differences.iter().map(|d| d.ratio).collect(),
        hover: &hover,
        marks: vec![
            (format!("more, {MARKED} σ"), Sign::Up, more),
            (format!("fewer, {MARKED} σ"), Sign::Down, fewer),
            (format!("charge, {MARKED} σ"), Sign::Circle, charged),
        ],
    }));
    page.note(
        "Hits as shares: the median of all sectors is 1, however much busier one run is. The standard deviation is that of \
         a sector's hits from event to event.",
    );
    let tables = &detector.tables;
    let lanes = lanes_of_sectors(tables);
    let mut order: Vec<&Difference> = differences.iter().filter(|d| d.sigmas.is_finite()).collect();
    let most =
        |d: &Difference| d.sigmas.abs().max(if d.charge_sigmas.is_finite() { d.charge_sigmas.abs() } else { 0.0 });
    order.sort_by(|a, b| most(b).total_cmp(&most(a)));
    let head =
        ["sector", "A, hits an event", "B", "B to A, shares", "σ", "A, mean charge", "B, mean charge", "σ of charge"]
            .map(str::to_owned);
    let row = |d: &&Difference| {
        let name = sector_name(d.sector, &lanes[d.sector], tables);
        let [hits_a, hits_b] = d.hits.map(short);
        let [charge_a, charge_b] = d.charge.map(short);
        let cells = vec![name, hits_a, hits_b, ratio(d), short(d.sigmas), charge_a, charge_b, short(d.charge_sigmas)];
        (is_marked(d.sigmas) || is_marked(d.charge_sigmas), cells)
    };
    page.named_table("Differences by sector", &head, order.iter().take(LISTED).map(row));
    let shapes = distributions(&a.gathered.view, &b.gathered.view);
    if !shapes.is_empty() {
        let head = ["distribution", "χ²", "degrees of freedom", "σ"].map(str::to_owned);
        let row = |shape: &ut_report::Distribution| {
            let cells = [short(shape.chi2), shape.freedom.to_string(), short(shape.sigmas)];
            (shape.sigmas >= MARKED, [&[shape.name.clone()][..], &cells].concat())
        };
        page.named_table("Differences of distributions", &head, shapes.iter().map(row));
        page.note(
            "χ² between the shapes. Hits of one event are not quite independent, so a few σ between long runs say little.",
        );
    }
}
