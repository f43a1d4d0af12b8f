//! Draws a chart as SVG, with plotters.
//!
//! Pictures are drawn in the colours of a light page; the page's style replaces those by name on a
//! dark one. One of plotters' pixels is a quarter of a CSS pixel, since plotters rounds to whole
//! ones.

use std::fmt::Write as _;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde_json::{Value, json};

use crate::chart::{Areas, Axis, Chart, Heat, Look, Sign};
use crate::png;
use crate::shading::{SHADES, Shading, extent, linear_ticks, log_ticks};

/// Plotters' pixels in a CSS pixel.
const UNIT: i32 = 4;

const INK: RGBColor = RGBColor(0x1f, 0x29, 0x33);
const GRID: RGBColor = RGBColor(0xe4, 0xe8, 0xec);
const NONE: RGBColor = RGBColor(0x80, 0x80, 0x80);
const SERIES: [RGBColor; 10] = [
    RGBColor(0x0b, 0x5c, 0xad),
    RGBColor(0xd9, 0x73, 0x0d),
    RGBColor(0x2a, 0x8a, 0x5e),
    RGBColor(0x8e, 0x44, 0xad),
    RGBColor(0xc0, 0x39, 0x2b),
    RGBColor(0x17, 0xa2, 0xb8),
    RGBColor(0x7a, 0x4b, 0x2a),
    RGBColor(0xdb, 0x5f, 0xa4),
    RGBColor(0x8a, 0x8f, 0x00),
    RGBColor(0x4a, 0x4f, 0x57),
];

type Root<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plot<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Scale, Scale>>;
type DrawResult = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// An axis with ticks that are known beforehand.
#[derive(Clone, Debug)]
struct Scale {
    low: f64,
    high: f64,
    log: bool,
    ticks: Vec<(f64, String)>,
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        // On a logarithmic axis equal ratios have equal lengths: from 1 to 100, 10 is in the
        // middle.
        let place = |value: f64| if self.log { value.ln() } else { value };
        let share = (place(*value) - place(self.low)) / (place(self.high) - place(self.low));
        from + (share * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let between = hint.weight().allow_light_points();
        if between {
            Vec::new()
        } else {
            self.ticks.iter().map(|tick| tick.0).collect()
        }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Scale {
    fn format_ext(&self, value: &f64) -> String {
        self.ticks
            .iter()
            .find(|tick| tick.0 == *value)
            .map_or_else(String::new, |tick| tick.1.clone())
    }
}

impl Scale {
    /// Makes an axis over numbers, with room beyond them where `room`.
    ///
    /// Leaves as room 5 % of the span at each end, or 4 % of the length of a logarithmic axis: for
    /// 1 to 1,000 a factor of 1000^0.04 = 1.32. Without any number, and with a single one, the axis
    /// still needs a length above 0, since places on it are divided by the length.
    fn of(axis: &Axis, numbers: impl Iterator<Item = f64>, room: bool, most: usize) -> Self {
        let (mut low, mut high) = extent(numbers.filter(|&number| !axis.log || number > 0.0));
        if low > high {
            (low, high) = (axis.log.into(), if axis.log { 10.0 } else { 1.0 });
        }
        if axis.log {
            let beyond = if low == high {
                2.0
            } else {
                (high / low).powf(if room { 0.04 } else { 0.0 })
            };
            (low, high) = (
                (low / beyond).max(f64::MIN_POSITIVE),
                (high * beyond).min(f64::MAX),
            );
            return Self {
                low,
                high,
                log: true,
                ticks: log_ticks(low, high),
            };
        }
        let beyond = match high - low {
            0.0 => (0.1 * low.abs()).max(0.5),
            span => span * if room { 0.05 } else { 0.0 },
        };
        // Amounts end at 0 where they do.
        (low, high) = (
            if room && low == 0.0 {
                low
            } else {
                low - beyond
            },
            high + beyond,
        );
        Self {
            low,
            high,
            log: false,
            ticks: linear_ticks(low, high, most),
        }
    }

    /// Makes an axis over names, and writes as many of the names as there is room for.
    fn names(names: &[String], each: usize) -> Self {
        let round = (0..).flat_map(|decade| [1, 2, 5].map(|factor| factor * 10usize.pow(decade)));
        let each = round.take(30).find(|&step| step >= each).unwrap_or(each);
        let named = names.iter().enumerate().step_by(each.max(1));
        let ticks = named
            .map(|(place, name)| (place as f64 + 0.5, name.clone()))
            .collect();
        Self {
            low: 0.0,
            high: names.len().max(1) as f64,
            log: false,
            ticks,
        }
    }

    fn letters(&self) -> u32 {
        self.ticks
            .iter()
            .map(|tick| letters(&tick.1))
            .max()
            .unwrap_or_default()
    }
}

fn letters(text: &str) -> u32 {
    text.chars().count() as u32
}

/// Returns the text, shortened to at most `limit` letters.
fn clipped(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        text.to_owned()
    } else {
        text.chars().take(limit).chain(['…']).collect()
    }
}

/// Picture in the making, with the sizes of picture and texts in CSS pixels.
struct Canvas {
    width: u32,
    height: u32,
    font: u32,
}

impl Canvas {
    /// Width of a text of this many letters, CSS pixels.
    fn wide(&self, letters: u32) -> u32 {
        (f64::from(letters * self.font) * 0.62) as u32
    }

