//! The same data twice: a hash of the content of each event, and a sketch of the hashes of a run.

use std::fmt;
use std::ops::ControlFlow;

use super::{LostPart, UtHits, whole};
use crate::hash;
use crate::input::{BatchView, each_bank, kind};

/// Minimum number of hits of an event to compare: events with fewer may be equal by chance.
const LEAST_HITS: usize = 8;

/// Maximum number of hits hashed per event. 64 hits, evenly spaced, sample the whole detector.
const HASHED_HITS: usize = 64;

/// Number of bytes of a word of a bank. The rest of the bank is not hashed: it may be padding, of
/// which containers keep more or less.
const WORD: usize = 8;

/// Maximum number of bank words hashed per event, not counting the words of empty banks.
const HASHED_WORDS: usize = 64;

/// Number of words of a bank without hits.
const EMPTY_BANK: usize = 3;

/// Maximum number of words hashed per bank.
const BANK: usize = 32;

/// Maximum number of hashes in a sketch.
const KEPT: usize = 1 << 16;

/// Maximum number of hashes that wait to be merged into a sketch.
const WAITING: usize = 1 << 12;

/// Number of bits of an entry that count how often its hash came; the hash is in the others.
const COUNT_BITS: u32 = 16;
const COUNT: u64 = (1 << COUNT_BITS) - 1;

/// Returns the hash of each event of a batch that has enough hits: the same for the same UT banks
/// in the same order, with the same tables and options. `hits` are the hits of the batch, before a
/// mask.
pub fn hashes(batch: BatchView<'_>, hits: &UtHits) -> Vec<u64> {
    let ends = hits
        .offsets()
        .iter()
        .step_by(hits.n_groups().max(1))
        .map(|&end| end as usize);
    let events = ends
        .clone()
        .zip(ends.skip(1))
        .map(|(begin, end)| &hits.id()[begin..end]);
    events
        .enumerate()
        .filter_map(|(e, ids)| Some(of_event(batch, e, ids)).filter(|_| ids.len() >= LEAST_HITS))
        .collect()
}

/// Hashes one event from its hits and its banks. Hits sample the whole detector, but do not carry
/// the charge of each strip. The banks do, and they tell test pulses apart, which hit the same
/// strips in every event.
fn of_event(batch: BatchView<'_>, e: usize, ids: &[u32]) -> u64 {
    let step = ids.len().div_ceil(HASHED_HITS).max(1);
    let mut sum = hash(
        ids.iter()
            .step_by(step)
            .map(|&id| u64::from(id))
            .chain([ids.len() as u64]),
    );
    let mut left = HASHED_WORDS;
    let take = |bank: crate::input::Bank<'_>| {
        if !kind::is_decoded(bank.kind) {
            return ControlFlow::Continue(());
        }
        let words = bank.payload.chunks_exact(WORD);
        let content = words.len().saturating_sub(EMPTY_BANK);
        if content > 0 {
            let words = words.take(BANK).map(|word| {
                word.first_chunk()
                    .map_or(0, |&word| u64::from_le_bytes(word))
            });
            sum = hash(words.chain([sum, u64::from(bank.source_id)]));
        }
        left = left.saturating_sub(content);
        if left == 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    // Banks before the break in a broken event are hashed like the banks of any other event.
    let _ = each_bank(batch, batch.first_event + e, take);
    sum
}

/// Sketch of the hashes of a run's events, which tells how many came more than once: the least
/// 65,536, and how often each came. What leaves the sketch never comes back, so that the counts of
/// those that stay are exact.
///
/// It takes half a MiB, whatever the number of events. Sketches of the parts of a run can be
/// [merged](Self::merge) into a sketch of the run, in any order.
///
/// ```
/// use ut_data::hits::Repeats;
///
/// let (mut one, mut other) = (Repeats::default(), Repeats::default());
/// (0..60).for_each(|event| one.add(event << 32));
/// (40..100).for_each(|event| other.add(event << 32));
/// one.merge(&other);
/// assert_eq!(one.repeated().to_string(), "20 of 120 events (17 %)");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Repeats {
    events: u64,
    /// Hash and count of each entry, ascending, no hash twice.
    kept: Vec<u64>,
    /// Entries in any order.
    waiting: Vec<u64>,
}

/// Number of events that came more than once, of all events with at least 8 hits; the first of each
/// does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Repeated {
    /// Repeated events, of all.
    pub events: LostPart,
    /// True if the number is estimated from a part of the events.
    pub is_estimate: bool,
}

/// As `20 of 120 events (17 %)`, with `about` before an estimate.
impl fmt::Display for Repeated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LostPart { lost, of } = self.events;
        let (about, plural) = (
            if self.is_estimate { "about " } else { "" },
            if of == 1 { "" } else { "s" },
        );
        write!(
            f,
            "{about}{} of {} event{plural} ({})",
            whole(lost),
            whole(of),
            super::loss::percent(self.events)
        )
    }
}

impl Repeats {
    /// Adds the hash of an event.
    pub fn add(&mut self, hash: u64) {
        self.events = self.events.saturating_add(1);
        // An entry above the last entry of a full sketch has no place.
        if self
            .kept
            .get(KEPT - 1)
            .is_none_or(|last| hash <= last | COUNT)
        {
            self.waiting.push(hash & !COUNT | 1);
            if self.waiting.len() >= WAITING {
                self.settle();
            }
        }
    }

    /// Adds the sketch of other events.
    pub fn merge(&mut self, other: &Self) {
        self.events = self.events.saturating_add(other.events);
        self.waiting.extend(other.kept.iter().chain(&other.waiting));
        self.settle();
    }

