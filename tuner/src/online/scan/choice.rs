//! Choices by the samples of a scan: configurations that may be the fastest, and the winner.

use super::{FINALISTS, INDIFFERENCE, Scan, Statistic};
use crate::statistics::{mean, median, quantile, variance};

/// Relative gain that is not worth more samples in a run-off.
const TOLERANCE: f64 = 0.002;
/// Standard errors between a median or mean and its bounds, with few and with many samples. There
/// are some ten looks at several finalists, and the best must survive them all; but with few samples
/// wide bounds span both modes of a kernel with two, which keeps too many in the run-off.
const SURE: [f64; 2] = [2.0, 2.5];
/// Number of samples that are many.
const MANY: usize = 40;
/// Chance, over all configurations together, that bad luck alone keeps one out of the run-off.
const UNLUCKY: f64 = 0.01;

impl Scan {
    /// Returns the configurations that may be faster than the fastest, although all their samples
    /// were slower.
    ///
    /// The ratios of all samples to the best sample of their configuration tell how slow a sample
    /// may be. All of `n` samples are among the slowest share `s` with the chance s^n, which may be
    /// [`UNLUCKY`] for all configurations together. Configurations with a run-off's samples beyond
    /// the M of the scan are left out.
    pub(super) fn unlucky(&self) -> Vec<usize> {
        let known: Vec<(usize, f64)> = self.valid().into_iter().filter_map(|c| Some((c, self.least(c)?))).collect();
        let Some(fastest) = known.iter().map(|(_, least)| *least).reduce(f64::min) else { return Vec::new() };
        let of_best = |(config, least): &(usize, f64)| {
            let least = *least;
            self.samples[*config].iter().map(move |time| time / least).collect::<Vec<f64>>()
        };
        let luck: Vec<f64> = known.iter().flat_map(of_best).collect();
        let most = self.options.samples + self.options.run_off;
        let mut bounds: Vec<Option<f64>> = vec![None; most];
        let chance = UNLUCKY / known.len() as f64;
        let may_be_fastest = |(config, least): &(usize, f64)| {
            let samples = self.samples[*config].len();
            let Some(bound) = bounds.get_mut(samples) else { return false };
            let bound = *bound.get_or_insert_with(|| quantile(&luck, 1.0 - chance.powf(1.0 / samples as f64)));
            *least > fastest && least / bound < fastest
        };
        let mut all = known;
        all.retain(may_be_fastest);
        all.into_iter().map(|(config, _)| config).collect()
    }

    /// Returns the best sample of a configuration.
    fn least(&self, config: usize) -> Option<f64> {
        self.samples[config].iter().copied().reduce(f64::min)
    }

    /// Returns the finalists. Medians rank them by their best sample: slow modes and disturbances
    /// can spoil the median of a few samples, but nothing makes a launch too fast.
    pub(super) fn promising(&self) -> Vec<usize> {
        let rank = |config: usize| match self.options.statistic {
            Statistic::Median => self.least(config),
            _ => self.estimate(config),
        };
        let mut ranked: Vec<(usize, f64)> =
            self.valid().into_iter().filter_map(|config| Some((config, rank(config)?))).collect();
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
        ranked.truncate(FINALISTS);
        ranked.into_iter().map(|(config, _)| config).collect()
    }

    /// Returns the finalists between which more samples could decide: the leader, and those that
    /// may be faster by more than [`TOLERANCE`]. A median is taken to lie between the order
    /// statistics [`SURE`] standard deviations of the binomial to either side of the middle; a
    /// mean, within as many standard errors.
    pub(super) fn undecided(&self) -> Vec<usize> {
        let known: Vec<(usize, f64)> =
            self.finalists.iter().filter_map(|config| Some((*config, self.estimate(*config)?))).collect();
        let Some((leader, fastest)) = known.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1)) else {
            return Vec::new();
        };
        let bound = |config: usize, side: f64| {
            let mut samples: Vec<f64> = self.samples[config].iter().copied().collect();
            let sure = SURE[usize::from(samples.len() >= MANY)];
            if self.options.statistic == Statistic::Mean {
                return mean(&samples) + sure * side * (variance(&samples) / samples.len() as f64).sqrt();
            }
            samples.sort_by(f64::total_cmp);
            let last = samples.len() as f64 - 1.0;
            let place = last * 0.5 + side * 0.5 * sure * (last + 1.0).sqrt();
            // Rounds outwards.
            let place = if side > 0.0 { place.ceil().min(last) } else { place.floor().max(0.0) };
            samples[place as usize]
        };
        let slowest = bound(leader, 1.0);
        let open = |config: usize| config == leader || slowest - bound(config, -1.0) > TOLERANCE * fastest;
        known.into_iter().map(|(config, _)| config).filter(|config| open(*config)).collect()
    }

    /// Returns the statistic of a configuration's samples in ms.
    pub(super) fn estimate(&self, config: usize) -> Option<f64> {
        let samples: Vec<f64> = self.samples.get(config)?.iter().copied().collect();
        let statistic = || match self.options.statistic {
            Statistic::Median => median(&samples),
            Statistic::Mean => mean(&samples),
            Statistic::Maximum => samples.iter().copied().fold(0.0, f64::max),
        };
        (!samples.is_empty()).then(statistic)
    }

    /// Returns the configuration in use, else the default, if it is within the zone of indifference
    /// of the fastest; else the fastest.
    pub(super) fn best(&self) -> usize {
        let valid = self.valid();
        // After a run-off only its finalists count: few lucky samples must not beat many.
        let eligible = |config: &usize| self.finalists.is_empty() || self.finalists.contains(config);
        let ranked = valid.iter().filter(|c| eligible(c)).filter_map(|config| Some((self.estimate(*config)?, *config)));
        let Some((fastest, best)) = ranked.min_by(|a, b| a.0.total_cmp(&b.0)) else {
            return if self.banned[self.current].is_none() {
                self.current
            } else {
                valid.first().copied().unwrap_or(self.default)
            };
        };
        // Few lucky samples are not enough here either.
        let least = self.samples[best].len() / 2;
        let good_enough = |config: &usize| {
            self.banned[*config].is_none()
                && self.samples[*config].len() >= least
                && self.estimate(*config).is_some_and(|e| e <= fastest * (1.0 + INDIFFERENCE))
        };
        [self.current, self.default].into_iter().find(good_enough).unwrap_or(best)
    }
}