    fn font(&self) -> TextStyle<'static> {
        // Plotters writes a smaller size than it is asked for.
        ("sans-serif", f64::from(self.font * UNIT as u32) * 1.24)
            .into_font()
            .color(&INK)
    }
}

fn px(pixels: u32) -> i32 {
    pixels as i32 * UNIT
}

/// Draws the chart as SVG, and returns it with the place of its axes for the page's script.
pub(crate) fn draw(chart: &Chart, width: u32, font: u32) -> (String, Value) {
    let height = match chart.areas {
        Some(_) => chart.height.min(width),
        None if chart.lies() => 80 + 24 * chart.y.names.len() as u32,
        None => chart.height,
    };
    let canvas = Canvas {
        width,
        height,
        font,
    };
    let (mut svg, mut frame) = (String::new(), Value::Null);
    let _ = paint(chart, &canvas, &mut svg, &mut frame);
    let body = svg.find('>').map_or("", |end| &svg[end + 1..]);
    let mut body = as_paths(body);
    for (long, short) in [
        (" opacity=\"1\"", ""),
        (" stroke=\"none\"", ""),
        (" font-family=\"sans-serif\"", ""),
        (".00000000000001\"", "\""),
    ] {
        body = body.replace(long, short);
    }
    let picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" data-width=\"{width}\" aria-hidden=\"true\">{body}",
        px(width),
        px(height)
    );
    (picture, frame)
}

/// Writes polygons as paths from corner to corner, which takes a quarter fewer bytes.
///
/// Corners are written as steps from the corner before, which are short numbers: the corners `8,4
/// 12,4 12,0` become `m8 4 4 0 0-4z`. After `m` a path takes every further pair of numbers for a
/// line, so no letter is needed between these.
fn as_paths(body: &str) -> String {
    let mut pieces = body.split("<polygon");
    let mut paths = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (before, rest) = piece.split_once("points=\"").unwrap_or((piece, ""));
        let (corners, behind) = rest.split_once('"').unwrap_or((rest, ""));
        let corners = corners
            .split_whitespace()
            .filter_map(|corner| corner.split_once(','));
        let _ = write!(paths, "<path{before}d=\"m");
        let mut last = (0, 0);
        for (i, (x, y)) in corners.enumerate() {
            let corner: (i32, i32) = (x.parse().unwrap_or(0), y.parse().unwrap_or(0));
            for (j, step) in [corner.0 - last.0, corner.1 - last.1]
                .into_iter()
                .enumerate()
            {
                // A minus parts two numbers.
                let space = if step < 0 || i + j == 0 { "" } else { " " };
                let _ = write!(paths, "{space}{step}");
            }
            last = corner;
        }
        let _ = write!(paths, "z\"{behind}");
    }
    paths
}

fn legend(chart: &Chart) -> Vec<(String, Result<usize, Sign>)> {
    let signs = chart
        .areas
        .iter()
        .flat_map(|areas| &areas.marks)
        .map(|(name, sign, _)| (name.clone(), Err(*sign)));
    let lines = chart
        .series
        .iter()
        .enumerate()
        .map(|(i, series)| (series.name.clone(), Ok(i)));
    lines
        .filter(|_| chart.series.len() > 1)
        .chain(signs)
        .collect()
}

