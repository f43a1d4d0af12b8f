//! The whole detector in time: hits per event and mean charge.
//!
//! Two shapes are looked for in the series of bins. A *window* has one value inside and another one
//! outside, as when a voltage drops for a while; a *line* rises or falls over the whole run, as
//! when the luminosity decays. Both are fitted, and the squares that remain tell which describes
//! the series better. A window is found by trying all pairs of ends, with running sums, so that
//! each pair costs a few operations.
//!
//! A change of the whole detector is reported once, and takes precedence: a lane that has fewer
//! hits only because everything has is not an outlier.

use super::outlier::{Outlier, OutlierKind, Part, SIGMAS};
use super::page::names::short;
use super::run::{N_CHIPS, RunView, Span};
use super::when::When;

/// Minimum relative change of the hits per event, and of the mean charge.
///
/// The number of hits follows the conditions of the beam, and changes without a fault. The mean
/// charge hardly depends on them, so that a smaller change is already a change of gain.
const CHANGES: [f64; 2] = [0.2, 0.08];

/// Relative deviation of a bin below which it may be chance, of hits and charge.
///
/// Without a floor, a bin with a million hits would be known to 0.1 %, and any slow drift would be
/// significant.
const FLOORS: [f64; 2] = [0.03, 0.01];

/// Deviation of a bin next to a stretch, in standard deviations, from which it belongs to the
/// stretch.
const PARTLY: f64 = 2.0;

/// Maximum number of stretches of one quantity.
const MOST: usize = 8;

/// Minimum number of hits of a bin for a mean charge.
const CHARGED: u64 = 200;

/// Value of a bin, and its weight, the inverse of the square of its error; 0 for none.
type Value = (f64, f64);

fn mean(values: &[Value]) -> f64 {
    let weight: f64 = values.iter().map(|value| value.1).sum();
    values.iter().map(|value| value.0 * value.1).sum::<f64>() / weight
}

/// Returns the sum of the squares of the deviations from `model`, in units of the errors.
fn squares(values: &[Value], model: impl Fn(usize) -> f64) -> f64 {
    values
        .iter()
        .enumerate()
        .map(|(i, value)| value.1 * (value.0 - model(i)).powi(2))
        .sum()
}

/// Returns the stretch of bins that differs most from the others, the means inside and outside, and
/// the squares that are left; `None` if there is nothing to compare.
fn window(values: &[Value]) -> Option<(std::ops::Range<usize>, f64, f64, f64)> {
    let sums: Vec<[f64; 2]> = std::iter::once([0.0; 2])
        .chain(values.iter().scan([0.0; 2], |sum, (value, weight)| {
            *sum = [sum[0] + weight, sum[1] + weight * value];
            Some(*sum)
        }))
        .collect();
    let all = *sums.last()?;
    let mut best: Option<(f64, std::ops::Range<usize>)> = None;
    for from in 0..values.len() {
        for to in from + 1..=values.len() {
            let inside = [0, 1].map(|i| sums[to][i] - sums[from][i]);
            let outside = [0, 1].map(|i| all[i] - inside[i]);
            // What the two means explain.
            if values[from].1 == 0.0 || values[to - 1].1 == 0.0 || outside[0] < 1e-9 * all[0] {
                continue;
            }
            let gain = inside[1] * inside[1] / inside[0] + outside[1] * outside[1] / outside[0];
            if best.as_ref().is_none_or(|(most, _)| gain > *most) {
                best = Some((gain, from..to));
            }
        }
    }
    let (_, mut range) = best?;
    let weight = |range: &std::ops::Range<usize>| {
        values[range.clone()]
            .iter()
            .map(|value| value.1)
            .sum::<f64>()
    };
    let first = values.iter().position(|value| value.1 > 0.0)?;
    let last = values.iter().rposition(|value| value.1 > 0.0)?;
    // A change that stays: the part after it is the news. Otherwise the smaller part is.
    if range.start == first && range.end <= last {
        range = range.end..last + 1;
    } else if range.start > first && range.end <= last && weight(&range) > 0.5 * all[0] {
        return None;
    }
    let inside = mean(&values[range.clone()]);
    let others: Vec<Value> = values
        .iter()
        .enumerate()
        .filter(|(i, _)| !range.contains(i))
        .map(|(_, value)| *value)
        .collect();
    let outside = mean(&others);
    let left = squares(
        values,
        |i| if range.contains(&i) { inside } else { outside },
    );
    Some((range, inside, outside, left))
}

/// Returns the ends of a line through the values, and the squares that are left.
fn line(values: &[Value]) -> Option<(f64, f64, f64)> {
    let weight: f64 = values.iter().map(|value| value.1).sum();
    let x = values
        .iter()
        .enumerate()
        .map(|(i, value)| i as f64 * value.1)
        .sum::<f64>()
        / weight;
    let y = mean(values);
    let (mut xx, mut xy) = (0.0, 0.0);
    for (i, value) in values.iter().enumerate() {
        let away = i as f64 - x;
        xx += value.1 * away * away;
        xy += value.1 * away * (value.0 - y);
    }
    let slope = (xx > 0.0).then(|| xy / xx)?;
    let at = |i: f64| y + slope * (i - x);
    let left = squares(values, |i| at(i as f64));
    Some((at(0.0), at(values.len() as f64 - 1.0), left))
}

