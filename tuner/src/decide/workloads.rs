//! One parameter set for many workloads, or several and a rule that picks.
//!
//! A trigger sees pp at low and high rate and PbPb; what is best for one costs on another. Everything here works on a
//! [`Matrix`] of what each set costs on each workload, measured elsewhere.

use std::collections::BTreeMap;

use crate::Config;
use crate::watch::State;
use serde::{Deserialize, Serialize};

/// Times of parameter sets on workloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    /// Names of the workloads.
    pub workloads: Vec<String>,
    /// The sets.
    pub sets: Vec<Config>,
    /// `times[set][workload]` in ms; `None` where the set fails.
    pub times: Vec<Vec<Option<f64>>>,
}

/// Error of a matrix, a portfolio, or a question to them, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MatrixError(String);

impl MatrixError {
    /// There was no round without others.
    pub(super) fn disturbed(state: &State) -> Self {
        Self(format!("cannot tell what the sets cost: {}; try again when this machine is quiet", state.in_words()))
    }
}

fn no_common() -> MatrixError {
    MatrixError("no set runs on all workloads".to_owned())
}

/// One set for all workloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OneForAll {
    /// Number of the set.
    pub set: usize,
    /// Cost on each workload beyond the best there, relative.
    pub regrets: Vec<f64>,
    /// The measure it was chosen by: weighted mean of the regrets, or the largest.
    pub cost: f64,
}

impl Matrix {
    /// Checks shape and times.
    ///
    /// # Errors
    /// Whatever does not fit; a workload on which nothing runs.
    pub fn check(&self) -> Result<(), MatrixError> {
        let workloads = self.workloads.len();
        if self.times.len() != self.sets.len() || self.times.iter().any(|row| row.len() != workloads) {
            let (rows, sets) = (self.times.len(), self.sets.len());
            let what = format!("{rows} rows of times for {sets} sets, or a row that does not have {workloads} columns");
            return Err(MatrixError(what));
        }
        for (set, row) in self.times.iter().enumerate() {
            let wrong = row.iter().position(|time| time.is_some_and(|time| !(time.is_finite() && time > 0.0)));
            if let Some(workload) = wrong {
                return Err(MatrixError(format!("set {set} takes no positive time on {}", self.workloads[workload])));
            }
        }
        (0..workloads).try_for_each(|workload| self.best(workload).map(|_| ()))
    }

    /// The best set for a workload, and its time; the first one if several are equally fast.
    ///
    /// # Errors
    /// A workload on which no set runs.
    pub fn best(&self, workload: usize) -> Result<(usize, f64), MatrixError> {
        let times = self.times.iter().enumerate().filter_map(|(set, row)| Some((set, (*row.get(workload)?)?)));
        times.min_by(|a, b| a.1.total_cmp(&b.1)).ok_or_else(|| {
            let name = self.workloads.get(workload).cloned().unwrap_or_else(|| workload.to_string());
            MatrixError(format!("no set runs on {name}"))
        })
    }

    /// Returns the cost of `set` on each workload beyond the best there, relative; infinite where it fails.
    ///
    /// # Errors
    /// A workload on which no set runs.
    pub fn regrets(&self, set: usize) -> Result<Vec<f64>, MatrixError> {
        (0..self.workloads.len())
            .map(|workload| {
                let (_, best) = self.best(workload)?;
                Ok(self.times[set][workload].map_or(f64::INFINITY, |time| time / best - 1.0))
            })
            .collect()
    }

    /// The set with the smallest mean regret, workloads weighted by `weights` (say by how often each occurs).
    ///
    /// # Errors
    /// Weights that do not fit; no set that runs wherever the weight is not 0.
    pub fn by_mean(&self, weights: &[f64]) -> Result<OneForAll, MatrixError> {
        self.check()?;
        let sum: f64 = weights.iter().sum();
        let bad = weights.iter().any(|weight| !(weight.is_finite() && *weight >= 0.0));
        if weights.len() != self.workloads.len() || bad || sum <= 0.0 {
            let (count, workloads) = (weights.len(), self.workloads.len());
            let bad = "or a weight that is negative, not finite, or all of them 0";
            return Err(MatrixError(format!("{count} weights for {workloads} workloads, {bad}")));
        }
        // A weight of 0 forgives a failure, which 0 times infinity would not.
        self.one(|regrets| {
            let parts = regrets.iter().zip(weights).filter(|(_, weight)| **weight > 0.0);
            parts.map(|(regret, weight)| regret * weight / sum).sum()
        })
    }