fn paint(chart: &Chart, canvas: &Canvas, svg: &mut String, frame: &mut Value) -> DrawResult {
    let mut after = String::new();
    {
        let root =
            SVGBackend::with_string(svg, (px(canvas.width) as u32, px(canvas.height) as u32))
                .into_drawing_area();
        let font = canvas.font;
        let row = font * 3 / 2;
        let mut top = 6;
        if !chart.title.is_empty() {
            let title = canvas.font();
            root.draw(&Text::new(chart.title.clone(), (px(4), px(top)), title))?;
            top += row + 2;
        }
        top = key(&root, canvas, &legend(chart), top)? + 4;
        let colours = Colours::of(chart);
        let right = colours.as_ref().map_or(16, |colours| colours.width(canvas));
        let below = row + 4 + if chart.x.title.is_empty() { 0 } else { row };
        let tall = canvas.height.saturating_sub(top + below).max(1);
        let y = y_scale(chart, canvas, tall / (font * 2));
        let left = canvas.wide(y.letters()) + 10 + if chart.y.title.is_empty() { 0 } else { row };
        let wide = canvas.width.saturating_sub(left + right).max(1);
        let (x, y) = (x_scale(chart, canvas, wide), y);
        let (mut x, y) = if chart.areas.is_some() {
            alike(x, y, (wide, tall))
        } else {
            (x, y)
        };
        let sides = chart.areas.as_ref().map(|areas| areas.sides);
        if sides.is_some() {
            // The map is seen from behind.
            (x.low, x.high) = (x.high, x.low);
        }
        let mut plot: Plot<'_> = ChartBuilder::on(&root)
            .margin_top(px(top))
            .margin_right(px(right))
            .x_label_area_size(px(below))
            .y_label_area_size(px(left))
            .build_cartesian_2d(x.clone(), y.clone())?;
        let mut mesh = plot.configure_mesh();
        mesh.label_style(canvas.font())
            .axis_desc_style(canvas.font())
            .axis_style(INK)
            .bold_line_style(GRID);
        mesh.y_desc(titled(&chart.y, &y, !chart.lies() && chart.areas.is_none()));
        mesh.set_all_tick_mark_size(px(3));
        if chart.heat.is_some() {
            mesh.disable_mesh();
        }
        mesh.draw()?;
        let (across, down) = plot.plotting_area().get_pixel_range();
        let title = titled(&chart.x, &x, chart.lies());
        // Below the axis, or as near as the picture has room for it.
        let half = px(canvas.wide(letters(&title)).min(canvas.width) / 2);
        let middle = i32::midpoint(across.start, across.end)
            .min(px(canvas.width) - half)
            .max(half);
        let style = canvas.font().pos(Pos::new(HPos::Center, VPos::Top));
        root.draw(&Text::new(title, (middle, px(canvas.height - row)), style))?;
        for (name, at, side) in sides.iter().flat_map(|[left, right]| {
            [
                (format!("← {left}"), across.start, HPos::Left),
                (format!("{right} →"), across.end, HPos::Right),
            ]
        }) {
            let style = canvas.font().pos(Pos::new(side, VPos::Top));
            root.draw(&Text::new(name, (at, px(canvas.height - row)), style))?;
        }
        let axis = |scale: &Scale| json!([scale.low, scale.high, scale.log]);
        *frame = json!([
            [across.start, down.start, across.end, down.end],
            axis(&x),
            axis(&y)
        ]);
        if let Some(areas) = &chart.areas {
            map(&mut plot, areas)?;
        } else if let Some(heat) = &chart.heat {
            after = cells(heat, (&across, &down));
        } else if chart.choices.is_none() {
            lines_of(&mut plot, chart)?;
        }
        if let Some(colours) = &colours {
            colours.draw(&root, canvas, across.end + px(12), &down)?;
        }
        root.present()?;
    }
    if let Some(end) = svg.rfind("</svg>") {
        svg.insert_str(end, &after);
    }
    Ok(())
}

