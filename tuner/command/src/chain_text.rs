//! Results of a chain for people: as text, and as a page.

use std::fmt::Write as _;

use chart_page::{Chart, Heat, Page, Shading};
use tuner::chain::tune::{AllTuning, ChainTuning};
use tuner::verdict::{Judgement, Verdict};
use tuner::{Config, FailureKind, Named};

use crate::report::words::percent;
use crate::table::table;

/// Results of a chain.
pub(crate) struct ChainResults {
    /// File of the chain.
    pub file: String,
    /// Result on each workload.
    pub tunings: Vec<ChainTuning>,
    /// One set for all workloads, if there are several.
    pub all: Option<AllTuning>,
}

/// Writes the parameters that differ from the default.
fn in_short(tuning: &ChainTuning, config: &Config) -> String {
    let all = tuning
        .parameters
        .iter()
        .zip(tuning.default.0.iter().zip(&config.0));
    let parts: Vec<String> = all
        .filter(|(_, (default, value))| default != value)
        .map(|(name, (_, value))| format!("{name}={value}"))
        .collect();
    if parts.is_empty() {
        "default".to_owned()
    } else {
        parts.join(" ")
    }
}

/// Returns the evidence of a judgement, a line each.
pub fn evidence(judgement: &Judgement) -> String {
    let interval = if judgement.low.is_finite() && judgement.high.is_finite() {
        format!(
            "interval {} to {}",
            percent(judgement.low),
            percent(judgement.high)
        )
    } else {
        "no interval: too few blocks".to_owned()
    };
    format!(
        "difference          {} (time of B against A; {interval})\n\
         samples             {} used in {} blocks, {} discarded\n",
        percent(judgement.difference),
        judgement.kept,
        judgement.blocks,
        judgement.discarded,
    )
}

/// Describes the verdict on the whole chain.
fn verdict(tuning: &ChainTuning) -> String {
    match (&tuning.comparison, &tuning.failure) {
        (Some(comparison), _) => {
            let stays = tuning.chosen == tuning.default;
            let end = if stays {
                "the defaults stay"
            } else {
                "use the chosen values"
            };
            format!("{}: {end}", comparison.judgement.verdict)
        }
        (None, Some(failure)) => {
            format!(
                "it fails with the chosen values: the defaults stay ({}: {})",
                FailureKind::name(failure.kind),
                failure.message
            )
        }
        (None, None) => "every group keeps its default: there is nothing to compare".to_owned(),
    }
}

fn milliseconds(time: Option<f64>) -> String {
    time.map_or_else(String::new, |time| {
        tuner::objective::Objective::Time.words(time)
    })
}

/// Returns a row for each kernel and each concurrent step: times with the defaults, and with what
/// was chosen.
fn times(tuning: &ChainTuning) -> Vec<Vec<String>> {
    let change = |(default, proposed): (&Option<f64>, &Option<f64>)| {
        default
            .zip(*proposed)
            .map_or_else(String::new, |(default, proposed)| {
                percent(proposed / default - 1.0)
            })
    };
    let row = |(name, default, proposed): &(String, Option<f64>, Option<f64>)| {
        vec![
            name.clone(),
            milliseconds(*default),
            milliseconds(*proposed),
            change((default, proposed)),
        ]
    };
    tuning.times.iter().map(row).collect()
}

const TIMES: [&str; 4] = ["in the whole chain", "defaults", "chosen", "change"];

/// Writes the results as text.
pub(crate) fn text(found: &ChainResults) -> String {
    let mut parts: Vec<String> = found.tunings.iter().map(of_one).collect();
    if let (Some(all), Some(first)) = (&found.all, found.tunings.first()) {
        parts.push(of_all(all, first));
    }
    parts.join("\n")
}

