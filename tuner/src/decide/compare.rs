//! Measures configurations against each other: interleaved, in blocks, and the winner once more.
//!
//! Inside a block the configurations take turns, in a random order: whatever changes slowly (clock, temperature, a
//! neighbour) or with the position in the block meets all of them alike. [`verdict`](super::verdict) weighs the blocks.

use crate::objective::is_cost;
use crate::verdict::{Block, Judgement, Rules, Side, Verdict, judge};
use crate::watch::{State, Watch};
use crate::{Config, Device, Failure, FailureKind, Outcome};
use rand::{SeedableRng as _, seq::SliceRandom as _};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// Blocks of which nothing could be used, after which a comparison gives up if there was never another.
const SPOILT: usize = 4;

/// Number and order of samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Weighing of the samples.
    pub rules: Rules,
    /// Rounds a block: samples of each configuration in it. Default 15.
    pub rounds: usize,
    /// Launches of each configuration before the first block, whose times are thrown away. Default 3.
    pub warm_up: usize,
    /// Seed of the orders.
    pub seed: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self { rules: Rules::default(), rounds: 15, warm_up: 3, seed: 1 }
    }
}

/// Returns the turns of one block: for each of `rounds` rounds, `sides` indices, each once. A B B A …: every second round
/// runs backwards, and each pair of rounds starts with a random order, which cancels a linear drift inside the pair.
pub fn turns(sides: usize, rounds: usize, lot: &mut ChaCha8Rng) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let mut turn: Vec<usize> = (0..sides).collect();
        if round % 2 == 1 {
            turn.clone_from(&all[round - 1]);
            turn.reverse();
        } else {
            turn.shuffle(lot);
        }
        all.push(turn);
    }
    all
}

/// The number of a configuration in a comparison, and why it could not be measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Dropped {
    /// Number of the side.
    pub side: usize,
    /// The cause.
    pub failure: Failure,
}

/// One block of all `configs`: their times by configuration.
pub(crate) struct Measured {
    times: Vec<Vec<f64>>,
    discarded: usize,
    states: Vec<State>,
}

impl From<Measured> for Block {
    /// The first two configurations.
    fn from(measured: Measured) -> Self {
        let mut times = measured.times.into_iter();
        Self {
            a: times.next().unwrap_or_default(),
            b: times.next().unwrap_or_default(),
            discarded: measured.discarded,
            states: measured.states,
        }
    }
}

pub(crate) fn measure_block(
    device: &mut dyn Device,
    configs: &[&Config],
    plan: &Plan,
    watch: &mut dyn Watch,
    lot: &mut ChaCha8Rng,
) -> Result<Measured, Dropped> {
    let limits = watch.limits();
    let mut measured = Measured { times: vec![Vec::new(); configs.len()], discarded: 0, states: Vec::new() };
    watch.look();
    // Pairs of rounds stay or go together: the order was drawn for the pair, and the verdict relies on that.
    for pair in turns(configs.len(), plan.rounds.max(1), lot).chunks(2) {
        let mut fresh = vec![Vec::with_capacity(2); configs.len()];
        for side in pair.iter().flatten() {
            let time = one_time(device, configs[*side]).map_err(|failure| Dropped { side: *side, failure })?;
            fresh[*side].push(time);
        }
        let state = watch.look();
        if state.trouble(&limits).is_some() {
            measured.discarded += pair.len() * configs.len();
            continue;
        }
        for (times, fresh) in measured.times.iter_mut().zip(fresh) {
            times.extend(fresh);
        }
        if state != State::default() {
            measured.states.push(state);
        }
    }
    Ok(measured)
}

fn one_time(device: &mut dyn Device, config: &Config) -> Result<f64, Failure> {
    let broken = |message: String| Failure { kind: FailureKind::Launch, message };
    match device.measure(config, 1) {
        Outcome::Failed(failure) => Err(failure),
        Outcome::Times(times) => match times.as_slice() {
            [time] if is_cost(*time) => Ok(*time),
            [time] => Err(broken(format!("the device gave a time of {time:?} ms"))),
            _ => Err(broken(format!("the device gave {} times for one launch", times.len()))),
        },
    }
}

pub(crate) fn warm_up(device: &mut dyn Device, config: &Config, launches: usize) -> Result<(), Failure> {
    (0..launches).try_for_each(|_| one_time(device, config).map(|_| ()))
}

/// Two configurations, measured and judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Judgement of the blocks.
    pub judgement: Judgement,
    /// The blocks.
    pub blocks: Vec<Block>,
}

