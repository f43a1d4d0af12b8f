//! Checks of views that were read from files, which may hold anything.

use super::Bins;
use super::bins::MOST;
use super::run::{CHARGES, LANE_HITS, RunView, SIZES, Span};
use ut_data::detector::{DetectorTables, N_LAYERS, N_SECTORS, STRIPS_PER_SECTOR};
use ut_data::input::kind;
use ut_kernels::report::N_COUNTS;

/// Largest sum of the numbers of one kind, so that nothing overflows.
const MOST_IN_ALL: u128 = 1 << 62;

/// Most runs that a view names.
const RUNS: usize = 64;

/// Boards that a sourceID can name.
const BOARDS: u32 = 1 << 11;

const fn is_board(board: u32) -> bool {
    board < BOARDS
}

/// Returns true if these are `n` numbers that can be added.
fn fits(numbers: &[u64], n: usize) -> bool {
    numbers.len() == n && can_be_added(numbers.iter().copied())
}

fn can_be_added(numbers: impl Iterator<Item = u64>) -> bool {
    numbers.map(u128::from).sum::<u128>() <= MOST_IN_ALL
}

impl RunView {
    /// Returns true if this can be a view of a detector with these tables: every list has its length, and no number is
    /// so large that sums overflow. All views of a [`RunFiller`](super::RunFiller) are.
    pub fn is_of(&self, tables: &DetectorTables) -> bool {
        let slots = tables.slots().len();
        // Layers are added up where runs are compared.
        let layered = |rows: &[Vec<u64>], n: usize| {
            rows.len() == N_LAYERS
                && rows.iter().all(|row| row.len() == n)
                && can_be_added(rows.iter().flatten().copied())
        };
        // Keys that are bounded and in order bound the length.
        let is_error_bank =
            |&(of, source, _): &(u8, u32, u64)| (of == kind::UT_ERROR || kind::is_daq_error(of)) && source < 1 << 16;
        let of_span = |(key, span): (u64, &Span)| {
            let inside = |(least, greatest)| key <= least && least <= greatest && greatest - key < self.spans.width();
            let lists = [(&span.lanes, slots), (&span.charge, slots), (&span.counts, N_COUNTS)];
            lists.into_iter().all(|(list, n)| list.is_empty() || fits(list, n))
                && span.numbers.is_none_or(inside)
                && can_be_added(span.error_banks.values().copied())
                && span.error_banks.keys().all(|board| is_board(*board))
        };
        can_be_added([self.events, self.hits, self.clusters].into_iter())
            && fits(&self.counts, N_COUNTS)
            && fits(&self.events_with, N_COUNTS)
            && fits(&self.strips, N_SECTORS * STRIPS_PER_SECTOR as usize)
            && fits(&self.lanes, slots)
            && fits(&self.lane_squares, slots)
            && fits(&self.charge, N_SECTORS)
            && fits(&self.charge_squares, N_SECTORS)
            && fits(&self.sizes, N_SECTORS)
            && layered(&self.charge_of_layer, CHARGES)
            && layered(&self.size_of_layer, SIZES)
            && layered(&self.lane_hits_of_layer, LANE_HITS)
            && self.hits_of_event.len() == N_LAYERS + 1
            && self.hits_of_event.iter().all(|bins| bins.is_sound() && can_be_added(bins.iter().map(|(_, n)| *n)))
            && self.spans.is_sound()
            && self.spans.iter().all(of_span)
            && can_be_added(self.spans.iter().map(|(_, span)| span.events))
            // A board's hits are added up over neighbouring bins.
            && can_be_added(self.spans.iter().flat_map(|(_, span)| span.lanes.iter().copied()))
            && can_be_added(self.spans.iter().flat_map(|(_, span)| span.charge.iter().copied()))
            && self.troubles.iter().all(|trouble| trouble.kind < N_COUNTS && trouble.board.is_none_or(is_board))
            && self.troubles.is_sorted_by(|a, b| (a.kind, a.board) < (b.kind, b.board))
            && can_be_added(self.troubles.iter().map(|trouble| trouble.count))
            && self.error_banks.iter().all(is_error_bank)
            && self.error_banks.is_sorted_by(|a, b| (a.0, a.1) < (b.0, b.1))
            && can_be_added(self.error_banks.iter().map(|bank| bank.2))
            && self.runs.len() <= RUNS
            && self.runs.is_sorted()
    }
}