    /// The set whose largest regret is smallest.
    ///
    /// # Errors
    /// No set that runs on all workloads.
    pub fn by_worst(&self) -> Result<OneForAll, MatrixError> {
        self.check()?;
        self.one(|regrets| regrets.iter().copied().fold(0.0, f64::max))
    }

    fn one(&self, cost: impl Fn(&[f64]) -> f64) -> Result<OneForAll, MatrixError> {
        let mut found: Option<OneForAll> = None;
        for set in 0..self.sets.len() {
            let regrets = self.regrets(set)?;
            let cost = cost(&regrets);
            if cost.is_finite() && found.as_ref().is_none_or(|found| cost < found.cost) {
                found = Some(OneForAll { set, regrets, cost });
            }
        }
        found.ok_or_else(no_common)
    }

    /// The sets, at most `most`, that together leave the smallest worst regret when each workload uses the best of
    /// them; taken one after the other (greedily), and no more once the worst regret is within `enough`. Numbers of
    /// sets, and the number of the set of each workload.
    ///
    /// # Errors
    /// A workload on which nothing runs.
    pub fn portfolio(&self, most: usize, enough: f64) -> Result<(Vec<usize>, Vec<usize>), MatrixError> {
        self.check()?;
        let regrets = (0..self.sets.len()).map(|set| self.regrets(set)).collect::<Result<Vec<_>, _>>()?;
        let worst = |chosen: &[usize]| -> (usize, f64, f64) {
            let of = |workload: usize| chosen.iter().map(|set| regrets[*set][workload]).fold(f64::INFINITY, f64::min);
            let all: Vec<f64> = (0..self.workloads.len()).map(of).collect();
            let failing = all.iter().filter(|regret| !regret.is_finite()).count();
            let finite = || all.iter().copied().filter(|regret| regret.is_finite());
            (failing, finite().fold(0.0, f64::max), finite().sum())
        };
        let mut chosen: Vec<usize> = Vec::new();
        while chosen.len() < most.max(1) {
            let with = |set: usize| worst(&chosen.iter().copied().chain([set]).collect::<Vec<_>>());
            let next = (0..self.sets.len()).filter(|set| !chosen.contains(set)).min_by(|a, b| {
                let (a, b) = (with(*a), with(*b));
                a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2))
            });
            let Some(next) = next else { break };
            let after = with(next);
            chosen.push(next);
            // While the worst regret is above 0, the set that is best there lowers it or the sum: every turn gains.
            if after.0 == 0 && after.1 <= enough.max(0.0) {
                break;
            }
        }
        let (failing, ..) = worst(&chosen);
        if failing > 0 {
            return Err(no_common());
        }
        let best = |workload: usize| {
            let times = chosen.iter().filter_map(|set| Some((*set, self.times[*set][workload]?)));
            times.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(chosen[0], |(set, _)| set)
        };
        let of_workload = (0..self.workloads.len()).map(best).collect();
        Ok((chosen, of_workload))
    }
}

/// Features of a batch of work, as far as a rule may use them: named quantities, none of them negative, that the
/// application chooses (a mean length, results an item). Every look at one kind of work has the same names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Features(pub BTreeMap<String, f64>);

impl Features {
    /// The quantity called `name`; 0 where there is none.
    pub fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// The mean of several looks, quantity by quantity.
    pub fn mean(looks: &[Self]) -> Self {
        let mut mean: BTreeMap<String, f64> = BTreeMap::new();
        for (name, value) in looks.iter().flat_map(|look| &look.0) {
            *mean.entry(name.clone()).or_default() += value / looks.len() as f64;
        }
        Self(mean)
    }

    /// Distance between two looks: the largest of the ratios, as a logarithm. What is not a number counts as 0.
    fn distance(&self, other: &Self) -> f64 {
        let ratio = |a: f64, b: f64| ((a.max(0.0) + 0.1) / (b.max(0.0) + 0.1)).ln().abs();
        let names = self.0.keys().chain(other.0.keys().filter(|name| !self.0.contains_key(*name)));
        names.map(|name| ratio(self.get(name), other.get(name))).fold(0.0, f64::max)
    }
}

