//! End of a session: a race between the best of the search, then final rounds between its best and
//! the default.
//!
//! The search has measured many configurations a few times each. Its fastest is partly fast and
//! partly lucky. So the end of a session spends the rest of the budget on fewer and fewer
//! configurations with more and more launches: the race picks finalists from the best of the
//! search; the final rounds compare the finalists with the default, in interleaved blocks; the
//! winner is compared once more on fresh samples. If the budget is too small for the plan, first
//! the number of looks is cut, then the number of candidates, and if not even one candidate can be
//! compared with the default, the default stays.

use super::bench::{Bench, LEAST_BLOCKS, decide_launches};
use super::racing::race as run_race;
use super::session::{Phase, Progress, Session, TuneError};
use crate::compare::{self, Candidate, Decision, Fate, Ruling, rival};
use crate::space::ConfigIndex;
use crate::store::{Contender, RaceDetails};
use crate::verdict::{Reason, Rules, Verdict};
use crate::watch::NoWatch;
use crate::{Config, Device, FailureKind, Outcome};

/// Numbers of blocks to try if the plan's own exceed the budget.
///
/// Fewer blocks need a clearer difference, since Student's interval is wide for them; but a clear
/// difference should be found on a small budget, too.
const LEAST_LOOKS: [usize; 2] = [6, LEAST_BLOCKS];

/// Returns the configurations that worked without the default, the fastest first.
fn ranked(bench: &Bench<'_, '_>, default: Option<ConfigIndex>) -> Vec<ConfigIndex> {
    let mut seen: Vec<(f64, ConfigIndex)> = bench
        .seen
        .iter()
        .map(|seen| (seen.time_ms, seen.index))
        .collect();
    seen.sort_by(|a, b| a.0.total_cmp(&b.0));
    seen.into_iter()
        .map(|(_, index)| index)
        .filter(|&index| Some(index) != default)
        .collect()
}

/// Returns the default, if it worked.
fn default_of(bench: &Bench<'_, '_>) -> Option<ConfigIndex> {
    let default = bench
        .session
        .default
        .as_ref()
        .and_then(|config| bench.session.task.space.index_of(config));
    default.filter(|&default| bench.seen.iter().any(|seen| seen.index == default))
}

