//! Selection of events of the inputs.

use std::collections::BTreeSet;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use super::odin::{Crossing, Odin};
use super::seen::Seen;

const ALL: Range<u64> = 0..u64::MAX;

/// Selected events: by their place, counted over all inputs from 0, and by run and event number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Select {
    /// Places, ascending and apart; `None`: all.
    places: Option<Vec<Range<u64>>>,
    run: Option<u32>,
    number: Option<u64>,
    /// Wanted times in microseconds since 1970; `None`: all.
    time: Option<Range<u64>>,
    crossings: Option<Vec<Crossing>>,
    /// Runs with event numbers; `None`: all.
    pairs: Option<Arc<BTreeSet<(u32, u64)>>>,
}

impl Select {
    /// Only events of this run; events without a run are left out.
    #[must_use]
    pub const fn run(mut self, run: Option<u32>) -> Self {
        self.run = run;
        self
    }

    /// Only events with this number.
    #[must_use]
    pub const fn number(mut self, number: Option<u64>) -> Self {
        self.number = number;
        self
    }

    /// Only events of this time, in microseconds since 1970, by ODIN; events without one are left
    /// out.
    #[must_use]
    pub fn time(mut self, time: Option<Range<u64>>) -> Self {
        self.time = time;
        self
    }

    /// Only events of these types of crossings, by ODIN; events without one are left out.
    #[must_use]
    pub fn crossings(mut self, crossings: Option<Vec<Crossing>>) -> Self {
        self.crossings = crossings;
        self
    }

    /// Only events with one of these runs and numbers; events without both are left out.
    #[must_use]
    pub fn pairs(mut self, pairs: Option<Vec<(u32, u64)>>) -> Self {
        self.pairs = pairs.map(|pairs| Arc::new(pairs.into_iter().collect()));
        self
    }

    /// Keeps only those wanted events that are at these places.
    #[must_use]
    pub fn places(mut self, places: &Places) -> Self {
        self.places = Some(places.0.iter().flat_map(|range| self.cut(range)).collect());
        self
    }

    /// Returns the wanted parts of a range of places.
    fn cut(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let cut = |other: &Range<u64>| range.start.max(other.start)..range.end.min(other.end);
        let wanted = self.places.as_deref().unwrap_or(std::slice::from_ref(&ALL));
        wanted
            .iter()
            .map(cut)
            .filter(|range| !range.is_empty())
            .collect()
    }

    /// Leaves out the first `skip` of the wanted events, and takes at most `limit`.
    #[must_use]
    pub fn window(mut self, mut skip: u64, limit: Option<u64>) -> Self {
        if skip == 0 && limit.is_none() {
            return self;
        }
        let mut limit = limit.unwrap_or(u64::MAX);
        let mut places = Vec::new();
        for range in self.places.take().unwrap_or_else(|| vec![ALL]) {
            let skipped = skip.min(range.end - range.start);
            skip -= skipped;
            let start = range.start + skipped;
            let taken = limit.min(range.end - start);
            limit -= taken;
            if taken > 0 {
                places.push(start..start + taken);
            }
        }
        self.places = Some(places);
        self
    }

    /// Returns true if the event at this place is wanted, judged by its place only.
    pub fn takes(&self, place: u64) -> bool {
        let Some(places) = &self.places else {
            return true;
        };
        let next = places.partition_point(|range| range.end <= place);
        places.get(next).is_some_and(|range| range.start <= place)
    }

    /// Returns true if no event from this place on is wanted.
    pub fn is_past(&self, place: u64) -> bool {
        self.places
            .as_ref()
            .is_some_and(|places| places.last().is_none_or(|last| last.end <= place))
    }

    fn takes_numbers(&self, run: Option<u32>, number: Option<u64>) -> bool {
        let has_pair =
            |pairs: &Arc<BTreeSet<_>>| run.zip(number).is_some_and(|pair| pairs.contains(&pair));
        self.takes_each(run, number) && self.pairs.as_ref().is_none_or(has_pair)
    }

    fn takes_each(&self, run: Option<u32>, number: Option<u64>) -> bool {
        self.run.is_none_or(|wanted| run == Some(wanted))
            && self.number.is_none_or(|wanted| number == Some(wanted))
    }