impl<const N: usize> From<[(&str, f64); N]> for Features {
    fn from(quantities: [(&str, f64); N]) -> Self {
        Self(quantities.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

/// Workload for which a parameter set was tuned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tuned {
    /// The set.
    pub config: Config,
    /// The device it was measured on.
    pub device: String,
    /// The workload, by name and by look.
    pub workload: String,
    /// Features of its batches.
    pub features: Features,
}

/// Picks a set of a portfolio for each batch, by the workload that the batch looks most like, with hysteresis: only
/// when another one is clearly nearer, several batches in a row, is the set changed.
#[derive(Clone, Debug)]
pub struct Picker {
    sets: Vec<Tuned>,
    current: usize,
    streak: usize,
    /// Distance (log ratio) by which another workload must be nearer. Default ln 1.2.
    pub margin: f64,
    /// Batches in a row that must say so. Default 3.
    pub patience: usize,
    /// Log distance beyond which a batch looks like none of the workloads. Default ln 3.
    pub strange: f64,
}

/// A choice for a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pick<'a> {
    /// The set to use.
    pub set: &'a Tuned,
    /// Number of the set.
    pub number: usize,
    /// True if it is another one than for the batch before.
    pub changed: bool,
    /// The batch looks like none of the workloads: the set is a guess, to be reported.
    pub strange: bool,
}

impl Picker {
    /// A picker on the device `here`. The first set is used until batches say otherwise.
    ///
    /// # Errors
    /// An empty portfolio; a set that was tuned on another device (that sort of set is only used after a comparison on
    /// this device, which makes it one of this device).
    pub fn new(sets: Vec<Tuned>, here: &str) -> Result<Self, MatrixError> {
        if sets.is_empty() {
            return Err(MatrixError("the portfolio is empty".to_owned()));
        }
        if let Some(other) = sets.iter().find(|set| set.device != here) {
            let (workload, theirs) = (&other.workload, &other.device);
            let what = format!("the set for {workload} was tuned on {theirs}, this is {here}: validate it, or tune");
            return Err(MatrixError(what));
        }
        let (margin, strange) = (1.2_f64.ln(), 3.0_f64.ln());
        Ok(Self { sets, current: 0, streak: 0, margin, patience: 3, strange })
    }

    /// The set for a batch that looks like `features`.
    pub fn pick(&mut self, features: &Features) -> Pick<'_> {
        let distances: Vec<f64> = self.sets.iter().map(|set| set.features.distance(features)).collect();
        let nearest = (0..distances.len()).min_by(|a, b| distances[*a].total_cmp(&distances[*b])).unwrap_or(0);
        let clearly = distances[nearest] + self.margin < distances[self.current];
        self.streak = if clearly { self.streak + 1 } else { 0 };
        let changed = clearly && self.streak >= self.patience.max(1);
        if changed {
            self.current = nearest;
            self.streak = 0;
        }
        let strange = distances[nearest] > self.strange;
        Pick { set: &self.sets[self.current], number: self.current, changed, strange }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    fn matrix(times: &[&[Option<f64>]]) -> Matrix {
        Matrix {
            workloads: (0..times[0].len()).map(|i| format!("w{i}")).collect(),
            sets: (0..times.len()).map(|i| Config(vec![Value::Int(i as i64)])).collect(),
            times: times.iter().map(|row| row.to_vec()).collect(),
        }
    }

    #[test]
    fn mean_worst_and_portfolio_choose_differently() {
        // 0 is best on w0 and bad on w1, 1 the other way round, 2 is middling on both, 3 fails on w1.
        let m =
            matrix(&[&[Some(1.0), Some(2.0)], &[Some(1.5), Some(1.0)], &[Some(1.2), Some(1.3)], &[Some(0.999), None]]);
        assert_eq!(m.by_mean(&[9.0, 1.0]).unwrap().set, 0);
        assert_eq!(m.by_mean(&[1.0, 9.0]).unwrap().set, 1);
        assert_eq!(m.by_mean(&[1.0, 0.0]).unwrap().set, 3, "a failure where it does not count is forgiven");
        let worst = m.by_worst().unwrap();
        assert_eq!((worst.set, worst.regrets.len()), (2, 2));
        assert!((worst.cost - 0.3).abs() < 1e-12);
        assert_eq!(m.portfolio(1, 0.0).unwrap(), (vec![2], vec![2, 2]));
        let (sets, of_workload) = m.portfolio(3, 0.01).unwrap();
        assert_eq!(of_workload[1], 1);
        assert!(sets.contains(&1) && sets.len() <= 3);
        // However much is enough, each workload has a set that runs.
        assert_eq!(
            matrix(&[&[Some(1.0), None], &[None, Some(1.0)]]).portfolio(2, 9.0).unwrap(),
            (vec![0, 1], vec![0, 1])
        );
        // No set beyond those that gain something.
        assert_eq!(matrix(&[&[Some(1.0)], &[Some(2.0)]]).portfolio(2, -1.0).unwrap(), (vec![0], vec![0]));
    }

