//! End of a tuning: the race, the final rounds, and the budget that must be enough for both.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tuner::session::{Phase, Session, TuneError, Tuning};
use tuner::strategy::StrategyKind;
use tuner::watch::State;
use tuner::{Failure, FailureKind, Outcome, Value};
use tuner::{tune, tune_watched};

use crate::search::{at, line, whole};
use crate::session::{Place, tuned};
use crate::{disturbed, made};

#[test]
fn the_best_of_a_search_are_raced_within_its_budget_before_they_decide() {
    let place = Place::new("seed=2,noise=0.05,outliers=0.05");
    let default = place.synthetic.space().config(0);
    let session = Session {
        default: Some(default.clone()),
        ..place.session(StrategyKind::Random, "launches=150")
    };
    let mut store = place.store();
    let mut phases = Vec::new();
    let tuning = tune(
        &session,
        &mut place.synthetic.clone(),
        &mut store,
        &mut |progress| {
            phases.push(progress.phase);
            true
        },
    )
    .unwrap();
    let phase = |phase| phases.iter().filter(|&&other| other == phase).count();
    let details = tuning.evidence.details.as_deref().unwrap();
    let race = details.race.unwrap();
    assert_eq!(
        (details.search_launches, race.racers, race.quiet),
        (66, 4, false)
    );
    assert!(
        (12..=22).contains(&race.launches) && race.launches == phase(Phase::Racing),
        "{race:?}"
    );
    assert_eq!(phase(Phase::Searching), 22);
    assert_eq!(details.final_launches, phase(Phase::Deciding));
    assert_eq!(
        tuning.evidence.launches,
        66 + race.launches + details.final_launches
    );
    assert!(
        tuning.evidence.launches <= 150,
        "the budget is for all of it: {}",
        tuning.evidence.launches
    );
    let decision = details.decisions.last().unwrap();
    assert_eq!(decision.default, default);
    // Nothing to race for, or not allowed: straight to the final rounds, or no more launches at
    // all.
    for (finalists, racers, searched) in [(16, 16, 75), (3, 3, 75), (0, 16, 150)] {
        let session = Session {
            finalists,
            racers,
            ..session.clone()
        };
        let evidence = tuned(&session, &mut place.synthetic.clone()).evidence;
        let details = evidence.details.unwrap();
        assert_eq!((details.race, details.search_launches), (None, searched));
        assert!(evidence.launches <= 150, "{}", evidence.launches);
        assert_eq!(details.decisions.len(), usize::from(finalists > 0));
    }
}

#[test]
fn a_budget_of_launches_holds_where_one_winner_after_the_other_fails() {
    // The default takes 1 ms; the others less, and each fails after some launches.
    let tired = || {
        let mut launched = HashMap::new();
        made(move |config, launches| {
            let count: &mut usize = launched.entry(format!("{config:?}")).or_default();
            *count += launches;
            let Value::Int(x) = config.0[0] else {
                panic!("{config:?}")
            };
            if x > 0 && *count > 28 {
                return Outcome::Failed(Failure {
                    kind: FailureKind::Launch,
                    message: "tired".to_owned(),
                });
            }
            Outcome::Times(
                (0..launches)
                    .map(|i| 1.0 - 0.05 * f64::from(x > 0) + 1e-6 * (*count + i) as f64)
                    .collect(),
            )
        })
    };
    let space = line(39);
    let place = Place::new("");
    let mut cut = 0;
    for budget in (160..330).step_by(5) {
        let budget_words = format!("launches={budget}");
        let mut session = place.session(StrategyKind::Exhaustive, &budget_words);
        session.task.space = &space;
        session.default = Some(at(0));
        let evidence = tuned(&session, &mut tired()).evidence;
        assert!(
            evidence.launches <= budget,
            "{budget}: {} launches",
            evidence.launches
        );
        if evidence.verdict == "the default stays: the budget was used up in the final rounds" {
            assert_eq!(evidence.chosen.config, session.default.unwrap());
            cut += 1;
        }
    }
    assert!(cut > 0);
}

