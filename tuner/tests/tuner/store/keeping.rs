//! Records of a finding that are kept.

use tuner::compare::Comparison;
use tuner::online::{Elapsed, Options, Tuner};
use tuner::store::Finding;
use tuner::verdict::{Block, Rules, judge};
use tuner::{Failure, FailureKind};

use super::*;

#[test]
fn a_comparison_counts_for_its_two_sides_and_the_runner_up_is_neither() {
    let (_folder, key, mut store) = place();
    let block = |a: Vec<f64>, b: Vec<f64>| Block {
        a,
        b,
        ..Block::default()
    };
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
        comparison: Some(Comparison {
            judgement,
            blocks,
            trouble: None,
        }),
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
fn an_on_line_result_is_stored_after_its_comparison_with_the_default() {
    let (_folder, key, mut store) = place();
    let configs: Vec<Config> = (0..key.space.len())
        .map(|index| key.space.config(index))
        .collect();
    let tuner = Tuner::new(configs.clone(), 0, Options::default()).unwrap();
    let mut worker = tuner.worker();
    while !tuner.is_complete() {
        let config = worker.begin().clone();
        if config == configs[2] {
            let message = "unlucky".to_owned();
            worker.fail(Failure {
                kind: FailureKind::Launch,
                message,
            });
        } else {
            worker.end(Elapsed(if config == configs[4] { 1.0 } else { 2.0 }));
        }
    }
    let report = tuner.report().unwrap();
    let mut keep = |comparison| {
        let finding = Finding::of_online(&report, &configs[0], comparison);
        store.keep(&key.task(), &finding).unwrap().unwrap()
    };
    let compared = |time: f64| {
        let blocks = vec![
            Block {
                a: vec![2.0],
                b: vec![time],
                ..Block::default()
            };
            10
        ];
        Some(Comparison {
            judgement: judge(&blocks, &Rules::default().fixed(10)),
            blocks,
            trouble: None,
        })
    };
    // The samples that chose the best one show nothing.
    let kept = keep(None);
    assert_eq!(
        (kept.decided, kept.verdict.contains("not compared")),
        (None, true)
    );
    let kept = keep(compared(3.0));
    assert_eq!(
        (
            kept.decided.as_ref(),
            kept.verdict.starts_with("the default stays")
        ),
        (Some(&configs[0]), true)
    );
    let kept = keep(compared(1.0));
    assert!(
        kept.verdict.starts_with("better than the default: "),
        "{}",
        kept.verdict
    );
    let evidence = store.run_record(kept.run).unwrap().decision.unwrap();
    assert_eq!(
        (evidence.tried, evidence.failed, &evidence.chosen.config),
        (6, 1, &configs[4])
    );
    assert_eq!(store.find(&key.task()).unwrap()[0].config, configs[4]);
    // A tuner that only used what was found has learned nothing, and keeps nothing.
    let tuner = Tuner::new(configs.clone(), 0, Options::default()).unwrap();
    tuner.set(&configs[4]).unwrap();
    let finding = Finding::of_online(&tuner.report().unwrap(), &configs[0], None);
    assert_eq!(store.keep(&key.task(), &finding).unwrap(), None);
}
