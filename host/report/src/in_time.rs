//! Faults that last for a part of the run: boards, lanes and chips that fall silent, quiet or
//! noisy, or whose charge changes.
//!
//! Neighbouring bins are joined into columns with enough hits; neighbouring columns that fail are a
//! stretch, whose ends are then looked for in single bins.
//!
//! # Why columns
//!
//! The run keeps hits in bins of consecutive events, finer than most parts of the detector can be
//! judged: a chip in the outer region may have three hits in a bin, and three is neither few nor
//! many. A column joins neighbouring bins until the part should have enough hits in it that "none"
//! or "half" cannot be chance. Busy parts keep narrow columns and a sharp view in time; quiet parts
//! get wide ones. With fewer than eight columns a stretch could no longer be told from the run as a
//! whole, so there the joining stops, and a part that is still too quiet is not judged here.
//!
//! # Why the rest of the detector sets the expectation
//!
//! Events differ: a bin of busy collisions has more hits everywhere, which is not a fault. The hits
//! of the *rest* of the detector tell how busy a bin was, and a part is compared with its own usual
//! rate times this activity. For a deficit the expectation is the smaller one of the number of
//! events and their activity, for an excess the larger one: where the two disagree, the part gets
//! the benefit of the doubt.
//!
//! # Why boards come first
//!
//! A board that dies silences its six lanes and their chips. Each would be found, too, and the page
//! would show thirty lines for one cause. So boards are judged first, then lanes, then chips; for
//! each part, hits before charge. A finding that overlaps in time with one about a larger part
//! around it is dropped, with two exceptions that depend on each other: a lane is quiet because one
//! of its chips is silent (then the chip is kept), and a chip is quiet because its lane is (then
//! the lane is kept). Charges are resolved in the same way, see [`is_of_chips`].

use std::ops::Range;

use super::bins::both;
use super::outlier::{
    DEAD, HIGH_CHARGE, LOW_CHARGE, NO_CHANCE, NOISY, Outlier, OutlierKind, Part, PartOf, QUIET,
    SIGMAS, SILENT_EXPECTED,
};
use super::run::{CLIPPED, RunView, Span, chips_of_lanes};
use super::when::When;
use ut_data::DetectorTables;
use ut_data::detector::LANES_PER_BOARD;

/// Minimum number of columns: bins are not joined further.
///
/// A stretch needs healthy columns on at least one side to be compared with.
const LEAST_BINS: usize = 8;

/// Hits from which a mean charge is known to a few per cent.
///
/// If the charge of a hit varies by half of the mean, the mean of 200 hits is known to 0.5 / √200,
/// less than 4 %. Changes count from 30 % on ([`LOW_CHARGE`], [`HIGH_CHARGE`]), well outside.
const CHARGED: f64 = 200.0;

/// Minimum deviation of a column, in standard deviations; a stretch must deviate by [`SIGMAS`].
///
/// The lower bound lets the weaker columns of a real fault join their stretch, so that the stretch
/// is not cut into pieces. A single column at four standard deviations is expected by chance
/// somewhere among the thousands of parts, but it does not reach [`SIGMAS`] and is dropped in the
/// end.
const COLUMN_SIGMAS: f64 = 4.0;

/// Minimum share, of the hits expected in a silent stretch, for a column to be judged.
const PARTLY: f64 = 0.25;

/// Minimum share of what a lane has too much that a chip of it has, if it is the chip's.
pub const MOSTLY: f64 = 0.8;

/// Minimum deviation of a bin at the end of a stretch that still belongs to it, in standard
/// deviations.
///
/// A fault seldom begins with a bin. In the bin at its edge the part fails for some of the events
/// only, so that a clear deviation cannot be required there.
const END_SIGMAS: f64 = 1.0;

