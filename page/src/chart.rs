//! One chart: what it shows over which axes.

use std::io::Write as _;

use serde::Serialize;
use serde_json::{Value, json};

use crate::png::base64;
use crate::shading::{Shading, extent};

/// A chart. Values that are not finite are gaps.
#[derive(Clone, Debug)]
pub struct Chart {
    pub(crate) name: String,
    pub(crate) height: u32,
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) from_zero: bool,
    pub(crate) series: Vec<Series>,
    pub(crate) areas: Option<Areas>,
    pub(crate) heat: Option<Heat>,
    pub(crate) choices: Option<Choices>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Axis {
    pub title: String,
    pub log: bool,
    /// Names of the places 0 to 1, 1 to 2 and so on; empty for numbers.
    pub names: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Look {
    Line,
    /// `x` are the edges, one more than values.
    Bins,
    Points,
    Bars,
    Intervals,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Series {
    pub name: String,
    pub look: Look,
    pub x: Vec<f64>,
    pub y: Vec<f64>,
    /// Finite ends of intervals, one for each value; or empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub low: Vec<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub high: Vec<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hover: Vec<String>,
}

/// Histograms of which the reader chooses one, over the edges of the chart's first series.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// Text next to the box.
    pub label: String,
    /// Keys, of which the first is drawn: the page [names](crate::Page::name_keys) them, and a
    /// click on the [area](Areas::first_key) chooses them.
    pub keys: Vec<u64>,
    /// Number of keys, from the first, whose names get a ▲. A key may be repeated after them.
    pub marked: usize,
    /// Values of the bins, by key; missing ones are 0. From 64 on they are rounded, by at most a
    /// quarter of their chance error.
    pub values: Vec<Vec<u64>>,
}

/// A map of areas of any outline in their true proportions.
#[derive(Clone, Debug, Default)]
pub struct Areas {
    /// Corners (x, y) of each area, in turn.
    pub outlines: Vec<Vec<(f64, f64)>>,
    /// Value of each area; not a number where there is none.
    pub values: Vec<f64>,
    /// Text for the area under the pointer; `\n` begins a new line. Empty for its value.
    pub hover: Vec<String>,
    /// Unit of the values.
    pub unit: String,
    /// Rule by which values become colours.
    pub shading: Shading,
    /// Values at the ends of the colours; by default the smallest and the largest value.
    pub range: Option<(f64, f64)>,
    /// Groups of areas that stand out: a name, a sign, and indices of areas.
    pub marks: Vec<(String, Sign, Vec<usize>)>,
    /// Number of points for which the map has room, in addition to the areas.
    pub room: Vec<(f64, f64)>,
    /// Key of the first area; the other areas have the keys that follow:
    /// [names](crate::Page::name_keys) and [choices](Choices::keys) use it.
    pub first_key: u64,
    /// Name and number of the areas in turn that share a key, such as the chips of a sector; `None`
    /// if each has its own.
    pub parts: Option<(&'static str, usize)>,
    /// Names of the left and of the right side of the map, which is seen from behind: x grows to
    /// the left.
    pub sides: [&'static str; 2],
}

impl Areas {
    /// Middle of each area, to a whole number where the map is large.
    pub(crate) fn middles(&self) -> Vec<(f64, f64)> {
        let (low, high) = extent(self.outlines.iter().flatten().map(|corner| corner.0));
        let whole = |value: f64| {
            if high - low > 500.0 {
                value.round()
            } else {
                rounded(value)
            }
        };
        let middle = |corners: &Vec<(f64, f64)>| {
            let n = corners.len().max(1) as f64;
            let (x, y) = corners.iter().fold((0.0, 0.0), |sum, corner| {
                (sum.0 + corner.0, sum.1 + corner.1)
            });
            (whole(x / n), whole(y / n))
        };
        self.outlines.iter().map(middle).collect()
    }
}

/// Sign in the middle of an area that stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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

/// A heat map: names of columns and rows, and for each row its values.
#[derive(Clone, Debug, Default)]
pub struct Heat {
    /// Names of the columns, from the left.
    pub columns: Vec<String>,
    /// Names of the rows, from the bottom.
    pub rows: Vec<String>,
    /// `values[row][column]`; not a number where there is none.
    pub values: Vec<Vec<f64>>,
    /// Text for the cell under the pointer. Empty for its row, column and value.
    pub hover: Vec<Vec<String>>,
    /// Unit of the values.
    pub unit: String,
    /// Rule by which values become colours.
    pub shading: Shading,
    /// Values at the ends of the colours; by default the smallest and the largest value.
    pub range: Option<(f64, f64)>,
}

/// Rounds to six digits: more cannot be seen, and the page is smaller.
pub(crate) fn rounded(value: f64) -> f64 {
    to_digits::<5>(value)
}

/// Rounds to a digit and `N` decimals of the scientific notation.
fn to_digits<const N: usize>(value: f64) -> f64 {
    if value.fract() == 0.0 {
        value
    } else {
        format!("{value:.N$e}").parse().unwrap_or(value)
    }
}

impl Chart {
    /// Makes an empty chart of `y` over `x`. `name`: read aloud, and the file's when a
    /// reader saves it.
    pub fn new(name: &str, x: &str, y: &str) -> Self {
        let axis = |title: &str| Axis {
            title: title.to_owned(),
            ..Axis::default()
        };
        Self {
            name: name.to_owned(),
            height: 380,
            title: String::new(),
            x: axis(x),
            y: axis(y),
            from_zero: false,
            series: Vec::new(),
            areas: None,
            heat: None,
            choices: None,
        }
    }

    /// Adds a box in which the reader chooses what the first series shows.
    #[must_use]
    pub fn choices(mut self, choices: Choices) -> Self {
        self.choices = Some(choices);
        self
    }

    /// Draws a map, with the same scale on both axes.
    #[must_use]
    pub fn areas(mut self, areas: Areas) -> Self {
        self.areas = Some(areas);
        self
    }

    /// Draws a heat map.
    #[must_use]
    pub fn heat_map(mut self, heat: Heat) -> Self {
        (self.x.names, self.y.names) = (heat.columns.clone(), heat.rows.clone());
        self.heat = Some(heat);
        self
    }

    /// Sets the title.
    #[must_use]
    pub fn title(mut self, title: &str) -> Self {
        title.clone_into(&mut self.title);
        self
    }

    /// Sets the height, in CSS pixels.
    #[must_use]
    pub fn height(mut self, pixels: u32) -> Self {
        self.height = pixels;
        self
    }

    /// Makes the y axis begin at 0, however far the values are from it.
    #[must_use]
    pub fn from_zero(mut self) -> Self {
        self.from_zero = true;
        self
    }

    /// Makes the y axis logarithmic.
    #[must_use]
    pub fn log_y(mut self) -> Self {
        self.y.log = true;
        self
    }

    fn with(mut self, name: &str, look: Look, x: &[f64], y: &[f64]) -> Self {
        let [x, y] = [x, y].map(|numbers| numbers.iter().copied().map(rounded).collect());
        let (low, high, hover) = (Vec::new(), Vec::new(), Vec::new());
        self.series.push(Series {
            name: name.to_owned(),
            look,
            x,
            y,
            low,
            high,
            hover,
        });
        self
    }

    /// Draws a line through points.
    #[must_use]
    pub fn line(self, name: &str, x: &[f64], y: &[f64]) -> Self {
        self.with(name, Look::Line, x, y)
    }

    /// Draws a histogram as a line: a value for each bin, whose edges are one more.
    #[must_use]
    pub fn bins(self, name: &str, edges: &[f64], values: &[f64]) -> Self {
        self.with(name, Look::Bins, edges, values)
    }

    /// Draws points, each with the text for the pointer on it.
    #[must_use]
    pub fn points(self, name: &str, x: &[f64], y: &[f64], hover: &[String]) -> Self {
        let mut chart = self.with(name, Look::Points, x, y);
        chart
            .series
            .iter_mut()
            .rev()
            .take(1)
            .for_each(|series| series.hover = hover.to_vec());
        chart
    }

    /// Draws a line through named places.
    #[must_use]
    pub fn named(mut self, name: &str, places: &[String], y: &[f64]) -> Self {
        let x: Vec<f64> = (0..places.len()).map(|place| place as f64 + 0.5).collect();
        self.x.names = places.to_vec();
        self.with(name, Look::Line, &x, y)
    }

    /// Draws horizontal bars, from the top, each with its name.
    #[must_use]
    pub fn lying_bars(self, name: &str, names: &[String], values: &[f64]) -> Self {
        self.lie(name, Look::Bars, names, values)
    }

    /// Draws horizontal intervals, from the top, each with its name. An end that is infinite is
    /// drawn to the end of the others.
    #[must_use]
    pub fn intervals(
        self,
        name: &str,
        names: &[String],
        values: &[f64],
        low: &[f64],
        high: &[f64],
    ) -> Self {
        let (first, last) = extent([values, low, high].into_iter().flatten().copied());
        let end = |(end, value): (&f64, &f64)| {
            if end.is_nan() {
                *value
            } else {
                end.clamp(first, last.max(first))
            }
        };
        let ends = [low, high].map(|ends| ends.iter().zip(values).map(end).map(rounded).collect());
        let mut chart = self.lie(name, Look::Intervals, names, values);
        chart
            .series
            .iter_mut()
            .rev()
            .take(1)
            .for_each(|series| [series.low, series.high] = ends.clone());
        chart
    }

    fn lie(mut self, name: &str, look: Look, names: &[String], values: &[f64]) -> Self {
        self.y.names = names.iter().rev().cloned().collect();
        let y: Vec<f64> = (0..names.len())
            .rev()
            .map(|place| place as f64 + 0.5)
            .collect();
        self.with(name, look, values, &y)
    }

    /// Returns true if places are on the y axis and amounts on the x axis.
    pub(crate) fn lies(&self) -> bool {
        self.heat.is_none() && !self.y.names.is_empty()
    }

    /// Data of the chart for the page's script: `frames` are the places of its axes in each of its
    /// pictures.
    pub(crate) fn json(&self, frames: &[Value]) -> String {
        let mut all = json!({
            "title": self.title, "x": self.x.title, "y": self.y.title, "series": self.series, "lies": self.lies(),
            "names": {"x": self.x.names, "y": self.y.names}, "frames": frames,
        });
        if let Some(
            areas @ Areas {
                values,
                hover,
                unit,
                shading,
                range,
                marks,
                first_key,
                parts,
                ..
            },
        ) = &self.areas
        {
            // JSON has no infinity.
            let number = |value: &f64| {
                if value.is_infinite() {
                    json!("∞")
                } else {
                    json!(to_digits::<3>(*value))
                }
            };
            let marks: Vec<Value> = marks
                .iter()
                .map(|(name, _, which)| json!({"name": name, "which": which}))
                .collect();
            all["map"] = json!({
                "unit": unit, "values": values.iter().map(number).collect::<Vec<_>>(), "hover": hover, "key": first_key, "parts": parts,
                "at": areas.middles(), "ends": shading.ends(values, *range), "marks": marks,
            });
        }
        if let Some(Heat {
            values,
            hover,
            unit,
            ..
        }) = &self.heat
        {
            let values: Vec<Vec<f64>> = values
                .iter()
                .map(|row| row.iter().copied().map(rounded).collect())
                .collect();
            all["heat"] = json!({"unit": unit, "values": values, "hover": hover});
        }
        if let Some(Choices {
            label,
            keys,
            marked,
            values,
        }) = &self.choices
        {
            let bins = self.series.first().map_or(0, |series| series.y.len());
            let row = |row: &Vec<u64>| {
                row.iter()
                    .copied()
                    .chain(std::iter::repeat(0))
                    .take(bins)
                    .collect()
            };
            let rows: Vec<Vec<u64>> = values.iter().map(row).collect();
            all["choices"] =
                json!({"label": label, "keys": keys, "marked": marked, "bins": packed(&rows)});
        }
        all.to_string()
    }
}

/// Rounds a count to a power of two that is at most half of its chance error.
fn in_short(number: u64) -> u32 {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    let surplus = number
        .checked_ilog2()
        .map_or(0, |digits| (digits / 2).saturating_sub(1));
    if number < 64 {
        number
    } else {
        number.saturating_add(1 << surplus >> 1) >> surplus << surplus
    }
}

/// Writes numbers as text: the lowest byte of each, then the next one of each, four in all; then
/// raw DEFLATE and base64.
fn packed(rows: &[Vec<u64>]) -> String {
    let numbers: Vec<u32> = rows
        .iter()
        .flatten()
        .map(|&number| in_short(number))
        .collect();
    let bytes: Vec<u8> = (0..4)
        .flat_map(|byte| numbers.iter().map(move |number| number.to_le_bytes()[byte]))
        .collect();
    let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    // Writing to memory cannot fail.
    let _ = deflate.write_all(&bytes);
    base64(&deflate.finish().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::in_short;

    #[test]
    fn counts_are_rounded_by_at_most_a_quarter_of_their_statistical_error() {
        for n in (0..10_000).chain([1 << 31, u64::from(u32::MAX)]) {
            let away = n.abs_diff(in_short(n).into());
            assert!(away as f64 <= (n as f64).sqrt() / 4.0, "{n}");
            assert!(n >= 64 || away == 0, "{n}");
        }
    }
}
