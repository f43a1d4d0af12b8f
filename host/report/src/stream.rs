//! What stands out in the stream of banks: troubles, error banks, missing and repeated banks, and
//! what ODIN says.
//!
//! These findings come from the banks and not from the hits. They are certain where a bank says so
//! itself (an error bank, a bank that is too short), so that no significance is needed, only a
//! sensible way to list them: up to three boards get a line each, more get one line together.

use std::collections::BTreeMap;

use super::outlier::{Outlier, OutlierKind, Part};
use super::page::names::{count, short, whole};
use super::run::{BoardSum, CROSSINGS, OF_CROSSING, OdinState, RunView, Span};
use super::when::When;
use ut_data::input::{Crossing, kind};
use ut_data::{Count, DetectorTables};
use ut_format::bank::board_of;

/// Maximum number of boards with a trouble that get a line each.
///
/// If four boards have the same trouble, the cause is elsewhere: one line shows it better than
/// four.
const FEW: usize = 3;

/// Share of the boards that send a bank in every event, from which a missing bank is noticed.
///
/// In data in which boards without hits send nothing, a bank that is not there means nothing. There
/// is a rule to break only if nearly all boards send a bank in every event.
const COMPLETE: f64 = 0.9;

/// Minimum number of repeated banks of a board.
///
/// Two equal banks one after the other may be test pulses or chance. A board whose buffer is stuck
/// sends the same bank again and again.
const REPEATED: u64 = 3;

/// The crossings of the LHC, as ODIN numbers them.
const OF_LHC: std::ops::RangeInclusive<usize> = 1..=3564;

fn outlier(
    kind: OutlierKind,
    board: Option<usize>,
    seen: u64,
    when: When,
    detail: String,
) -> Outlier {
    let part = if board.is_some() {
        Part::Board
    } else {
        Part::Run
    };
    Outlier {
        board,
        seen: seen as f64,
        when,
        detail,
        ..Outlier::new(kind, part)
    }
}

/// Returns how many of all, in words.
pub fn of_all(n: u64, all: u64, what: &str) -> String {
    let percent = short(100.0 * n as f64 / all.max(1) as f64);
    format!("{} of {} ({percent} %)", whole(n), count(all, what))
}

/// Finds what stands out in the banks and in ODIN.
pub fn of_stream(view: &RunView, tables: &DetectorTables) -> Vec<Outlier> {
    let mut found = of_odin(view);
    found.extend(of_runs(view));
    found.extend(of_numbers(view));
    found.extend(of_crossings(view));
    found.extend(troubles(view));
    found.extend(errors(view));
    let in_use = |board: &usize| {
        tables
            .boards()
            .strips_per_hybrid
            .get(*board)
            .is_some_and(|&strips| strips != 0)
    };
    let boards: Vec<usize> = (0..view.boards.len()).filter(in_use).collect();
    found.extend(missing(view, &boards));
    for &board in &boards {
        let BoardSum { repeats, .. } = view.boards[board];
        if repeats >= REPEATED {
            let detail = format!(
                "the bank of the event before in {}",
                of_all(repeats, view.ut_events, "event")
            );
            let when = When::of_cases(view, |span| span.board(board).repeats);
            found.push(outlier(
                OutlierKind::Repeated,
                Some(board),
                repeats,
                when,
                detail,
            ));
        }
    }
    found
}

fn of_odin(view: &RunView) -> Vec<Outlier> {
    let mut found = Vec::new();
    let all: u64 = view.odin.values().sum();
    let with = |wanted: OdinState| {
        let of_state = view
            .odin
            .iter()
            .filter(move |((_, state), _)| *state == wanted);
        of_state
            .map(|((version, _), n)| (*version, *n))
            .collect::<Vec<_>>()
    };
    let mut add =
        |kind, n: u64, detail: String| found.push(outlier(kind, None, n, When::Unknown, detail));
    for (state, what) in [
        (OdinState::None, "no ODIN bank"),
        (OdinState::Short, "an ODIN bank that is too short"),
        (OdinState::Unknown, "an ODIN bank of unknown version"),
    ] {
        let of_state = with(state);
        let n: u64 = of_state.iter().map(|(_, n)| n).sum();
        let mut versions = of_state
            .iter()
            .filter_map(|(version, _)| version.map(|version| version.to_string()));
        let versions = if state == OdinState::Unknown {
            versions.by_ref().collect::<Vec<_>>().join(", ")
        } else {
            String::new()
        };
        if n > 0 {
            let detail = format!(
                "{what}{}{versions} in {}",
                if versions.is_empty() { "" } else { " " },
                of_all(n, all, "event")
            );
            add(OutlierKind::Odin, n, detail);
        }
    }
    found
}

