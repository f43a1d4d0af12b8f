//! Distributions: charge, cluster size, hits of lanes, layers and events; and hits along the strips of a sector.

use chart_page::{Chart, Choices, Page};

use super::names::{LAYERS, lanes_of_sectors, mounted};
use super::run::Run;
use crate::detector::Detector;
use ut_data::detector::{N_LAYERS, N_SECTORS, STRIPS_PER_SECTOR};
use ut_report::{Bins, CHARGES, LANE_HITS, RunView, SIZES};

/// Bins up to the last one with an entry; at least `least`.
fn used(histograms: &[&Vec<u64>], least: usize) -> usize {
    let last = |bins: &&Vec<u64>| bins.iter().rposition(|&n| n > 0).map_or(0, |last| last + 1);
    histograms.iter().map(last).max().unwrap_or_default().max(least)
}

/// The edges of bins of whole numbers.
fn edges(numbers: std::ops::Range<usize>) -> Vec<f64> {
    (numbers.start..=numbers.end).map(|number| number as f64 - 0.5).collect()
}

/// The edges of the bins, and what is in each as a share of the sum, in per cent.
fn shares(bins: &[u64], used: usize, first: usize) -> (Vec<f64>, Vec<f64>) {
    let sum = bins.iter().sum::<u64>().max(1) as f64;
    let x = edges(first..used);
    let y = (first..used).map(|bin| bins.get(bin).map_or(0.0, |&n| 100.0 * n as f64 / sum));
    // A logarithmic axis has no 0.
    (x, y.map(|share| if share > 0.0 { share } else { f64::NAN }).collect())
}

