//! Checks of views that were read from files, which may hold anything.
//!
//! A file of sums can be truncated, edited, or made by hostile hands. Everything that later code
//! takes for granted is checked here, once, when the file is read: lengths of lists agree with the
//! tables, numbers are small enough that views can be added without overflow, ranges are in order.
//! A view that passes cannot make drawing or adding panic.

use super::Bins;
use super::bins::MOST;
use super::run::Stretch;
use super::run::{BoardSum, N_CHIPS, NAMED_RUNS, RunView, SAMPLE, Span};
use super::stretch::MOST as MOST_STRETCHES;
use ut_data::detector::DetectorTables;
use ut_data::input::kind;
use ut_format::report::N_COUNTS;

/// Largest sum of the numbers of a list, so that the bins of two views are added without overflow.
const MOST_IN_ALL: u128 = 1 << 55;

/// Number of boards that a sourceID can name.
const BOARDS: u32 = 1 << 11;

fn can_be_added<'a>(numbers: impl IntoIterator<Item = &'a u64>) -> bool {
    numbers.into_iter().map(|&n| u128::from(n)).sum::<u128>() <= MOST_IN_ALL
}

impl RunView {
    /// Returns true if this can be a view of a detector with these tables: every list has its
    /// length, and no number is so large that sums overflow. All views of a
    /// [`RunFiller`](super::RunFiller) are.
    pub fn is_of(&self, tables: &DetectorTables) -> bool {
        let mut fits = true;
        Self::new(tables, self.against).with_lists_of(self, |empty, list| {
            fits &= empty.len() == list.len() && can_be_added(list);
        });
        let n_boards = tables.boards().n_boards();
        let boards_fit = |boards: &[BoardSum]| {
            can_be_added(
                boards
                    .iter()
                    .flat_map(BoardSum::numbers)
                    .collect::<Vec<_>>()
                    .iter(),
            )
        };
        // Keys that are bounded bound the length.
        let is_error_bank = |&(of, source): &(u8, u32)| {
            (of == kind::UT_ERROR || kind::is_daq_error(of)) && source < 1 << 16
        };
        let of_span = |(key, span): (u64, &Span)| {
            let inside = |(least, greatest)| {
                key <= least && least <= greatest && greatest - key < self.spans.width()
            };
            [&span.chips, &span.charge]
                .into_iter()
                .all(|list| list.is_empty() || list.len() == N_CHIPS)
                && (span.counts.is_empty()
                    || span.counts.len() == N_COUNTS && can_be_added(&span.counts))
                && span.numbers.is_none_or(inside)
                && can_be_added([
                    &span.events,
                    &span.ut_events,
                    &span.squares,
                    &span.error_banks,
                ])
                && (span.boards.is_empty() || span.boards.len() == n_boards)
                && boards_fit(&span.boards)
        };
        let heads = |stretch: &Stretch| [stretch.head.len(), stretch.tail.len()] == [n_boards; 2];
        fits && can_be_added([&self.events, &self.hits, &self.clusters])
            && self
                .hits_of_event
                .iter()
                .all(|bins| bins.is_sound() && can_be_added(bins.iter().map(|(_, n)| n)))
            && self.spans.is_sound()
            && self.spans.iter().all(of_span)
            && self
                .troubles
                .keys()
                .all(|(kind, board)| *kind < N_COUNTS && board.is_none_or(|board| board < BOARDS))
            && can_be_added(self.troubles.values().map(|trouble| &trouble.count))
            && self.error_banks.keys().all(is_error_bank)
            && can_be_added(self.error_banks.values())
            && self.runs.len() <= NAMED_RUNS
            && self.boards.len() == n_boards
            && boards_fit(&self.boards)
            && self.sample.len() <= SAMPLE
            && self.stretches.len() <= MOST_STRETCHES
            && self.stretches.iter().all(heads)
            && can_be_added([&self.ut_events, &self.run_changes])
            && can_be_added(self.runs.values())
            && can_be_added(self.odin.values())
            && can_be_added(self.sample.values().map(|(_, n)| n))
    }
}

