//! One line per cause: parts that fail together are one outlier, and a part whose failure another
//! fault explains is left out.
//!
//! If eight boards lose their power, 8 boards, 48 lanes and 192 chips stand out, each correctly and
//! each with its own line. A page of 248 lines helps no shifter. So the list is
//! shortened in a fixed order, from small parts to large ones, and each step sees the result of the
//! previous step:
//!
//! 1. A change of the whole detector (rate or gain) explains parts that changed in the same
//!    direction during the same events.
//! 2. Lost or repeated banks explain boards and lanes that lack as many hits as the banks held.
//! 3. Stretches of the same fault of the same part become one line with several intervals.
//! 4. Chips become their lane, lanes their board, pairs of lanes a swap or a sector, and lanes in
//!    the same place of the detector one structure.
//!
//! Nothing is lost by this: the joined outlier keeps the list of all its slots, so that a mask made
//! from it covers the same strips.

use std::collections::BTreeMap;

use super::outlier::{Outlier, OutlierKind, Part};
use super::page::names::{LAYERS, count};
use super::run::{RunView, Span};
use super::when::When;
use ut_data::DetectorTables;
use ut_data::detector::{LANES_PER_BOARD, Lane, Slot};

/// Minimum share of a board's lanes that must fail together to be one fault.
///
/// Not all: some lanes of a failing board have too few hits to be judged, and others were just
/// above the threshold. More than half, so that two faults cannot claim the same board.
const TOGETHER: f64 = 0.6;

/// Minimum number of lanes, on several boards, that must fail together to be one fault.
///
/// A board has six lanes, so eight lanes cannot be one board, and a common cause must be looked for
/// in the place.
const MANY: usize = 8;

/// Number of lanes failing in the same way from which they always share one line.
///
/// Twenty lanes that fail during the same events, but in no common place, still have one cause (a
/// voltage, a run condition), and as twenty lines they would hide everything else.
const ALL: usize = 20;

/// Largest relative difference of two lanes' hits from what the other one should have, if they are
/// swapped.
///
/// The expectation comes from the neighbours, so that an exact match cannot be required. Lanes with
/// nearly equal expectations do not stand out when they are swapped, and are not found.
const ALIKE: f64 = 0.15;

/// Joins what has one cause, and leaves out what another fault explains.
pub fn causes(found: Vec<Outlier>, view: &RunView, tables: &DetectorTables) -> Vec<Outlier> {
    let (streams, mut parts): (Vec<_>, Vec<_>) = found
        .into_iter()
        .partition(|outlier| outlier.kind < OutlierKind::Dead);
    let trends: Vec<&Outlier> = streams
        .iter()
        .filter(|of| matches!(of.kind, OutlierKind::Rate | OutlierKind::Gain))
        .collect();
    parts.retain(|part| !trends.iter().any(|trend| is_of_trend(part, trend)));
    parts.retain(|part| !is_explained(part, &streams, view));
    let mut parts = same_part(parts);
    let is_single = |of: &Outlier| of.part == Part::Chip && of.kind != OutlierKind::Hot;
    chips(&mut parts, is_single, tables);
    boards(&mut parts, tables);
    swapped(&mut parts);
    sectors(&mut parts, tables);
    structures(&mut parts, tables);
    let mut all = streams;
    all.extend(parts);
    all
}

/// Returns true if a change of the whole detector makes a part stand out.
fn is_of_trend(part: &Outlier, trend: &Outlier) -> bool {
    let fits = match part.kind {
        OutlierKind::Silent | OutlierKind::Quiet => {
            trend.kind == OutlierKind::Rate && trend.seen < trend.expected
        }
        OutlierKind::Noisy => trend.kind == OutlierKind::Rate && trend.seen > trend.expected,
        OutlierKind::LowCharge | OutlierKind::HighCharge => true,
        _ => false,
    };
    let common = trend.when == When::Throughout || part.when.is_within(&trend.when);
    fits && common && (part.when != When::Throughout || trend.when == When::Throughout)
}

