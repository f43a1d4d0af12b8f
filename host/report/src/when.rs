//! Times in a run: in events, and where ODIN has one, on the clock.

use std::fmt::Write as _;
use std::ops::Range;

use super::bins::both;
use super::page::names::whole;
use super::run::{Against, RunView, Span};
use ut_data::input::utc;

/// A stretch of events: numbers of the first and the last one, and their times in microseconds
/// since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First and last number on the axis of time.
    pub numbers: (u64, u64),
    /// Time of the first and of the last event; `None` where ODIN has none.
    pub times: Option<(u64, u64)>,
}

/// Events of a fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// Not known.
    #[default]
    Unknown,
    /// From the first event to the last.
    Throughout,
    /// In these stretches, in order.
    In(Vec<Window>),
}

/// Maximum number of windows to name in a text.
const NAMED: usize = 3;

/// Expected number of cases in a gap above which the gap is not chance.
///
/// If cases come at random and ten would be expected in a gap, the chance of none is e⁻¹⁰, or 5 ·
/// 10⁻⁵.
const GAP: f64 = 10.0;

impl When {
    /// Makes the times of some ranges of bins. All bins with events together are the whole run.
    pub fn of(view: &RunView, ranges: impl IntoIterator<Item = Range<usize>>) -> Self {
        let spans: Vec<&Span> = view.spans.iter().map(|(_, span)| span).collect();
        let first = spans
            .iter()
            .position(|span| span.events > 0)
            .unwrap_or_default();
        let last = spans
            .iter()
            .rposition(|span| span.events > 0)
            .unwrap_or_default();
        let mut windows = Vec::new();
        for range in ranges {
            if range.start <= first && range.end > last {
                return Self::Throughout;
            }
            let spans = spans.get(range).unwrap_or_default();
            let numbers = spans.iter().fold(None, |all, span| both(all, span.numbers));
            let times = spans.iter().fold(None, |all, span| both(all, span.times));
            windows.extend(numbers.map(|numbers| Window { numbers, times }));
        }
        if windows.is_empty() {
            Self::Unknown
        } else {
            Self::In(windows)
        }
    }

    /// Makes the times of cases of which some come in each bin: stretches whose gaps may be chance.
    pub fn of_cases(view: &RunView, cases: impl Fn(&Span) -> u64) -> Self {
        let spans: Vec<(u64, u64)> = view
            .spans
            .iter()
            .map(|(_, span)| (span.events, cases(span)))
            .collect();
        let mut found = Vec::new();
        split(&spans, 0..spans.len(), &mut found);
        Self::of(view, found)
    }