/// Draws the legend, and returns where it ends.
fn key(
    root: &Root<'_>,
    canvas: &Canvas,
    entries: &[(String, Result<usize, Sign>)],
    top: u32,
) -> Result<u32, DrawingAreaErrorKind<std::io::Error>> {
    let (mut left, mut top, row) = (4, top, canvas.font * 3 / 2);
    for (name, of) in entries {
        let name = clipped(name, (canvas.width / canvas.font * 3 / 2).max(8) as usize);
        let wide = 30 + canvas.wide(letters(&name));
        if left > 4 && left + wide > canvas.width {
            (left, top) = (4, top + row);
        }
        let at = (px(left + 8), px(top + canvas.font / 2));
        match of {
            Ok(series) => {
                let line = vec![(at.0 - px(7), at.1), (at.0 + px(7), at.1)];
                root.draw(&PathElement::new(
                    line,
                    SERIES[series % SERIES.len()].stroke_width(px(2) as u32),
                ))?;
            }
            Err(sign) => {
                let (corners, colour) = signed(*sign);
                let corners: Vec<_> = corners
                    .into_iter()
                    .map(|(x, y)| (at.0 + x, at.1 + y))
                    .collect();
                root.draw(&Polygon::new(corners, colour.filled()))?;
            }
        }
        root.draw(&Text::new(name, (px(left + 20), px(top)), canvas.font()))?;
        left += wide;
    }
    Ok(if entries.is_empty() { top } else { top + row })
}

/// Writes the title of an axis. Amounts on an axis that does not begin at 0 make small differences
/// look large: it says so.
fn titled(axis: &Axis, scale: &Scale, amounts: bool) -> String {
    let away =
        amounts && !scale.log && axis.names.is_empty() && (scale.low > 0.0 || scale.high < 0.0);
    if away && !axis.title.is_empty() {
        format!("{} (axis not from 0)", axis.title)
    } else {
        axis.title.clone()
    }
}

fn x_scale(chart: &Chart, canvas: &Canvas, wide: u32) -> Scale {
    if !chart.x.names.is_empty() {
        let longest = chart
            .x
            .names
            .iter()
            .map(|name| letters(name))
            .max()
            .unwrap_or_default();
        let fit = (wide / (canvas.wide(longest) + 8)).max(1);
        return Scale::names(&chart.x.names, chart.x.names.len().div_ceil(fit as usize));
    }
    let most = (wide / (canvas.font * 5)).max(3) as usize;
    if let Some(areas) = &chart.areas {
        return Scale::of(
            &chart.x,
            areas
                .outlines
                .iter()
                .flatten()
                .chain(&areas.room)
                .map(|corner| corner.0),
            true,
            most,
        );
    }
    let zero = chart
        .series
        .iter()
        .any(|series| series.look == Look::Bars)
        .then_some(0.0);
    let room = chart.lies()
        || chart
            .series
            .iter()
            .any(|series| series.look == Look::Points);
    let all = chart
        .series
        .iter()
        .flat_map(|series| [&series.x, &series.low, &series.high])
        .flatten();
    let mut scale = Scale::of(&chart.x, all.copied().chain(zero), room, most);
    if !scale.log {
        // Numbers side by side need room.
        let fit = (wide / (canvas.wide(scale.letters()) + 12)).max(2) as usize;
        scale.ticks = linear_ticks(scale.low, scale.high, fit.min(10));
    }
    scale
}

fn y_scale(chart: &Chart, canvas: &Canvas, most: u32) -> Scale {
    let most = most.clamp(3, 10) as usize;
    if chart.choices.is_some() {
        // The page's script writes the numbers of the chosen areas.
        let ticks = (0..=4)
            .map(|i| (f64::from(i), format!("y{i}     ")))
            .collect();
        return Scale {
            low: 0.0,
            high: 4.0,
            log: false,
            ticks,
        };
    }
    if !chart.y.names.is_empty() {
        let names = &chart.y.names;
        let mut scale = Scale::names(
            names,
            if chart.lies() {
                1
            } else {
                names.len().div_ceil(most * 2)
            },
        );
        let limit = (canvas.width / canvas.font).clamp(16, 52) as usize;
        scale
            .ticks
            .iter_mut()
            .for_each(|(_, name)| *name = clipped(name, limit));
        return scale;
    }
    if let Some(areas) = &chart.areas {
        return Scale::of(
            &chart.y,
            areas
                .outlines
                .iter()
                .flatten()
                .chain(&areas.room)
                .map(|corner| corner.1),
            true,
            most,
        );
    }
    let zero = chart.from_zero.then_some(0.0);
    Scale::of(
        &chart.y,
        chart
            .series
            .iter()
            .flat_map(|series| &series.y)
            .copied()
            .chain(zero),
        true,
        most,
    )
}

