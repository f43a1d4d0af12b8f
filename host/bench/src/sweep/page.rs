//! The report as one self-contained page: verdict, charts, every point, everything that was
//! skipped.

use chart_page::{Chart, Heat, Page};

use super::report::{Report, number};
use crate::{Change, Spread};

impl Report {
    /// Makes the page, which needs no other file.
    pub fn html(&self) -> String {
        let mut page = Page::new(&format!("Sweep on {}", self.about.backend));
        page.text(&self.verdict());
        page.facts(
            self.facts()
                .into_iter()
                .map(|(name, value)| (name, value.trim_matches('`').to_owned())),
        );
        for (title, chart) in charts(self) {
            page.heading(&title);
            page.chart(&chart);
        }
        table(self, &mut page);
        for (title, list) in self.others() {
            page.heading(&format!("{title}: {}", list.len()));
            let rows = list
                .into_iter()
                .map(|(point, reason)| (false, vec![point, reason]));
            page.table(&["point", "why"].map(str::to_owned), rows);
        }
        page.html()
    }
}

fn table(report: &Report, page: &mut Page) {
    let ranking = report.ranking();
    page.heading(&format!("All points, the best first: {}", ranking.len()));
    let names = report.axes.iter().map(|axis| axis.parameter.name);
    let mut head: Vec<String> = names.map(str::to_owned).collect();
    head.extend(
        [
            report.about.unit.as_str(),
            "half of them",
            "to the default",
            "remark",
        ]
        .map(str::to_owned),
    );
    let row = |i: usize| {
        let point = &report.points[i];
        let spread = point.measured?;
        let mut row = report.texts(&point.values);
        row.push(number(spread.median));
        row.push(if point.repetitions > 1 {
            format!("{} to {}", number(spread.q1), number(spread.q3))
        } else {
            String::new()
        });
        row.push(
            point
                .change
                .as_ref()
                .filter(|_| i != report.default)
                .map_or_else(String::new, Change::to_string),
        );
        let marks = report.marks(i);
        row.push(marks.join(", "));
        Some((!marks.is_empty(), row))
    };
    page.table(&head, ranking.into_iter().filter_map(row));
}

/// Finds the best point with `fixed` values of some axes.
fn best_at(report: &Report, ranking: &[usize], fixed: &[(usize, u32)]) -> Option<usize> {
    let fits = |&&i: &&usize| {
        let values = &report.points[i].values;
        // The default may have values that no axis has.
        let on_grid = report
            .axes
            .iter()
            .zip(values)
            .all(|(axis, value)| axis.values.contains(value));
        on_grid && fixed.iter().all(|&(axis, value)| values[axis] == value)
    };
    ranking.iter().find(fits).copied()
}

/// Charts of a report, with titles: a heat map for each pair of axes, each cell the best over the
/// other axes, and such a line for each axis.
fn charts(report: &Report) -> Vec<(String, Chart)> {
    let name = |axis: usize| report.axes[axis].parameter.name;
    let n = report.axes.len();
    let rest = |fixed: usize| {
        if n > fixed {
            ", best over the other axes"
        } else {
            ""
        }
    };
    let mut charts = Vec::new();
    for x in 0..n {
        for y in x + 1..n {
            // The longer axis is horizontal.
            let (x, y) = if report.axes[x].values.len() >= report.axes[y].values.len() {
                (x, y)
            } else {
                (y, x)
            };
            charts.push((
                format!("{} and {}{}", name(x), name(y), rest(2)),
                heat_map(report, x, y),
            ));
        }
    }
    for axis in 0..n {
        charts.push((format!("{}{}", name(axis), rest(1)), line(report, axis)));
    }
    charts
}

fn line(report: &Report, axis: usize) -> Chart {
    let ranking = report.ranking();
    let of = &report.axes[axis];
    let (name, places) = (of.parameter.name, of.texts());
    let spread = |value: &u32| {
        best_at(report, &ranking, &[(axis, *value)]).and_then(|i| report.points[i].measured)
    };
    let line = |pick: fn(Spread) -> f64| {
        of.values
            .iter()
            .map(|v| spread(v).map_or(f64::NAN, pick))
            .collect::<Vec<_>>()
    };
    let chart =
        Chart::new(name, name, &report.about.unit).named("median", &places, &line(|s| s.median));
    let chart = if report.about.rounds > 1 {
        chart
            .named("lower quartile", &places, &line(|s| s.q1))
            .named("upper quartile", &places, &line(|s| s.q3))
    } else {
        chart
    };
    match report.points[report.default].measured {
        Some(default) => chart.line("default", &[0.0, places.len() as f64], &[default.median; 2]),
        None => chart,
    }
}

fn heat_map(report: &Report, x: usize, y: usize) -> Chart {
    let ranking = report.ranking();
    let (across, down) = (&report.axes[x], &report.axes[y]);
    let at = |row: usize, column: usize| {
        let place = best_at(
            report,
            &ranking,
            &[(x, across.values[column]), (y, down.values[row])],
        )?;
        Some((place, report.points[place].measured?.median))
    };
    let hover = |r: usize, c: usize| match at(r, c) {
        Some((place, value)) => {
            let point = format!(
                "{}: {}",
                report.point_text(&report.points[place].values),
                number(value)
            );
            [&[point.as_str()][..], &report.marks(place)]
                .concat()
                .join(", ")
        }
        None => String::new(),
    };
    let rows = 0..down.values.len();
    let values = rows.map(|r| {
        (0..across.values.len())
            .map(|c| at(r, c).map_or(f64::NAN, |(_, value)| value))
            .collect()
    });
    let heat = Heat {
        columns: across.texts(),
        rows: down.texts(),
        values: values.collect(),
        hover: (0..down.values.len())
            .map(|r| (0..across.values.len()).map(|c| hover(r, c)).collect())
            .collect(),
        unit: report.about.unit.clone(),
        ..Heat::default()
    };
    Chart::new(
        &format!("{} and {}", across.parameter.name, down.parameter.name),
        across.parameter.name,
        down.parameter.name,
    )
    .heat_map(heat)
}
