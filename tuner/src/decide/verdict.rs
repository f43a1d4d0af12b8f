//! From measured blocks to a verdict: better, same, or cannot tell.
//!
//! Launches inside a block share a clock, a temperature and a neighbour's load, so their scatter says little about how
//! well two means are known. What counts is how the *difference* of the two sides varies from block to block. Three
//! things must agree before a side is called better:
//!
//! - Student's interval of the mean log ratio over blocks leaves out 0, at a level divided by the number of comparisons in
//!   the family and of looks at the growing data (Bonferroni: candidates share the default's blocks), with fewer effective
//!   blocks where they are correlated;
//! - the same samples with random signs hardly ever give as much: of whole blocks, and of the pairs of rounds in them,
//!   whose order was random. The latter is exact under any noise, also as far out in the tails as a large family needs it;
//! - the difference is larger than the zone of indifference.

use crate::objective::is_cost;
use crate::statistics::{
    effective_count, mean, sign_flip, smallest_sign_flip, student_critical, student_two_sided, variance,
};
use crate::watch::State;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// One of two configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The first, usually the default.
    A,
    /// The second, usually the candidate.
    B,
}

/// Why two configurations could not be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Fewer usable blocks than the variance between blocks can be known from.
    TooFewBlocks,
    /// The interval is wider than the zone of indifference and contains no decision.
    TooNoisy,
    /// The difference changed while it was measured.
    Drifting,
    /// Too many samples were taken in a bad state (throttled clocks, other processes, a clock too slow) and discarded.
    Throttled,
}

/// Conclusion from the evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict", content = "detail")]
pub enum Verdict {
    /// One side takes less time, beyond the zone of indifference.
    Better(Side),
    /// Any difference lies within the zone of indifference.
    Same,
    /// Neither could be shown.
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
pub enum Method {
    /// Variance between blocks, as this file's head describes.
    #[default]
    Blocks,
    /// ALICE's rule: the 95 % interval of the difference of the means of all samples, as if they were independent,
    /// leaves out 0. On machines with free clocks it calls equals different in 7 to 11 of 100 comparisons; it is here
    /// to compare with, and knows neither family, looks nor zone.
    Alice,
}

/// The rules of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// Method of weighing the evidence.
    pub method: Method,
    /// 1 minus the chance that any comparison of the family calls equals different. Default 0.95.
    pub confidence: f64,
    /// Relative difference of times within which two configurations count as the same. Default 0.002.
    pub indifference: f64,
    /// Number of comparisons that share the error: 100 candidates against one default are 100. Default 1.
    pub family: usize,
    /// The numbers of blocks at which the evidence is looked at, ascending; the last one is the horizon. Each look is
    /// given an equal part of the error. Default 10, 20, 40.
    pub looks: Vec<usize>,
    /// Largest share of samples that may be discarded before nothing is believed. Default 0.3.
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
    /// The same rules with one look, at `blocks`.
    #[must_use]
    pub fn fixed(&self, blocks: usize) -> Self {
        Self { looks: vec![blocks], ..self.clone() }
    }

    /// The same rules for `family` comparisons that share the error.
    #[must_use]
    pub fn of_family(&self, family: usize) -> Self {
        Self { family: family.max(1), ..self.clone() }
    }

    /// The chance of a false alarm that one look of one comparison may spend.
    pub fn level(&self) -> f64 {
        let parts = self.family.max(1) * self.looks.len().max(1);
        ((1.0 - self.confidence) / parts as f64).clamp(1e-12, 1.0)
    }

    /// The number of blocks after which no more are taken.
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
    /// Samples that were taken in a bad state and are in neither.
    #[serde(default)]
    pub discarded: usize,
    /// The state of the machine after each pair of rounds of the samples above; empty where nothing was watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<State>,
}

/// A verdict with what it rests on. Differences are relative: time of B over time of A, minus 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// Conclusion from the evidence.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The estimate of the difference; not a number (JSON null) without usable blocks.
    #[serde(deserialize_with = "or_nan")]
    pub difference: f64,
    /// Lower end of its interval, at the corrected level.
    #[serde(deserialize_with = "or_nan")]
    pub low: f64,
    /// Upper end of its interval, at the corrected level.
    #[serde(deserialize_with = "or_nan")]
    pub high: f64,
    /// Two-sided chance of so large a difference between equals, before correction.
    #[serde(deserialize_with = "or_nan")]
    pub chance: f64,
    /// Level with which `chance` was compared.
    #[serde(deserialize_with = "or_nan")]
    pub level: f64,
    /// Usable blocks.
    pub blocks: usize,
    /// Number of independent blocks that they are worth.
    #[serde(deserialize_with = "or_nan")]
    pub effective_blocks: f64,
    /// Samples that were used.
    pub kept: usize,
    /// Samples that were discarded.
    pub discarded: usize,
}

