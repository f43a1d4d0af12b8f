//! What things of the detector are called on the page.

use std::fmt::Write as _;
use ut_data::DetectorTables;

use serde_json::{Value, json};
pub use ut_data::detector::LAYER_NAMES as LAYERS;
use ut_data::detector::{LANES_PER_BOARD, Lane, N_SECTORS};
use ut_report::Outlier;

/// By sector: the lanes that read it, as slots.
pub fn lanes_of_sectors(tables: &DetectorTables) -> Vec<Vec<usize>> {
    let mut lanes = vec![Vec::new(); N_SECTORS];
    for (i, slot) in tables.slots().iter().enumerate().filter(|(_, slot)| slot.chan_id != 0) {
        lanes[usize::from(slot.sector)].push(i);
    }
    lanes
}

/// Where a lane's sector is mounted.
pub fn mounted(lane: &Lane) -> String {
    let Lane { layer, side, stave, face, module, sector, .. } = *lane;
    let side = if side == 1 { 'A' } else { 'C' };
    format!("{} {side} stave {stave} face {face} module {module} sector {sector}", LAYERS[layer as usize % 4])
}

/// A lane of a board.
pub fn lane(slot: usize) -> String {
    format!("board {} lane {}", slot / LANES_PER_BOARD, slot % LANES_PER_BOARD)
}

/// A sector with its lanes; `lanes` are the slots.
pub fn sector(sector: usize, lanes: &[usize], tables: &DetectorTables) -> String {
    match lanes.first() {
        Some(&slot) => mounted(&tables.boards().lanes[slot]),
        None => format!("sector {sector}, which no lane reads"),
    }
}

/// Where something that stands out is.
pub fn place_text(outlier: &Outlier, tables: &DetectorTables) -> String {
    let Outlier { board, lane, strip, events, .. } = outlier;
    let mut text = match lane {
        Some(lane) => {
            let slot = board * LANES_PER_BOARD + lane;
            format!("{}, {}", self::lane(slot), mounted(&tables.boards().lanes[slot]))
        }
        None => format!("board {board}"),
    };
    if let Some(strip) = strip {
        // Writing to a String cannot fail.
        let _ = write!(text, ", strip {strip}");
    }
    if let Some((first, last)) = events {
        let _ = write!(text, ", no hits from event {first} to {last}");
    }
    text
}

/// The same for a program.
pub fn place_json(outlier: &Outlier, tables: &DetectorTables) -> Value {
    let Outlier { kind, board, lane, sector, strip, hits, expected, sigmas, events } = outlier;
    let mounted = lane.map(|lane| mounted(&tables.boards().lanes[board * LANES_PER_BOARD + lane]));
    json!({
        "kind": kind.name(), "board": board, "lane": lane, "sector_id": sector, "sector": mounted, "strip": strip,
        "hits": hits, "expected": expected, "sigmas": sigmas.is_finite().then_some(sigmas),
        "first_event": events.map(|events| events.0), "last_event": events.map(|events| events.1),
    })
}

/// A number in about three digits.
pub fn short(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => String::new(),
        0.0 => "0".to_owned(),
        size if size >= 1e6 => format!("{value:.2e}"),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.01 => format!("{value:.2}"),
        _ => format!("{value:.1e}"),
    }
}
