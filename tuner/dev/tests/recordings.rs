//! The recorded spaces and noise series, which are not part of the repository.
//!
//! `TUNER_DATA=folder cargo test -p tuner-score -- --ignored --nocapture` prints the rates of the
//! decisions on recorded noise, which are the tables of the documentation. TUNER_TRIALS=N makes N
//! times as many trials.

use std::path::{Path, PathBuf};

use chacha20::ChaCha8Rng;
use flate2::read::GzDecoder;
use rand::{RngExt as _, SeedableRng as _};
use tuner::compare::{Plan, Ruling, decide, turns};
use tuner::verdict::{Block, Judgement, Rules, Side, Verdict, judge};
use tuner::watch::NoWatch;
use tuner::{Config, Device, Outcome, Value, from_fn};
use tuner_score::interchange::read_recording;
use tuner_score::replay::{Recording, mean_ms};

/// Returns the path of a recorded file, which must exist.
fn recorded(name: &str) -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/tuning");
    let path = std::env::var_os("TUNER_DATA")
        .map_or_else(beside, PathBuf::from)
        .join(name);
    assert!(
        path.exists(),
        "{name} is not there: TUNER_DATA names the folder of the recordings"
    );
    path
}

// The three recorded series: 1000 runs of 30 or 32 launches of one configuration.
const LOCKED: &str = "gemm_A4000_1000reps_locked_clock.json.gz";
const OBSERVED: &str = "conv_A4000_1000reps_observers_cupy11.2.json.gz";
const FREE: &str = "conv_A4000_1000reps_variable_clock_cupy12.3.json.gz";

/// Returns the runs of a series in the order in which they were recorded.
fn series(name: &str) -> Vec<Vec<f64>> {
    let file = std::fs::File::open(recorded(&format!("noise/{name}"))).unwrap();
    let recording: serde_json::Value = serde_json::from_reader(GzDecoder::new(file)).unwrap();
    let mut runs: Vec<(i64, Vec<f64>)> = recording["cache"]
        .as_object()
        .unwrap()
        .values()
        .map(|run| {
            let times = run["times"]
                .as_array()
                .unwrap()
                .iter()
                .map(|t| t.as_f64().unwrap())
                .collect();
            (run["REPEAT"].as_i64().unwrap(), times)
        })
        .collect();
    runs.sort_by_key(|run| run.0);
    assert_eq!(runs.len(), 1000);
    runs.into_iter().map(|run| run.1).collect()
}

/// Makes a block of one recorded run: its times go to A and B alternately, and B's times are
/// stretched by `factor`.
fn block_of(run: &[f64], factor: f64, lot: &mut ChaCha8Rng) -> Block {
    let mut block = Block::default();
    let mut times = run.iter();
    for side in turns(2, run.len() / 2, lot).into_iter().flatten() {
        let time = *times.next().unwrap();
        if side == 0 {
            block.a.push(time);
        } else {
            block.b.push(time * factor);
        }
    }
    block
}

/// `count` blocks from successive runs, starting anywhere.
fn successive(runs: &[Vec<f64>], count: usize, factor: f64, lot: &mut ChaCha8Rng) -> Vec<Block> {
    let start = lot.random_range(0..=runs.len() - count);
    runs[start..start + count]
        .iter()
        .map(|run| block_of(run, factor, lot))
        .collect()
}

/// `count` blocks from random runs.
fn scattered(runs: &[Vec<f64>], count: usize, factor: f64, lot: &mut ChaCha8Rng) -> Vec<Block> {
    (0..count)
        .map(|_| block_of(&runs[lot.random_range(0..runs.len())], factor, lot))
        .collect()
}

/// Judges at every look, as a measurement would.
fn in_looks(blocks: &[Block], rules: &Rules) -> Judgement {
    rules
        .looks
        .iter()
        .map(|look| judge(&blocks[..*look], rules))
        .find(|judgement| !matches!(judgement.verdict, Verdict::CannotTell(_)))
        .unwrap_or_else(|| judge(&blocks[..rules.horizon()], rules))
}

