//! Hits of layers, boards and chips, charge, banks and troubles, against the event number, the time
//! and the crossing.
//!
//! A bin of the series holds a range of event numbers, and its width doubles as a run grows. The
//! number of bins is thus bounded, and a page of a long run is no larger than a page of a short
//! one.

use chart_page::{Chart, Choices, Heat, Page, Shading};

use super::Run;
use super::names::{LAYERS, count};
use crate::{Against, CHIPS_PER_SECTOR, OF_CROSSING, RunView, Span, chips_of_lanes};
use ut_data::detector::{LANES_PER_BOARD, N_LAYERS, sectors_of_layer};
use ut_data::input::utc;
use ut_data::{Count, DetectorTables, Kind};

/// Largest number of columns of the picture of all boards.
///
/// A run has at most 128 bins, so a column has one bin or two.
const COLUMNS: usize = 64;

/// Key of board 0; the keys of sectors are below.
///
/// A key links pictures: a click on a part in one picture chooses the part with the same key in
/// others.
pub const FIRST_BOARD: u64 = 10_000;

/// Bunch crossings in a bin. An orbit has 3564 crossings, hence 297 bins.
const CROSSINGS: usize = 12;

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
        page.text(&format!(
            "Left out here: {} without event number.",
            count(view.events - events, "event")
        ));
    }
    if view.runs.len() > 1 && view.against == Against::Number {
        page.text(
            "There are several runs here, whose event numbers overlap; --run draws one of \
            them.",
        );
    }
    let x = edges(view, &spans);
    let steps = |value: &dyn Fn(&Span) -> f64| per_event(&spans, value);
    let mut hits = Chart::new(
        &format!("hits against event number{of}"),
        what,
        "hits per event",
    )
    .title("Hits of the layers");
    let mut charge = Chart::new(
        &format!("charge against event number{of}"),
        what,
        "mean ΣADC of a hit, 64 at most",
    )
    .title("Mean charge");
    for (layer, name) in LAYERS.iter().enumerate().take(N_LAYERS) {
        let sectors = sectors_of_layer(layer);
        let chips = sectors.start * CHIPS_PER_SECTOR..sectors.end * CHIPS_PER_SECTOR;
        hits = hits.bins(name, &x, &steps(&|span| span.hits_of(&chips) as f64));
        let mean = |span: &Span| span.charge_of(&chips) as f64 / span.hits_of(&chips) as f64;
        charge = charge.bins(
            name,
            &x,
            &spans.iter().map(|(_, span)| mean(span)).collect::<Vec<_>>(),
        );
    }
    let counted: Vec<f64> = spans.iter().map(|(_, span)| span.events as f64).collect();
    let rate = Chart::new(
        &format!("events against event number{of}"),
        what,
        &format!("events in {width}"),
    )
    .title("Events")
    .from_zero()
    .bins("events", &x, &counted);
    let mut charts = vec![hits];
    charts.extend((view.clusters > 0).then_some(charge));
    charts.extend(against_time(view, &spans, &of));
    charts.push(rate);
    let used = used_boards(tables);
    charts.extend(troubles(view, (what, &of), (&x, &spans), &used));
    page.charts(&charts);
    boards(page, tables, run, what, &spans);
    of_board(page, run, what, (&x, &spans), &used);
    crossings(page, run);
}

/// Returns a value of each bin by its events; not a number without events.
fn per_event(spans: &[(u64, &Span)], value: &dyn Fn(&Span) -> f64) -> Vec<f64> {
    let of = |(_, span): &(u64, &Span)| match span.events {
        0 => f64::NAN,
        events => value(span) / events as f64,
    };
    spans.iter().map(of).collect()
}

/// Draws troubles, error banks and missing banks per event, if there are any.
fn troubles(
    view: &RunView,
    (what, of): (&str, &str),
    (x, spans): (&[f64], &[(u64, &Span)]),
    used: &[usize],
) -> Option<Chart> {
    let steps = |value: &dyn Fn(&Span) -> f64| per_event(spans, value);
    let mut troubles = Chart::new(
        &format!("troubles against event number{of}"),
        what,
        "per event",
    )
    .title("Troubles")
    .from_zero();
    let mut any = false;
    for kind in Count::ALL
        .into_iter()
        .filter(|count| count.kind() == Kind::Trouble && view.count(*count) > 0)
    {
        any = true;
        troubles = troubles.bins(kind.name(), x, &steps(&|span| span.count(kind) as f64));
    }
    if !view.error_banks.is_empty() {
        any = true;
        troubles = troubles.bins("error banks", x, &steps(&|span| span.error_banks as f64));
    }
    let missing = |span: &Span| {
        used.iter()
            .map(|&board| span.ut_events.saturating_sub(span.board(board).banks))
            .sum::<u64>() as f64
    };
    if spans.iter().any(|(_, span)| missing(span) > 0.0) {
        any = true;
        troubles = troubles.bins("missing banks", x, &steps(&missing));
    }
    any.then_some(troubles)
}

