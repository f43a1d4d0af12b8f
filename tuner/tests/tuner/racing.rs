//! Races: the fastest of many candidates, with few launches.

use tuner::racing::{race, race_estimate};
use tuner::{Failure, FailureKind, Outcome};

/// Numbers in 0 … 1 that look random.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Mean times of 128 candidates, the fastest at 77.
fn truth(at: usize) -> f64 {
    1.0 + 0.01 * ((at + 51) % 128) as f64
}

fn run(mut sample: impl FnMut(usize, f64, &mut Chance) -> f64, seed: u64) -> (usize, usize, bool) {
    let mut chance = Chance(seed);
    let mut started = [false; 128];
    let result = race(128, 640, |at, launches| {
        let first = !std::mem::replace(&mut started[at], true);
        let time = |_| sample(at, if first { 1.0 } else { 0.0 }, &mut chance) * truth(at);
        Outcome::Times((0..launches).map(time).collect())
    });
    assert_eq!(
        result.samples.iter().map(Vec::len).sum::<usize>(),
        result.launches
    );
    (result.ranked[0], result.launches, result.quiet)
}

#[test]
fn a_quiet_race_is_short_and_right_also_where_first_launches_are_slow() {
    for slow in [0.0, 1.0] {
        for seed in 0..20 {
            let time = |_, first: f64, chance: &mut Chance| {
                1.0 + 0.002 * (chance.next() - 0.5) + slow * first * (0.3 + 0.001 * chance.next())
            };
            let (best, launches, quiet) = run(time, seed);
            assert!(
                best == 77 && launches <= 200 && quiet,
                "{slow}, seed {seed}: {best} after {launches}"
            );
        }
    }
}

#[test]
fn a_tie_on_a_quiet_device_is_raced_on_only_where_it_matters_and_launches_are_left() {
    let mut chance = Chance(1);
    let result = race(5, 18, |_, _| {
        Outcome::Times(vec![1.0 + 0.01 * chance.next()])
    });
    assert!(result.quiet && result.launches <= 18, "{}", result.launches);
    let mut chance = Chance(1);
    let tied = race(128, 640, |_, _| {
        Outcome::Times(vec![1.0 + 0.0002 * chance.next()])
    });
    // All once, 24 twice, 13 three times, and 6 six times.
    assert_eq!((tied.quiet, tied.launches), (true, 128 + 24 + 13 + 6 * 3));
}

#[test]
fn outliers_and_two_modes_do_not_fool_a_race() {
    let mut lost = 0.0;
    for seed in 0..40 {
        let noisy = |_, _, chance: &mut Chance| {
            let outlier = if chance.next() < 0.05 { 3.0 } else { 1.0 };
            let mode = if chance.next() < 0.3 { 0.97 } else { 1.013 };
            outlier * mode
        };
        let (best, launches, quiet) = run(noisy, seed);
        assert!(launches <= 640 && !quiet, "seed {seed}: {launches}");
        lost += truth(best) / truth(77) - 1.0;
    }
    assert!(lost / 40.0 < 0.005, "mean regret {}", lost / 40.0);
}

#[test]
fn failures_end_nothing_but_themselves() {
    let failed = || {
        Outcome::Failed(Failure {
            kind: FailureKind::Launch,
            message: "on purpose".to_owned(),
        })
    };
    let some = race(40, 200, |at, _| match at % 4 {
        0 => failed(),
        1 => Outcome::Times(vec![f64::NAN]),
        2 => Outcome::Times(vec![]),
        _ => Outcome::Times(vec![1.0 + at as f64]),
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
            Outcome::Times(vec![1.0 + at as f64])
        }
    });
    assert_eq!(late.ranked.first(), Some(&1));
    // On a noisy device those that were slow at first come back, and those that failed do not.
    let mut chance = Chance(1);
    let noisy = race(40, 200, |at, _| match at % 4 {
        0 => failed(),
        _ => Outcome::Times(vec![1.0 + chance.next()]),
    });
    assert_eq!((noisy.quiet, noisy.failures.len()), (false, 10));
}

#[test]
fn the_estimate_leaves_out_the_slowest_tenth_and_a_slow_start() {
    assert_eq!(race_estimate(&[]), None);
    assert_eq!(race_estimate(&[3.0]), Some(3.0));
    assert_eq!(race_estimate(&[3.0, 1.0]), Some(2.0));
    assert_eq!(race_estimate(&[3.0, 1.0, 2.0]), Some(1.5));
    assert_eq!(race_estimate(&[1.0, 3.0, 2.0]), Some(2.0));
    let mut samples = vec![1.0; 9];
    samples.push(11.0);
    assert_eq!(race_estimate(&samples), Some(1.0));
}