impl<T> Bins<T> {
    /// Returns true if there are not too many bins, and all keys fit into a number.
    fn is_sound(&self) -> bool {
        let (shift, first, n) = self.place();
        // Without bins, too, the width is used.
        shift < u64::BITS
            && (n == 0 || n <= MOST && first.checked_add(n as u64 - 1).is_some_and(|last| last <= u64::MAX >> shift))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Against, RunFiller, TroubleSum};
    use ut_data::detector::BankVersion;
    use ut_data::{Grouping, synth};

    /// A span as serde writes it.
    const SPAN: &str = r#"{"events":1,"numbers":null,"lanes":[],"charge":[],"counts":[],"error_banks":{}}"#;

    fn trouble(kind: usize, count: u64) -> TroubleSum {
        TroubleSum { kind, board: None, count, first: 0 }
    }

    #[test]
    fn a_view_that_was_changed_is_none_of_the_detector() {
        let (boards, geometry) = synth::detector(BankVersion::V5, 1);
        let tables = DetectorTables::new(boards, geometry, Grouping::YRows).unwrap();
        let good = || {
            let mut view = RunFiller::new(&tables, Against::Number).finish();
            *view.spans.at(7) = Span { events: 1, lanes: vec![1; tables.slots().len()], ..Span::default() };
            view
        };
        assert!(good().is_of(&tables));
        let changes: &[fn(&mut RunView)] = &[
            |view| view.strips.truncate(7),
            |view| view.lanes.push(0),
            |view| view.charge[3] = u64::MAX,
            |view| view.charge.fill(1 << 60),
            |view| view.hits = u64::MAX,
            |view| view.charge_of_layer.clear(),
            |view| view.charge_of_layer.iter_mut().for_each(|bins| bins[3] = 1 << 62),
            |view| view.size_of_layer[2].clear(),
            |view| drop(view.hits_of_event.pop()),
            |view| view.spans.at(7).lanes.truncate(1),
            |view| view.spans.at(7).charge.push(1),
            |view| view.counts.clear(),
            |view| view.runs = vec![2, 1],
            |view| view.troubles.push(trouble(1000, 1)),
            |view| view.events_with.clear(),
            |view| view.charge_squares[3] = u64::MAX,
            |view| view.sizes.truncate(N_SECTORS - 1),
            |view| view.lane_squares.push(0),
            |view| view.lane_hits_of_layer[1].truncate(LANE_HITS - 1),
            |view| *view.hits_of_event[4].at(0) = u64::MAX,
            |view| view.spans.at(7).events = u64::MAX,
            |view| view.spans.at(7).lanes[0] = 1 << 62,
            |view| view.spans.at(7).counts = vec![0; 3],
            |view| view.spans.at(7).numbers = Some((7, 8)),
            |view| view.spans.at(7).numbers = Some((7, 6)),
            |view| view.spans.at(7).counts = vec![1 << 62; N_COUNTS],
            |view| view.spans.at(7).error_banks.extend([(3, u64::MAX)]),
            |view| view.spans.at(7).error_banks.extend([(BOARDS, 1)]),
            |view| (0..3).for_each(|key| view.spans.at(key).lanes = vec![1 << 51; view.lanes.len()]),
            |view| view.spans = serde_json::from_str(&format!(r#"{{"shift":64,"first":0,"row":[{SPAN}]}}"#)).unwrap(),
            |view| view.troubles = vec![trouble(2, 1), trouble(1, 1)],
            |view| view.troubles = vec![trouble(1, u64::MAX)],
            |view| view.troubles = vec![TroubleSum { board: Some(BOARDS), ..trouble(1, 1) }],
            |view| view.error_banks = vec![(68, 2, 1), (68, 1, 1)],
            |view| view.error_banks = vec![(68, 1, u64::MAX)],
            |view| view.error_banks = vec![(68, 1 << 16, 1)],
            |view| view.error_banks = vec![(66, 1, 1)],
            |view| view.runs = (0..=RUNS as u32).collect(),
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
