//! Decisions on made devices and on fixed samples, with numbers that are worked out by hand. Those
//! on recorded noise are in `dev/tests/recordings.rs`.

use chacha20::ChaCha8Rng;
use rand::SeedableRng as _;
use rand_distr::{Distribution as _, Normal};
use tuner::compare::{Candidate, Decision, Fate, Ruling, turns};

use crate::prelude::*;

const TOO_NOISY: Verdict = CannotTell(Reason::TooNoisy);
const TOO_FEW: Verdict = CannotTell(Reason::TooFewBlocks);
const DRIFTING: Verdict = CannotTell(Reason::Drifting);
const THROTTLED: Verdict = CannotTell(Reason::Throttled);
const A: Verdict = Better(Side::A);
const B: Verdict = Better(Side::B);

fn takes(time: f64, word: &str) -> Config {
    Config(vec![time.into(), word.into()])
}

/// Makes a device whose times are the first value with normal noise, and which fails in various
/// ways if the second value asks for it.
fn quiet(spread: f64) -> impl Device {
    let noise = Normal::new(1.0, spread).unwrap();
    let (mut lot, mut launched) = (ChaCha8Rng::seed_from_u64(5), 0);
    made(move |config, launches| {
        launched += launches;
        let [Value::Float(time), Value::Text(word)] = &config.0[..] else {
            panic!("{config:?}")
        };
        match word.as_str() {
            "wrong" => Failed(FailureKind::WrongResult.because("")),
            "late" if launched > 500 => Failed(failed("late")),
            "nan" => Times(vec![f64::NAN; launches]),
            "none" => Times(Vec::new()),
            _ => Times(
                (0..launches)
                    .map(|_| time * noise.sample(&mut lot))
                    .collect(),
            ),
        }
    })
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
        (0.4, "wrong"),
        (0.5, "late"),
        (0.6, "nan"),
        (0.7, "none"),
        (0.8, "plain"),
    ]
    .map(|(time, word)| takes(time, word));
    let decision = contest(&fast);
    assert_eq!(
        (&decision.chosen, decision.ruling),
        (&fast[4], Ruling::Promoted)
    );
    let kinds = decision.candidates[..4]
        .iter()
        .map(|candidate| match &candidate.fate {
            Fate::Failed(failure) => failure.kind,
            Fate::Judged(judgement) => panic!("{judgement:?}"),
        });
    let kinds: Vec<_> = kinds.collect();
    assert_eq!(kinds[..2], [FailureKind::WrongResult, FailureKind::Launch]);
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
    // in fewer parameters; otherwise, the faster.
    for (other, chosen) in [(0.8999, 1), (0.88, 0)] {
        let both = [takes(other, "other"), takes(0.9, "plain")];
        assert_eq!(contest(&both).chosen, both[chosen]);
    }
}

#[test]
fn a_winner_by_luck_is_not_confirmed() {
    let (mut quiet, mut launched) = (quiet(0.001), 0);
    let default = takes(1.0, "plain");
    // The candidate is lucky in the first round.
    let mut device = made(|config, launches| {
        let luck = if launched < 320 && *config != default {
            0.97
        } else {
            1.0
        };
        launched += launches;
        let Times(times) = quiet.measure(config, launches) else {
            panic!()
        };
        Times(times.into_iter().map(|time| luck * time).collect())
    });
    let lucky = [takes(1.0, "lucky")];
    let decision = decide(
        &mut device,
        &default,
        &lucky,
        &Plan::default(),
        &mut NoWatch,
    );
    assert_eq!(decision.winner, Some(0));
    assert!(
        matches!(decision.ruling, Ruling::NotConfirmed(_)),
        "{:?}",
        decision.ruling
    );
    assert_eq!(decision.chosen, default);
}

