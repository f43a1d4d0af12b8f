//! Self-contained HTML pages of text, tables and interactive charts.
//!
//! A page needs no network and no other file, follows the reader's theme and the width of the
//! window, and prints light. Every chart can be zoomed, read point by point, shown as a table, and
//! saved as PNG or SVG; an axis of amounts that does not begin at 0 says so. Tables can be sorted
//! by any column. A page without a chart carries no script.
//!
//! Plotters draws the charts as SVG when the page is written; a script shows numbers under the
//! pointer. Plotters costs three packages, 2 s of compiling and nothing in the page; Plotly 47
//! packages and 4.6 MB of script a page; charming 53 packages with a JavaScript engine; kuva 77 000
//! lines and 14 s of compiling; charts-rs has no areas.
//!
//! ```
//! use chart_page::{Chart, Page};
//!
//! let mut page = Page::new("Squares");
//! page.text("Each number times itself.");
//! page.chart(&Chart::new("squares", "number", "square").line("n²", &[1.0, 2.0, 3.0], &[1.0, 4.0, 9.0]));
//! assert!(page.html().contains("<h1>Squares</h1>"));
//! ```

mod chart;
mod draw;
mod png;
mod shading;

use std::collections::BTreeMap;
use std::fmt::Write as _;

pub use chart::{Areas, Chart, Choices, Heat, Sign};
pub use shading::Shading;

/// Maximum number of rows of a table to show unfolded.
const SHORT: usize = 20;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A page that grows from top to bottom. All text is plain: what would be markup is escaped.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    body: String,
    /// Data of the charts for the script.
    charts: Vec<String>,
    keys: BTreeMap<u64, String>,
}

impl Page {
    /// Makes an empty page with a title.
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            body: String::new(),
            charts: Vec::new(),
            keys: BTreeMap::new(),
        }
    }

    /// Adds a heading.
    pub fn heading(&mut self, text: &str) {
        let _ = writeln!(self.body, "<h2>{}</h2>", escaped(text));
    }

    /// Adds a paragraph.
    pub fn text(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p>{}</p>", escaped(text));
    }

    /// Adds a paragraph of remarks, such as how to read a chart.
    pub fn note(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p class=\"note\">{}</p>", escaped(text));
    }

    /// Adds names with their values, one per line.
    pub fn facts<N: AsRef<str>, V: AsRef<str>>(&mut self, facts: impl IntoIterator<Item = (N, V)>) {
        self.body += "<dl>\n";
        for (name, value) in facts {
            let _ = writeln!(
                self.body,
                "<dt>{}</dt><dd>{}</dd>",
                escaped(name.as_ref()),
                escaped(value.as_ref())
            );
        }
        self.body += "</dl>\n";
    }

    /// Adds a table, which scrolls where it is long. A row that is marked stands out.
    pub fn table(&mut self, head: &[String], rows: impl IntoIterator<Item = (bool, Vec<String>)>) {
        self.named_table("", head, rows);
    }

    /// Adds a table with a name, which screen readers announce.
    pub fn named_table(
        &mut self,
        name: &str,
        head: &[String],
        rows: impl IntoIterator<Item = (bool, Vec<String>)>,
    ) {
        let name = if name.is_empty() {
            head.join(", ")
        } else {
            name.to_owned()
        };
        let _ = write!(
            self.body,
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\"><table>",
            escaped(&name)
        );
        self.rows(head, rows, false);
        self.body += "</div>\n";
    }

    /// Adds a table of a few rows, which is shown whole; on a narrow screen, each row is a few
    /// lines.
    pub fn short_table(
        &mut self,
        name: &str,
        head: &[String],
        rows: impl IntoIterator<Item = (bool, Vec<String>)>,
    ) {
        let _ = write!(
            self.body,
            "<table class=\"short\" aria-label=\"{}\">",
            escaped(name)
        );
        self.rows(head, rows, true);
    }

    /// Adds a table that is folded away under its name.
    pub fn folded_table(
        &mut self,
        name: &str,
        head: &[String],
        rows: impl IntoIterator<Item = (bool, Vec<String>)>,
    ) {
        self.begin_details(&format!("{name}, as a table"));
        self.named_table(name, head, rows);
        self.end_details();
    }

    /// Adds a table whose first rows are shown; if there are many, all rows follow, folded away.
    pub fn long_table(&mut self, name: &str, head: &[String], rows: Vec<(bool, Vec<String>)>) {
        self.short_table(name, head, rows.iter().take(SHORT).cloned());
        if rows.len() > SHORT {
            self.folded_table(&format!("{name}: all {}", rows.len()), head, rows);
        }
    }

    /// Writes the rows of a table, in each cell of a short one its heading, and the table's end.
    fn rows(
        &mut self,
        head: &[String],
        rows: impl IntoIterator<Item = (bool, Vec<String>)>,
        short: bool,
    ) {
        self.body += "\n<thead><tr>";
        for name in head {
            let _ = write!(self.body, "<th scope=\"col\">{}</th>", escaped(name));
        }
        self.body += "</tr></thead>\n<tbody>\n";
        for (marked, row) in rows {
            self.body += if marked {
                "<tr class=\"marked\">"
            } else {
                "<tr>"
            };
            for (cell, head) in row.iter().zip(head) {
                let number = cell.starts_with(|c: char| c.is_ascii_digit() || "+-−.".contains(c));
                let class = if number { " class=\"n\"" } else { "" };
                let head = if short {
                    format!(" data-head=\"{}\"", escaped(head))
                } else {
                    String::new()
                };
                let _ = write!(self.body, "<td{class}{head}>{}</td>", escaped(cell));
            }
            self.body += "</tr>\n";
        }
        self.body += "</tbody></table>\n";
    }

    /// Adds a chart over the whole width.
    pub fn chart(&mut self, chart: &Chart) {
        self.charts(std::slice::from_ref(chart));
    }

    /// Charts side by side, as many as fit.
    pub fn charts(&mut self, charts: &[Chart]) {
        if charts.len() > 1 {
            self.grid(charts, "charts small", &[("", 380, 12)]);
        } else {
            self.grid(
                charts,
                "charts",
                &[(" class=\"wide\"", 960, 13), (" class=\"narrow\"", 380, 12)],
            );
        }
    }

    /// Large charts, two side by side where they fit.
    pub fn large_charts(&mut self, charts: &[Chart]) {
        self.grid(charts, "charts large", &[("", 520, 15)]);
    }

    /// Charts in rows of three, one below the other on a narrow screen.
    pub fn charts_in_threes(&mut self, charts: &[Chart]) {
        self.grid(charts, "charts three", &[("", 380, 12)]);
    }

    /// Names the [keys](Areas::first_key) of areas, once for all maps of the page; `\n` begins a
    /// new line in the label.
    pub fn name_keys(&mut self, names: impl IntoIterator<Item = (u64, String)>) {
        self.keys.extend(names);
    }

    /// Charts, each as pictures of these classes, widths and sizes of text.
    fn grid(&mut self, charts: &[Chart], class: &str, pictures: &[(&str, u32, u32)]) {
        let _ = writeln!(self.body, "<div class=\"{class}\">");
        for chart in charts {
            let number = self.charts.len();
            let _ = writeln!(
                self.body,
                "<div class=\"chart\"><figure id=\"chart-{number}\" role=\"img\" aria-label=\"{}\">",
                escaped(&chart.name),
            );
            let draw = |&(class, width, font): &(&str, u32, u32)| {
                let (svg, frame) = draw::draw(chart, width, font);
                self.body += &svg.replacen("<svg", &format!("<svg{class}"), 1);
                frame
            };
            let frames: Vec<_> = pictures.iter().map(draw).collect();
            self.body += "</figure></div>\n";
            self.charts.push(chart.json(&frames));
        }
        self.body += "</div>\n";
    }

    /// Folds all that follows, until [`Self::end_details`], away under a line that unfolds it.
    pub fn begin_details(&mut self, summary: &str) {
        let _ = writeln!(
            self.body,
            "<details><summary>{}</summary>",
            escaped(summary)
        );
    }

    /// Closes the section that [`Self::begin_details`] opened.
    pub fn end_details(&mut self) {
        self.body += "</details>\n";
    }

    /// Returns the page, in UTF-8.
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
            let keys = serde_json::to_string(&self.keys).unwrap_or_default();
            let data = self
                .charts
                .iter()
                .enumerate()
                .map(|(number, chart)| (format!("data-{number}"), chart));
            for (id, data) in data.chain([("keys".to_owned(), &keys)]) {
                // Only strings hold a `<`, and none may end the script element, or begin one in a
                // comment.
                let data = data.replace('<', "\\u003c");
                let _ = writeln!(
                    page,
                    "<script type=\"application/json\" id=\"{id}\">{data}</script>"
                );
            }
            let _ = writeln!(page, "<script>\n{SCRIPT}</script>");
        }
        page + "</body></html>\n"
    }
}

