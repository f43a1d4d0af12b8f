//! Any program: commands, builds, checks, numbers from output, and what goes wrong.
#![cfg(unix)]

use std::path::Path;
use std::time::{Duration, Instant};

use tuner::budget::Budget;
use tuner::objective::Objective;
use tuner::program::{ProgramDevice, Reading, Template};
use tuner::session::Session;
use tuner::store::{DeviceIdentity, Store, Task, TunableIdentity, Workload};
use tuner::strategy::StrategyKind;
use tuner::{
    Config, Device, Failure, FailureKind, Outcome, Space, SpaceBuilder, Value, parse_toml,
    read_space, tune,
};

fn space() -> Space {
    SpaceBuilder::new()
        .ints("tile", [8, 16, 32])
        .choices("mode", ["a", "b c"])
        .build()
        .unwrap()
}

fn config(tile: i64, mode: &str) -> Config {
    Config(vec![Value::Int(tile), Value::from(mode)])
}

fn failure(outcome: Outcome) -> Failure {
    match outcome {
        Outcome::Failed(failure) => failure,
        Outcome::Times(times) => panic!("{times:?}"),
    }
}

#[test]
fn values_come_by_place_and_by_environment_and_numbers_from_the_output() {
    let mut program = ProgramDevice::new(&space(), "echo t={tile} m={mode} e=$TUNE_tile$TUNE_mode");
    program.reading = Reading::regex("[te]=([0-9]+)").unwrap();
    assert_eq!(
        program.measure(&config(16, "a"), 4),
        Outcome::Times(vec![16.0; 4])
    );
    program.reading = Reading::regex("m=b c e=([0-9]+)b c").unwrap();
    assert_eq!(
        program.measure(&config(32, "b c"), 1),
        Outcome::Times(vec![32.0])
    );
    // Where none is read, the time is the duration of the process.
    let mut program = ProgramDevice::new(&space(), "sleep 0.05");
    let Outcome::Times(times) = program.measure(&config(8, "a"), 2) else {
        panic!()
    };
    assert!(
        times.len() == 2 && times.iter().all(|time| *time >= 50.0),
        "{times:?}"
    );
}

#[test]
fn several_samples_of_a_launch_count_and_a_rate_is_better_when_it_is_larger() {
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    let command = format!(
        "echo x >> {}; echo '{{{{\"rate\": [100, 200, 400]}}}}'",
        count.display()
    );
    let mut program = ProgramDevice::new(&space(), &command);
    (program.reading, program.objective) = (Reading::json("/rate").unwrap(), Objective::Rate);
    assert_eq!(
        program.measure(&config(8, "a"), 5),
        Outcome::Times(vec![10.0, 5.0, 2.5, 10.0, 5.0])
    );
    assert_eq!(
        std::fs::read_to_string(count).unwrap().lines().count(),
        2,
        "two launches gave five samples"
    );
}

#[test]
fn failures_are_classified_and_quote_the_programs_last_output() {
    let of =
        |command: &str| failure(ProgramDevice::new(&space(), command).measure(&config(8, "a"), 1));
    let said = of("echo no memory >&2; exit 3");
    assert_eq!(said.kind, FailureKind::Launch);
    assert!(
        said.message.contains("exit status: 3") && said.message.contains("no memory"),
        "{}",
        said.message
    );
    // Where it says more than is read, its end.
    let said = of("yes no memory | head -c 17000000 >&2; echo; echo the last word >&2; exit 3");
    assert!(
        said.message.ends_with("no memory\nthe last word"),
        "{}",
        said.message
    );
    assert!(of("kill -9 $$").message.contains("signal: 9"));
    assert!(of("./there-is-no-such-program").message.contains("127"));
    let mut silent = ProgramDevice::new(&space(), "echo done");
    silent.reading = Reading::regex("([0-9]+) ms").unwrap();
    assert!(
        failure(silent.measure(&config(8, "a"), 1))
            .message
            .contains("no number in its output: \"done")
    );
    silent.reading = Reading::regex("d(one)").unwrap();
    assert!(
        failure(silent.measure(&config(8, "a"), 1))
            .message
            .contains("not a number")
    );
    let mut zero = ProgramDevice::new(&space(), "echo 0");
    zero.reading = Reading::regex("0").unwrap();
    assert!(
        failure(zero.measure(&config(8, "a"), 1))
            .message
            .contains("not a positive number")
    );
}

