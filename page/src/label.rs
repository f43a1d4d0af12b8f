//! Text inside charts.

/// Text for a label of a chart, where a few tags would otherwise be markup.
pub fn label(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
