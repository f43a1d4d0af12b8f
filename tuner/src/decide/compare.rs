//! Measures configurations against each other: interleaved, in blocks, and the winner once more.
//!
//! Inside a block the configurations take turns in a random order, so that slow changes of the
//! machine (clock, temperature, other load) and the position affect all alike.
//! [`verdict`](super::verdict) judges the blocks.
//!
//! # Why two rounds of measuring
//!
//! The fastest of a hundred equal configurations looks faster than it is, since it was chosen for
//! its luck. So a search never decides by itself. Its best candidates are measured against the
//! default in fresh, interleaved blocks, with the error shared among them; and the one that wins is
//! compared once more with the default, alone, on samples that had no part in choosing it. Only
//! this second comparison can replace the default.

use crate::objective::is_cost;
use crate::verdict::{Block, Judgement, Reason, Rules, Side, Verdict, judge};
use crate::watch::{State, Watch};
use crate::{Config, Device, Failure, FailureKind, Outcome};
use chacha20::ChaCha8Rng;
use rand::{SeedableRng as _, seq::SliceRandom as _};
use serde::{Deserialize, Serialize};

/// Number of blocks after which a comparison gives up if every one was discarded.
///
/// The machine is then so busy that more patience would not help, and the caller learns why.
const SPOILT: usize = 4;

/// Number and order of samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Rules for judging the blocks, which also say when to stop measuring.
    pub rules: Rules,
    /// Number of rounds of a block, which are samples of each configuration. Default 15.
    pub rounds: usize,
    /// Number of launches of each configuration before the first block, whose times are dropped.
    /// Default 3.
    pub warm_up: usize,
    /// Seed of the orders.
    pub seed: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            rules: Rules::default(),
            rounds: 15,
            warm_up: 3,
            seed: 1,
        }
    }
}

/// Returns the turns of one block: in each of `rounds` rounds, each of `sides` indices once.
///
/// Each pair of rounds has a random order, and its second round runs backwards (A B B A), which
/// cancels a linear drift inside the pair.
///
/// With two sides and four rounds the turns are for example `[0, 1], [1, 0], [1, 0], [0, 1]`. If
/// the machine becomes slower by δ with each launch, a pair costs side 0 the delays 0 + 3δ and side
/// 1 the delays δ + 2δ: the same.
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

/// Failed measurement of a configuration in a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Dropped {
    /// Number of the configuration.
    pub side: usize,
    /// Kind and message of the failure.
    pub failure: Failure,
}

/// One block, with its times by configuration.
pub(crate) struct Measured {
    times: Vec<Vec<f64>>,
    discarded: usize,
    states: Vec<State>,
    /// State of the machine, and the remedy, after the last round that was discarded.
    trouble: Option<String>,
}

pub(crate) fn measure_block(
    device: &mut dyn Device,
    configs: &[&Config],
    plan: &Plan,
    watch: &mut dyn Watch,
    lot: &mut ChaCha8Rng,
) -> Result<Measured, Dropped> {
    let limits = watch.limits();
    let mut measured = Measured {
        times: vec![Vec::new(); configs.len()],
        discarded: 0,
        states: Vec::new(),
        trouble: None,
    };
    watch.look();
    // Pairs of rounds are kept or discarded whole: the verdict relies on the order drawn for the
    // pair.
    for pair in turns(configs.len(), plan.rounds.max(1), lot).chunks(2) {
        let mut fresh = vec![Vec::with_capacity(2); configs.len()];
        for side in pair.iter().flatten() {
            let time = one_time(device, configs[*side]).map_err(|failure| Dropped {
                side: *side,
                failure,
            })?;
            fresh[*side].push(time);
        }
        let state = watch.look();
        if state.is_disturbed(&limits) {
            measured.discarded += pair.len() * configs.len();
            measured.trouble = Some(state.trouble(&limits));
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
    let broken = |message: String| FailureKind::Launch.because(message);
    match device.measure(config, 1) {
        Outcome::Failed(failure) => Err(failure),
        Outcome::Times(times) => match times.as_slice() {
            [time] if is_cost(*time) => Ok(*time),
            [time] => Err(broken(format!("the device gave a time of {time:?} ms"))),
            _ => Err(broken(format!(
                "the device gave {} times for one launch",
                times.len()
            ))),
        },
    }
}

pub(crate) fn warm_up(
    device: &mut dyn Device,
    config: &Config,
    launches: usize,
) -> Result<(), Failure> {
    (0..launches).try_for_each(|_| one_time(device, config).map(|_| ()))
}

/// Measured blocks of two configurations, with their judgement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Verdict and numbers, with the first configuration as A and the second as B.
    pub judgement: Judgement,
    /// Blocks in the order of measuring, including blocks without a kept sample.
    pub blocks: Vec<Block>,
    /// State of the machine when samples were last discarded, and the remedy.
    #[serde(default)]
    pub trouble: Option<String>,
}

/// Measures `a` against `b` in blocks until a look decides, or finds that the machine is too busy
/// for a decision, or the horizon is reached.
///
/// # Errors
/// If a measurement fails; `side` is 0 for `a`, 1 for `b`.
pub fn compare(
    device: &mut dyn Device,
    a: &Config,
    b: &Config,
    plan: &Plan,
    watch: &mut dyn Watch,
) -> Result<Comparison, Dropped> {
    let candidate = std::slice::from_ref(b);
    let contest = contest(device, a, candidate, &plan.rules, plan, watch);
    let Contest {
        mut fates,
        mut blocks,
        trouble,
    } = contest.map_err(|failure| Dropped { side: 0, failure })?;
    match fates.remove(0) {
        Fate::Judged(judgement) => Ok(Comparison {
            judgement,
            blocks: blocks.remove(0),
            trouble,
        }),
        Fate::Failed(failure) => Err(Dropped { side: 1, failure }),
    }
}

/// Fate of a candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "fate")]
pub enum Fate {
    /// The candidate (B) was measured against the default (A).
    Judged(Judgement),
    /// The candidate failed.
    Failed(Failure),
}

/// Candidate and its fate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Configuration that was proposed in place of the default.
    pub config: Config,
    /// Judgement against the default, or failure; `fate` and further fields in JSON.
    #[serde(flatten)]
    pub fate: Fate,
}

