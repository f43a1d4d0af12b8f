//! One chart: what is drawn over which axes.

use plotly::common::{
    ColorBar, ColorScale, ColorScaleElement, ColorScalePalette, DashType, ErrorData, ErrorType, Line, LineShape,
};
use plotly::common::{Marker, Mode, Orientation, Title};
use plotly::layout::{Axis, AxisType, Layout, Legend, Margin};
use plotly::{Bar, HeatMap, Plot, Scatter, Trace};
use serde_json::{Value, json};

use crate::areas::{Areas, Raw, Shading};
use crate::label::label;

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
    /// By series: what the page's script is told of it.
    meta: Vec<(usize, Value)>,
}

/// What the reader chooses between: other values of the bins that are the chart's first series.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// What is chosen.
    pub label: String,
    /// The names, of which the first is drawn.
    pub names: Vec<String>,
    /// By name: the values of the bins.
    pub values: Vec<Vec<u64>>,
    /// By name: the key of the [areas](Areas::keys) that choose it; of equal keys the last. Empty for none.
    pub keys: Vec<u64>,
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
    /// Whether colours go by the logarithm.
    pub logarithmic: bool,
    /// Whether small values are good, and get the deep colour.
    pub less_is_better: bool,
    /// Whether the middle of the range is what is usual: less gets blue, more red, and the usual is pale.
    pub around_usual: bool,
    /// The ends of the colours; without them those of the values.
    pub range: Option<(f64, f64)>,
}