/// Returns true if the hits that a part lacks were in banks that were lost, or if its board repeats
/// itself.
fn is_explained(part: &Outlier, streams: &[Outlier], view: &RunView) -> bool {
    let Some(board) = part.board else {
        return false;
    };
    let of_board = |kind: OutlierKind| {
        streams
            .iter()
            .any(|of| of.kind == kind && of.board.is_none_or(|of| of == board))
    };
    if of_board(OutlierKind::Repeated) {
        return true;
    }
    let lost = of_board(OutlierKind::Troubles) || of_board(OutlierKind::Missing);
    if !lost
        || !matches!(
            part.kind,
            OutlierKind::Dead | OutlierKind::Silent | OutlierKind::Quiet
        )
    {
        return false;
    }
    let hull = part.when.hull();
    let is_in = |span: &&Span| {
        hull.is_none_or(|(first, last)| {
            span.numbers
                .is_some_and(|(from, to)| from <= last && to >= first)
        })
    };
    let (mut banks, mut events) = (0, 0);
    for (_, span) in view.spans.iter() {
        if is_in(&span) {
            let of = span.board(board);
            banks += (span.ut_events.saturating_sub(of.banks) + of.troubles).min(span.ut_events);
            events += span.ut_events;
        }
    }
    let share = banks as f64 / events.max(1) as f64;
    // If a share of the banks was lost, the part should have kept the rest. It may have somewhat
    // fewer hits (a factor of 0.8, and 0.3 of its expectation), since the lost banks need not have
    // been average. A part that lacks far more than that has a fault of its own, and is still
    // listed.
    share > 0.05 && part.seen / part.expected >= 0.8 * (1.0 - share) - 0.3
}

/// Joins the stretches of the same fault of the same part.
fn same_part(parts: Vec<Outlier>) -> Vec<Outlier> {
    let mut joined: Vec<Outlier> = Vec::new();
    for part in parts {
        match joined
            .iter_mut()
            .find(|of| of.is_same_as(&part) && of.detail == part.detail)
        {
            Some(of) => {
                // Numbers of hits add up over stretches; mean charges do not, so that they are
                // averaged. A stretch with a negative number has no number to show.
                let weight = |of: &Outlier| {
                    if of.kind.is_of_charge() {
                        0.5
                    } else {
                        f64::from(u8::from(of.seen >= 0.0))
                    }
                };
                of.when.join(&part.when);
                of.seen = of.seen * weight(of) + part.seen * weight(&part);
                of.expected = of.expected * weight(of) + part.expected * weight(&part);
                of.sigmas = most([of.sigmas, part.sigmas].into_iter());
            }
            None => joined.push(part),
        }
    }
    joined
}

/// Returns the number that is farthest from 0.
fn most(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(0.0, |most: f64, number| {
        if number.abs() > most.abs() {
            number
        } else {
            most
        }
    })
}

/// Makes one outlier of some that fail in the same way.
fn one_of(members: &[Outlier], part: Part) -> Outlier {
    let n = members.len().max(1) as f64;
    let by = if members.iter().any(|of| of.kind.is_of_charge()) {
        n
    } else {
        1.0
    };
    let mut slots: Vec<usize> = members.iter().flat_map(Outlier::all_slots).collect();
    slots.sort_unstable();
    slots.dedup();
    let Some(first) = members.first() else {
        return Outlier::new(OutlierKind::Dead, part);
    };
    Outlier {
        part,
        lane: None,
        sector: None,
        strips: None,
        slots,
        seen: members.iter().map(|of| of.seen).sum::<f64>() / by,
        expected: members.iter().map(|of| of.expected).sum::<f64>() / by,
        sigmas: most(members.iter().map(|of| of.sigmas)),
        ..first.clone()
    }
}

/// Takes outliers out of `parts` that `pick` chooses and that fail alike, if there are at least
/// `least`.
fn take_alike(
    parts: &mut Vec<Outlier>,
    least: usize,
    pick: impl Fn(&Outlier) -> bool,
) -> Option<(usize, Vec<Outlier>)> {
    let chosen: Vec<usize> = (0..parts.len()).filter(|&i| pick(&parts[i])).collect();
    for &first in &chosen {
        let of = &parts[first];
        let alike = |other: &Outlier| {
            of.kind == other.kind
                && of.part == other.part
                && of.when.is_like(&other.when)
                && of.detail == other.detail
        };
        let members: Vec<usize> = chosen
            .iter()
            .copied()
            .filter(|&i| alike(&parts[i]))
            .collect();
        if members.len() >= least {
            let taken = members.iter().map(|&i| parts[i].clone()).collect();
            for i in members.into_iter().rev() {
                parts.remove(i);
            }
            return Some((first.min(parts.len()), taken));
        }
    }
    None
}

