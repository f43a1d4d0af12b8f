//! Pictures as SVG text: axes, lines, dots, bars, cells.

use std::fmt::Write as _;

/// Text that may stand in HTML and in attributes.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            // XML knows no other control characters.
            c if c.is_control() && c != '\n' && c != '\t' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// A number with as many digits as it deserves.
pub(super) fn short(x: f64) -> String {
    let size = x.abs();
    if x == 0.0 {
        "0".to_owned()
    } else if !x.is_finite() {
        "–".to_owned()
    } else if !(1e-3..1e5).contains(&size) {
        format!("{x:.2e}")
    } else {
        let digits = (2 - size.log10().floor() as i32).clamp(0, 5) as usize;
        let text = format!("{x:.digits$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    }
}

/// A scale from values to pixels.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
}

impl Scale {
    /// A scale that shows `low` at pixel `from` and `high` at `to`. Logarithmic where asked for and possible.
    pub(super) fn new(low: f64, high: f64, from: f64, to: f64, log: bool) -> Self {
        let log = log && low > 0.0;
        let (mut low, mut high) = if log { (low.ln(), high.ln()) } else { (low, high) };
        if !(low.is_finite() && high.is_finite()) {
            (low, high) = (0.0, 1.0);
        }
        if high - low <= 1e-12 * high.abs().max(1.0) {
            let pad = if log { 0.05 } else { high.abs().max(1.0) * 0.05 };
            (low, high) = (low - pad, high + pad);
        }
        Self { low, high, from, to, log }
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        let value = if self.log { value.max(1e-300).ln() } else { value };
        let share = ((value - self.low) / (self.high - self.low)).clamp(-0.02, 1.02);
        self.from + share * (self.to - self.from)
    }

    /// About five values that look round.
    fn ticks(&self) -> Vec<f64> {
        let (low, high) = if self.log { (self.low.exp(), self.high.exp()) } else { (self.low, self.high) };
        if self.log && high / low > 6.0 {
            let mut ticks = Vec::new();
            for decade in low.log10().floor() as i32..=high.log10().ceil() as i32 {
                let steps: &[f64] = if high / low > 1e3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
                ticks.extend(steps.iter().map(|step| step * 10_f64.powi(decade)));
            }
            ticks.retain(|tick| (low..=high).contains(tick));
            return ticks;
        }
        let raw = (high - low) / 4.0;
        let unit = 10_f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|s| s * unit).find(|s| *s >= raw).unwrap_or(raw);
        let first = (low / step).ceil() as i64;
        (first..first + 12).map(|i| i as f64 * step).filter(|tick| *tick <= high).collect()
    }
}

/// A picture under construction.
pub(super) struct Picture {
    text: String,
}

impl Picture {
    pub(super) fn new(width: f64, height: f64, title: &str) -> Self {
        let title = escape(title);
        let text = format!(
            "<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{title}\">"
        );
        Self { text }
    }

    pub(super) fn finish(mut self) -> String {
        self.text += "</svg>";
        self.text
    }

    fn put(&mut self, what: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.text.write_fmt(what);
    }

    pub(super) fn words(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.put(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{}</text>", escape(text)));
    }

    /// Words that read upwards.
    pub(super) fn upwards(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.put(format_args!(
            "<text transform=\"translate({x:.1} {y:.1}) rotate(-90)\" class=\"{class}\">{}</text>",
            escape(text)
        ));
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        self.put(format_args!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" class=\"{class}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    pub(super) fn path(&mut self, points: &[(f64, f64)], class: &str) {
        if points.is_empty() {
            return;
        }
        self.put(format_args!("<polyline class=\"{class}\" points=\""));
        for (x, y) in points {
            self.put(format_args!("{x:.1},{y:.1} "));
        }
        self.put(format_args!("\"/>"));
    }

    pub(super) fn dot(&mut self, x: f64, y: f64, class: &str, tip: &str) {
        self.put(format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" class=\"{class}\">"));
        self.put(format_args!("<title>{}</title></circle>", escape(tip)));
    }

    pub(super) fn cell(&mut self, x: f64, y: f64, width: f64, height: f64, fill: &str, tip: &str) {
        self.put(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\">"
        ));
        self.put(format_args!("<title>{}</title></rect>", escape(tip)));
    }

    /// Ticks and lines of a horizontal scale below `bottom`, up to `top`.
    pub(super) fn x_axis(&mut self, scale: &Scale, top: f64, bottom: f64, name: &str) {
        for tick in scale.ticks() {
            let x = scale.at(tick);
            self.line((x, top), (x, bottom), "grid");
            self.words(x, bottom + 15.0, "tick mid", &short(tick));
        }
        self.line((scale.from, bottom), (scale.to, bottom), "axis");
        self.words(f64::midpoint(scale.from, scale.to), bottom + 32.0, "name mid", name);
    }

    /// Ticks and lines of a vertical scale left of `left`, up to `right`.
    pub(super) fn y_axis(&mut self, scale: &Scale, left: f64, right: f64, name: &str) {
        for tick in scale.ticks() {
            let y = scale.at(tick);
            self.line((left, y), (right, y), "grid");
            self.words(left - 6.0, y + 4.0, "tick end", &short(tick));
        }
        self.line((left, scale.from), (left, scale.to), "axis");
        self.upwards(left - 52.0, f64::midpoint(scale.from, scale.to), "name mid", name);
    }
}

/// Colours from dark (0, good) to bright (1, bad), even in lightness so that they survive a grey print.
pub(super) fn colour(share: f64) -> String {
    const STOPS: [[f64; 3]; 5] =
        [[68.0, 1.0, 84.0], [59.0, 82.0, 139.0], [33.0, 145.0, 140.0], [94.0, 201.0, 98.0], [253.0, 231.0, 37.0]];
    let place = if share.is_finite() { share.clamp(0.0, 1.0) } else { 1.0 } * 4.0;
    let i = (place as usize).min(3);
    let part = place - i as f64;
    let mix = |c: usize| (STOPS[i][c] + part * (STOPS[i + 1][c] - STOPS[i][c])).round() as u8;
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_can_leave_its_place() {
        assert_eq!(escape("<b a=\"x\" b='y'>&\u{0}"), "&lt;b a=&quot;x&quot; b=&#39;y&#39;&gt;&amp;\u{fffd}");
    }

    #[test]
    fn numbers_are_short_and_colours_stay_in_range() {
        for (x, text) in
            [(0.0, "0"), (1.0, "1"), (0.5, "0.5"), (123.456, "123"), (1234567.0, "1.23e6"), (0.0123, "0.0123")]
        {
            assert_eq!(short(x), text);
        }
        assert_eq!((colour(0.0).as_str(), colour(1.0).as_str()), ("#440154", "#fde725"));
        assert_eq!(colour(f64::NAN), colour(2.0));
    }

    #[test]
    fn scales_of_one_value_or_none_still_have_ticks() {
        for (low, high) in [(1.0, 1.0), (0.0, 0.0), (f64::INFINITY, f64::NEG_INFINITY), (1e-9, 1e9), (-1.0, 1.0)] {
            for log in [false, true] {
                let scale = Scale::new(low, high, 0.0, 100.0, log);
                assert!(!scale.ticks().is_empty() && scale.ticks().len() < 60, "{low} {high} {log}");
                assert!([-1.0, 0.0, 1.0, 1e9].iter().all(|value| scale.at(*value).is_finite()), "{low} {high} {log}");
            }
        }
    }
}
