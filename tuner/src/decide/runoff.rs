//! Run-off between candidates that were sampled in interleaved rounds: tells which ones may still
//! be the fastest.
//!
//! Samples should go where they can change the outcome. Each candidate gets an interval for its
//! true value. A candidate whose best case is slower than the leader's worst case cannot win, and
//! is not launched again. When only the leader is left, or the others can gain less than the
//! tolerance, the run-off is over.
//!
//! A race of a session and the run-off of an on-line tuner end by it. Which configuration replaces
//! the default is decided by [`compare`](super::compare) alone, on fresh samples.

use crate::statistics::{mean, median, variance};

/// Statistic that represents the samples of a configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Statistic {
    /// The median, which a slow launch now and then does not move.
    #[default]
    Median,
    /// The mean: the time of all launches together.
    Mean,
    /// The maximum: for work that waits for its slowest launch. There is no run-off, because the
    /// maximum of more samples is larger.
    Maximum,
}

/// Standard errors between a median or mean and its bounds, with few and with many samples. There
/// are some ten looks at several candidates, and the best must survive them all; but with few
/// samples wide bounds span both modes of a kernel with two, which keeps too many in the run-off.
const SURE: [f64; 2] = [2.0, 2.5];

/// Number of samples that are many.
const MANY: usize = 40;

impl Statistic {
    /// Returns the value for `samples`, at least one.
    pub(crate) fn of(self, samples: &[f64]) -> f64 {
        match self {
            Self::Median => median(samples),
            Self::Mean => mean(samples),
            Self::Maximum => samples.iter().copied().fold(0.0, f64::max),
        }
    }

    /// Returns the lower (`side` -1) or upper (1) bound of the value that many samples would have.
    /// A median is taken to lie between the order statistics [`SURE`] standard deviations of the
    /// binomial to either side of the middle; a mean, within as many standard errors.
    ///
    /// For the median of n samples, the number of samples below the true median is binomial with
    /// mean n/2 and standard deviation √n/2. For n = 25 and two standard deviations these are 12.5
    /// ± 5, so that the bounds are the 8th and the 18th of the sorted samples, roughly. No
    /// assumption about the shape of the noise is needed, which matters for kernels with two modes.
    fn bound(self, samples: &[f64], side: f64) -> f64 {
        let sure = side * SURE[usize::from(samples.len() >= MANY)];
        if self == Self::Mean {
            return mean(samples) + sure * (variance(samples) / samples.len() as f64).sqrt();
        }
        let mut samples = samples.to_vec();
        samples.sort_by(f64::total_cmp);
        let last = samples.len() as f64 - 1.0;
        let place = last * 0.5 + 0.5 * sure * (last + 1.0).sqrt();
        // Rounds outwards.
        let place = if side > 0.0 {
            place.ceil().min(last)
        } else {
            place.floor().max(0.0)
        };
        samples[place as usize]
    }
}

/// Returns the candidates between which more samples could decide: the leader, and those that may
/// be faster by more than the share `tolerance` of its time. Leaves out candidates without samples.
pub(crate) fn undecided(
    candidates: &[(usize, Vec<f64>)],
    statistic: Statistic,
    tolerance: f64,
) -> Vec<usize> {
    let known = || candidates.iter().filter(|(_, samples)| !samples.is_empty());
    let times = known().map(|(candidate, samples)| (*candidate, statistic.of(samples), samples));
    let Some((leader, fastest, of_leader)) = times.min_by(|a, b| a.1.total_cmp(&b.1)) else {
        return Vec::new();
    };
    let slowest = statistic.bound(of_leader, 1.0);
    let open = |candidate: usize, samples: &[f64]| {
        candidate == leader || slowest - statistic.bound(samples, -1.0) > tolerance * fastest
    };
    known()
        .filter(|(candidate, samples)| open(*candidate, samples))
        .map(|(candidate, _)| *candidate)
        .collect()
}