    fn takes_odin(&self, odin: Option<Odin>) -> bool {
        let facts = odin.and_then(|odin| odin.facts);
        let time = facts.and_then(|facts| facts.time);
        self.time
            .as_ref()
            .is_none_or(|wanted| time.is_some_and(|time| wanted.contains(&time)))
            && self
                .crossings
                .as_ref()
                .is_none_or(|wanted| facts.is_some_and(|facts| wanted.contains(&facts.crossing)))
    }

    /// Returns true if an event with this run, number and ODIN bank is wanted, as far as these are
    /// known.
    pub fn takes_event(&self, run: Option<u32>, number: Option<u64>, odin: Option<Odin>) -> bool {
        self.takes_numbers(run, number) && self.takes_odin(odin)
    }

    /// Returns true if an event is left out only because its run, its number or its ODIN bank is
    /// unknown.
    pub fn lacks_numbers(&self, run: Option<u32>, number: Option<u64>, odin: Option<Odin>) -> bool {
        let may_be = |&(r, n): &(u32, u64)| {
            run.is_none_or(|run| run == r) && number.is_none_or(|number| number == n)
        };
        !self.takes_event(run, number, odin)
            && self.takes_each(run.or(self.run), number.or(self.number))
            && self
                .pairs
                .as_ref()
                .is_none_or(|pairs| pairs.iter().any(may_be))
            && (odin.is_none() || self.takes_odin(odin))
    }

    /// Returns true if events are chosen neither by run and number nor by ODIN's facts.
    pub const fn takes_all_numbers(&self) -> bool {
        self.run.is_none()
            && self.number.is_none()
            && self.pairs.is_none()
            && self.time.is_none()
            && self.crossings.is_none()
    }

    /// Returns the option by which no event was selected, and the reason, if none could have been:
    /// `seen` is all that was found in the inputs, `by_list` says if places were listed, and `skip`
    /// how many were left out from the first.
    pub fn impossible(
        &self,
        seen: &Seen,
        by_list: bool,
        skip: u64,
    ) -> Option<(&'static str, String)> {
        if seen.events > 0 || seen.unidentified > 0 {
            return None;
        }
        let lacks = [
            ("time", self.time.is_some(), seen.with_time, "time"),
            (
                "crossing",
                self.crossings.is_some(),
                seen.with_crossing,
                "type of bunch crossing",
            ),
            (
                "event_number",
                self.number.is_some(),
                seen.with_number,
                "number",
            ),
        ];
        if let Some((option, .., what)) = lacks
            .into_iter()
            .find(|&(_, is_asked, n, _)| is_asked && n == 0 && seen.examined > 0)
        {
            return Some((
                option,
                format!("no event has a {what}: no ODIN bank has one"),
            ));
        }
        match (by_list, skip) {
            _ if !self.takes_all_numbers() => None,
            (true, _) => Some((
                "events",
                "all of these places are beyond the end of the input".to_owned(),
            )),
            (false, 1..) => Some(("skip", format!("the input has no more events than {skip}"))),
            (false, 0) => None,
        }
    }
}

/// Places of events, as `3,10-20`: both ends are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places(Vec<Range<u64>>);

impl Places {
    /// Returns the number of places.
    pub fn count(&self) -> u64 {
        // (They lie apart: at most u64::MAX.)
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    /// Returns part `i` of `n` parts (counted from 1) of `events` places. Parts are contiguous, and
    /// together they cover every place once.
    pub fn shard(i: u64, n: u64, events: u64) -> Self {
        let end = |i: u64| (u128::from(events) * u128::from(i) / u128::from(n.max(1))) as u64;
        let part = end(i.saturating_sub(1))..end(i);
        Self(vec![part])
    }

    /// Adds all places after these.
    #[must_use]
    pub fn to_the_end(mut self) -> Self {
        if let Some(last) = self.0.last_mut() {
            last.end = ALL.end;
        }
        self
    }
}

impl FromStr for Places {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            text.trim()
                .parse::<u64>()
                .ok()
                .filter(|&n| n < u64::MAX)
                .ok_or_else(|| format!("{text:?} is not an event"))
        };
        let mut ranges = Vec::new();
        for part in text.split(',') {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if last < first {
                return Err(format!("{part:?} ends before it begins"));
            }
            ranges.push(first..last + 1);
        }
        ranges.sort_by_key(|range| range.start);
        let mut apart: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match apart.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => apart.push(range),
            }
        }
        Ok(Self(apart))
    }
}