fn of_one(tuning: &ChainTuning) -> String {
    let mut text = format!("chain               {}\n", tuning.what);
    for group in &tuning.groups {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\ngroup               {} (run {})\ntried               {} of {}\nchosen              {}\nverdict             {}\n",
            group.group,
            group.run,
            group.decision.tried,
            group.configurations,
            Named::of(&group.parameters, &group.decision.chosen.config),
            group.decision.verdict
        );
    }
    let _ = write!(
        text,
        "\nwhole chain\nA, the defaults     {}\nB, what was chosen  {}\n",
        Named::of(&tuning.parameters, &tuning.default),
        Named::of(&tuning.parameters, &tuning.proposed)
    );
    if let Some(comparison) = &tuning.comparison {
        text += &evidence(&comparison.judgement);
        if let (Some(trouble), Verdict::CannotTell(_)) =
            (&comparison.trouble, comparison.judgement.verdict)
        {
            let _ = writeln!(text, "note                {trouble}");
        }
    }
    let kept = tuning.kept.as_ref().map_or_else(
        || "nothing".to_owned(),
        |(run, verdict)| format!("run {run}: {verdict}"),
    );
    let _ = writeln!(
        text,
        "verdict             {}\nkept                {kept}",
        verdict(tuning)
    );
    if tuning.times.len() > 1 {
        let rows: Vec<Vec<String>> = [TIMES.map(str::to_owned).to_vec()]
            .into_iter()
            .chain(times(tuning))
            .collect();
        let _ = write!(text, "\n{}", table(&rows));
    }
    text
}

fn share(share: f64) -> String {
    if share.is_finite() {
        format!("{:.1} %", 100.0 * share)
    } else {
        "fails".to_owned()
    }
}

/// Returns the cost of each set beyond the best one, by workload, with a head.
fn costs(all: &AllTuning, of: &ChainTuning) -> Vec<Vec<String>> {
    let matrix = &all.matrix;
    let mut rows = vec![
        ["set".to_owned()]
            .into_iter()
            .chain(matrix.workloads.iter().cloned())
            .collect::<Vec<_>>(),
    ];
    for (set, config) in matrix.sets.iter().enumerate() {
        let regrets = matrix
            .regrets(set)
            .unwrap_or_default()
            .into_iter()
            .map(share);
        rows.push(
            [format!("{set}: {}", in_short(of, config))]
                .into_iter()
                .chain(regrets)
                .collect(),
        );
    }
    let best = (0..matrix.workloads.len())
        .map(|load| milliseconds(matrix.best(load).ok().map(|(_, time)| time)));
    rows.push(["best".to_owned()].into_iter().chain(best).collect());
    rows
}

fn choices(all: &AllTuning) -> Vec<(&'static str, String)> {
    let ((mean, of_mean), (worst, of_worst)) = (all.mean, all.worst);
    let pairs = all
        .matrix
        .workloads
        .iter()
        .zip(&all.of_workload)
        .map(|(name, set)| format!("{name} set {set}"));
    let mut rows = vec![
        (
            "One for all",
            format!(
                "by weighted mean set {mean} ({} on average), by worst cost set {worst} ({} at \
                 worst)",
                share(of_mean),
                share(of_worst)
            ),
        ),
        ("One for each", pairs.collect::<Vec<_>>().join(", ")),
    ];
    rows.extend(all.kept.iter().map(|kept| ("Kept for all", kept.clone())));
    rows
}

fn of_all(all: &AllTuning, of: &ChainTuning) -> String {
    let mut text = String::from("What each set costs beyond the best one, by workload\n");
    for line in table(&costs(all, of)).lines() {
        let _ = writeln!(text, "  {line}");
    }
    let _ = writeln!(text, "  ({})", doubt(all));
    for (set, workload, failure) in &all.failures {
        let _ = writeln!(
            text,
            "  set {set} fails on {}: {}",
            all.matrix.workloads[*workload], failure.message
        );
    }
    for (name, choice) in choices(all) {
        let _ = writeln!(text, "{name:20}{choice}");
    }
    text
}

fn doubt(all: &AllTuning) -> String {
    format!(
        "median standard error of a cost: {:.2} %; a cost within {:.2} % of the cost of set 0 \
         counts as equal",
        100.0 * all.error,
        200.0 * std::f64::consts::SQRT_2 * all.error
    )
}