/// Finds events of several runs in a file.
fn of_runs(view: &RunView) -> Option<Outlier> {
    if view.run_changes > 0 && view.runs.len() > 1 {
        let runs: Vec<String> = view
            .runs
            .iter()
            .take(5)
            .map(|(run, n)| format!("run {run}: {}", count(*n, "event")))
            .collect();
        let more = if view.runs.len() > 5 {
            ", and more"
        } else {
            ""
        };
        let detail = format!("in one file, {}{more}", runs.join(", "));
        return Some(outlier(
            OutlierKind::Runs,
            None,
            view.run_changes,
            When::Unknown,
            detail,
        ));
    }
    None
}

/// Finds event numbers that come again.
fn of_numbers(view: &RunView) -> Option<Outlier> {
    let sampled: u64 = view.sample.values().map(|(_, n)| n).sum();
    let repeated: u64 = view.sample.values().map(|(_, n)| n - 1).sum();
    if repeated > 0 {
        let numbers = view
            .sample
            .values()
            .filter(|(_, n)| *n > 1)
            .map(|(number, _)| *number);
        let (least, greatest) = (
            numbers.clone().min().unwrap_or_default(),
            numbers.max().unwrap_or_default(),
        );
        let which = if least == greatest {
            String::new()
        } else {
            format!(" to {}", whole(greatest))
        };
        let (n, all) = if sampled == view.events {
            (repeated, sampled)
        } else {
            (
                (repeated as f64 * view.events as f64 / sampled as f64).round() as u64,
                view.events,
            )
        };
        let about = if sampled == view.events { "" } else { "about " };
        let detail = format!(
            "{about}{}, with numbers from {}{which}",
            of_all(n, all, "event"),
            whole(least)
        );
        return Some(outlier(
            OutlierKind::Numbers,
            None,
            repeated,
            When::Unknown,
            detail,
        ));
    }
    None
}

/// Finds bunch crossings that the LHC does not have, and those of changing type.
fn of_crossings(view: &RunView) -> Vec<Outlier> {
    let mut found = Vec::new();
    let mut add =
        |kind, n: u64, detail: String| found.push(outlier(kind, None, n, When::Unknown, detail));
    let crossings: Vec<&[u64]> = view
        .crossings
        .chunks(OF_CROSSING)
        .map(|crossing| &crossing[..Crossing::ALL.len()])
        .collect();
    let events = |range: &mut dyn Iterator<Item = usize>| -> u64 {
        range
            .map(|crossing| {
                crossings
                    .get(crossing)
                    .map_or(0, |of| of.iter().sum::<u64>())
            })
            .sum()
    };
    let all = events(&mut (0..CROSSINGS));
    let outside = events(&mut (0..CROSSINGS).filter(|crossing| !OF_LHC.contains(crossing)));
    if outside > 0 {
        add(
            OutlierKind::Crossings,
            outside,
            format!("not from 1 to 3,564 in {}", of_all(outside, all, "event")),
        );
    }
    // A bunch crossing has one type during a fill.
    if view.runs.len() == 1 {
        let odd: u64 = crossings
            .iter()
            .map(|of| of.iter().sum::<u64>() - of.iter().max().unwrap_or(&0))
            .sum();
        let n = crossings
            .iter()
            .filter(|of| of.iter().filter(|n| **n > 0).count() > 1)
            .count() as u64;
        if odd > 0 {
            let detail = format!(
                "another type than usual at the same crossing in {}, of {}",
                of_all(odd, all, "event"),
                count(n, "crossing")
            );
            add(OutlierKind::Crossings, odd, detail);
        }
    }
    found
}

/// Returns the largest number's key, if it has most of the sum of all.
fn most(of: &BTreeMap<Option<usize>, u64>) -> Option<usize> {
    let (board, n) = of.iter().max_by_key(|(_, n)| **n)?;
    (10 * n >= 8 * of.values().sum::<u64>()).then_some(*board)?
}

