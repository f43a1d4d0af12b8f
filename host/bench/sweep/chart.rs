//! Charts as SVG: lines for one axis, a heat map for two. Plain text without scripts or embedded fonts.

use std::fmt::Write as _;

use super::report::{Report, number};
use crate::bench::Spread;
use crate::decoder::knobs::value_text;

/// Width of a line chart, and height of its plot.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 260.0;

/// Room for labels: left, top, right, bottom.
const LEFT: f64 = 84.0;
const TOP: f64 = 34.0;
const RIGHT: f64 = 24.0;
const BOTTOM: f64 = 54.0;

/// A cell of a heat map.
const CELL: (f64, f64) = (76.0, 36.0);

/// The colours of a heat map from worst to best: pale to deep, so that a grey print still orders them.
const PALE: [f64; 3] = [238.0, 243.0, 247.0];
const DEEP: [f64; 3] = [11.0, 83.0, 120.0];
const ACCENT: &str = "#c2410c";
const LINE: &str = "#0b5378";

const STYLE: &str = "font-family=\"system-ui,sans-serif\" font-size=\"12\" fill=\"#1f2933\"";

/// What can take part in XML's text and attributes.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The best point at each combination of some axes' values, the others free: its place among the points.
fn best_at(report: &Report, ranking: &[usize], fixed: &[(usize, u32)]) -> Option<usize> {
    let fits = |&&i: &&usize| {
        let point = &report.points[i];
        point.on_grid && fixed.iter().all(|&(axis, value)| point.values[axis] == value)
    };
    ranking.iter().find(fits).copied()
}

/// Charts of a report, with titles: one axis: a line; two: a heat map; more: a heat map for each pair, each cell the
/// best over the other axes, and a line for each axis alike.
pub(super) fn charts(report: &Report) -> Vec<(String, String)> {
    let name = |axis: usize| report.axes[axis].name.as_str();
    let n = report.axes.len();
    let rest = |fixed: usize| if n > fixed { ", best over the other axes" } else { "" };
    let mut charts = Vec::new();
    for x in 0..n {
        for y in x + 1..n {
            // The longer axis lies flat.
            let (x, y) = if report.axes[x].values.len() >= report.axes[y].values.len() { (x, y) } else { (y, x) };
            charts.push((format!("{} and {}{}", name(x), name(y), rest(2)), heat_map(report, x, y)));
        }
    }
    for axis in 0..n {
        charts.push((format!("{}{}", name(axis), rest(1)), line(report, axis)));
    }
    charts
}

struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// From the smallest to the largest, with some room.
    fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let low = values.clone().fold(f64::INFINITY, f64::min);
        let high = values.fold(f64::NEG_INFINITY, f64::max);
        if !low.is_finite() || !high.is_finite() {
            return Self { low: 0.0, high: 1.0 };
        }
        let room = if high > low { 0.08 * (high - low) } else { 0.05 * high.abs().max(1e-9) };
        // An axis that is near 0 anyway begins there.
        let low = if low - room < 0.25 * high { 0.0f64.min(low) } else { low - room };
        Self { low, high: high + room }
    }

    fn share(&self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// Round values, about five of them.
    fn ticks(&self) -> Vec<f64> {
        let rough = (self.high - self.low) / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|&step| step >= rough).unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        (0..20).map(|i| (first + i) as f64 * step).take_while(|&tick| tick <= self.high).collect()
    }
}

fn open(width: f64, height: f64, title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" {STYLE}>\n<title>{}</title>\n<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n",
        escaped(title)
    )
}

fn label(svg: &mut String, (x, y): (f64, f64), anchor: &str, more: &str, text: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{more}>{}</text>", escaped(text));
}

