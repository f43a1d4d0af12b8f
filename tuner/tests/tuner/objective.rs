//! Costs of values.

use tuner::objective::Objective;

#[test]
fn a_cost_reads_back_as_the_value_and_a_better_value_costs_less() {
    for objective in Objective::ALL {
        let (worse, better) = if objective.more_is_better() {
            (2.0, 5.0)
        } else {
            (5.0, 2.0)
        };
        let [a, b] = [worse, better].map(|value| objective.cost(value).unwrap());
        assert!(b < a, "{objective}");
        assert!((objective.value(a) / worse - 1.0).abs() < 1e-12);
        assert_eq!(objective.name().parse(), Ok(objective));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1.1e308] {
            assert!(objective.cost(bad).is_err(), "{objective} {bad}");
        }
    }
}

#[test]
fn a_change_refers_to_the_displayed_value() {
    assert!((Objective::Time.change(-0.2) + 0.2).abs() < 1e-12);
    assert!(
        (Objective::Rate.change(-0.2) - 0.25).abs() < 1e-12,
        "a fifth less time is a quarter more a second"
    );
}
