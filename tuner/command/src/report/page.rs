//! Page of a report: sections, each a chart with a note.

use chart_page::{Chart, Heat, Page, Shading};

use super::Report;
use super::numbers::{self, Summary, time};
use super::words::{changes, in_words};
use tuner::compare::{Decision, Fate, rival};
use tuner::verdict::Judgement;
use tuner::{Config, Value};

/// Maximum number of heat maps; pairs of the most important parameters come first.
const MOST_MAPS: usize = 28;

/// Maximum number of cells in a map: larger ones would make the page too large to open.
const MOST_CELLS: usize = 1 << 12;

impl Report {
    /// Writes the page.
    pub fn html(&self) -> String {
        let summary = self.summary();
        let mut page = Page::new(&self.title);
        overview(&mut page, self, &summary);
        decisions(&mut page, self);
        best_so_far(&mut page, self, &summary);
        importance(&mut page, &summary);
        effects(&mut page, self, &summary);
        maps(&mut page, self, &summary);
        failures(&mut page, self);
        page.html()
    }
}

fn name(report: &Report, config: &Config) -> String {
    in_words(&report.parameters, config)
}

fn overview(page: &mut Page, report: &Report, summary: &Summary) {
    let mut rows: Vec<(String, String)> = vec![("device".into(), report.device.clone())];
    rows.extend(report.facts.iter().cloned());
    let failed: usize = summary.failures.values().sum();
    let later = match report.evaluations.len() - summary.evaluations {
        0 => String::new(),
        later => format!("; {later} more measurements, of races and final rounds"),
    };
    rows.push((
        "evaluations".into(),
        format!("{}, of which {failed} failed{later}", summary.evaluations),
    ));
    if let Some(default) = &report.default {
        let time = summary.default.map_or_else(
            || "not measured".to_owned(),
            |time| report.objective.words(time),
        );
        rows.push((
            "default in the search".into(),
            format!("{}, {time}", name(report, default)),
        ));
    }
    if let Some((config, time)) = &summary.best {
        rows.push((
            "best of the search".into(),
            format!(
                "{}, {}",
                name(report, config),
                report.objective.words(*time)
            ),
        ));
    }
    if let Some(noise) = summary.noise {
        let words = format!(
            "{:.2} % (relative standard deviation of samples, median)",
            100.0 * noise
        );
        rows.push(("noise".into(), words));
    }
    page.facts(rows);
}

fn decisions(page: &mut Page, report: &Report) {
    if report.decisions.is_empty() {
        return;
    }
    page.heading("Decisions");
    for decision in &report.decisions {
        let rival = rival(report.default.as_ref(), &decision.default);
        page.text(&format!(
            "{}.",
            decision
                .ruling
                .in_words(rival, report.objective.comparatives()[0])
        ));
        intervals(page, report, decision);
    }
    let side = if report.objective.more_is_better() {
        "right"
    } else {
        "left"
    };
    page.note(&format!(
        "The {} relative to the configuration that stays, with the interval at the corrected \
         level; {side} of 0 is {}. Only the confirmation, on fresh samples, decides.",
        report.objective.noun(),
        report.objective.comparatives()[0]
    ));
}

/// Draws the intervals of all judged candidates and of the confirmation.
fn intervals(page: &mut Page, report: &Report, decision: &Decision) {
    let mut rows: Vec<(String, &Judgement)> = Vec::new();
    let mut failed = Vec::new();
    for (i, candidate) in decision.candidates.iter().enumerate() {
        let mut label = name(report, &candidate.config);
        if decision.winner == Some(i) {
            label += " (winner)";
        }
        match &candidate.fate {
            Fate::Judged(judgement) => rows.push((label, judgement)),
            Fate::Failed(failure) => failed.push((label, failure)),
        }
    }
    rows.sort_by(|a, b| a.1.difference.total_cmp(&b.1.difference));
    rows.extend(
        decision
            .confirmation
            .as_ref()
            .map(|judgement| ("confirmation".to_owned(), judgement)),
    );
    if !rows.is_empty() {
        let names: Vec<String> = rows.iter().map(|(label, _)| label.clone()).collect();
        let percent = |of: usize| {
            rows.iter()
                .map(|(_, judgement)| 100.0 * changes(report.objective, judgement)[of])
                .collect::<Vec<f64>>()
        };
        let axis = format!(
            "difference from {}, %",
            rival(report.default.as_ref(), &decision.default)
        );
        let chart = Chart::new("decisions", &axis, "");
        page.chart(&chart.intervals(
            report.objective.noun(),
            &names,
            &percent(0),
            &percent(1),
            &percent(2),
        ));
    }
    for (label, failure) in failed {
        page.text(&format!(
            "Dropped: {label}, {}: {}",
            failure.kind.name(),
            failure.message
        ));
    }
}

