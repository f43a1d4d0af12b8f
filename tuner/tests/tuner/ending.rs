//! End of a tuning: the race, the final rounds, and the budget that must be enough for both.

use std::collections::{HashMap, HashSet};

use tuner::session::Phase;
use tuner::tune_watched;

use crate::prelude::*;
use crate::session::{Place, tuned, whole};

#[test]
fn the_best_of_a_search_are_raced_within_its_budget_before_they_decide() {
    let place = Place::new("seed=2,noise=0.05,outliers=0.05");
    let session = place.random(&place.at(0), "launches=150");
    let mut phases = Vec::new();
    let tuning = tune(
        &session,
        &mut place.synthetic.clone(),
        &mut place.store(),
        &mut |progress| {
            phases.push(progress.phase);
            true
        },
    );
    let evidence = tuning.unwrap().evidence;
    let phase = |phase| phases.iter().filter(|&&other| other == phase).count();
    let details = evidence.details.unwrap();
    let race = details.race.unwrap();
    assert_eq!(
        (details.search_launches, race.racers, race.quiet),
        (66, 4, false)
    );
    assert!((12..=22).contains(&race.launches), "{race:?}");
    assert_eq!(
        (race.launches, phase(Phase::Searching)),
        (phase(Phase::Racing), 22)
    );
    assert_eq!(details.final_launches, phase(Phase::Deciding));
    let all = evidence.launches;
    assert_eq!(all, 66 + race.launches + details.final_launches);
    assert!(all <= 150, "the budget is for all of it: {all}");
    assert_eq!(details.decisions.last().unwrap().default, place.at(0));
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
fn a_budget_of_launches_holds_even_if_every_winner_fails() {
    // The default takes 1 ms; the others less, and each fails after some launches.
    let tired = || {
        let mut launched = HashMap::new();
        made(move |config, launches| {
            let x = number(config);
            let count: &mut usize = launched.entry(x).or_default();
            *count += launches;
            if x > 0 && *count > 28 {
                return Failed(failed("tired"));
            }
            let time = |i| 1.0 - 0.05 * f64::from(x > 0) + 1e-6 * (*count + i) as f64;
            Times((0..launches).map(time).collect())
        })
    };
    let (key, mut cut) = (Key::of(line(39)), 0);
    for budget in (160..330).step_by(5) {
        let mut session = key.session(StrategyKind::Exhaustive, &format!("launches={budget}"));
        session.default = Some(ints(&[0]));
        let evidence = tuned(&session, &mut tired()).evidence;
        assert!(
            evidence.launches <= budget,
            "{budget}: {} launches",
            evidence.launches
        );
        if evidence.verdict == "the default stays: the budget was used up in the final rounds" {
            assert_eq!(Some(evidence.chosen.config), session.default);
            cut += 1;
        }
    }
    assert!(cut > 0);
}

#[test]
fn decisive_measurements_are_repeated_while_others_use_the_machine() {
    let place = Place::new("seed=3");
    let mut store = place.store();
    let session = Session {
        fresh: true,
        ..place.random(&place.at(0), "20")
    };
    let alone = tuned(&session, &mut place.synthetic.clone()).evidence;
    assert_ne!(alone.chosen.config, place.at(0));
    let mut decide = |session: &Session<'_>, busy: fn(usize) -> bool| {
        let mut watch = disturbed(
            State {
                others: Some(0.53),
                ..State::default()
            },
            busy,
        );
        let (mut waits, mut told) = (0, None);
        let mut tell = |step: &tuner::session::Progress<'_>| {
            waits += usize::from(step.phase == Phase::Waiting);
            let trouble = step
                .trouble
                .map(|trouble| (step.spent.evaluations, trouble.to_owned()));
            told = told.take().or(trouble);
            true
        };
        let mut device = place.synthetic.clone();
        let tuning = tune_watched(session, &mut device, &mut store, &mut watch, &mut tell).unwrap();
        let record = store.run_record(tuning.run).unwrap();
        // An undecided comparison is not kept as a decision.
        assert_eq!(record.decision.is_some(), tuning.decided);
        (record.measurements.len(), tuning, waits, told)
    };
    // Disturbed now and then: no disturbed sample is kept, and the same is decided.
    let (_, tuning, waits, _) = decide(&session, |look| look % 50 == 27);
    let found = tuning.evidence;
    assert_eq!(
        (found.chosen.config, found.launches),
        (alone.chosen.config, alone.launches)
    );
    assert!(waits > 0 && tuning.decided);
    // All the time: nothing is decided, and it says why, and what to do, with the first
    // measurement.
    let short = Session {
        patience: Duration::from_millis(20),
        ..session
    };
    let (
        measured,
        Tuning {
            evidence, decided, ..
        },
        _,
        told,
    ) = decide(&short, |_| true);
    let busy = "other processes take 53 % of this machine and 25 % are allowed: wait until it is \
                quiet, or allow more, as with --others 70";
    assert_eq!((decided, told), (false, Some((1, busy.to_owned()))));
    let raced = evidence.details.unwrap().race.unwrap().launches;
    assert_eq!(measured, 20 + raced, "the final rounds kept nothing");
    assert_eq!(evidence.chosen.config, place.at(0));
    assert_eq!(
        evidence.verdict,
        format!("the default stays: cannot tell, {busy}")
    );
}