/// The lines of a histogram by layer, of one run or two.
fn by_layer(chart: Chart, runs: &[&Run<'_>], of: fn(&RunView) -> &Vec<Vec<u64>>, first: usize) -> Chart {
    let all: Vec<&Vec<u64>> = runs.iter().flat_map(|run| of(&run.gathered.view)).collect();
    let used = used(&all, first + 3);
    let mut chart = chart.log_y();
    if let [run] = runs {
        for (layer, bins) in of(&run.gathered.view).iter().enumerate() {
            let (x, y) = shares(bins, used, first);
            chart = chart.bins(LAYERS[layer], &x, &y);
        }
        return chart;
    }
    for run in runs {
        let mut sum = vec![0; used];
        for bins in of(&run.gathered.view) {
            sum.iter_mut().zip(bins).for_each(|(sum, n)| *sum += n);
        }
        let (x, y) = shares(&sum, used, first);
        chart = chart.bins(&run.name, &x, &y);
    }
    chart
}

/// Events by their hits.
fn by_event(mut chart: Chart, run: &Run<'_>, which: &[(usize, &str)]) -> Chart {
    for &(i, name) in which {
        let bins: &Bins<u64> = &run.gathered.view.hits_of_event[i];
        let events = run.gathered.view.events.max(1);
        // Some events in each step, or there is nothing to see but chance.
        let together = (10 * bins.len() / events as usize).clamp(1, 16);
        let width = bins.width() as f64 * together as f64;
        let (mut x, mut y): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
        for some in bins.iter().collect::<Vec<_>>().chunks(together) {
            x.push(some[0].0 as f64);
            y.push(100.0 * some.iter().map(|(_, n)| **n as f64).sum::<f64>() / events as f64 / width);
        }
        if let Some(&last) = x.last() {
            x.push(last + width);
        }
        chart = chart.bins(name, &x, &y);
    }
    chart
}

/// The sections.
pub fn sections(page: &mut Page, detector: &Detector, runs: &[&Run<'_>]) {
    page.heading("Distributions");
    let mut charts = Vec::new();
    if runs.iter().any(|run| run.gathered.view.clusters > 0) {
        let chart = Chart::new("charge", "charge of a hit, ΣADC", "hits, %").title("Charge");
        charts.push(by_layer(chart.describe("Hits by charge"), runs, |view| &view.charge_of_layer, 0));
        let chart = Chart::new("cluster size", "strips of a cluster", "hits, %").title("Cluster size");
        charts.push(by_layer(chart.describe("Hits by strips of the cluster"), runs, |view| &view.size_of_layer, 1));
    }
    let chart =
        Chart::new("hits of a lane", "hits of a lane in an event", "lanes with hits, %").title("Hits of a lane");
    charts.push(by_layer(chart.describe("Lanes with hits by their hits"), runs, |view| &view.lane_hits_of_layer, 1));
    let layers: Vec<(usize, &str)> = LAYERS.into_iter().enumerate().collect();
    let chart = |title: &str, name: &str| {
        Chart::new(name, "hits of an event", "events, % a hit")
            .title(title)
            .describe(&format!("Events by hits: {name}"))
            .from_zero()
    };
    for run in runs {
        let of = if runs.len() > 1 { format!(" of {}", run.name) } else { String::new() };
        let name = format!("hits of a layer in an event{of}");
        charts.push(by_event(chart(&format!("Hits of a layer{of}"), &name), run, &layers));
    }
    let mut all = chart("Hits of an event", "hits of an event");
    for run in runs {
        all = by_event(all, run, &[(N_LAYERS, &run.name)]);
    }
    charts.push(all);
    page.charts(&charts);
    page.note(&format!(
        "The last bins hold everything above, too: charges from {}, sizes from {}, hits of a lane from {}.",
        CHARGES - 1,
        SIZES - 1,
        LANE_HITS - 1
    ));
    page.heading("Hits along the strips of a sector");
    for run in runs {
        strips(page, detector, run, &if runs.len() > 1 { format!(" of {}", run.name) } else { String::new() });
    }
}

fn strips(page: &mut Page, detector: &Detector, run: &Run<'_>, of: &str) {
    let tables = &detector.tables;
    let lanes = lanes_of_sectors(tables);
    let view = &run.gathered.view;
    // What stands out comes first, then all in their order.
    let mut order: Vec<usize> = Vec::new();
    // Of them the hot strips, which have most to show, are the last of their list.
    for sector in run.verdicts.outliers.iter().rev().filter_map(|outlier| outlier.sector) {
        if !order.contains(&sector) {
            order.push(sector);
        }
    }
    let striking = order.len();
    order.extend((0..N_SECTORS).filter(|&sector| !lanes[sector].is_empty()));
    let name = |(i, &sector): (usize, &usize)| {
        let place = lanes[sector].first().map_or_else(String::new, |&slot| mounted(&tables.boards().lanes[slot]));
        let boards: Vec<String> = lanes[sector].iter().map(|&slot| super::names::lane(slot)).collect();
        let mark = if i < striking { "▲ " } else { "" };
        format!("{mark}{place} ({})", boards.join(", "))
    };
    let x = edges(0..STRIPS_PER_SECTOR as usize);
    let values: Vec<Vec<u64>> = order.iter().map(|&sector| view.strips_of(sector).to_vec()).collect();
    let first: Vec<f64> = values.first().map_or_else(Vec::new, |values| values.iter().map(|&n| n as f64).collect());
    let chart = Chart::new(&format!("strips{of}"), "strip", "hits")
        .describe(&format!("Hits by strip of the chosen sector{of}"))
        .bins("hits", &x, &first)
        .height(300)
        .from_zero()
        .choices(Choices {
            label: format!("Sector{of}"),
            names: order.iter().enumerate().map(name).collect(),
            values,
            keys: order.iter().map(|&sector| sector as u64).collect(),
        });
    page.chart(&chart);
    page.note(&format!(
        "{}Strips as the hits' ids number them. ▲: something stands out in this sector. A click on a sector of a map \
         chooses it here.",
        if run.name.is_empty() { String::new() } else { format!("{}. ", run.name) }
    ));
}

#[cfg(test)]
mod tests {
    use super::used;

    #[test]
    fn histograms_are_drawn_up_to_their_last_entry() {
        let (short, long, empty) = (vec![0, 5, 0, 0, 0], vec![0, 5, 0, 1, 0], vec![0; 5]);
        assert_eq!(used(&[&short], 1), 2);
        assert_eq!(used(&[&short, &long, &empty], 1), 4);
        assert_eq!(used(&[&empty], 3), 3);
    }
}