#[test]
fn verdicts_say_why_they_cannot_tell() {
    for (spread, b, rounds, blocks, verdict) in [
        (0.001, 1.0, 15, 10, Same),
        (0.001, 1.01, 15, 10, A),
        (0.001, 0.99, 15, 10, B),
        (0.1, 1.001, 15, 10, TOO_NOISY),
        (0.001, 1.1, 15, 3, TOO_FEW),
        // A block may have one sample per side.
        (0.001, 1.01, 1, 10, A),
    ] {
        let plan = Plan {
            rules: Rules::default().fixed(blocks),
            rounds,
            ..Plan::default()
        };
        let [a, b] = [1.0, b].map(|time| takes(time, ""));
        let compared = compare(&mut quiet(spread), &a, &b, &plan, &mut NoWatch).unwrap();
        assert_eq!(compared.judgement.verdict, verdict, "{spread} {b:?}");
    }
}

#[test]
fn the_rules_limit_the_share_of_discarded_samples() {
    // Of 14 samples and those that were discarded: 26 %, 30 %, 33 %.
    for (discarded, verdict) in [(5, A), (6, A), (7, THROTTLED)] {
        let blocks = vec![
            Block {
                discarded,
                ..block(&[1.0; 7], &[2.0; 7])
            };
            12
        ];
        assert_eq!(
            judge(&blocks, &Rules::default()).verdict,
            verdict,
            "{discarded}"
        );
    }
}

#[test]
fn degenerate_blocks_give_no_verdict_and_no_panic() {
    let pair = |a: f64, b: f64| block(&[a], &[b]);
    let rules = Rules::default().fixed(10);
    let none = judge(&[], &rules);
    assert_eq!(
        (none.verdict, judge(&[pair(1.0, 2.0)], &rules).verdict),
        (TOO_FEW, TOO_FEW)
    );
    let [nan, infinite] = [pair(f64::NAN, 1.0), pair(1.0, f64::INFINITY)];
    let nonsense = [
        nan,
        infinite,
        pair(0.0, 1.0),
        pair(-1.0, 1.0),
        Block::default(),
    ];
    let judged = judge(&nonsense, &rules);
    assert_eq!(
        (judged.kept, judged.discarded, judged.verdict),
        (0, 8, THROTTLED)
    );
    // Identical times without any spread (a coarse clock) are the same, not a division by zero.
    for (b, verdict) in [(1.0, Same), (1.01, A)] {
        assert_eq!(judge(&vec![pair(1.0, b); 10], &rules).verdict, verdict);
    }
    let text = serde_json::to_string(&none).unwrap();
    let back: Judgement = serde_json::from_str(&text).unwrap();
    assert!(back.low.is_nan() && back.verdict == none.verdict, "{text}");
}

/// Throttled at the looks that `bad` names.
fn hot(bad: fn(usize) -> bool) -> impl Watch {
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
    let run = |rules: Rules, bad: fn(usize) -> bool| {
        let plan = Plan {
            rules,
            ..Plan::default()
        };
        let [a, b] = [1.0, 1.01].map(|time| takes(time, ""));
        compare(&mut quiet(0.001), &a, &b, &plan, &mut hot(bad)).unwrap()
    };
    let ten = || Rules::default().fixed(10);
    let some = run(ten(), |look| look % 9 == 3);
    assert_eq!(some.judgement.verdict, A);
    assert!(some.judgement.discarded > 0 && some.judgement.kept + some.judgement.discarded == 300);
    assert!(
        some.blocks
            .iter()
            .all(|block| block.states.len() == block.a.len().div_ceil(2))
    );
    assert_eq!(
        run(ten(), |look| look % 2 == 0).judgement.verdict,
        THROTTLED
    );
    let all = run(ten(), |_| true);
    // Nothing will come of it: it stops early.
    assert_eq!((all.judgement.verdict, all.blocks.len()), (THROTTLED, 4));
    let said = Some("heat: wait until its clock is free");
    assert_eq!(
        (some.trouble.is_some(), all.trouble.as_deref()),
        (true, said)
    );
    // With more looks to come, the first one ends it.
    let half = run(Rules::default(), |look| look % 2 == 0);
    assert_eq!((half.judgement.verdict, half.blocks.len()), (THROTTLED, 10));
}