    /// Puts the entries that wait into their places.
    #[expect(
        clippy::stable_sort_primitive,
        reason = "it merges two parts that are sorted, in linear time"
    )]
    fn settle(&mut self) {
        self.waiting.sort_unstable();
        self.kept.reserve_exact(self.waiting.len());
        self.kept.append(&mut self.waiting);
        self.kept.sort();
        self.kept.dedup_by(|later, first| {
            let is_same = (*later ^ *first) & !COUNT == 0;
            if is_same {
                *first = *first & !COUNT | ((*first & COUNT) + (*later & COUNT)).min(COUNT);
            }
            is_same
        });
        self.kept.truncate(KEPT);
        self.waiting.shrink_to(WAITING);
    }

    /// Returns how many events came more than once.
    pub fn repeated(&self) -> Repeated {
        let mut all = self.clone();
        all.settle();
        let counted: u64 = all.kept.iter().map(|entry| entry & COUNT).sum();
        let lost = counted - all.kept.len() as u64;
        let is_estimate = counted != self.events;
        let of_all =
            |n: u64| (n as f64 / counted.max(1) as f64 * self.events as f64).round() as u64;
        let lost = if is_estimate {
            of_all(lost).min(self.events)
        } else {
            lost
        };
        Repeated {
            events: LostPart {
                lost,
                of: self.events,
            },
            is_estimate,
        }
    }

    /// Returns the number of events, the steps from each kept hash to the next one, and how often
    /// each came.
    pub fn parts(&self) -> (u64, Vec<u64>, Vec<u16>) {
        let mut all = self.clone();
        all.settle();
        let mut before = 0;
        let step = |entry: &u64| {
            let hash = entry >> COUNT_BITS;
            hash - std::mem::replace(&mut before, hash)
        };
        (
            self.events,
            all.kept.iter().map(step).collect(),
            all.kept.iter().map(|entry| *entry as u16).collect(),
        )
    }

    /// Returns the sketch of its [parts](Self::parts); `None` if they are none.
    pub fn of_parts((events, steps, counts): (u64, Vec<u64>, Vec<u16>)) -> Option<Self> {
        let mut before = 0_u64;
        let entry = |(i, (&step, &count)): (usize, (&u64, &u16))| {
            before = before
                .checked_add(step)
                .filter(|&hash| hash >> (u64::BITS - COUNT_BITS) == 0)?;
            ((i == 0 || step > 0) && count > 0).then_some(before << COUNT_BITS | u64::from(count))
        };
        let kept: Vec<u64> = steps
            .iter()
            .zip(&counts)
            .enumerate()
            .map(entry)
            .collect::<Option<_>>()?;
        let counted: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        let fits = steps.len() == counts.len() && steps.len() <= KEPT && counted <= events;
        fits.then_some(Self {
            events,
            kept,
            waiting: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sketch(hashes: impl IntoIterator<Item = u64>) -> Repeats {
        let mut sketch = Repeats::default();
        for hash in hashes {
            sketch.add(hash);
        }
        sketch
    }

    /// Hashes of events with these numbers.
    fn events(numbers: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
        numbers.map(|number| hash([number, 7]))
    }

    #[test]
    fn sketches_of_parts_merge_into_the_sketch_of_the_run_in_any_order() {
        const N: u64 = 150_000;
        let whole = sketch(events(0..N).chain(events(0..N / 4)));
        let parts = [
            sketch(events(0..N / 3)),
            sketch(events(N / 3..N)),
            sketch(events(0..N / 4)),
            sketch([]),
        ];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
            let mut sum = Repeats::default();
            for part in order {
                sum.merge(&parts[part]);
            }
            assert_eq!(sum.parts(), whole.parts());
        }
        let Repeated {
            events: LostPart { lost, of },
            is_estimate,
        } = whole.repeated();
        assert!(
            is_estimate && of == N + N / 4 && lost.abs_diff(N / 4) < N / 100,
            "{lost} of {of}"
        );
        assert!(whole.kept.len() == KEPT && whole.kept.capacity() <= KEPT + 2 * WAITING);
        assert!(whole.repeated().to_string().starts_with("about "));
        let read = Repeats::of_parts(whole.parts()).unwrap();
        assert_eq!(
            (read.parts(), read.repeated()),
            (whole.parts(), whole.repeated())
        );
    }

    #[test]
    fn only_equal_events_are_repeated_however_often_they_come() {
        let repeated =
            |sketch: Repeats| (sketch.repeated().events.lost, sketch.repeated().is_estimate);
        assert_eq!(repeated(sketch(events(0..100_000))), (0, true));
        assert_eq!(
            repeated(sketch(events(0..100).chain(events(0..100)))),
            (100, false)
        );
        assert_eq!(repeated(sketch([5 << 40; 3])), (2, false));
        // The count of an entry ends at its greatest.
        let mut many = sketch([7 << 40; 1000]);
        for _ in 0..7 {
            many.merge(&many.clone());
        }
        let (n, _, counts) = many.parts();
        assert_eq!((n, counts), (128_000, vec![u16::MAX]));
        assert_eq!(repeated(many).0, 127_998);
    }

    #[test]
    fn invalid_parts_of_a_sketch_are_refused() {
        for parts in [
            (1, vec![1, 1], vec![1, 1]),
            (2, vec![1, 0], vec![1, 1]),
            (2, vec![1, 1], vec![1]),
            (2, vec![1], vec![0]),
            (2, vec![1 << 48], vec![1]),
            (2, vec![u64::MAX, 2], vec![1, 1]),
            (u64::MAX, vec![1; KEPT + 1], vec![1; KEPT + 1]),
        ] {
            assert!(Repeats::of_parts(parts.clone()).is_none(), "{:?}", parts.0);
        }
        assert!(Repeats::of_parts((0, Vec::new(), Vec::new())).is_some());
    }
}
