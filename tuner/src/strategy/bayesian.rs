//! Bayesian search: a model of the time, learned from the observations, tells where a faster
//! configuration is likely.
//!
//! The model is a Gaussian process on the logarithm of the time, with a length-scale for every
//! parameter, so that it learns which parameters matter. Above a cap the logarithm is compressed:
//! very slow configurations say little about the fast ones. A second process learns where failures
//! are, and weighs the expected improvement; where many fail, the model of the time counts each as
//! the slowest. The first proposals spread over the space. Later every third is one step from one
//! of the best, because spaces of kernels have optima one point wide; another third is bold,
//! because they also have several valleys.
//!
//! The *expected improvement* of a configuration is the mean, over what the model thinks possible,
//! of how much faster than the best one it would be, where slower counts as 0. It is large where
//! the model predicts a short time, and also where it predicts a middling time but knows little.
//! For example, with a best time of 1 ms, a configuration predicted at 1.05 ± 0.2 ms promises more
//! than one at 0.99 ± 0.001 ms.
//!
//! Every observation improves the length-scales a little, from at most [`LEARNED_FROM`]
//! observations. A model with newer ones is built while the old one is in use, a bounded amount at
//! a time, so that proposals take similar times. Spaces of more than [`POOL`] configurations are
//! modelled on a random choice, and around the best.

use super::draw::Draw;
use super::{Strategy, search_time};
use crate::space::{ConfigIndex, Space};
use crate::strategy::gp::{Candidates, Point, Prior, Process};
use crate::strategy::gp_learn::Learner;
use crate::{Outcome, Parameter, Value};

/// Maximum number of configurations that the model covers.
///
/// The cost of a proposal grows with the number of configurations for which the model predicts, so
/// that this number needs a bound.
const POOL: usize = 20_000;
/// Number of configurations outside the pool, two steps from the best, that a proposal considers.
const OUTSIDE: usize = 64;
/// Number of proposals that spread over the space before the model is used.
///
/// A model of a few observations in one corner would be confident about that corner only.
const SPREAD: usize = 16;
/// Valid observations before the model is used.
const FEWEST: usize = 5;
/// Number of kinds of proposals in turn: a neighbour of the fastest, a bold one, the largest
/// expected improvement.
const TURNS: usize = 3;
/// Improvement, in the logarithm, from which a bold proposal counts: it prefers regions that are
/// less known.
const BOLD: f64 = 0.1;
/// Number of observations after which the neighbours of one more of the fastest are considered.
const WIDEN: usize = 40;
/// Number of steps of learning, first and with every further observation.
const FIRST_STEPS: usize = 40;
const STEPS: usize = 3;
/// Most observations that length-scales are learned from.
const LEARNED_FROM: usize = 80;
/// Most observations in a model: half are the fastest, half a choice of the rest.
///
/// Adding an observation to a Gaussian process costs the square of their number. The fastest half
/// says where the optimum is, the rest keeps the model honest elsewhere.
const MODELLED: usize = 384;
/// Number of failures among the first [`SPREAD`] observations from which a failure counts as the
/// slowest time so far.
///
/// Where few fail, the fastest often lie next to them, and the model of failures tells them apart.
/// Where whole regions fail, a model that knows only times has no observation there, and keeps
/// proposing them.
const MANY: usize = 5;
/// Products spent on the next model for each observation.
const WORK: usize = 8_000_000;

/// Proposes by expected improvement.
#[derive(Debug)]
pub struct Bayesian<'a> {
    space: &'a Space,
    seed: u64,
    encoding: Encoding,
    /// Configurations that the model covers, in ascending order.
    pool: Vec<ConfigIndex>,
    candidates: Candidates,
    seen: Vec<bool>,
    /// Observed configurations with the logarithm of the time.
    observed: Vec<(ConfigIndex, Point, Option<f64>)>,
    times: Model,
    failures: Model,
}

/// Encoding of configurations as points.
#[derive(Debug)]
struct Encoding {
    /// Parameter of each column, and the column's number for each value index.
    columns: Vec<(usize, Vec<f32>)>,
    categories: Vec<bool>,
}

