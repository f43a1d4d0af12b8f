//! Summary of `decode`, as text and as JSON.
//!
//! Each thread sums up its batches in a `Part`, and the thread that takes the results adds the
//! parts in the order of the events. So the first event with a trouble is the first in the inputs,
//! and not the first that any thread came to.
//!
//! The text is for a person and may change. The JSON is for programs: a name in it stays, with its
//! meaning, or the version of the schema rises.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::loss::{Account, OfFiles};
use crate::output::{decimal, number};
use ut_data::detector::{LAYER_NAMES, N_LAYERS};
use ut_data::input::{Origin, Seen, kind};
use ut_data::pipeline::{Flow, Stage};
use ut_data::{BatchReport, DetectorTables, Flip, UtHits};
use ut_decoders::{Count, EventReport, Kind};
pub use ut_report::meaning;

#[derive(Clone, Copy, Default)]
struct Total {
    sum: u64,
    /// Number of events with it.
    events: u64,
    /// Place of the first such event, over all inputs.
    first: u64,
}

/// Sums of a batch.
pub struct Part {
    hits: u64,
    masked: u64,
    hits_of_layer: [u64; N_LAYERS],
    /// Events with their places over all inputs.
    events: Vec<(u64, EventReport)>,
    /// Time in the decoder.
    decoding: Duration,
    losses: OfFiles,
    /// Hashes of the events' contents.
    contents: Vec<u64>,
}

impl Part {
    /// Sums up a batch: `decoding` is its time, `losses` what its events lost, `hashes` their
    /// hashes, `masked` the number of hits that a mask left out; `layers` are [`Totals::layers`].
    pub fn of(
        layers: &[usize],
        origins: &[Origin],
        hits: &UtHits,
        report: &BatchReport,
        (losses, contents): (OfFiles, Vec<u64>),
        masked: usize,
        decoding: Duration,
    ) -> Self {
        let mut hits_of_layer = [0; N_LAYERS];
        // Each event has the same groups, so the layers repeat from event to event.
        for (ends, &layer) in hits.offsets().windows(2).zip(layers.iter().cycle()) {
            hits_of_layer[layer] += u64::from(ends[1] - ends[0]);
        }
        let (hits, masked) = (hits.len() as u64, masked as u64);
        let events = origins
            .iter()
            .map(|origin| origin.place)
            .zip(report.events.iter().copied())
            .collect();
        Self {
            hits,
            masked,
            hits_of_layer,
            events,
            decoding,
            losses,
            contents,
        }
    }

    pub const fn hits(&self) -> u64 {
        self.hits
    }
}

/// Sums over all batches.
pub struct Totals {
    pub events: u64,
    pub hits: u64,
    pub hits_of_layer: [u64; N_LAYERS],
    /// Hits that a mask took out; `None` without a mask.
    pub masked: Option<u64>,
    /// Time in the decoders, of all threads.
    pub decoding: Duration,
    /// Convention of flipped sectors by its name.
    flip: &'static str,
    counts: [Total; Count::ALL.len()],
    layer_of_group: Arc<[usize]>,
    pub loss: Account,
}

impl Totals {
    pub fn new(tables: &DetectorTables, flip: Flip, has_mask: bool, loss: Account) -> Self {
        let decoding = Duration::ZERO;
        Self {
            events: 0,
            hits: 0,
            hits_of_layer: [0; 4],
            masked: has_mask.then_some(0),
            decoding,
            flip: flip.name_for(tables.boards().version),
            counts: Default::default(),
            layer_of_group: tables.layers().into(),
            loss,
        }
    }

    pub fn layers(&self) -> Arc<[usize]> {
        Arc::clone(&self.layer_of_group)
    }

    pub fn add(&mut self, part: &Part) {
        self.loss.add(&part.losses);
        for &content in &part.contents {
            self.loss.repeats.add(content);
        }
        for &(place, event) in &part.events {
            for (total, count) in self.counts.iter_mut().zip(Count::ALL) {
                let n = u64::from(event.get(count));
                if n > 0 && total.events == 0 {
                    total.first = place;
                }
                total.sum += n;
                total.events += u64::from(n > 0);
            }
        }
        for (sum, hits) in self.hits_of_layer.iter_mut().zip(part.hits_of_layer) {
            *sum += hits;
        }
        self.events += part.events.len() as u64;
        self.hits += part.hits;
        self.masked = self.masked.map(|masked| masked + part.masked);
        self.decoding += part.decoding;
    }