/// Escapes the characters that HTML would take as markup.
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
        assert!(
            !html.contains("<script") && !html.contains('\u{1b}'),
            "{html}"
        );
        page.chart(&Chart::new(hostile, hostile, hostile).points(
            hostile,
            &[1.0],
            &[1.0],
            &[hostile.to_owned()],
        ));
        let html = page.html();
        let data = html
            .split("id=\"data-0\">")
            .nth(1)
            .and_then(|rest| rest.split("</script>").next())
            .unwrap();
        assert!(data.contains("alert(1)") && !data.contains('<'), "{data}");
        // The data may be any text, too.
        page.chart(&Chart::new("", "", ""));
        page.charts[1] = serde_json::to_string(hostile).unwrap();
        let html = page.html();
        let data = html
            .split("id=\"data-1\">")
            .nth(1)
            .and_then(|rest| rest.split("</script>").next())
            .unwrap();
        assert!(
            data.contains("\\u003c!--\\u003cscript>") && !data.contains('<'),
            "{data}"
        );
    }

    #[test]
    fn a_page_is_self_contained_and_small_without_a_chart() {
        let mut page = Page::new("t");
        page.text("nothing to draw");
        let small = page.html();
        assert!(small.len() < 10_000, "{}", small.len());
        for reference in ["src=", "href=", "url(", "@import", "http"] {
            assert!(!small.contains(reference), "{reference}");
        }
        page.chart(&Chart::new("c", "x", "y").line("l", &[1.0, 2.0], &[3.0, 4.0]));
        let html = page.html();
        let body = html[..html.find("<script").unwrap()]
            .replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for reference in ["src=", "href=", "url(", "@import", "http"] {
            assert!(!body.contains(reference), "{reference}");
        }
        assert!(
            html.contains("<polyline") && html.len() < 50_000,
            "{} bytes",
            html.len()
        );
    }
}