/// Axes of which one is longer, so that both have one scale.
///
/// For example, 200 mm over 400 pixels and 100 mm over 100 pixels are 0.5 and 1 mm per pixel. Both
/// get 1 mm per pixel, so that x is drawn from 100 mm before to 100 mm after its range, and a
/// square sensor is a square.
fn alike(mut x: Scale, mut y: Scale, (wide, tall): (u32, u32)) -> (Scale, Scale) {
    let each = ((x.high - x.low) / f64::from(wide)).max((y.high - y.low) / f64::from(tall));
    for (scale, pixels) in [(&mut x, wide), (&mut y, tall)] {
        let (middle, half) = (
            f64::midpoint(scale.low, scale.high),
            each * f64::from(pixels) / 2.0,
        );
        let n = scale.ticks.len().max(4);
        (scale.low, scale.high) = (middle - half, middle + half);
        scale.ticks = linear_ticks(scale.low, scale.high, n);
    }
    (x, y)
}

fn lines_of(plot: &mut Plot<'_>, chart: &Chart) -> DrawResult {
    let there = |axis: &Axis, value: f64| value.is_finite() && (!axis.log || value > 0.0);
    for (i, series) in chart.series.iter().enumerate() {
        let colour = SERIES[i % SERIES.len()];
        let style = colour.stroke_width(px(2) as u32 * 3 / 4);
        let points = || series.x.iter().copied().zip(series.y.iter().copied());
        let path: Vec<(f64, f64)> = match series.look {
            Look::Bins => {
                let edges = series.x.windows(2).zip(&series.y);
                edges
                    .flat_map(|(edges, &value)| [(edges[0], value), (edges[1], value)])
                    .collect()
            }
            _ => points().collect(),
        };
        let good = |&(x, y): &(f64, f64)| there(&chart.x, x) && there(&chart.y, y);
        match series.look {
            Look::Points => {
                let circle = |point| Circle::new(point, px(3), colour.mix(0.6).filled());
                plot.draw_series(path.into_iter().filter(good).map(circle))?;
            }
            Look::Bars => {
                let bar = |(x, y): (f64, f64)| {
                    Rectangle::new([(0.0, y - 0.35), (x, y + 0.35)], colour.filled())
                };
                plot.draw_series(path.into_iter().filter(good).map(bar))?;
            }
            Look::Intervals => {
                for ((&(x, y), &low), &high) in path
                    .iter()
                    .zip(&series.low)
                    .zip(&series.high)
                    .filter(|((of, _), _)| good(of))
                {
                    plot.draw_series([PathElement::new([(low, y), (high, y)], style)])?;
                    for end in [low, high] {
                        let tick = PathElement::new([(0, px(4)), (0, -px(4))], style);
                        plot.draw_series([EmptyElement::at((end, y)) + tick])?;
                    }
                    plot.draw_series([Circle::new((x, y), px(4), colour.filled())])?;
                }
            }
            Look::Line | Look::Bins => {
                for piece in path
                    .split(|point| !good(point))
                    .filter(|piece| !piece.is_empty())
                {
                    plot.draw_series([PathElement::new(piece.to_vec(), style)])?;
                }
                if series.look == Look::Line && series.x.len() <= 60 {
                    plot.draw_series(
                        path.iter()
                            .filter(|point| good(point))
                            .map(|&point| Circle::new(point, px(3), colour.filled())),
                    )?;
                }
            }
        }
    }
    Ok(())
}

fn signed(sign: Sign) -> (Vec<(i32, i32)>, RGBColor) {
    let (red, pink) = (RGBColor(0xe0, 0x22, 0x2f), RGBColor(0xc2, 0x25, 0x5c));
    let (corners, colour): (&[(i32, i32)], _) = match sign {
        Sign::Cross => (
            &[
                (-6, -6),
                (0, -2),
                (6, -6),
                (2, 0),
                (6, 6),
                (0, 2),
                (-6, 6),
                (-2, 0),
            ],
            red,
        ),
        Sign::Down => (&[(-5, -4), (5, -4), (0, 5)], RGBColor(0xe6, 0x77, 0x00)),
        Sign::Up => (&[(-5, 4), (5, 4), (0, -5)], pink),
        Sign::Circle => (
            &[
                (-5, 0),
                (-4, -4),
                (0, -5),
                (4, -4),
                (5, 0),
                (4, 4),
                (0, 5),
                (-4, 4),
            ],
            pink,
        ),
    };
    (
        corners.iter().map(|&(x, y)| (x * UNIT, y * UNIT)).collect(),
        colour,
    )
}

