//! Faults that last for a part of a run: boards and lanes that fall silent, noisy lanes, low charge.
//!
//! Neighbouring bins are joined into columns with enough hits; neighbouring columns that fail are one outlier.

use super::outliers::{DEAD, LOW_CHARGE, NOISY, Outlier, OutlierKind, SIGMAS, SILENT_EXPECTED};
use super::run::{RunView, Span};
use super::sums::both;
use ut_data::detector::LANES_PER_BOARD;

/// Minimum number of columns: bins are not joined further.
const LEAST_BINS: usize = 8;

/// Hits from which a mean charge is known to a few per cent.
const CHARGED: f64 = 200.0;

/// Minimum deviation of the charge in a column, in standard deviations; a stretch must deviate by [`SIGMAS`].
const CHARGE_SIGMAS: f64 = 4.0;

/// Minimum of what noise adds, in standard deviations of the lane's hits in the run: a single busy event adds one.
const LASTING: f64 = 2.0;

/// Lane with its expectations, taken from the mirrored places.
pub struct LaneOf {
    pub slot: usize,
    pub sector: usize,
    /// Expected hits in the run, and their variance.
    pub expected: Option<(f64, f64)>,
    /// Variance of the lane's own hits in the run.
    pub variance: f64,
    pub charge: Option<f64>,
}

/// Hits and charge of a part of the detector in consecutive events.
#[derive(Clone, Copy, Debug, Default)]
struct Column {
    events: u64,
    /// Number of events, weighted by the occupancy of the rest of the detector.
    busy: f64,
    hits: u64,
    charge: u64,
    numbers: Option<(u64, u64)>,
}