impl<T> Bins<T> {
    /// Returns true if there are not too many bins, and all keys fit into a number.
    fn is_sound(&self) -> bool {
        let (shift, first, n) = self.place();
        // Without bins, too, the width is used.
        shift < u64::BITS
            && (n == 0
                || n <= MOST
                    && first
                        .checked_add(n as u64 - 1)
                        .is_some_and(|last| last <= u64::MAX >> shift))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Against, TroubleSum};
    use ut_data::detector::BankVersion;
    use ut_data::{Grouping, synth};

    /// A span as serde writes it.
    const SPAN: &str = r#"{"events":1,"ut_events":1,"numbers":null,"times":null,"squares":0,"chips":[],
        "charge":[],"counts":[],"error_banks":0,"boards":[]}"#;

    #[test]
    fn a_modified_view_is_refused() {
        let (boards, geometry) = synth::detector(BankVersion::V5, 1);
        let tables = DetectorTables::new(boards, geometry, Grouping::YRows).unwrap();
        let good = || {
            let mut view = RunView::new(&tables, Against::Number);
            *view.spans.at(7) = Span {
                events: 1,
                chips: vec![1; N_CHIPS],
                ..Span::default()
            };
            view
        };
        assert!(good().is_of(&tables));
        let changes: &[fn(&mut RunView)] = &[
            |view| view.strips.truncate(7),
            |view| view.charge[3] = u64::MAX,
            |view| view.charge.fill(1 << 55),
            |view| view.hits = u64::MAX,
            |view| view.size_of_layer[2].clear(),
            |view| *view.hits_of_event[4].at(0) = u64::MAX,
            |view| view.spans.at(7).events = u64::MAX,
            |view| view.spans.at(7).charge.push(1),
            |view| view.spans.at(7).chips.truncate(8),
            |view| view.spans.at(7).boards.push(BoardSum::default()),
            |view| view.boards.truncate(5),
            |view| view.boards[2].bytes = u64::MAX,
            |view| view.sample = (0..=SAMPLE as u64).map(|hash| (hash, (1, 1))).collect(),
            |view| view.spans.at(7).numbers = Some((7, 8)),
            |view| view.spans.at(7).numbers = Some((7, 6)),
            |view| view.spans.at(7).error_banks = u64::MAX,
            |view| {
                view.spans =
                    serde_json::from_str(&format!(r#"{{"shift":64,"first":0,"row":[{SPAN}]}}"#))
                        .unwrap();
            },
            |view| {
                view.troubles
                    .extend([((1000, None), TroubleSum { count: 1, first: 0 })]);
            },
            |view| {
                view.troubles.extend([(
                    (1, None),
                    TroubleSum {
                        count: u64::MAX,
                        first: 0,
                    },
                )]);
            },
            |view| {
                view.troubles
                    .extend([((1, Some(BOARDS)), TroubleSum { count: 1, first: 0 })]);
            },
            |view| view.error_banks.extend([((68, 1), u64::MAX)]),
            |view| view.error_banks.extend([((68, 1 << 16), 1)]),
            |view| view.error_banks.extend([((66, 1), 1)]),
            |view| view.runs = (0..=NAMED_RUNS as u32).map(|run| (run, 1)).collect(),
        ];
        for (i, change) in changes.iter().enumerate() {
            let mut view = good();
            change(&mut view);
            assert!(!view.is_of(&tables), "change {i}");
        }
        for bins in [
            r#"{"shift":64,"first":0,"row":[1]}"#,
            r#"{"shift":200,"first":0,"row":[]}"#,
            r#"{"shift":63,"first":2,"row":[1]}"#,
            r#"{"shift":0,"first":18446744073709551615,"row":[1,1]}"#,
            &format!(r#"{{"shift":0,"first":0,"row":{:?}}}"#, [1; MOST + 1]),
        ] {
            let bins: Bins<u64> = serde_json::from_str(bins).unwrap();
            assert!(!bins.is_sound(), "{bins:?}");
        }
    }
}
