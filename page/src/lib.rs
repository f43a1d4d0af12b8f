//! Self-contained HTML pages of text, tables and interactive charts.
//!
//! Plotly draws, and its script is part of the page: a page needs no network and no other file, follows the reader's
//! light or dark theme and the width of the window, and prints light. Every chart can be zoomed, read point by point, and
//! saved as PNG or SVG; an axis of amounts that does not begin at 0 says so; tables can be sorted by any column. A page
//! without a chart carries no script, and its tables stay as they are.
//!
//! ```
//! use chart_page::{Chart, Page};
//!
//! let mut page = Page::new("Squares");
//! page.text("Each number times itself.");
//! page.chart(&Chart::new("squares", "number", "square").line("n²", &[1.0, 2.0, 3.0], &[1.0, 4.0, 9.0]));
//! assert!(page.html().contains("<h1>Squares</h1>"));
//! ```

mod areas;
mod chart;
mod label;

use std::fmt::Write as _;

pub use areas::{Areas, Shading, Sign};
pub use chart::{Chart, Choices, Heat};
pub use label::label;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A page that grows from top to bottom. All text is plain: what would be markup is escaped.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    body: String,
    charts: Vec<String>,
}

impl Page {
    /// An empty page with a title.
    pub fn new(title: &str) -> Self {
        Self { title: title.to_owned(), body: String::new(), charts: Vec::new() }
    }

    /// A heading.
    pub fn heading(&mut self, text: &str) {
        let _ = writeln!(self.body, "<h2>{}</h2>", escaped(text));
    }

    /// A paragraph.
    pub fn text(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p>{}</p>", escaped(text));
    }

    /// A paragraph beside the point, such as how to read a chart.
    pub fn note(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p class=\"note\">{}</p>", escaped(text));
    }

    /// Names with their values, one a line.
    pub fn facts<N: AsRef<str>, V: AsRef<str>>(&mut self, facts: impl IntoIterator<Item = (N, V)>) {
        self.body += "<dl>\n";
        for (name, value) in facts {
            let _ = writeln!(self.body, "<dt>{}</dt><dd>{}</dd>", escaped(name.as_ref()), escaped(value.as_ref()));
        }
        self.body += "</dl>\n";
    }

    /// A table that scrolls where it is long. A row that is marked stands out.
    pub fn table(&mut self, head: &[String], rows: impl IntoIterator<Item = (bool, Vec<String>)>) {
        self.named_table("", head, rows);
    }

    /// A table with a name for those who hear it.
    pub fn named_table(&mut self, name: &str, head: &[String], rows: impl IntoIterator<Item = (bool, Vec<String>)>) {
        let name = if name.is_empty() { head.join(", ") } else { name.to_owned() };
        let _ = write!(
            self.body,
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\"><table>\n<thead><tr>",
            escaped(&name)
        );
        for name in head {
            let _ = write!(self.body, "<th scope=\"col\">{}</th>", escaped(name));
        }
        self.body += "</tr></thead>\n<tbody>\n";
        for (marked, row) in rows {
            self.body += if marked { "<tr class=\"marked\">" } else { "<tr>" };
            for cell in row {
                let number = cell.starts_with(|c: char| c.is_ascii_digit() || "+-−.".contains(c));
                let class = if number { " class=\"n\"" } else { "" };
                let _ = write!(self.body, "<td{class}>{}</td>", escaped(&cell));
            }
            self.body += "</tr>\n";
        }
        self.body += "</tbody></table></div>\n";
    }

    /// A chart over the whole width.
    pub fn chart(&mut self, chart: &Chart) {
        self.charts(std::slice::from_ref(chart));
    }

    /// Charts side by side, as many as fit.
    pub fn charts(&mut self, charts: &[Chart]) {
        self.grid(charts, if charts.len() > 1 { "charts small" } else { "charts" });
    }

    /// Large charts, two side by side where they fit.
    pub fn large_charts(&mut self, charts: &[Chart]) {
        self.grid(charts, "charts large");
    }

    fn grid(&mut self, charts: &[Chart], class: &str) {
        let _ = writeln!(self.body, "<div class=\"{class}\">");
        for chart in charts {
            let number = self.charts.len();
            let _ = writeln!(
                self.body,
                "<div class=\"chart\"><figure id=\"chart-{number}\" role=\"img\" data-name=\"{}\" aria-label=\"{}\" \
                 style=\"height:{}\"></figure></div>",
                escaped(&chart.name),
                escaped(if chart.description.is_empty() { &chart.name } else { &chart.description }),
                chart.css_height()
            );
            self.charts.push(chart.json());
        }
        self.body += "</div>\n";
    }

    /// What comes until [`Self::end_details`] is folded away under a line that unfolds it.
    pub fn begin_details(&mut self, summary: &str) {
        let _ = writeln!(self.body, "<details><summary>{}</summary>", escaped(summary));
    }

    /// Ends what [`Self::begin_details`] began.
    pub fn end_details(&mut self) {
        self.body += "</details>\n";
    }

    /// The page, UTF-8.
    pub fn html(&self) -> String {
        let title = escaped(&self.title);
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <meta name=\"color-scheme\" content=\"light dark\"><title>{title}</title>\n<style>\n{STYLE}</style></head><body>\n\
             <h1>{title}</h1>\n{}",
            self.body
        );
        if !self.charts.is_empty() {
            page += "<noscript><p>The charts of this page need JavaScript.</p></noscript>\n";
            for (number, chart) in self.charts.iter().enumerate() {
                // Only strings hold a `<`, and none may end the script element, or begin one in a comment.
                let data = chart.replace('<', "\\u003c");
                let _ = writeln!(page, "<script type=\"application/json\" id=\"data-{number}\">{data}</script>");
            }
            let _ = write!(page, "<script>{}</script>\n<script>\n{SCRIPT}</script>\n", plotly_script());
        }
        page + "</body></html>\n"
    }
}