/// Process in use, and the next one, as far as it is built.
#[derive(Debug)]
struct Model {
    learner: Learner,
    process: Process,
    next: Option<Next>,
    /// Cap of the logarithms in the process in use.
    cap: f64,
}

#[derive(Debug)]
struct Next {
    process: Process,
    cap: f64,
    /// Observations to add, the next one last. Newer ones follow at the end.
    left: Vec<usize>,
    known: usize,
}

impl Encoding {
    fn new(space: &Space) -> Self {
        let mut encoding = Self {
            columns: Vec::new(),
            categories: Vec::new(),
        };
        for (place, parameter) in space
            .parameters()
            .iter()
            .enumerate()
            .filter(|(_, parameter)| parameter.values().len() > 1)
        {
            if let Some(ranks) = ranks(parameter) {
                encoding.push(place, &ranks, false);
            } else {
                let places: Vec<f64> = (0..parameter.values().len())
                    .map(|code| code as f64)
                    .collect();
                encoding.push(place, &places, true);
            }
            if let Some(alignments) = alignments(parameter) {
                encoding.push(place, &alignments, false);
            }
        }
        encoding
    }

    /// Adds a column; numbers are scaled to 0 … 1.
    fn push(&mut self, place: usize, numbers: &[f64], category: bool) {
        let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let span = (high - low).max(f64::MIN_POSITIVE);
        self.columns.push((
            place,
            numbers
                .iter()
                .map(|number| ((number - low) / span) as f32)
                .collect(),
        ));
        self.categories.push(category);
    }

    fn point(&self, space: &Space, index: ConfigIndex) -> Point {
        self.columns
            .iter()
            .map(|(place, numbers)| numbers[space.code(index, *place)])
            .collect()
    }
}

/// Returns the ranks of a parameter's values, by value index; `None` for names, or if two values
/// are the same number (`true` and 1, whole numbers from 2^53 on), which only a category tells
/// apart.
fn ranks(parameter: &Parameter) -> Option<Vec<f64>> {
    let number = |value: &Value| match value {
        Value::Int(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        Value::Bool(value) => Some(f64::from(u8::from(*value))),
        Value::Text(_) => None,
    };
    let numbers: Vec<f64> = parameter
        .values()
        .iter()
        .map(number)
        .collect::<Option<_>>()?;
    let mut sorted = numbers.clone();
    sorted.sort_by(f64::total_cmp);
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return None;
    }
    Some(
        numbers
            .iter()
            .map(|number| sorted.partition_point(|other| other < number) as f64)
            .collect(),
    )
}

/// Returns the number of factors 2 of each value, which warps, banks and vector loads depend on.
/// `None` for powers of two and for few values, where it says nothing new.
fn alignments(parameter: &Parameter) -> Option<Vec<f64>> {
    let halvings = |value: &Value| match value {
        Value::Int(value) if *value > 0 => Some(f64::from(value.trailing_zeros())),
        _ => None,
    };
    let found: Vec<f64> = parameter
        .values()
        .iter()
        .map(halvings)
        .collect::<Option<_>>()?;
    let power = |value: &Value| matches!(value, Value::Int(value) if value.count_ones() == 1);
    let differ = found.iter().any(|&halvings| halvings != found[0]);
    (found.len() >= 5 && differ && !parameter.values().iter().all(power)).then_some(found)
}

impl<'a> Bayesian<'a> {
    /// Searches `space`, with the random choices of `seed`.
    pub fn new(space: &'a Space, seed: u64) -> Self {
        let encoding = Encoding::new(space);
        let mut pool = if space.len() > POOL {
            Draw::new(seed, 0).sample(POOL, space.len())
        } else {
            (0..space.len()).collect()
        };
        pool.sort_unstable();
        let points = pool.iter().map(|&index| encoding.point(space, index));
        let candidates = Candidates::new(encoding.categories.clone(), points);
        let model = || {
            let learner = Learner::new(&encoding.categories);
            let process = Process::new(&candidates, learner.hyper.clone());
            Model {
                learner,
                process,
                next: None,
                cap: f64::INFINITY,
            }
        };
        let (times, failures) = (model(), model());
        Self {
            space,
            seed,
            encoding,
            pool,
            candidates,
            seen: vec![false; space.len()],
            observed: Vec::new(),
            times,
            failures,
        }
    }