/// Logarithm of the likelihood ratio below which bins at an end of the run do not contradict a
/// fault.
///
/// 3 is a ratio of twenty to one (e³). If the last bins of a run have few events, they would have
/// to speak clearly for a recovery to end the fault before the run does: "from event 5000 on" is
/// the better description as long as nothing speaks against it.
const UNSURE: f64 = 3.0;

/// Minimum of what noise adds, in standard deviations of the lane's hits in the run: a single busy
/// event adds one.
///
/// A shower in one event can fill a lane. Real noise goes on, and adds more than one event can.
const LASTING: f64 = 2.0;

/// Hits and charge of a part of the detector in consecutive events.
#[derive(Clone, Debug, Default)]
pub struct Column {
    events: u64,
    /// Number of events, weighted by the occupancy of the rest of the detector.
    busy: f64,
    hits: u64,
    charge: u64,
    numbers: Option<(u64, u64)>,
    bins: Range<usize>,
}

impl Column {
    fn add(&mut self, other: &Self) {
        self.bins = if self.bins.is_empty() {
            other.bins.clone()
        } else {
            self.bins.start..other.bins.end
        };
        self.events += other.events;
        self.busy += other.busy;
        self.hits += other.hits;
        self.charge += other.charge;
        self.numbers = both(self.numbers, other.numbers);
    }

    fn of(bins: &[Self]) -> Self {
        let mut sum = Self::default();
        for bin in bins {
            sum.add(bin);
        }
        sum
    }

    fn mean(&self) -> f64 {
        self.charge as f64 / self.hits.max(1) as f64
    }
}

/// Two verdicts would not do. A column with too few expected hits is neither fine nor failing, and
/// calling it fine would cut a stretch in two at each gap in the data. Such a column leaves the
/// state as it was. If it has events and no hit at all, it also moves the end of a silent stretch
/// forward, without counting as evidence.
#[derive(Clone, Copy, PartialEq)]
enum Judged {
    Fine,
    Fails,
    /// Too short to be judged: neither begins nor ends a stretch.
    Unknown,
    /// Too short to be judged; belongs to the stretch before it, if there is one.
    Follows,
}

/// A stretch of columns that fail, and the bins within which it begins and ends.
struct Stretch {
    found: Column,
    within: Range<usize>,
}

/// Joins neighbouring columns that fail into stretches.
///
/// Each stretch carries the bins from the start of the last fine column before it to the end of the
/// first fine column after it. The fault begins and ends somewhere in there: a fine column next to
/// the stretch may contain its first bins.
fn stretches(columns: &[Column], judge: impl Fn(&Column) -> Judged) -> Vec<Stretch> {
    let (mut found, mut stretch): (Vec<Stretch>, Option<Column>) = (Vec::new(), None);
    let last = columns.last().map_or(0, |column| column.bins.end);
    let mut fine = 0;
    for column in columns {
        match (judge(column), &mut stretch) {
            (Judged::Fails, _) => stretch.get_or_insert_default().add(column),
            (Judged::Fine, _) => {
                let end = column.bins.end;
                found.extend(stretch.take().map(|stretch| Stretch {
                    found: stretch,
                    within: fine..end,
                }));
                fine = column.bins.start;
            }
            // The column extends the stretch in time, but does not count as evidence.
            (Judged::Follows, Some(stretch)) => {
                stretch.numbers = both(stretch.numbers, column.numbers);
                stretch.bins.end = column.bins.end;
            }
            (Judged::Follows | Judged::Unknown, _) => {}
        }
    }
    found.extend(stretch.map(|stretch| Stretch {
        found: stretch,
        within: fine..last,
    }));
    found
}