/// JSON has no infinity and no NaN: serde_json writes them as null, and null is read as NaN.
pub(crate) fn or_nan<'d, D: Deserializer<'d>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::NAN))
}

/// Fewer blocks than this give no verdict, whatever they look like.
const FEWEST_BLOCKS: usize = 4;

/// Weighs blocks in which A and B were interleaved. Blocks with an empty side or a time that is not a positive number
/// count as discarded.
pub fn judge(blocks: &[Block], rules: &Rules) -> Judgement {
    let usable: Vec<&Block> = blocks.iter().filter(|b| usable(&b.a) && usable(&b.b)).collect();
    let kept: usize = usable.iter().map(|b| b.a.len() + b.b.len()).sum();
    let all: usize = blocks.iter().map(|b| b.a.len() + b.b.len() + b.discarded).sum();
    let discarded = all - kept;
    let spoilt = discarded as f64 > rules.most_discarded * all as f64;
    if rules.method == Method::Alice {
        let side =
            |pick: fn(&Block) -> &Vec<f64>| usable.iter().flat_map(|b| pick(b).iter().copied()).collect::<Vec<_>>();
        return Judgement { discarded, ..alice(&side(|b| &b.a), &side(|b| &b.b), usable.len(), spoilt) };
    }
    let differences: Vec<f64> = usable.iter().map(|b| mean(&b.b).ln() - mean(&b.a).ln()).collect();
    let count = effective_count(&differences);
    let centre = mean(&differences);
    let error = (variance(&differences) / count.max(1.0)).sqrt();
    let freedom = (count - 1.0).max(1.0);
    let (level, zone) = (rules.level(), rules.indifference.max(0.0).ln_1p());
    let enough = differences.len() >= FEWEST_BLOCKS;
    let reach = student_critical(level, freedom) * error;
    let chance = match (enough, error > 0.0) {
        (false, _) => 1.0,
        (true, true) => student_two_sided(centre.abs() / error, freedom),
        (true, false) => f64::from(centre == 0.0),
    };
    let (low, high) = if enough { (centre - reach, centre + reach) } else { (f64::NAN, f64::NAN) };
    let by_lot = || {
        let rare = |parts: &[f64]| sign_flip(parts) <= level.max(smallest_sign_flip(parts.len()));
        rare(&differences) && rare(&usable.iter().flat_map(|block| drawn_parts(block)).collect::<Vec<_>>())
    };
    let (first, second) = differences.split_at(differences.len() / 2);
    let (first, second) = (mean(first), mean(second));
    // A difference that grows or shrinks is still a difference if both halves show it.
    let both = first.signum() == second.signum() && first.abs().min(second.abs()) > zone;
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

/// The relative differences of the parts of a block whose order was drawn one by one: pairs of rounds.
fn drawn_parts(block: &Block) -> Vec<f64> {
    let size = if block.a.len() == block.b.len() { 2 } else { block.a.len().max(block.b.len()) };
    let scale = mean(&block.a);
    let sums = block.a.chunks(size).zip(block.b.chunks(size));
    sums.map(|(a, b)| (b.iter().sum::<f64>() - a.iter().sum::<f64>()) / scale).collect()
}

fn usable(times: &[f64]) -> bool {
    !times.is_empty() && times.iter().all(|&time| is_cost(time))
}

/// Returns true if the second half of a series differs from the first by more than chance (1 %) allows.
fn halves_disagree(values: &[f64]) -> bool {
    if values.len() < 8 {
        return false;
    }
    let (first, second) = values.split_at(values.len() / 2);
    let error = (variance(first) / first.len() as f64 + variance(second) / second.len() as f64).sqrt();
    let apart = (mean(second) - mean(first)).abs();
    apart > 0.0 && student_two_sided(apart / error, (values.len() - 2) as f64) < 0.01
}

fn alice(a: &[f64], b: &[f64], blocks: usize, spoilt: bool) -> Judgement {
    // The normal 97.5 % point: ALICE's interval is that of a normal mean.
    const NORMAL: f64 = 1.959_963_984_540_054;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let error = (variance(a) / a.len() as f64 + variance(b) / b.len() as f64).sqrt();
    let apart = mean_b - mean_a;
    let (low, high) = ((apart - NORMAL * error) / mean_a, (apart + NORMAL * error) / mean_a);
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
    let chance = if error > 0.0 { student_two_sided(apart.abs() / error, 1e9) } else { f64::from(apart == 0.0) };
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
