//! Tables for people.

/// Aligns rows of cells, the head first: the first column to the left, the others to the right.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..columns)
        .map(|column| width(column).unwrap_or_default())
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let blank = " ".repeat(width - cell.chars().count());
            line += if i == 0 { "" } else { "  " };
            let (before, after) = if i == 0 {
                ("", blank.as_str())
            } else {
                (blank.as_str(), "")
            };
            line.extend([before, cell, after]);
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}