/// Looks for the ends of a stretch in single bins: `likely` is the logarithm of the ratio of two
/// likelihoods, that the part fails in a bin and that it is fine there, and `fails` is true for a
/// bin that is partly as in a failure.
///
/// From the middle of the stretch, which certainly fails, the sum of the log likelihoods is
/// followed outwards on either side. It rises while bins look like the fault and falls once they
/// look healthy; the bin where the sum is largest is the most likely end. A single odd bin inside
/// the fault lowers the sum a little and does not end it. For example, with `likely` = 2, 2, -1, 2,
/// -3, -3 from the middle on, the sums are 2, 4, 3, 5, 2, -1, and the fault ends with the fourth
/// bin.
fn ends(
    bins: &[Column],
    Stretch { found, within }: Stretch,
    likely: impl Fn(&Column) -> f64,
    fails: impl Fn(&Column) -> bool,
) -> Range<usize> {
    // The best sum over the bins from a place on, to either side of the middle.
    let middle = usize::midpoint(found.bins.start, found.bins.end);
    let best = |places: &mut dyn Iterator<Item = usize>| {
        let (mut sum, mut best) = (0.0, (0.0, None));
        for at in places {
            sum += likely(&bins[at]);
            if sum > best.0 {
                best = (sum, Some(at));
            }
        }
        best.1
    };
    let mut start = best(&mut (within.start..=middle).rev()).unwrap_or(middle);
    let mut end = best(&mut (middle..within.end)).unwrap_or(middle) + 1;
    let is_there = |at: usize| bins[at].events > 0;
    // At the ends of the run, a few bins that do not contradict belong to it.
    let sum = |range: Range<usize>| range.map(|at| likely(&bins[at])).sum::<f64>();
    if within.start == 0 && sum(0..start) > -UNSURE {
        start = (0..start).find(|&at| is_there(at)).unwrap_or(start);
    }
    if within.end == bins.len() && sum(end..bins.len()) > -UNSURE {
        end = (end..bins.len())
            .rfind(|&at| is_there(at))
            .map_or(end, |last| last + 1);
    }
    if let Some(before) = (within.start..start)
        .rev()
        .find(|&at| is_there(at))
        .filter(|&at| fails(&bins[at]))
    {
        start = before;
    }
    if let Some(behind) = (end..within.end)
        .find(|&at| is_there(at))
        .filter(|&at| fails(&bins[at]))
    {
        end = behind + 1;
    }
    start..end
}

/// Returns true if the charge of a lane is explained by some of its chips, which are in `found`,
/// while its other chips are healthy.
///
/// If one of four chips has 60 % of its charge and the others are healthy, the lane has about 90 %.
/// If the whole lane has lost gain, it is at 60 % like the chips that were found. The lane's own
/// ratio decides which of the two descriptions is nearer.
pub fn is_of_chips(lane: &Outlier, found: &[Outlier], tables: &DetectorTables) -> bool {
    let Some(slot) = lane.slot() else {
        return false;
    };
    let chips = found.iter().filter(|of| {
        of.part == Part::Chip
            && of.slot() == Some(slot)
            && of.kind.is_of_charge()
            && of.when.may_overlap(&lane.when)
    });
    let ratios: Vec<f64> = chips.map(|of| of.seen / of.expected).collect();
    let (n, of_lane) = (ratios.len() as f64, lane.seen / lane.expected);
    let all = if tables.slots()[slot].chan_id == 0 {
        0.0
    } else {
        chips_of_lanes(tables)[slot].len() as f64
    };
    let mean = ratios.iter().sum::<f64>() / n;
    let of_some = (n * mean + all - n) / all;
    n > 0.0 && n < all && (of_lane - of_some).abs() < (of_lane - mean).abs()
}

/// Returns the logarithm of the ratio of two Poisson likelihoods: for a `share` of the expected
/// hits, and for all of them. Hits in a bin without expected hits contradict a small share, too.
fn poisson(n: f64, share: f64, expected: f64) -> f64 {
    n * share.max(1e-9).ln() - (share - 1.0) * expected
}