    /// Returns true if two faults overlap in time, at least for some events.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::In(one), Self::In(other)) => one.iter().any(|a| {
                other
                    .iter()
                    .any(|b| a.numbers.0 <= b.numbers.1 && b.numbers.0 <= a.numbers.1)
            }),
            (Self::Unknown, _) | (_, Self::Unknown) => false,
            _ => true,
        }
    }

    /// Returns true if two may be at the same time.
    pub fn may_overlap(&self, other: &Self) -> bool {
        *self == Self::Unknown || *other == Self::Unknown || self.overlaps(other)
    }

    /// Returns the first and the last number of the events.
    pub fn hull(&self) -> Option<(u64, u64)> {
        match self {
            Self::In(windows) => Some((windows.first()?.numbers.0, windows.last()?.numbers.1)),
            _ => None,
        }
    }

    /// Returns true if two begin and end at about the same time.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self.hull(), other.hull()) {
            (Some(a), Some(b)) => {
                let common = (a.1.min(b.1) as f64 - a.0.max(b.0) as f64 + 1.0).max(0.0);
                let all = a.1.max(b.1) as f64 - a.0.min(b.0) as f64 + 1.0;
                common >= 0.6 * all
            }
            (None, None) => true,
            _ => false,
        }
    }

    /// Returns true if this lies for the most part within another.
    pub fn is_within(&self, other: &Self) -> bool {
        match (self.hull(), other.hull()) {
            (_, None) => *other == Self::Throughout,
            (None, Some(_)) => false,
            (Some(a), Some(b)) => {
                let common = (a.1.min(b.1) as f64 - a.0.max(b.0) as f64 + 1.0).max(0.0);
                common >= 0.5 * (a.1 - a.0) as f64 + 0.5
            }
        }
    }

    /// Adds the windows of another, and joins those that touch.
    pub fn join(&mut self, other: &Self) {
        let (Self::In(mine), Self::In(theirs)) = (&mut *self, other) else {
            if *other == Self::Throughout || *self == Self::Unknown {
                self.clone_from(other);
            }
            return;
        };
        mine.extend(theirs.iter().copied());
        mine.sort_by_key(|window| window.numbers);
        let mut joined: Vec<Window> = Vec::new();
        for window in mine.drain(..) {
            match joined.last_mut() {
                Some(last) if window.numbers.0 <= last.numbers.1.saturating_add(1) => {
                    last.numbers.1 = last.numbers.1.max(window.numbers.1);
                    last.times = both(last.times, window.times);
                }
                _ => joined.push(window),
            }
        }
        *mine = joined;
    }

    /// Returns the times in words; empty where they are not known.
    pub fn text(&self, view: &RunView) -> String {
        let windows = match self {
            Self::Unknown => return String::new(),
            Self::Throughout => return "throughout the run".to_owned(),
            Self::In(windows) => windows,
        };
        let end = view.numbers().map(|(_, last)| last);
        let mut text = String::new();
        for (
            i,
            Window {
                numbers: (first, last),
                times,
            },
        ) in windows.iter().take(NAMED).enumerate()
        {
            text += match i {
                0 if first == last => "in ",
                0 => "between ",
                _ => ", and ",
            };
            text += match (i, view.against, first == last) {
                (0, Against::Number, true) => "event ",
                (0, Against::Number, false) => "events ",
                (0, Against::Place, true) => "the event at place ",
                (0, Against::Place, false) => "the events at places ",
                _ => "",
            };
            text += &whole(*first);
            if first < last {
                let _ = write!(text, " and {}", whole(*last));
            }
            if Some(*last) == end && first < last {
                text += ", the last";
            }
            if let Some((from, to)) = times {
                let _ = write!(text, " ({})", clock(*from, *to));
            }
        }
        if windows.len() > NAMED {
            let _ = write!(text, ", and {} more times", windows.len() - NAMED);
        }
        text
    }
}

/// Returns two times: dates only where they differ.
fn clock(from: u64, to: u64) -> String {
    let [from, to] = [from, to].map(utc);
    // Up to hundredths of a second.
    let (date, of_from, of_to) = (&from[..10], &from[11..22], &to[11..22]);
    if date == &to[..10] {
        format!("{of_from} to {of_to}")
    } else {
        format!("{date} {of_from} to {} {of_to}", &to[..10])
    }
}

/// Splits a range of bins with their events and cases at gaps that are too long for chance.
fn split(bins: &[(u64, u64)], range: Range<usize>, found: &mut Vec<Range<usize>>) {
    let has = |at: &usize| bins[*at].1 > 0;
    let Some(mut first) = range.clone().find(has) else {
        return;
    };
    let mut last = range.clone().rev().find(has).unwrap_or(first);
    let cases = bins[first..=last].iter().map(|bin| bin.1).sum::<u64>() as f64;
    let events = bins[first..=last]
        .iter()
        .map(|bin| bin.0)
        .sum::<u64>()
        .max(1) as f64;
    let rate = cases / events;
    let (mut at, mut widest) = (first, (0.0, 0..0));
    while at <= last {
        let gap = bins[at..=last].iter().take_while(|bin| bin.1 == 0).count();
        let expected = rate
            * bins[at..at + gap]
                .iter()
                .map(|bin| bin.0 as f64)
                .sum::<f64>();
        if expected > widest.0 {
            widest = (expected, at..at + gap);
        }
        at += gap.max(1);
    }
    if widest.0 > GAP {
        split(bins, range.start..widest.1.start, found);
        split(bins, widest.1.end..range.end, found);
        return;
    }
    // Before the first and after the last case there may be none by chance.
    let expected =
        |range: Range<usize>| rate * bins[range].iter().map(|bin| bin.0 as f64).sum::<f64>();
    if cases >= GAP && range == (0..bins.len()) {
        if expected(0..first) < GAP / 2.0 {
            first = 0;
        }
        if expected(last + 1..bins.len()) < GAP / 2.0 {
            last = bins.len() - 1;
        }
    }
    found.push(first..last + 1);
}
