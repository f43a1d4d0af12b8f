//! One chart: what is drawn over which axes.

use plotly::common::{ColorBar, ColorScale, ColorScalePalette, DashType, ErrorData, ErrorType, Line, LineShape};
use plotly::common::{Marker, Mode, Orientation, Title};
use plotly::layout::{Axis, AxisType, Layout, Legend, Margin};
use plotly::{Bar, HeatMap, Plot, Scatter, Trace};
use serde_json::{Value, json};

use crate::areas::Areas;

/// A chart. Values that are not finite are gaps.
#[derive(Clone)]
pub struct Chart {
    pub(crate) name: String,
    height: u32,
    pub(crate) description: String,
    pub(crate) choices: Option<Choices>,
    plot: Plot,
    title: Option<String>,
    x: (String, AxisType),
    y: (String, AxisType),
    labels: Option<Vec<String>>,
    series: usize,
    legend: bool,
    /// Both axes have one scale.
    map: bool,
    /// The y axis begins at 0.
    from_zero: bool,
}

/// What the reader chooses between: other values of the chart's first series.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// What is chosen.
    pub label: String,
    /// The names, of which the first is drawn.
    pub names: Vec<String>,
    /// By name: the values over the x of the series.
    pub values: Vec<Vec<u64>>,
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
            description: String::new(),
            choices: None,
            plot: Plot::new(),
            title: None,
            x: (label(x), AxisType::Linear),
            y: (label(y), AxisType::Linear),
            labels: None,
            series: 0,
            legend: false,
            map: false,
            from_zero: false,
        }
    }

    /// With a sentence on what there is to see, for those who do not see it.
    #[must_use]
    pub fn describe(mut self, sentence: &str) -> Self {
        sentence.clone_into(&mut self.description);
        self
    }

    /// With a box in which the reader chooses what the first series shows. A name without values shows nothing.
    #[must_use]
    pub fn choices(mut self, choices: Choices) -> Self {
        self.choices = Some(choices);
        self
    }

    /// A map, with the same scale on both axes.
    #[must_use]
    pub fn areas(mut self, areas: &Areas) -> Self {
        self.map = true;
        self.legend |= areas.marks.iter().any(|(_, _, which)| !which.is_empty());
        for trace in areas.traces() {
            self.plot.add_trace(Box::new(trace));
        }
        self
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

    /// With a y axis that begins at 0, however far the values are from it.
    #[must_use]
    pub fn from_zero(mut self) -> Self {
        self.from_zero = true;
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

    /// The height, as CSS. A map is not much higher than wide, also on a phone.
    pub(crate) fn css_height(&self) -> String {
        if self.map { format!("min({}px,90vw)", self.height) } else { format!("{}px", self.height) }
    }

    /// What plotly is given.
    pub(crate) fn json(&self) -> String {
        let axis = |(title, kind): &(String, AxisType)| {
            Axis::new().title(Title::with_text(title)).type_(kind.clone()).auto_margin(true)
        };
        let mut y = axis(&self.y);
        if let Some(names) = &self.labels {
            y = y.category_array(names.iter().rev().cloned().collect::<Vec<_>>());
        }
        // Room for the title, and for two rows of the legend, which a map has below.
        let top = if self.title.is_none() || self.map { 44 } else { 76 };
        let mut layout = Layout::new()
            .x_axis(axis(&self.x))
            .y_axis(y)
            .show_legend(self.series > 1 || self.legend)
            .legend(Legend::new().orientation(Orientation::Horizontal).y(1.12))
            .margin(Margin::new().left(50).right(20).top(top).bottom(50));
        if let Some(title) = &self.title {
            layout = layout.title(Title::with_text(title));
        }
        let mut plot = self.plot.clone();
        plot.set_layout(layout);
        // What plotly writes is JSON.
        let mut all: Value = serde_json::from_str(&plot.to_json()).unwrap_or_default();
        if self.map {
            all["layout"]["yaxis"]["scaleanchor"] = "x".into();
            all["layout"]["xaxis"]["constrain"] = "domain".into();
            all["layout"]["yaxis"]["constrain"] = "domain".into();
            all["layout"]["hoverdistance"] = 60.into();
            all["layout"]["hovermode"] = "closest".into();
            all["layout"]["legend"] = json!({"orientation": "h", "y": -0.2, "yanchor": "top"});
        } else {
            // More rows of the legend grow away from the picture.
            all["layout"]["legend"]["yanchor"] = "bottom".into();
            all["layout"]["legend"]["y"] = 1.0.into();
        }
        if self.from_zero {
            all["layout"]["yaxis"]["rangemode"] = "tozero".into();
        }
        for trace in all["data"].as_array_mut().into_iter().flatten() {
            if let Some(title) = trace.pointer_mut("/colorbar/title").filter(|title| title.is_object()) {
                title["side"] = "right".into();
            }
        }
        if let Some(choices) = &self.choices {
            all["choices"] = json!({"label": choices.label, "names": choices.names, "values": choices.values});
        }
        all.to_string()
    }
}