/// Joins bins into columns of about `enough` expected hits, but not into fewer than [`LEAST_BINS`];
/// also returns the upper quartile of their hits per event.
///
/// The upper quartile stands for the healthy part of the run: a part that was silent for half of
/// the run would halve its mean rate and hide its own failure, but three quarters of the run may
/// fail before the upper quartile moves. The number of joined bins doubles until the expected hits
/// suffice, so columns always hold 1, 2, 4, … bins.
fn columns(bins: &[Column], enough: f64) -> (Vec<Column>, f64) {
    let all = bins.iter().map(|bin| bin.events).sum::<u64>() as f64;
    let mut together = 1;
    loop {
        let columns: Vec<Column> = bins.chunks(together).map(Column::of).collect();
        let rate = quantile(&columns, 0.75, |column| {
            column.hits as f64 / column.events as f64
        });
        let few = rate * all / columns.len() as f64 <= 2.0 * enough;
        if !few || bins.len().div_ceil(2 * together) < LEAST_BINS {
            return (columns, rate);
        }
        together *= 2;
    }
}

/// Returns a quantile of a value over the columns with events; 0 if there are none.
fn quantile(columns: &[Column], share: f64, value: impl Fn(&Column) -> f64) -> f64 {
    let mut values: Vec<f64> = columns
        .iter()
        .filter(|column| column.events > 0)
        .map(value)
        .collect();
    values.sort_by(f64::total_cmp);
    values
        .get((values.len() as f64 * share) as usize)
        .copied()
        .unwrap_or_default()
}

/// The bins of a run, for any part of the detector.
struct OfRun<'a> {
    view: &'a RunView,
    spans: Vec<&'a Span>,
    totals: Vec<u64>,
    all: f64,
    events: f64,
    /// Bins that are left out.
    is_odd: &'a [bool],
    /// Variance of the charge of a hit, of `CLIPPED` at most.
    variance: f64,
}

impl<'a> OfRun<'a> {
    fn new(view: &'a RunView, is_odd: &'a [bool]) -> Self {
        let spans: Vec<&Span> = view.spans.iter().map(|(_, span)| span).collect();
        let totals: Vec<u64> = spans.iter().map(|span| span.hits()).collect();
        let all = totals.iter().sum::<u64>() as f64;
        let events = spans.iter().map(|span| span.events).sum::<u64>() as f64;
        let (mut n, mut sums) = (0.0, [0.0; 2]);
        for (charge, hits) in view
            .charge_of_layer
            .iter()
            .flat_map(|layer| layer.iter().enumerate())
        {
            let charge = charge.min(CLIPPED as usize) as f64;
            n += *hits as f64;
            sums = [
                sums[0] + charge * *hits as f64,
                sums[1] + charge * charge * *hits as f64,
            ];
        }
        // One variance for all hits of the run. Clipping keeps a few large clusters from dominating
        // it. It is at least 1, so that in data whose hits all have the same charge a small
        // difference is not infinitely significant.
        let variance = if n > 0.0 {
            (sums[1] / n - (sums[0] / n).powi(2)).max(1.0)
        } else {
            1.0
        };
        Self {
            view,
            spans,
            totals,
            all,
            events,
            is_odd,
            variance,
        }
    }

    fn bins(&self, chips: &[Range<usize>]) -> Vec<Column> {
        let hits: Vec<u64> = self
            .spans
            .iter()
            .map(|span| chips.iter().map(|chips| span.hits_of(chips)).sum())
            .collect();
        // The rest of the detector tells how busy the events are.
        let others = self.all - hits.iter().sum::<u64>() as f64;
        let column = |(i, (span, total)): (usize, (&&Span, &u64))| {
            let busy = if others > 0.0 {
                (total - hits[i]) as f64 * self.events / others
            } else {
                span.events as f64
            };
            let charge = chips.iter().map(|chips| span.charge_of(chips)).sum();
            if self.is_odd.get(i) == Some(&true) {
                return Column {
                    bins: i..i + 1,
                    ..Column::default()
                };
            }
            Column {
                events: span.events,
                busy,
                hits: hits[i],
                charge,
                numbers: span.numbers,
                bins: i..i + 1,
            }
        };
        self.spans
            .iter()
            .zip(&self.totals)
            .enumerate()
            .map(column)
            .collect()
    }