/// Returns the edges of the bins; the first and the last one end where the run does.
fn edges(view: &RunView, spans: &[(u64, &Span)]) -> Vec<f64> {
    let (least, greatest) = view.numbers().unwrap_or_default();
    let last = spans
        .last()
        .map(|(key, _)| *key as f64 + view.spans.width() as f64);
    let edges = spans.iter().map(|(key, _)| *key as f64).chain(last);
    edges
        .map(|edge| edge.clamp(least as f64, greatest as f64 + 1.0))
        .collect()
}

/// Returns the boards with a lane that reads a sector.
fn used_boards(tables: &DetectorTables) -> Vec<usize> {
    let is_used = |board: &usize| {
        tables.slots()[board * LANES_PER_BOARD..][..LANES_PER_BOARD]
            .iter()
            .any(|slot| slot.chan_id != 0)
    };
    (0..tables.boards().n_boards()).filter(is_used).collect()
}

/// Draws hits per event against the time, if ODIN has one.
fn against_time(view: &RunView, spans: &[(u64, &Span)], of: &str) -> Option<Chart> {
    let mut timed: Vec<((u64, u64), f64)> = Vec::new();
    for (_, span) in spans.iter().filter(|(_, span)| span.events > 0) {
        timed.push((span.times?, span.hits() as f64 / span.events as f64));
    }
    timed.sort_by_key(|(times, _)| *times);
    let ((start, _), ((_, end), _)) = (timed.first()?.0, *timed.last()?);
    // Events of several runs, or in another order than their numbers, have no bins in time.
    let in_order = timed.windows(2).all(|pair| pair[0].0.1 <= pair[1].0.0);
    if end <= start || !in_order || view.runs.len() > 1 {
        return None;
    }
    let seconds = |time: u64| (time - start) as f64 / 1e6;
    let x: Vec<f64> = timed
        .iter()
        .map(|(times, _)| seconds(times.0))
        .chain([seconds(end)])
        .collect();
    let y: Vec<f64> = timed.iter().map(|(_, hits)| *hits).collect();
    let since = format!("seconds since {} UTC", utc(start)[..19].replace('T', " "));
    let chart = Chart::new(&format!("hits against time{of}"), &since, "hits per event")
        .title("Hits against time");
    Some(chart.bins("hits", &x, &y))
}

/// Draws the hits of every board against the event number, over its usual number.
fn boards(
    page: &mut Page,
    tables: &DetectorTables,
    run: &Run<'_>,
    what: &str,
    spans: &[(u64, &Span)],
) {
    let of = run.of("of");
    let together = spans.len().div_ceil(COLUMNS).next_power_of_two();
    let columns: Vec<&[(u64, &Span)]> = spans.chunks(together).collect();
    let used = used_boards(tables);
    let events: Vec<u64> = columns
        .iter()
        .map(|column| column.iter().map(|(_, span)| span.events).sum())
        .collect();
    let mut values = Vec::new();
    let chips = chips_of_lanes(tables);
    let of_board = |span: &Span, board: usize| -> u64 {
        chips[board * LANES_PER_BOARD..][..LANES_PER_BOARD]
            .iter()
            .map(|chips| span.hits_of(chips))
            .sum()
    };
    for &board in &used {
        let hits: Vec<u64> = columns
            .iter()
            .map(|column| column.iter().map(|(_, span)| of_board(span, board)).sum())
            .collect();
        let rates = hits.iter().zip(&events).filter(|(_, events)| **events > 0);
        let mut rates: Vec<f64> = rates
            .map(|(&n, &events)| n as f64 / events as f64)
            .collect();
        rates.sort_by(f64::total_cmp);
        // The upper quartile and not the median: a board that is dead for most of the run keeps its
        // usual rate, and its dead time is blue. With the median, its usual rate would be 0.
        let usual = rates.get(rates.len() * 3 / 4).copied().unwrap_or_default();
        let value = |(&n, &events): (&u64, &u64)| {
            if events == 0 {
                f64::NAN
            } else if usual == 0.0 {
                0.0
            } else {
                // More digits would only make the page larger.
                (1e3 * n as f64 / events as f64 / usual).round() / 1e3
            }
        };
        values.push(hits.iter().zip(&events).map(value).collect());
    }
    let heat = Heat {
        columns: columns
            .iter()
            .map(|column| column[0].0.to_string())
            .collect(),
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
        "1: as many hits per event as the board has in the upper quarter of its bins. Blue: fewer, red: more; a board that \
         dies ends in a dark blue line. Empty: no event.",
    );
}

