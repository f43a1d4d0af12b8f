//! Drift of a series of times.

use tuner::drift::DriftDetector;

fn feed(detector: &mut DriftDetector, times: impl Iterator<Item = f64>) -> Option<usize> {
    times.into_iter().position(|time| detector.push(time))
}

#[test]
fn a_steady_series_never_alarms_and_a_step_does_within_four_windows() {
    let mut detector = DriftDetector::default();
    let wobble = |i: usize| 1.0 + 0.01 * ((i * 7919) % 11) as f64;
    assert_eq!(feed(&mut detector, (0..10_000).map(wobble)), None);
    let at = feed(&mut detector, (0..10_000).map(|i| 1.3 * wobble(i))).unwrap();
    assert!(at < 32, "{at}");
}

#[test]
fn single_odd_windows_changing_sides_and_nonsense_are_no_drift() {
    let odd = |i: usize| if (i / 8) % 10 == 9 { 3.0 } else { 1.0 };
    let swing = |i: usize| if i < 100 { 1.0 } else { [2.0, 0.5][i / 8 % 2] };
    let nonsense = |i: usize| [f64::NAN, 0.0, -1.0, f64::INFINITY][i % 4];
    for (times, count) in [
        (odd as fn(usize) -> f64, 5_000),
        (swing, 200),
        (nonsense, 1000),
    ] {
        assert_eq!(
            feed(&mut DriftDetector::default(), (0..count).map(times)),
            None
        );
    }
}

#[test]
fn a_change_that_proved_harmless_alarms_once() {
    let mut detector = DriftDetector::default();
    let jump = |i: usize| if i < 200 { 1.0 } else { 1.2 };
    assert!(feed(&mut detector, (0..1000).map(jump)).is_some());
    detector.was_harmless();
    detector.restart(&[]);
    assert_eq!(feed(&mut detector, (0..1000).map(jump)), None);
    assert!(feed(&mut detector, (0..1000).map(|_| 2.0)).is_some());
}
