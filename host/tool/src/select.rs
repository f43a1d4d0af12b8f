//! Options that choose events.
//!
//! All counting is over all inputs together, from 0. Options of two kinds apply one after the
//! other. The first kind chooses places, before an event is read: `--events` names them, `--shard`
//! leaves one of *n* contiguous parts of all places, and `--skip` and `--limit` take a window of
//! the places that are left. The second kind then looks into the events at these places: run,
//! number, time and crossing. So `--run 5 --limit 10` looks at ten events, and does not look for
//! ten events of run 5.
//!
//! *Example.* Of 1000 events, `--shard 2/3` are the events 333 to 665: part *i* of *n* ends at 1000
//! *i* / *n*, rounded down. `--shard 2/3 --skip 10 --limit 5` are 343 to 347.

use std::ops::Range;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::Failure;
use crate::args::one_of;
use ut_data::input::{
    Crossing, InputPart, Places, Seen, Select, count_events, count_readable, from_utc,
};
use ut_report::Part;

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Events (counted over all inputs from 0)")]
pub struct SelectArgs {
    /// Only these events, as 3,10-20.
    #[arg(long, value_name = "LIST")]
    pub events: Option<Places>,
    /// Only events of this run.
    #[arg(long, value_name = "N")]
    pub run: Option<u32>,
    /// Only events with this event number.
    #[arg(long, value_name = "N")]
    pub event_number: Option<u64>,
    /// Only events of this time by ODIN, UTC, as 2026-02-03T04:05..2026-02-03T05:00; the end is
    /// excluded, and either may be left out.
    #[arg(long, value_name = "FROM..TO", value_parser = time)]
    pub time: Option<Range<u64>>,
    /// Only events of these types of bunch crossings by ODIN.
    #[arg(long, value_name = "TYPE", value_delimiter = ',', value_parser = one_of!(Crossing::ALL, Crossing::name))]
    pub crossing: Option<Vec<Crossing>>,
    /// Only part i of n contiguous parts that together hold all events. The inputs are read once
    /// more to count them.
    #[arg(long, value_name = "i/n", value_parser = shard)]
    pub shard: Option<(u64, u64)>,
    /// Leave out the first N of these places.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip: u64,
    /// Take at most N places.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Fail (exit code 1) if no event was selected.
    #[arg(long)]
    pub require_events: bool,
}

fn shard(text: &str) -> Result<(u64, u64), String> {
    let numbers = text
        .split_once('/')
        .and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match numbers {
        Some((i, n)) if 1 <= i && i <= n => Ok((i, n)),
        _ => Err("expected i/n with i from 1 to n".to_owned()),
    }
}

fn time(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text
        .split_once("..")
        .ok_or("expected FROM..TO, as 2026-02-03T04:05..2026-02-03T05:00")?;
    let time = |text: &str, open: u64| {
        let found = if text.is_empty() {
            Some(open)
        } else {
            from_utc(text)
        };
        found.ok_or_else(|| format!("{text:?} is not a time, as 2026-02-03T04:05:06"))
    };
    let range = time(from, 0)?..time(to, u64::MAX)?;
    if range.is_empty() {
        Err("the end is before the beginning".to_owned())
    } else {
        Ok(range)
    }
}

impl SelectArgs {
    /// Returns the selection of the whole job, whatever the shard and the window.
    fn of_job(&self) -> Select {
        let select = Select::default().run(self.run).number(self.event_number);
        let select = select
            .time(self.time.clone())
            .crossings(self.crossing.clone());
        self.events.iter().fold(select, Select::places)
    }

    /// Returns the part of a job of these files.
    pub fn part(&self, files: &[PathBuf]) -> Option<Part> {
        Part::of(
            files,
            self.shard.unwrap_or((1, 1)),
            &self.of_job().window(self.skip, self.limit),
            None,
        )
    }

    /// Returns true if no option chooses events.
    pub fn takes_all(&self) -> bool {
        self.shard.is_none() && self.of_job().window(self.skip, self.limit) == Select::default()
    }

    /// Returns the wanted events that the inputs, in which `seen` was found, do not have. A part of
    /// a job may be empty.
    pub fn missing(&self, seen: &Seen) -> Option<String> {
        match seen.events {
            _ if self.shard.is_some() => None,
            0 if self.takes_all() => Some("there is no event in the input".to_owned()),
            0 => Some("the selection matches no event in the input".to_owned()),
            n => self.warning(n),
        }
    }

    /// Returns the error in the options if no event was selected, and none could have been: `seen`
    /// is all that was found in the inputs.
    pub fn impossible(&self, seen: &Seen) -> Option<String> {
        if self.shard.is_some() || self.limit == Some(0) || self.takes_all() {
            return None;
        }
        let (option, why) = self
            .of_job()
            .impossible(seen, self.events.is_some(), self.skip)?;
        Some(format!("--{}: {why}", option.replace('_', "-")))
    }

    /// Returns a warning if only `n` of the events of `--events` were found, unless other options
    /// hide their number.
    pub fn warning(&self, n: u64) -> Option<String> {
        let Self {
            events: Some(places),
            run: None,
            event_number: None,
            shard: None,
            skip: 0,
            limit: None,
            ..
        } = self
        else {
            return None;
        };
        if self.time.is_some() || self.crossing.is_some() {
            return None;
        }
        let wanted = places.count();
        // Without any event there is a warning already.
        (0 < n && n < wanted)
            .then(|| format!("--events names {wanted} events, the input has only {n} of them"))
    }

    /// Returns the selection of the events of `files`; with `keep_going`, none counts after an
    /// unreadable place.
    pub fn select(&self, files: &[PathBuf], keep_going: bool) -> Result<Select, Failure> {
        let mut select = self.of_job();
        if let Some((i, n)) = self.shard {
            let is_pipe =
                |file: &&PathBuf| file.as_os_str() == "-" || file.exists() && !file.is_file();
            if let Some(pipe) = files.iter().find(is_pipe) {
                return Err(format!(
                    "{}: --shard reads files twice, and this can be read only once",
                    pipe.display()
                )
                .into());
            }
            let parts: Vec<InputPart> = files.iter().map(InputPart::file).collect();
            let readable = || parts.iter().map(|part| count_readable(part).0).sum();
            let events = if keep_going {
                readable()
            } else {
                count_events(&parts)?
            };
            let part = Places::shard(i, n, events);
            // The last part goes to the end, to report the damage after the last readable event.
            select = select.places(&if keep_going && i == n {
                part.to_the_end()
            } else {
                part
            });
        }
        Ok(select.window(self.skip, self.limit))
    }
}