#[test]
fn every_round_gives_equal_turns() {
    let mut lot = ChaCha8Rng::seed_from_u64(1);
    for (sides, rounds) in (1..6).flat_map(|sides| (0..6).map(move |rounds| (sides, rounds))) {
        let all = turns(sides, rounds, &mut lot);
        assert_eq!(all.len(), rounds);
        for mut turn in all.clone() {
            turn.sort_unstable();
            assert!(turn.into_iter().eq(0..sides));
        }
        assert!(
            all.chunks_exact(2)
                .all(|pair| pair[0].iter().eq(pair[1].iter().rev()))
        );
    }
    // Both sides come first about equally often.
    let first = (0..1000)
        .filter(|_| turns(2, 1, &mut lot)[0][0] == 0)
        .count();
    assert!((400..600).contains(&first), "{first}");
}

/// Makes blocks of one round each, in which A takes 1 ms and B longer by the given differences.
fn one_round_each(differences: impl IntoIterator<Item = f64>) -> Vec<Block> {
    differences
        .into_iter()
        .map(|by| block(&[1.0], &[1.0 + by]))
        .collect()
}

/// `count` differences, in turn `centre - spread` and `centre + spread`.
fn alternating(count: usize, centre: f64, spread: f64) -> impl Iterator<Item = f64> {
    (0..count).map(move |i| centre + if i % 2 == 0 { -spread } else { spread })
}

/// Judged with one look, at all blocks.
fn judged(blocks: &[Block], rules: &Rules) -> Judgement {
    judge(blocks, &rules.fixed(blocks.len()))
}

/// Judged by the usual rules.
fn verdict(blocks: &[Block]) -> Verdict {
    judged(blocks, &Rules::default()).verdict
}

#[test]
fn a_difference_that_is_certain_but_within_the_zone_is_not_better() {
    // Mean 0.15 %, standard error 0.0443 %; Student's t of 9 degrees has 5 % beyond 2.262: from
    // 0.05 % to 0.25 %.
    let blocks = one_round_each(alternating(10, 0.0015, 0.00133));
    let Judgement {
        low, high, verdict, ..
    } = judged(&blocks, &Rules::default());
    assert!(
        (low - 0.0005).abs() < 1e-5 && (high - 0.0025).abs() < 1e-5,
        "{low} {high}"
    );
    assert_eq!(verdict, TOO_NOISY);
    let smaller_zone = Rules {
        indifference: 0.001,
        ..Rules::default()
    };
    assert_eq!(judged(&blocks, &smaller_zone).verdict, A);
}

#[test]
fn an_interval_without_0_needs_the_sign_test_too() {
    // Of the 32 patterns of signs, 4 give as large a sum as the first: the small one's sign is of
    // no importance. Of the second, the 2 with equal signs, as few as there can be.
    for (small, verdict) in [(-0.001, TOO_NOISY), (0.001, A)] {
        let blocks = one_round_each([0.05, 0.05, 0.05, 0.05, small]);
        let judgement = judged(&blocks, &Rules::default());
        assert!(
            judgement.low > Rules::default().indifference,
            "{judgement:?}"
        );
        assert_eq!(judgement.verdict, verdict);
    }
}

#[test]
fn drift_within_mirrored_pairs_is_not_noise() {
    for (a, b, expected) in [
        // A B B A on a machine that slows down by 0.1 ms per launch, with B slower by 0.05 ms: of
        // each pair of rounds B is slower by 0.1 ms. Of the rounds alone, by 0.15 ms and then
        // faster by 0.05 ms, which random signs often give.
        (&[1.0, 1.3][..], &[1.15, 1.25][..], A),
        // Blocks that agree are not enough if the pairs of rounds in them disagree: for four pairs
        // of 0.3 ms more and four of 0.1 ms less, random signs give as large a sum in 28 % of all
        // cases.
        (&[1.0; 4], &[1.15, 1.15, 0.95, 0.95], TOO_NOISY),
        (&[1.0; 4], &[1.05; 4], A),
        // More launches of one side: there are no pairs of rounds, and the block is drawn whole.
        (&[1.0, 1.3], &[1.15, 1.25, 1.35], A),
    ] {
        assert_eq!(verdict(&vec![block(a, b); 4]), expected, "{a:?} {b:?}");
    }
}

