//! Statistics against tabulated values.

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
            "{freedom} {alpha}: {critical} instead of {table}"
        );
        assert!((student_two_sided(critical, freedom) - alpha).abs() < 1e-9);
    }
    assert!((student_two_sided(1.959_964, 1e7) - 0.05).abs() < 1e-6);
    // One and two degrees of freedom have closed forms, which are exact for small t as well.
    for t in [0.0_f64, 0.01, 0.1, 0.5, 1.0, 3.0] {
        let (one, two) = (
            1.0 - t.atan() * std::f64::consts::FRAC_2_PI,
            1.0 - t / (2.0 + t * t).sqrt(),
        );
        assert!((student_two_sided(t, 1.0) - one).abs() < 1e-12, "{t}");
        assert!((student_two_sided(t, 2.0) - two).abs() < 1e-12, "{t}");
    }
}

#[test]
fn sign_flip_counts_patterns_exactly() {
    assert_eq!(sign_flip(&[]), 1.0);
    assert_eq!(sign_flip(&[1.0]), 1.0);
    assert_eq!(sign_flip(&[1.0, 1.0, 1.0]), 0.25);
    assert_eq!(sign_flip(&[1.0, 2.0, 4.0, 8.0]), 2.0 / 16.0);
    assert_eq!(sign_flip(&[0.0; 5]), 1.0);
    // 0.1 + 0.2 - 0.1 is not the same float as 0.1 - 0.1 + 0.2, and counts as the same sum.
    assert_eq!(sign_flip(&[0.1, 0.2, -0.1]), 0.75);
    assert_eq!(sign_flip(&[0.3; 10]), smallest_sign_flip(10));
    assert_eq!(sign_flip(&[0.3; 40]), smallest_sign_flip(40));
}

#[test]
fn correlation_costs_values_and_anticorrelation_earns_none() {
    let rising: Vec<f64> = (0..40).map(f64::from).collect();
    assert!(effective_count(&rising) < 5.0);
    let alternating: Vec<f64> = (0..40).map(|i| f64::from(i % 2)).collect();
    assert_eq!(effective_count(&alternating), 40.0);
    // Four 0, four 1, and so on: of 39 neighbours 30 are alike, so the correlation is 21 of 40;
    // after the correction for the bias it is 22 of 37.
    let steps: Vec<f64> = (0..40).map(|i| f64::from(i / 4 % 2)).collect();
    assert!(
        (effective_count(&steps) - 40.0 * 15.0 / 59.0).abs() < 1e-9,
        "{}",
        effective_count(&steps)
    );
    // r = 0.625 is 1.77 standard errors, so 0.77 of the correction applies; r without its bias is
    // 1.2, capped at 0.9.
    let eight = effective_count(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    assert!((eight - 2.181_134_672).abs() < 1e-8, "{eight}");
    assert_eq!(effective_count(&[]), 0.0);
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
