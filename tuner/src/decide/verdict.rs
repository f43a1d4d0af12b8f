//! Verdict on measured blocks: better, same, or cannot tell.
//!
//! Launches inside a block share clock, temperature and other load, so their scatter says little
//! about the error of a mean. The error comes from the variation of the *difference* between
//! blocks. A side is better only if
//!
//! - Student's interval of the mean log ratio over blocks excludes 0, at a level divided by the
//!   number of comparisons in the family and of looks at the growing data (Bonferroni: candidates
//!   share the default's blocks), with fewer effective blocks if they are correlated;
//! - the same samples with random signs hardly ever differ as much: signs of whole blocks, and of
//!   pairs of rounds, whose order was random. The latter is exact under any noise, as far out in
//!   the tails as a large family needs;
//! - the difference is larger than the zone of indifference.

use crate::objective::{Objective, is_cost};
use crate::statistics::{
    effective_count, mean, sign_flip, smallest_sign_flip, student_critical, student_two_sided,
    variance,
};
use crate::watch::State;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// One of two configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// First configuration, usually the default.
    A,
    /// Second configuration, usually the candidate.
    B,
}

/// Reason why two configurations cannot be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Reason {
    /// There are too few usable blocks to know the variance between them.
    TooFewBlocks,
    /// The interval neither excludes 0 nor lies within the zone of indifference.
    TooNoisy,
    /// The difference changed while it was measured.
    Drifting,
    /// Too many samples were discarded, because of throttled clocks or other load.
    Throttled,
}

/// Conclusion from the evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict", content = "detail")]
pub enum Verdict {
    /// One side takes less time, by more than the zone of indifference.
    Better(Side),
    /// The difference lies within the zone of indifference.
    Same,
    /// Neither was shown.
    CannotTell(Reason),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Better(Side::A) => "A is better",
            Self::Better(Side::B) => "B is better",
            Self::Same => "same",
            Self::CannotTell(Reason::TooFewBlocks) => "cannot tell: too few blocks",
            Self::CannotTell(Reason::TooNoisy) => "cannot tell: too noisy",
            Self::CannotTell(Reason::Drifting) => "cannot tell: drifting",
            Self::CannotTell(Reason::Throttled) => "cannot tell: throttled or disturbed",
        })
    }
}

/// Method of weighing the evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Method {
    /// Variance between blocks; see the module's text.
    #[default]
    Blocks,
    /// ALICE's rule, for comparison: the 95 % interval of the difference of means excludes 0, with
    /// all samples taken as independent. It knows neither family, looks nor zone. On machines with
    /// free clocks it calls equals different in 7 to 11 of 100 comparisons.
    Alice,
}

/// Rules of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// Method of weighing the evidence. Default `Blocks`.
    pub method: Method,
    /// 1 minus the chance that any comparison of the family calls equals different. Default 0.95.
    pub confidence: f64,
    /// Zone of indifference: relative difference of times that counts as none. Default 0.002.
    pub indifference: f64,
    /// Number of comparisons that share the error: 100 candidates against one default are 100.
    /// Default 1.
    pub family: usize,
    /// Numbers of blocks at which the evidence is judged, ascending; the last one is the horizon.
    /// Each look spends an equal part of the error. Default 10, 20, 40.
    pub looks: Vec<usize>,
    /// Largest share of discarded samples with which a verdict is possible. Default 0.3.
    pub most_discarded: f64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            method: Method::Blocks,
            confidence: 0.95,
            indifference: 0.002,
            family: 1,
            looks: vec![10, 20, 40],
            most_discarded: 0.3,
        }
    }
}

impl Rules {
    /// Returns these rules with one look, at `blocks`.
    #[must_use]
    pub fn fixed(&self, blocks: usize) -> Self {
        Self {
            looks: vec![blocks],
            ..self.clone()
        }
    }

    /// Returns these rules for `family` comparisons that share the error.
    #[must_use]
    pub fn of_family(&self, family: usize) -> Self {
        Self {
            family: family.max(1),
            ..self.clone()
        }
    }

    /// Returns the chance of a false alarm that one look of one comparison may spend.
    ///
    /// With the defaults and 100 candidates a comparison may spend 0.05 / (100 · 3) = 1.7 · 10⁻⁴ at
    /// each of its three looks. The sum over all looks and candidates is 5 %: the chance that *any*
    /// equal candidate is called better.
    pub fn level(&self) -> f64 {
        let parts = self.family.max(1) * self.looks.len().max(1);
        ((1.0 - self.confidence) / parts as f64).clamp(1e-12, 1.0)
    }

    /// Returns the number of blocks after which no more are measured.
    pub fn horizon(&self) -> usize {
        self.looks.iter().copied().max().unwrap_or(0)
    }
}