#[test]
fn a_constant_or_growing_difference_is_a_difference_and_a_sudden_one_is_drift() {
    // 1.5 % slower, and then 2.5 %. As fast, or slower by less than matters, and then 1 % slower:
    // the interval leaves out 0 just the same.
    for (from, verdict) in [(0.015, A), (0.0, DRIFTING), (0.001, DRIFTING)] {
        let growing = alternating(10, from, 0.005).chain(alternating(10, from + 0.01, 0.005));
        let judgement = judged(&one_round_each(growing), &Rules::default());
        assert!(
            judgement.low > 0.0 && judgement.verdict == verdict,
            "{from}: {judgement:?}"
        );
    }
}

#[test]
fn halves_disagree_if_students_t_of_six_degrees_says_so() {
    // Eight blocks in two halves: t of 8 - 2 degrees has 1 % beyond 3.71, of one degree more beyond
    // 3.50.
    let apart = |t: f64| {
        let spread = 0.01_f64;
        let by = t * spread * (2.0_f64 / 3.0).sqrt();
        let logs = alternating(4, 0.0, spread).chain(alternating(4, by, spread));
        verdict(&one_round_each(logs.map(f64::exp_m1)))
    };
    assert_ne!(apart(3.6), DRIFTING);
    assert_eq!(apart(3.8), DRIFTING);
}

#[test]
fn comparisons_and_looks_share_the_error() {
    for (family, looks, expected) in [
        (1, &[10][..], 0.05),
        (1, &[10, 20, 40], 0.05 / 3.0),
        (100, &[10], 0.0005),
        (0, &[], 0.05),
    ] {
        let level = Rules {
            family,
            looks: looks.to_vec(),
            ..Rules::default()
        }
        .level();
        assert!(
            (level - expected).abs() < 1e-15,
            "{family} {looks:?}: {level}"
        );
    }
    // The mean, 2 %, is 4 standard errors of 0.5 %. Student's t with 9 degrees of freedom exceeds
    // 2.26 in 5 % and 4.78 in 0.1 % of the cases (two-sided).
    let blocks = one_round_each(alternating(10, 0.02, 0.015));
    assert_eq!(verdict(&blocks), A);
    assert_eq!(
        judged(&blocks, &Rules::default().of_family(100)).verdict,
        TOO_NOISY
    );
}

/// Time of a configuration's launch in ms, by its name and the number of its launches before.
type Time = fn(&str, usize) -> f64;

fn named(name: &str) -> Config {
    Config(vec![name.into()])
}

/// Decides between the configuration "default" and others, in blocks of two rounds, with looks
/// after 10, 20 and 40 blocks. Returns the launches as well.
fn scripted(candidates: &[&str], time: Time, watch: &mut dyn Watch) -> (Decision, Vec<String>) {
    let mut launched: Vec<String> = Vec::new();
    let mut device = made(|config, launches| {
        let name = config.0[0].to_string();
        let mut one = || {
            let number = launched.iter().filter(|other| **other == name).count();
            launched.push(name.clone());
            time(&name, number)
        };
        Times((0..launches).map(|_| one()).collect())
    });
    let candidates: Vec<Config> = candidates.iter().map(|name| named(name)).collect();
    let plan = Plan {
        rounds: 2,
        warm_up: 1,
        ..Plan::default()
    };
    let decision = decide(&mut device, &named("default"), &candidates, &plan, watch);
    drop(device);
    (decision, launched)
}

