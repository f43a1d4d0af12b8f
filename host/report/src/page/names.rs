//! Names of parts of the detector, on the page, on a terminal and for programs.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
pub use ut_data::detector::LAYER_NAMES as LAYERS;
use ut_data::detector::{LANES_PER_BOARD, Lane, N_SECTORS};
use ut_data::{Count, DetectorTables};

use super::Run;
use crate::{Difference, Outlier, OutlierKind};

/// Returns the lanes that read each sector, as slots.
pub fn lanes_of_sectors(tables: &DetectorTables) -> Vec<Vec<usize>> {
    let mut lanes = vec![Vec::new(); N_SECTORS];
    for (i, slot) in tables.slots().iter().enumerate().filter(|(_, slot)| slot.chan_id != 0) {
        lanes[usize::from(slot.sector)].push(i);
    }
    lanes
}

pub fn mounted(lane: &Lane) -> String {
    let Lane { layer, side, stave, face, module, sector, .. } = *lane;
    let side = if side == 1 { 'A' } else { 'C' };
    format!("{} {side} stave {stave} face {face} module {module} sector {sector}", LAYERS[layer as usize % 4])
}

/// Names a lane as a mask does.
pub fn lane(slot: usize) -> String {
    format!("board {} lane {}", slot / LANES_PER_BOARD, slot % LANES_PER_BOARD)
}

/// Names a sector by the number that a mask takes and by its place; `lanes` are the slots that read it.
pub fn sector(sector: usize, lanes: &[usize], tables: &DetectorTables) -> String {
    let place =
        lanes.first().map_or_else(|| "which no lane reads".to_owned(), |&slot| mounted(&tables.boards().lanes[slot]));
    format!("sector {sector} ({place})")
}

pub fn place_text(outlier: &Outlier, tables: &DetectorTables) -> String {
    let Outlier { kind, board, lane, strips, events, hits, .. } = outlier;
    let mut text = match lane {
        Some(lane) => {
            let slot = board * LANES_PER_BOARD + lane;
            let of = usize::from(tables.slots()[slot].sector);
            format!("{}, {}", self::lane(slot), sector(of, &[slot], tables))
        }
        None => format!("board {board}"),
    };
    let _ = match strips {
        Some((first, last)) if first < last => write!(text, ", strips {first} to {last}"),
        Some((strip, _)) => write!(text, ", strip {strip}"),
        None => Ok(()),
    };
    if let Some((first, last)) = events {
        let what = match kind {
            OutlierKind::LowCharge => "little charge",
            OutlierKind::NoisyLane => "too many hits",
            _ if *hits == 0 => "no hits",
            _ => "hardly any hits",
        };
        let _ = write!(text, ", {what} from event {} to {} at least", whole(*first), whole(*last));
    }
    text
}

fn place_json(outlier: &Outlier, tables: &DetectorTables) -> Value {
    let Outlier { kind, board, lane, sector, strips, hits, expected, sigmas, events } = outlier;
    let mounted = lane.map(|lane| mounted(&tables.boards().lanes[board * LANES_PER_BOARD + lane]));
    let (hits, charge) = if *kind == OutlierKind::LowCharge { (None, Some(hits)) } else { (Some(hits), None) };
    json!({
        "kind": kind.name(), "board": board, "lane": lane, "sector_id": sector, "sector": mounted,
        "first_strip": strips.map(|strips| strips.0), "last_strip": strips.map(|strips| strips.1),
        "hits": hits, "charge": charge, "expected": expected, "sigmas": number(*sigmas),
        "first_event": events.map(|events| events.0), "last_event": events.map(|events| events.1),
    })
}

/// JSON has neither infinity nor what is not a number.
fn number(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

pub fn run_json(run: &Run<'_>, tables: &DetectorTables) -> Map<String, Value> {
    let view = &run.sums.view;
    let places = |outliers: &[Outlier]| outliers.iter().map(|one| place_json(one, tables)).collect::<Vec<_>>();
    let counts = Count::ALL.into_iter().map(|count| (count.name().to_owned(), view.count(count).into()));
    let errors = view.error_banks.iter();
    let errors = errors.map(|((kind, source_id), n)| json!({"type": kind, "source_id": source_id, "banks": n}));
    let troubles = view.troubles.iter().map(|((kind, board), trouble)| {
        let kind = Count::ALL.get(*kind).map_or("", |count| count.name());
        json!({"kind": kind, "board": board, "count": trouble.count, "first_event": trouble.first})
    });
    let json = json!({
        "events": view.events,
        "hits": view.hits,
        "complete": run.sums.troubles().is_empty(),
        "report": counts.collect::<Map<_, Value>>(),
        "outliers": places(&run.verdicts.outliers),
        "known": places(&run.verdicts.known),
        "unjudged_sectors": run.verdicts.judged.iter().filter(|judged| !**judged).count(),
        "troubles": troubles.collect::<Vec<_>>(),
        "error_banks": errors.collect::<Vec<_>>(),
    });
    json.as_object().cloned().unwrap_or_default()
}

pub fn difference_json(d: &Difference, lanes: &[usize], tables: &DetectorTables) -> Value {
    json!({
        "sector_id": d.sector, "sector": lanes.first().map(|&slot| mounted(&tables.boards().lanes[slot])),
        "hits_per_event": d.hits, "ratio": number(d.ratio), "sigmas": number(d.sigmas),
        "mean_charge": d.charge.map(number), "charge_sigmas": number(d.charge_sigmas),
    })
}

/// Returns a number of things in words: "1 run", "2,000 runs".
pub fn count(n: u64, what: &str) -> String {
    format!("{} {what}{}", whole(n), if n == 1 { "" } else { "s" })
}

/// Returns a whole number with thousands separators.
pub fn whole(n: u64) -> String {
    let digits = n.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// Returns a number in about three digits.
pub fn short(value: f64) -> String {
    match value.abs() {
        _ if value.is_infinite() => "∞".to_owned(),
        _ if value.is_nan() => String::new(),
        0.0 => "0".to_owned(),
        size if size >= 1e6 => format!("{value:.2e}"),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.01 => format!("{value:.2}"),
        _ => format!("{value:.1e}"),
    }
}
