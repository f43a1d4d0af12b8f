//! Strategies: what they propose.

use tuner::strategy::{Bayesian, Strategy, StrategyKind, search_time};
use tuner::{Failure, FailureKind, Outcome, Space, SpaceBuilder};

fn failed() -> Outcome {
    Outcome::Failed(Failure {
        kind: FailureKind::Launch,
        message: "on purpose".to_owned(),
    })
}

/// Makes a space with a valley, a category, and a corner that fails.
fn valley() -> (Space, impl Fn(usize) -> Outcome) {
    let builder = SpaceBuilder::new()
        .range("x", 0, 24, 1)
        .powers_of_two("y", 1, 256)
        .choices("mode", ["a", "b", "c"]);
    let space = builder
        .constraint("x + y > 2")
        .build()
        .expect("nothing is wrong");
    let inner = space.clone();
    let measure = move |index: usize| {
        let (x, y) = (inner.code(index, 0) as f64, inner.code(index, 1) as f64);
        if x > 20.0 && y > 6.0 {
            return failed();
        }
        let mode = [1.0, 1.3, 2.0][inner.code(index, 2)];
        Outcome::Times(vec![
            mode * (1.0 + ((x - 17.0) / 10.0).powi(2) + ((y - 3.0) / 4.0).powi(2)),
        ])
    };
    (space, measure)
}

/// Returns the first `count` proposals.
fn walk(
    strategy: &mut dyn Strategy,
    measure: &dyn Fn(usize) -> Outcome,
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
    let space = SpaceBuilder::new()
        .range("x", 0, 9, 1)
        .range("y", 0, 6, 1)
        .constraint("x != y")
        .build()
        .expect("fine");
    for kind in StrategyKind::ALL {
        let measure = |index: usize| {
            if index.is_multiple_of(7) {
                failed()
            } else {
                Outcome::Times(vec![1.0 + index as f64])
            }
        };
        let mut all = walk(&mut *kind.start(&space, 3), &measure, usize::MAX);
        assert!(
            all[..12].iter().any(|&index| index > space.len() / 2) && !all[..12].is_sorted(),
            "{kind}: {all:?}"
        );
        assert_eq!(all.len(), space.len(), "{kind}");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), space.len(), "{kind}");
    }
}

#[test]
fn the_same_seed_and_samples_give_the_same_proposals() {
    let (space, measure) = valley();
    for kind in StrategyKind::ALL {
        let first = walk(&mut *kind.start(&space, 5), &measure, 60);
        assert_eq!(
            first,
            walk(&mut *kind.start(&space, 5), &measure, 60),
            "{kind}"
        );
        assert_ne!(
            first,
            walk(&mut *kind.start(&space, 6), &measure, 60),
            "{kind}"
        );
    }
}

#[test]
fn a_strategy_that_is_told_an_earlier_run_goes_on_as_that_run() {
    let (space, measure) = valley();
    for kind in StrategyKind::ALL {
        let whole = walk(&mut *kind.start(&space, 8), &measure, 70);
        for cut in [0, 1, 5, 15, 16, 17, 30, 41, 69] {
            let mut resumed = kind.start(&space, 8);
            for &index in &whole[..cut] {
                resumed.observe(index, &measure(index));
            }
            assert_eq!(
                walk(&mut *resumed, &measure, 70 - cut),
                whole[cut..],
                "{kind} cut at {cut}"
            );
        }
    }
}

