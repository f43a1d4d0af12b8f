//! Decisions on fixed samples, with numbers that are worked out by hand.

use tuner::compare::{Candidate, Decision, Fate, Plan, Ruling, decide};
use tuner::verdict::{Block, Judgement, Reason, Rules, Side, Verdict, judge};
use tuner::watch::NoWatch;
use tuner::{Config, Device, Failure, FailureKind, Outcome, Value};

use crate::decide::hot;
use crate::made;

const TOO_NOISY: Verdict = Verdict::CannotTell(Reason::TooNoisy);

/// Makes blocks of one round each, in which A takes 1 ms and B longer by the given differences.
fn one_round_each(differences: impl IntoIterator<Item = f64>) -> Vec<Block> {
    let block = |by: f64| Block {
        a: vec![1.0],
        b: vec![1.0 + by],
        ..Block::default()
    };
    differences.into_iter().map(block).collect()
}

/// `count` differences, in turn `centre - spread` and `centre + spread`.
fn alternating(count: usize, centre: f64, spread: f64) -> impl Iterator<Item = f64> {
    (0..count).map(move |i| {
        if i % 2 == 0 {
            centre - spread
        } else {
            centre + spread
        }
    })
}

/// Judged with one look, at all blocks.
fn judged(blocks: &[Block], rules: &Rules) -> Judgement {
    judge(blocks, &rules.fixed(blocks.len()))
}

#[test]
fn a_difference_that_is_certain_but_within_the_zone_is_not_better() {
    // Mean 0.15 %, standard error 0.0443 %; Student's t of 9 degrees has 5 % beyond 2.262: from
    // 0.05 % to 0.25 %.
    let blocks = one_round_each(alternating(10, 0.0015, 0.00133));
    let judgement = judged(&blocks, &Rules::default());
    assert!(
        (judgement.low - 0.0005).abs() < 1e-5 && (judgement.high - 0.0025).abs() < 1e-5,
        "{judgement:?}"
    );
    assert_eq!(judgement.verdict, TOO_NOISY);
    let smaller_zone = Rules {
        indifference: 0.001,
        ..Rules::default()
    };
    assert_eq!(
        judged(&blocks, &smaller_zone).verdict,
        Verdict::Better(Side::A)
    );
}

#[test]
fn an_interval_without_0_is_not_enough_where_random_signs_give_as_much() {
    // Of the 32 patterns of signs, 4 give as large a sum as these: the small one's sign is of no
    // importance.
    let judgement = judged(
        &one_round_each([0.05, 0.05, 0.05, 0.05, -0.001]),
        &Rules::default(),
    );
    assert!(
        judgement.low > Rules::default().indifference,
        "{judgement:?}"
    );
    assert_eq!(judgement.verdict, TOO_NOISY);
    // Of these, the 2 with equal signs, as few as there can be.
    let judgement = judged(
        &one_round_each([0.05, 0.05, 0.05, 0.05, 0.001]),
        &Rules::default(),
    );
    assert_eq!(judgement.verdict, Verdict::Better(Side::A));
}

#[test]
fn a_drift_within_mirrored_pairs_is_no_noise() {
    // A B B A on a machine that slows down by 0.1 ms a launch, with B slower by 0.05 ms: of each
    // pair of rounds B is slower by 0.1 ms. Of the rounds alone, by 0.15 ms and then faster by 0.05
    // ms, which random signs often give.
    let block = Block {
        a: vec![1.0, 1.3],
        b: vec![1.15, 1.25],
        ..Block::default()
    };
    assert_eq!(
        judged(&vec![block; 4], &Rules::default()).verdict,
        Verdict::Better(Side::A)
    );
    // Blocks that agree are not enough if the pairs of rounds in them disagree: for four pairs of
    // 0.3 ms more and four of 0.1 ms less, random signs give as large a sum in 28 % of all cases.
    let of = |b: [f64; 4]| {
        vec![
            Block {
                a: vec![1.0; 4],
                b: b.to_vec(),
                ..Block::default()
            };
            4
        ]
    };
    assert_eq!(
        judged(&of([1.15, 1.15, 0.95, 0.95]), &Rules::default()).verdict,
        TOO_NOISY
    );
    assert_eq!(
        judged(&of([1.05; 4]), &Rules::default()).verdict,
        Verdict::Better(Side::A)
    );
    // More launches of one side: there are no pairs of rounds, and the block is drawn whole.
    let block = Block {
        a: vec![1.0, 1.3],
        b: vec![1.15, 1.25, 1.35],
        ..Block::default()
    };
    assert_eq!(
        judged(&vec![block; 4], &Rules::default()).verdict,
        Verdict::Better(Side::A)
    );
}

