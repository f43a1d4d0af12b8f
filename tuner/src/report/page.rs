//! The page: its sections, each a picture with what it shows.

use super::numbers::{Summary, noise, time, values, word};
use super::svg::{Picture, Scale, colour, escape, short};
use super::{Config, Outcome, Report, Value};
use crate::compare::{Decision, Fate, Ruling};
use crate::verdict::Judgement;
use std::fmt::Write as _;

/// Heat maps on a page, those of the most important parameters first.
const MOST_MAPS: usize = 28;

const STYLE: &str = "\
body{font:15px/1.45 system-ui,sans-serif;color:#1c2024;background:#fff;max-width:72rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.6rem;margin:0 0 .2rem}h2{font-size:1.15rem;margin:2.2rem 0 .3rem;border-bottom:1px solid #d9dee3}\
p{max-width:48rem;margin:.3rem 0 .6rem}p.note{color:#5b6570}table{border-collapse:collapse;margin:.5rem 0}\
td,th{padding:.15rem .9rem .15rem 0;text-align:left;vertical-align:top;font-variant-numeric:tabular-nums}\
th{font-weight:600;color:#3d464f}td.n{text-align:right}.maps{display:flex;flex-wrap:wrap;gap:1rem}\
svg{max-width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:#3d464f}svg .name{font-size:12px;fill:#1c2024}\
.mid{text-anchor:middle}.end{text-anchor:end}.axis{stroke:#5b6570}.grid{stroke:#e6eaee}.curve{fill:none;stroke:#0b5cad;stroke-width:2}\
.dots{fill:#9fb4c8}.bad{fill:#c0392b}.good{fill:#0b5cad}.default{stroke:#c0392b;stroke-dasharray:5 4}.zero{stroke:#1c2024}\
.whisker{stroke:#0b5cad;stroke-width:2}.median{fill:none;stroke:#e08a1e;stroke-width:2}code{background:#f2f4f6;padding:0 .2rem}\
.words-default{fill:#c0392b !important}";

pub(super) fn html(report: &Report) -> String {
    let summary = report.summary();
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{0}</title><style>{STYLE}</style></head><body>\n<h1>{0}</h1>\n",
        escape(&report.title)
    );
    page += &overview(report, &summary);
    section(&mut page, "Decisions", &decisions(report));
    section(&mut page, "Best so far", &best_so_far(report, &summary));
    section(&mut page, "Importance of the parameters", &importance(&summary));
    section(&mut page, "Main effects", &effects(&summary));
    section(&mut page, "Pairs of parameters", &maps(report, &summary));
    section(&mut page, "Spread", &spread(report));
    section(&mut page, "Noise", &noises(report, &summary));
    section(&mut page, "Failures", &failures(report));
    page += "</body></html>\n";
    page
}

fn section(page: &mut String, title: &str, content: &str) {
    if !content.is_empty() {
        let _ = write!(page, "<h2>{title}</h2>\n{content}\n");
    }
}

fn name(report: &Report, config: &Config) -> String {
    let pairs = report.parameters.iter().zip(&config.0).map(|((name, _), value)| format!("{name}={value}"));
    pairs.collect::<Vec<_>>().join(" ")
}

fn overview(report: &Report, summary: &Summary) -> String {
    let mut rows: Vec<(String, String)> = vec![("device".into(), escape(&report.device))];
    rows.extend(report.facts.iter().map(|(name, value)| (escape(name), escape(value))));
    let failed: usize = summary.failures.values().sum();
    let later = match report.evaluations.len() - summary.evaluations {
        0 => String::new(),
        later => format!("; {later} more measurements, of races and final rounds"),
    };
    rows.push(("evaluations".into(), format!("{}, of which {failed} failed{later}", summary.evaluations)));
    let with_time =
        |config: &Config, time: f64| format!("<code>{}</code>, {} ms", escape(&name(report, config)), short(time));
    if let Some(default) = &report.default {
        let time = summary.default.map_or_else(|| "not measured".to_owned(), |time| format!("{} ms", short(time)));
        rows.push(("default".into(), format!("<code>{}</code>, {time}", escape(&name(report, default)))));
    }
    if let Some((config, time)) = &summary.best {
        rows.push(("fastest seen".into(), with_time(config, *time)));
    }
    if let Some(((_, best), (_, worst))) = summary.best.as_ref().zip(summary.worst.as_ref()) {
        rows.push(("spread".into(), format!("the slowest takes {} times as long as the fastest", short(worst / best))));
    }
    if let Some(noise) = summary.noise {
        rows.push((
            "noise".into(),
            format!("{} % (relative standard deviation of samples, median)", short(100.0 * noise)),
        ));
    }
    if let Some(decision) = report.decisions.last()
        && report.facts.iter().all(|(name, _)| name != "chosen")
    {
        let chosen = format!("<code>{}</code>: {}", escape(&name(report, &decision.chosen)), ruling(&decision.ruling));
        rows.push(("chosen".into(), chosen));
    }
    let mut table = String::from("<table>");
    for (name, value) in rows {
        let _ = write!(table, "<tr><th>{name}</th><td>{value}</td></tr>");
    }
    table + "</table>\n"
}

