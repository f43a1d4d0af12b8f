//! Distributions: charge, cluster size, hits of lanes, layers and events; and a chosen sector in
//! detail: its hits by strip, and charge and hits in time of its chips.

use chart_page::{Chart, Choices, Page};

use super::names::{LAYERS, lanes_of_sectors};
use super::{Drawing, Run};
use crate::{ADCS, Bins, CHARGES, CHIPS_PER_SECTOR, LANE_HITS, N_CHIPS, RunView, SIZES, Span};
use ut_data::detector::{N_LAYERS, N_SECTORS, STRIPS_PER_SECTOR};

/// Largest number of sectors whose strips are shown, of two runs.
///
/// A sector takes 512 numbers in each of two runs. A page of one run has all 1048 sectors, which is
/// half a million numbers; of two runs it has the sectors that stand out or differ.
const MOST_STRIPS: usize = 200;

/// Largest number of bins of each chip of a chosen sector.
const OF_CHIP: usize = 32;

/// Returns the number of bins up to the last one with an entry, at least `least`.
fn used(histograms: &[&Vec<u64>], least: usize) -> usize {
    let last = |bins: &&Vec<u64>| bins.iter().rposition(|&n| n > 0).map_or(0, |last| last + 1);
    histograms
        .iter()
        .map(last)
        .max()
        .unwrap_or_default()
        .max(least)
}

fn edges(numbers: std::ops::Range<usize>) -> Vec<f64> {
    (numbers.start..=numbers.end)
        .map(|number| number as f64 - 0.5)
        .collect()
}

/// Returns the edges of the bins, and their contents in per cent of the sum.
///
/// Shares make runs of different lengths comparable.
fn shares(bins: &[u64], used: usize, first: usize) -> (Vec<f64>, Vec<f64>) {
    let sum = bins.iter().sum::<u64>().max(1) as f64;
    let x = edges(first..used);
    let y = (first..used).map(|bin| bins.get(bin).map_or(0.0, |&n| 100.0 * n as f64 / sum));
    // A logarithmic axis has no 0.
    (
        x,
        y.map(|share| if share > 0.0 { share } else { f64::NAN })
            .collect(),
    )
}

