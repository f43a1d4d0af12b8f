//! Statistics against tabulated values, and the drift of a series of times.

use std::f64::consts::FRAC_2_PI;

use tuner::drift::DriftDetector;
use tuner::statistics::{
    effective_count, sign_flip, smallest_sign_flip, student_critical, student_two_sided,
};

#[test]
fn student_agrees_with_tabulated_values() {
    // Two-sided 5 %, 1 % and 0.1 % points of Student's t from any table.
    for (freedom, alpha, table) in [
        (1.0, 0.05, 12.706),
        (2.0, 0.05, 4.303),
        (9.0, 0.05, 2.262),
        (9.0, 0.01, 3.250),
        (39.0, 0.05, 2.0227),
        (5.0, 0.001, 6.869),
    ] {
        let critical = student_critical(alpha, freedom);
        assert!(
            (critical - table).abs() < 6e-4 * table,
            "{freedom} {alpha}: {critical}"
        );
        assert!((student_two_sided(critical, freedom) - alpha).abs() < 1e-9);
    }
    assert!((student_two_sided(1.959_964, 1e7) - 0.05).abs() < 1e-6);
    // One and two degrees of freedom have closed forms, which are exact for small t as well.
    for t in [0.0_f64, 0.01, 0.1, 0.5, 1.0, 3.0] {
        let (one, two) = (1.0 - t.atan() * FRAC_2_PI, 1.0 - t / (2.0 + t * t).sqrt());
        assert!((student_two_sided(t, 1.0) - one).abs() < 1e-12, "{t}");
        assert!((student_two_sided(t, 2.0) - two).abs() < 1e-12, "{t}");
    }
}

#[test]
fn sign_flip_counts_patterns_exactly() {
    for (values, share) in [
        (&[][..], 1.0),
        (&[1.0], 1.0),
        (&[1.0, 1.0, 1.0], 0.25),
        (&[1.0, 2.0, 4.0, 8.0], 2.0 / 16.0),
        (&[0.0; 5], 1.0),
        // 0.1 + 0.2 - 0.1 is not the same float as 0.1 - 0.1 + 0.2, and counts as the same sum.
        (&[0.1, 0.2, -0.1], 0.75),
        (&[0.3; 10], smallest_sign_flip(10)),
        (&[0.3; 40], smallest_sign_flip(40)),
    ] {
        assert_eq!(sign_flip(values), share, "{values:?}");
    }
}

#[test]
fn correlation_reduces_the_effective_samples_and_anticorrelation_adds_none() {
    let count = |n: i32, value: fn(i32) -> i32| {
        effective_count(&(0..n).map(value).map(f64::from).collect::<Vec<_>>())
    };
    assert!(count(40, |i| i) < 5.0);
    assert_eq!(count(40, |i| i % 2), 40.0);
    // Four 0, four 1, and so on: of 39 neighbours 30 are alike, so the correlation is 21 of 40;
    // after the correction for the bias it is 22 of 37.
    let steps = count(40, |i| i / 4 % 2);
    assert!((steps - 40.0 * 15.0 / 59.0).abs() < 1e-9, "{steps}");
    // r = 0.625 is 1.77 standard errors, so 0.77 of the correction applies; r without its bias is
    // 1.2, capped at 0.9.
    let eight = count(8, |i| i + 1);
    assert!((eight - 2.181_134_672).abs() < 1e-8, "{eight}");
    assert_eq!(count(0, |i| i), 0.0);
    // Equal values are not correlated, whatever their mean is rounded to.
    for (value, count) in [
        (1.0, 10),
        (0.1, 21),
        (0.7, 9),
        (1.0 / 3.0, 10_000),
        (1e100, 37),
    ] {
        assert_eq!(
            effective_count(&vec![value; count]),
            count as f64,
            "{count} times {value}"
        );
    }
}

/// Returns the number of times until the alarm.
fn feed(detector: &mut DriftDetector, count: usize, time: fn(usize) -> f64) -> Option<usize> {
    (0..count).position(|i| detector.push(time(i)))
}

fn wobble(i: usize) -> f64 {
    1.0 + 0.01 * ((i * 7919) % 11) as f64
}

#[test]
fn a_steady_series_never_alarms_and_a_step_does_within_four_windows() {
    let mut detector = DriftDetector::default();
    assert_eq!(feed(&mut detector, 10_000, wobble), None);
    let at = feed(&mut detector, 10_000, |i| 1.3 * wobble(i)).unwrap();
    assert!(at < 32, "{at}");
}

#[test]
fn single_odd_windows_and_nonsense_are_not_drift() {
    for (count, time) in [
        (
            5_000,
            (|i| if (i / 8) % 10 == 9 { 3.0 } else { 1.0 }) as fn(usize) -> f64,
        ),
        (200, |i| if i < 100 { 1.0 } else { [2.0, 0.5][i / 8 % 2] }),
        (1000, |i| [f64::NAN, 0.0, -1.0, f64::INFINITY][i % 4]),
    ] {
        assert_eq!(feed(&mut DriftDetector::default(), count, time), None);
    }
}

#[test]
fn a_change_that_proved_harmless_alarms_once() {
    let mut detector = DriftDetector::default();
    let jump = |i| if i < 200 { 1.0 } else { 1.2 };
    assert!(feed(&mut detector, 1000, jump).is_some());
    detector.was_harmless();
    detector.restart(&[]);
    assert_eq!(feed(&mut detector, 1000, jump), None);
    assert!(feed(&mut detector, 1000, |_| 2.0).is_some());
}