#[test]
fn a_constant_or_growing_difference_is_a_difference_and_a_sudden_one_is_drift() {
    let growing =
        |from: f64| alternating(10, from, 0.005).chain(alternating(10, from + 0.01, 0.005));
    // 1.5 % slower, and then 2.5 %.
    let grows = judged(&one_round_each(growing(0.015)), &Rules::default());
    assert_eq!(grows.verdict, Verdict::Better(Side::A), "{grows:?}");
    // As fast, or slower by less than matters, and then 1 % slower: the interval leaves out 0 just
    // the same.
    for from in [0.0, 0.001] {
        let appears = judged(&one_round_each(growing(from)), &Rules::default());
        assert!(appears.low > 0.0, "{appears:?}");
        assert_eq!(
            appears.verdict,
            Verdict::CannotTell(Reason::Drifting),
            "from {from}"
        );
    }
}

#[test]
fn halves_disagree_beyond_what_students_t_of_six_degrees_allows() {
    // Eight blocks in two halves: t of 8 - 2 degrees has 1 % beyond 3.71, of one degree more beyond
    // 3.50.
    let apart = |t: f64| {
        let spread = 0.01_f64;
        let by = t * spread * (2.0_f64 / 3.0).sqrt();
        let logs = alternating(4, 0.0, spread).chain(alternating(4, by, spread));
        judged(&one_round_each(logs.map(f64::exp_m1)), &Rules::default()).verdict
    };
    assert_ne!(apart(3.6), Verdict::CannotTell(Reason::Drifting));
    assert_eq!(apart(3.8), Verdict::CannotTell(Reason::Drifting));
}

#[test]
fn comparisons_and_looks_share_the_error() {
    let level = |family: usize, looks: &[usize]| {
        Rules {
            family,
            looks: looks.to_vec(),
            ..Rules::default()
        }
        .level()
    };
    for (family, looks, expected) in [
        (1, &[10][..], 0.05),
        (1, &[10, 20, 40], 0.05 / 3.0),
        (100, &[10], 0.0005),
        (0, &[], 0.05),
    ] {
        assert!(
            (level(family, looks) - expected).abs() < 1e-15,
            "{family} {looks:?}: {}",
            level(family, looks)
        );
    }
    // The mean, 2 %, is 4 standard errors of 0.5 %. Student's t with 9 degrees of freedom exceeds
    // 2.26 in 5 % and 4.78 in 0.1 % of the cases (two-sided).
    let blocks = one_round_each(alternating(10, 0.02, 0.015));
    assert_eq!(
        judged(&blocks, &Rules::default()).verdict,
        Verdict::Better(Side::A)
    );
    assert_eq!(
        judged(&blocks, &Rules::default().of_family(100)).verdict,
        TOO_NOISY
    );
}

/// Time of a configuration's launch in ms, by its name and the number of its launches before;
/// `None` fails.
type Time = fn(&str, usize) -> Option<f64>;

/// Makes a device that follows a script, and records what it has launched.
fn script(time: Time, launched: &mut Vec<String>) -> impl Device {
    made(move |config, launches| {
        let Value::Text(name) = &config.0[0] else {
            panic!("{config:?}")
        };
        let mut one = || {
            let number = launched.iter().filter(|other| *other == name).count();
            launched.push(name.clone());
            time(name, number)
        };
        let failed = || Failure {
            kind: FailureKind::Launch,
            message: format!("{name} failed"),
        };
        let times: Option<Vec<f64>> = (0..launches).map(|_| one()).collect();
        times.map_or_else(|| Outcome::Failed(failed()), Outcome::Times)
    })
}

/// Decides between the configuration "default" and others, in blocks of two rounds, with looks
/// after 10, 20 and 40 blocks.
fn contest(candidates: &[&str], time: Time) -> Decision {
    let candidates: Vec<Config> = candidates.iter().map(|name| named(name)).collect();
    let plan = Plan {
        rounds: 2,
        warm_up: 1,
        ..Plan::default()
    };
    decide(
        &mut script(time, &mut Vec::new()),
        &named("default"),
        &candidates,
        &plan,
        &mut NoWatch,
    )
}

fn judgement(candidate: &Candidate) -> &Judgement {
    match &candidate.fate {
        Fate::Judged(judgement) => judgement,
        Fate::Failed(failure) => panic!("{failure:?}"),
    }
}