impl Column {
    fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.busy += other.busy;
        self.hits += other.hits;
        self.charge += other.charge;
        self.numbers = both(self.numbers, other.numbers);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Judged {
    Fine,
    Fails,
    /// Too short to be judged: neither begins nor ends a stretch.
    Unknown,
    /// Too short to be judged; belongs to the stretch before it, if there is one.
    Follows,
}

fn stretches(columns: &[Column], judge: impl Fn(&Column) -> Judged) -> Vec<Column> {
    let (mut found, mut stretch): (Vec<Column>, Option<Column>) = (Vec::new(), None);
    for column in columns {
        match (judge(column), &mut stretch) {
            (Judged::Fails, _) => stretch.get_or_insert_default().add(column),
            (Judged::Fine, _) => found.extend(stretch.take()),
            // The column extends the stretch in time, but is no evidence.
            (Judged::Follows, Some(stretch)) => stretch.numbers = both(stretch.numbers, column.numbers),
            (Judged::Follows | Judged::Unknown, _) => {}
        }
    }
    found.extend(stretch);
    found
}

/// Joins bins into columns of about `enough` expected hits, but not into fewer than [`LEAST_BINS`]; also returns the
/// upper quartile of their hits per event.
fn columns(bins: &[Column], enough: f64) -> (Vec<Column>, f64) {
    let all = bins.iter().map(|bin| bin.events).sum::<u64>() as f64;
    let mut together = 1;
    loop {
        let sum = |bins: &[Column]| {
            let mut sum = Column::default();
            for bin in bins {
                sum.add(bin);
            }
            sum
        };
        let columns: Vec<Column> = bins.chunks(together).map(sum).collect();
        let rate = quantile(&columns, 0.75, |column| column.hits as f64 / column.events as f64);
        let few = rate * all / columns.len() as f64 <= 2.0 * enough;
        if !few || bins.len().div_ceil(2 * together) < LEAST_BINS {
            return (columns, rate);
        }
        together *= 2;
    }
}

/// Returns a quantile of a value over the columns with events; 0 if there are none.
fn quantile(columns: &[Column], share: f64, value: impl Fn(&Column) -> f64) -> f64 {
    let mut values: Vec<f64> = columns.iter().filter(|column| column.events > 0).map(value).collect();
    values.sort_by(f64::total_cmp);
    values.get((values.len() as f64 * share) as usize).copied().unwrap_or_default()
}

/// Finds boards and lanes that fail for a part of the run; `whole` are the outliers of the run as a whole.
pub fn failing_for_a_while(view: &RunView, lanes: &[LaneOf], whole: &[Outlier]) -> Vec<Outlier> {
    let spans: Vec<&Span> = view.spans.iter().map(|(_, span)| span).collect();
    let totals: Vec<u64> = spans.iter().map(|span| span.lanes.iter().sum()).collect();
    let (all, events) = (totals.iter().sum::<u64>() as f64, spans.iter().map(|span| span.events).sum::<u64>() as f64);
    let bins = |slots: std::ops::Range<usize>| -> Vec<Column> {
        let sum = |of: &[u64]| of.get(slots.clone()).map_or(0, |of| of.iter().sum());
        // The rest of the detector tells how busy the events are.
        let others = all - spans.iter().map(|span| sum(&span.lanes)).sum::<u64>() as f64;
        let column = |(span, total): (&&Span, &u64)| {
            let hits = sum(&span.lanes);
            let busy = if others > 0.0 { (total - hits) as f64 * events / others } else { span.events as f64 };
            Column { events: span.events, busy, hits, charge: sum(&span.charge), numbers: span.numbers }
        };
        spans.iter().zip(&totals).map(column).collect()
    };
    let mut found = Vec::new();
    for board in 0..view.lanes.len() / LANES_PER_BOARD {
        let first = LANES_PER_BOARD * board;
        let (columns, rate) = columns(&bins(first..first + LANES_PER_BOARD), SILENT_EXPECTED);
        let judge = |column: &Column| {
            let expected = rate * column.busy.min(column.events as f64);
            silent(column, expected, SILENT_EXPECTED)
        };
        found.extend(stretches(&columns, judge).into_iter().map(|Column { hits, events, numbers, .. }| {
            let expected = rate * events as f64;
            let sigmas = (hits as f64 - expected) / expected.sqrt();
            let (lane, sector, strips, kind) = (None, None, None, OutlierKind::SilentBoard);
            Outlier { kind, board, lane, sector, strips, hits, expected, sigmas, events: numbers }
        }));
    }
    let boards = found.len();
    for lane in lanes {
        let bins = bins(lane.slot..lane.slot + 1);
        let of_lane = |outlier: &&Outlier| {
            outlier.board == lane.slot / LANES_PER_BOARD
                && outlier.lane.is_none_or(|of| of == lane.slot % LANES_PER_BOARD)
        };
        let mut told: Vec<Outlier> = found[..boards].iter().filter(of_lane).cloned().collect();
        let beside = told.len();
        if let Some(expected) = lane.expected {
            told.extend(of_hits(view, lane, expected, &bins));
        }
        let stands_out = |kind| whole.iter().filter(of_lane).any(|outlier| outlier.kind == kind);
        // If a lane with a hot strip dies, its earlier rate would look like noise.
        let has_hot_strip = stands_out(OutlierKind::HotStrip);
        told.retain(|outlier| !has_hot_strip || outlier.kind != OutlierKind::NoisyLane);
        if !has_hot_strip && !stands_out(OutlierKind::HotLane) {
            told.extend(of_charge(view, lane, &bins));
        }
        // One outlier per stretch of events: boards take precedence over lanes, hits over charge.
        for (i, outlier) in told.iter().enumerate().skip(beside) {
            if !told[..i].iter().any(|other| overlap(other.events, outlier.events)) {
                found.push(outlier.clone());
            }
        }
    }
    found
}

fn overlap(one: Option<(u64, u64)>, other: Option<(u64, u64)>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one.0 <= other.1 && other.0 <= one.1)
}

fn silent(column: &Column, expected: f64, enough: f64) -> Judged {
    match column {
        _ if expected >= enough && (column.hits as f64) < DEAD * expected => Judged::Fails,
        _ if expected >= enough => Judged::Fine,
        Column { hits: 0, events: 1.., .. } => Judged::Follows,
        _ => Judged::Unknown,
    }
}

