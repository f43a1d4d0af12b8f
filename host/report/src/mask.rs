//! A mask of outliers, for `ut-decode decode --mask`.

use std::fmt::Write as _;

use crate::page::names::place_text;
use crate::{OutlierKind, Verdicts};
use ut_data::DetectorTables;

/// Returns the text of a mask of the hot and dead lanes, chips and strips of a run. Quiet parts, and those that fail
/// for a while, have good hits as well and stand in comments.
pub fn mask(run: &str, verdicts: &Verdicts, tables: &DetectorTables) -> String {
    // A name may have any character.
    let run: String = run.chars().filter(|c| !c.is_control()).collect();
    let mut text = format!("# What stands out in {run}, found by ut-decode report.\n");
    for outlier in &verdicts.outliers {
        let entry = match (outlier.sector, outlier.strips, outlier.lane) {
            (Some(sector), Some((strip, last)), _) if strip == last => format!("sector {sector} strips {strip}"),
            (Some(sector), Some((first, last)), _) => format!("sector {sector} strips {first}-{last}"),
            (_, _, Some(lane)) => format!("board {} lane {lane}", outlier.board),
            _ => format!("board {}", outlier.board),
        };
        let keep = outlier.events.is_some() || outlier.kind == OutlierKind::QuietLane;
        let remark = format!("{}: {}", outlier.kind.name(), place_text(outlier, tables));
        let _ = writeln!(text, "{}{entry}  # {remark}", if keep { "# " } else { "" });
    }
    text
}