/// The part of the axis on which intervals are drawn: all values, and intervals as far as twice the middle one reaches
/// beyond them.
fn shown(values: &[f64], low: &[f64], high: &[f64]) -> (f64, f64) {
    let finite = |all: &[f64]| all.iter().copied().filter(|value| value.is_finite()).collect::<Vec<f64>>();
    let least = |all: &[f64]| finite(all).into_iter().fold(f64::INFINITY, f64::min);
    let most = |all: &[f64]| finite(all).into_iter().fold(f64::NEG_INFINITY, f64::max);
    let (first, last) = (least(values), most(values));
    if first > last {
        return (f64::NEG_INFINITY, f64::INFINITY);
    }
    let mut reach = finite(
        &values.iter().zip(low).chain(values.iter().zip(high)).map(|(v, end)| (v - end).abs()).collect::<Vec<f64>>(),
    );
    reach.sort_by(f64::total_cmp);
    let room = 2.0 * reach.get(reach.len() / 2).copied().unwrap_or_default() + 0.5 * (last - first);
    let room = if room > 0.0 { room } else { (0.1 * last.abs()).max(1e-9) };
    // An end that is infinite is beyond as well.
    let lowest = low.iter().copied().fold(first, f64::min);
    let highest = high.iter().copied().fold(last, f64::max);
    (lowest.max(first - room), highest.min(last + room))
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
            meta: Vec::new(),
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

    /// A histogram as a line: a value for each bin, whose edges are one more.
    #[must_use]
    pub fn bins(mut self, name: &str, edges: &[f64], values: &[f64]) -> Self {
        self.meta.push((self.series, "bins".into()));
        // A point at either edge of each bin. Plotly's steps go from point to point: they leave out the bin before one that
        // is empty, as all without entries are on a logarithmic axis.
        let x = edges.windows(2).flatten().copied().collect();
        let y = values.iter().flat_map(|&value| [value; 2]).collect();
        self.with(Scatter::new(x, y).mode(Mode::Lines).name(label(name)))
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

    /// Values with intervals that lie, from the top, each with its name. What reaches so far that the others would be too
    /// short to be seen, or has no end, is cut, and an arrow says so.
    #[must_use]
    pub fn intervals(mut self, name: &str, names: &[String], values: &[f64], low: &[f64], high: &[f64]) -> Self {
        self.lie(names);
        let (from, to) = shown(values, low, high);
        let clamped = |ends: &[f64]| ends.iter().map(|end| end.clamp(from, to)).collect::<Vec<f64>>();
        let beyond = |ends: &[f64], is_cut: &dyn Fn(f64) -> bool| -> Vec<String> {
            ends.iter().zip(names).filter(|(end, _)| is_cut(**end)).map(|(_, name)| label(name)).collect()
        };
        let cut = [
            (from, "triangle-left", beyond(low, &|end| end < from)),
            (to, "triangle-right", beyond(high, &|end| end > to)),
        ];
        self.meta.push((self.series, json!({ "from": low, "to": high })));
        let (low, high) = (&clamped(low)[..], &clamped(high)[..]);
        let away = |ends: &[f64]| values.iter().zip(ends).map(|(value, end)| (value - end).abs()).collect::<Vec<f64>>();
        let bars = ErrorData::new(ErrorType::Data).array(away(high)).array_minus(away(low));
        let points = Scatter::new(values.to_vec(), labels(names)).mode(Mode::Markers).name(label(name));
        self = self.with(points.marker(Marker::new().size(9)).error_x(bars));
        for (edge, symbol, names) in cut.into_iter().filter(|(_, _, names)| !names.is_empty()) {
            self = self.with(Box::new(Raw(json!({
                "type": "scatter", "mode": "markers", "x": vec![edge; names.len()], "y": names, "name": "goes on",
                "marker": {"symbol": symbol, "size": 11, "color": "#d9730d"}, "hoverinfo": "skip",
            }))));
        }
        self
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
        let mut bar = ColorBar::new().title(Title::with_text(label(&heat.unit))).thickness(12);
        let (mut values, mut range) = (heat.values.clone(), heat.range);
        if heat.logarithmic {
            let all: Vec<f64> = values.iter().flatten().copied().collect();
            let (low, high) = Shading::Log.ends(&all, range);
            let (ticks, texts) = Shading::Log.ticks((low, high));
            bar = bar.tick_vals(ticks).tick_text(texts);
            range = Some((low, high));
            self.meta.push((self.series, json!({ "numbers": values })));
            values.iter_mut().flatten().for_each(|value| *value = if *value > 0.0 { value.log10() } else { f64::NAN });
        }
        let mut map = HeatMap::new(labels(&heat.columns), labels(&heat.rows), values)
            .color_scale(if heat.around_usual {
                let scale = Shading::Signed.scale(24);
                ColorScale::Vector(scale.into_iter().map(|(at, colour)| ColorScaleElement(at, colour)).collect())
            } else {
                ColorScale::Palette(ColorScalePalette::Viridis)
            })
            .reverse_scale(!heat.less_is_better && !heat.around_usual)
            .hover_on_gaps(false)
            .hover_text_matrix(matrix(&heat.hover))
            .hover_template("%{hovertext}<extra></extra>")
            .color_bar(bar);
        if heat.text.iter().flatten().any(|text| !text.is_empty()) {
            map = map.text_matrix(matrix(&heat.text));
        }
        if let Some((low, high)) = range {
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
        for (i, trace) in all["data"].as_array_mut().into_iter().flatten().enumerate() {
            if let Some((_, meta)) = self.meta.iter().find(|(series, _)| *series == i) {
                trace["meta"] = meta.clone();
            }
            // What is written into the cells of a map.
            if trace["type"] == "heatmap" && trace["text"].is_array() {
                trace["texttemplate"] = "%{text}".into();
            }
            if let Some(title) = trace.pointer_mut("/colorbar/title").filter(|title| title.is_object()) {
                title["side"] = "right".into();
            }
        }
        if let Some(choices) = &self.choices {
            all["choices"] = json!({
                "label": choices.label, "names": choices.names, "values": choices.values, "keys": choices.keys,
            });
        }
        all.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::{Chart, Heat, shown};
    use serde_json::{Value, json};

    fn drawn(chart: &Chart) -> Value {
        serde_json::from_str(&chart.json()).unwrap()
    }

    #[test]
    fn an_interval_that_would_squeeze_the_others_is_cut_and_marked() {
        let names = ["a", "b", "c", "d"].map(str::to_owned);
        let (low, high) = ([-1.0, 0.0, -900.0, 2.0], [1.0, 2.0, 5.0, f64::INFINITY]);
        let all = drawn(&Chart::new("c", "x", "").intervals("time", &names, &[0.0, 1.0, 2.0, 3.0], &low, &high));
        let ends = &all["data"][0];
        let least = 2.0 - ends["error_x"]["arrayminus"][2].as_f64().unwrap();
        assert!((-10.0..-1.0).contains(&least), "{least}");
        let marks: Vec<_> =
            all["data"].as_array().unwrap()[1..].iter().map(|mark| (&mark["marker"]["symbol"], &mark["y"])).collect();
        assert_eq!(marks, [(&json!("triangle-left"), &json!(["c"])), (&json!("triangle-right"), &json!(["d"]))]);
        // The table has them whole.
        assert_eq!(ends["meta"]["from"], json!([-1.0, 0.0, -900.0, 2.0]));
        // Intervals of one length are as they are.
        let whole = drawn(&Chart::new("c", "x", "").intervals("time", &names, &[0.0; 4], &[-1.0; 4], &[1.0; 4]));
        assert_eq!(whole["data"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn intervals_of_nothing_and_of_one_value_have_an_axis() {
        assert_eq!(shown(&[], &[], &[]), (f64::NEG_INFINITY, f64::INFINITY));
        let (from, to) = shown(&[2.0], &[f64::NEG_INFINITY], &[f64::INFINITY]);
        assert!(from < 2.0 && 2.0 < to && from.is_finite() && to.is_finite());
        assert_eq!(shown(&[2.0], &[2.0], &[2.0]), (2.0, 2.0));
    }

    #[test]
    fn each_bin_is_a_line_from_edge_to_edge() {
        let all = drawn(&Chart::new("c", "x", "y").bins("n", &[0.0, 1.0, 2.0], &[5.0, 7.0]));
        let line = &all["data"][0];
        assert_eq!((&line["x"], &line["y"]), (&json!([0.0, 1.0, 1.0, 2.0]), &json!([5.0, 5.0, 7.0, 7.0])));
        assert_eq!(line["meta"], json!("bins"));
    }

    #[test]
    fn a_logarithmic_map_has_ticks_in_its_own_numbers() {
        let heat = Heat {
            columns: vec!["a".to_owned(), "b".to_owned()],
            rows: vec!["r".to_owned()],
            values: vec![vec![1.0, 100.0]],
            logarithmic: true,
            ..Heat::default()
        };
        let map = &drawn(&Chart::new("c", "x", "y").heat_map(&heat))["data"][0];
        assert_eq!((&map["z"], &map["meta"]["numbers"]), (&json!([[0.0, 2.0]]), &json!([[1.0, 100.0]])));
        assert_eq!(map["colorbar"]["ticktext"], json!(["1", "3", "10", "30", "100"]));
    }
}
