//! A mask of what stands out, for `ut-decode decode --mask`.

use std::fmt::Write as _;

use crate::page::names::{lanes_of_sectors, place_text};
use crate::{OutlierKind, Rules, Verdicts};
use ut_data::DetectorTables;
use ut_data::detector::{ChannelId, LANES_PER_BOARD, LhcbId, Mask, STRIPS_PER_SECTOR};

/// Removes from the verdicts on a run what a mask explains, and compares no sector of which all strips are masked.
///
/// The hits of masked strips are missing from the run, so the expectations count only the other strips.
pub fn spare(verdicts: &mut Verdicts, mask: &Mask, tables: &DetectorTables, rules: &Rules) {
    let lanes = lanes_of_sectors(tables);
    let left = |slot: usize, strips: Option<(usize, usize)>| {
        let channel = tables.slots()[slot].chan_id;
        let n_of_lane = STRIPS_PER_SECTOR / lanes[usize::from(tables.slots()[slot].sector)].len().max(1) as u32;
        let (from, n) = match strips {
            Some((first, last)) => ((channel & !(STRIPS_PER_SECTOR - 1)) + first as u32, (last - first) as u32 + 1),
            None => (channel, n_of_lane),
        };
        let is_left = |channel: &u32| !mask.contains(LhcbId::of(ChannelId(*channel)).0);
        (from..from + n).filter(is_left).count() as f64 / f64::from(n)
    };
    verdicts.outliers.retain(|outlier| {
        let first = outlier.board * LANES_PER_BOARD;
        let of_board = || {
            let slots = (first..first + LANES_PER_BOARD).filter(|&slot| tables.slots()[slot].chan_id != 0);
            slots.map(|slot| left(slot, None)).fold(0.0, f64::max)
        };
        let left = outlier.lane.map_or_else(of_board, |lane| left(first + lane, outlier.strips));
        let (hits, expected) = (outlier.hits as f64, outlier.expected);
        let is_few = hits < expected && outlier.kind != OutlierKind::LowCharge;
        left > 0.0 && !(is_few && left < 1.0 && hits >= rules.quiet * left * expected)
    });
    for (expected, lanes) in verdicts.expected.iter_mut().zip(&lanes) {
        *expected = expected.filter(|_| lanes.iter().any(|&slot| left(slot, None) > 0.0));
    }
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
