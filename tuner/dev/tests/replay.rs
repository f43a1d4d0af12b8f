//! Recorded spaces as devices.

use tuner::{Config, Device, FailureKind, Outcome, Value};
use tuner_score::replay::{Noise, Recording, Replay, mean_ms};
use tuner_score::replay_csv::parse_csv;

const SMALL: &str = "# device=Some GPU; kernel=k; problem_size=[10, 20]; fixed={\"f\": 3}; time_unit=ms\n\
    block,mode,status,mean_ms,median_ms,min_ms,sd_ms,n,compile_ms\n\
    64,b,ok,2.5,2.4,2.0,0.1,10,100\n\
    32,b,ok,1.5,,,,,\n\
    32,a,compile,,,,,,7\n\
    64,a,runtime,,,,,,\n";

fn small() -> Recording {
    parse_csv(SMALL).expect("it is well formed")
}

fn config(block: i64, mode: &str) -> Config {
    Config(vec![Value::Int(block), Value::Text(mode.to_owned())])
}

#[test]
fn rows_become_the_space_and_its_records() {
    let recording = small();
    assert_eq!(
        (recording.device.as_str(), recording.kernel.as_str()),
        ("Some GPU", "k")
    );
    assert_eq!(recording.problem, "[10, 20]");
    assert_eq!(recording.fixed, [("f".to_owned(), Value::Int(3))]);
    assert_eq!(recording.space.len(), 4);
    for index in 0..4 {
        assert_eq!(
            recording.space.index_of(&recording.space.config(index)),
            Some(index)
        );
    }
    let slow = recording
        .space
        .index_of(&config(64, "b"))
        .expect("it is there");
    assert_eq!(recording.outcomes[slow], Outcome::Times(vec![2.5]));
}

#[test]
fn a_replay_measures_what_was_recorded() {
    let mut device = Replay::new(small(), Noise::Mean);
    assert_eq!(device.name(), "Some GPU");
    assert_eq!(
        device.measure(&config(32, "b"), 3),
        Outcome::Times(vec![1.5; 3])
    );
    let kind = |outcome| match outcome {
        Outcome::Failed(failure) => failure.kind,
        Outcome::Times(times) => panic!("{times:?}"),
    };
    assert_eq!(
        kind(device.measure(&config(32, "a"), 1)),
        FailureKind::Compile
    );
    assert_eq!(
        kind(device.measure(&config(64, "a"), 1)),
        FailureKind::Launch
    );
    assert_eq!(
        kind(device.measure(&config(96, "a"), 1)),
        FailureKind::Declined
    );
    assert_eq!(
        kind(device.measure(&Config(vec![]), 1)),
        FailureKind::Declined
    );
}

#[test]
fn resampled_launches_depend_on_seed_configuration_and_number_only() {
    let mut recording = small();
    recording
        .outcomes
        .fill(Outcome::Times(vec![9.0, 1.0, 2.0, 3.0]));
    let times = |outcome| match outcome {
        Outcome::Times(times) => times,
        Outcome::Failed(failure) => panic!("{failure:?}"),
    };
    let mut together = Replay::new(recording, Noise::Resampled { seed: 7 });
    let mut apart = together.clone();
    let all = times(together.measure_index(1, 50));
    let mut one_by_one = Vec::new();
    for _ in 0..50 {
        apart.measure_index(0, 1);
        one_by_one.extend(times(apart.measure_index(1, 1)));
    }
    assert_eq!(all, one_by_one);
    assert!(
        [1.0, 2.0, 3.0]
            .iter()
            .all(|sample| all[1..].contains(sample))
    );
    assert!(
        all[0] == 9.0 && !all[1..].contains(&9.0),
        "the first sample comes first, and is not drawn"
    );
}

#[test]
fn a_bad_file_is_named_with_its_line() {
    let row =
        |line: &str| parse_csv(&format!("a,status,mean_ms\n1,ok,2\n{line}\n")).expect_err(line);
    assert!(row("1,ok,3").contains("lines 2 and 3"), "{}", row("1,ok,3"));
    for line in [
        "2,ok", "2,ok,3,4", "2,fine,3", "2,ok,", "2,ok,-1", "2,ok,NaN", "2,ok,inf", "2,ok,0",
        "2,ok,x",
    ] {
        assert!(row(line).contains("line 3"), "{}", row(line));
    }
    assert!(parse_csv("").is_err());
    assert!(parse_csv("# only=a comment\n").is_err());
    assert!(parse_csv("a,mean_ms\n").is_err());
    assert!(parse_csv("a,a,status,mean_ms\n1,2,ok,3\n").is_err());
    assert!(parse_csv("# time_unit=s\na,status,mean_ms\n").is_err());
}

#[test]
fn all_columns_with_unknown_names_are_parameters() {
    // A header is enough, and without parameters there is one configuration.
    assert!(parse_csv("a,status,mean_ms\n").unwrap().space.is_empty());
    let alone = parse_csv("status,mean_ms\nok,1\n").unwrap().space;
    assert_eq!((alone.len(), alone.config(0)), (1, Config(vec![])));
    let recording = parse_csv("mean_ms,a,status,b\n1.5,2,ok,3\n2.5,2,ok,4\n").unwrap();
    assert_eq!(recording.space.names(), ["a", "b"]);
    let config = Config(vec![Value::Int(2), Value::Int(4)]);
    assert_eq!(
        mean_ms(&recording.outcomes[recording.space.index_of(&config).unwrap()]),
        Some(2.5)
    );
    for (header, said) in [
        ("a,status,mean_ms,mean_ms", "twice"),
        ("n,status,mean_ms,n", "twice"),
        ("status,status,mean_ms", "twice"),
        ("n,status,mean_ms", "\"n\" before \"status\""),
    ] {
        let error = parse_csv(&format!("{header}\n")).expect_err(header);
        assert!(error.contains(said), "{error}");
    }
}