fn changes(view: &RunView, kind: OutlierKind, mut values: Vec<Value>) -> Vec<Outlier> {
    let of_charge = usize::from(kind == OutlierKind::Gain);
    let (least, floor) = (CHANGES[of_charge], FLOORS[of_charge]);
    let unit = if of_charge == 1 {
        "ΣADC in the mean"
    } else {
        "hits per event"
    };
    let outlier = |(seen, expected): (f64, f64), sigmas: f64, when, detail| Outlier {
        seen,
        expected,
        sigmas,
        when,
        detail,
        ..Outlier::new(kind, Part::Run)
    };
    let mut found: Vec<Outlier> = Vec::new();
    for _ in 0..MOST {
        let there = values.iter().filter(|value| value.1 > 0.0).count();
        let Some((range, inside, outside, left)) = window(&values).filter(|_| there >= 4) else {
            break;
        };
        let error = |values: &mut dyn Iterator<Item = &Value>| {
            let weight: f64 = values.map(|value| value.1).sum();
            1.0 / weight
        };
        let outer = error(
            &mut values
                .iter()
                .enumerate()
                .filter(|(i, _)| !range.contains(i))
                .map(|(_, value)| value),
        );
        let errors = error(&mut values[range.clone()].iter()) + outer + (floor * outside).powi(2);
        let sigmas = (inside - outside) / errors.sqrt();
        if let Some((begin, end, of_line)) = line(&values)
            && found.is_empty()
            && of_line < 0.8 * left
            && (end / begin - 1.0).abs() > least
            && (end - begin).abs() >= SIGMAS * errors.sqrt()
        {
            let way = if end > begin { "rise" } else { "fall" };
            let ends = format!(
                "{way} steadily from {} to {} {unit}",
                short(begin),
                short(end)
            );
            return vec![outlier((end, begin), sigmas, When::Throughout, ends)];
        }
        if (inside / outside - 1.0).abs() <= least || sigmas.abs() < SIGMAS {
            break;
        }
        // Bins that the change has in part.
        let mut range = range;
        let is_part = |values: &[Value], at: usize| {
            let (value, weight) = values[at];
            weight > 0.0
                && (value - outside) * (inside - outside).signum() * weight.sqrt() >= PARTLY
        };
        if range.start > 0 && is_part(&values, range.start - 1) {
            range.start -= 1;
        }
        if range.end < values.len() && is_part(&values, range.end) {
            range.end += 1;
        }
        let detail = format!(
            "{} {unit}, {} times the {} otherwise",
            short(inside),
            short(inside / outside),
            short(outside)
        );
        values[range.clone()]
            .iter_mut()
            .for_each(|value| value.1 = 0.0);
        let when = When::of(view, [range]);
        // Stretches with as many hits are one line.
        match found
            .iter_mut()
            .find(|other| (other.seen / inside - 1.0).abs() < 0.15)
        {
            Some(other) => other.when.join(&when),
            None => found.push(outlier((inside, outside), sigmas, when, detail)),
        }
    }
    found
}

/// Finds changes of the hits per event and of the mean charge of the whole detector.
pub fn of_detector(view: &RunView) -> Vec<Outlier> {
    let spans: Vec<&Span> = view.spans.iter().map(|(_, span)| span).collect();
    let (mut within, mut free) = (0.0, 0.0);
    for span in &spans {
        let (n, hits) = (span.events as f64, span.hits() as f64);
        if n > 1.0 {
            within += span.squares as f64 - hits * hits / n;
            free += n - 1.0;
        }
    }
    let all = spans.iter().map(|span| span.hits()).sum::<u64>() as f64 / view.events.max(1) as f64;
    // Hits are independent at best.
    let variance = if free > 0.0 {
        (within / free).max(all)
    } else {
        all * all
    };
    let weight = |variance: f64, floor: f64| 1.0 / (variance + floor * floor).max(1e-9);
    let rate = |span: &&Span| {
        let n = span.events as f64;
        if n > 0.0 {
            (
                span.hits() as f64 / n,
                weight(variance / n, FLOORS[0] * all),
            )
        } else {
            (0.0, 0.0)
        }
    };
    let mut found = changes(view, OutlierKind::Rate, spans.iter().map(rate).collect());
    if view.clusters > 0 {
        let n = view.clusters as f64;
        let mean = view.charge.iter().sum::<u64>() as f64 / n;
        let variance = view.charge_squares.iter().map(|&n| n as f64).sum::<f64>() / n - mean * mean;
        let charge = |span: &&Span| {
            let hits = span.hits();
            let charge = span.charge_of(&(0..N_CHIPS)) as f64 / hits.max(1) as f64;
            if hits < CHARGED {
                (0.0, 0.0)
            } else {
                (charge, weight(variance / hits as f64, FLOORS[1] * mean))
            }
        };
        for gain in changes(view, OutlierKind::Gain, spans.iter().map(charge).collect()) {
            // Noise adds hits of little charge: one cause.
            match found
                .iter_mut()
                .find(|rate| rate.when.is_like(&gain.when) && rate.seen > rate.expected)
            {
                Some(rate) => rate.detail = format!("{}; {}", rate.detail, gain.detail),
                None => found.push(gain),
            }
        }
    }
    found
}