#[test]
fn a_launch_that_takes_too_long_ends_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let alive = folder.path().join("alive");
    let command = format!("(sleep 2; touch {}) & wait", alive.display());
    let mut program = ProgramDevice::new(&space(), &command);
    program.time_out = Duration::from_millis(200);
    let begun = Instant::now();
    assert_eq!(
        failure(program.measure(&config(8, "a"), 1)).kind,
        FailureKind::TimeOut
    );
    assert!(
        begun.elapsed() < Duration::from_millis(1900),
        "it was not waited for"
    );
    std::thread::sleep(Duration::from_millis(2200));
    assert!(!alive.exists(), "what the shell had started went on");
}

#[test]
fn background_processes_of_a_program_end_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let command = format!(
        "exec 3>{}; (sleep 5; echo alive >&3) & echo 1",
        pipe.display()
    );
    // It ends with the last process that could write to the pipe.
    let reader = std::thread::spawn(move || std::fs::read_to_string(pipe).unwrap());
    let mut program = ProgramDevice::new(&space(), &command);
    program.reading = Reading::regex("1").unwrap();
    assert_eq!(
        program.measure(&config(8, "a"), 1),
        Outcome::Times(vec![1.0])
    );
    assert_eq!(reader.join().unwrap(), "");
}

#[test]
fn a_program_that_prints_without_end_is_ended_before_it_fills_the_disk() {
    for command in ["yes", "yes >&2"] {
        let mut program = ProgramDevice::new(&space(), command);
        let said = failure(program.measure(&config(8, "a"), 1));
        assert!(
            said.kind == FailureKind::Launch && said.message.contains("printed more than"),
            "{}",
            said.message
        );
        program.build = Some(Template::new(command));
        let said = failure(program.measure(&config(8, "a"), 1));
        assert!(
            said.kind == FailureKind::Compile && said.message.contains("printed more than"),
            "{}",
            said.message
        );
    }
}

#[test]
fn a_build_is_made_once_for_what_it_can_see_and_a_failing_one_is_no_launch() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut program = ProgramDevice::new(&space(), "cat {build}/tile");
    program.build = Some(Template::new(&format!(
        "echo {{tile}} > {{build}}/tile; echo b >> {}",
        log.display()
    )));
    program.reading = Reading::regex("[0-9]+").unwrap();
    for (tile, mode) in [(8, "a"), (8, "b c"), (16, "a"), (8, "a")] {
        assert_eq!(
            program.measure(&config(tile, mode), 2),
            Outcome::Times(vec![tile as f64; 2])
        );
    }
    assert_eq!(
        std::fs::read_to_string(&log).unwrap().lines().count(),
        2,
        "the mode is not in the build"
    );
    // What stands only in the environment is seen too, and of a command that names nothing all of
    // it.
    for (build, builds) in [
        ("echo $TUNE_tile$TUNE_mode", 3),
        ("env | grep TUNE_", 3),
        ("echo ${TUNE_tile}$TUNE_mod", 2),
    ] {
        let mut program = ProgramDevice::new(&space(), "sort {build}/seen");
        std::fs::write(&log, "").unwrap();
        program.build = Some(Template::new(&format!(
            "({}) > {{build}}/seen; echo b >> {}",
            build.replace('{', "{{").replace('}', "}}"),
            log.display()
        )));
        program.measure(&config(8, "a"), 1);
        program.measure(&config(8, "b c"), 1);
        program.measure(&config(16, "a"), 1);
        assert_eq!(
            std::fs::read_to_string(&log).unwrap().lines().count(),
            builds,
            "{build}"
        );
    }
    program.build = Some(Template::new(
        "echo 'error: no such tile {tile}' >&2; exit 1",
    ));
    let said = failure(program.measure(&config(32, "a"), 1));
    assert_eq!(said.kind, FailureKind::Compile);
    assert!(said.message.contains("no such tile 32"), "{}", said.message);
}

#[test]
fn a_wrong_answer_is_excluded_by_its_exit_code_or_its_output() {
    let mut program = ProgramDevice::new(&space(), "echo 5");
    program.reading = Reading::regex("5").unwrap();
    program.check = Some(Template::new("test {tile} -ne 16"));
    assert_eq!(
        program.measure(&config(8, "a"), 1),
        Outcome::Times(vec![5.0])
    );
    assert_eq!(
        failure(program.measure(&config(16, "a"), 1)).kind,
        FailureKind::WrongResult
    );
    let mut program = ProgramDevice::new(&space(), "echo 5");
    program.reading = Reading::regex("5").unwrap();
    program.check = Some(Template::new(
        "test {tile} -eq 32 && echo other || echo same",
    ));
    program.same_output_as = Some(config(8, "a"));
    assert_eq!(
        program.measure(&config(16, "a"), 1),
        Outcome::Times(vec![5.0])
    );
    assert_eq!(
        failure(program.measure(&config(32, "a"), 1)).kind,
        FailureKind::WrongResult
    );
}