/// Returns `count`, multiplied by the factor that the environment asks for.
fn trials(count: usize) -> usize {
    let times = std::env::var("TUNER_TRIALS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    count * times
}

fn share(hits: usize, of: usize) -> f64 {
    hits as f64 / of as f64
}

fn is_better(judgement: &Judgement) -> bool {
    matches!(judgement.verdict, Verdict::Better(_))
}

#[test]
#[ignore = "needs the recorded noise"]
fn identical_configurations_are_rarely_called_different_on_recorded_noise() {
    let all_trials = trials(400);
    for name in [LOCKED, OBSERVED, FREE] {
        let runs = series(name);
        let mut lot = ChaCha8Rng::seed_from_u64(11);
        // Without the zone of indifference, too: the interval itself must hold.
        for (zone, most) in [(0.002, 0.05), (0.0, 0.08)] {
            let rules = Rules {
                indifference: zone,
                ..Rules::default()
            };
            for (what, looks) in [
                ("10", vec![10]),
                ("40", vec![40]),
                ("10, 20, 40", vec![10, 20, 40]),
            ] {
                let rules = Rules {
                    looks,
                    ..rules.clone()
                };
                let mut false_alarms = 0;
                for trial in 0..all_trials {
                    let blocks = match trial % 2 {
                        0 => successive(&runs, rules.horizon(), 1.0, &mut lot),
                        _ => scattered(&runs, rules.horizon(), 1.0, &mut lot),
                    };
                    false_alarms += usize::from(is_better(&in_looks(&blocks, &rules)));
                }
                let rate = share(false_alarms, all_trials);
                eprintln!(
                    "A/A {name}, looks at {what}, zone {zone}: {:.2} % called different",
                    100.0 * rate
                );
                // Four standard errors of a share of 5 % of 400 are 4.4 %; only the zone-free rows
                // need any of it.
                assert!(rate <= most, "{name} {what} {zone}: {rate}");
            }
        }
    }
}

#[test]
#[ignore = "needs the recorded noise"]
fn a_family_of_a_hundred_equal_candidates_stays_within_the_error_of_one() {
    let families = trials(60);
    for name in [LOCKED, OBSERVED, FREE] {
        let runs = series(name);
        for zone in [0.002, 0.0] {
            let rules = Rules {
                indifference: zone,
                looks: vec![10],
                ..Rules::default()
            }
            .of_family(100);
            let mut lot = ChaCha8Rng::seed_from_u64(12);
            let wrong = (0..families)
                .filter(|_| {
                    (0..100)
                        .any(|_| is_better(&judge(&successive(&runs, 10, 1.0, &mut lot), &rules)))
                })
                .count();
            eprintln!(
                "family of 100, {name}, zone {zone}: {wrong} of {families} families with a false alarm"
            );
            assert!(
                wrong
                    <= if zone > 0.0 {
                        families / 20
                    } else {
                        families / 8
                    },
                "{name}, zone {zone}: {wrong}"
            );
        }
    }
}

#[test]
#[ignore = "needs the recorded noise"]
fn small_true_differences_are_found_in_few_blocks() {
    let all_trials = trials(200);
    for (name, factor, looks, least) in [
        (LOCKED, 1.0025, vec![10], 0.9),
        (LOCKED, 1.0 / 1.0025, vec![10], 0.9),
        (OBSERVED, 1.0025, vec![10], 0.9),
        (FREE, 1.01, vec![40], 0.8),
        (FREE, 1.01, vec![10, 20, 40], 0.8),
    ] {
        let runs = series(name);
        let rules = Rules {
            looks,
            ..Rules::default()
        };
        let side = if factor > 1.0 { Side::A } else { Side::B };
        let mut lot = ChaCha8Rng::seed_from_u64(13);
        let found = (0..all_trials)
            .filter(|_| {
                let blocks = successive(&runs, rules.horizon(), factor, &mut lot);
                in_looks(&blocks, &rules).verdict == Verdict::Better(side)
            })
            .count();
        let rate = share(found, all_trials);
        eprintln!(
            "{name}, x {factor:.4}, looks {:?}: found in {:.1} %",
            rules.looks,
            100.0 * rate
        );
        assert!(rate >= least, "{name} {factor}: {rate}");
    }
}

/// Replays a series launch by launch, from a random start; the first value of a configuration is
/// the factor by which it is slower than the recorded one.
fn replay(runs: &[Vec<f64>], lot: &mut ChaCha8Rng) -> impl Device {
    let recorded = runs.concat();
    let mut at = lot.random_range(0..recorded.len());
    from_fn("replayed", move |config, launches| {
        let mut one = || {
            at = (at + 1) % recorded.len();
            recorded[at] * factor(config)
        };
        Outcome::Times((0..launches).map(|_| one()).collect())
    })
}

fn factor(config: &Config) -> f64 {
    let Value::Float(factor) = config.0[0] else {
        panic!("not a factor: {:?}", config.0)
    };
    factor
}

fn slower(by: f64) -> Config {
    Config(vec![Value::Float(1.0 + by)])
}

#[test]
#[ignore = "needs the recorded noise"]
fn slower_candidates_are_not_promoted_and_a_faster_one_is() {
    let all_trials = trials(40) as u64;
    let (mut wrong, mut all) = (0, 0);
    for (name, gain) in [(LOCKED, 0.005), (OBSERVED, 0.01), (FREE, 0.03)] {
        let runs = series(name);
        let mut lot = ChaCha8Rng::seed_from_u64(16);
        let mut promoted = 0;
        for seed in 0..all_trials {
            let plan = Plan {
                seed,
                warm_up: 0,
                ..Plan::default()
            };
            let mut device = replay(&runs, &mut lot);
            let candidates: Vec<Config> = (0..20)
                .map(|i| slower(0.0055 + 0.0005 * f64::from(i)))
                .collect();
            let decision = decide(&mut device, &slower(0.0), &candidates, &plan, &mut NoWatch);
            wrong += usize::from(decision.ruling == Ruling::Promoted);
            all += 1;
            let mut with_one = candidates;
            with_one.push(slower(-gain));
            let decision = decide(&mut device, &slower(0.0), &with_one, &plan, &mut NoWatch);
            wrong += usize::from(factor(&decision.chosen) > 1.005);
            promoted += usize::from(decision.chosen == slower(-gain));
            all += 1;
        }
        eprintln!(
            "{name}: one of 21 faster by {:.1} %: promoted in {promoted} of {all_trials}",
            100.0 * gain
        );
        assert!(
            promoted as f64 >= 0.8 * all_trials as f64,
            "{name}: {promoted}"
        );
    }
    eprintln!("promotions of a configuration slower than the default by > 0.5 %: {wrong} of {all}");
    assert!(wrong * 100 <= all, "{wrong} of {all}");
}

#[test]
#[ignore = "needs the recorded spaces"]
fn a_cache_and_its_compact_form_agree() {
    let raw = recorded("raw/convolution_milo_A100.json.gz");
    let compact = recorded("compact/convolution_milo_A100.csv.gz");
    let (raw, compact) = (
        read_recording(&raw).unwrap(),
        read_recording(&compact).unwrap(),
    );
    assert_eq!(
        (&raw.device, &raw.kernel, &raw.problem),
        (&compact.device, &compact.kernel, &compact.problem)
    );
    for index in 0..compact.space.len() {
        let mut values = compact.space.config(index).0;
        values.extend([Value::Int(1), Value::Int(15), Value::Int(15)]);
        let outcome = &raw.outcomes[raw.space.index_of(&Config(values)).unwrap()];
        match (mean_ms(outcome), mean_ms(&compact.outcomes[index])) {
            (Some(raw), Some(compact)) => {
                assert!((raw - compact).abs() <= 1e-6 * raw, "{raw} {compact}");
            }
            (raw, compact) => assert_eq!(raw, compact),
        }
    }
}

#[test]
#[ignore = "needs the recorded spaces"]
fn a_t4_file_agrees_with_the_cache_it_was_made_from() {
    let read = |name: &str| {
        let Recording {
            space, outcomes, ..
        } = read_recording(&recorded(name)).unwrap();
        let configs: Vec<_> = (0..space.len()).map(|index| space.config(index)).collect();
        (space.names(), configs, outcomes)
    };
    assert!(
        read("raw/convolution_milo_A100.json.gz") == read("raw/convolution_milo_A100_T4.json.gz")
    );
}

#[test]
#[ignore = "needs the recorded spaces"]
fn the_shared_recordings_are_read() {
    let counts = [
        ("convolution_RTX_3090", 6768, 5220),
        ("convolution_milo_A100", 4362, 4201),
        ("convolution_milo_A4000", 4362, 4201),
        ("convolution_milo_W6600", 4362, 4362),
        ("dedispersion_milo_A6000", 11130, 11130),
        ("dedispersion_milo_MI250X", 11130, 11130),
        ("dedispersion_milo_W6600", 11130, 11130),
        ("gemm_RTX_3090", 17956, 17956),
        ("pnpoly_RTX_3090", 4092, 3774),
    ];
    for (name, rows, valid) in counts {
        let path = recorded(&format!("compact/{name}.csv.gz"));
        let recording = read_recording(&path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(recording.space.len(), rows, "{name}");
        assert_eq!(
            recording.outcomes.iter().filter_map(mean_ms).count(),
            valid,
            "{name}"
        );
    }
}