/// Makes the page.
pub(crate) fn page(found: &ChainResults) -> String {
    let mut page = Page::new(&format!("Chain {}", found.file));
    for (number, tuning) in found.tunings.iter().enumerate() {
        page.heading(if tuning.load.is_empty() {
            "The chain"
        } else {
            &tuning.load
        });
        let of = |config| Named::of(&tuning.parameters, config).to_string();
        page.facts([
            ("chain", tuning.what.clone()),
            ("defaults", of(&tuning.default)),
            ("what was chosen", of(&tuning.proposed)),
            ("verdict on the whole chain", verdict(tuning)),
        ]);
        judged(&mut page, number, tuning);
        if !tuning.times.is_empty() {
            page.table(
                &TIMES.map(str::to_owned),
                times(tuning).into_iter().map(|row| (false, row)),
            );
            page.chart(&bars(number, tuning));
            page.note("Median times of the kernels and of steps whose kernels run at once, in the whole chain.");
        }
        let head = [
            "group",
            "configurations",
            "tried",
            "chosen",
            "verdict",
            "run",
        ]
        .map(str::to_owned);
        let rows = tuning.groups.iter().map(|group| {
            let chosen = Named::of(&group.parameters, &group.decision.chosen.config).to_string();
            let numbers = [group.configurations, group.decision.tried].map(|n| n.to_string());
            let [configurations, tried] = numbers;
            let verdict = group.decision.verdict.clone();
            (
                false,
                vec![
                    group.group.clone(),
                    configurations,
                    tried,
                    chosen,
                    verdict,
                    group.run.to_string(),
                ],
            )
        });
        page.table(&head, rows);
    }
    if let (Some(all), Some(first)) = (&found.all, found.tunings.first()) {
        page.heading("All sets on all workloads");
        page.chart(&matrix(all, first));
        page.note(&format!(
            "What each set costs beyond the best one there, in %; {}.",
            doubt(all)
        ));
        let rows = costs(all, first);
        page.table(&rows[0], rows[1..].iter().map(|row| (false, row.clone())));
        page.facts(choices(all));
    }
    page.html()
}

/// Draws the difference of the whole chain from its defaults, with its interval.
fn judged(page: &mut Page, number: usize, tuning: &ChainTuning) {
    let Some(judgement) = tuning
        .comparison
        .as_ref()
        .map(|comparison| &comparison.judgement)
    else {
        return;
    };
    let [centre, low, high] =
        [judgement.difference, judgement.low, judgement.high].map(|x| vec![100.0 * x]);
    let chart = Chart::new(
        &format!("whole-{number}"),
        "difference from the defaults, %",
        "",
    )
    .height(160);
    page.chart(&chart.intervals("time", &["whole chain".to_owned()], &centre, &low, &high));
}

fn bars(number: usize, tuning: &ChainTuning) -> Chart {
    let names: Vec<String> = tuning.times.iter().map(|(name, ..)| name.clone()).collect();
    let default: Vec<f64> = tuning
        .times
        .iter()
        .map(|(_, time, _)| time.unwrap_or(f64::NAN))
        .collect();
    let chosen: Vec<f64> = tuning
        .times
        .iter()
        .map(|(.., time)| time.unwrap_or(f64::NAN))
        .collect();
    let chart = Chart::new(&format!("times-{number}"), "time, ms", "");
    chart
        .named("defaults", &names, &default)
        .named("chosen", &names, &chosen)
}

fn matrix(all: &AllTuning, of: &ChainTuning) -> Chart {
    let matrix = &all.matrix;
    let cost = |set: usize| matrix.regrets(set).unwrap_or_default();
    let values: Vec<Vec<f64>> = (0..matrix.sets.len())
        .map(|set| {
            cost(set)
                .into_iter()
                .map(|cost| {
                    if cost.is_finite() {
                        100.0 * cost
                    } else {
                        f64::NAN
                    }
                })
                .collect()
        })
        .collect();
    let name = |set: usize| format!("{set}: {}", in_short(of, &matrix.sets[set]));
    let tip = |set: usize| -> Vec<String> {
        matrix
            .workloads
            .iter()
            .zip(cost(set))
            .map(|(load, cost)| format!("{} on {load}: {}", name(set), share(cost)))
            .collect()
    };
    let heat = Heat {
        columns: matrix.workloads.clone(),
        rows: (0..matrix.sets.len()).map(name).collect(),
        values,
        hover: (0..matrix.sets.len()).map(tip).collect(),
        unit: "% beyond the best".to_owned(),
        shading: Shading::Linear,
        range: None,
    };
    Chart::new("sets", "workload", "set")
        .height(320)
        .heat_map(heat)
}