#[test]
fn a_configuration_does_not_hang_because_the_one_it_is_compared_with_does() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut program = ProgramDevice::new(
        &space(),
        &format!(
            "echo {{tile}} >> {}; test {{tile}} -ne 8 || sleep 20; echo 5",
            log.display()
        ),
    );
    program.reading = Reading::regex("5").unwrap();
    program.same_output_as = Some(config(8, "a"));
    program.time_out = Duration::from_millis(300);
    assert_eq!(
        failure(program.measure(&config(8, "a"), 1)).kind,
        FailureKind::TimeOut
    );
    for tile in [16, 32] {
        let failure = failure(program.measure(&config(tile, "a"), 1));
        assert_eq!(failure.kind, FailureKind::WrongResult);
        assert!(
            failure
                .message
                .contains("the configuration it is compared with: killed after"),
            "{}",
            failure.message
        );
    }
    // Itself, and once to be compared with.
    assert_eq!(
        std::fs::read_to_string(&log)
            .unwrap()
            .matches("8\n")
            .count(),
        2
    );
}

#[test]
fn a_placeholder_that_no_parameter_fills_is_an_error_before_anything_runs() {
    let program = ProgramDevice::new(&space(), "./mm {tile} {threads}");
    assert!(
        program
            .validate()
            .unwrap_err()
            .to_string()
            .contains("there is no {threads}")
    );
    assert!(
        ProgramDevice::new(&space(), "{build}/mm")
            .validate()
            .is_err(),
        "there is no build"
    );
    assert!(
        ProgramDevice::new(&space(), "./mm {tile} $TUNE_mode")
            .validate()
            .is_ok()
    );
    let mut program = ProgramDevice::new(&space(), "./mm {tile} $TUNE_mode2");
    assert!(
        program
            .validate()
            .unwrap_err()
            .to_string()
            .contains("no command names the parameter mode")
    );
    program.reads = vec!["mode".to_owned()];
    assert!(program.validate().is_ok());
    let named = parse_toml("[[parameter]]\nname = \"build\"\nvalues = [1, 2]\n")
        .unwrap()
        .build()
        .unwrap();
    let mut program = ProgramDevice::new(&named, "./mm {build}");
    assert!(program.validate().is_ok());
    program.build = Some(Template::new("make {build}"));
    assert!(
        program
            .validate()
            .unwrap_err()
            .to_string()
            .contains("another one")
    );
}

/// Tunes the example in C as docs/tuning-programs.md does, with a budget of launches.
#[test]
fn the_c_example_is_compiled_checked_and_tuned() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let (space, default) = read_space(&examples.join("mm.toml")).unwrap();
    let mut program = ProgramDevice::new(&space, "{build}/mm");
    let source = examples.join("mm.c");
    program.build = Some(Template::new(&format!(
        "cc -O2 -DTILE={{tile}} -DUNROLL={{unroll}} {} -o {{build}}/mm -lm",
        source.display()
    )));
    program.check = Some(Template::new("{build}/mm check"));
    program.reading = Reading::regex("([0-9.]+) ms").unwrap();
    program.validate().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&folder.path().join("tune.sqlite")).unwrap();
    let (device, tunable) = (
        DeviceIdentity::named("this", "program"),
        TunableIdentity::new("mm", 1),
    );
    let workload = Workload::new();
    let task = Task {
        device: &device,
        tunable: &tunable,
        workload: &workload,
        space: &space,
    };
    let budget: Budget = "launches=200".parse().unwrap();
    let session = Session {
        default: default.clone(),
        launches: 2,
        ..Session::new(task, StrategyKind::Exhaustive, 1, budget)
    };
    let evidence = tune(&session, &mut program, &mut store, &mut |_| true)
        .unwrap()
        .evidence;
    assert!(evidence.launches <= 200, "{} launches", evidence.launches);
    assert_eq!(
        evidence.failed, 0,
        "every tile compiles and multiplies right"
    );
    let tile = space.named(&evidence.chosen.config).int("tile");
    // Blocks of two are several times as slow as larger ones, which other load may hide.
    assert!(
        tile > 2 || evidence.verdict.contains("cannot tell"),
        "{}",
        evidence.verdict
    );
}