/// Interleaved samples of two configurations, taken close together in time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Times of A in ms.
    pub a: Vec<f64>,
    /// Times of B in ms.
    pub b: Vec<f64>,
    /// Number of samples that were discarded.
    #[serde(default)]
    pub discarded: usize,
    /// State of the machine after each pair of rounds that was kept; empty if nothing was watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<State>,
}

/// Verdict, and the numbers behind it. Differences are relative: time of B over time of A, minus 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// Conclusion from the blocks by the rules; `verdict` and `detail` in JSON.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Estimate of the difference; NaN (JSON null) without usable blocks.
    #[serde(deserialize_with = "or_nan")]
    pub difference: f64,
    /// Lower end of the difference's interval, at the corrected level.
    #[serde(deserialize_with = "or_nan")]
    pub low: f64,
    /// Upper end of the interval.
    #[serde(deserialize_with = "or_nan")]
    pub high: f64,
    /// Two-sided chance of as large a difference between equals, before correction.
    #[serde(deserialize_with = "or_nan")]
    pub chance: f64,
    /// Level with which `chance` was compared.
    #[serde(deserialize_with = "or_nan")]
    pub level: f64,
    /// Number of usable blocks.
    pub blocks: usize,
    /// Number of independent blocks that the usable ones are worth.
    #[serde(deserialize_with = "or_nan")]
    pub effective_blocks: f64,
    /// Number of samples used.
    pub kept: usize,
    /// Number of samples discarded.
    pub discarded: usize,
}

impl Judgement {
    /// Returns the factor by which B is better, with the interval, in words.
    pub fn gain(&self, objective: Objective) -> String {
        let [centre, low, high] = [self.difference, self.high, self.low]
            .map(|of_cost| format!("{:.3}", 1.0 / (1.0 + of_cost)));
        let how = match objective {
            Objective::Time | Objective::Rate => "as fast",
            Objective::Larger => "as large",
            Objective::Smaller => "as small",
        };
        format!("{centre} times {how} (from {low} to {high})")
    }
}

/// Reads JSON null, as serde_json writes NaN and infinities, as NaN.
pub(crate) fn or_nan<'d, D: Deserializer<'d>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::NAN))
}

/// Minimum number of blocks for a verdict.
///
/// The error is estimated from the blocks themselves. With two or three, Student's critical value
/// is so large (12.7 for one degree of freedom at 5 %) that no real difference would pass, and an
/// estimate of correlation is impossible.
const FEWEST_BLOCKS: usize = 4;

/// Judges blocks in which A and B were interleaved. Blocks with an empty side or a time that is not
/// positive count as discarded.
pub fn judge(blocks: &[Block], rules: &Rules) -> Judgement {
    let usable: Vec<&Block> = blocks
        .iter()
        .filter(|b| usable(&b.a) && usable(&b.b))
        .collect();
    let kept: usize = usable.iter().map(|b| b.a.len() + b.b.len()).sum();
    let all: usize = blocks
        .iter()
        .map(|b| b.a.len() + b.b.len() + b.discarded)
        .sum();
    let discarded = all - kept;
    let spoilt = discarded as f64 > rules.most_discarded * all as f64;
    if rules.method == Method::Alice {
        let side = |pick: fn(&Block) -> &Vec<f64>| {
            usable
                .iter()
                .flat_map(|b| pick(b).iter().copied())
                .collect::<Vec<_>>()
        };
        return Judgement {
            discarded,
            ..alice(&side(|b| &b.a), &side(|b| &b.b), usable.len(), spoilt)
        };
    }
    // Log ratios: a factor of 2 and a factor of ½ are then equally far from equality, and it does
    // not matter which side is called A. One number per block is the unit of evidence, because
    // samples inside a block share their conditions.
    let differences: Vec<f64> = usable
        .iter()
        .map(|b| mean(&b.b).ln() - mean(&b.a).ln())
        .collect();
    // A slow drift makes successive blocks alike, so that 40 blocks may be worth only 15. The
    // number of effective blocks widens the interval twice: in the standard error, and in Student's
    // t.
    let count = effective_count(&differences);
    let centre = mean(&differences);
    let error = (variance(&differences) / count.max(1.0)).sqrt();
    let freedom = (count - 1.0).max(1.0);
    // The zone as a log ratio, like the differences.
    let (level, zone) = (rules.level(), rules.indifference.max(0.0).ln_1p());
    let enough = differences.len() >= FEWEST_BLOCKS;
    let reach = student_critical(level, freedom) * error;
    let chance = match (enough, error > 0.0) {
        (false, _) => 1.0,
        (true, true) => student_two_sided(centre.abs() / error, freedom),
        (true, false) => f64::from(centre == 0.0),
    };
    let (low, high) = if enough {
        (centre - reach, centre + reach)
    } else {
        (f64::NAN, f64::NAN)
    };
    // The second test needs no assumption about the noise. If A and B are equal, the order within
    // each pair of rounds was drawn at random, so that every difference could as well have had the
    // other sign. The share of sign patterns that give at least as large a sum is the exact chance.
    // With n parts no share below 2⁻ⁿ⁺¹ exists; where the level is smaller than that, the most
    // extreme pattern must do, and the test on pairs of rounds, of which there are more, carries
    // the weight.
    let by_lot = || {
        let rare = |parts: &[f64]| sign_flip(parts) <= level.max(smallest_sign_flip(parts.len()));
        rare(&differences)
            && rare(
                &usable
                    .iter()
                    .flat_map(|block| drawn_parts(block))
                    .collect::<Vec<_>>(),
            )
    };
    let (first, second) = differences.split_at(differences.len() / 2);
    let (first, second) = (mean(first), mean(second));
    // A difference that grows or shrinks is still a difference if both halves show it.
    let both = first.signum() == second.signum() && first.abs().min(second.abs()) > zone;
    // The order of the cases matters. Bad conditions come first: no interval is worth anything if
    // more samples were thrown away than the rules allow. "Same" comes before "drifting": if the
    // whole interval lies within the zone, the drift is too small to matter.
    let verdict = if spoilt {
        Verdict::CannotTell(Reason::Throttled)
    } else if !enough {
        Verdict::CannotTell(Reason::TooFewBlocks)
    } else if low > -zone && high < zone {
        Verdict::Same
    } else if halves_disagree(&differences) && !both {
        Verdict::CannotTell(Reason::Drifting)
    } else if (low > 0.0 || high < 0.0) && centre.abs() > zone && by_lot() {
        Verdict::Better(if centre > 0.0 { Side::A } else { Side::B })
    } else {
        Verdict::CannotTell(Reason::TooNoisy)
    };
    Judgement {
        verdict,
        difference: centre.exp_m1(),
        low: low.exp_m1(),
        high: high.exp_m1(),
        chance,
        level,
        blocks: differences.len(),
        effective_blocks: count,
        kept,
        discarded,
    }
}