/// The source of plotly.js, as the crate carries it; the typesetting of formulas, which comes with it, is left out.
fn plotly_script() -> String {
    let all = plotly::Plot::offline_js_sources();
    let from = all.find('>').map_or(0, |end| end + 1);
    let to = all.find("</script>").unwrap_or(all.len());
    all[from..to].to_owned()
}

/// Text with what HTML would take as markup escaped.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            // Characters that a page must not have.
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        let hostile = "<!--<script></script><script>alert(1)</script> & \"x\" \u{1b}[1m";
        let mut page = Page::new(hostile);
        page.heading(hostile);
        page.text(hostile);
        page.facts([(hostile, hostile)]);
        page.table(&[hostile.to_owned()], [(true, vec![hostile.to_owned()])]);
        let html = page.html();
        assert!(!html.contains("<script") && !html.contains('\u{1b}'), "{html}");
        page.chart(&Chart::new(hostile, hostile, hostile).points(hostile, &[1.0], &[1.0], &[hostile.to_owned()]));
        let html = page.html();
        let data = html.split("id=\"data-0\">").nth(1).and_then(|rest| rest.split("</script>").next()).unwrap();
        assert!(data.contains("alert(1)") && !data.contains('<'), "{data}");
        // The data may be any text, too.
        page.chart(&Chart::new("", "", ""));
        page.charts[1] = serde_json::to_string(hostile).unwrap();
        let html = page.html();
        let data = html.split("id=\"data-1\">").nth(1).and_then(|rest| rest.split("</script>").next()).unwrap();
        assert!(data.contains("\\u003c!--\\u003cscript>") && !data.contains('<'), "{data}");
    }

    #[test]
    fn a_page_needs_nothing_else_and_is_small_without_a_chart() {
        let mut page = Page::new("t");
        page.text("nothing to draw");
        let small = page.html();
        assert!(small.len() < 10_000, "{}", small.len());
        for reference in ["src=", "href=", "url(", "@import", "http"] {
            assert!(!small.contains(reference), "{reference}");
        }
        page.chart(&Chart::new("c", "x", "y").line("l", &[1.0, 2.0], &[3.0, 4.0]));
        let html = page.html();
        let body = &html[..html.find("<script>").unwrap()];
        for reference in ["src=", "href=", "url(", "@import", "http"] {
            assert!(!body.contains(reference), "{reference}");
        }
        assert!(html.contains("plotly.js v") && html.len() < 5_500_000, "{} bytes", html.len());
    }
}