fn ruling(ruling: &Ruling) -> String {
    match ruling {
        Ruling::Promoted => "better than the default, and again on fresh samples".to_owned(),
        Ruling::NoneBetter => "the default stays: no candidate was shown to be better".to_owned(),
        Ruling::NotConfirmed(verdict) => {
            format!("the default stays: the winner did not repeat it on fresh samples ({verdict})")
        }
        Ruling::NoDefault(failure) => {
            format!("the default could not be measured: {}", escape(&failure.message))
        }
    }
}

fn decisions(report: &Report) -> String {
    let mut text = String::new();
    for decision in &report.decisions {
        let _ = write!(text, "<p>{}.</p>", ruling(&decision.ruling));
        text += &forest(report, decision);
    }
    if !text.is_empty() {
        text += "<p class=\"note\">Time against the default's, with the interval at the corrected level; left of 0 is faster. \
                 The confirmation alone, on fresh samples, decides over promotion.</p>";
    }
    text
}

/// Intervals of all judged candidates and of the confirmation.
fn forest(report: &Report, decision: &Decision) -> String {
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
    let left_out = rows.len().saturating_sub(40);
    rows.truncate(40);
    rows.extend(decision.confirmation.as_ref().map(|judgement| ("confirmation".to_owned(), judgement)));
    let ends = rows.iter().flat_map(|(_, j)| [j.low, j.high, j.difference]).filter(|x| x.is_finite());
    // From the default to what is furthest on either side, with some room; what is beyond three times its time is cut off.
    let (least, most) = ends.fold((0.0_f64, 0.0_f64), |(least, most), x| (least.min(x), most.max(x)));
    let room = 0.05 * (most - least).max(1e-4);
    let (least, most) = (100.0 * (least - room), 100.0 * (most + room).min(2.0));
    let (left, right, bottom) = (470.0, 860.0, 12.0 + 20.0 * rows.len() as f64);
    let mut picture = Picture::new(1080.0, bottom + 40.0, "Intervals of the candidates");
    let scale = Scale::new(least, most, left, right, false);
    picture.x_axis(&scale, 4.0, bottom, "difference from the default, %");
    picture.line((scale.at(0.0), 4.0), (scale.at(0.0), bottom), "zero");
    for (row, (label, judgement)) in rows.iter().enumerate() {
        let y = 16.0 + 20.0 * row as f64;
        picture.words(left - 10.0, y + 4.0, "tick end", &clipped(label, 74));
        if judgement.low.is_finite() && judgement.high.is_finite() {
            picture.line((scale.at(100.0 * judgement.low), y), (scale.at(100.0 * judgement.high), y), "whisker");
        }
        if judgement.difference.is_finite() {
            let tip = format!("{label}: {} %", short(100.0 * judgement.difference));
            picture.dot(scale.at(100.0 * judgement.difference), y, "good", &tip);
        }
        let verdict = judgement.verdict.to_string().replace("A is better", "slower").replace("B is better", "faster");
        picture.words(right + 14.0, y + 4.0, "tick", &format!("{} %, {verdict}", short(100.0 * judgement.difference)));
    }
    let mut text = if rows.is_empty() { String::new() } else { picture.finish() };
    if left_out > 0 {
        let _ = write!(text, "<p class=\"note\">{left_out} slower candidates are not shown.</p>");
    }
    for (label, failure) in failed {
        let (kind, message) = (word(&failure.kind), escape(&failure.message));
        let _ = write!(text, "<p>Dropped: <code>{}</code>, {kind}: {message}</p>", escape(&label));
    }
    text
}