    fn total(&self, count: Count) -> Total {
        self.counts[count as usize]
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (Count, Total)> {
        Count::ALL
            .into_iter()
            .filter(move |count| count.kind() == kind)
            .map(|count| (count, self.total(count)))
    }

    /// Returns true if anything was wrong with the data or lost: what --strict does not take.
    pub fn is_odd(&self) -> bool {
        !self.loss.total.is_none() || self.of_kind(Kind::Trouble).any(|(_, total)| total.sum > 0)
    }

    /// Returns the summary for a person; `several`: places of events count over several files;
    /// `seen`: findings in the files.
    pub fn text(&self, elapsed: Duration, flow: &Flow, several: bool, seen: &Seen) -> String {
        let mut text = String::new();
        let mut row = |name: &str, value: &str| {
            let _ = writeln!(text, "{}", format!("{name:<22}{value}").trim_end());
        };
        let per_event = |n: u64| {
            let mean = n as f64 / self.events.max(1) as f64;
            format!("{:<12}{} per event", number(n), decimal(mean))
        };
        row("events", &number(self.events));
        row("banks", &per_event(self.total(Count::Banks).sum));
        row("strips", &per_event(self.total(Count::Strips).sum));
        row("clusters (hits)", &per_event(self.hits));
        for (layer, &hits) in LAYER_NAMES.iter().zip(&self.hits_of_layer) {
            row(&format!("  layer {layer}"), &per_event(hits));
        }
        if let Some(masked) = self.masked {
            row("masked hits", &format!("{} (taken out)", per_event(masked)));
        }
        row("flip", self.flip);
        let seconds = self.decoding.as_secs_f64();
        let rate = self.events as f64 / elapsed.as_secs_f64().max(1e-9);
        let time = format!(
            "{:.3} s ({} events/s); decoding {seconds:.3} s of all threads",
            elapsed.as_secs_f64(),
            number(rate as u64)
        );
        row("time", &time);
        // Unknown where the job ended early.
        if !flow.elapsed.is_zero() {
            row("busy", &flow_text(flow));
        }
        for (kind, title) in [(Kind::Statistic, "remarks"), (Kind::Trouble, "troubles")] {
            let mut none = true;
            for (count, total) in self.of_kind(kind).filter(|(_, total)| total.sum > 0) {
                if std::mem::take(&mut none) {
                    row(title, "");
                }

                let Total {
                    sum,
                    events: n,
                    first,
                } = total;
                // Warnings count events in a file.
                let of = if several { " of all inputs" } else { "" };
                let (first, n_events) = (number(first), number(n));
                let place = match n {
                    1 => format!("event {first}{of}"),
                    _ => format!("{n_events} events, the first is {first}{of}"),
                };
                row(
                    &format!("  {}", count.name()),
                    &format!("{:<12}{} ({place})", number(sum), meaning(count)),
                );
            }
            if none && kind == Kind::Trouble && !self.is_odd() {
                row(title, "none");
            }
        }
        if !seen.error_banks.is_empty() {
            row("error banks", "");
        }
        for (&kind, n) in &seen.error_banks {
            let what = if kind == kind::UT_ERROR {
                "the board reported an error, decoded"
            } else {
                "the fragment of a board was lost"
            };
            row(
                &format!("  {}", kind::name(kind)),
                &format!("{:<12}{what}", number(*n)),
            );
        }
        text
    }

    pub fn json(&self, elapsed: Duration) -> Map<String, Value> {
        let kinds = [Kind::Statistic, Kind::Trouble];
        let named = |f: fn(Total) -> Value| -> Map<String, Value> {
            let all = kinds.into_iter().flat_map(|kind| self.of_kind(kind));
            all.map(|(count, total)| (count.name().to_owned(), f(total)))
                .collect()
        };
        let layers: Map<String, Value> = LAYER_NAMES
            .iter()
            .zip(self.hits_of_layer)
            .map(|(layer, hits)| ((*layer).to_owned(), hits.into()))
            .collect();
        let value = json!({
            "events": self.events,
            "banks": self.total(Count::Banks).sum,
            "strips": self.total(Count::Strips).sum,
            "hits": self.hits,
            "hits_of_layer": layers,
            "masked_hits": self.masked.unwrap_or_default(),
            "seconds": elapsed.as_secs_f64(),
            "seconds_decoding": self.decoding.as_secs_f64(),
            "trouble": self.is_odd(),
            "report": named(|total| total.sum.into()),
            "events_with": named(|total| total.events.into()),
            "first_event_with": named(|total| if total.events > 0 { total.first.into() } else { Value::Null }),
        });
        match value {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }
}

/// Names of [`Flow::stages`].
const STAGES: [&str; 3] = ["reading", "decoding", "writing"];

/// Returns how busy each stage was: a stage at 100 % limits the rate.
fn flow_text(flow: &Flow) -> String {
    let stage = |(name, stage): (&str, Stage)| {
        let threads = if stage.threads > 1 {
            format!(" of {} threads", stage.threads)
        } else {
            String::new()
        };
        format!("{name} {:.0} %{threads}", 100.0 * stage.share(flow.elapsed))
    };
    STAGES
        .into_iter()
        .zip(flow.stages())
        .map(stage)
        .collect::<Vec<_>>()
        .join(", ")
}

pub fn flow_json(flow: &Flow) -> Value {
    let stage = |(name, stage): (&str, Stage)| {
        let share = stage.share(flow.elapsed);
        let seconds = stage.busy.as_secs_f64();
        json!({ "stage": name, "threads": stage.threads, "pieces": stage.items, "busy_seconds": seconds, "busy": share })
    };
    json!({ "stages": STAGES.into_iter().zip(flow.stages()).map(stage).collect::<Vec<_>>() })
}
