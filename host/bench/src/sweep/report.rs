//! Result of a sweep. It is written as JSON with these names, and `page` makes a page from it.

use serde::Serialize;

use super::Outcome;
use super::axis::Axis;
use super::plan::{Plan, Point, Skipped};
use crate::work::METRICS;
use crate::{Change, Machine, Spread};

/// Conditions of the measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct About {
    /// Command line that made the measurement.
    pub command: String,
    /// Name of the backend.
    pub backend: String,
    /// Origin of the events.
    pub sample: String,
    /// Number of events in a pass.
    pub events: usize,
    /// Unit of the values: `events/s`, or the name of a metric, counted per event.
    pub unit: String,
    /// True if the smallest value is the best.
    pub less_is_better: bool,
    /// Number of rounds.
    pub rounds: usize,
    /// Seed of the orders of the rounds.
    pub seed: u64,
    /// Machine and program.
    pub machine: Machine,
    /// State of the machine during the measurement, in lines of a name and a value.
    pub environment: Vec<(&'static str, String)>,
}

/// Measurements of one point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointReport {
    /// Value of each axis, in their order.
    pub values: Vec<u32>,
    /// Spread of the measurements; `None` if it failed.
    pub measured: Option<Spread>,
    /// Number of measurements.
    pub repetitions: usize,
    /// Change from the default to this point; `None` if it cannot be computed, or if too few rounds
    /// were measured for an interval.
    pub change: Option<Change>,
    /// Counts per event, in the order of `metrics`; empty if nothing is counted.
    pub work: Vec<f64>,
    /// Reason that the point failed; `None` if it did not.
    pub failure: Option<String>,
}

/// Result of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Conditions of the measurement.
    pub about: About,
    /// Axes of the sweep, with their values.
    pub axes: Vec<Axis>,
    /// Names of the counts in `work`; empty if times were measured.
    pub metrics: Vec<String>,
    /// Points that were run, in the order of the axes.
    pub points: Vec<PointReport>,
    /// Points that were not run, with the reasons.
    pub skipped: Vec<Skipped>,
    /// Index of the default among the points.
    pub default: usize,
    /// Index of the best point; `None` if all failed.
    pub best: Option<usize>,
}

impl Report {
    /// Summarises the outcomes of each point of `plan`, round by round. `metric`: index in
    /// [`METRICS`] of the count to compare, if work was counted.
    pub fn new(
        about: About,
        plan: &Plan,
        outcomes: &[Vec<Outcome>],
        metric: Option<usize>,
    ) -> Self {
        let of = |place: usize| outcomes.get(place).into_iter().flatten();
        let values_of = |place: usize| -> Vec<f64> {
            of(place)
                .flatten()
                .filter_map(|values| values.get(metric.unwrap_or_default()).copied())
                .collect()
        };
        let mut of_default = values_of(plan.default);
        // Values are paired by index: if a round were missing, all later values would be compared
        // with another round.
        if of_default.len() < of(plan.default).count() {
            of_default.clear();
        }
        // Among a hundred comparisons at 95 %, five differ by chance. So the intervals are wider,
        // the more points there are.
        let family = plan.points.len().saturating_sub(1).max(1);
        let point = |(place, point): (usize, &Point)| {
            let values = values_of(place);
            let failure = of(place).find_map(|outcome| outcome.clone().err());
            let work = of(place)
                .next()
                .and_then(|first| first.clone().ok())
                .filter(|_| metric.is_some());
            let good = failure.is_none() && !values.is_empty();
            PointReport {
                values: point.values.clone(),
                measured: good.then(|| Spread::of(&values)),
                repetitions: values.len(),
                change: Change::between(&of_default, &values, 1, family)
                    .filter(|change| good && (metric.is_some() || change.interval.is_some())),
                work: work.unwrap_or_default(),
                failure,
            }
        };
        let points: Vec<PointReport> = plan.points.iter().enumerate().map(point).collect();
        let mut report = Self {
            metrics: if points.iter().any(|point| !point.work.is_empty()) {
                METRICS
                    .iter()
                    .map(|metric| metric.name.to_owned())
                    .collect()
            } else {
                Vec::new()
            },
            about,
            axes: plan.axes.clone(),
            points,
            skipped: plan.skipped.clone(),
            default: plan.default,
            best: None,
        };
        report.best = report.ranking().first().copied();
        report
    }

