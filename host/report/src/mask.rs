//! A mask of what stands out, for `ut-decode decode --mask`.

use std::fmt::Write as _;

use crate::page::names::place_text;
use crate::{OutlierKind, Verdicts};
use ut_data::DetectorTables;

/// Returns the text of a mask of the hot strips and of the hot and dead lanes of a run. Quiet lanes and silent boards, which
/// have good hits as well, are named in comments.
pub fn mask(run: &str, verdicts: &Verdicts, tables: &DetectorTables) -> String {
    // A name may have any character.
    let run: String = run.chars().filter(|c| !c.is_control()).collect();
    let mut text = format!("# What stands out in {run}, found by ut-decode report.\n");
    for outlier in &verdicts.outliers {
        let entry = match (outlier.sector, outlier.strip, outlier.lane) {
            (Some(sector), Some(strip), _) => format!("sector {sector} strips {strip}"),
            (_, _, Some(lane)) => format!("board {} lane {lane}", outlier.board),
            _ => format!("board {}", outlier.board),
        };
        let keep = matches!(outlier.kind, OutlierKind::QuietLane | OutlierKind::SilentBoard);
        let remark = format!("{}: {}", outlier.kind.name(), place_text(outlier, tables));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}{entry}  # {remark}", if keep { "# " } else { "" });
    }
    text
}