/// Returns the relative differences of the parts of a block whose order was drawn separately: pairs
/// of rounds.
///
/// The second round of a pair runs backwards (A B B A). Its order is fixed by the first, so that
/// only the pair as a whole can be flipped.
fn drawn_parts(block: &Block) -> Vec<f64> {
    let size = if block.a.len() == block.b.len() {
        2
    } else {
        block.a.len().max(block.b.len())
    };
    let scale = mean(&block.a);
    let sums = block.a.chunks(size).zip(block.b.chunks(size));
    sums.map(|(a, b)| (b.iter().sum::<f64>() - a.iter().sum::<f64>()) / scale)
        .collect()
}

fn usable(times: &[f64]) -> bool {
    !times.is_empty() && times.iter().all(|&time| is_cost(time))
}

/// Returns true if the second half of a series differs from the first by more than chance (1 %)
/// allows.
///
/// A difference that appears half-way is an event on the machine (another program, a change of
/// clock that hits one kernel harder) and not a property of the configurations. Fewer than eight
/// values cannot show this.
fn halves_disagree(values: &[f64]) -> bool {
    if values.len() < 8 {
        return false;
    }
    let (first, second) = values.split_at(values.len() / 2);
    let error =
        (variance(first) / first.len() as f64 + variance(second) / second.len() as f64).sqrt();
    let apart = (mean(second) - mean(first)).abs();
    apart > 0.0 && student_two_sided(apart / error, (values.len() - 2) as f64) < 0.01
}

fn alice(a: &[f64], b: &[f64], blocks: usize, spoilt: bool) -> Judgement {
    // The normal 97.5 % point: ALICE takes the mean as normal.
    const NORMAL: f64 = 1.959_963_984_540_054;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let error = (variance(a) / a.len() as f64 + variance(b) / b.len() as f64).sqrt();
    let apart = mean_b - mean_a;
    let (low, high) = (
        (apart - NORMAL * error) / mean_a,
        (apart + NORMAL * error) / mean_a,
    );
    let verdict = if spoilt {
        Verdict::CannotTell(Reason::Throttled)
    } else if a.len() < 2 || b.len() < 2 {
        Verdict::CannotTell(Reason::TooFewBlocks)
    } else if !(low.is_finite() && high.is_finite()) {
        Verdict::CannotTell(Reason::TooNoisy)
    } else if low > 0.0 || high < 0.0 {
        Verdict::Better(if apart > 0.0 { Side::A } else { Side::B })
    } else {
        Verdict::Same
    };
    let chance = if error > 0.0 {
        student_two_sided(apart.abs() / error, 1e9)
    } else {
        f64::from(apart == 0.0)
    };
    Judgement {
        verdict,
        difference: apart / mean_a,
        low,
        high,
        chance: if chance.is_nan() { 1.0 } else { chance },
        level: 0.05,
        blocks,
        effective_blocks: blocks as f64,
        kept: a.len() + b.len(),
        discarded: 0,
    }
}