fn judgement(candidate: &Candidate) -> &Judgement {
    match &candidate.fate {
        Fate::Judged(judgement) => judgement,
        Fate::Failed(failure) => panic!("{failure:?}"),
    }
}

#[test]
fn a_candidate_that_cannot_catch_up_is_not_measured_further() {
    let time: Time = |name, launch| match name {
        "far" => 0.8,
        "near" => 0.95,
        // 10 % faster or 12 % slower, from block to block: it may beat the default, but not the
        // leader.
        "uncertain" if launch.div_ceil(2) % 2 == 0 => 0.9,
        "uncertain" => 1.12,
        _ => 1.0,
    };
    let (decision, _) = scripted(&["far", "uncertain"], time, &mut NoWatch);
    let ends = [0, 1].map(|at| judgement(&decision.candidates[at]));
    assert_eq!(
        ends.map(|end| (end.verdict, end.blocks)),
        [(B, 10), (TOO_NOISY, 10)]
    );
    assert_eq!(
        (decision.ruling, decision.winner),
        (Ruling::Promoted, Some(0))
    );
    // Where the leader is only a little faster, it may still be caught up with.
    let (decision, _) = scripted(&["near", "uncertain"], time, &mut NoWatch);
    assert_eq!(judgement(&decision.candidates[1]).blocks, 40);
}

#[test]
fn a_candidate_is_charged_with_its_own_discarded_samples_and_the_defaults() {
    let time: Time = |name, _| if name == "default" { 1.0 } else { 0.9 };
    // Of two blocks with six samples each nothing is left.
    let mut watch = hot(|look| look == 2 || look == 4);
    for candidate in &scripted(&["one", "other"], time, &mut watch).0.candidates {
        let Judgement {
            kept,
            discarded,
            blocks,
            ..
        } = *judgement(candidate);
        assert_eq!((kept, discarded, blocks), (40, 8, 10));
    }
}

#[test]
fn candidates_share_the_error_and_the_confirmation_has_all_of_it() {
    let time: Time = |name, _| if name == "default" { 1.0 } else { 0.8 };
    let (decision, _) = scripted(&["one", "other"], time, &mut NoWatch);
    let looks = 3.0;
    for candidate in &decision.candidates {
        assert!((judgement(candidate).level - 0.05 / looks / 2.0).abs() < 1e-12);
    }
    assert!((decision.confirmation.unwrap().level - 0.05 / looks).abs() < 1e-12);
    // One launch each to warm up, then ten blocks of two rounds; and that again.
    let (decision, launched) = scripted(&["one"], time, &mut NoWatch);
    assert_eq!((decision.ruling, launched.len()), (Ruling::Promoted, 84));
    assert_ne!(launched[2..42], launched[44..]);
}

#[test]
fn alices_interval_is_the_normal_one_of_all_samples() {
    let alice = Rules {
        method: Method::Alice,
        ..Rules::default()
    };
    // Each side has variance 1: an error of √(1/3 + 1/3), and 1.6003 of the normal interval on each
    // side.
    for (a, b, low, high, verdict) in [
        (2.0, 3.0, -0.3002, 1.3002, Same),
        (2.0, 5.0, 0.6998, 2.3002, A),
        (5.0, 4.0, -0.5201, 0.1201, Same),
        (5.0, 2.0, -0.9201, -0.2799, B),
    ] {
        let blocks = [-1.0, 0.0, 1.0].map(|by| block(&[a + by], &[b + by]));
        let found = judged(&blocks, &alice);
        assert!(
            (found.low - low).abs() < 1e-4 && (found.high - high).abs() < 1e-4,
            "{found:?}"
        );
        assert_eq!(found.verdict, verdict, "{found:?}");
    }
    // A single sample has no variance.
    for (a, b) in [(&[1.0][..], &[5.0, 6.0][..]), (&[5.0, 6.0], &[1.0])] {
        assert_eq!(judged(&[block(a, b)], &alice).verdict, TOO_FEW);
    }
}
