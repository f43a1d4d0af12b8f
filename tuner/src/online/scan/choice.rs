//! Choices by the samples of a scan: configurations that may be the fastest, and the winner.

use super::{FINALISTS, INDIFFERENCE, Scan, Statistic};
use crate::decide::runoff::undecided;
use crate::statistics::quantile;

/// Relative gain that is not worth more samples in a run-off.
const TOLERANCE: f64 = 0.002;
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
        let known: Vec<(usize, f64)> = self
            .valid()
            .into_iter()
            .filter_map(|c| Some((c, self.least(c)?)))
            .collect();
        let Some(fastest) = known.iter().map(|(_, least)| *least).reduce(f64::min) else {
            return Vec::new();
        };
        let of_best = |(config, least): &(usize, f64)| {
            let least = *least;
            self.samples[*config]
                .iter()
                .map(move |time| time / least)
                .collect::<Vec<f64>>()
        };
        let luck: Vec<f64> = known.iter().flat_map(of_best).collect();
        let most = self.options.samples + self.options.run_off;
        let mut bounds: Vec<Option<f64>> = vec![None; most];
        let chance = UNLUCKY / known.len() as f64;
        let may_be_fastest = |(config, least): &(usize, f64)| {
            let samples = self.samples[*config].len();
            let Some(bound) = bounds.get_mut(samples) else {
                return false;
            };
            let bound = *bound
                .get_or_insert_with(|| quantile(&luck, 1.0 - chance.powf(1.0 / samples as f64)));
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
        let mut ranked: Vec<(usize, f64)> = self
            .valid()
            .into_iter()
            .filter_map(|config| Some((config, rank(config)?)))
            .collect();
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
        ranked.truncate(FINALISTS);
        ranked.into_iter().map(|(config, _)| config).collect()
    }

    /// Returns the finalists between which more samples could decide.
    pub(super) fn undecided(&self) -> Vec<usize> {
        let finalists: Vec<_> = self
            .finalists
            .iter()
            .map(|config| (*config, self.samples(*config)))
            .collect();
        undecided(&finalists, self.options.statistic, TOLERANCE)
    }

    /// Returns the statistic of a configuration's samples in ms.
    pub(super) fn estimate(&self, config: usize) -> Option<f64> {
        let samples = self.samples(config);
        (!samples.is_empty()).then(|| self.options.statistic.of(&samples))
    }

    /// Returns the configuration in use, else the default, if it is within the zone of indifference
    /// of the fastest; else the fastest.
    pub(super) fn best(&self) -> usize {
        let valid = self.valid();
        // After a run-off only its finalists count: few lucky samples must not beat many.
        let eligible =
            |config: &usize| self.finalists.is_empty() || self.finalists.contains(config);
        let ranked = valid
            .iter()
            .filter(|c| eligible(c))
            .filter_map(|config| Some((self.estimate(*config)?, *config)));
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
                && self
                    .estimate(*config)
                    .is_some_and(|e| e <= fastest * (1.0 + INDIFFERENCE))
        };
        [self.current, self.default]
            .into_iter()
            .find(good_enough)
            .unwrap_or(best)
    }
}
