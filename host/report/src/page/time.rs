//! Hits of layers and boards, and troubles, against the event number.

use chart_page::{Chart, Heat, Page, Shading};

use super::Run;
use super::names::{LAYERS, count};
use crate::{Against, Span};
use ut_data::detector::{LANES_PER_BOARD, N_LAYERS, layer_of};
use ut_data::{Count, DetectorTables, Kind};

/// Largest number of columns of the picture of all boards.
const COLUMNS: usize = 64;

pub fn sections(page: &mut Page, tables: &DetectorTables, run: &Run<'_>) {
    let (view, of) = (&run.sums.view, run.of("of"));
    let what = match view.against {
        Against::Number => "event number",
        Against::Place => "event, in the order of reading",
    };
    page.heading(&format!("Against the {what}{of}"));
    let spans: Vec<(u64, &Span)> = view.spans.iter().collect();
    let width = view.spans.width();
    let events: u64 = spans.iter().map(|(_, span)| span.events).sum();
    if events == 0 {
        page.text("No event has an event number.");
        return;
    }
    if events < view.events {
        page.text(&format!("Left out here: {} without event number.", count(view.events - events, "event")));
    }
    if view.runs.len() > 1 && view.against == Against::Number {
        page.text("There are several runs here, whose event numbers fall together; --run draws one of them.");
    }
    let layer_of_slot: Vec<usize> = tables.slots().iter().map(|slot| layer_of(usize::from(slot.sector))).collect();
    // The first and the last bin end where the run does.
    let (least, greatest) = view.numbers().unwrap_or_default();
    let edges = spans.iter().map(|(key, _)| *key as f64).chain(spans.last().map(|(key, _)| *key as f64 + width as f64));
    let x: Vec<f64> = edges.map(|edge| edge.clamp(least as f64, greatest as f64 + 1.0)).collect();
    let steps = |value: &dyn Fn(&Span) -> f64| -> Vec<f64> {
        let of = |span: &Span| if span.events > 0 { value(span) / span.events as f64 } else { f64::NAN };
        spans.iter().map(|(_, span)| of(span)).collect()
    };
    let mut hits =
        Chart::new(&format!("hits against event number{of}"), what, "hits an event").title("Hits of the layers");
    for (layer, name) in LAYERS.iter().enumerate().take(N_LAYERS) {
        let of_layer = |span: &Span| {
            let of_layer = span.lanes.iter().zip(&layer_of_slot).filter(|(_, of)| **of == layer);
            of_layer.map(|(n, _)| *n as f64).sum()
        };
        hits = hits.bins(name, &x, &steps(&of_layer));
    }
    let counted: Vec<f64> = spans.iter().map(|(_, span)| span.events as f64).collect();
    let rate = Chart::new(&format!("events against event number{of}"), what, &format!("events in {width}"))
        .title("Events")
        .from_zero()
        .bins("events", &x, &counted);
    let mut charts = vec![hits, rate];
    let mut troubles =
        Chart::new(&format!("troubles against event number{of}"), what, "an event").title("Troubles").from_zero();
    let mut any = false;
    for kind in Count::ALL.into_iter().filter(|count| count.kind() == Kind::Trouble && view.count(*count) > 0) {
        any = true;
        troubles = troubles.bins(kind.name(), &x, &steps(&|span| span.count(kind) as f64));
    }
    if !view.error_banks.is_empty() {
        any = true;
        troubles = troubles.bins("error banks", &x, &steps(&|span| span.error_banks as f64));
    }
    if any {
        charts.push(troubles);
    }
    page.charts(&charts);
    boards(page, tables, run, what, &spans);
}

/// Draws the hits of every board against the event number, over its usual number.
fn boards(page: &mut Page, tables: &DetectorTables, run: &Run<'_>, what: &str, spans: &[(u64, &Span)]) {
    let of = run.of("of");
    let together = spans.len().div_ceil(COLUMNS).next_power_of_two();
    let columns: Vec<&[(u64, &Span)]> = spans.chunks(together).collect();
    let used: Vec<usize> = (0..tables.boards().n_boards())
        .filter(|board| {
            tables.slots()[board * LANES_PER_BOARD..][..LANES_PER_BOARD].iter().any(|slot| slot.chan_id != 0)
        })
        .collect();
    let events: Vec<u64> = columns.iter().map(|column| column.iter().map(|(_, span)| span.events).sum()).collect();
    let mut values = Vec::new();
    for &board in &used {
        let hits: Vec<u64> =
            columns.iter().map(|column| column.iter().map(|(_, span)| span.hits_of_board(board)).sum()).collect();
        let rates = hits.iter().zip(&events).filter(|(_, events)| **events > 0);
        let mut rates: Vec<f64> = rates.map(|(&n, &events)| n as f64 / events as f64).collect();
        rates.sort_by(f64::total_cmp);
        let usual = rates.get(rates.len() * 3 / 4).copied().unwrap_or_default();
        let value = |(&n, &events): (&u64, &u64)| {
            if events == 0 {
                f64::NAN
            } else if usual == 0.0 {
                0.0
            } else {
                n as f64 / events as f64 / usual
            }
        };
        values.push(hits.iter().zip(&events).map(value).collect());
    }
    let heat = Heat {
        columns: columns.iter().map(|column| column[0].0.to_string()).collect(),
        rows: used.iter().map(usize::to_string).collect(),
        values,
        unit: "× the board's usual hits".to_owned(),
        shading: Shading::Signed,
        range: Some((0.0, 2.0)),
        ..Heat::default()
    };
    let chart = Chart::new(&format!("boards against event number{of}"), what, "board")
        .title("Hits of every board")
        .height(640)
        .heat_map(heat);
    page.chart(&chart);
    page.note(
        "1: as many hits an event as the board has in the upper quarter of its bins. Blue: fewer, red: more; a board that \
         dies ends in a dark blue line. Empty: no event.",
    );
}