/// Joins the chips of a lane that all fail into the lane.
fn chips(parts: &mut Vec<Outlier>, is_single: impl Fn(&Outlier) -> bool, tables: &DetectorTables) {
    let chips = super::run::chips_of_lanes(tables);
    let slots: std::collections::BTreeSet<usize> = parts
        .iter()
        .filter(|of| is_single(of))
        .filter_map(Outlier::slot)
        .collect();
    for slot in slots {
        let n = chips.get(slot).map_or(0, ExactSizeIterator::len);
        // One chip of the lane may be missing: it is masked, or has too few hits to be judged.
        let least = if n > 2 { n - 1 } else { n };
        while let Some((at, members)) =
            take_alike(parts, least, |of| of.slot() == Some(slot) && is_single(of))
        {
            let whole = one_of(&members, Part::Lane);
            let lane = Outlier {
                lane: Some(slot % LANES_PER_BOARD),
                sector: members[0].sector,
                slots: Vec::new(),
                ..whole
            };
            // An outlier that the lane already has is not added again.
            if !parts
                .iter()
                .any(|of| of.part == Part::Lane && of.slot() == Some(slot) && of.kind == lane.kind)
            {
                parts.insert(at, lane);
            }
        }
    }
}

/// Joins lanes of a board that fail together into the board, or into a group of its lanes.
fn boards(parts: &mut Vec<Outlier>, tables: &DetectorTables) {
    let boards: std::collections::BTreeSet<usize> =
        parts.iter().filter_map(|of| of.board).collect();
    for board in boards {
        let slots = &tables.slots()[board * LANES_PER_BOARD..][..LANES_PER_BOARD];
        let n = slots.iter().filter(|slot| slot.chan_id != 0).count();
        let least = ((TOGETHER * n as f64).ceil() as usize).max(3);
        let pick = |of: &Outlier| of.part == Part::Lane && of.board == Some(board);
        while let Some((at, members)) = take_alike(parts, least, pick) {
            let mut one = one_of(
                &members,
                if members.len() == n {
                    Part::Board
                } else {
                    Part::Lanes
                },
            );
            if members.len() < n {
                one.detail = format!(
                    "{} of {} of board {board}",
                    members.len(),
                    count(n as u64, "lane")
                );
            }
            parts.insert(at, one);
        }
    }
}

/// Joins two lanes, each of which has the hits of the other, into a swap.
///
/// A swap looks like two unrelated faults, one lane quiet and another hot; but if each has the
/// number of hits that the other should have, two cables were exchanged. Hits of both lanes are
/// then at the wrong place, which neither line alone would say. Swaps last for the whole run, since
/// no one replugs cables in between.
fn swapped(parts: &mut Vec<Outlier>) {
    let is_like = |a: f64, b: f64| (a / b - 1.0).abs() < ALIKE;
    let lane = |of: &Outlier| of.part == Part::Lane && of.when == When::Throughout;
    loop {
        let pair = (0..parts.len()).find_map(|i| {
            let one = &parts[i];
            let other = (0..parts.len()).find(|&j| {
                let other = &parts[j];
                one.kind == OutlierKind::Quiet
                    && other.kind == OutlierKind::Hot
                    && lane(one)
                    && lane(other)
                    && is_like(one.seen, other.expected)
                    && is_like(other.seen, one.expected)
            })?;
            Some((i, other))
        });
        let Some((quiet, hot)) = pair else { return };
        let members = [parts[quiet].clone(), parts[hot].clone()];
        let mut one = one_of(&members, Part::Lanes);
        one.kind = OutlierKind::Swapped;
        one.board = None;
        (one.seen, one.expected) = (members[0].seen, members[0].expected);
        let name = |of: &Outlier| super::page::names::lane(of.slot().unwrap_or_default());
        one.detail = format!(
            "{} and {} have each other's hits",
            name(&members[0]),
            name(&members[1])
        );
        parts.remove(quiet.max(hot));
        parts[quiet.min(hot)] = one;
    }
}

/// Joins the two lanes of a sector that fail together into the sector.
fn sectors(parts: &mut Vec<Outlier>, tables: &DetectorTables) {
    let sectors: std::collections::BTreeSet<usize> = parts
        .iter()
        .filter(|of| of.part == Part::Lane)
        .filter_map(|of| of.sector)
        .collect();
    for sector in sectors {
        let is_here = |(_, slot): &(usize, &Slot)| usize::from(slot.sector) == sector;
        let n = tables.connected().filter(is_here).count();
        let pick = |of: &Outlier| of.part == Part::Lane && of.sector == Some(sector);
        while n > 1
            && let Some((at, members)) = take_alike(parts, n, pick)
        {
            parts.insert(
                at,
                Outlier {
                    sector: Some(sector),
                    ..one_of(&members, Part::Sector)
                },
            );
        }
    }
}

