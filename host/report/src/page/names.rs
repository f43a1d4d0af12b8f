//! Names of parts of the detector, on the page, on a terminal and for programs.
//!
//! A part has the same name everywhere: `board 4 lane 1` and `sector 112` are what a mask file
//! takes, so these words can be copied into a mask.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
pub use ut_data::detector::LAYER_NAMES as LAYERS;
use ut_data::detector::{LANES_PER_BOARD, Lane, N_SECTORS};
pub use ut_data::hits::whole;
use ut_data::hits::{Cause, Loss, LostPart, Repeated};
use ut_data::{Count, DetectorTables};

use super::Run;
use crate::{Difference, Outlier, OutlierPart as Part, RunView, When, mean_charge};

/// Returns the lanes that read each sector, as slots.
pub fn lanes_of_sectors(tables: &DetectorTables) -> Vec<Vec<usize>> {
    let mut lanes = vec![Vec::new(); N_SECTORS];
    for (i, slot) in tables.connected() {
        lanes[usize::from(slot.sector)].push(i);
    }
    lanes
}

pub fn mounted(lane: &Lane) -> String {
    let Lane {
        layer,
        side,
        stave,
        face,
        module,
        sector,
        ..
    } = *lane;
    let side = if side == 1 { 'A' } else { 'C' };
    format!(
        "{} {side} stave {stave} face {face} module {module} sector {sector}",
        LAYERS[layer as usize % 4]
    )
}

/// Names a lane as a mask does.
pub fn lane(slot: usize) -> String {
    format!(
        "board {} lane {}",
        slot / LANES_PER_BOARD,
        slot % LANES_PER_BOARD
    )
}

/// Names a sector by the number that a mask takes and by its place; `lanes` are the slots that read
/// it.
pub fn sector(sector: usize, lanes: &[usize], tables: &DetectorTables) -> String {
    let place = lanes.first().map_or_else(
        || "which no lane reads".to_owned(),
        |&slot| mounted(&tables.boards().lanes[slot]),
    );
    format!("sector {sector} ({place})")
}

/// Names the part that stands out; empty for the whole run.
pub fn part_text(outlier: &Outlier, tables: &DetectorTables) -> String {
    let Outlier {
        part,
        board,
        sector,
        strips,
        slots,
        detail,
        ..
    } = outlier;
    let mut text = match (part, outlier.slot(), board, sector) {
        (Part::Sector, _, _, Some(of)) => {
            let lanes: Vec<String> = slots.iter().map(|&slot| lane(slot)).collect();
            format!(
                "{}, {}",
                self::sector(*of, slots, tables),
                lanes.join(" and ")
            )
        }
        (_, Some(slot), ..) => {
            let of = usize::from(tables.slots()[slot].sector);
            format!("{}, {}", lane(slot), self::sector(of, &[slot], tables))
        }
        (Part::Board, _, Some(board), _) => format!("board {board}"),
        _ => String::new(),
    };
    let _ = match strips {
        Some((first, last)) if first < last => write!(text, ", strips {first} to {last}"),
        Some((strip, _)) => write!(text, ", strip {strip}"),
        None => Ok(()),
    };
    if !detail.is_empty() {
        text += if text.is_empty() { "" } else { ", " };
        text += detail;
    }
    text
}

/// Names the part that stands out, and when.
pub fn place_text(outlier: &Outlier, tables: &DetectorTables, view: &RunView) -> String {
    let when = outlier.when.text(view);
    let comma = if when.is_empty() { "" } else { ", " };
    format!("{}{comma}{when}", part_text(outlier, tables))
}

/// Returns the numbers that were seen and expected, with their unit.
pub fn numbers(outlier: &Outlier) -> [String; 2] {
    let is_of_charge = outlier.kind.is_of_charge();
    let text = |value: f64| match (value.is_nan(), is_of_charge) {
        (true, _) => String::new(),
        (_, true) => format!("{} ADC", short(value)),
        _ if value.fract() == 0.0 || value >= 1000.0 => whole(value.round() as u64),
        _ => short(value),
    };
    [outlier.seen, outlier.expected].map(text)
}

