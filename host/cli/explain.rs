//! `ut-decode explain`: why this configuration.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use tuner::Outcome;
use tuner::compare::{Decision, Fate};
use tuner::report::{Evaluation, Importance, Report};
use tuner::store::contents::RunRecord;
use tuner::store::{Contender, Details, Evidence, Store};
use tuner::verdict::{Judgement, Side, Verdict};

use serde_json::json;

use crate::cli::Failure;
use crate::cli::output::{print_beside, write_json};
use crate::cli::store::{StoreArgs, in_words, milliseconds, tried, word};
use crate::cli::trial::percent;

/// Values of a parameter whose times are listed.
const VALUES: usize = 12;

/// Say why a configuration was chosen: against what, how sure that is, and which parameters matter.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The run, by the number that `store list` shows; without it, the latest that decided something.
    run: Option<i64>,
    /// Write the evidence and the effects of the parameters as JSON here; - is standard output.
    #[arg(long, value_name = "F")]
    json: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let store = Store::open_read_only(&args.store.locations(None)?.user)?;
    let run = match args.run {
        Some(run) => run,
        None => store
            .runs()?
            .iter()
            .rev()
            .find(|summary| summary.record.decision.is_some())
            .map(|summary| summary.record.run)
            .ok_or_else(|| format!("{}: no run decided anything yet", store.file().display()))?,
    };
    let record = store.run_record(run)?;
    if let Some(path) = &args.json {
        write_json(path, &json!({ "decision": record.decision, "importance": importance(&record) }))?;
    }
    let pins = store.pins()?;
    let pin = pins.iter().find(|pin| {
        (&pin.tunable, &pin.workload, &pin.device.name) == (&record.tunable, &record.workload, &record.device.name)
    });
    let mut text = explain(&record);
    if let Some(pin) = pin {
        let words = in_words(&pin.space.parameters, &pin.config);
        let _ = writeln!(text, "Not used: {words} is pinned ({}); `store unpin {}` ends that.", pin.reason, pin.pin);
    }
    print_beside(args.json.as_deref(), &text)
}

/// Why the run decided what it decided, in sentences.
pub fn explain(record: &RunRecord) -> String {
    let mut text = format!("Run {}: {} for {} on {}.\n", record.run, record.tunable, record.workload, record.device);
    let Some(evidence) = &record.decision else {
        let why = if record.finished.is_some() { "every configuration failed" } else { "it is not finished" };
        let _ = writeln!(text, "It decided nothing: {why}.");
        failures(record, &mut text);
        return text;
    };
    let line = |contender: &Contender| {
        let words = in_words(&record.space.parameters, &contender.config);
        format!("{words}\n    {}", time(contender))
    };
    let _ = writeln!(text, "Chosen:\n  {}", line(&evidence.chosen));
    match &evidence.default {
        Some(default) if default.config == evidence.chosen.config => {
            let _ = writeln!(text, "  That is the default. Verdict: {}.", evidence.verdict);
        }
        Some(default) => {
            let _ = writeln!(
                text,
                "Default:\n  {}\n  The chosen one takes {:.3} of its time. Verdict: {}.",
                line(default),
                evidence.chosen.time_ms / default.time_ms,
                evidence.verdict
            );
        }
        None => {
            let _ = writeln!(text, "No default was measured. Verdict: {}.", evidence.verdict);
        }
    }
    if let Some(runner_up) = &evidence.runner_up {
        let _ = writeln!(text, "The best of the others:\n  {}\n  {}", line(runner_up), apart(evidence, runner_up));
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
    if let Some(gain) = evidence.expected_gain {
        let _ = writeln!(text, "Searching on was expected to gain {:.2} % more.", 100.0 * gain);
    }
    if let Some(details) = details {
        decided(record, details, &mut text);
    }
    failures(record, &mut text);
    effects(record, evidence, &mut text);
    text
}

/// The race and the final rounds.
fn decided(record: &RunRecord, details: &Details, text: &mut String) {
    if let Some(race) = details.race {
        let kind = if race.quiet { "quiet" } else { "noisy" };
        let _ = writeln!(
            text,
            "Raced the best {} on fresh samples, in {} launches: the device is {kind}.",
            race.racers, race.launches
        );
    }
    let Some(decision) = details.decisions.last() else { return };
    let words = |config| in_words(&record.space.parameters, config);
    let Decision { default, candidates, confirmation, .. } = decision;
    let _ = writeln!(text, "Final rounds, {} launches, against\n  {}", details.final_launches, words(default));
    for candidate in candidates {
        let fate = match &candidate.fate {
            Fate::Judged(judgement) => judged(judgement),
            Fate::Failed(failure) => format!("{}: {}", word(failure.kind), failure.message),
        };
        let _ = writeln!(text, "  {}\n    {fate}", words(&candidate.config));
    }
    if let Some(judgement) = confirmation {
        let _ = writeln!(text, "  the winner again, on fresh samples\n    {}", judged(judgement));
    }
}

/// What a judgement says of B.
fn judged(judgement: &Judgement) -> String {
    let verdict = match judgement.verdict {
        Verdict::Better(Side::A) => "slower".to_owned(),
        Verdict::Better(Side::B) => "faster".to_owned(),
        other => other.to_string(),
    };
    format!(
        "{verdict}: time {}, interval {} to {}, {} blocks",
        percent(judgement.difference),
        percent(judgement.low),
        percent(judgement.high),
        judgement.blocks
    )
}

/// What the parameters do, over all configurations that were tried.
fn importance(record: &RunRecord) -> Vec<Importance> {
    let evaluations = tried(&record.measurements).into_iter().filter(|tried| tried.failure.is_none());
    let evaluation = |tried: crate::cli::store::Tried<'_>| Evaluation {
        config: tried.config.clone(),
        outcome: Outcome::Times(tried.times),
    };
    let parameters = record.space.parameters.clone();
    Report { parameters, evaluations: evaluations.map(evaluation).collect(), ..Report::default() }.summary().importance
}