fn times(report: &Report) -> Vec<(usize, f64)> {
    report
        .search()
        .iter()
        .enumerate()
        .filter_map(|(i, e)| Some((i, time(&e.outcome)?)))
        .collect()
}

fn best_so_far(page: &mut Page, report: &Report, summary: &Summary) {
    let all = times(report);
    if all.is_empty() {
        return;
    }
    page.heading("Best so far");
    let (x, y): (Vec<f64>, Vec<f64>) = all
        .iter()
        .map(|(i, time)| (*i as f64, report.objective.value(*time)))
        .unzip();
    let tip = |(i, time): &(usize, f64)| {
        format!(
            "{}: {}",
            name(report, &report.evaluations[*i].config),
            report.objective.words(*time)
        )
    };
    let hover: Vec<String> = all.iter().map(tip).collect();
    let best = summary
        .best_so_far
        .iter()
        .enumerate()
        .filter_map(|(i, best)| Some((i as f64, report.objective.value((*best)?))));
    let (steps, bests): (Vec<f64>, Vec<f64>) = best.unzip();
    let mut chart = Chart::new("best-so-far", "evaluation", report.objective.axis()).log_y();
    chart = chart
        .points("evaluation", &x, &y, &hover)
        .line("best until then", &steps, &bests);
    if let Some(default) = summary.default {
        let last = summary.evaluations.saturating_sub(1).max(1) as f64;
        chart = chart.line(
            "default",
            &[0.0, last],
            &[report.objective.value(default); 2],
        );
    }
    page.chart(&chart);
    page.note("Each point is an evaluation (median of its samples).");
}

fn importance(page: &mut Page, summary: &Summary) {
    let known: Vec<(&str, f64, f64)> = summary
        .importance
        .iter()
        .filter_map(|of| Some((of.parameter.as_str(), 100.0 * of.share?, 100.0 * of.range?)))
        .collect();
    if known.is_empty() {
        return;
    }
    page.heading("Importance of the parameters");
    let mut names: Vec<String> = known.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let ranges: Vec<f64> = known.iter().map(|(.., range)| *range).collect();
    let ranged = Chart::new("ranges", "difference between worst and best value, %", "");
    let ranged = ranged.lying_bars("difference", &names, &ranges);
    let mut shares: Vec<f64> = known.iter().map(|(_, share, _)| *share).collect();
    for pair in &summary.interactions {
        names.push(pair.parameters.join(" with "));
        shares.push(100.0 * pair.share);
    }
    let shared = Chart::new("importance", "share of the variance of log times, %", "");
    page.charts(&[shared.lying_bars("share", &names, &shares), ranged]);
    page.note(&format!(
        "What each parameter explains by itself, and each pair beyond that, corrected for chance; {:.0} % no parameter \
         explains by itself. The difference is between two times, all else equal.",
        100.0 * summary.together.unwrap_or_default()
    ));
}

fn effects(page: &mut Page, report: &Report, summary: &Summary) {
    let shown: Vec<_> = summary
        .importance
        .iter()
        .filter(|of| of.effects.len() > 1 && of.effects.iter().any(|effect| effect.best.is_some()))
        .collect();
    if shown.is_empty() {
        return;
    }
    page.heading("Main effects");
    let chart = |of: &&super::Importance| {
        let places: Vec<String> = of
            .effects
            .iter()
            .map(|effect| effect.value.to_string())
            .collect();
        let line = |pick: fn(&super::Effect) -> Option<f64>| {
            of.effects
                .iter()
                .map(|effect| pick(effect).map_or(f64::NAN, |cost| report.objective.value(cost)))
                .collect::<Vec<f64>>()
        };
        Chart::new(&of.parameter, &of.parameter, report.objective.axis())
            .log_y()
            .height(300)
            .named("best", &places, &line(|effect| effect.best))
            .named("median", &places, &line(|effect| effect.median))
    };
    page.charts(&shown.iter().map(chart).collect::<Vec<_>>());
    page.note("The best and the median of what was tried with each value.");
}