#[test]
fn final_rounds_take_no_more_launches_than_the_search() {
    let place = Place::new("seed=3,noise=0.02");
    for evaluations in [12, 34, 60] {
        let session = place.random(&place.at(0), &evaluations.to_string());
        let details = tuned(&session, &mut place.synthetic.clone())
            .evidence
            .details
            .unwrap();
        assert_eq!(details.search_launches, 3 * evaluations);
        let last = details.final_launches;
        assert!(
            last <= 3 * evaluations && !details.decisions.is_empty(),
            "{last}"
        );
    }
}

/// Returns times of 1 ms on average, except for one faster configuration. The fastest of 60 samples
/// looks faster by luck.
fn lucky(seed: u64) -> impl FnMut(i64, usize) -> f64 {
    let mut chance = Chance(seed);
    move |x, _| (if x == 7 { 0.93 } else { 1.0 }) + 0.15 * (chance.next() - 0.5)
}

#[test]
fn finalists_that_left_the_race_are_still_compared() {
    for finalists in [3, 5, 6, 15, 16] {
        let tuning = whole((59, "60"), lucky(1), |session| {
            (session.default, session.launches) = (Some(ints(&[0])), 3);
            session.finalists = finalists;
        });
        let details = tuning.evidence.details.unwrap();
        let candidates = &details.decisions.last().unwrap().candidates;
        let different: HashSet<_> = candidates.iter().map(|of| number(&of.config)).collect();
        assert_eq!((candidates.len(), different.len()), (finalists, finalists));
    }
}

#[test]
fn a_race_corrects_the_luck_of_a_search() {
    let found = |racers: usize| {
        let right = |seed: &u64| {
            let tuning = whole((59, "60"), lucky(*seed), |session| {
                (session.seed, session.launches) = (5, 3);
                (session.racers, session.finalists) = (racers, 1);
            });
            number(&tuning.evidence.chosen.config) == 7
        };
        (0..40).filter(right).count()
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
    let best = place.optimum();
    let evidence = place.run(&place.random(&best, "40")).unwrap().evidence;
    assert_eq!(evidence.chosen.config, best);
    says(&evidence.verdict, "the default stays");
    // It was the fastest of the search too, and takes no rival's place in the final rounds.
    let details = evidence.details.unwrap();
    let [decision] = &details.decisions[..] else {
        panic!()
    };
    assert_eq!(decision.candidates.len(), 3);
    assert!(
        decision
            .candidates
            .iter()
            .all(|candidate| candidate.config != best),
        "{decision:?}"
    );

    let place = Place::new("seed=9,fail=0.5");
    let failing = (0..1152)
        .find(|&index| place.synthetic.true_ms(index).is_none())
        .unwrap();
    let error = place
        .run(&place.random(&place.at(failing), "40"))
        .unwrap_err();
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
    let slower = |a: &Config, b: &Config| place.true_ms(a).total_cmp(&place.true_ms(b));
    let slowest = (0..place.key.space.len())
        .map(|index| place.at(index))
        .max_by(slower)
        .unwrap();
    let evidence_of = |most: usize| {
        let session = place.random(&slowest, &format!("launches={most}"));
        place
            .run(&Session {
                fresh: true,
                ..session
            })
            .unwrap()
            .evidence
    };
    // They take at least 36. If that would leave the search less than 36, the search gets the whole
    // budget.
    for most in [30, 60, 71] {
        let evidence = evidence_of(most);
        // An evaluation takes three launches.
        assert_eq!(evidence.launches, most - most % 3, "{evidence:?}");
        let said =
            "the default stays: the budget left no room for final rounds, 36 launches at least";
        let found = (evidence.verdict.as_str(), &evidence.chosen.config);
        assert_eq!(found, (said, &slowest), "{most}");
    }
    for most in 72..90 {
        let evidence = evidence_of(most);
        assert!(evidence.launches <= most, "{most}: {evidence:?}");
        says(&evidence.verdict, "better than the default");
    }
}
