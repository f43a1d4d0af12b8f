//! The decisions, on synthetic devices. Those on recorded noise are in `dev/tests/recordings.rs`.

use chacha20::ChaCha8Rng;
use rand::SeedableRng as _;
use rand_distr::{Distribution as _, Normal};
use tuner::compare::{Decision, Fate, Plan, Ruling, compare, decide, turns};
use tuner::verdict::{Block, Judgement, Reason, Rules, Side, Verdict, judge};
use tuner::watch::{NoWatch, State, Watch};
use tuner::{Config, Device, Failure, FailureKind, Outcome, Value};

use crate::{disturbed, made};

fn factor(config: &Config) -> f64 {
    let Value::Float(factor) = config.0[0] else {
        panic!("not a factor: {:?}", config.0)
    };
    factor
}

fn slower(by: f64) -> Config {
    Config(vec![Value::Float(1.0 + by)])
}

/// Makes a device whose times are the first value with normal noise, and which fails in various
/// ways if the second value is not 0.
fn quiet(spread: f64) -> impl Device {
    let (noise, mut lot, mut launched) = (
        Normal::new(1.0, spread).unwrap(),
        ChaCha8Rng::seed_from_u64(5),
        0,
    );
    made(move |config, launches| {
        launched += launches;
        let fail = |kind| {
            Outcome::Failed(Failure {
                kind,
                message: "on purpose".into(),
            })
        };
        match config.0.get(1) {
            Some(Value::Text(word)) if word == "wrong" => fail(FailureKind::WrongResult),
            Some(Value::Text(word)) if word == "late" && launched > 500 => {
                fail(FailureKind::Launch)
            }
            Some(Value::Text(word)) if word == "nan" => Outcome::Times(vec![f64::NAN; launches]),
            Some(Value::Text(word)) if word == "none" => Outcome::Times(Vec::new()),
            _ => Outcome::Times(
                (0..launches)
                    .map(|_| factor(config) * noise.sample(&mut lot))
                    .collect(),
            ),
        }
    })
}

fn takes(time: f64, word: &str) -> Config {
    Config(vec![Value::Float(time), Value::Text(word.into())])
}

fn contest(candidates: &[Config]) -> Decision {
    decide(
        &mut quiet(0.001),
        &takes(1.0, "plain"),
        candidates,
        &Plan::default(),
        &mut NoWatch,
    )
}

#[test]
fn a_failing_or_wrong_configuration_drops_out_alone_however_fast() {
    let fast = [
        takes(0.4, "wrong"),
        takes(0.5, "late"),
        takes(0.6, "nan"),
        takes(0.7, "none"),
        takes(0.8, "plain"),
    ];
    let decision = contest(&fast);
    assert_eq!(
        (decision.chosen, decision.ruling),
        (takes(0.8, "plain"), Ruling::Promoted)
    );
    let failure = |at: usize| {
        if let Fate::Failed(failure) = &decision.candidates[at].fate {
            failure
        } else {
            panic!()
        }
    };
    assert_eq!(
        [0, 1, 2, 3].map(|at| failure(at).kind)[..2],
        [FailureKind::WrongResult, FailureKind::Launch]
    );
    let decision = contest(&fast[..1]);
    assert_eq!(
        (decision.chosen, decision.ruling),
        (takes(1.0, "plain"), Ruling::NoneBetter)
    );
    // A default that fails leaves nothing to compare with.
    let decision = decide(
        &mut quiet(0.001),
        &fast[0],
        &fast[4..],
        &Plan::default(),
        &mut NoWatch,
    );
    assert!(
        matches!(decision.ruling, Ruling::NoDefault(_)),
        "{:?}",
        decision.ruling
    );
    assert_eq!(decision.chosen, fast[0]);
}

#[test]
fn within_the_zone_the_default_wins_then_the_simpler_configuration() {
    assert_eq!(contest(&[]).ruling, Ruling::NoneBetter);
    // 0.1 % better is within the zone: the default stays.
    assert_eq!(contest(&[takes(0.999, "plain")]).ruling, Ruling::NoneBetter);
    // Of two candidates within each other's zone, the candidate wins that differs from the default
    // in fewer parameters.
    let decision = contest(&[takes(0.8999, "other"), takes(0.9, "plain")]);
    assert_eq!(decision.chosen, takes(0.9, "plain"));
    // Outside of the zone the faster wins, simple or not.
    let decision = contest(&[takes(0.88, "other"), takes(0.9, "plain")]);
    assert_eq!(decision.chosen, takes(0.88, "other"));
}