    /// Returns the measured points from best to worst. Among equals, the default comes first, then
    /// the order of points decides.
    pub fn ranking(&self) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.points.len())
            .filter(|&i| self.points[i].measured.is_some())
            .collect();
        let key = |i: usize| {
            let median = self.points[i].measured.map_or(0.0, |spread| spread.median);
            if self.about.less_is_better {
                median
            } else {
                -median
            }
        };
        places.sort_by(|&a, &b| {
            key(a)
                .total_cmp(&key(b))
                .then((b == self.default).cmp(&(a == self.default)))
                .then(a.cmp(&b))
        });
        places
    }

    /// Writes the values of a point, one for each axis, as the parameters read them.
    pub fn texts(&self, values: &[u32]) -> Vec<String> {
        let pairs = self.axes.iter().zip(values);
        pairs
            .map(|(axis, &value)| axis.parameter.text(value))
            .collect()
    }

    /// Writes a point as `count.bins=8 batch=64`.
    pub fn point_text(&self, values: &[u32]) -> String {
        let texts = self.axes.iter().zip(self.texts(values));
        texts
            .map(|(axis, text)| format!("{}={text}", axis.parameter.name))
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Describes the best point, and its gain over the default.
    pub fn verdict(&self) -> String {
        let Some(best) = self.best else {
            return "No point could be measured.".to_owned();
        };
        let PointReport {
            values,
            measured,
            change,
            ..
        } = &self.points[best];
        let median = measured.map_or(0.0, |spread| spread.median);
        let end = match change {
            _ if best == self.default => ": it is the default".to_owned(),
            None if self.points[self.default].failure.is_some() => {
                ": there is no comparison, since the default failed".to_owned()
            }
            None => ": too few rounds to compare it with the default; raise --rounds".to_owned(),
            Some(change) => {
                let doubt = change.doubt.as_ref().filter(|_| self.metrics.is_empty());
                format!(
                    ", {change} to the default{}",
                    doubt.map_or_else(String::new, |doubt| format!(": {doubt}"))
                )
            }
        };
        format!(
            "Best: {}, {} {}{end}.",
            self.point_text(values),
            number(median),
            self.about.unit
        )
    }

    /// Writes one row per point, also for skipped points.
    pub fn csv(&self) -> String {
        let mut head: Vec<&str> = self.axes.iter().map(|axis| axis.parameter.name).collect();
        head.extend([
            "status",
            "median",
            "q1",
            "q3",
            "min",
            "max",
            "repetitions",
            "change_percent",
            "mark",
            "reason",
        ]);
        head.extend(self.metrics.iter().map(String::as_str));
        let mut rows = vec![head.join(",")];
        let exact = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        for (i, point) in self.points.iter().enumerate() {
            let spread = point.measured.map(
                |Spread {
                     median,
                     q1,
                     q3,
                     min,
                     max,
                 }| [median, q1, q3, min, max].map(Some),
            );
            let mut row = self.texts(&point.values);
            row.push(
                if point.measured.is_some() {
                    "ok"
                } else {
                    "failed"
                }
                .to_owned(),
            );
            row.extend(spread.unwrap_or_default().map(exact));
            row.push(point.repetitions.to_string());
            row.push(exact(point.change.as_ref().map(|change| change.percent)));
            row.push(self.marks(i).join(" "));
            row.push(quoted(point.failure.as_deref().unwrap_or_default()));
            row.extend(
                (0..self.metrics.len()).map(|metric| exact(point.work.get(metric).copied())),
            );
            rows.push(row.join(","));
        }
        for Skipped { values, reason } in &self.skipped {
            let (values, empty) = (self.texts(values).join(","), ",".repeat(self.metrics.len()));
            rows.push(format!(
                "{values},skipped,,,,,,,,,{}{empty}",
                quoted(reason)
            ));
        }
        rows.join("\n") + "\n"
    }

    pub(super) fn marks(&self, i: usize) -> Vec<&'static str> {
        let mut marks = Vec::new();
        if Some(i) == self.best {
            marks.push("best");
        }
        if i == self.default {
            marks.push("default");
        }
        marks
    }

    pub(super) fn facts(&self) -> Vec<(&str, String)> {
        let About {
            command,
            sample,
            events,
            rounds,
            seed,
            machine,
            ..
        } = &self.about;
        let rounds = match rounds {
            1 if self.metrics.is_empty() => "once".to_owned(),
            1 => "counted once".to_owned(),
            n => format!("{n} rounds over all points, each in a random order (seed {seed})"),
        };
        let cpu = machine.cpu.as_deref().unwrap_or("unknown CPU");
        let commit = machine.commit.as_deref().unwrap_or("unknown");
        let mut facts = vec![
            ("sample", format!("{sample}, {events} events")),
            ("measured", rounds),
            ("machine", format!("{cpu}, {} cores", machine.cores)),
            ("version", format!("{}, commit {commit}", machine.version)),
            ("command", format!("`{command}`")),
        ];
        facts.extend(self.about.environment.iter().cloned());
        if !machine.optimised {
            facts.push((
                "note",
                "built without optimisation: these numbers do not count".to_owned(),
            ));
        }
        facts
    }

    /// Returns the points that failed, and the points that were skipped, each with the reason.
    pub fn others(&self) -> Vec<(&'static str, Vec<(String, String)>)> {
        let reason = |point: &PointReport| {
            point.failure.clone().or_else(|| {
                point
                    .measured
                    .is_none()
                    .then(|| "not measured yet".to_owned())
            })
        };
        let failed = self
            .points
            .iter()
            .filter_map(|p| Some((self.point_text(&p.values), reason(p)?)))
            .collect();
        let skipped = self
            .skipped
            .iter()
            .map(|s| (self.point_text(&s.values), s.reason.clone()))
            .collect();
        [("Failed", failed), ("Skipped", skipped)]
            .into_iter()
            .filter(|(_, list): &(&str, Vec<(String, String)>)| !list.is_empty())
            .collect()
    }
}

/// Writes a value with at most four digits.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size >= 1e7 => format!("{:.4}e6", value / 1e6),
        _ if size >= 1000.0 => format!("{value:.0}"),
        _ if size >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}