fn line(report: &Report, axis: usize) -> String {
    let ranking = report.ranking();
    let of = &report.axes[axis];
    let default = &report.points[report.default];
    let places: Vec<Option<usize>> =
        of.values.iter().map(|&value| best_at(report, &ranking, &[(axis, value)])).collect();
    let spread = |i: usize| report.points[i].measured.unwrap_or_default();
    let shown = places.iter().flatten().copied().chain([report.default]);
    let scale = Scale::of(
        shown
            .flat_map(|i| {
                let Spread { q1, q3, .. } = spread(i);
                [q1, q3]
            })
            .collect::<Vec<_>>()
            .into_iter(),
    );
    let n = of.values.len().max(1) as f64;
    let (plot, bottom) = (WIDTH - LEFT - RIGHT, TOP + HEIGHT);
    let x_of = |i: usize| LEFT + plot * (i as f64 + 0.5) / n;
    let y_of = |value: f64| bottom - HEIGHT * scale.share(value);
    let title = format!("{} against {}", report.about.unit, of.name);
    let mut svg = open(WIDTH, bottom + BOTTOM, &title);
    label(&mut svg, (LEFT, 18.0), "start", " font-weight=\"600\"", &title);
    for tick in scale.ticks() {
        let y = y_of(tick);
        let _ = writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{}\" stroke=\"#d5dbe1\"/>", WIDTH - RIGHT);
        label(&mut svg, (LEFT - 8.0, y + 4.0), "end", "", &number(tick));
    }
    if default.measured.is_some() {
        let y = y_of(spread(report.default).median);
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {y:.1}H{}\" stroke=\"{ACCENT}\" stroke-dasharray=\"5 4\"/>",
            WIDTH - RIGHT
        );
        label(&mut svg, (WIDTH - RIGHT, y - 5.0), "end", &format!(" fill=\"{ACCENT}\""), "default");
    }
    let mut path = String::new();
    for (i, place) in places.iter().enumerate() {
        if let Some(place) = *place {
            let step = if path.is_empty() || places[i - 1].is_none() { 'M' } else { 'L' };
            let _ = write!(path, "{step}{:.1} {:.1}", x_of(i), y_of(spread(place).median));
        }
    }
    let _ = writeln!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"{LINE}\" stroke-width=\"2\"/>");
    for (i, place) in places.iter().enumerate() {
        let (x, value) = (x_of(i), of.values[i]);
        label(&mut svg, (x, bottom + 18.0), "middle", "", &value_text(&of.name, value));
        let Some(place) = *place else {
            label(&mut svg, (x, bottom - 6.0), "middle", " fill=\"#7b8794\"", "–");
            continue;
        };
        let Spread { median, q1, q3, .. } = spread(place);
        let y = y_of(median);
        let _ = writeln!(svg, "<path d=\"M{x:.1} {:.1}V{:.1}\" stroke=\"{LINE}\"/>", y_of(q1), y_of(q3));
        let best = Some(place) == report.best;
        let (radius, fill) = if best { (6.0, ACCENT) } else { (4.0, LINE) };
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{fill}\"><title>{}: {}</title></circle>",
            escaped(&report.point_text(&report.points[place].values)),
            number(median)
        );
        if best {
            let y = if report.about.less_is_better { y + 20.0 } else { y - 11.0 };
            label(&mut svg, (x, y), "middle", &format!(" fill=\"{ACCENT}\" font-weight=\"600\""), "best");
        }
    }
    let _ = writeln!(svg, "<path d=\"M{LEFT} {TOP}V{bottom}H{}\" fill=\"none\" stroke=\"#52606d\"/>", WIDTH - RIGHT);
    label(&mut svg, (LEFT + plot / 2.0, bottom + 40.0), "middle", "", &of.name);
    svg + "</svg>\n"
}