fn place_json(outlier: &Outlier, tables: &DetectorTables, view: &RunView) -> Value {
    let Outlier {
        kind,
        board,
        lane,
        sector,
        strips,
        seen,
        expected,
        sigmas,
        when,
        ..
    } = outlier;
    let mounted = outlier
        .slot()
        .map(|slot| mounted(&tables.boards().lanes[slot]));
    let (hits, charge) = if kind.is_of_charge() {
        (None, number(*seen))
    } else {
        (Some(seen.round() as u64), None)
    };
    let of_slot = |slot: usize| [slot / LANES_PER_BOARD, slot % LANES_PER_BOARD];
    let windows: Vec<(u64, u64)> = match when {
        When::In(windows) => windows.iter().map(|window| window.numbers).collect(),
        _ => Vec::new(),
    };
    let times: Vec<Option<[String; 2]>> = match when {
        When::In(windows) => windows
            .iter()
            .map(|window| {
                window
                    .times
                    .map(|(from, to)| [from, to].map(ut_data::input::utc))
            })
            .collect(),
        _ => Vec::new(),
    };
    json!({
        "kind": outlier.name(), "where": part_text(outlier, tables), "when": when.text(view),
        "board": board, "lane": lane, "sector_id": sector, "sector": mounted,
        "lanes": outlier.all_slots().into_iter().map(of_slot).collect::<Vec<_>>(),
        "first_strip": strips.map(|strips| strips.0), "last_strip": strips.map(|strips| strips.1),
        "hits": hits, "charge": charge, "expected": number(*expected), "sigmas": number(*sigmas),
        "first_event": when.hull().map(|events| events.0), "last_event": when.hull().map(|events| events.1),
        "events": windows, "times": times, "throughout": *when == When::Throughout,
    })
}

/// Returns a number as JSON can hold it; JSON has neither infinity nor NaN.
fn number(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

pub fn run_json(run: &Run<'_>, tables: &DetectorTables) -> Map<String, Value> {
    let view = &run.sums.view;
    let places = |outliers: &[Outlier]| {
        outliers
            .iter()
            .map(|one| place_json(one, tables, view))
            .collect::<Vec<_>>()
    };
    let counts = Count::ALL
        .into_iter()
        .map(|count| (count.name().to_owned(), view.count(count).into()));
    let errors = view.error_banks.iter();
    let errors = errors
        .map(|((kind, source_id), n)| json!({"type": kind, "source_id": source_id, "banks": n}));
    let troubles = view.troubles.iter().map(|((kind, board), trouble)| {
        let kind = Count::ALL.get(*kind).map_or("", |count| count.name());
        json!({"kind": kind, "board": board, "count": trouble.count, "first_event": trouble.first})
    });
    let sectors = (0..N_SECTORS).map(|sector| {
        let (charge, _) = mean_charge(view, sector);
        json!({
            "sector_id": sector, "hits": view.hits_of_sector(sector), "charge": number(charge),
            "expected": run.verdicts.expected[sector], "judged": run.verdicts.judged[sector],
        })
    });
    let json = json!({
        "events": view.events,
        "hits": view.hits,
        "complete": run.sums.troubles().is_empty(),
        "loss": loss_json(&run.sums.loss()),
        "repeated": repeated_json(&run.sums.repeats.repeated()),
        "report": counts.collect::<Map<_, Value>>(),
        "outliers": places(&run.verdicts.outliers),
        "known": places(&run.verdicts.known),
        "unjudged_sectors": run.verdicts.judged.iter().filter(|judged| !**judged).count(),
        "troubles": troubles.collect::<Vec<_>>(),
        "error_banks": errors.collect::<Vec<_>>(),
        "sectors": sectors.collect::<Vec<_>>(),
    });
    json.as_object().cloned().unwrap_or_default()
}

/// Returns an account of loss for programs.
pub fn loss_json(loss: &Loss) -> Value {
    let part = |LostPart { lost, of }: LostPart| json!({ "lost": lost, "of": of });
    let causes: Map<String, Value> = Cause::ALL
        .into_iter()
        .map(|cause| (cause.name().to_owned(), loss.by(cause).into()))
        .collect();
    json!({
        "share": loss.share(),
        "lost": loss.to_string(),
        "events": part(loss.events),
        "banks": part(loss.banks),
        "strips": part(loss.strips),
        "clusters": part(loss.clusters),
        "causes": causes,
    })
}

/// Returns the number of repeated events for programs.
pub fn repeated_json(repeated: &Repeated) -> Value {
    let Repeated {
        events: LostPart { lost, of },
        is_estimate,
    } = *repeated;
    json!({ "events": lost, "of": of, "share": repeated.events.share(), "estimated": is_estimate })
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