    fn when(&self, bins: Range<usize>) -> When {
        When::of(self.view, [bins])
    }
}

/// Finds boards, lanes and chips that fail for a part of the run; `whole` are the outliers of the
/// run as a whole. Bins in which the whole detector `is_odd` are left out.
pub fn failing_for_a_while(
    (view, tables): (&RunView, &DetectorTables),
    (lanes, chips): (&[PartOf], &[PartOf]),
    (whole, is_odd): (&[Outlier], &[bool]),
) -> Vec<Outlier> {
    let run = OfRun::new(view, is_odd);
    if run.spans.is_empty() {
        return Vec::new();
    }
    let mut found = silent_boards(&run, tables);
    let boards = found.len();
    for part in lanes.iter().chain(chips) {
        let bins = run.bins(std::slice::from_ref(&part.chips));
        let is_around = |outlier: &&Outlier| {
            outlier.board == Some(part.slot / LANES_PER_BOARD)
                && outlier
                    .lane
                    .is_none_or(|of| of == part.slot % LANES_PER_BOARD)
                && outlier.strips.is_none_or(|(first, last)| {
                    part.strips
                        .is_some_and(|(of_first, of_last)| first <= of_first && of_last <= last)
                })
        };
        let above = if part.strips.is_some() {
            found.len()
        } else {
            boards
        };
        // A lane is quiet because a chip of it is silent.
        let is_above = |of: &&Outlier| {
            part.strips.is_none() || of.kind != OutlierKind::Quiet && !of.kind.is_of_charge()
        };
        let mut told: Vec<Outlier> = found[..above]
            .iter()
            .filter(is_around)
            .filter(is_above)
            .cloned()
            .collect();
        let beside = told.len();
        if let Some(expected) = part.expected.filter(|(expected, _)| *expected > 0.0) {
            told.extend(of_hits(&run, part, expected, &bins));
        }
        let hot: Vec<&Outlier> = whole
            .iter()
            .filter(|of| of.kind == OutlierKind::Hot && of.slot() == Some(part.slot))
            .collect();
        if hot.iter().any(|of| of.part == Part::Strip) {
            // The hits of a hot strip look like noise of its chip, and tell its time.
            found.extend(hot_strips(part, &hot, &told[beside..]));
            told.retain(|outlier| outlier.kind != OutlierKind::Noisy);
        } else if !hot.iter().any(|of| {
            part.strips.is_none() || of.strips.is_none_or(|strips| part.strips == Some(strips))
        }) {
            told.extend(of_charge(&run, part, &bins));
        }
        // One outlier per stretch of events: boards take precedence over lanes, lanes over chips,
        // hits over charge.
        for (i, outlier) in told.iter().enumerate().skip(beside) {
            // What a lane has too much may be of one of its chips.
            let is_said = |other: &Outlier| {
                other.when.overlaps(&outlier.when)
                    && (other.part != Part::Lane
                        || outlier.part != Part::Chip
                        || [other.kind, outlier.kind] != [OutlierKind::Noisy; 2])
            };
            if !told[..i].iter().any(is_said) {
                found.push(outlier.clone());
            }
        }
    }
    lanes_or_chips(&mut found, tables);
    found
}