/// Ruling on the default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ruling", content = "because")]
#[non_exhaustive]
pub enum Ruling {
    /// A candidate was better, and again on fresh samples.
    Promoted,
    /// No candidate was shown to be better than the default.
    NoneBetter,
    /// The best candidate was not better on fresh samples.
    NotConfirmed(Verdict),
    /// The default failed.
    NoDefault(Failure),
}

impl Ruling {
    /// Describes the ruling on `rival`; `better` is the word for a smaller cost.
    pub fn in_words(&self, rival: &str, better: &str) -> String {
        match self {
            Self::Promoted => format!("better than {rival}, and again on fresh samples"),
            Self::NoneBetter => format!("{rival} stays: nothing was shown to be {better}"),
            Self::NotConfirmed(verdict) => {
                format!(
                    "{rival} stays: the candidate that seemed {better} was not on fresh samples \
                     ({verdict})"
                )
            }
            Self::NoDefault(failure) => {
                format!("{rival} failed in the final rounds: {}", failure.message)
            }
        }
    }
}

/// Names the configuration that the candidates are compared with.
pub fn rival(default: Option<&Config>, compared: &Config) -> &'static str {
    if default == Some(compared) {
        "the default"
    } else {
        "the search's best"
    }
}

/// Outcome of a contest between the default and its candidates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Promoted candidate, else the default.
    pub chosen: Config,
    /// Reason for `chosen`; `ruling` and `because` in JSON.
    #[serde(flatten)]
    pub ruling: Ruling,
    /// Configuration with which every candidate was compared.
    pub default: Config,
    /// Candidates in the given order; empty if the default failed before they were judged.
    pub candidates: Vec<Candidate>,
    /// Number of the winner of the first round.
    pub winner: Option<usize>,
    /// Second comparison of the winner, on fresh samples, on which alone a promotion rests.
    pub confirmation: Option<Judgement>,
}

/// Counts the parameters in which `config` differs from `default`: the fewer, the simpler.
fn departures(default: &Config, config: &Config) -> usize {
    default
        .0
        .iter()
        .zip(&config.0)
        .filter(|(a, b)| a != b)
        .count()
}

/// Measures all `candidates` against `default`, and promotes the best one if fresh samples confirm
/// it.
///
/// The first round shares the error among all candidates. At each look, candidates that are worse,
/// the same, or slower than the leader drop out. The simplest candidate within the zone of
/// indifference of the fastest wins. The second round compares the winner with the default again,
/// with the full error: the luck that chose the winner has no part in it.
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
    let rules = plan.rules.of_family(candidates.len());
    let fates = match contest(device, default, candidates, &rules, plan, watch) {
        Ok(contest) => contest.fates,
        Err(failure) => {
            decision.ruling = Ruling::NoDefault(failure);
            return decision;
        }
    };
    decision.candidates = candidates
        .iter()
        .zip(fates)
        .map(|(config, fate)| Candidate {
            config: config.clone(),
            fate,
        })
        .collect();
    // With another seed, the orders differ from the first round's.
    let again = Plan {
        rules: plan.rules.of_family(1),
        seed: plan.seed ^ 0x9e37_79b9_7f4a_7c15,
        ..plan.clone()
    };
    while let Some(winner) =
        simplest_of_the_best(&decision.candidates, default, plan.rules.indifference)
    {
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
            // The winner failed, which says nothing about the next best.
            Err(Dropped { failure, .. }) => {
                decision.winner = None;
                decision.candidates[winner].fate = Fate::Failed(failure);
            }
        }
    }
    decision
}