#[test]
fn decisive_measurements_are_repeated_while_others_use_the_machine() {
    let place = Place::new("seed=3");
    let mut store = place.store();
    let default = Some(place.synthetic.space().config(0));
    let session = Session {
        default,
        ..place.session(StrategyKind::Random, "20")
    };
    let alone = tune(
        &session,
        &mut place.synthetic.clone(),
        &mut store,
        &mut |_| true,
    )
    .unwrap()
    .evidence;
    assert_ne!(Some(&alone.chosen.config), session.default.as_ref());
    let waiting = Duration::from_millis(20);
    let mut told = Vec::new();
    let mut decide = |session: &Session<'_>, busy: fn(usize) -> bool| {
        let (mut watch, mut waits) = (
            disturbed(
                State {
                    others: Some(0.53),
                    ..State::default()
                },
                busy,
            ),
            0,
        );
        told.clear();
        let tuning = tune_watched(
            session,
            &mut place.synthetic.clone(),
            &mut store,
            &mut watch,
            &mut |step| {
                waits += usize::from(step.phase == Phase::Waiting);
                told.extend(
                    step.trouble
                        .map(|trouble| (step.spent.evaluations, trouble.to_owned())),
                );
                true
            },
        );
        let tuning = tuning.unwrap();
        let record = store.run_record(tuning.run).unwrap();
        assert_eq!(
            record.decision.is_some(),
            tuning.decided,
            "what could not be told is not kept as a decision"
        );
        (
            record.measurements.len(),
            tuning,
            waits,
            told.first().cloned(),
        )
    };
    // Disturbed now and then: no disturbed sample is kept, and the same is decided.
    let session = Session {
        fresh: true,
        patience: Duration::from_mins(1),
        ..session
    };
    let (
        _,
        Tuning {
            evidence, decided, ..
        },
        waits,
        _,
    ) = decide(&session, |look| look % 50 == 27);
    assert_eq!(
        (evidence.chosen.config, evidence.launches),
        (alone.chosen.config, alone.launches)
    );
    assert!(waits > 0 && decided);
    // All the time: nothing is decided, and it says why, and what to do, with the first
    // measurement.
    let (
        measured,
        Tuning {
            evidence, decided, ..
        },
        _,
        told,
    ) = decide(
        &Session {
            patience: waiting,
            ..session.clone()
        },
        |_| true,
    );
    let busy = "others take 53 % of this machine and 25 % are allowed: wait until it is quiet, or allow more, as with \
                --others 70";
    assert_eq!((decided, told), (false, Some((1, busy.to_owned()))));
    assert_eq!(
        measured,
        20 + evidence.details.unwrap().race.unwrap().launches,
        "the final rounds kept nothing"
    );
    assert_eq!(Some(evidence.chosen.config), session.default);
    assert_eq!(
        evidence.verdict,
        format!("the default stays: cannot tell, {busy}")
    );
}

#[test]
fn final_rounds_take_no_more_launches_than_the_search() {
    let place = Place::new("seed=3,noise=0.02");
    for (evaluations, most) in [(12, 36), (34, 102), (60, 180)] {
        let budget = evaluations.to_string();
        let default = Some(place.synthetic.space().config(0));
        let session = Session {
            default,
            ..place.session(StrategyKind::Random, &budget)
        };
        let details = tuned(&session, &mut place.synthetic.clone())
            .evidence
            .details
            .unwrap();
        assert_eq!(details.search_launches, most);
        assert!(
            details.final_launches <= most && !details.decisions.is_empty(),
            "{}",
            details.final_launches
        );
    }
}

/// Returns times of 1 ms on average, except for one faster configuration. The fastest of 60 samples
/// looks faster by luck.
fn lucky(mut seed: u64) -> impl FnMut(i64, usize) -> f64 {
    move |x, _| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let chance = (seed >> 11) as f64 / (1u64 << 53) as f64;
        (if x == 7 { 0.93 } else { 1.0 }) + 0.15 * (chance - 0.5)
    }
}