/// Races the best of the search, if a place in the final rounds is contested. Returns the
/// finalists: the default first if it worked, else the fastest; then the fastest others.
pub(super) fn race(
    bench: &mut Bench<'_, '_>,
    tell: &mut dyn FnMut(&Progress<'_>) -> bool,
) -> Result<(Option<RaceDetails>, Vec<Config>), TuneError> {
    let default = default_of(bench).filter(|_| bench.session.finalists > 0);
    let mut order = ranked(bench, default);
    let (racers, most_launches) = (bench.racers().min(order.len()), bench.race_launches());
    let space = bench.session.task.space;
    let most = bench.session.finalists.max(usize::from(default.is_none()));
    let mut details = None;
    if racers > most {
        let configs: Vec<Config> = order[..racers]
            .iter()
            .map(|&index| space.config(index))
            .collect();
        let before = bench.spent.launches;
        let mut collector = Collector {
            bench,
            phase: Phase::Racing,
            tell,
            times: Vec::new(),
            error: None,
            used_up: false,
        };
        let result = run_race(racers, most_launches, |at, launches| {
            collector.measure(&configs[at], launches)
        });
        if let Some(error) = collector.error {
            return Err(error);
        }
        details = Some(RaceDetails {
            racers,
            launches: bench.spent.launches - before,
            quiet: result.quiet,
        });
        // If all fail now, the search's order stands.
        if !result.ranked.is_empty() {
            // More finalists may be requested than are raced to the end: others follow in the
            // search's order, without failures.
            let out = |at: &usize| {
                result.ranked.contains(at) || result.failures.iter().any(|(failed, _)| failed == at)
            };
            let rest = (0..order.len()).filter(|at| !out(at));
            order = result
                .ranked
                .iter()
                .copied()
                .chain(rest)
                .map(|at| order[at])
                .collect();
        }
    }
    let finalists = default.into_iter().chain(order.into_iter().take(most));
    Ok((
        details,
        finalists.map(|index| space.config(index)).collect(),
    ))
}

/// Returns the number of candidates and the looks that fit the budget: all candidates at the plan's
/// looks, else at fewer looks, else fewer candidates. `None` if none fits.
fn fitting(bench: &Bench<'_, '_>, candidates: usize) -> Option<(usize, Vec<usize>)> {
    let plan = &bench.session.rounds;
    let left = bench.left();
    let shorter = (1..=plan.rules.looks.len())
        .rev()
        .map(|n| plan.rules.looks[..n].to_vec());
    let choices: Vec<Vec<usize>> = shorter.chain(LEAST_LOOKS.map(|n| vec![n])).collect();
    let fits = |of: usize, looks: &[usize]| {
        decide_launches(plan, of, looks.iter().copied().max().unwrap_or_default()) <= left
    };
    let tries = (1..=candidates)
        .rev()
        .flat_map(|of| choices.iter().map(move |looks| (of, looks)));
    tries
        .into_iter()
        .find(|(of, looks)| fits(*of, looks))
        .map(|(of, looks)| (of, looks.clone()))
}

/// End of a session.
pub(super) struct Ending {
    pub chosen: Contender,
    pub default: Option<Contender>,
    pub runner_up: Option<Contender>,
    pub verdict: String,
    /// False if the evidence could not tell.
    pub decided: bool,
}

/// Holds the final rounds. The first of `finalists` stays unless another is shown to be better.
pub(super) fn end(
    bench: &mut Bench<'_, '_>,
    finalists: &[Config],
    decisions: &mut Vec<Decision>,
    tell: &mut dyn FnMut(&Progress<'_>) -> bool,
) -> Result<Ending, TuneError> {
    let session = bench.session;
    let (stays, candidates) = (&finalists[0], &finalists[1..]);
    let mut collector = Collector {
        bench,
        phase: Phase::Deciding,
        tell,
        times: Vec::new(),
        error: None,
        used_up: false,
    };
    let mut decision = None;
    let wanted = !candidates.is_empty() && session.finalists > 0;
    let fitting = if wanted {
        fitting(collector.bench, candidates.len())
    } else {
        None
    };
    if let Some((most, looks)) = fitting.clone() {
        let rules = Rules {
            looks,
            ..session.rounds.rules.clone()
        };
        let plan = compare::Plan {
            seed: session.seed,
            rules,
            ..session.rounds.clone()
        };
        let candidates = &candidates[..most.min(candidates.len())];
        decision = Some(compare::decide(
            &mut collector,
            stays,
            candidates,
            &plan,
            &mut NoWatch,
        ));
    }
    let Collector {
        times,
        error,
        used_up,
        ..
    } = collector;
    if let Some(error) = error {
        return Err(error);
    }
    decisions.extend(decision.clone());
    let disturbed = bench.disturbed.clone();
    let no_default = decision
        .as_ref()
        .is_some_and(|decision| matches!(decision.ruling, Ruling::NoDefault(_)));
    if no_default && !used_up && disturbed.is_none() {
        // The first finalist worked in the search and fails now: the others decide among
        // themselves.
        return end(bench, candidates, decisions, tell);
    }
    let contender = |config: &Config| match times.iter().find(|(other, _)| other == config) {
        Some((_, times)) if !times.is_empty() => Contender::of_samples(config, times),
        _ => bench.searched(config),
    };
    let chosen = decision.as_ref().map_or(stays, |decision| &decision.chosen);
    let others = finalists
        .iter()
        .filter(|&config| config != chosen && Some(config) != session.default.as_ref());
    let runner_up = others
        .map(&contender)
        .min_by(|a, b| a.time_ms.total_cmp(&b.time_ms));
    Ok(Ending {
        chosen: contender(chosen),
        default: default_of(bench)
            .and(session.default.as_ref())
            .map(&contender),
        runner_up,
        decided: disturbed.is_none() && decision.as_ref().is_none_or(tells),
        verdict: match disturbed {
            Some(state) => format!(
                "{} stays: cannot tell, {state}",
                rival(session.default.as_ref(), stays)
            ),
            None => words(
                session,
                stays,
                decision.as_ref(),
                wanted && fitting.is_none(),
                used_up,
            ),
        },
    })
}

/// Returns true if a decision rests on evidence that tells: candidates were shown to be better, the
/// same or worse, or were measured to the end without a sign that they are better.
fn tells(decision: &Decision) -> bool {
    let open = |candidate: &Candidate| match &candidate.fate {
        Fate::Judged(judgement) => {
            matches!(judgement.verdict, Verdict::CannotTell(why) if why != Reason::TooNoisy)
        }
        Fate::Failed(_) => false,
    };
    match &decision.ruling {
        Ruling::Promoted | Ruling::NoDefault(_) => true,
        Ruling::NotConfirmed(verdict) => !matches!(verdict, Verdict::CannotTell(_)),
        Ruling::NoneBetter => !decision.candidates.iter().any(open),
    }
}

/// Describes the decision.
fn words(
    session: &Session<'_>,
    stays: &Config,
    decision: Option<&Decision>,
    no_room: bool,
    used_up: bool,
) -> String {
    let rival = rival(session.default.as_ref(), stays);
    let objective = session.task.workload.objective();
    let [better, _] = objective.comparatives();
    let Some(decision) = decision else {
        return if no_room {
            let least = decide_launches(&session.rounds, 1, LEAST_BLOCKS);
            format!(
                "{rival} stays: the budget left no room for final rounds, {least} launches at least"
            )
        } else if session.finalists == 0 {
            "the search's best: no final rounds were asked for".to_owned()
        } else {
            format!("{rival} had no rival")
        };
    };
    match &decision.ruling {
        Ruling::NoDefault(_) | Ruling::NoneBetter if used_up => {
            format!("{rival} stays: the budget was used up in the final rounds")
        }
        of => {
            let gain = decision
                .confirmation
                .as_ref()
                .filter(|_| *of == Ruling::Promoted);
            let gain = gain.map(|judgement| format!(": {}", judgement.gain(objective)));
            of.in_words(rival, better) + &gain.unwrap_or_default()
        }
    }
}

/// Device of the race and the final rounds, which collects the samples by configuration.
struct Collector<'b, 's, 'a, 't> {
    bench: &'b mut Bench<'s, 'a>,
    phase: Phase,
    tell: &'t mut dyn FnMut(&Progress<'_>) -> bool,
    times: Vec<(Config, Vec<f64>)>,
    error: Option<TuneError>,
    used_up: bool,
}

impl Device for Collector<'_, '_, '_, '_> {
    fn name(&self) -> String {
        self.bench.recorder.name()
    }

    fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
        let declined = |message: &str| Outcome::Failed(FailureKind::Declined.because(message));
        if self.error.is_some() {
            return declined("the session has ended");
        }
        // A winner that fails is replaced by the next best, which takes more launches than were
        // planned.
        if self.bench.left() < launches {
            self.used_up = true;
            return declined("the budget was used up");
        }
        if self.bench.disturbed.is_some() {
            return declined("other programs use the machine");
        }
        let measured = match self.phase {
            Phase::Deciding => self.bench.measure_undisturbed(config, launches, self.tell),
            _ => self.bench.measure(config, launches).map(Some),
        };
        let outcome = measured.and_then(|outcome| {
            self.bench.tell(self.phase, self.tell)?;
            Ok(outcome.unwrap_or_else(|| declined("other programs use the machine")))
        });
        match outcome {
            Ok(Outcome::Times(times)) => {
                match self.times.iter_mut().find(|(other, _)| other == config) {
                    Some((_, all)) => all.extend(&times),
                    None => self.times.push((config.clone(), times.clone())),
                }
                Outcome::Times(times)
            }
            Ok(failed @ Outcome::Failed(_)) => failed,
            Err(error) => {
                self.error = Some(error);
                declined("the session has ended")
            }
        }
    }
}
