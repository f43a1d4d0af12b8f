//! Budgets: limits, and the remainders that a session may still spend.

use tuner::budget::{Budget, Spent};

#[test]
fn the_first_limit_ends_and_what_is_left_is_estimated_from_the_pace() {
    let budget: Budget = "100,time=10".parse().unwrap();
    let spent = Spent {
        evaluations: 25,
        launches: 40,
        ms: 2000.0,
    };
    assert_eq!(budget.reached(&spent), None);
    assert_eq!(
        budget
            .reached(&Spent {
                evaluations: 100,
                ..spent
            })
            .unwrap(),
        "evaluations=100"
    );
    assert_eq!(
        budget.reached(&Spent { ms: 1e4, ..spent }).unwrap(),
        "time=10"
    );
    // Final rounds come on top of evaluations, and not of a time.
    assert_eq!(budget.left_ms(&spent, 1000.0), Some(7000.0));
    assert_eq!(budget.left_ms(&spent, 9000.0), Some(8000.0));
    let left = |text: &str| text.parse::<Budget>().unwrap().launches_left(&spent);
    assert_eq!(
        ["launches=100", "time=5", "launches=10,time=5", "5"].map(left),
        [Some(60), Some(60), Some(0), None]
    );
}

#[test]
fn a_budget_reads_back_as_it_was_written_and_nonsense_is_named() {
    for text in ["evaluations=220", "evaluations=3,launches=5,time=1.5"] {
        assert_eq!(text.parse::<Budget>().unwrap().to_string(), text);
    }
    for (text, seconds) in [
        ("90s", "90"),
        ("10min", "600"),
        ("time=1.5h", "5400"),
        ("evaluations=3,2 min", "120"),
    ] {
        let read = text.parse::<Budget>().unwrap().to_string();
        assert!(read.ends_with(&format!("time={seconds}")), "{text}: {read}");
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
        assert!(
            text.parse::<Budget>()
                .unwrap_err()
                .to_string()
                .contains(said)
        );
    }
}