/// Finds boards that are silent for a part of the run.
fn silent_boards(run: &OfRun<'_>, tables: &DetectorTables) -> Vec<Outlier> {
    let of_lanes = chips_of_lanes(tables);
    let mut found = Vec::new();
    for (board, chips) in of_lanes.chunks(LANES_PER_BOARD).enumerate() {
        let bins = run.bins(chips);
        let (columns, rate) = columns(&bins, SILENT_EXPECTED);
        let expected = |column: &Column| rate * column.busy.min(column.events as f64);
        for stretch in silences(&columns, expected, SILENT_EXPECTED) {
            let Column { hits, events, .. } = stretch.found;
            let inside = hits as f64 / (rate * events as f64);
            let likely = |bin: &Column| poisson(bin.hits as f64, inside, expected(bin));
            let bins = ends(&bins, stretch, likely, |bin| fewer(bin, expected(bin), 1.0));
            let expected = rate * events as f64;
            found.push(Outlier {
                board: Some(board),
                seen: hits as f64,
                expected,
                sigmas: (hits as f64 - expected) / expected.sqrt(),
                when: run.when(bins),
                ..Outlier::new(OutlierKind::Silent, Part::Board)
            });
        }
    }
    found
}

/// Leaves, of a lane and its chips that fail in the same way at the same time, what says it best.
fn lanes_or_chips(found: &mut Vec<Outlier>, tables: &DetectorTables) {
    let chips: Vec<Outlier> = found
        .iter()
        .filter(|of| of.part == Part::Chip)
        .cloned()
        .collect();
    let lanes: Vec<Outlier> = found
        .iter()
        .filter(|of| {
            of.part == Part::Lane && matches!(of.kind, OutlierKind::Quiet | OutlierKind::Noisy)
        })
        .cloned()
        .collect();
    let has_most = |chip: &Outlier, lane: &Outlier| {
        chip.seen - chip.expected >= MOSTLY * (lane.seen - lane.expected)
    };
    let charged: Vec<Outlier> = found
        .iter()
        .filter(|of| {
            of.part == Part::Lane && of.kind.is_of_charge() && !is_of_chips(of, &chips, tables)
        })
        .cloned()
        .collect();
    found.retain(|of| {
        let is_with = |other: &&Outlier| other.slot() == of.slot() && other.when.overlaps(&of.when);
        match (of.part, of.kind) {
            (Part::Lane, OutlierKind::Quiet) => !chips
                .iter()
                .filter(is_with)
                .any(|chip| chip.kind == OutlierKind::Silent),
            (Part::Chip, OutlierKind::Quiet) => !lanes.iter().any(|lane| is_with(&lane)),
            (Part::Lane, OutlierKind::Noisy) => {
                let mut noisy = chips.iter().filter(|of| of.kind == OutlierKind::Noisy);
                !noisy.any(|chip| is_with(&chip) && has_most(chip, of))
            }
            (Part::Chip, OutlierKind::Noisy) => {
                lanes.iter().filter(is_with).all(|lane| has_most(of, lane))
            }
            (Part::Lane, kind) if kind.is_of_charge() => !is_of_chips(of, &chips, tables),
            (Part::Chip, kind) if kind.is_of_charge() => !charged.iter().any(|lane| is_with(&lane)),
            _ => true,
        }
    });
}

/// Finds the stretches of columns below [`DEAD`] of their expected hits in which `enough` are
/// expected.
///
/// With 50 expected hits ([`SILENT_EXPECTED`]), fewer than 5 do not happen by chance. A dead part
/// is allowed a few hits because single noisy strips may still fire, or because the column extends
/// a little into healthy events. A column of a part with few hits has fewer expected ones, so that
/// the stretch as a whole must have enough.
fn silences(columns: &[Column], expected: impl Fn(&Column) -> f64, enough: f64) -> Vec<Stretch> {
    let judge = |column: &Column| match (column, expected(column)) {
        (_, of) if of >= PARTLY * enough && (column.hits as f64) < DEAD * of => Judged::Fails,
        (_, of) if of >= PARTLY * enough => Judged::Fine,
        (
            Column {
                hits: 0,
                events: 1..,
                ..
            },
            _,
        ) => Judged::Follows,
        _ => Judged::Unknown,
    };
    let mut found = stretches(columns, judge);
    found.retain(|stretch| expected(&stretch.found) >= enough);
    found
}