/// A place in the detector, from large to small.
fn places(lane: &Lane) -> [(u8, String); 5] {
    let layer = LAYERS[lane.layer as usize % 4];
    let side = if lane.side == 1 { 'A' } else { 'C' };
    let half = if lane.module >= 4 { "upper" } else { "lower" };
    [
        (0, "the detector".to_owned()),
        (1, format!("layer {layer}")),
        (2, format!("layer {layer}, {side} side")),
        (3, format!("layer {layer}, {side} side, {half} half")),
        (
            4,
            format!("layer {layer}, {side} side, stave {}", lane.stave),
        ),
    ]
}

/// Joins lanes that fail together in the same place, or in very large numbers, into one outlier.
///
/// The largest place wins in which at least [`MANY`] lanes and a share of [`TOGETHER`] of all its
/// connected lanes fail: if 60 % of a layer fails, the layer is named and not each of its staves.
/// Places are tried from the whole detector down to a stave, because the map is sorted by size.
fn structures(parts: &mut Vec<Outlier>, tables: &DetectorTables) {
    let mut sizes: BTreeMap<(u8, String), usize> = BTreeMap::new();
    let lanes = &tables.boards().lanes;
    for place in tables.connected().flat_map(|(i, _)| places(&lanes[i])) {
        *sizes.entry(place).or_default() += 1;
    }
    let is_lane = |of: &Outlier| {
        of.part != Part::Strip && of.part != Part::Chip && of.kind != OutlierKind::Swapped
    };
    let mut at = 0;
    while at < parts.len() {
        let of = parts[at].clone();
        let alike = |other: &Outlier| {
            is_lane(other)
                && of.kind == other.kind
                && of.when.is_like(&other.when)
                && is_detail(&of, other)
        };
        let members: Vec<usize> = (at..parts.len())
            .filter(|&i| is_lane(&of) && alike(&parts[i]))
            .collect();
        if let Some((chosen, text)) = structure(parts, members, &sizes, &tables.boards().lanes) {
            let all: Vec<Outlier> = chosen.iter().map(|&i| parts[i].clone()).collect();
            let detail = if of.detail.is_empty() || of.part == Part::Lanes {
                text
            } else {
                format!("{text}: {}", of.detail)
            };
            for i in chosen.iter().rev() {
                parts.remove(*i);
            }
            let one = Outlier {
                board: None,
                detail,
                ..one_of(&all, Part::Lanes)
            };
            parts.insert(at.min(parts.len()), one);
        }
        at += 1;
    }
}

/// Returns the lanes, among lanes given as places in `parts`, that form one outlier, and its kind
/// of part; `sizes` are the numbers of lanes by place in the detector.
fn structure(
    parts: &[Outlier],
    members: Vec<usize>,
    sizes: &BTreeMap<(u8, String), usize>,
    lanes: &[Lane],
) -> Option<(Vec<usize>, String)> {
    let slots_of = |members: &[usize]| {
        let slots = members.iter().flat_map(|&i| parts[i].all_slots());
        slots.collect::<Vec<usize>>()
    };
    let slots = slots_of(&members);
    if slots.len() < MANY || members.len() < 2 {
        return None;
    }
    let mut here: BTreeMap<(u8, String), usize> = BTreeMap::new();
    for place in slots.iter().flat_map(|&slot| places(&lanes[slot])) {
        *here.entry(place).or_default() += 1;
    }
    let fills = |place: &&(u8, String)| {
        here[*place] >= MANY && here[*place] as f64 >= TOGETHER * sizes[*place] as f64
    };
    if let Some(place) = here.keys().find(fills) {
        let is_at = |slot: &usize| places(&lanes[*slot]).contains(place);
        let chosen = members
            .into_iter()
            .filter(|&i| parts[i].all_slots().iter().all(is_at));
        let chosen: Vec<usize> = chosen.collect();
        let all = count(sizes[place] as u64, "lane");
        let text = format!("{} of {all} of {}", slots_of(&chosen).len(), place.1);
        return (chosen.len() >= 2).then_some((chosen, text));
    }
    let mut boards: Vec<usize> = slots.iter().map(|slot| slot / LANES_PER_BOARD).collect();
    boards.sort_unstable();
    boards.dedup();
    let [lanes, boards] =
        [(slots.len(), "lane"), (boards.len(), "board")].map(|(n, what)| count(n as u64, what));
    (members.len() >= ALL).then(|| (members, format!("{lanes} of {boards}")))
}

/// Returns true if two say the same in words, but for lanes that they count.
fn is_detail(one: &Outlier, other: &Outlier) -> bool {
    let words = |of: &Outlier| {
        if of.part == Part::Lanes {
            String::new()
        } else {
            of.detail.clone()
        }
    };
    words(one) == words(other)
}