/// Candidates' fates, and the blocks in which each was measured against the default.
struct Contest {
    fates: Vec<Fate>,
    blocks: Vec<Vec<Block>>,
    /// State of the machine when samples were last discarded, and the remedy.
    trouble: Option<String>,
}

/// Measures all candidates against the default in shared blocks until looks have settled all, or
/// found the machine too busy, or the horizon is reached.
///
/// # Errors
/// If the default fails.
fn contest(
    device: &mut dyn Device,
    default: &Config,
    candidates: &[Config],
    rules: &Rules,
    plan: &Plan,
    watch: &mut dyn Watch,
) -> Result<Contest, Failure> {
    let mut lot = ChaCha8Rng::seed_from_u64(plan.seed);
    let mut fates: Vec<Option<Fate>> = vec![None; candidates.len()];
    let mut blocks: Vec<Vec<Block>> = vec![Vec::new(); candidates.len()];
    // At the last look.
    let mut judged = vec![judge(&[], rules); candidates.len()];
    let mut trouble = None;
    warm_up(device, default, plan.warm_up)?;
    for (fate, config) in fates.iter_mut().zip(candidates) {
        *fate = warm_up(device, config, plan.warm_up)
            .err()
            .map(Fate::Failed);
    }
    // Blocks without a sample do not count towards a look, but towards the end.
    let (mut good, mut tries) = (0, 0);
    while good < rules.horizon() && tries < 2 * rules.horizon() && !(good == 0 && tries >= SPOILT) {
        let live: Vec<usize> = (0..candidates.len())
            .filter(|i| fates[*i].is_none())
            .collect();
        if live.is_empty() {
            break;
        }
        let configs: Vec<&Config> = std::iter::once(default)
            .chain(live.iter().map(|i| &candidates[*i]))
            .collect();
        let measured = match measure_block(device, &configs, plan, watch, &mut lot) {
            Ok(measured) => measured,
            Err(Dropped { side: 0, failure }) => return Err(failure),
            // The block is lost for all; the next one leaves the failed candidate out.
            Err(Dropped { side, failure }) => {
                fates[live[side - 1]] = Some(Fate::Failed(failure));
                continue;
            }
        };
        tries += 1;
        trouble = measured.trouble.or(trouble);
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
            for &i in &live {
                judged[i] = judge(&blocks[i], rules);
            }
            close_cases(&live, &judged, rules, good, &mut fates);
        }
    }
    let rest = |((fate, blocks), judged): ((Option<Fate>, &Vec<Block>), Judgement)| {
        fate.unwrap_or_else(|| {
            // Only a look decides; after the last look, the discarded samples give the reason.
            let seen = judge(blocks, rules);
            Fate::Judged(if matches!(seen.verdict, Verdict::CannotTell(_)) {
                seen
            } else {
                judged
            })
        })
    };
    let fates = fates
        .into_iter()
        .zip(&blocks)
        .zip(judged)
        .map(rest)
        .collect();
    Ok(Contest {
        fates,
        blocks,
        trouble,
    })
}

/// Settles, at a look, the candidates for which more blocks cannot change the choice.
fn close_cases(
    live: &[usize],
    judged: &[Judgement],
    rules: &Rules,
    good: usize,
    fates: &mut [Option<Fate>],
) {
    let of_live = || live.iter().map(|&i| (i, &judged[i]));
    let leader = of_live()
        .filter(|(_, judgement)| judgement.verdict == Verdict::Better(Side::B))
        .map(|(_, judgement)| judgement.high)
        .fold(f64::INFINITY, f64::min);
    // More blocks for the better candidates matter only while others may still catch up.
    let may_catch_up =
        |j: &Judgement| matches!(j.verdict, Verdict::CannotTell(_)) && j.low <= leader;
    let undecided = of_live().any(|(_, judgement)| may_catch_up(judgement));
    for (i, judgement) in of_live() {
        let beaten = judgement.low > leader + rules.indifference;
        let settled = match judgement.verdict {
            Verdict::Better(Side::A) | Verdict::Same | Verdict::CannotTell(Reason::Throttled) => {
                true
            }
            Verdict::Better(Side::B) => !undecided,
            Verdict::CannotTell(_) => good >= rules.horizon(),
        };
        if settled || beaten {
            fates[i] = Some(Fate::Judged(judgement.clone()));
        }
    }
}

/// Returns the simplest of the better candidates within the zone of indifference of the fastest; of
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
    let fastest = better
        .iter()
        .map(|(_, difference)| *difference)
        .fold(f64::INFINITY, f64::min);
    better
        .into_iter()
        .filter(|(_, difference)| (1.0 + difference) <= (1.0 + fastest) * (1.0 + zone))
        .min_by(|(i, x), (j, y)| {
            let simple = |k: usize| departures(default, &candidates[k].config);
            simple(*i).cmp(&simple(*j)).then(x.total_cmp(y))
        })
        .map(|(i, _)| i)
}
