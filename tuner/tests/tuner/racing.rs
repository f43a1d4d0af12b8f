//! Races: the fastest of many candidates, with few launches.
//!
//! A race has about five launches per candidate, so it must stop early for the slow ones without
//! losing the fastest to one bad sample. The devices here are the cases that mislead: a slow first
//! launch, outliers three times as slow, two modes that are further apart than the best candidates,
//! and ties. Candidate `at` takes 1 + 0.01 ((at + 51) mod 128) ms, so neighbours in rank differ by
//! 1 %.

use tuner::racing::{race, race_estimate};

use crate::prelude::*;

/// Mean times of 128 candidates, the fastest at 77.
fn truth(at: usize) -> f64 {
    1.0 + 0.01 * ((at + 51) % 128) as f64
}

/// Races 128 candidates. `sample` gives the factor of a launch, which may be a candidate's first.
fn run(sample: impl Fn(bool, &mut Chance) -> f64, seed: u64) -> (usize, usize, bool) {
    let (mut chance, mut started) = (Chance(seed), [false; 128]);
    let result = race(128, 640, |at, launches| {
        let first = !std::mem::replace(&mut started[at], true);
        Times(
            (0..launches)
                .map(|_| sample(first, &mut chance) * truth(at))
                .collect(),
        )
    });
    let samples: usize = result.samples.iter().map(Vec::len).sum();
    assert_eq!(samples, result.launches);
    (result.ranked[0], result.launches, result.quiet)
}

#[test]
fn a_quiet_race_is_short_and_right_even_with_slow_first_launches() {
    for (slow, seed) in (0..20).flat_map(|seed| [0.0, 1.0].map(|slow| (slow, seed))) {
        let time = |first: bool, chance: &mut Chance| {
            let by = slow * f64::from(first);
            1.0 + 0.002 * (chance.next() - 0.5) + by * (0.3 + 0.001 * chance.next())
        };
        let (best, launches, quiet) = run(time, seed);
        assert!(
            best == 77 && launches <= 200 && quiet,
            "{slow}, {seed}: {best} after {launches}"
        );
    }
}

#[test]
fn a_tie_on_a_quiet_device_is_raced_further_only_if_it_matters() {
    let tied = |count: usize, most: usize, noise: f64| {
        let mut chance = Chance(1);
        let result = race(count, most, |_, _| Times(vec![1.0 + noise * chance.next()]));
        assert!(result.quiet);
        result.launches
    };
    assert!(tied(5, 18, 0.01) <= 18);
    // All once, 24 twice, 13 three times, and 6 six times.
    assert_eq!(tied(128, 640, 0.0002), 128 + 24 + 13 + 6 * 3);
}

#[test]
fn outliers_and_two_modes_do_not_fool_a_race() {
    let mut lost = 0.0;
    for seed in 0..40 {
        let noisy = |_, chance: &mut Chance| {
            let outlier = if chance.next() < 0.05 { 3.0 } else { 1.0 };
            outlier * if chance.next() < 0.3 { 0.97 } else { 1.013 }
        };
        let (best, launches, quiet) = run(noisy, seed);
        assert!(launches <= 640 && !quiet, "seed {seed}: {launches}");
        lost += truth(best) / truth(77) - 1.0;
    }
    assert!(lost / 40.0 < 0.005, "mean regret {}", lost / 40.0);
}

#[test]
fn failures_in_a_race_affect_only_themselves() {
    let failed = || Failed(failed("on purpose"));
    let time = |at: usize| Times(vec![1.0 + at as f64]);
    let some = race(40, 200, |at, _| match at % 4 {
        0 => failed(),
        1 => Times(vec![f64::NAN]),
        2 => Times(vec![]),
        _ => time(at),
    });
    assert_eq!((some.ranked.first(), some.failures.len()), (Some(&3), 30));
    let all = race(7, 120, |_, _| failed());
    assert_eq!(
        (all.ranked.first(), all.failures.len(), all.launches),
        (None, 7, 7)
    );
    // A candidate that fails late is out, too.
    let mut launches = 0;
    let late = race(3, 120, |at, _| {
        launches += 1;
        if at == 0 && launches > 3 {
            failed()
        } else {
            time(at)
        }
    });
    assert_eq!(late.ranked.first(), Some(&1));
    // On a noisy device those that were slow at first come back, and those that failed do not.
    let mut chance = Chance(1);
    let noisy = race(40, 200, |at, _| match at % 4 {
        0 => failed(),
        _ => Times(vec![1.0 + chance.next()]),
    });
    assert_eq!((noisy.quiet, noisy.failures.len()), (false, 10));
}

#[test]
fn the_estimate_leaves_out_the_slowest_tenth_and_a_slow_start() {
    for (samples, estimate) in [
        (&[][..], None),
        (&[3.0], Some(3.0)),
        (&[3.0, 1.0], Some(2.0)),
        (&[3.0, 1.0, 2.0], Some(1.5)),
        (&[1.0, 3.0, 2.0], Some(2.0)),
        (
            &[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 11.0],
            Some(1.0),
        ),
    ] {
        assert_eq!(race_estimate(samples), estimate, "{samples:?}");
    }
}
