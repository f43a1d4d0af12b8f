//! The report as one self-contained page: charts, verdict, every point, everything that was skipped.

use std::fmt::Write as _;

use super::chart::{charts, escaped};
use super::report::{Report, number};
use crate::bench::Change;
use crate::decoder::knobs::value_text;

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;color:#1f2933;background:#fff;max-width:1100px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin-bottom:.3rem}h2{font-size:1.1rem;margin-top:2.2rem}
.verdict{font-size:1.05rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:1rem 0}dt{color:#52606d}dd{margin:0;overflow-wrap:anywhere}
figure{margin:1rem 0;overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .7rem;text-align:right;border-bottom:1px solid #e4e7eb}th{font-weight:600}
td:last-child,th:last-child{text-align:left}
tr.best td{background:#fff1e6}tr.default td{background:#f0f4f8}
.scroll{max-height:32rem;overflow:auto}
code{font-size:.9em}";

impl Report {
    /// The page, UTF-8, that needs nothing else.
    pub fn html(&self) -> String {
        let title = format!("Sweep on {}", self.about.backend);
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
             content=\"width=device-width\"><title>{0}</title>\n<style>\n{STYLE}\n</style></head><body>\n<h1>{0}</h1>\n\
             <p class=\"verdict\">{1}</p>\n<dl>\n",
            escaped(&title),
            escaped(&self.verdict())
        );
        for (name, value) in self.facts() {
            let value = escaped(value.trim_matches('`'));
            let value = if name == "command" { format!("<code>{value}</code>") } else { value };
            let _ = writeln!(page, "<dt>{name}</dt><dd>{value}</dd>");
        }
        page += "</dl>\n";
        for (title, svg) in charts(self) {
            let _ = write!(page, "<h2>{}</h2>\n<figure>\n{svg}</figure>\n", escaped(&title));
        }
        page += &self.html_table();
        for (title, list) in self.others() {
            let _ = write!(page, "<h2>{title}: {}</h2>\n<div class=\"scroll\"><ul>\n", list.len());
            for (point, reason) in list {
                let _ = writeln!(page, "<li><code>{}</code>: {}</li>", escaped(&point), escaped(&reason));
            }
            page += "</ul></div>\n";
        }
        page + "</body></html>\n"
    }

    /// The first chart alone, as an SVG file; `None` without an axis.
    pub fn svg(&self) -> Option<String> {
        charts(self).into_iter().next().map(|(_, svg)| svg)
    }

    fn html_table(&self) -> String {
        let ranking = self.ranking();
        let mut page =
            format!("<h2>All points, the best first: {}</h2>\n<div class=\"scroll\"><table>\n<tr>", ranking.len());
        for axis in &self.axes {
            let _ = write!(page, "<th>{}</th>", escaped(&axis.name));
        }
        let _ = writeln!(
            page,
            "<th>{}</th><th>half of them</th><th>to the default</th><th></th></tr>",
            escaped(&self.about.unit)
        );
        for i in ranking {
            let point = &self.points[i];
            let Some(spread) = point.measured else { continue };
            let marks = self.marks(i);
            let _ = write!(page, "<tr class=\"{}\">", marks.join(" "));
            for (axis, &value) in self.axes.iter().zip(&point.values) {
                let _ = write!(page, "<td>{}</td>", escaped(&value_text(&axis.name, value)));
            }
            let half = if point.repetitions > 1 {
                format!("{} to {}", number(spread.q1), number(spread.q3))
            } else {
                String::new()
            };
            let change =
                point.change.as_ref().filter(|_| i != self.default).map_or_else(String::new, Change::to_string);
            let _ = writeln!(
                page,
                "<td>{}</td><td>{half}</td><td>{change}</td><td>{}</td></tr>",
                number(spread.median),
                marks.join(", ")
            );
        }
        page + "</table></div>\n"
    }
}