    #[test]
    fn looks_are_as_far_apart_as_the_largest_ratio_of_any_quantity_of_either() {
        let (one, two) = (Features::from([("hits", 9.9)]), Features::from([("hits", 9.9), ("lanes", 0.9)]));
        assert_eq!(one.distance(&one), 0.0);
        let far = Features::from([("hits", 99.9), ("lanes", 0.9)]);
        // A quantity that is missing is 0; 0.1 is added to both sides of a ratio.
        for (a, b) in [(&one, &two), (&two, &one), (&far, &two), (&two, &far)] {
            assert!((a.distance(b) - 10.0_f64.ln()).abs() < 1e-12, "{a:?} {b:?}");
        }
    }

    #[test]
    fn the_mean_of_looks_is_that_of_each_quantity() {
        let looks = [[("hits", 100.0), ("lanes", 1.0)], [("hits", 400.0), ("lanes", 2.0)]].map(Features::from);
        assert_eq!(Features::mean(&looks), Features::from([("hits", 250.0), ("lanes", 1.5)]));
        assert_eq!(Features::mean(&[]), Features::default());
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let m = matrix(&[&[Some(1.0), None], &[Some(2.0), None]]);
        assert_eq!(m.by_worst().unwrap_err().to_string(), "no set runs on w1");
        assert_eq!(matrix(&[&[Some(1.0), None], &[None, Some(1.0)]]).by_worst(), Err(no_common()));
        assert_eq!(matrix(&[&[Some(1.0), None], &[None, Some(1.0)]]).portfolio(1, 0.0), Err(no_common()));
        let m = matrix(&[&[Some(1.0), Some(1.0)]]);
        for weights in [&[1.0][..], &[0.0, 0.0], &[-1.0, 2.0], &[f64::NAN, 1.0]] {
            assert!(m.by_mean(weights).unwrap_err().to_string().contains("weights for 2 workloads"), "{weights:?}");
        }
        assert!(matrix(&[&[Some(f64::NAN)]]).check().unwrap_err().to_string().contains("no positive time on w0"));
        let ragged = Matrix { times: vec![vec![Some(1.0)]], ..matrix(&[&[Some(1.0), Some(1.0)]]) };
        assert!(ragged.check().unwrap_err().to_string().contains("does not have 2 columns"));
    }

    fn tuned(workload: &str, lane: f64, hits: f64) -> Tuned {
        Tuned {
            config: Config(vec![Value::Text(workload.into())]),
            device: "here".into(),
            workload: workload.into(),
            features: [("length", lane), ("results", hits)].into(),
        }
    }

    #[test]
    fn the_picker_changes_only_when_several_batches_clearly_say_so() {
        let sets = vec![tuned("pp", 2.0, 500.0), tuned("pbpb", 20.0, 10_000.0)];
        let mut picker = Picker::new(sets, "here").unwrap();
        let look = |length, results| Features::from([("length", length), ("results", results)]);
        let (pp, pbpb) = (look(2.1, 480.0), look(18.0, 11_000.0));
        let mut workload = |features: &Features| {
            let pick = picker.pick(features);
            (pick.set.workload.clone(), pick.changed)
        };
        assert_eq!(workload(&pbpb), ("pp".into(), false));
        assert_eq!(workload(&pp), ("pp".into(), false));
        assert_eq!(workload(&pbpb), ("pp".into(), false));
        assert_eq!(workload(&pbpb), ("pp".into(), false));
        assert_eq!(workload(&pbpb), ("pbpb".into(), true));
        assert_eq!(workload(&pbpb), ("pbpb".into(), false));
        // Halfway between the two nothing flutters.
        let between = look(6.5, 2_300.0);
        assert!((0..20).all(|_| workload(&between) == ("pbpb".into(), false)));
        assert!(picker.pick(&look(f64::NAN, 1e9)).strange);
        assert!(!picker.pick(&pp).strange);
    }

    #[test]
    fn a_set_of_another_device_is_refused() {
        let other = Tuned { device: "elsewhere".into(), ..tuned("pp", 1.0, 1.0) };
        let error = Picker::new(vec![tuned("pbpb", 1.0, 1.0), other], "here").unwrap_err();
        assert!(error.to_string().contains("elsewhere"));
        assert!(Picker::new(Vec::new(), "here").is_err());
    }
}