/// Returns the hot strips of a chip, among the hot parts of its lane, with the time in which the
/// chip has too many hits, if these are the strips'.
fn hot_strips(part: &PartOf, hot: &[&Outlier], told: &[Outlier]) -> Vec<Outlier> {
    let is_here = |of: &&&Outlier| {
        part.strips
            .zip(of.strips)
            .is_some_and(|((first, last), (strip, end))| {
                of.part == Part::Strip && first <= strip && end <= last
            })
    };
    let strips: Vec<&&Outlier> = hot.iter().filter(is_here).collect();
    let noisy = || told.iter().filter(|of| of.kind == OutlierKind::Noisy);
    let more: f64 = noisy().map(|of| of.seen - of.expected).sum();
    // What was found may lack the ends of the stretch.
    if more < 0.4 * strips.iter().map(|of| of.seen).sum::<f64>() {
        return Vec::new();
    }
    let mut when = When::Unknown;
    noisy().for_each(|of| when.join(&of.when));
    strips
        .into_iter()
        .map(|&of| Outlier {
            when: when.clone(),
            ..of.clone()
        })
        .collect()
}

/// Returns true if a bin has fewer hits than expected, with a variance of `clumps` hits.
fn fewer(bin: &Column, expected: f64, clumps: f64) -> bool {
    expected - bin.hits as f64 >= END_SIGMAS * (expected * clumps).max(1.0).sqrt()
}

/// Finds stretches in which a lane or chip is silent, quiet or noisy.
fn of_hits(
    run: &OfRun<'_>,
    part: &PartOf,
    (expected, variance): (f64, f64),
    bins: &[Column],
) -> Vec<Outlier> {
    // Hits come in clumps: a jet leaves many in one lane. `clumps` is the factor by which the
    // variance of this lane, as its neighbours show it, exceeds the variance of independent hits. A
    // lane with clumps of 4 needs four times the hits for the same certainty.
    let clumps = (variance / expected.max(1.0)).max(1.0);
    let enough = SILENT_EXPECTED * clumps;
    let (columns, upper) = columns(bins, enough);
    let rate = expected / run.events;
    // If half of the run fails, the neighbours tell which half.
    let low = upper.min(rate);
    let alive: Vec<Column> = columns
        .iter()
        .filter(|c| c.hits as f64 >= 0.5 * low * c.events as f64)
        .cloned()
        .collect();
    let loud = quantile(&alive, 0.25, |column| {
        column.hits as f64 / column.events as f64
    })
    .max(rate);
    let error =
        |column: &Column| (variance.max(part.variance) * column.events as f64 / run.events).sqrt();
    let less = |column: &Column| low * column.busy.min(column.events as f64);
    let more = |column: &Column| loud * column.busy.max(column.events as f64);
    let outlier = |kind, stretch: Stretch, of: &dyn Fn(&Column) -> f64| {
        let column = &stretch.found;
        let (n, expected) = (column.hits as f64, of(column));
        let sigmas = (n - expected) / error(column);
        let inside = n / expected;
        // Hits that come together say less about the ends.
        let likely = |bin: &Column| poisson(bin.hits as f64, inside, of(bin)) / clumps;
        let deviates = |bin: &Column| match kind {
            OutlierKind::Noisy => {
                bin.hits as f64 - of(bin) >= END_SIGMAS * (of(bin) * clumps).max(1.0).sqrt()
            }
            _ => fewer(bin, of(bin), clumps),
        };
        let when = run.when(ends(bins, stretch, likely, deviates));
        Outlier {
            when,
            ..Outlier::of(kind, part, (n, expected), sigmas)
        }
    };
    let mut found: Vec<Outlier> = silences(&columns, less, enough)
        .into_iter()
        .map(|stretch| outlier(OutlierKind::Silent, stretch, &less))
        .collect();
    let quiet = stretches(&columns, |column| {
        let (n, expected) = (column.hits as f64, less(column));
        match n < QUIET * expected
            && expected - n >= COLUMN_SIGMAS * error(column).max(expected.sqrt())
        {
            _ if expected < enough => Judged::Unknown,
            true => Judged::Fails,
            false => Judged::Fine,
        }
    });
    let is_quiet = |stretch: &Stretch| {
        let expected = less(&stretch.found);
        expected - stretch.found.hits as f64 >= SIGMAS * error(&stretch.found).max(expected.sqrt())
    };
    found.extend(
        quiet
            .into_iter()
            .filter(is_quiet)
            .map(|stretch| outlier(OutlierKind::Quiet, stretch, &less)),
    );
    let noisy = stretches(&columns, |column| {
        let (n, expected) = (column.hits as f64, more(column));
        // Few hits are not distributed symmetrically.
        let is_chance =
            expected < enough && poisson(n, n / expected, expected) < NO_CHANCE * clumps;
        match n > NOISY * expected && n - expected >= SIGMAS * error(column) && !is_chance {
            _ if expected < PARTLY * enough => Judged::Unknown,
            true => Judged::Fails,
            false => Judged::Fine,
        }
    });
    let lasting = |stretch: &Stretch| {
        stretch.found.hits as f64 - more(&stretch.found) >= LASTING * part.variance.sqrt()
    };
    found.extend(
        noisy
            .into_iter()
            .filter(lasting)
            .map(|stretch| outlier(OutlierKind::Noisy, stretch, &more)),
    );
    found
}