#[test]
fn more_finalists_than_are_raced_to_the_end_are_compared_all_the_same() {
    for finalists in [3, 5, 6, 15, 16] {
        let change = |session: &mut Session<'_>| {
            (session.default, session.launches, session.finalists) = (Some(at(0)), 3, finalists);
        };
        let details = whole(&line(59), "60", lucky(1), change)
            .evidence
            .details
            .unwrap();
        let candidates = &details.decisions.last().unwrap().candidates;
        let different: HashSet<_> = candidates
            .iter()
            .map(|c| format!("{:?}", c.config))
            .collect();
        assert_eq!((candidates.len(), different.len()), (finalists, finalists));
    }
}

#[test]
fn a_race_corrects_the_luck_of_a_search() {
    let found = |racers: usize| {
        let right = (0..40).filter(|&seed| {
            let change = |session: &mut Session<'_>| {
                (
                    session.seed,
                    session.launches,
                    session.racers,
                    session.finalists,
                ) = (5, 3, racers, 1);
            };
            whole(&line(59), "60", lucky(seed), change)
                .evidence
                .chosen
                .config
                == at(7)
        });
        right.count()
    };
    let (with, without) = (found(16), found(1));
    assert!(
        with >= 28 && with >= without + 4,
        "{with} with a race, {without} without"
    );
}

#[test]
fn a_default_that_is_best_stays_and_one_that_fails_ends_the_run() {
    let place = Place::new("seed=9,noise=0.03");
    let best = place
        .synthetic
        .space()
        .config(place.synthetic.optimum().unwrap());
    let session = Session {
        default: Some(best.clone()),
        ..place.session(StrategyKind::Random, "40")
    };
    let tuning = place.run(&session).unwrap();
    assert_eq!(tuning.evidence.chosen.config, best);
    assert!(
        tuning.evidence.verdict.starts_with("the default stays"),
        "{}",
        tuning.evidence.verdict
    );
    // It was the fastest of the search too, and takes no rival's place in the final rounds.
    let decisions = &tuning.evidence.details.as_deref().unwrap().decisions;
    assert_eq!((decisions.len(), decisions[0].candidates.len()), (1, 3));
    assert!(
        decisions[0]
            .candidates
            .iter()
            .all(|candidate| candidate.config != best),
        "{:?}",
        decisions[0].candidates
    );

    let place = Place::new("seed=9,fail=0.5");
    let failing = (0..1152)
        .find(|&index| place.synthetic.true_ms(index).is_none())
        .unwrap();
    let default = place.synthetic.space().config(failing);
    let session = Session {
        default: Some(default.clone()),
        ..place.session(StrategyKind::Random, "40")
    };
    let error = place.run(&session).unwrap_err();
    assert!(matches!(error, TuneError::DefaultFailed(_)), "{error}");
    let run = place.store().runs().unwrap().pop().unwrap();
    assert!(
        run.measured == 1 && run.record.finished.is_some(),
        "{run:?}"
    );
}

#[test]
fn the_search_leaves_room_for_final_rounds_and_without_room_the_default_stays() {
    let place = Place::new("seed=3");
    // The slowest of all: something faster is found at once.
    let space = place.synthetic.space();
    let slower = |a: &usize, b: &usize| {
        place
            .synthetic
            .true_ms(*a)
            .partial_cmp(&place.synthetic.true_ms(*b))
            .unwrap()
    };
    let slowest = (0..space.len())
        .max_by(slower)
        .map(|index| space.config(index));
    let evidence_of = |most: usize| {
        let budget = format!("launches={most}");
        let session = Session {
            default: slowest.clone(),
            fresh: true,
            ..place.session(StrategyKind::Random, &budget)
        };
        place.run(&session).unwrap().evidence
    };
    // They take at least 36. If that would leave the search less than 36, the search gets the whole
    // budget.
    for most in [30, 60, 71] {
        let evidence = evidence_of(most);
        // An evaluation takes three launches.
        assert_eq!(evidence.launches, most - most % 3, "{evidence:?}");
        let said =
            "the default stays: the budget left no room for final rounds, 36 launches at least";
        assert_eq!(
            (evidence.verdict.as_str(), Some(&evidence.chosen.config)),
            (said, slowest.as_ref()),
            "{most}"
        );
    }
    for most in 72..90 {
        let evidence = evidence_of(most);
        assert!(
            evidence.launches <= most && evidence.verdict.starts_with("better than the default"),
            "{most}: {evidence:?}"
        );
    }
}