#[test]
fn a_winner_by_luck_is_not_confirmed() {
    let (mut quiet, mut launched) = (quiet(0.001), 0);
    // The candidate is lucky in the first round.
    let mut device = made(|config, launches| {
        let lucky = launched < 320 && config != &takes(1.0, "plain");
        launched += launches;
        let Outcome::Times(times) = quiet.measure(config, launches) else {
            panic!()
        };
        Outcome::Times(
            times
                .into_iter()
                .map(|t| if lucky { 0.97 * t } else { t })
                .collect(),
        )
    });
    let decision = decide(
        &mut device,
        &takes(1.0, "plain"),
        &[takes(1.0, "lucky")],
        &Plan::default(),
        &mut NoWatch,
    );
    assert_eq!(decision.winner, Some(0));
    assert!(
        matches!(decision.ruling, Ruling::NotConfirmed(_)),
        "{:?}",
        decision.ruling
    );
    assert_eq!(decision.chosen, takes(1.0, "plain"));
}

#[test]
fn verdicts_say_why_they_cannot_tell() {
    let compare_with = |spread: f64, b: f64, rounds: usize, rules: Rules| {
        let plan = Plan {
            rules,
            rounds,
            ..Plan::default()
        };
        compare(
            &mut quiet(spread),
            &slower(0.0),
            &slower(b),
            &plan,
            &mut NoWatch,
        )
        .unwrap()
        .judgement
    };
    let at_ten = || Rules::default().fixed(10);
    assert_eq!(
        compare_with(0.001, 0.0, 15, at_ten()).verdict,
        Verdict::Same
    );
    assert_eq!(
        compare_with(0.001, 0.01, 15, at_ten()).verdict,
        Verdict::Better(Side::A)
    );
    assert_eq!(
        compare_with(0.001, -0.01, 15, at_ten()).verdict,
        Verdict::Better(Side::B)
    );
    assert_eq!(
        compare_with(0.1, 0.001, 15, at_ten()).verdict,
        Verdict::CannotTell(Reason::TooNoisy)
    );
    assert_eq!(
        compare_with(0.001, 0.1, 15, Rules::default().fixed(3)).verdict,
        Verdict::CannotTell(Reason::TooFewBlocks)
    );
    // A block may have one sample per side.
    assert_eq!(
        compare_with(0.001, 0.01, 1, at_ten()).verdict,
        Verdict::Better(Side::A)
    );
    // B is 5 % slower at first and 5 % faster in the end.
    let drifting: Vec<Block> = (0..20)
        .map(|i| Block {
            a: vec![1.0],
            b: vec![1.05 - 0.005 * f64::from(i)],
            ..Block::default()
        })
        .collect();
    assert_eq!(
        judge(&drifting, &Rules::default().fixed(20)).verdict,
        Verdict::CannotTell(Reason::Drifting)
    );
}

#[test]
fn the_rules_limit_the_share_of_discarded_samples() {
    // Of 14 samples and those that were discarded: 26 %, 30 %, 33 %.
    for (discarded, reason) in [(5, None), (6, None), (7, Some(Reason::Throttled))] {
        let blocks = vec![
            Block {
                a: vec![1.0; 7],
                b: vec![2.0; 7],
                discarded,
                ..Block::default()
            };
            12
        ];
        let expected = reason.map_or(Verdict::Better(Side::A), Verdict::CannotTell);
        assert_eq!(
            judge(&blocks, &Rules::default()).verdict,
            expected,
            "{discarded} in each block"
        );
    }
}

