//! Records of a finding that are kept.

use tuner::compare::Comparison;
use tuner::store::Finding;
use tuner::verdict::{Block, Rules, judge};
use tuner::{Failure, FailureKind};

use super::*;

#[test]
fn a_comparison_counts_for_its_two_sides_and_the_runner_up_is_neither() {
    let folder = Folder::new();
    let key = Key::new();
    let mut store = folder.store();
    let block = |a: Vec<f64>, b: Vec<f64>| Block { a, b, ..Block::default() };
    let mut blocks = vec![block(vec![2.0], vec![1.0]); 10];
    blocks.push(block(Vec::new(), Vec::new()));
    let judgement = judge(&blocks, &Rules::default().fixed(10));
    let (default, proposed, third) = (config(32, "a"), config(64, "a"), config(128, "a"));
    let finding = Finding {
        plan: plan(),
        default: default.clone(),
        proposed: proposed.clone(),
        samples: vec![
            (default.clone(), vec![1.5]),
            (config(32, "b"), vec![4.0]),
            (third.clone(), vec![3.0, 3.0]),
            (config(64, "b"), vec![5.0]),
        ],
        failed: Vec::new(),
        comparison: Some(Comparison { judgement, blocks }),
        launches: 23,
        stopped: "the work ended".to_owned(),
    };
    let kept = store.keep(&key.task(), &finding).unwrap().unwrap();
    assert_eq!(kept.decided, Some(proposed.clone()), "{}", kept.verdict);
    let record = store.run_record(kept.run).unwrap();
    // Four series of samples, and ten blocks of two sides; of the empty one nothing.
    assert_eq!(record.measurements.len(), 4 + 20);
    let evidence = record.decision.unwrap();
    let of = |contender: Contender| (contender.config, contender.time_ms, contender.samples);
    assert_eq!(of(evidence.chosen), (proposed, 1.0, 10));
    assert_eq!(of(evidence.default.unwrap()), (default, 2.0, 10));
    assert_eq!(of(evidence.runner_up.unwrap()), (third, 3.0, 2));
}

#[test]
fn the_samples_that_chose_the_best_of_many_must_show_more_than_those_of_one() {
    // 3 % with a spread that one comparison tells from chance, and one of a hundred does not.
    let series = |mean: f64| -> Vec<f64> {
        let spread = [-1.0, 0.7, 0.2, -0.5, 1.1, -0.9, 0.4, 0.8, -0.3, -0.6];
        spread.iter().map(|by| mean + 0.04 * by).collect()
    };
    let (default, proposed) = (config(32, "a"), config(64, "a"));
    let mut finding = Finding {
        plan: plan(),
        default: default.clone(),
        proposed: proposed.clone(),
        samples: vec![(default, series(1.05)), (proposed.clone(), series(1.0))],
        failed: Vec::new(),
        comparison: None,
        launches: 20,
        stopped: "the work ended".to_owned(),
    };
    assert_eq!(finding.conclude().0, Some(proposed.clone()));
    // A configuration without samples does not count as tried.
    finding.samples.extend((0..99).map(|other| (config(2000 + other, "a"), Vec::new())));
    assert_eq!(finding.conclude().0, Some(proposed));
    finding.samples.extend((0..99).map(|other| (config(1000 + other, "a"), series(1.1))));
    assert_eq!(finding.conclude().0, None);
}

#[test]
fn why_a_run_decided_nothing_is_said_by_what_became_of_its_measurements() {
    let folder = Folder::new();
    let key = Key::new();
    let mut store = folder.store();
    let failed = Outcome::Failed(Failure { kind: FailureKind::Launch, message: "no".to_owned() });
    let failed = Observation { outcome: failed, ..times(config(64, "a"), &[0.0]) };
    let worked = times(config(32, "a"), &[1.0]);
    for (strategy, measured, said) in [
        ("random", vec![&failed], "every configuration failed"),
        ("random", vec![&worked, &failed], "its samples showed nothing to decide"),
        ("recorded", vec![&worked, &failed], "it was recorded, not tuned"),
    ] {
        let mut run = store.begin(&key.task(), &Plan { strategy: strategy.to_owned(), ..plan() }).unwrap();
        for observation in measured {
            store.record(&mut run, observation).unwrap();
        }
        let id = run.id();
        store.finish(run, None).unwrap();
        let text = tuner::report::explain::explain(&store.run_record(id).unwrap());
        assert!(text.contains(&format!("It decided nothing: {said}.")), "{text}");
    }
}
