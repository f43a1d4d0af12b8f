//! Maps: areas of any outline in their true proportions, coloured by a value.
//!
//! Plotly has no such chart for plain coordinates. It can fill the outline of a line, one colour a line, so the areas are
//! sorted into a few dozen shades, each a line with gaps; points in the middles of the areas, which cannot be seen, carry
//! the colour bar and what is shown when the reader points at one.

use serde::Serialize;
use serde_json::{Value, json};

use crate::label::label;

/// A map of areas.
#[derive(Clone, Debug, Default)]
pub struct Areas {
    /// The corners (x, y) of each area, in turn.
    pub outlines: Vec<Vec<(f64, f64)>>,
    /// The value of each; not a number where there is none.
    pub values: Vec<f64>,
    /// What is shown when the reader points at an area; `\n` begins a new line.
    pub hover: Vec<String>,
    /// What the values are.
    pub unit: String,
    /// How values become colours.
    pub shading: Shading,
    /// The ends of the colours; without them those of the values.
    pub range: Option<(f64, f64)>,
    /// Groups of areas that stand out: a name, a sign, and which areas.
    pub marks: Vec<(String, Sign, Vec<usize>)>,
    /// The key of each area: a click on it makes the same [choice](crate::Choices::keys) elsewhere on the page. Empty for
    /// none.
    pub keys: Vec<u64>,
}

/// How values become colours.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Shading {
    /// In proportion.
    #[default]
    Linear,
    /// By the logarithm. Values that are not positive get the colour of none.
    Log,
    /// By the logarithm on both sides of 1: less, as much, more. What is under a hundredth, 0 too, counts as that; what is
    /// over a hundred, infinity too, as that.
    Ratio,
    /// In proportion on both sides of 0.
    Signed,
}

/// The sign in the middle of an area that stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A cross.
    Cross,
    /// A triangle that points down.
    Down,
    /// A triangle that points up.
    Up,
    /// A circle.
    Circle,
}

impl Sign {
    const fn of_plotly(self) -> (&'static str, &'static str) {
        match self {
            Self::Cross => ("x", "#e0222f"),
            Self::Down => ("triangle-down", "#e67700"),
            Self::Up => ("triangle-up", "#c2255c"),
            Self::Circle => ("circle", "#c2255c"),
        }
    }
}

/// Shades that are told apart.
const SHADES: usize = 48;

/// Colours at equal distances, dark to light; readers who do not see red and green tell them apart, and so does a
/// printer without colours.
const SEQUENTIAL: [(u8, u8, u8); 9] = [
    (46, 8, 84),
    (63, 52, 125),
    (54, 94, 141),
    (40, 127, 142),
    (33, 159, 136),
    (66, 189, 112),
    (134, 212, 73),
    (198, 225, 44),
    (253, 231, 55),
];

/// Less is blue, as much is pale, more is red.
const DIVERGING: [(u8, u8, u8); 7] =
    [(25, 62, 130), (56, 116, 180), (146, 190, 220), (240, 240, 236), (240, 170, 130), (205, 85, 70), (125, 15, 40)];

