//! Budgets: limits, and the remainders that a session may still spend. Costs of values.

use tuner::budget::Spent;
use tuner::objective::Objective;

use crate::prelude::*;

#[test]
fn the_first_limit_ends_the_search_and_the_rest_is_estimated_from_the_pace() {
    let budget: Budget = "100,time=10".parse().unwrap();
    let spent = Spent {
        evaluations: 25,
        launches: 40,
        ms: 2000.0,
    };
    for (spent, reached) in [
        (spent, None),
        (
            Spent {
                evaluations: 100,
                ..spent
            },
            Some("evaluations=100"),
        ),
        (Spent { ms: 1e4, ..spent }, Some("time=10")),
    ] {
        assert_eq!(budget.reached(&spent).as_deref(), reached);
    }
    // The pace is 2,000 ms / 25 = 80 ms per evaluation, so the 75 that are left take 6 s. Final
    // rounds of 1 s come on top: 7 s. With final rounds of 9 s the sum is 15 s, and the 8 s that
    // are left of the time decide.
    // Final rounds come on top of evaluations, and not of a time.
    assert_eq!(
        [1e3, 9e3].map(|ms| budget.left_ms(&spent, ms)),
        [Some(7e3), Some(8e3)]
    );
    // 40 launches took 2 s, 50 ms each: in the 3 s that are left of 5 s there is time for 60.
    let left = |text: &str| text.parse::<Budget>().unwrap().launches_left(&spent);
    let budgets = ["launches=100", "time=5", "launches=10,time=5", "5"];
    assert_eq!(budgets.map(left), [Some(60), Some(60), Some(0), None]);
}

#[test]
fn a_budget_reads_back_as_written_and_nonsense_is_named() {
    for (text, written) in [
        ("evaluations=220", "evaluations=220"),
        (
            "evaluations=3,launches=5,time=1.5",
            "evaluations=3,launches=5,time=1.5",
        ),
        ("90s", "time=90"),
        ("10min", "time=600"),
        ("time=1.5h", "time=5400"),
        ("evaluations=3,2 min", "evaluations=3,time=120"),
    ] {
        assert_eq!(text.parse::<Budget>().unwrap().to_string(), written);
    }
    for (text, said) in [
        ("-1min", "above 0"),
        ("10 parsecs", "whole number"),
        ("", "evaluations"),
        ("0", "above 0"),
        ("time=1e300", "at most 31536000"),
        ("time=inf", "time"),
        ("patience=3", "patience"),
    ] {
        says(text.parse::<Budget>().unwrap_err(), said);
    }
}

#[test]
fn a_cost_reads_back_as_the_value_and_a_better_value_costs_less() {
    for objective in Objective::ALL {
        let values = if objective.more_is_better() {
            [2.0, 5.0]
        } else {
            [5.0, 2.0]
        };
        let [worse, better] = values.map(|value| objective.cost(value).unwrap());
        assert!(better < worse, "{objective}");
        assert!((objective.value(worse) / values[0] - 1.0).abs() < 1e-12);
        assert_eq!(objective.name().parse(), Ok(objective));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1.1e308] {
            assert!(objective.cost(bad).is_err(), "{objective} {bad}");
        }
    }
    // The change that people see: a fifth less time is a quarter more a second.
    for (objective, change) in [(Objective::Time, -0.2), (Objective::Rate, 0.25)] {
        assert!((objective.change(-0.2) - change).abs() < 1e-12);
    }
}
