//! One chart: what is drawn over which axes.

use plotly::common::{ColorBar, ColorScale, ColorScalePalette, DashType, ErrorData, ErrorType, Line, LineShape};
use plotly::common::{Marker, Mode, Orientation, Title};
use plotly::layout::{Axis, AxisType, Layout, Legend, Margin};
use plotly::{Bar, HeatMap, Plot, Scatter, Trace};

/// A chart. Values that are not finite are gaps.
#[derive(Clone)]
pub struct Chart {
    pub(crate) name: String,
    pub(crate) height: u32,
    plot: Plot,
    title: Option<String>,
    x: (String, AxisType),
    y: (String, AxisType),
    reversed: bool,
    labels: Option<Vec<String>>,
    series: usize,
}

impl std::fmt::Debug for Chart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chart").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A heat map: names of columns and rows, and for each row its values and what is shown over each.
#[derive(Clone, Debug, Default)]
pub struct Heat {
    /// Names of the columns, from the left.
    pub columns: Vec<String>,
    /// Names of the rows, from the bottom.
    pub rows: Vec<String>,
    /// `values[row][column]`; not a number where there is none.
    pub values: Vec<Vec<f64>>,
    /// What is shown when the reader points at a cell.
    pub hover: Vec<Vec<String>>,
    /// What is written into a cell; empty for nothing.
    pub text: Vec<Vec<String>>,
    /// What the values are.
    pub unit: String,
    /// Whether small values are good, and get the deep colour.
    pub less_is_better: bool,
    /// The ends of the colours; without them those of the values.
    pub range: Option<(f64, f64)>,
}

/// Text for a label of a chart, where a few tags would otherwise be markup.
pub fn label(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn labels(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| label(text)).collect()
}

impl Chart {
    /// An empty chart of `y` over `x`. `name`: of the file when a reader saves it.
    pub fn new(name: &str, x: &str, y: &str) -> Self {
        Self {
            name: name.to_owned(),
            height: 380,
            plot: Plot::new(),
            title: None,
            x: (label(x), AxisType::Linear),
            y: (label(y), AxisType::Linear),
            reversed: false,
            labels: None,
            series: 0,
        }
    }

    /// With a title.
    #[must_use]
    pub fn title(mut self, title: &str) -> Self {
        self.title = Some(label(title));
        self
    }

    /// With another height, in CSS pixels.
    #[must_use]
    pub fn height(mut self, pixels: u32) -> Self {
        self.height = pixels;
        self
    }

    /// With a logarithmic x axis.
    #[must_use]
    pub fn log_x(mut self) -> Self {
        self.x.1 = AxisType::Log;
        self
    }

    /// With a logarithmic y axis.
    #[must_use]
    pub fn log_y(mut self) -> Self {
        self.y.1 = AxisType::Log;
        self
    }

    fn with(mut self, trace: Box<dyn Trace>) -> Self {
        self.plot.add_trace(trace);
        self.series += 1;
        self
    }

    /// A line through points.
    #[must_use]
    pub fn line(self, name: &str, x: &[f64], y: &[f64]) -> Self {
        let mode = if x.len() > 60 { Mode::Lines } else { Mode::LinesMarkers };
        self.with(Scatter::new(x.to_vec(), y.to_vec()).mode(mode).name(label(name)))
    }

    /// A line that keeps its value until the next point.
    #[must_use]
    pub fn steps(self, name: &str, x: &[f64], y: &[f64]) -> Self {
        let line = Line::new().shape(LineShape::Hv);
        self.with(Scatter::new(x.to_vec(), y.to_vec()).mode(Mode::Lines).line(line).name(label(name)))
    }

    /// Points, each with what is shown when the reader points at it.
    #[must_use]
    pub fn points(self, name: &str, x: &[f64], y: &[f64], hover: &[String]) -> Self {
        let points = Scatter::new(x.to_vec(), y.to_vec()).mode(Mode::Markers).name(label(name));
        self.with(points.marker(Marker::new().size(6).opacity(0.6)).hover_text_array(labels(hover)))
    }

    /// A line through named places, with the ends of each value's bar (or nothing).
    #[must_use]
    pub fn named(mut self, name: &str, places: &[String], y: &[f64], bars: Option<(&[f64], &[f64])>) -> Self {
        self.x.1 = AxisType::Category;
        let mut line = Scatter::new(labels(places), y.to_vec()).mode(Mode::LinesMarkers).name(label(name));
        if let Some((low, high)) = bars {
            let away = |ends: &[f64]| y.iter().zip(ends).map(|(y, end)| (y - end).abs()).collect::<Vec<f64>>();
            line = line.error_y(ErrorData::new(ErrorType::Data).array(away(high)).array_minus(away(low)));
        }
        self.with(line)
    }