fn clipped(text: &str, most: usize) -> String {
    if text.chars().count() <= most { text.to_owned() } else { text.chars().take(most - 1).chain(['…']).collect() }
}

fn times(report: &Report) -> Vec<(usize, f64)> {
    report.search().iter().enumerate().filter_map(|(i, e)| Some((i, time(&e.outcome)?))).collect()
}

fn range(times: &[(usize, f64)]) -> (f64, f64) {
    let fold = |start, pick: fn(f64, f64) -> f64| times.iter().map(|(_, time)| *time).fold(start, pick);
    (fold(f64::INFINITY, f64::min), fold(0.0, f64::max))
}

fn best_so_far(report: &Report, summary: &Summary) -> String {
    let all = times(report);
    if all.is_empty() {
        return String::new();
    }
    let (low, high) = range(&all);
    let (left, right, top, bottom) = (70.0, 1000.0, 10.0, 300.0);
    let mut picture = Picture::new(1060.0, 345.0, "Best time after each evaluation");
    let x = Scale::new(0.0, summary.evaluations.saturating_sub(1).max(1) as f64, left, right, false);
    let y = Scale::new(low, high, bottom, top, true);
    picture.x_axis(&x, top, bottom, "evaluation");
    picture.y_axis(&y, left, right, "time, ms");
    for (i, time) in &all {
        let tip = format!("{}: {} ms", name(report, &report.evaluations[*i].config), short(*time));
        picture.dot(x.at(*i as f64), y.at(*time), "dots", &tip);
    }
    if let Some(default) = summary.default {
        picture.line((left, y.at(default)), (right, y.at(default)), "default");
        picture.words(right + 6.0, y.at(default) + 4.0, "tick words-default", "default");
    }
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (i, best) in summary.best_so_far.iter().enumerate() {
        if let Some(best) = best {
            let here = (x.at(i as f64), y.at(*best));
            if let Some(last) = points.last().copied() {
                points.push((here.0, last.1));
            }
            points.push(here);
        }
    }
    picture.path(&points, "curve");
    picture.finish()
        + "<p class=\"note\">Each dot is an evaluation (median of its samples), the line the best until then.</p>"
}

fn importance(summary: &Summary) -> String {
    if summary.importance.is_empty() {
        return String::new();
    }
    let bottom = 8.0 + 22.0 * summary.importance.len() as f64;
    let mut picture = Picture::new(760.0, bottom + 40.0, "Importance of the parameters");
    let scale = Scale::new(0.0, 100.0, 200.0, 700.0, false);
    picture.x_axis(&scale, 4.0, bottom, "share of the variance of log times, %");
    for (i, parameter) in summary.importance.iter().enumerate() {
        let y = 8.0 + 22.0 * i as f64;
        picture.words(190.0, y + 12.0, "name end", &clipped(&parameter.parameter, 28));
        let width = scale.at(100.0 * parameter.share) - 200.0;
        picture.cell(200.0, y, width.max(1.0), 15.0, "#0b5cad", &format!("{:.1} %", 100.0 * parameter.share));
    }
    picture.finish()
        + "<p class=\"note\">What each parameter explains by itself, corrected for chance; what they do together is in the maps \
           below.</p>"
}

fn effects(summary: &Summary) -> String {
    let known = summary.importance.iter().flat_map(|p| &p.effects).flat_map(|e| [e.best, e.median]).flatten();
    let (low, high) = known.fold((f64::INFINITY, 0.0_f64), |(low, high), time| (low.min(time), high.max(time)));
    if high <= 0.0 {
        return String::new();
    }
    let mut text = String::from("<div class=\"maps\">");
    for parameter in summary.importance.iter().filter(|parameter| parameter.effects.len() > 1) {
        let (left, right, top, bottom) = (70.0, 335.0, 24.0, 190.0);
        let mut picture = Picture::new(345.0, 228.0, &parameter.parameter);
        picture.words(f64::midpoint(left, right), 14.0, "name mid", &clipped(&parameter.parameter, 34));
        let y = Scale::new(low, high, bottom, top, true);
        picture.y_axis(&y, left, right, "time, ms");
        let x = |i: usize| left + (i as f64 + 0.5) * (right - left) / parameter.effects.len() as f64;
        let line = |of: fn(&super::Effect) -> Option<f64>| -> Vec<(f64, f64)> {
            parameter.effects.iter().enumerate().filter_map(|(i, e)| Some((x(i), y.at(of(e)?)))).collect()
        };
        picture.path(&line(|effect| effect.median), "median");
        picture.path(&line(|effect| effect.best), "curve");
        let every = parameter.effects.len().div_ceil(8);
        for (i, effect) in parameter.effects.iter().enumerate() {
            let tip = format!("{}: {} configurations, {} failed", effect.value, effect.count, effect.failed);
            for time in [effect.best, effect.median].into_iter().flatten() {
                picture.dot(x(i), y.at(time), "good", &tip);
            }
            if i % every == 0 {
                picture.words(x(i), bottom + 15.0, "tick mid", &clipped(&effect.value.to_string(), 9));
            }
        }
        text += &picture.finish();
    }
    text + "</div><p class=\"note\">Blue: the best time with each value; orange: the median.</p>"
}

