//! A mask of outliers, for `ut-decode decode --mask`.

use std::fmt::Write as _;

use crate::page::names::{lane, place_text};
use crate::{OutlierKind, OutlierPart as Part, RunView, Verdicts, When};
use ut_data::DetectorTables;

/// Returns the text of a mask of the hot and dead lanes, chips and strips of a run. Quiet parts,
/// and those that fail for a while, have good hits as well and stand in comments.
pub fn mask(run: &str, verdicts: &Verdicts, tables: &DetectorTables, view: &RunView) -> String {
    // A name may have any character.
    let printable = |text: &str| text.chars().filter(|c| !c.is_control()).collect::<String>();
    let mut text = format!(
        "# What stands out in {}, found by ut-decode report.\n",
        printable(run)
    );
    for outlier in verdicts
        .outliers
        .iter()
        .filter(|of| of.kind >= OutlierKind::Dead)
    {
        let entries = match (outlier.sector, outlier.strips, outlier.board) {
            (Some(sector), Some((strip, last)), _) if strip == last => {
                vec![format!("sector {sector} strips {strip}")]
            }
            (Some(sector), Some((first, last)), _) => {
                vec![format!("sector {sector} strips {first}-{last}")]
            }
            (_, _, Some(board)) if outlier.part == Part::Board => vec![format!("board {board}")],
            _ => outlier.all_slots().into_iter().map(lane).collect(),
        };
        let is_masked = matches!(outlier.kind, OutlierKind::Dead | OutlierKind::Hot)
            && (outlier.when == When::Throughout || outlier.part == Part::Strip);
        for entry in entries {
            let remark = format!("{}: {}", outlier.name(), place_text(outlier, tables, view));
            let _ = writeln!(
                text,
                "{}{entry}  # {remark}",
                if is_masked { "" } else { "# " }
            );
        }
    }
    text
}