/// Finds stretches in which the hits of a lane or chip have little charge, or much.
fn of_charge(run: &OfRun<'_>, part: &PartOf, bins: &[Column]) -> Vec<Outlier> {
    let (columns, _) = columns(bins, CHARGED);
    let full: Vec<Column> = columns
        .iter()
        .filter(|column| column.hits as f64 >= CHARGED)
        .cloned()
        .collect();
    // A single large cluster moves the mean of a column; the neighbours' mean over the whole run is
    // known better.
    let usual = part
        .charge
        .unwrap_or_else(|| quantile(&full, 0.75, Column::mean));
    let variance = run.variance;
    let sigmas =
        |column: &Column| (column.mean() - usual) / (variance / column.hits.max(1) as f64).sqrt();
    let mut found = Vec::new();
    for (kind, sign) in [
        (OutlierKind::LowCharge, -1.0),
        (OutlierKind::HighCharge, 1.0),
    ] {
        let is_far = |column: &Column| match kind {
            OutlierKind::LowCharge => column.mean() < LOW_CHARGE * usual,
            _ => column.mean() > HIGH_CHARGE * usual,
        };
        let stretches = stretches(&columns, |column| {
            match is_far(column) && sign * sigmas(column) >= COLUMN_SIGMAS {
                _ if (column.hits as f64) < SILENT_EXPECTED || column.charge == 0 => {
                    Judged::Unknown
                }
                true => Judged::Fails,
                false => Judged::Fine,
            }
        });
        for stretch in stretches
            .into_iter()
            .filter(|stretch| sign * sigmas(&stretch.found) >= SIGMAS)
        {
            let (mean, sigmas_of) = (stretch.found.mean(), sigmas(&stretch.found));
            let away = |bin: &Column, from: f64| {
                (bin.mean() - from).powi(2) * bin.hits as f64 / variance / 2.0
            };
            let likely = |bin: &Column| {
                if bin.hits > 0 {
                    away(bin, usual) - away(bin, mean)
                } else {
                    0.0
                }
            };
            let deviates = |bin: &Column| bin.hits > 0 && sign * sigmas(bin) >= END_SIGMAS;
            let when = run.when(ends(bins, stretch, likely, deviates));
            found.push(Outlier {
                when,
                ..Outlier::of(kind, part, (mean, usual), sigmas_of)
            });
        }
    }
    found
}