impl Shading {
    fn colours(self) -> &'static [(u8, u8, u8)] {
        match self {
            Self::Linear | Self::Log => &SEQUENTIAL,
            Self::Ratio | Self::Signed => &DIVERGING,
        }
    }

    /// The colour at `place`, 0…1.
    fn colour(self, place: f64) -> String {
        let colours = self.colours();
        let at = place.clamp(0.0, 1.0) * (colours.len() - 1) as f64;
        let low = (at.floor() as usize).min(colours.len() - 2);
        let mix = |a: u8, b: u8| (f64::from(a) + (at - low as f64) * (f64::from(b) - f64::from(a))).round();
        let ((r, g, b), (r2, g2, b2)) = (colours[low], colours[low + 1]);
        format!("rgb({},{},{})", mix(r, r2), mix(g, g2), mix(b, b2))
    }

    /// Places with their colours, in so many steps.
    pub(crate) fn scale(self, steps: u32) -> Vec<(f64, String)> {
        (0..=steps).map(|i| f64::from(i) / f64::from(steps)).map(|place| (place, self.colour(place))).collect()
    }

    /// The number by which a value is coloured; not a number where it gets no colour.
    fn number(self, value: f64) -> f64 {
        match self {
            Self::Linear | Self::Signed => value,
            Self::Log if value > 0.0 => value.log10(),
            Self::Ratio if value >= 0.0 => value.clamp(0.01, 100.0).log10(),
            Self::Log | Self::Ratio => f64::NAN,
        }
    }

    /// The ends of the colours.
    pub(crate) fn ends(self, values: &[f64], range: Option<(f64, f64)>) -> (f64, f64) {
        let numbers = values.iter().map(|&value| self.number(value)).filter(|number| number.is_finite());
        let (low, high) = match range {
            Some((low, high)) => (self.number(low), self.number(high)),
            None => (numbers.clone().fold(f64::INFINITY, f64::min), numbers.fold(f64::NEG_INFINITY, f64::max)),
        };
        match self {
            _ if !(low.is_finite() && high.is_finite()) => (0.0, 1.0),
            Self::Ratio | Self::Signed => {
                let most = low.abs().max(high.abs()).max(1e-9);
                (-most, most)
            }
            _ if low == high => (low - 0.5, high + 0.5),
            _ => (low, high),
        }
    }

    /// Ticks of the colour bar with their texts; empty where plotly's own will do.
    pub(crate) fn ticks(self, (low, high): (f64, f64)) -> (Vec<f64>, Vec<String>) {
        if matches!(self, Self::Linear | Self::Signed) {
            return (Vec::new(), Vec::new());
        }
        let factors: &[f64] = if high - low > 2.5 {
            &[1.0]
        } else if high - low > 1.0 {
            &[1.0, 3.0]
        } else if high - low > 0.4 {
            &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]
        } else {
            &[1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
        };
        let decades = low.floor() as i32..=high.ceil() as i32;
        let all = decades.flat_map(|decade| factors.iter().map(move |factor| factor * 10f64.powi(decade)));
        let inside = all.filter(|value| (low - 1e-9..=high + 1e-9).contains(&value.log10()));
        let text = |value: &f64| {
            // Three digits, and at least one decimal: or trimming zeros would shorten whole numbers.
            let decimals = (2 - value.log10().floor() as i32).max(1) as usize;
            let text = format!("{value:.decimals$}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        };
        let values: Vec<f64> = inside.collect();
        (values.iter().map(|value| value.log10()).collect(), values.iter().map(text).collect())
    }
}

/// A trace as plotly reads it.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Raw(pub Value);

impl plotly::Trace for Raw {
    fn to_json(&self) -> String {
        self.0.to_string()
    }
}

/// Text for hover: escaped, with line breaks.
fn lines(text: &str) -> String {
    label(text).replace('\n', "<br>")
}

impl Areas {
    /// What plotly draws.
    pub(crate) fn traces(&self) -> Vec<Raw> {
        let shading = self.shading;
        let numbers: Vec<f64> = self.values.iter().map(|&value| shading.number(value)).collect();
        let (low, high) = shading.ends(&self.values, self.range);
        let shade = |number: f64| {
            let place = ((number - low) / (high - low)).clamp(0.0, 1.0);
            number.is_finite().then_some((place * (SHADES - 1) as f64).round() as usize)
        };
        let mut traces = Vec::new();
        let mut outline = |which: &dyn Fn(usize) -> bool, fill: &str, line: &str, width: f64| {
            let (mut x, mut y): (Vec<Option<f64>>, Vec<Option<f64>>) = (Vec::new(), Vec::new());
            for (_, corners) in self.outlines.iter().enumerate().filter(|(i, _)| which(*i)) {
                for corner in corners.iter().chain(corners.first()) {
                    x.push(Some(rounded(corner.0)));
                    y.push(Some(rounded(corner.1)));
                }
                x.push(None);
                y.push(None);
            }
            if !x.is_empty() {
                traces.push(Raw(json!({
                    "type": "scatter", "mode": "lines", "x": x, "y": y, "fill": "toself", "fillcolor": fill,
                    "line": {"color": line, "width": width}, "hoverinfo": "skip", "showlegend": false,
                })));
            }
        };
        outline(&|i| shade(numbers[i]).is_none(), "rgba(128,128,128,0.12)", "rgba(128,128,128,0.7)", 0.7);
        for at in 0..SHADES {
            let colour = shading.colour(at as f64 / (SHADES - 1) as f64);
            outline(&|i| shade(numbers[i]) == Some(at), &colour, "rgba(128,128,128,0.45)", 0.5);
        }
        let middle = |pick: fn(&(f64, f64)) -> f64| -> Vec<f64> {
            let mean = |corners: &Vec<(f64, f64)>| corners.iter().map(pick).sum::<f64>() / corners.len().max(1) as f64;
            self.outlines.iter().map(|corners| rounded(mean(corners))).collect()
        };
        let (x, y) = (middle(|corner| corner.0), middle(|corner| corner.1));
        for (name, sign, which) in &self.marks {
            let (symbol, colour) = sign.of_plotly();
            let of = |values: &[f64]| which.iter().map(|&i| values[i]).collect::<Vec<f64>>();
            traces.push(Raw(json!({
                "type": "scatter", "mode": "markers", "x": of(&x), "y": of(&y), "name": label(name), "showlegend": true,
                "marker": {"symbol": symbol, "color": colour, "size": 10, "line": {"color": "#fff", "width": 1}},
                "hoverinfo": "skip",
            })));
        }
        let scale = shading.scale(24);
        let (ticks, texts) = shading.ticks((low, high));
        let mut bar = json!({"title": {"text": label(&self.unit), "side": "right"}, "thickness": 12, "len": 1});
        if !ticks.is_empty() {
            bar["tickvals"] = json!(ticks);
            bar["ticktext"] = json!(texts);
        }
        let hover: Vec<String> = self.hover.iter().map(|text| lines(text)).collect();
        // A point without a number has no colour, and would not be there to be pointed at.
        let colours: Vec<f64> = numbers.iter().map(|number| if number.is_finite() { *number } else { low }).collect();
        // JSON has no infinity.
        let values: Vec<_> =
            self.values.iter().map(|value| if value.is_infinite() { json!("∞") } else { json!(value) }).collect();
        traces.push(Raw(json!({
            "type": "scatter", "mode": "markers", "x": x, "y": y, "showlegend": false, "hovertext": hover,
            "hovertemplate": "%{hovertext}<extra></extra>", "customdata": self.keys,
            "meta": {"unit": self.unit, "values": values},
            "marker": {"size": 12, "opacity": 0, "color": colours, "colorscale": scale, "cmin": low, "cmax": high,
                "showscale": true, "colorbar": bar},
        })));
        traces
    }
}

/// To a hundredth: nobody sees more, and the page is smaller.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::{Areas, Shading, Sign};

    fn squares(values: Vec<f64>, shading: Shading) -> Areas {
        let square = |i: usize| {
            let x = i as f64;
            vec![(x, 0.0), (x + 1.0, 0.0), (x + 1.0, 1.0), (x, 1.0)]
        };
        Areas {
            outlines: (0..values.len()).map(square).collect(),
            hover: values.iter().map(|value| format!("<{value}>\nsecond")).collect(),
            values,
            unit: "hits".to_owned(),
            shading,
            ..Areas::default()
        }
    }

    #[test]
    fn every_area_is_drawn_and_can_be_pointed_at() {
        let mut areas = squares(vec![0.0, 1.0, 10.0, f64::NAN, 100.0], Shading::Log);
        areas.marks.push(("dead".to_owned(), Sign::Cross, vec![0, 3]));
        let traces = areas.traces();
        let drawn: usize = traces
            .iter()
            .filter(|trace| trace.0["fill"] == "toself")
            .map(|trace| trace.0["x"].as_array().unwrap().iter().filter(|x| x.is_null()).count())
            .sum();
        assert_eq!(drawn, 5);
        let points = &traces.last().unwrap().0;
        assert_eq!(points["hovertext"].as_array().unwrap().len(), 5);
        assert_eq!(points["hovertext"][1], "&lt;1&gt;<br>second");
        assert_eq!((&points["marker"]["cmin"], &points["marker"]["cmax"]), (&0.0.into(), &2.0.into()));
        assert_eq!(points["marker"]["colorbar"]["ticktext"], serde_json::json!(["1", "3", "10", "30", "100"]));
        let marks = traces.iter().find(|trace| trace.0["name"] == "dead").unwrap();
        assert_eq!(marks.0["x"], serde_json::json!([0.5, 3.5]));
    }

    #[test]
    fn ticks_of_a_logarithmic_bar_say_numbers_of_any_size() {
        assert_eq!(Shading::Log.ticks((-6.0, -3.0)).1, ["0.000001", "0.00001", "0.0001", "0.001"]);
        assert_eq!(Shading::Log.ticks((3.0, 6.0)).1, ["1000", "10000", "100000", "1000000"]);
        assert_eq!(Shading::Log.ticks((-5.0, -4.8)).1[..3], ["0.00001", "0.000011", "0.0000125"]);
    }

    #[test]
    fn a_ratio_to_nothing_is_drawn_as_the_largest_and_no_ratio_as_none() {
        let traces = squares(vec![f64::INFINITY, f64::NAN, 1.0], Shading::Ratio).traces();
        let drawn = |fill: &str| traces.iter().find(|trace| trace.0["fillcolor"] == fill).unwrap().0["x"][0].as_f64();
        assert_eq!(drawn(&Shading::Ratio.colour(1.0)), Some(0.0));
        assert_eq!(drawn("rgba(128,128,128,0.12)"), Some(1.0));
        assert_eq!(traces.last().unwrap().0["meta"]["values"], serde_json::json!(["∞", null, 1.0]));
    }

    #[test]
    fn a_ratio_of_one_gets_the_colour_in_the_middle() {
        let traces = squares(vec![0.5, 1.0, 4.0], Shading::Ratio).traces();
        let marker = &traces.last().unwrap().0["marker"];
        assert_eq!(marker["cmin"].as_f64().map(|low| -low), marker["cmax"].as_f64());
        assert!(squares(vec![], Shading::Linear).traces().len() == 1);
        assert!(squares(vec![3.0], Shading::Linear).traces().len() == 2);
    }
}