fn map(plot: &mut Plot<'_>, areas: &Areas) -> DrawResult {
    let ends = areas.shading.ends(&areas.values, areas.range);
    for (corners, &value) in areas.outlines.iter().zip(&areas.values) {
        let style = match areas.shading.shade(value, ends) {
            Some(shade) => areas.shading.colour(shade).filled(),
            None => NONE.mix(0.2).filled(),
        };
        plot.draw_series([Polygon::new(corners.clone(), style)])?;
    }
    let middles = areas.middles();
    for (_, sign, which) in &areas.marks {
        let (corners, colour) = signed(*sign);
        for &middle in which.iter().filter_map(|&area| middles.get(area)) {
            plot.draw_series([
                EmptyElement::at(middle) + Polygon::new(corners.clone(), colour.filled())
            ])?;
        }
    }
    Ok(())
}

/// Cells of a heat map as an image with a pixel each, of which plotters would make elements.
fn cells(heat: &Heat, (across, down): (&Range<i32>, &Range<i32>)) -> String {
    let all: Vec<f64> = heat.values.iter().flatten().copied().collect();
    let ends = heat.shading.ends(&all, heat.range);
    let (rows, columns) = (heat.rows.len(), heat.columns.len());
    let mut pixels = vec![SHADES as u8; rows * columns];
    for (r, row) in heat.values.iter().enumerate() {
        for (c, &value) in row.iter().enumerate() {
            if let Some(shade) = heat.shading.shade(value, ends) {
                pixels[(rows - r - 1) * columns + c] = shade as u8;
            }
        }
    }
    let colours = (0..SHADES).map(|shade| heat.shading.colour(shade));
    let png = png::encode(
        columns as u32,
        &pixels,
        &colours
            .map(|RGBColor(r, g, b)| [r, g, b])
            .collect::<Vec<_>>(),
    );
    format!(
        "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" \
         style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{}\"/>\n",
        across.start,
        down.start,
        across.end - across.start,
        down.end - down.start,
        png::base64(&png)
    )
}

/// Colours of a map: their shading, ends and unit.
struct Colours<'a> {
    shading: Shading,
    ends: (f64, f64),
    unit: &'a str,
}

impl Colours<'_> {
    fn of(chart: &Chart) -> Option<Colours<'_>> {
        if let Some(Areas {
            shading,
            values,
            range,
            unit,
            ..
        }) = &chart.areas
        {
            return Some(Colours {
                shading: *shading,
                ends: shading.ends(values, *range),
                unit,
            });
        }
        let Heat {
            shading,
            values,
            range,
            unit,
            ..
        } = chart.heat.as_ref()?;
        let all: Vec<f64> = values.iter().flatten().copied().collect();
        Some(Colours {
            shading: *shading,
            ends: shading.ends(&all, *range),
            unit,
        })
    }

    fn draw(&self, root: &Root<'_>, canvas: &Canvas, left: i32, down: &Range<i32>) -> DrawResult {
        let tall = f64::from(down.end - down.start);
        let at = |share: f64| down.end - (tall * share).round() as i32;
        // Each down to the end, below the next one: side by side they would show seams.
        for shade in (0..SHADES).rev() {
            let colour = self.shading.colour(shade);
            let top = at((shade + 1) as f64 / SHADES as f64);
            root.draw(&Rectangle::new(
                [(left, top), (left + px(12), down.end)],
                colour.filled(),
            ))?;
        }
        let ticks = self.shading.ticks(self.ends);
        let longest = ticks
            .iter()
            .map(|tick| letters(&tick.1))
            .max()
            .unwrap_or_default();
        for (number, text) in ticks {
            let y = at((number - self.ends.0) / (self.ends.1 - self.ends.0));
            let style = canvas.font().pos(Pos::new(HPos::Left, VPos::Center));
            root.draw(&Text::new(text, (left + px(16), y), style))?;
        }
        let style = canvas
            .font()
            .transform(FontTransform::Rotate270)
            .pos(Pos::new(HPos::Center, VPos::Top));
        let x = left + px(22 + canvas.wide(longest));
        root.draw(&Text::new(
            self.unit.to_owned(),
            (x, i32::midpoint(down.start, down.end)),
            style,
        ))
    }

    /// Width of the bar with its texts, CSS pixels.
    fn width(&self, canvas: &Canvas) -> u32 {
        let longest = self
            .shading
            .ticks(self.ends)
            .iter()
            .map(|tick| letters(&tick.1))
            .max()
            .unwrap_or_default();
        40 + canvas.wide(longest) + canvas.font
    }
}
