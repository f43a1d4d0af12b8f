//! Scores: drawing at random is 0, the optimum at once is 1.

use tuner::strategy::StrategyKind;
use tuner::{Failure, FailureKind, Outcome, Space, SpaceBuilder, Value};
use tuner_score::replay::{Noise, Recording, Replay};
use tuner_score::score::{Estimate, score, table};

fn failed() -> Outcome {
    Outcome::Failed(Failure {
        kind: FailureKind::Compile,
        message: String::new(),
    })
}

/// Makes a recording of 400 configurations in random order, every eighth of which fails.
fn shuffled() -> Recording {
    let names = ["x".to_owned()];
    let rows: Vec<Vec<Value>> = (0..400).map(|x| vec![Value::Int(x)]).collect();
    let (space, _) = Space::recorded(&names, &rows).expect("the rows differ");
    let outcome = |x: usize| match x % 8 {
        7 => failed(),
        _ => Outcome::Times(vec![1.0 + (x * 149 % 400) as f64 / 100.0]),
    };
    Recording {
        space,
        outcomes: (0..400).map(outcome).collect(),
        ..Recording::default()
    }
}

#[test]
fn random_search_scores_0_and_an_immediate_optimum_scores_1() {
    let recording = shuffled();
    let row =
        score("shuffled", &recording, StrategyKind::Random, 400, 100).expect("something is valid");
    let estimate = row.score();
    assert!(
        estimate.mean.abs() < 1.5 * estimate.half_width,
        "{estimate}"
    );
    // Where all configurations are equal, whatever is tried first is the optimum.
    let mut equal = recording.clone();
    equal.outcomes.fill(Outcome::Times(vec![1.0]));
    let row =
        score("shuffled", &equal, StrategyKind::Exhaustive, 2, 100).expect("something is valid");
    assert_eq!(
        (row.score().mean, row.at_50().mean, row.at_end().mean),
        (1.0, 1.0, 1.0)
    );
    assert_eq!(row.within_5_percent(), 1.0);
    let text = table(&[row]);
    assert!(
        text.contains("shuffled") && text.contains("exhaustive") && text.contains("+1.000"),
        "{text}"
    );
    // A budget beyond the space: the strategy stops early and keeps its best.
    assert!(score("shuffled", &recording, StrategyKind::Random, 2, 500).is_some());
}

#[test]
fn recordings_that_cannot_be_scored_get_no_score() {
    let mut recording = shuffled();
    assert!(score("few", &recording, StrategyKind::Random, 2, 10).is_none());
    recording.outcomes.fill(failed());
    assert!(score("failed", &recording, StrategyKind::Random, 2, 100).is_none());
    assert!(score("empty", &Recording::default(), StrategyKind::Random, 2, 100).is_none());
    let mut device = Replay::new(recording, Noise::Mean);
    assert!(matches!(device.measure_index(1000, 1), Outcome::Failed(_)));
}

#[test]
fn estimates_have_the_width_of_student() {
    let estimate = Estimate::of(&[1.0, 2.0, 3.0]);
    assert_eq!(estimate.mean, 2.0);
    assert!(
        (estimate.half_width - 4.302_65 / 3.0f64.sqrt()).abs() < 1e-4,
        "{estimate:?}"
    );
    assert_eq!(Estimate::of(&[5.0]).half_width, 0.0);
}

#[test]
fn the_time_at_50_is_the_best_of_50_evaluations() {
    let space = SpaceBuilder::new().range("x", 0, 59, 1).build().unwrap();
    let mut walk = StrategyKind::Exhaustive.start(&space, 0);
    let mut next = || {
        let index = walk.propose()?;
        walk.observe(index, &Outcome::Times(vec![1.0]));
        Some(index)
    };
    let order: Vec<usize> = std::iter::from_fn(&mut next).collect();
    // The 50th is twice as fast as all before, and the 51st twice as fast as that.
    let time = |index: usize| match order.iter().position(|&other| other == index) {
        Some(49) => 0.5,
        Some(50) => 0.25,
        _ => 1.0,
    };
    let outcomes = (0..60)
        .map(|index| Outcome::Times(vec![time(index)]))
        .collect();
    let recording = Recording {
        outcomes,
        space: space.clone(),
        ..Recording::default()
    };
    let row = score("line", &recording, StrategyKind::Exhaustive, 1, 60).unwrap();
    assert_eq!((row.runs[0].at_50, row.runs[0].at_end), (2.0, 1.0));
}