fn effects(record: &RunRecord, evidence: &Evidence, text: &mut String) {
    let importance: Vec<Importance> = importance(record)
        .into_iter()
        .filter(|parameter| parameter.effects.iter().filter(|effect| effect.count > 0).count() > 1)
        .collect();
    let Some(width) = importance.iter().map(|parameter| parameter.parameter.len()).max() else { return };
    let _ = writeln!(
        text,
        "What matters: the share of the spread of times that a parameter explains by itself, and the median time of what \
         was tried with each of its values (* is chosen):"
    );
    for parameter in importance {
        let place = record.space.parameters.iter().position(|(name, _)| *name == parameter.parameter);
        let chosen = place.and_then(|place| evidence.chosen.config.0.get(place));
        let known: Vec<_> = parameter.effects.iter().filter_map(|effect| Some((effect, effect.median?))).collect();
        let shown = known.iter().take(VALUES).map(|(effect, median)| {
            let mark = if Some(&effect.value) == chosen { "*" } else { "" };
            format!("{}{mark} {}", effect.value, milliseconds(*median))
        });
        let mut values = shown.collect::<Vec<_>>().join(", ");
        if known.len() > VALUES {
            let _ = write!(values, ", and {} more", known.len() - VALUES);
        }
        let _ = writeln!(text, "  {:width$} {:3.0} %  {values}", parameter.parameter, 100.0 * parameter.share);
    }
}

fn time(contender: &Contender) -> String {
    let samples = format!("{} samples", contender.samples);
    match contender.interval_ms {
        Some((low, high)) => {
            format!(
                "{} (95 %: {} to {}), {samples}",
                milliseconds(contender.time_ms),
                milliseconds(low),
                milliseconds(high)
            )
        }
        None => format!("{}, {samples}: too few for an interval", milliseconds(contender.time_ms)),
    }
}

/// How sure it is that the chosen one is faster than another.
fn apart(evidence: &Evidence, other: &Contender) -> &'static str {
    match (evidence.chosen.interval_ms, other.interval_ms) {
        (Some((_, high)), Some((low, _))) if high < low => "The intervals do not overlap.",
        (Some(_), Some(_)) => "The intervals overlap: the two may well be the same.",
        _ => "There are too few samples to say how sure the difference is.",
    }
}

fn failures(record: &RunRecord, text: &mut String) {
    let mut kinds: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    let tried = tried(&record.measurements);
    for (kind, message) in tried.iter().filter_map(|tried| tried.failure) {
        let entry = kinds.entry(word(kind)).or_insert((0, message));
        entry.0 += 1;
    }
    for (kind, (count, message)) in kinds {
        let _ = writeln!(text, "{count} failed: {kind} (one says: {message}).");
    }
}