fn heat_map(report: &Report, x: usize, y: usize) -> String {
    let ranking = report.ranking();
    let (across, down) = (&report.axes[x], &report.axes[y]);
    let (columns, rows) = (across.values.len() as f64, down.values.len() as f64);
    // Room for the name of the axis that goes down.
    let (left, head) = (LEFT + 40.0, TOP + 16.0);
    let (width, height) = (left + columns * CELL.0 + 20.0, head + rows * CELL.1 + BOTTOM + 44.0);
    let width = width.max(460.0);
    let title = format!("{} over {} and {}", report.about.unit, across.name, down.name);
    let mut svg = open(width, height, &title);
    label(&mut svg, (16.0, 18.0), "start", " font-weight=\"600\"", &title);
    let cell = |a: u32, b: u32| best_at(report, &ranking, &[(x, a), (y, b)]);
    let cells = || down.values.iter().flat_map(|&b| across.values.iter().filter_map(move |&a| cell(a, b)));
    let medians: Vec<f64> = cells().filter_map(|i| Some(report.points[i].measured?.median)).collect();
    let low = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let high = medians.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let goodness = |value: f64| {
        let share = if high > low { (value - low) / (high - low) } else { 1.0 };
        if report.about.less_is_better && high > low { 1.0 - share } else { share }
    };
    let mut outlines = String::new();
    for (row, &b) in down.values.iter().enumerate() {
        let top = head + row as f64 * CELL.1;
        label(&mut svg, (left - 8.0, top + CELL.1 / 2.0 + 4.0), "end", "", &value_text(&down.name, b));
        for (column, &a) in across.values.iter().enumerate() {
            let at = left + column as f64 * CELL.0;
            if row == 0 {
                let middle = at + CELL.0 / 2.0;
                label(&mut svg, (middle, head + rows * CELL.1 + 18.0), "middle", "", &value_text(&across.name, a));
            }
            let place = cell(a, b);
            let measured = place.and_then(|i| Some((i, report.points[i].measured?.median)));
            let Some((place, median)) = measured else {
                let _ = writeln!(
                    svg,
                    "<rect x=\"{at}\" y=\"{top}\" width=\"{}\" height=\"{}\" fill=\"#f5f5f5\" stroke=\"#ffffff\"/>",
                    CELL.0, CELL.1
                );
                let middle = (at + CELL.0 / 2.0, top + CELL.1 / 2.0 + 4.0);
                label(&mut svg, middle, "middle", " fill=\"#9aa5b1\"", "–");
                continue;
            };
            let good = goodness(median);
            let _ = writeln!(
                svg,
                "<rect x=\"{at}\" y=\"{top}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"#ffffff\"><title>{}: {}</title></rect>",
                CELL.0,
                CELL.1,
                colour(good),
                escaped(&report.point_text(&report.points[place].values)),
                number(median)
            );
            let ink = if good > 0.5 { " fill=\"#ffffff\"" } else { "" };
            let marks = report.marks(place);
            let middle = (at + CELL.0 / 2.0, top + CELL.1 / 2.0 + if marks.is_empty() { 4.0 } else { -1.0 });
            label(&mut svg, middle, "middle", ink, &number(median));
            if !marks.is_empty() {
                let more = format!(" font-size=\"10\" font-weight=\"600\"{ink}");
                label(&mut svg, (middle.0, middle.1 + 12.0), "middle", &more, &marks.join(", "));
                let dashes = if marks.contains(&"best") { "" } else { " stroke-dasharray=\"5 3\"" };
                let _ = writeln!(
                    outlines,
                    "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"{ACCENT}\" stroke-width=\"2.5\"{dashes}/>",
                    at + 1.5,
                    top + 1.5,
                    CELL.0 - 3.0,
                    CELL.1 - 3.0
                );
            }
        }
    }
    svg += &outlines;
    let bottom = head + rows * CELL.1;
    label(&mut svg, (left + columns * CELL.0 / 2.0, bottom + 38.0), "middle", "", &across.name);
    label(&mut svg, (left - 8.0, head - 8.0), "end", "", &down.name);
    if !medians.is_empty() {
        legend(&mut svg, (left, bottom + 56.0), [low, high], report.about.less_is_better);
    }
    svg + "</svg>\n"
}

/// The colours and what they stand for, worst to best.
fn legend(svg: &mut String, (x, y): (f64, f64), [low, high]: [f64; 2], less_is_better: bool) {
    let (worst, best) = if less_is_better { (high, low) } else { (low, high) };
    for step in 0..20 {
        let good = f64::from(step) / 19.0;
        let _ = writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{y}\" width=\"8.5\" height=\"10\" fill=\"{}\"/>",
            x + 8.0 * f64::from(step),
            colour(good)
        );
    }
    label(svg, (x, y + 24.0), "start", " font-size=\"11\"", &format!("worst {}", number(worst)));
    label(svg, (x + 160.0, y + 24.0), "end", " font-size=\"11\"", &format!("best {}", number(best)));
}

/// 0: worst, 1: best.
fn colour(good: f64) -> String {
    let [r, g, b] = [0, 1, 2].map(|i| (PALE[i] + (DEEP[i] - PALE[i]) * good.clamp(0.0, 1.0)).round() as u8);
    format!("#{r:02x}{g:02x}{b:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside_the_scale() {
        let scale = Scale { low: 17.3, high: 42.0 };
        assert_eq!(scale.ticks(), [20.0, 25.0, 30.0, 35.0, 40.0]);
        let flat = Scale::of([3.0, 3.0].into_iter());
        assert!(flat.low < 3.0 && flat.high > 3.0 && !flat.ticks().is_empty());
        assert_eq!(Scale::of([].into_iter()).ticks().len(), 6);
    }

    #[test]
    fn text_cannot_break_the_markup() {
        assert_eq!(escaped("<a href=\"x\">&</a>"), "&lt;a href=&quot;x&quot;&gt;&amp;&lt;/a&gt;");
    }

    #[test]
    fn the_best_is_the_deepest_colour() {
        assert_eq!((colour(1.0).as_str(), colour(0.0).as_str(), colour(7.0)), ("#0b5378", "#eef3f7", colour(1.0)));
    }
}