    /// Returns the number of valid observations.
    fn valid(&self) -> usize {
        self.observed
            .iter()
            .filter(|(_, _, time)| time.is_some())
            .count()
    }

    /// Returns true if there are enough observations for the model.
    fn ready(&self) -> bool {
        self.observed.len() >= SPREAD && self.valid() >= FEWEST
    }

    /// Draws some random configurations, and returns the one farthest from all observed
    /// configurations.
    fn spread(&self) -> Option<ConfigIndex> {
        let mut draw = Draw::new(self.seed, 1 + self.observed.len());
        let mut farthest = None;
        for _ in 0..32 {
            let index = draw.below(self.space.len());
            if self.seen[index] {
                continue;
            }
            let point = self.encoding.point(self.space, index);
            let distance = |(_, other, _): &(ConfigIndex, Point, Option<f64>)| -> f32 {
                other.iter().zip(&point).map(|(a, b)| (a - b).powi(2)).sum()
            };
            let nearest = self
                .observed
                .iter()
                .map(distance)
                .fold(f32::INFINITY, f32::min);
            if farthest.is_none_or(|(_, distance)| nearest > distance) {
                farthest = Some((index, nearest));
            }
        }
        // Nearly all were seen: take the next one that was not.
        farthest
            .map(|(index, _)| index)
            .or_else(|| self.seen.iter().position(|seen| !seen))
    }

    /// Returns the `count` fastest so far, the fastest first: index and logarithm of the time.
    fn fastest(&self, count: usize) -> Vec<(ConfigIndex, f64)> {
        let timed = self
            .observed
            .iter()
            .filter_map(|(index, _, time)| time.map(|time| (*index, time)));
        let mut timed: Vec<(ConfigIndex, f64)> = timed.collect();
        timed.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        timed.truncate(count);
        timed
    }

    /// Returns some random configurations that the model does not cover, two steps from `index`.
    fn two_steps_away(&self, index: ConfigIndex) -> Vec<ConfigIndex> {
        let near = if self.pool.len() < self.space.len() {
            self.space.neighbours(index)
        } else {
            Vec::new()
        };
        if near.is_empty() {
            return Vec::new();
        }
        let mut draw = Draw::new(!self.seed, self.observed.len());
        let mut step = || {
            let next = self.space.neighbours(near[draw.below(near.len())]);
            next[draw.below(next.len())]
        };
        let mut found: Vec<ConfigIndex> = (0..OUTSIDE).map(|_| step()).collect();
        found.retain(|&index| !self.seen[index] && self.pool.binary_search(&index).is_err());
        found
    }

    /// Returns a function for the expected improvement on `best` of any configuration, in the
    /// logarithm of the time, times the probability that it does not fail.
    fn judge(&self, best: f64) -> impl Fn(Where<'_>) -> f64 + '_ {
        let prior = self.times.process.prior();
        let failures = (self.failures.process.len() > 0).then(|| self.failures.process.prior());
        let look = |process: &Process, prior: &Prior, place: &Where<'_>| match place {
            Where::Candidate(at) => process.posterior(prior, *at),
            Where::Point(point) => process.posterior_at(prior, point),
        };
        move |place| {
            let (mean, deviation) = look(&self.times.process, &prior, &place);
            let gain = expected_improvement(best - mean, deviation);
            match &failures {
                None => gain,
                Some(prior) => {
                    gain * (1.0 - look(&self.failures.process, prior, &place).0).clamp(0.001, 1.0)
                }
            }
        }
    }