#[test]
fn a_candidate_that_cannot_catch_up_with_the_leader_is_not_measured_on() {
    let time: Time = |name, launch| match name {
        "far" => Some(0.8),
        "near" => Some(0.95),
        // 10 % faster or 12 % slower, from block to block: it may beat the default, but not the
        // leader.
        "uncertain" => Some(if launch.div_ceil(2) % 2 == 0 {
            0.9
        } else {
            1.12
        }),
        _ => Some(1.0),
    };
    let decision = contest(&["far", "uncertain"], time);
    let [leader, uncertain] = [0, 1].map(|at| judgement(&decision.candidates[at]));
    assert_eq!(
        (leader.verdict, leader.blocks),
        (Verdict::Better(Side::B), 10)
    );
    assert_eq!(
        (uncertain.verdict, uncertain.blocks),
        (TOO_NOISY, 10),
        "{uncertain:?}"
    );
    assert_eq!(
        (decision.ruling, decision.winner),
        (Ruling::Promoted, Some(0))
    );
    // Where the leader is only a little faster, it may still be caught up with.
    assert_eq!(
        judgement(&contest(&["near", "uncertain"], time).candidates[1]).blocks,
        40
    );
}

fn named(name: &str) -> Config {
    Config(vec![Value::Text(name.to_owned())])
}

#[test]
fn a_candidate_is_charged_with_its_own_discarded_samples_and_the_defaults() {
    let mut launched = Vec::new();
    let mut device = script(
        |name, _| Some(if name == "default" { 1.0 } else { 0.9 }),
        &mut launched,
    );
    let plan = Plan {
        rounds: 2,
        warm_up: 1,
        ..Plan::default()
    };
    // Of two blocks with six samples each nothing is left.
    let mut watch = hot(|look| look == 2 || look == 4);
    let candidates = ["one", "other"].map(named);
    let decision = decide(
        &mut device,
        &named("default"),
        &candidates,
        &plan,
        &mut watch,
    );
    for candidate in &decision.candidates {
        let judgement = judgement(candidate);
        assert_eq!(
            (judgement.kept, judgement.discarded, judgement.blocks),
            (40, 8, 10),
            "{judgement:?}"
        );
    }
}

#[test]
fn candidates_share_the_error_and_the_confirmation_has_all_of_it_and_an_order_of_its_own() {
    let time: Time = |name, _| Some(if name == "default" { 1.0 } else { 0.8 });
    let decision = contest(&["one", "other"], time);
    let looks = 3.0;
    for candidate in &decision.candidates {
        assert!((judgement(candidate).level - 0.05 / looks / 2.0).abs() < 1e-12);
    }
    let confirmation = decision.confirmation.unwrap();
    assert!((confirmation.level - 0.05 / looks).abs() < 1e-12);
    // One launch each to warm up, then ten blocks of two rounds; and that again.
    let mut launched = Vec::new();
    let plan = Plan {
        rounds: 2,
        warm_up: 1,
        ..Plan::default()
    };
    let one = [named("one")];
    let decision = decide(
        &mut script(time, &mut launched),
        &named("default"),
        &one,
        &plan,
        &mut NoWatch,
    );
    assert_eq!((decision.ruling, launched.len()), (Ruling::Promoted, 84));
    let (first, second) = launched.split_at(42);
    assert_ne!(first[2..], second[2..]);
}

#[test]
fn alices_interval_is_the_normal_one_of_all_samples() {
    let alice = Rules {
        method: tuner::verdict::Method::Alice,
        ..Rules::default()
    };
    let three = |middle: f64| [middle - 1.0, middle, middle + 1.0];
    // Each side has variance 1: an error of √(1/3 + 1/3), and 1.6003 of the normal interval on each
    // side.
    for (a, b, low, high, verdict) in [
        (2.0, 3.0, -0.3002, 1.3002, Verdict::Same),
        (2.0, 5.0, 0.6998, 2.3002, Verdict::Better(Side::A)),
        (5.0, 4.0, -0.5201, 0.1201, Verdict::Same),
        (5.0, 2.0, -0.9201, -0.2799, Verdict::Better(Side::B)),
    ] {
        let blocks = three(a).into_iter().zip(three(b));
        let blocks: Vec<Block> = blocks
            .map(|(a, b)| Block {
                a: vec![a],
                b: vec![b],
                ..Block::default()
            })
            .collect();
        let judgement = judged(&blocks, &alice);
        assert!(
            (judgement.low - low).abs() < 1e-4 && (judgement.high - high).abs() < 1e-4,
            "{judgement:?}"
        );
        assert_eq!(judgement.verdict, verdict, "{judgement:?}");
    }
    // A single sample has no variance.
    for (a, b) in [(vec![1.0], vec![5.0, 6.0]), (vec![5.0, 6.0], vec![1.0])] {
        let judgement = judged(
            &[Block {
                a,
                b,
                ..Block::default()
            }],
            &alice,
        );
        assert_eq!(judgement.verdict, Verdict::CannotTell(Reason::TooFewBlocks));
    }
}