#[test]
fn degenerate_blocks_give_no_verdict_and_no_panic() {
    let rules = Rules::default().fixed(10);
    let none = judge(&[], &rules);
    assert_eq!(none.verdict, Verdict::CannotTell(Reason::TooFewBlocks));
    let one = Block {
        a: vec![1.0],
        b: vec![2.0],
        ..Block::default()
    };
    assert_eq!(
        judge(std::slice::from_ref(&one), &rules).verdict,
        Verdict::CannotTell(Reason::TooFewBlocks)
    );
    let bad = |a: f64, b: f64| Block {
        a: vec![a],
        b: vec![b],
        ..Block::default()
    };
    let nonsense = [
        bad(f64::NAN, 1.0),
        bad(1.0, f64::INFINITY),
        bad(0.0, 1.0),
        bad(-1.0, 1.0),
        Block::default(),
    ];
    let judged = judge(&nonsense, &rules);
    assert_eq!((judged.kept, judged.discarded), (0, 8));
    assert_eq!(judged.verdict, Verdict::CannotTell(Reason::Throttled));
    // Identical times without any spread (a coarse clock) are the same, not a division by zero.
    let coarse = vec![bad(1.0, 1.0); 10];
    assert_eq!(judge(&coarse, &rules).verdict, Verdict::Same);
    assert_eq!(
        judge(&vec![bad(1.0, 1.01); 10], &rules).verdict,
        Verdict::Better(Side::A)
    );
    let text = serde_json::to_string(&none).unwrap();
    let back: Judgement = serde_json::from_str(&text).unwrap();
    assert!(back.low.is_nan() && back.verdict == none.verdict, "{text}");
}

/// Throttled at the looks that `bad` names.
pub fn hot(bad: fn(usize) -> bool) -> impl Watch {
    let throttled = vec!["heat".to_owned()];
    disturbed(
        State {
            clock_mhz: Some(1000.0),
            throttled,
            ..State::default()
        },
        bad,
    )
}

#[test]
fn samples_of_a_bad_state_are_discarded_counted_and_stop_the_verdict_when_many() {
    let run = |bad: fn(usize) -> bool| {
        let plan = Plan {
            rules: Rules::default().fixed(10),
            ..Plan::default()
        };
        compare(
            &mut quiet(0.001),
            &slower(0.0),
            &slower(0.01),
            &plan,
            &mut hot(bad),
        )
        .unwrap()
    };
    let some = run(|look| look % 9 == 3);
    assert_eq!(some.judgement.verdict, Verdict::Better(Side::A));
    assert!(some.judgement.discarded > 0 && some.judgement.kept + some.judgement.discarded == 300);
    assert!(
        some.blocks
            .iter()
            .all(|block| block.states.len() == block.a.len().div_ceil(2))
    );
    let half = run(|look| look % 2 == 0);
    assert_eq!(
        half.judgement.verdict,
        Verdict::CannotTell(Reason::Throttled)
    );
    let all = run(|_| true);
    assert_eq!(
        all.judgement.verdict,
        Verdict::CannotTell(Reason::Throttled)
    );
    assert_eq!(
        all.blocks.len(),
        4,
        "nothing will come of it: it stops early"
    );
    assert_eq!(
        (some.trouble.is_some(), all.trouble.as_deref()),
        (true, Some("heat: wait until its clock is free"))
    );
    // With more looks to come, the first one ends it.
    let half = compare(
        &mut quiet(0.001),
        &slower(0.0),
        &slower(0.01),
        &Plan::default(),
        &mut hot(|look| look % 2 == 0),
    );
    let half = half.unwrap();
    assert_eq!(
        (half.judgement.verdict, half.blocks.len()),
        (Verdict::CannotTell(Reason::Throttled), 10)
    );
}

#[test]
fn turns_are_fair_in_every_round() {
    let mut lot = ChaCha8Rng::seed_from_u64(1);
    for sides in 1..6 {
        for rounds in 0..6 {
            let all = turns(sides, rounds, &mut lot);
            assert_eq!(all.len(), rounds);
            for turn in &all {
                let mut sorted = turn.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, (0..sides).collect::<Vec<_>>());
            }
            for pair in all.chunks_exact(2) {
                assert_eq!(pair[0], pair[1].iter().rev().copied().collect::<Vec<_>>());
            }
        }
    }
    // Both sides come first about equally often.
    let first = (0..1000)
        .filter(|_| turns(2, 1, &mut lot)[0][0] == 0)
        .count();
    assert!((400..600).contains(&first), "{first}");
}