/// Makes a line for each board with troubles, or for each kind that many boards have.
fn troubles(view: &RunView) -> Vec<Outlier> {
    let mut by_kind: BTreeMap<usize, BTreeMap<Option<usize>, u64>> = BTreeMap::new();
    for ((kind, board), sum) in &view.troubles {
        let board = board.map(|board| board as usize);
        *by_kind.entry(*kind).or_default().entry(board).or_default() += sum.count;
    }
    let name = |kind: usize| Count::ALL.get(kind).map_or("", |count| count.name());
    let mut by_board: BTreeMap<usize, Vec<(usize, u64)>> = BTreeMap::new();
    let mut found = Vec::new();
    for (kind, mut boards) in by_kind {
        let main = if boards.len() > FEW {
            most(&boards)
        } else {
            None
        };
        if let Some(n) = main.and_then(|board| boards.remove(&Some(board))) {
            by_board
                .entry(main.unwrap_or_default())
                .or_default()
                .push((kind, n));
        }
        if boards.len() <= FEW {
            boards.retain(|board, n| {
                board.is_none_or(|board| {
                    by_board.entry(board).or_default().push((kind, *n));
                    false
                })
            });
        }
        let n: u64 = boards.values().sum();
        if n > 0 {
            let when = When::of_cases(view, |span| {
                span.counts.get(kind).copied().unwrap_or_default()
            });
            let of = boards.keys().flatten().count() as u64;
            let of = if of > 0 {
                format!(" of {}", count(of, "board"))
            } else {
                String::new()
            };
            found.push(outlier(
                OutlierKind::Troubles,
                None,
                n,
                when,
                format!("{} {}{of}", whole(n), name(kind)),
            ));
        }
    }
    for (board, kinds) in by_board {
        let n: u64 = kinds.iter().map(|(_, n)| n).sum();
        let kinds: Vec<String> = kinds
            .iter()
            .map(|(kind, n)| format!("{} {}", whole(*n), name(*kind)))
            .collect();
        let banks = view.boards.get(board).map_or(0, |sum| sum.banks);
        let detail = if banks > 0 {
            format!("{} of {}", kinds.join(", "), count(banks, "bank"))
        } else {
            kinds.join(", ")
        };
        let when = When::of_cases(view, |span| span.board(board).troubles);
        found.push(outlier(OutlierKind::Troubles, Some(board), n, when, detail));
    }
    found
}

/// Makes a line for each board with error banks, or for each type that many boards have.
fn errors(view: &RunView) -> Vec<Outlier> {
    let mut by_type: BTreeMap<u8, BTreeMap<Option<usize>, u64>> = BTreeMap::new();
    for (&(of, source), &n) in &view.error_banks {
        let board = board_of(source)
            .map(|board| board as usize)
            .filter(|&board| board < view.boards.len());
        *by_type.entry(of).or_default().entry(board).or_default() += n;
    }
    let mut found = Vec::new();
    for (of, mut boards) in by_type {
        let name = kind::name(of);
        let main = if boards.len() > FEW {
            most(&boards)
        } else {
            None
        };
        let mut single: Vec<(usize, u64)> = Vec::new();
        single.extend(main.and_then(|board| Some((board, boards.remove(&Some(board))?))));
        if boards.len() <= FEW {
            single.extend(boards.iter().filter_map(|(board, n)| Some(((*board)?, *n))));
            boards.retain(|board, _| board.is_none());
        }
        for (board, n) in single {
            let detail = format!("{name} in {}", of_all(n, view.events, "event"));
            let when = When::of_cases(view, |span| span.board(board).errors);
            found.push(outlier(OutlierKind::Errors, Some(board), n, when, detail));
        }
        let n: u64 = boards.values().sum();
        if n > 0 {
            let detail = format!(
                "{} {name} of {}",
                whole(n),
                count(boards.len() as u64, "board")
            );
            found.push(outlier(
                OutlierKind::Errors,
                None,
                n,
                When::of_cases(view, |span| span.error_banks),
                detail,
            ));
        }
    }
    found
}

/// Finds boards of which banks are missing, if nearly all boards send one in every event.
fn missing(view: &RunView, boards: &[usize]) -> Vec<Outlier> {
    let lacks = |board: usize| view.ut_events.saturating_sub(view.boards[board].banks);
    let complete = boards.iter().filter(|&&board| lacks(board) == 0).count();
    // It is not a fault if all or part of the read-out leaves empty banks out.
    let mostly = boards
        .iter()
        .filter(|&&board| 100 * lacks(board) <= view.ut_events)
        .count();
    if (complete.max(mostly) as f64) < COMPLETE / 2.0 * boards.len() as f64 || view.ut_events == 0 {
        return Vec::new();
    }
    let of_span =
        |span: &Span, board: usize| span.ut_events.saturating_sub(span.board(board).banks);
    let mut lacking: Vec<usize> = boards
        .iter()
        .copied()
        .filter(|&board| lacks(board) > 0)
        .collect();
    let mut found = Vec::new();
    if lacking.len() > FEW {
        let n: u64 = lacking.iter().map(|&board| lacks(board)).sum();
        let when = When::of_cases(view, |span| {
            lacking.iter().map(|&board| of_span(span, board)).sum()
        });
        let detail = format!(
            "{} of {}",
            count(n, "bank"),
            count(lacking.len() as u64, "board")
        );
        found.push(outlier(OutlierKind::Missing, None, n, when, detail));
        lacking.clear();
    }
    for board in lacking {
        let n = lacks(board);
        let detail = format!("no bank in {}", of_all(n, view.ut_events, "event"));
        let when = When::of_cases(view, |span| of_span(span, board));
        found.push(outlier(OutlierKind::Missing, Some(board), n, when, detail));
    }
    found
}