/// Measures `a` against `b` in blocks until a look decides or the horizon is reached.
///
/// # Errors
/// The first failure of either; `side` is 0 for `a`, 1 for `b`.
pub fn compare(
    device: &mut dyn Device,
    a: &Config,
    b: &Config,
    plan: &Plan,
    watch: &mut dyn Watch,
) -> Result<Comparison, Dropped> {
    let mut lot = ChaCha8Rng::seed_from_u64(plan.seed);
    for (side, config) in [a, b].into_iter().enumerate() {
        warm_up(device, config, plan.warm_up).map_err(|failure| Dropped { side, failure })?;
    }
    let mut blocks = Vec::new();
    let mut judgement = judge(&blocks, &plan.rules);
    // Blocks of which nothing is left do not count towards a look, but they end the patience.
    for _ in 0..2 * plan.rules.horizon() {
        let measured = measure_block(device, &[a, b], plan, watch, &mut lot)?;
        blocks.push(Block::from(measured));
        if blocks.len() >= SPOILT && blocks.iter().all(|block| block.a.is_empty()) {
            break;
        }
        let good = blocks.iter().filter(|block| !block.a.is_empty()).count();
        // A look again after a spoilt block sees nothing new.
        if plan.rules.looks.contains(&good) {
            judgement = judge(&blocks, &plan.rules);
            if good >= plan.rules.horizon() || !matches!(judgement.verdict, Verdict::CannotTell(_)) {
                return Ok(Comparison { judgement, blocks });
            }
        }
    }
    // The horizon was never reached: say what is known, which the discarded samples dominate.
    let seen = judge(&blocks, &plan.rules);
    if matches!(seen.verdict, Verdict::CannotTell(_)) {
        judgement = seen;
    }
    Ok(Comparison { judgement, blocks })
}

/// Fate of a candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "fate")]
pub enum Fate {
    /// It was measured against the default (A is the default, B the candidate).
    Judged(Judgement),
    /// It could not be measured; a wrong result bans it for good.
    Failed(Failure),
}

/// A candidate and its fate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The configuration.
    pub config: Config,
    /// Fate of the candidate.
    #[serde(flatten)]
    pub fate: Fate,
}

/// Why the default stays, or that it does not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ruling", content = "because")]
pub enum Ruling {
    /// The chosen candidate was better, and better again on fresh samples.
    Promoted,
    /// No candidate was shown to be better than the default.
    NoneBetter,
    /// The best candidate did not repeat it on fresh samples.
    NotConfirmed(Verdict),
    /// The default itself could not be measured: nothing can be compared.
    NoDefault(Failure),
}

/// The outcome of a contest between the default and its candidates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Configuration to use from now on: a candidate only if it was promoted, else the default.
    pub chosen: Config,
    /// Why.
    #[serde(flatten)]
    pub ruling: Ruling,
    /// The default.
    pub default: Config,
    /// Every candidate.
    pub candidates: Vec<Candidate>,
    /// The number of the winner of the first round, if there was one.
    pub winner: Option<usize>,
    /// Second measurement, on fresh samples; the promotion rests on this alone.
    pub confirmation: Option<Judgement>,
}

/// In how many parameters `config` departs from `default`, of the same space: the fewer, the simpler.
pub fn departures(default: &Config, config: &Config) -> usize {
    default.0.iter().zip(&config.0).filter(|(a, b)| a != b).count()
}

/// Measures all `candidates` against `default`, and promotes the best one if fresh samples confirm it.
///
/// The first round shares the error among all candidates. Those shown to be worse, the same, or slower than the leader
/// drop out at each look. Of the candidates shown to be better, those within the zone of indifference of the fastest
/// compete on simplicity. The second round is a comparison of its own with the full error: whatever luck chose the
/// winner has no part in it.
pub fn decide(
    device: &mut dyn Device,
    default: &Config,
    candidates: &[Config],
    plan: &Plan,
    watch: &mut dyn Watch,
) -> Decision {
    let mut decision = Decision {
        chosen: default.clone(),
        ruling: Ruling::NoneBetter,
        default: default.clone(),
        candidates: Vec::new(),
        winner: None,
        confirmation: None,
    };
    let fates = match screen(device, default, candidates, plan, watch) {
        Ok(fates) => fates,
        Err(failure) => {
            decision.ruling = Ruling::NoDefault(failure);
            return decision;
        }
    };
    decision.candidates =
        candidates.iter().zip(fates).map(|(config, fate)| Candidate { config: config.clone(), fate }).collect();
    // Other orders than in the first round: fresh samples, fresh lots.
    let again = Plan { rules: plan.rules.of_family(1), seed: plan.seed ^ 0x9e37_79b9_7f4a_7c15, ..plan.clone() };
    while let Some(winner) = simplest_of_the_best(&decision.candidates, default, plan.rules.indifference) {
        decision.winner = Some(winner);
        let config = decision.candidates[winner].config.clone();
        match compare(device, default, &config, &again, watch) {
            Ok(comparison) => {
                let verdict = comparison.judgement.verdict;
                decision.confirmation = Some(comparison.judgement);
                if verdict == Verdict::Better(Side::B) {
                    decision.chosen = config;
                    decision.ruling = Ruling::Promoted;
                } else {
                    decision.ruling = Ruling::NotConfirmed(verdict);
                }
                break;
            }
            Err(Dropped { side: 0, failure }) => {
                decision.ruling = Ruling::NoDefault(failure);
                break;
            }
            // It failed; that says nothing about the next best.
            Err(Dropped { failure, .. }) => {
                decision.winner = None;
                decision.candidates[winner].fate = Fate::Failed(failure);
            }
        }
    }
    decision
}

