//! Explains a run's decision in sentences.

use std::fmt::Write as _;

use super::words::{changes, in_words, percent};
use super::{Importance, Report, numbers};
use tuner::Outcome;
use tuner::compare::{Decision, Fate};
use tuner::objective::Objective;
use tuner::store::contents::RunRecord;
use tuner::store::{Contender, Details, Evidence, Observation, RECORDED};
use tuner::verdict::{Judgement, Side, Verdict};

/// Maximum number of values listed per parameter.
const VALUES: usize = 12;

/// Maximum number of parameter pairs listed.
const PAIRS: usize = 3;

/// Explains the decision of a run.
pub fn explain(record: &RunRecord) -> String {
    let mut text = format!(
        "Run {}: {} for {} on {}.\n",
        record.run, record.tunable, record.workload, record.device
    );
    let report = Report::of(record, None);
    let Some(evidence) = &record.decision else {
        let failed = |seen: &Observation| matches!(seen.outcome, Outcome::Failed(_));
        let why = match &record.finished {
            None => "it is not finished",
            Some(_) if record.plan.strategy == RECORDED => "it was recorded, not tuned",
            Some(_) if record.measurements.iter().all(failed) => "every configuration failed",
            Some(_) => "its samples showed nothing to decide",
        };
        let _ = writeln!(text, "It decided nothing: {why}.");
        failures(&report, &mut text);
        return text;
    };
    let objective = record.workload.objective();
    let line = |contender: &Contender| {
        let words = in_words(&record.space.parameters, &contender.config);
        format!("{words}\n    {}", estimate(objective, contender))
    };
    let _ = writeln!(text, "Chosen:\n  {}", line(&evidence.chosen));
    match &evidence.default {
        Some(default) if default.config == evidence.chosen.config => {
            let _ = writeln!(
                text,
                "  That is the default. Verdict: {}.",
                evidence.verdict
            );
        }
        Some(default) => {
            let _ = writeln!(
                text,
                "Default:\n  {}\n  Verdict: {}.",
                line(default),
                evidence.verdict
            );
        }
        None => {
            // The plan of a session with a default names it.
            let given = record.plan.strategy.contains(", default ");
            let why = if given {
                "The default failed"
            } else {
                "No default was given"
            };
            let _ = writeln!(text, "{why}. Verdict: {}.", evidence.verdict);
        }
    }
    if let Some(runner_up) = &evidence.runner_up {
        let _ = writeln!(
            text,
            "The best of the other finalists:\n  {}",
            line(runner_up)
        );
    }
    let share = 100.0 * evidence.tried as f64 / evidence.valid.max(1) as f64;
    let details = evidence.details.as_deref();
    let _ = writeln!(
        text,
        "Tried {} of {} configurations ({share:.1} %) in {} launches with {} (seed {}); it ended because {}.",
        evidence.tried,
        evidence.valid,
        details.map_or(evidence.launches, |details| details.search_launches),
        record.plan.strategy,
        record.plan.seed,
        evidence.stopped
    );
    if let Some(details) = details {
        decided(record, details, &mut text);
    }
    failures(&report, &mut text);
    effects(&report, evidence, &mut text);
    text
}

/// Describes race and final rounds.
fn decided(record: &RunRecord, details: &Details, text: &mut String) {
    if let Some(race) = details.race {
        let kind = if race.quiet { "quiet" } else { "noisy" };
        let _ = writeln!(
            text,
            "Raced the best {} on fresh samples, in {} launches: the device is {kind}.",
            race.racers, race.launches
        );
    }
    let objective = record.workload.objective();
    let Some(decision) = details.decisions.last() else {
        return;
    };
    let words = |config| in_words(&record.space.parameters, config);
    let Decision {
        default,
        candidates,
        confirmation,
        ..
    } = decision;
    let _ = writeln!(
        text,
        "Final rounds, {} launches, against\n  {}",
        details.final_launches,
        words(default)
    );
    for candidate in candidates {
        let fate = match &candidate.fate {
            Fate::Judged(judgement) => judged(objective, judgement),
            Fate::Failed(failure) => format!("{}: {}", failure.kind.name(), failure.message),
        };
        let _ = writeln!(text, "  {}\n    {fate}", words(&candidate.config));
    }
    if let Some(judgement) = confirmation {
        let _ = writeln!(
            text,
            "  the winner again, on fresh samples\n    {}",
            judged(objective, judgement)
        );
    }
}