    /// A dashed level line from `from` to `to` on the x axis.
    #[must_use]
    pub fn level(self, name: &str, (from, to): (f64, f64), y: f64) -> Self {
        let line = Line::new().dash(DashType::Dash);
        self.with(Scatter::new(vec![from, to], vec![y, y]).mode(Mode::Lines).line(line).name(label(name)))
    }

    /// The same over named places.
    #[must_use]
    pub fn named_level(self, name: &str, places: &[String], y: f64) -> Self {
        let line = Line::new().dash(DashType::Dash);
        let levels = vec![y; places.len()];
        self.with(Scatter::new(labels(places), levels).mode(Mode::Lines).line(line).name(label(name)))
    }

    /// Bars that lie, from the top, each with its name.
    #[must_use]
    pub fn lying_bars(mut self, name: &str, names: &[String], values: &[f64]) -> Self {
        self.lie(names);
        self.with(Bar::new(values.to_vec(), labels(names)).orientation(Orientation::Horizontal).name(label(name)))
    }

    /// Values with intervals that lie, from the top, each with its name.
    #[must_use]
    pub fn intervals(mut self, name: &str, names: &[String], values: &[f64], low: &[f64], high: &[f64]) -> Self {
        self.lie(names);
        let away = |ends: &[f64]| values.iter().zip(ends).map(|(value, end)| (value - end).abs()).collect::<Vec<f64>>();
        let bars = ErrorData::new(ErrorType::Data).array(away(high)).array_minus(away(low));
        let points = Scatter::new(values.to_vec(), labels(names)).mode(Mode::Markers).name(label(name));
        self.with(points.marker(Marker::new().size(9)).error_x(bars))
    }

    fn lie(&mut self, names: &[String]) {
        self.y.1 = AxisType::Category;
        self.reversed = true;
        self.height = 110 + 24 * names.len() as u32;
        self.labels = Some(labels(names));
    }

    /// Upright bars: the histogram of counts in bins, given by their middles.
    #[must_use]
    pub fn bars(self, name: &str, middles: &[f64], counts: &[f64]) -> Self {
        self.with(Bar::new(middles.to_vec(), counts.to_vec()).name(label(name)))
    }

    /// A heat map.
    #[must_use]
    pub fn heat_map(mut self, heat: &Heat) -> Self {
        (self.x.1, self.y.1) = (AxisType::Category, AxisType::Category);
        let matrix = |texts: &[Vec<String>]| texts.iter().map(|row| labels(row)).collect::<Vec<_>>();
        let bar = ColorBar::new().title(Title::with_text(label(&heat.unit))).thickness(12);
        let mut map = HeatMap::new(labels(&heat.columns), labels(&heat.rows), heat.values.clone())
            .color_scale(ColorScale::Palette(ColorScalePalette::Viridis))
            .reverse_scale(!heat.less_is_better)
            .hover_on_gaps(false)
            .hover_text_matrix(matrix(&heat.hover))
            .hover_template("%{hovertext}<extra></extra>")
            .color_bar(bar);
        if heat.text.iter().flatten().any(|text| !text.is_empty()) {
            map = map.text_matrix(matrix(&heat.text));
        }
        if let Some((low, high)) = heat.range {
            map = map.zauto(false).zmin(low).zmax(high);
        }
        self.with(map)
    }

    /// What plotly is given.
    pub(crate) fn json(&self) -> String {
        let axis = |(title, kind): &(String, AxisType)| {
            Axis::new().title(Title::with_text(title)).type_(kind.clone()).auto_margin(true)
        };
        let mut y = axis(&self.y);
        if self.reversed {
            let names = self.labels.clone().unwrap_or_default();
            y = y.category_array(names.into_iter().rev().collect::<Vec<_>>());
        }
        let mut layout = Layout::new()
            .x_axis(axis(&self.x))
            .y_axis(y)
            .show_legend(self.series > 1)
            .legend(Legend::new().orientation(Orientation::Horizontal).y(1.12))
            .margin(Margin::new().left(50).right(20).top(if self.title.is_some() { 60 } else { 36 }).bottom(50));
        if let Some(title) = &self.title {
            layout = layout.title(Title::with_text(title));
        }
        let mut plot = self.plot.clone();
        plot.set_layout(layout);
        plot.to_json()
    }
}