    /// Brings both models up to the last observation.
    fn learn(&mut self) {
        let (all, valid) = (self.observed.len(), self.valid());
        let first = all <= SPREAD || valid == FEWEST;
        let slowest = self.observed.iter().filter_map(|seen| seen.2);
        let slowest = slowest.fold(f64::NEG_INFINITY, f64::max);
        let spread = self.observed.iter().take(SPREAD);
        let many = spread.filter(|seen| seen.2.is_none()).count() >= MANY;
        let of_failure = many.then_some(slowest);
        let times = self.observed.iter().map(|seen| seen.2.or(of_failure));
        let times: Vec<Option<f64>> = times.collect();
        let steps = if first { FIRST_STEPS } else { STEPS };
        self.times.advance(
            &self.candidates,
            &self.observed,
            &times,
            cap_of(&times),
            steps,
        );
        if valid < all {
            let failed = self.observed.iter().map(|seen| seen.2.is_none());
            let failed: Vec<Option<f64>> = failed.map(|it| Some(f64::from(u8::from(it)))).collect();
            // The model of failures changes less with each observation than the model of times.
            let steps = if first || self.failures.process.len() == 0 {
                FIRST_STEPS
            } else {
                1
            };
            self.failures.advance(
                &self.candidates,
                &self.observed,
                &failed,
                f64::INFINITY,
                steps,
            );
        }
    }
}

/// Configuration as the models know it.
enum Where<'a> {
    Candidate(usize),
    Point(&'a Point),
}

/// Returns the logarithm above which times are compressed: the median, but at least 0.05 above the
/// best.
fn cap_of(times: &[Option<f64>]) -> f64 {
    let mut sorted: Vec<f64> = times.iter().copied().flatten().collect();
    sorted.sort_by(f64::total_cmp);
    match (sorted.first(), sorted.get(sorted.len() / 2)) {
        (Some(best), Some(median)) => best + (median - best).max(0.05),
        _ => f64::INFINITY,
    }
}

fn capped(value: f64, cap: f64) -> f64 {
    if value > cap {
        cap + 0.25 * (value - cap)
    } else {
        value
    }
}

/// Chooses at most `most` observations with a value: the smallest values for one half, evenly from
/// the rest for the other, in order.
fn choose(values: &[Option<f64>], most: usize) -> Vec<usize> {
    let mut order: Vec<(f64, usize)> = (values.iter().zip(0..))
        .filter_map(|(value, at)| Some(((*value)?, at)))
        .collect();
    let count = order.len();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut chosen: Vec<usize> = order.into_iter().map(|(_, at)| at).collect();
    if count > most {
        let mut rest = chosen.split_off(most / 2);
        rest.sort_unstable();
        let wanted = most - chosen.len();
        chosen.extend((0..wanted).map(|at| rest[at * rest.len() / wanted]));
    }
    chosen.sort_unstable();
    chosen
}

impl Model {
    /// Takes the observations with their `values`; those without one are not known to this model.
    fn advance(
        &mut self,
        candidates: &Candidates,
        observed: &[(ConfigIndex, Point, Option<f64>)],
        values: &[Option<f64>],
        cap: f64,
        steps: usize,
    ) {
        let learned = choose(values, LEARNED_FROM);
        let points: Vec<&Point> = learned.iter().map(|&at| &observed[at].1).collect();
        let targets = learned.iter().filter_map(|&at| values[at]);
        let targets: Vec<f64> = targets.map(|value| capped(value, cap)).collect();
        for _ in 0..steps {
            self.learner.step(&points, &targets);
        }
        let push = |process: &mut Process, cap: f64, at: usize| {
            if let Some(value) = values[at] {
                process.push(candidates, observed[at].1.clone(), capped(value, cap));
            }
        };
        // The newest observation joins the process in use; a first process is built at once.
        let mut work = usize::MAX;
        if self.process.len() > 0 {
            work = WORK;
            push(&mut self.process, self.cap, values.len() - 1);
        }
        let mut next = self.next.take().unwrap_or_else(|| Next {
            process: Process::new(candidates, self.learner.hyper.clone()),
            cap,
            left: choose(values, MODELLED).into_iter().rev().collect(),
            known: values.len(),
        });
        loop {
            if next.left.is_empty() {
                if next.known == values.len() {
                    self.process = next.process;
                    self.cap = next.cap;
                    return;
                }
                next.left = (next.known..values.len()).rev().collect();
                next.known = values.len();
            }
            let cost = next.process.cost_of_next() * candidates.count;
            if cost > work {
                self.next = Some(next);
                return;
            }
            work -= cost;
            if let Some(at) = next.left.pop() {
                push(&mut next.process, next.cap, at);
            }
        }
    }
}