/// Draws bank sizes and troubles of a chosen board against the event number.
fn of_board(
    page: &mut Page,
    run: &Run<'_>,
    what: &str,
    (x, spans): (&[f64], &[(u64, &Span)]),
    used: &[usize],
) {
    let of = run.of("of");
    // Boards in which something stands out come first.
    let mut order: Vec<usize> = run
        .verdicts
        .outliers
        .iter()
        .filter_map(|outlier| outlier.board)
        .collect();
    order.retain(|board| used.contains(board));
    order.sort_unstable();
    order.dedup();
    let marked = order.len();
    order.extend(used);
    page.name_keys(
        used.iter()
            .map(|&board| (FIRST_BOARD + board as u64, format!("board {board}"))),
    );
    let chart = |name: &str, y: &str, value: &dyn Fn(&Span, usize) -> u64| {
        let values = |&board: &usize| {
            spans
                .iter()
                .map(|(_, span)| value(span, board))
                .collect::<Vec<u64>>()
        };
        let values: Vec<Vec<u64>> = order.iter().map(values).collect();
        let first: Vec<f64> = values
            .first()
            .map_or_else(Vec::new, |first| first.iter().map(|&n| n as f64).collect());
        Chart::new(&format!("{name} of a board{of}"), what, y)
            .title(name)
            .bins(name, x, &first)
            .height(260)
            .from_zero()
            .choices(Choices {
                label: format!("Board{of}"),
                values,
                keys: order
                    .iter()
                    .map(|&board| FIRST_BOARD + board as u64)
                    .collect(),
                marked,
            })
    };
    let mean = |span: &Span, board: usize| {
        let sum = span.board(board);
        sum.bytes.checked_div(sum.banks).unwrap_or_default()
    };
    let wrong = |span: &Span, board: usize| {
        let sum = span.board(board);
        sum.troubles + sum.errors + sum.repeats + span.ut_events.saturating_sub(sum.banks)
    };
    page.charts(&[
        chart("Mean size of the banks", "bytes", &mean),
        chart(
            "Troubles, error, missing and repeated banks",
            "banks in a bin",
            &wrong,
        ),
    ]);
}

/// Draws events and hits by bunch crossing, if ODIN has them.
fn crossings(page: &mut Page, run: &Run<'_>) {
    let (view, of) = (&run.sums.view, run.of("of"));
    let bins: Vec<(u64, u64)> = view
        .crossings
        .chunks(OF_CROSSING * CROSSINGS)
        .map(|some| {
            let (mut events, mut hits) = (0, 0);
            for crossing in some.chunks(OF_CROSSING) {
                let (last, types) = crossing.split_last().unwrap_or((&0, &[]));
                events += types.iter().sum::<u64>();
                hits += last;
            }
            (events, hits)
        })
        .collect();
    let Some(last) = bins.iter().rposition(|bin| bin.0 > 0) else {
        return;
    };
    page.heading(&format!("Against the bunch crossing{of}"));
    let x: Vec<f64> = (0..=last + 1).map(|bin| (bin * CROSSINGS) as f64).collect();
    let events: Vec<f64> = bins[..=last].iter().map(|bin| bin.0 as f64).collect();
    let hits: Vec<f64> = bins[..=last]
        .iter()
        .map(|bin| {
            if bin.0 > 0 {
                bin.1 as f64 / bin.0 as f64
            } else {
                f64::NAN
            }
        })
        .collect();
    let what = "bunch crossing of the orbit";
    page.charts(&[
        Chart::new(
            &format!("hits by bunch crossing{of}"),
            what,
            "hits per event",
        )
        .title("Hits")
        .bins("hits", &x, &hits),
        Chart::new(
            &format!("events by bunch crossing{of}"),
            what,
            &format!("events in {CROSSINGS} crossings"),
        )
        .title("Events")
        .from_zero()
        .bins("events", &x, &events),
    ]);
}