fn by_layer(
    chart: Chart,
    runs: &[&Run<'_>],
    of: fn(&RunView) -> &[Vec<u64>],
    first: usize,
) -> Chart {
    let all: Vec<&Vec<u64>> = runs.iter().flat_map(|run| of(&run.sums.view)).collect();
    let used = used(&all, first + 3);
    let mut chart = chart.log_y();
    if let [run] = runs {
        for (layer, bins) in of(&run.sums.view).iter().enumerate() {
            let (x, y) = shares(bins, used, first);
            chart = chart.bins(LAYERS[layer], &x, &y);
        }
        return chart;
    }
    for run in runs {
        let mut sum = vec![0; used];
        for bins in of(&run.sums.view) {
            sum.iter_mut().zip(bins).for_each(|(sum, n)| *sum += n);
        }
        let (x, y) = shares(&sum, used, first);
        chart = chart.bins(&run.called(), &x, &y);
    }
    chart
}

fn by_event(mut chart: Chart, run: &Run<'_>, which: &[(usize, &str)]) -> Chart {
    for &(i, name) in which {
        let bins: &Bins<u64> = &run.sums.view.hits_of_event[i];
        let events = run.sums.view.events.max(1);
        // Some events in each step, so that chance does not hide the shape.
        let together = (10 * bins.len() / events as usize).clamp(1, 16);
        let width = bins.width() as f64 * together as f64;
        let (mut x, mut y): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
        for some in bins.iter().collect::<Vec<_>>().chunks(together) {
            x.push(some[0].0 as f64);
            y.push(
                100.0 * some.iter().map(|(_, n)| **n as f64).sum::<f64>() / events as f64 / width,
            );
        }
        if let Some(&last) = x.last() {
            x.push(last + width);
        }
        chart = chart.bins(name, &x, &y);
    }
    chart
}

pub fn sections(page: &mut Page, drawing: &Drawing<'_>) {
    let runs: &[&Run<'_>] = &drawing.runs().collect::<Vec<_>>();
    page.heading("Distributions");
    let mut charts = Vec::new();
    if runs.iter().any(|run| run.sums.view.clusters > 0) {
        let chart = Chart::new("charge", "charge of a hit, ΣADC", "hits, %").title("Charge");
        charts.push(by_layer(chart, runs, |view| &view.charge_of_layer, 0));
        let chart =
            Chart::new("cluster size", "strips of a cluster", "hits, %").title("Cluster size");
        charts.push(by_layer(chart, runs, |view| &view.size_of_layer, 1));
    }
    let chart = Chart::new(
        "hits of a lane",
        "hits of a lane in an event",
        "lanes with hits, %",
    )
    .title("Hits of a lane");
    charts.push(by_layer(chart, runs, |view| &view.lane_hits_of_layer, 1));
    let layers: Vec<(usize, &str)> = LAYERS.into_iter().enumerate().collect();
    let chart = |title: &str, name: &str| {
        Chart::new(name, "hits of an event", "events, % a hit")
            .title(title)
            .from_zero()
    };
    for run in runs {
        let of = run.of("of");
        let name = format!("hits of a layer in an event{of}");
        charts.push(by_event(
            chart(&format!("Hits of a layer{of}"), &name),
            run,
            &layers,
        ));
    }
    let mut all = chart("Hits of an event", "hits of an event");
    for run in runs {
        all = by_event(all, run, &[(N_LAYERS, &run.called())]);
    }
    charts.push(all);
    page.charts(&charts);
    page.note(&format!(
        "The last bins hold everything above, too: charges from {}, sizes from {}, hits of a lane from {}.",
        CHARGES - 1,
        SIZES - 1,
        LANE_HITS - 1
    ));
    page.heading("A sector in detail");
    strips(page, drawing);
}

fn strips(page: &mut Page, drawing: &Drawing<'_>) {
    let lanes = lanes_of_sectors(drawing.tables());
    // Hot strips, which have most to show, are the last that stand out, and come first.
    let outliers = drawing
        .runs()
        .flat_map(|run| run.verdicts.outliers.iter().rev());
    let tables = drawing.tables();
    let differ = drawing.marked().into_iter().map(|d| d.sector);
    let mut order: Vec<usize> = Vec::new();
    for sector in outliers
        .flat_map(|outlier| outlier.sectors(tables))
        .chain(differ)
    {
        if !order.contains(&sector) {
            order.push(sector);
        }
    }
    let striking = order.len();
    if drawing.reference.is_none() {
        order.extend((0..N_SECTORS).filter(|&sector| !lanes[sector].is_empty()));
    } else if striking == 0 {
        page.text(
            "Nothing stands out, and no sector differs. The page of one run shows all sectors.",
        );
        return;
    } else {
        order.truncate(MOST_STRIPS);
    }
    let marked = striking.min(order.len());
    for run in drawing.runs() {
        strips_of(page, run, &order, marked);
        if run.sums.view.clusters > 0 {
            adc_of(page, run, &order, marked);
        }
        hits_in_time(page, run, &order, marked);
    }
    page.note(
        "Strips as the hits' ids number them, 128 per chip. Charge: ADC values of hits of one strip. ▲: something stands out in \
         this sector, or it differs. A click on a sector of a map chooses it in all of these pictures. Numbers from 64 on \
         are rounded, by at most a quarter of their chance error.",
    );
}

fn strips_of(page: &mut Page, run: &Run<'_>, order: &[usize], marked: usize) {
    let (view, of) = (&run.sums.view, run.of("of"));
    let x = edges(0..STRIPS_PER_SECTOR as usize);
    let values: Vec<Vec<u64>> = order
        .iter()
        .map(|&sector| view.strips_of(sector).to_vec())
        .collect();
    let chart = Chart::new(&format!("strips{of}"), "strip", "hits").height(300);
    sector_chart(page, chart, run, (&x, values), (order, marked));
}

/// Draws the hits of a chosen sector in the bins `x`: `values` has them for each sector of `order`,
/// of which the first `marked` get a ▲.
fn sector_chart(
    page: &mut Page,
    chart: Chart,
    run: &Run<'_>,
    (x, values): (&[f64], Vec<Vec<u64>>),
    (order, marked): (&[usize], usize),
) {
    let first: Vec<f64> = values
        .first()
        .map_or_else(Vec::new, |first| first.iter().map(|&n| n as f64).collect());
    let chart = chart.bins("hits", x, &first).from_zero().choices(Choices {
        label: format!("Sector{}", run.of("of")),
        values,
        keys: order.iter().map(|&sector| sector as u64).collect(),
        marked,
    });
    page.chart(&chart);
}

/// Draws the ADC values of the four chips of a chosen sector, side by side.
fn adc_of(page: &mut Page, run: &Run<'_>, order: &[usize], marked: usize) {
    let of = run.of("of");
    let n = ADCS * CHIPS_PER_SECTOR;
    let values: Vec<Vec<u64>> = order
        .iter()
        .map(|&sector| run.sums.view.adc[sector * n..(sector + 1) * n].to_vec())
        .collect();
    let x: Vec<f64> = (0..=n).map(|bin| bin as f64 / ADCS as f64).collect();
    let chart = Chart::new(
        &format!("charge of chips{of}"),
        "chip 0, 1, 2 and 3, each from ADC 0 to 31",
        "hits",
    )
    .title("Charge in the four chips")
    .height(260);
    sector_chart(page, chart, run, (&x, values), (order, marked));
}

/// Draws the hits of the four chips of a chosen sector against the event number, side by side.
fn hits_in_time(page: &mut Page, run: &Run<'_>, order: &[usize], marked: usize) {
    let view = &run.sums.view;
    let spans: Vec<(u64, &Span)> = view.spans.iter().collect();
    if spans.is_empty() {
        return;
    }
    let together = spans.len().div_ceil(OF_CHIP).next_power_of_two();
    let columns: Vec<&[(u64, &Span)]> = spans.chunks(together).collect();
    let n = columns.len();
    let of = run.of("of");
    let values = |&sector: &usize| -> Vec<u64> {
        let chips = sector * CHIPS_PER_SECTOR..((sector + 1) * CHIPS_PER_SECTOR).min(N_CHIPS);
        let hits = |chip: usize| {
            columns.iter().map(move |column| {
                column
                    .iter()
                    .map(|(_, span)| span.hits_of(&(chip..chip + 1)))
                    .sum()
            })
        };
        chips.flat_map(hits).collect()
    };
    let values: Vec<Vec<u64>> = order.iter().map(values).collect();
    let x: Vec<f64> = (0..=n * CHIPS_PER_SECTOR)
        .map(|bin| bin as f64 / n as f64)
        .collect();
    let chart = Chart::new(
        &format!("hits of chips{of}"),
        "chip 0, 1, 2 and 3, each from the first event to the last",
        "hits",
    )
    .title("Hits of the four chips against the event number")
    .height(260);
    sector_chart(page, chart, run, (&x, values), (order, marked));
}
