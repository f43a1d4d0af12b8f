//! Strategies: what they propose.

use tuner::strategy::{Strategy, search_time};

use crate::prelude::*;

fn fails() -> Outcome {
    Failed(failed("on purpose"))
}

/// Makes a space with a valley, a category, and a corner that fails.
fn valley() -> (Space, impl Fn(usize) -> Outcome) {
    let builder = SpaceBuilder::new()
        .range("x", 0, 24, 1)
        .powers_of_two("y", 1, 256);
    let builder = builder
        .choices("mode", ["a", "b", "c"])
        .constraint("x + y > 2");
    let space = builder.build().unwrap();
    let inner = space.clone();
    let measure = move |index: usize| {
        let [x, y] = [0, 1].map(|at| inner.code(index, at) as f64);
        if x > 20.0 && y > 6.0 {
            return fails();
        }
        let mode = [1.0, 1.3, 2.0][inner.code(index, 2)];
        Times(vec![
            mode * (1.0 + ((x - 17.0) / 10.0).powi(2) + ((y - 3.0) / 4.0).powi(2)),
        ])
    };
    (space, measure)
}

/// Returns the first `count` proposals.
fn walk(
    strategy: &mut dyn Strategy,
    measure: impl Fn(usize) -> Outcome,
    count: usize,
) -> Vec<usize> {
    let mut proposed = Vec::new();
    while proposed.len() < count {
        let Some(index) = strategy.propose() else {
            break;
        };
        assert_eq!(
            strategy.propose(),
            Some(index),
            "asked twice, it changes its mind"
        );
        strategy.observe(index, &measure(index));
        proposed.push(index);
    }
    proposed
}

#[test]
fn every_strategy_proposes_everything_once() {
    let builder = SpaceBuilder::new().range("x", 0, 9, 1).range("y", 0, 6, 1);
    let space = builder.constraint("x != y").build().unwrap();
    for kind in StrategyKind::ALL {
        let measure = |index: usize| match index % 7 {
            0 => fails(),
            _ => Times(vec![1.0 + index as f64]),
        };
        let mut all = walk(&mut *kind.start(&space, 3), measure, usize::MAX);
        let first = &all[..12];
        assert!(
            first.iter().any(|&index| index > space.len() / 2) && !first.is_sorted(),
            "{kind}: {all:?}"
        );
        all.sort_unstable();
        assert!(all.into_iter().eq(0..space.len()), "{kind}");
    }
}

#[test]
fn the_same_seed_and_samples_give_the_same_proposals_after_a_restart() {
    let (space, measure) = valley();
    for kind in StrategyKind::ALL {
        let whole = walk(&mut *kind.start(&space, 8), &measure, 70);
        assert_ne!(
            whole,
            walk(&mut *kind.start(&space, 6), &measure, 70),
            "{kind}"
        );
        for cut in [0, 1, 5, 15, 16, 17, 30, 41, 69] {
            let mut resumed = kind.start(&space, 8);
            for &index in &whole[..cut] {
                resumed.observe(index, &measure(index));
            }
            let rest = walk(&mut *resumed, &measure, 70 - cut);
            assert_eq!(rest, whole[cut..], "{kind} cut at {cut}");
        }
    }
}

#[test]
fn small_spaces_and_bad_samples_do_not_break_a_strategy() {
    let empty = SpaceBuilder::new().ints("a", []).build().unwrap();
    let one = SpaceBuilder::new().build().unwrap();
    let (space, _) = valley();
    for kind in StrategyKind::ALL {
        assert_eq!(kind.start(&empty, 0).propose(), None, "{kind}");
        assert_eq!(
            walk(&mut *kind.start(&one, 0), |_| fails(), 5),
            [0],
            "{kind}"
        );
        // All fail, in one way or another.
        let mut strategy = kind.start(&space, 1);
        let bad = |index: usize| match index % 5 {
            0 => Times(vec![]),
            1 => Times(vec![f64::NAN]),
            2 => Times(vec![1.0, -1.0]),
            3 => Times(vec![f64::INFINITY]),
            _ => fails(),
        };
        let walked = walk(&mut *strategy, bad, 60);
        assert_eq!(walked.len(), 60, "{kind}");
        // Configurations outside the space, and those already seen, change nothing.
        let next = strategy.propose();
        for index in [usize::MAX, walked[3]] {
            strategy.observe(index, &fails());
            assert_eq!(strategy.propose(), next, "{kind}");
        }
        // All take the same time.
        let same = walk(&mut *kind.start(&space, 1), |_| Times(vec![1.0]), 60);
        assert_eq!(same.len(), 60, "{kind}");
    }
}

#[test]
fn the_bayesian_search_finds_a_valley_even_in_a_very_large_space() {
    let (space, measure) = valley();
    let builder = SpaceBuilder::new()
        .range("x", 0, 199, 1)
        .range("y", 0, 149, 1);
    let vast = builder.build().unwrap();
    assert!(vast.len() > 20_000);
    let bowl = |index: usize| {
        let [x, y] =
            [(0, 61.0), (1, 99.0)].map(|(at, best)| (vast.code(index, at) as f64 - best) / 100.0);
        Times(vec![1.0 + x * x + y * y])
    };
    for (space, measure, seed) in [
        (&space, &measure as &dyn Fn(usize) -> Outcome, 0),
        (&space, &measure, 1),
        (&space, &measure, 2),
        (&space, &measure, 3),
        (&vast, &bowl, 2),
    ] {
        let walked = walk(&mut *StrategyKind::Bayesian.start(space, seed), measure, 60);
        let best = walked
            .iter()
            .filter_map(|&index| search_time(&measure(index)));
        let best = best.fold(f64::INFINITY, f64::min);
        assert!(
            best <= 1.001,
            "{} configurations, seed {seed}: {best}",
            space.len()
        );
    }
}

#[test]
fn names_of_strategies_are_read_back() {
    for kind in StrategyKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    assert!("annealing".parse::<StrategyKind>().is_err());
    for (configurations, budget, kind) in [
        (10, None, StrategyKind::Exhaustive),
        (100, Some(50), StrategyKind::Bayesian),
        (5000, None, StrategyKind::Bayesian),
        // A budget of time may end before all were tried.
        (200, None, StrategyKind::Bayesian),
        (200, Some(220), StrategyKind::Exhaustive),
    ] {
        assert_eq!(StrategyKind::default_for(configurations, budget), kind);
    }
}

#[test]
fn the_time_of_a_search_is_the_median() {
    assert_eq!(search_time(&Times(vec![9.0, 1.0, 2.0])), Some(2.0));
    assert_eq!(search_time(&Times(vec![4.0, 1.0])), Some(2.5));
    assert_eq!(search_time(&fails()), None);
}