fn maps(page: &mut Page, report: &Report, summary: &Summary) {
    let order = summary.importance.iter().filter_map(|parameter| {
        report
            .parameters
            .iter()
            .position(|(name, _)| *name == parameter.parameter)
    });
    let varied: Vec<Axis<'_>> = order
        .map(|p| (p, &report.parameters[p].1[..]))
        .filter(|(_, values)| values.len() > 1)
        .collect();
    // Ordered by the less important parameter, so that the first map has the two most important
    // ones.
    let pairs: Vec<(usize, usize)> = (1..varied.len())
        .flat_map(|j| (0..j).map(move |i| (i, j)))
        .collect();
    let all = times(report);
    let low = all
        .iter()
        .map(|(_, time)| *time)
        .fold(f64::INFINITY, f64::min);
    let high = all.iter().map(|(_, time)| *time).fold(0.0, f64::max);
    if pairs.is_empty() || high <= 0.0 {
        return;
    }
    page.heading("Pairs of parameters");
    let [a, b] = [low, high].map(|cost| report.objective.value(cost));
    let range = (a.min(b), a.max(b));
    let fits = |(i, j): &&(usize, usize)| varied[*i].1.len() * varied[*j].1.len() <= MOST_CELLS;
    let charts: Vec<Chart> = pairs
        .iter()
        .filter(fits)
        .take(MOST_MAPS)
        .map(|(i, j)| map(report, &varied[*i], &varied[*j], range))
        .collect();
    page.charts(&charts);
    page.note(&format!(
        "The best with each pair of values, from {} to {}; the colours are logarithmic. Empty: not tried, or only failures.",
        report.objective.words(low),
        report.objective.words(high)
    ));
    if pairs.len() > charts.len() {
        page.note(&format!(
            "Not shown: {} of {} pairs.",
            pairs.len() - charts.len(),
            pairs.len()
        ));
    }
}

/// Parameter by number, with its values.
type Axis<'r> = (usize, &'r [Value]);

fn map(
    report: &Report,
    (across, columns): &Axis<'_>,
    (down, rows): &Axis<'_>,
    range: (f64, f64),
) -> Chart {
    let (first, second) = (&report.parameters[*across].0, &report.parameters[*down].0);
    // Best time and number of failures of each cell that was tried.
    let mut cells: Vec<Option<(f64, usize)>> = vec![None; columns.len() * rows.len()];
    for evaluation in report.search() {
        let place = |parameter: usize, values: &[Value]| {
            evaluation
                .config
                .0
                .get(parameter)
                .and_then(|value| values.iter().position(|known| known == value))
        };
        if let (Some(c), Some(r)) = (place(*across, columns), place(*down, rows)) {
            let cell = cells[r * columns.len() + c].get_or_insert((f64::INFINITY, 0));
            match time(&evaluation.outcome) {
                Some(time) => cell.0 = cell.0.min(time),
                None => cell.1 += 1,
            }
        }
    }
    let cell = |r: usize, c: usize| cells[r * columns.len() + c];
    let value =
        |r: usize, c: usize| cell(r, c).map_or(f64::NAN, |(best, _)| report.objective.value(best));
    let tip = |r: usize, c: usize| {
        let said = match cell(r, c) {
            Some((best, failed)) if best.is_finite() => {
                format!("{}, {failed} failed", report.objective.words(best))
            }
            Some((_, failed)) => format!("{failed} failed"),
            None => "not tried".to_owned(),
        };
        format!("{first}={}, {second}={}: {said}", columns[c], rows[r])
    };
    let texts = |values: &[Value]| values.iter().map(ToString::to_string).collect::<Vec<_>>();
    let heat = Heat {
        columns: texts(columns),
        rows: texts(rows),
        values: (0..rows.len())
            .map(|r| (0..columns.len()).map(|c| value(r, c)).collect())
            .collect(),
        hover: (0..rows.len())
            .map(|r| (0..columns.len()).map(|c| tip(r, c)).collect())
            .collect(),
        unit: report.objective.axis().to_owned(),
        shading: Shading::Log,
        range: Some(range),
    };
    Chart::new(&format!("{first} and {second}"), first, second)
        .height(320)
        .heat_map(heat)
}

fn failures(page: &mut Page, report: &Report) {
    let kinds = numbers::failures(report);
    if kinds.is_empty() {
        return;
    }
    page.heading("Failures");
    let head = ["kind", "how many", "the first of them"].map(str::to_owned);
    page.table(
        &head,
        kinds.into_iter().map(|(kind, count, config, message)| {
            let first = format!("{}: {message}", name(report, config));
            (
                false,
                vec![kind.name().to_owned(), count.to_string(), first],
            )
        }),
    );
}