#[cfg(test)]
mod tests {
    use super::{Crossing, Odin, Places, Select};

    fn taken(select: &Select) -> Vec<u64> {
        (0..30).filter(|&place| select.takes(place)).collect()
    }

    #[test]
    fn lists_windows_and_shards_select_the_named_events() {
        let all = Select::default();
        assert_eq!(taken(&all).len(), 30);
        assert!(!all.is_past(1 << 60));
        let list = all.clone().places(&"10-12, 3,11-14".parse().unwrap());
        assert_eq!(taken(&list), [3, 10, 11, 12, 13, 14]);
        assert_eq!((list.is_past(14), list.is_past(15)), (false, true));
        assert_eq!(taken(&list.clone().window(2, Some(3))), [11, 12, 13]);
        assert_eq!(taken(&list.clone().window(0, Some(0))), [0u64; 0]);
        assert_eq!(taken(&all.clone().window(28, None)), [28, 29]);
        assert_eq!(taken(&list.places(&"0-11".parse().unwrap())), [3, 10, 11]);
        for n in [1, 2, 3, 7, 40] {
            let shards = (1..=n).flat_map(|i| taken(&all.clone().places(&Places::shard(i, n, 23))));
            assert!(shards.eq(0..23), "{n} shards");
        }
        for wrong in ["", "a", "3-1", "1-", "-1", "18446744073709551615"] {
            assert!(wrong.parse::<Places>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn times_and_crossings_must_exist_to_be_selected() {
        // A bank of version 7: the time is words 2 and 3, the crossing in word 6.
        let odin = |time: u32, crossing: u32| {
            let words = [1, 0, time, 0, 0, 0, crossing << 12, 0, 0, 0];
            Odin::of(
                Some(7),
                &words
                    .iter()
                    .flat_map(|word: &u32| word.to_le_bytes())
                    .collect::<Vec<_>>(),
            )
        };
        let timed = Select::default().time(Some(10..20));
        let crossed =
            Select::default().crossings(Some(vec![Crossing::Beam1, Crossing::BeamCrossing]));
        for (select, odin, expected) in [
            (&timed, odin(10, 0), true),
            (&timed, odin(20, 0), false),
            (&timed, odin(0, 0), false),
            (&timed, None, false),
            (&crossed, odin(0, 1), true),
            (&crossed, odin(0, 3), true),
            (&crossed, odin(0, 2), false),
            (&crossed, None, false),
        ] {
            assert_eq!(
                select.takes_event(None, None, odin),
                expected,
                "{select:?} {odin:?}"
            );
            assert_eq!(select.lacks_numbers(None, None, odin), odin.is_none());
            assert!(!select.takes_all_numbers());
        }
    }

    #[test]
    fn runs_and_numbers_must_exist_to_be_selected() {
        let pairs = Select::default().pairs(Some(vec![(7, 9), (7, 9)]));
        let select = Select::default().run(Some(7)).number(Some(9));
        assert!(select.takes_numbers(Some(7), Some(9)) && pairs.takes_numbers(Some(7), Some(9)));
        for (run, number) in [
            (None, Some(9)),
            (Some(7), None),
            (Some(8), Some(9)),
            (Some(7), Some(8)),
        ] {
            assert!(!select.takes_numbers(run, number) && !pairs.takes_numbers(run, number));
        }
        for (run, number, expected) in [
            (None, Some(9), true),
            (Some(7), None, true),
            (None, None, true),
            (None, Some(8), false),
            (Some(8), None, false),
            (Some(8), Some(9), false),
            (Some(7), Some(9), false),
        ] {
            assert_eq!(
                select.lacks_numbers(run, number, None),
                expected,
                "{run:?} {number:?}"
            );
            assert_eq!(
                pairs.lacks_numbers(run, number, None),
                expected,
                "{run:?} {number:?}"
            );
        }
        assert!(!Select::default().lacks_numbers(None, None, None));
    }
}