/// The first round: a fate for each candidate, or the failure of the default.
fn screen(
    device: &mut dyn Device,
    default: &Config,
    candidates: &[Config],
    plan: &Plan,
    watch: &mut dyn Watch,
) -> Result<Vec<Fate>, Failure> {
    let rules = plan.rules.of_family(candidates.len());
    let mut lot = ChaCha8Rng::seed_from_u64(plan.seed);
    let mut fates: Vec<Option<Fate>> = vec![None; candidates.len()];
    let mut blocks: Vec<Vec<Block>> = vec![Vec::new(); candidates.len()];
    warm_up(device, default, plan.warm_up)?;
    for (fate, config) in fates.iter_mut().zip(candidates) {
        *fate = warm_up(device, config, plan.warm_up).err().map(Fate::Failed);
    }
    let (mut good, mut tries) = (0, 0);
    while good < rules.horizon() && tries < 2 * rules.horizon() {
        let live: Vec<usize> = (0..candidates.len()).filter(|i| fates[*i].is_none()).collect();
        if live.is_empty() {
            break;
        }
        let configs: Vec<&Config> = std::iter::once(default).chain(live.iter().map(|i| &candidates[*i])).collect();
        let measured = match measure_block(device, &configs, plan, watch, &mut lot) {
            Ok(measured) => measured,
            Err(Dropped { side: 0, failure }) => return Err(failure),
            // The block is lost for all; the next one goes without the culprit.
            Err(Dropped { side, failure }) => {
                fates[live[side - 1]] = Some(Fate::Failed(failure));
                continue;
            }
        };
        tries += 1;
        let (of_default, of_live) = measured.times.split_at(1);
        for (i, times) in live.iter().zip(of_live) {
            blocks[*i].push(Block {
                a: of_default[0].clone(),
                b: times.clone(),
                discarded: 2 * measured.discarded / configs.len(),
                states: measured.states.clone(),
            });
        }
        if of_default[0].is_empty() {
            continue;
        }
        good += 1;
        if rules.looks.contains(&good) {
            close_cases(&live, &blocks, &rules, good, &mut fates);
        }
    }
    let rest =
        |(fate, blocks): (Option<Fate>, Vec<Block>)| fate.unwrap_or_else(|| Fate::Judged(judge(&blocks, &rules)));
    Ok(fates.into_iter().zip(blocks).map(rest).collect())
}

/// At a look: settles the candidates for which more blocks cannot change the choice.
fn close_cases(live: &[usize], blocks: &[Vec<Block>], rules: &Rules, good: usize, fates: &mut [Option<Fate>]) {
    let judged: Vec<(usize, Judgement)> = live.iter().map(|i| (*i, judge(&blocks[*i], rules))).collect();
    let leader = judged
        .iter()
        .filter(|(_, judgement)| judgement.verdict == Verdict::Better(Side::B))
        .map(|(_, judgement)| judgement.high)
        .fold(f64::INFINITY, f64::min);
    // With one candidate left that is better than the default, its lead will only be known more exactly.
    let undecided =
        judged.iter().filter(|(_, j)| matches!(j.verdict, Verdict::CannotTell(_)) && j.low <= leader).count();
    for (i, judgement) in judged {
        let beaten = judgement.low > leader + rules.indifference;
        let settled = match judgement.verdict {
            Verdict::Better(Side::A) | Verdict::Same => true,
            Verdict::Better(Side::B) => undecided == 0,
            Verdict::CannotTell(_) => good >= rules.horizon(),
        };
        if settled || beaten {
            fates[i] = Some(Fate::Judged(judgement));
        }
    }
}

/// Of the candidates that are better than the default: the simplest within the zone of indifference of the fastest; of
/// equals the faster.
fn simplest_of_the_best(candidates: &[Candidate], default: &Config, zone: f64) -> Option<usize> {
    let better: Vec<(usize, f64)> = candidates
        .iter()
        .enumerate()
        .filter_map(|(i, candidate)| match &candidate.fate {
            Fate::Judged(j) if j.verdict == Verdict::Better(Side::B) => Some((i, j.difference)),
            _ => None,
        })
        .collect();
    let fastest = better.iter().map(|(_, difference)| *difference).fold(f64::INFINITY, f64::min);
    better
        .into_iter()
        .filter(|(_, difference)| (1.0 + difference) <= (1.0 + fastest) * (1.0 + zone))
        .min_by(|(i, x), (j, y)| {
            let simple = |k: usize| departures(default, &candidates[k].config);
            simple(*i).cmp(&simple(*j)).then(x.total_cmp(y))
        })
        .map(|(i, _)| i)
}