/// Finds stretches in which a lane is silent or noisy.
fn of_hits(view: &RunView, lane: &LaneOf, (expected, variance): (f64, f64), bins: &[Column]) -> Vec<Outlier> {
    let (events, enough) = (view.events as f64, SILENT_EXPECTED * (variance / expected.max(1.0)).max(1.0));
    let (columns, upper) = columns(bins, enough);
    let rate = expected / events;
    // If half of the run fails, the neighbours tell which half.
    let quiet = upper.min(rate);
    let alive: Vec<Column> =
        columns.iter().copied().filter(|c| c.hits as f64 >= 0.5 * quiet * c.events as f64).collect();
    let loud = quantile(&alive, 0.25, |column| column.hits as f64 / column.events as f64).max(rate);
    let outlier = |kind, column: &Column, expected: f64| {
        let error = (variance.max(lane.variance) * column.events as f64 / events).sqrt();
        let sigmas = (column.hits as f64 - expected) / error;
        let outlier = Outlier::of_lane(kind, lane.slot, lane.sector, (column.hits, expected), sigmas);
        Outlier { events: column.numbers, ..outlier }
    };
    let fewer = |column: &Column| quiet * column.busy.min(column.events as f64);
    let more = |column: &Column| loud * column.busy.max(column.events as f64);
    let silent = stretches(&columns, |column| silent(column, fewer(column), enough));
    let silent = silent.iter().map(|column| outlier(OutlierKind::SilentLane, column, fewer(column)));
    let noisy = stretches(&columns, |column| {
        let (n, expected) = (column.hits as f64, more(column));
        let error = (variance.max(lane.variance) * column.events as f64 / events).sqrt();
        match n > NOISY * expected && n - expected >= SIGMAS * error {
            _ if expected < enough => Judged::Unknown,
            true => Judged::Fails,
            false => Judged::Fine,
        }
    });
    let lasting = |column: &&Column| column.hits as f64 - more(column) >= LASTING * lane.variance.sqrt();
    let noisy = noisy.iter().filter(lasting).map(|column| outlier(OutlierKind::NoisyLane, column, more(column)));
    silent.chain(noisy).collect()
}

/// Finds stretches in which the hits of a lane have little charge.
fn of_charge(view: &RunView, lane: &LaneOf, bins: &[Column]) -> Vec<Outlier> {
    let (columns, _) = columns(bins, CHARGED);
    let mean = |column: &Column| column.charge as f64 / column.hits.max(1) as f64;
    let full: Vec<Column> = columns.iter().copied().filter(|column| column.hits as f64 >= CHARGED).collect();
    // A single large cluster moves the mean of a column; that of the neighbours over the whole run is known better.
    let usual = lane.charge.unwrap_or_else(|| quantile(&full, 0.75, mean));
    let n = view.hits_of_sector(lane.sector).max(1) as f64;
    let all = view.charge[lane.sector] as f64 / n;
    let variance = (view.charge_squares[lane.sector] as f64 / n - all * all).max(1.0);
    let sigmas = |column: &Column| (mean(column) - usual) / (variance / column.hits.max(1) as f64).sqrt();
    let is_low = |column: &Column| mean(column) < LOW_CHARGE * usual && sigmas(column) <= -CHARGE_SIGMAS;
    let found = stretches(&columns, |column| match is_low(column) {
        _ if (column.hits as f64) < SILENT_EXPECTED || column.charge == 0 => Judged::Unknown,
        true => Judged::Fails,
        false => Judged::Fine,
    });
    let outlier = |column: &Column| {
        let charges = (mean(column).round() as u64, usual);
        let outlier = Outlier::of_lane(OutlierKind::LowCharge, lane.slot, lane.sector, charges, sigmas(column));
        Outlier { events: column.numbers, ..outlier }
    };
    found.iter().filter(|column| sigmas(column) <= -SIGMAS).map(outlier).collect()
}