fn maps(report: &Report, summary: &Summary) -> String {
    let order: Vec<usize> = summary
        .importance
        .iter()
        .filter_map(|parameter| report.parameters.iter().position(|(name, _)| *name == parameter.parameter))
        .collect();
    let varied: Vec<(usize, Vec<Value>)> =
        order.into_iter().map(|p| (p, values(report, p))).filter(|(_, values)| values.len() > 1).collect();
    // By the less important of the two: the first map is that of the two most important ones.
    let pairs: Vec<(usize, usize)> = (1..varied.len()).flat_map(|j| (0..j).map(move |i| (i, j))).collect();
    let (low, high) = range(&times(report));
    if pairs.is_empty() || high <= 0.0 {
        return String::new();
    }
    let mut text = String::from("<div class=\"maps\">");
    for (i, j) in pairs.iter().take(MOST_MAPS) {
        text += &map(report, &varied[*i], &varied[*j], (low, high));
    }
    text += "</div><p class=\"note\">The best time with each pair of values: dark is fast (";
    let _ = write!(text, "{} ms), bright is slow ({} ms), on a logarithmic scale; ", short(low), short(high));
    text += "red: only failures; white: not tried.</p>";
    if pairs.len() > MOST_MAPS {
        let _ = write!(text, "<p class=\"note\">{} further pairs are not shown.</p>", pairs.len() - MOST_MAPS);
    }
    text
}

/// A parameter by number, with its values.
type Axis = (usize, Vec<Value>);

fn map(report: &Report, (across, columns): &Axis, (down, rows): &Axis, range: (f64, f64)) -> String {
    let (left, top, width, height) = (95.0, 24.0, 235.0, 190.0);
    let (w, h) = (width / columns.len() as f64, height / rows.len() as f64);
    let (first, second) = (&report.parameters[*across].0, &report.parameters[*down].0);
    let mut picture = Picture::new(345.0, 258.0, &format!("{first} and {second}"));
    // Best time and number of failures of each cell that was tried.
    let mut cells: Vec<Option<(f64, usize)>> = vec![None; columns.len() * rows.len()];
    for evaluation in report.search() {
        let place = |parameter: usize, values: &[Value]| {
            evaluation.config.0.get(parameter).and_then(|value| values.iter().position(|known| known == value))
        };
        if let (Some(c), Some(r)) = (place(*across, columns), place(*down, rows)) {
            let cell = cells[r * columns.len() + c].get_or_insert((f64::INFINITY, 0));
            match time(&evaluation.outcome) {
                Some(time) => cell.0 = cell.0.min(time),
                None => cell.1 += 1,
            }
        }
    }
    for (i, cell) in cells.iter().enumerate() {
        let (c, r) = (i % columns.len(), i / columns.len());
        let Some((best, failed)) = cell else { continue };
        let fill = if best.is_finite() {
            colour((best / range.0).ln() / (range.1 / range.0).ln().max(1e-9))
        } else {
            "#c0392b".to_owned()
        };
        let tip = format!("{first}={}, {second}={}: {} ms, {failed} failed", columns[c], rows[r], short(*best));
        picture.cell(left + c as f64 * w, top + r as f64 * h, w - 0.5, h - 0.5, &fill, &tip);
    }
    let every = |n: usize, most: usize| n.div_ceil(most);
    for (c, value) in columns.iter().enumerate().step_by(every(columns.len(), 8)) {
        let label = clipped(&value.to_string(), 8);
        picture.words(left + (c as f64 + 0.5) * w, top + height + 14.0, "tick mid", &label);
    }
    for (r, value) in rows.iter().enumerate().step_by(every(rows.len(), 14)) {
        picture.words(left - 5.0, top + (r as f64 + 0.5) * h + 4.0, "tick end", &clipped(&value.to_string(), 12));
    }
    picture.words(left + width / 2.0, top + height + 32.0, "name mid", &clipped(first, 34));
    picture.upwards(14.0, top + height / 2.0, "name mid", &clipped(second, 28));
    picture.finish()
}

