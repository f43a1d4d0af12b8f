//! A mask of what stands out, for `ut-decode decode --mask`.

use std::fmt::Write as _;

use crate::page::names::place_text;
use crate::{Outlier, OutlierKind, Verdicts};
use ut_data::DetectorTables;
use ut_data::detector::{LANES_PER_BOARD, Mask, STRIPS_PER_SECTOR};

/// Upper four bits of the UT's LHCbIDs.
const UT_ID: u32 = 3 << 28;

/// Removes from the verdicts on a run what a mask covers: known bad parts are not told again, and no sector of which all strips
/// are masked is compared with others.
pub fn spare(verdicts: &mut Verdicts, mask: &Mask, tables: &DetectorTables) {
    verdicts.outliers.retain(|outlier| !covers(mask, outlier, tables));
    let mut lanes_left = vec![0; verdicts.expected.len()];
    for (slot, lane) in tables.slots().iter().enumerate().filter(|(_, lane)| lane.chan_id != 0) {
        lanes_left[usize::from(lane.sector)] += usize::from(!covers_lane(mask, slot, tables));
    }
    for (expected, left) in verdicts.expected.iter_mut().zip(lanes_left) {
        *expected = expected.filter(|_| left > 0);
    }
}

fn covers(mask: &Mask, outlier: &Outlier, tables: &DetectorTables) -> bool {
    let lanes = outlier.board * LANES_PER_BOARD;
    match (outlier.lane, outlier.strips) {
        (Some(lane), Some((first, last))) => {
            let sector = tables.slots()[lanes + lane].chan_id & !(STRIPS_PER_SECTOR - 1);
            (first..=last).all(|strip| mask.contains(UT_ID | (sector + strip as u32)))
        }
        (Some(lane), None) => covers_lane(mask, lanes + lane, tables),
        (None, _) => (lanes..lanes + LANES_PER_BOARD).all(|slot| covers_lane(mask, slot, tables)),
    }
}

/// Returns true if all strips of the lane are masked, or nothing is connected to it.
fn covers_lane(mask: &Mask, slot: usize, tables: &DetectorTables) -> bool {
    let slots = tables.slots();
    let lane = &slots[slot];
    let of_sector = slots.iter().filter(|other| other.chan_id != 0 && other.sector == lane.sector).count();
    let n = STRIPS_PER_SECTOR / of_sector.max(1) as u32;
    lane.chan_id == 0 || (0..n).all(|strip| mask.contains(UT_ID | (lane.chan_id + strip)))
}

/// Returns the text of a mask of the hot and dead lanes, chips and strips of a run. What is quiet, or fails for a while, and
/// has good hits as well, is named in comments.
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
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}{entry}  # {remark}", if keep { "# " } else { "" });
    }
    text
}