#[test]
fn small_spaces_and_bad_samples_are_no_trouble() {
    let empty = SpaceBuilder::new()
        .ints("a", [])
        .build()
        .expect("nothing is wrong");
    let one = SpaceBuilder::new().build().expect("nothing is wrong");
    let (space, _) = valley();
    for kind in StrategyKind::ALL {
        assert_eq!(kind.start(&empty, 0).propose(), None, "{kind}");
        assert_eq!(
            walk(&mut *kind.start(&one, 0), &|_| failed(), 5),
            [0],
            "{kind}"
        );
        // All fail, in one way or another.
        let mut strategy = kind.start(&space, 1);
        let bad = |index: usize| match index % 5 {
            0 => Outcome::Times(vec![]),
            1 => Outcome::Times(vec![f64::NAN]),
            2 => Outcome::Times(vec![1.0, -1.0]),
            3 => Outcome::Times(vec![f64::INFINITY]),
            _ => failed(),
        };
        assert_eq!(walk(&mut *strategy, &bad, 60).len(), 60, "{kind}");
        // Configurations outside the space, and those already seen, change nothing.
        let next = strategy.propose();
        strategy.observe(usize::MAX, &failed());
        assert_eq!(strategy.propose(), next, "{kind}");
        // All take the same time.
        assert_eq!(
            walk(
                &mut *kind.start(&space, 1),
                &|_| Outcome::Times(vec![1.0]),
                60
            )
            .len(),
            60,
            "{kind}"
        );
    }
    let mut twice = Bayesian::new(&space, 4);
    let indices = walk(
        &mut twice,
        &|index| Outcome::Times(vec![1.0 + index as f64]),
        30,
    );
    let next = twice.propose();
    twice.observe(indices[3], &failed());
    assert_eq!(twice.propose(), next);
}

#[test]
fn the_bayesian_search_finds_the_valley() {
    let (space, measure) = valley();
    let time = |index: usize| search_time(&measure(index)).unwrap_or(f64::INFINITY);
    let optimum = (0..space.len()).map(time).fold(f64::INFINITY, f64::min);
    for seed in 0..4 {
        let mut strategy = StrategyKind::Bayesian.start(&space, seed);
        let walked = walk(&mut *strategy, &measure, 60);
        let best = walked
            .iter()
            .map(|&index| time(index))
            .fold(f64::INFINITY, f64::min);
        assert!(
            best <= 1.001 * optimum,
            "seed {seed}: {best} instead of {optimum}"
        );
    }
}

#[test]
fn a_space_beyond_the_pool_is_searched_too() {
    let builder = SpaceBuilder::new()
        .range("x", 0, 199, 1)
        .range("y", 0, 149, 1);
    let space = builder.build().expect("nothing is wrong");
    assert!(space.len() > 20_000);
    let measure = |index: usize| {
        let (x, y) = (space.code(index, 0) as f64, space.code(index, 1) as f64);
        Outcome::Times(vec![
            1.0 + ((x - 61.0) / 100.0).powi(2) + ((y - 99.0) / 100.0).powi(2),
        ])
    };
    let mut strategy = StrategyKind::Bayesian.start(&space, 2);
    let walked = walk(&mut *strategy, &measure, 50);
    let best = walked
        .iter()
        .filter_map(|&index| search_time(&measure(index)))
        .fold(f64::INFINITY, f64::min);
    assert!(best < 1.001, "{best}");
}

#[test]
fn names_of_strategies_are_read_back() {
    for kind in StrategyKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    assert!("annealing".parse::<StrategyKind>().is_err());
    assert_eq!(
        StrategyKind::default_for(10, None),
        StrategyKind::Exhaustive
    );
    assert_eq!(
        StrategyKind::default_for(100, Some(50)),
        StrategyKind::Bayesian
    );
    assert_eq!(
        StrategyKind::default_for(5000, None),
        StrategyKind::Bayesian
    );
    // A budget of time may end before all were tried.
    assert_eq!(StrategyKind::default_for(200, None), StrategyKind::Bayesian);
    assert_eq!(
        StrategyKind::default_for(200, Some(220)),
        StrategyKind::Exhaustive
    );
}

#[test]
fn the_time_of_a_search_is_the_median() {
    assert_eq!(search_time(&Outcome::Times(vec![9.0, 1.0, 2.0])), Some(2.0));
    assert_eq!(search_time(&Outcome::Times(vec![4.0, 1.0])), Some(2.5));
    assert_eq!(search_time(&failed()), None);
}