fn spread(report: &Report) -> String {
    let mut all: Vec<f64> = times(report).into_iter().map(|(_, time)| time).collect();
    let Some(best) = all.iter().copied().reduce(f64::min) else { return String::new() };
    all.sort_by(f64::total_cmp);
    let (left, right, top, bottom) = (70.0, 700.0, 10.0, 220.0);
    let mut picture = Picture::new(720.0, 265.0, "Times of all configurations, sorted");
    let x = Scale::new(0.0, 100.0, left, right, false);
    let y = Scale::new(1.0, all[all.len() - 1] / best, bottom, top, true);
    picture.x_axis(&x, top, bottom, "share of the configurations that are at least as fast, %");
    picture.y_axis(&y, left, right, "time / best time");
    let share = |i: usize| 100.0 * i as f64 / (all.len() - 1).max(1) as f64;
    let points: Vec<(f64, f64)> = all.iter().enumerate().map(|(i, t)| (x.at(share(i)), y.at(t / best))).collect();
    picture.path(&points, "curve");
    let within = |limit: f64| all.iter().filter(|time| **time <= best * limit).count();
    picture.finish()
        + &format!(
            "<p class=\"note\">Within 1 % of the fastest: {} of {}; within 5 %: {}; within 10 %: {}.</p>",
            within(1.01),
            all.len(),
            within(1.05),
            within(1.1)
        )
}

fn noises(report: &Report, summary: &Summary) -> String {
    let points: Vec<(f64, f64, &Config)> = report
        .search()
        .iter()
        .filter_map(|e| Some((time(&e.outcome)?, 100.0 * noise(&e.outcome)?, &e.config)))
        .collect();
    let (Some(middle), false) = (summary.noise, points.is_empty()) else { return String::new() };
    let (left, right, top, bottom) = (70.0, 700.0, 10.0, 220.0);
    let mut picture = Picture::new(720.0, 265.0, "Noise of the samples");
    let ends = |of: fn(&(f64, f64, &Config)) -> f64| {
        points.iter().map(of).fold((f64::INFINITY, 0.0_f64), |(low, high), x| (low.min(x), high.max(x)))
    };
    let ((fast, slow), (_, loud)) = (ends(|p| p.0), ends(|p| p.1));
    let x = Scale::new(fast, slow, left, right, true);
    let y = Scale::new(0.0, loud, bottom, top, false);
    picture.x_axis(&x, top, bottom, "time, ms");
    picture.y_axis(&y, left, right, "standard deviation, %");
    for (time, noise, config) in points {
        picture.dot(x.at(time), y.at(noise), "dots", &format!("{}: {} %", name(report, config), short(noise)));
    }
    picture.finish()
        + &format!(
            "<p class=\"note\">Relative standard deviation of the samples of a configuration; the median is {} %. This is the \
             noise inside an evaluation: how well two configurations can be told apart, only interleaved blocks show.</p>",
            short(100.0 * middle)
        )
}

fn failures(report: &Report) -> String {
    let mut kinds: Vec<(String, usize, String)> = Vec::new();
    for evaluation in report.search() {
        if let Outcome::Failed(failure) = &evaluation.outcome {
            let kind = word(&failure.kind);
            if let Some((_, count, _)) = kinds.iter_mut().find(|(known, ..)| *known == kind) {
                *count += 1;
            } else {
                let first = format!("{}: {}", name(report, &evaluation.config), failure.message);
                kinds.push((kind, 1, first));
            }
        }
    }
    if kinds.is_empty() {
        return String::new();
    }
    let mut text = String::from("<table><tr><th>kind</th><th>how many</th><th>the first of them</th></tr>");
    for (kind, count, first) in kinds {
        let _ = write!(
            text,
            "<tr><td>{}</td><td class=\"n\">{count}</td><td>{}</td></tr>",
            escape(&kind),
            escape(&clipped(&first, 300))
        );
    }
    text + "</table>"
}