impl Strategy for Bayesian<'_> {
    fn propose(&mut self) -> Option<ConfigIndex> {
        if self.observed.len() >= self.space.len() {
            return None;
        }
        if !self.ready() {
            return self.spread();
        }
        let turn = self.observed.len() % TURNS;
        let fastest = self.fastest(1 + self.observed.len() / WIDEN);
        let best = fastest.first()?.1;
        let judge = self.judge(if turn == 1 { best - BOLD } else { best });
        let larger = |a: &(ConfigIndex, f64), b: &(ConfigIndex, f64)| a.1.total_cmp(&b.1);
        if turn == 0 {
            let near = fastest
                .iter()
                .flat_map(|&(index, _)| self.space.neighbours(index));
            let near = near.filter(|&index| !self.seen[index]);
            let judged = near.map(|index| match self.pool.binary_search(&index) {
                Ok(at) => (index, judge(Where::Candidate(at))),
                Err(_) => (
                    index,
                    judge(Where::Point(&self.encoding.point(self.space, index))),
                ),
            });
            if let Some((index, _)) = judged.max_by(larger) {
                return Some(index);
            }
        }
        let open = self
            .pool
            .iter()
            .enumerate()
            .filter(|(_, index)| !self.seen[**index]);
        let covered = open.map(|(at, &index)| (index, judge(Where::Candidate(at))));
        let outside = self.two_steps_away(fastest[0].0).into_iter();
        let outside = outside.map(|index| {
            (
                index,
                judge(Where::Point(&self.encoding.point(self.space, index))),
            )
        });
        let judged = covered.chain(outside);
        judged
            .max_by(larger)
            .map(|(index, _)| index)
            .or_else(|| self.spread())
    }

    fn observe(&mut self, index: ConfigIndex, outcome: &Outcome) {
        // A configuration outside the space, or observed before, changes nothing.
        if self.seen.get(index).is_none_or(|&seen| seen) {
            return;
        }
        self.seen[index] = true;
        let time = search_time(outcome).map(f64::ln);
        self.observed
            .push((index, self.encoding.point(self.space, index), time));
        if self.ready() {
            self.learn();
        }
    }
}

/// Computes E max(0, X) of a normal X with mean `gain`.
fn expected_improvement(gain: f64, deviation: f64) -> f64 {
    let ratio = gain / deviation;
    gain * normal_below(ratio) + deviation * normal_density(ratio)
}

fn normal_density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// Computes the normal distribution function to 1e-7 (Abramowitz and Stegun 26.2.17).
fn normal_below(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let series = 1.330_274_429f64;
    let series = series * t - 1.821_255_978;
    let series = series * t + 1.781_477_937;
    let series = series * t - 0.356_563_782;
    let series = series * t + 0.319_381_530;
    let tail = normal_density(x) * series * t;
    if x > 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SpaceBuilder;

    #[test]
    fn values_that_are_equal_as_numbers_are_distinct_categories() {
        let large = 1_i64 << 53;
        let space = SpaceBuilder::new()
            .ints("large", [large, large + 1])
            .parameter("mixed", [Value::Bool(true), Value::Int(1)])
            .parameter("number", [Value::Int(1), Value::Float(1.0), Value::Int(3)])
            .ints("tile", [8, 16])
            .build()
            .unwrap();
        let encoding = Encoding::new(&space);
        assert_eq!(encoding.categories, [true, true, true, false]);
        let points: Vec<Point> = (0..space.len())
            .map(|index| encoding.point(&space, index))
            .collect();
        for (at, point) in points.iter().enumerate() {
            assert!(point.iter().all(|number| number.is_finite()), "{point:?}");
            assert!(
                !points[..at].contains(point),
                "{point:?} is another configuration's"
            );
        }
    }
}