/// Describes a judgement of B.
fn judged(objective: Objective, judgement: &Judgement) -> String {
    let [better, worse] = objective.comparatives();
    let verdict = match judgement.verdict {
        Verdict::Better(Side::A) => worse.to_owned(),
        Verdict::Better(Side::B) => better.to_owned(),
        other => other.to_string(),
    };
    let [centre, low, high] = changes(objective, judgement).map(percent);
    format!(
        "{verdict}: {} {centre}, interval {low} to {high}, {} blocks",
        objective.noun(),
        judgement.blocks
    )
}

fn effects(report: &Report, evidence: &Evidence, text: &mut String) {
    let objective = report.objective;
    let summary = report.summary();
    let tried = |of: &&Importance| of.effects.iter().filter(|effect| effect.count > 0).count() > 1;
    let importance: Vec<&Importance> = summary.importance.iter().filter(tried).collect();
    let Some(width) = importance
        .iter()
        .map(|parameter| parameter.parameter.len())
        .max()
    else {
        return;
    };
    let what = match objective {
        Objective::Time => "times".to_owned(),
        other => format!("{}s", other.noun()),
    };
    // The share of a single parameter says nothing.
    let shown = importance.len() > 1 && importance.iter().any(|of| of.share.is_some());
    let _ = match (shown, importance.iter().any(|of| of.range.is_some())) {
        (true, _) => writeln!(
            text,
            "What matters: the share of the variance of log {what} that a parameter explains by itself, the difference \
             between its worst and its best value, all else equal, and the median of what was tried with each value (* is \
             chosen):"
        ),
        (false, true) => writeln!(
            text,
            "What was tried, with the median for each value (* is chosen):"
        ),
        (false, false) => writeln!(
            text,
            "Too few configurations to tell what matters. The median of what was tried with each value (* is chosen):"
        ),
    };
    for parameter in importance {
        let place = report
            .parameters
            .iter()
            .position(|(name, _)| *name == parameter.parameter);
        let chosen = place.and_then(|place| evidence.chosen.config.0.get(place));
        let known: Vec<_> = parameter
            .effects
            .iter()
            .filter_map(|effect| Some((effect, effect.median?)))
            .collect();
        let values = known.iter().take(VALUES).map(|(effect, median)| {
            let mark = if Some(&effect.value) == chosen {
                "*"
            } else {
                ""
            };
            format!("{}{mark} {}", effect.value, objective.words(*median))
        });
        let mut values = values.collect::<Vec<_>>().join(", ");
        if known.len() > VALUES {
            let _ = write!(values, ", and {} more", known.len() - VALUES);
        }
        let numbers = match (parameter.share, parameter.range) {
            (Some(share), Some(range)) if shown => {
                format!(" {:3.0} %, {:5.1} %", 100.0 * share, 100.0 * range)
            }
            _ => String::new(),
        };
        let _ = writeln!(text, "  {:width$}{numbers}  {values}", parameter.parameter);
    }
    if let Some(together) = summary.together.filter(|_| shown) {
        let pairs = summary.interactions.iter().take(PAIRS).map(|pair| {
            let [first, second] = &pair.parameters;
            format!("{first} with {second} {:.0} %", 100.0 * pair.share)
        });
        let pairs = pairs.collect::<Vec<_>>().join(", ");
        let named = if pairs.is_empty() {
            String::new()
        } else {
            format!(": {pairs}")
        };
        let _ = writeln!(
            text,
            "  {:.0} % of the variance no parameter explains by itself: they act together, or it is noise{named}.",
            100.0 * together
        );
    }
}

fn estimate(objective: Objective, contender: &Contender) -> String {
    let samples = format!("{} samples", contender.samples);
    match contender.interval_ms {
        Some((low, high)) => {
            let (low, high) = if objective.more_is_better() {
                (high, low)
            } else {
                (low, high)
            };
            let [centre, low, high] =
                [contender.time_ms, low, high].map(|cost| objective.words(cost));
            format!("{centre} (95 %: {low} to {high}), {samples}")
        }
        None => format!(
            "{}, {samples}: too few for an interval",
            objective.words(contender.time_ms)
        ),
    }
}

fn failures(report: &Report, text: &mut String) {
    for (kind, count, _, message) in numbers::failures(report) {
        let _ = writeln!(
            text,
            "{count} failed: {} (one says: {message}).",
            kind.name()
        );
    }
}
