//! Any program: commands, builds, checks, numbers from output, and what goes wrong.
#![cfg(unix)]

use std::path::Path;

use tuner::objective::Objective;
use tuner::program::{ProgramDevice, Reading, Template};
use tuner::{parse_toml, read_space};

use crate::prelude::*;
use crate::session::tuned;
use crate::store::Folder;

fn space() -> Space {
    let builder = SpaceBuilder::new().ints("tile", [8, 16, 32]);
    builder.choices("mode", ["a", "b c"]).build().unwrap()
}

/// A program in the space of tiles and modes, whose numbers match `regex` if it is not empty.
fn program(command: &str, regex: &str) -> ProgramDevice {
    let mut program = ProgramDevice::new(&space(), command);
    if !regex.is_empty() {
        program.reading = Reading::regex(regex).unwrap();
    }
    program
}

fn config(tile: i64, mode: &str) -> Config {
    Config(vec![tile.into(), mode.into()])
}

/// Launches once.
fn launch(program: &mut ProgramDevice, tile: i64) -> Outcome {
    program.measure(&config(tile, "a"), 1)
}

#[track_caller]
fn fails(program: &mut ProgramDevice, tile: i64, kind: FailureKind, said: &str) {
    let failure = failure(launch(program, tile));
    assert_eq!(failure.kind, kind, "{}", failure.message);
    says(failure.message, said);
}

/// A file that programs write to.
struct Log(Folder);

impl Log {
    fn new() -> Self {
        Self(Folder::new())
    }

    fn path(&self) -> String {
        self.0.path("log").display().to_string()
    }

    fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

#[test]
fn values_come_by_place_and_by_environment_and_numbers_from_the_output() {
    let command = "echo t={tile} m={mode} e=$TUNE_tile$TUNE_mode";
    let measured = program(command, "[te]=([0-9]+)").measure(&config(16, "a"), 4);
    assert_eq!(measured, Times(vec![16.0; 4]));
    let measured = program(command, "m=b c e=([0-9]+)b c").measure(&config(32, "b c"), 1);
    assert_eq!(measured, Times(vec![32.0]));
    // Where none is read, the time is the duration of the process.
    let Times(times) = program("sleep 0.05", "").measure(&config(8, "a"), 2) else {
        panic!()
    };
    assert!(
        times.len() == 2 && times.iter().all(|time| *time >= 50.0),
        "{times:?}"
    );
}

#[test]
fn several_samples_of_a_launch_count_and_a_rate_is_better_when_it_is_larger() {
    let log = Log::new();
    let rates = "echo '{{\"rate\": [100, 200, 400]}}'";
    let mut program = program(&format!("echo x >> {}; {rates}", log.path()), "");
    (program.reading, program.objective) = (Reading::json("/rate").unwrap(), Objective::Rate);
    let measured = program.measure(&config(8, "a"), 5);
    assert_eq!(measured, Times(vec![10.0, 5.0, 2.5, 10.0, 5.0]));
    assert_eq!(log.lines().len(), 2, "two launches gave five samples");
}

#[test]
fn failures_are_classified_and_quote_the_programs_last_output() {
    for (command, regex, said) in [
        ("echo no memory >&2; exit 3", "", "exit status: 3"),
        ("echo no memory >&2; exit 3", "", "no memory"),
        // Where it says more than is read, its end.
        (
            "yes no memory | head -c 17000000 >&2; echo; echo the last word >&2; exit 3",
            "",
            "no memory\nthe last word",
        ),
        ("kill -9 $$", "", "signal: 9"),
        ("./there-is-no-such-program", "", "127"),
        (
            "echo done",
            "([0-9]+) ms",
            "no number in its output: \"done",
        ),
        ("echo done", "d(one)", "not a number"),
        ("echo 0", "0", "not a positive number"),
        // Ended before it fills the disk.
        ("yes", "", "printed more than"),
        ("yes >&2", "", "printed more than"),
    ] {
        fails(&mut program(command, regex), 8, FailureKind::Launch, said);
    }
    for (command, said) in [
        ("yes", "printed more than"),
        ("yes >&2", "printed more than"),
        (
            "echo 'error: no such tile {tile}' >&2; exit 1",
            "no such tile 32",
        ),
    ] {
        let mut program = program("true", "");
        program.build = Some(Template::new(command));
        fails(&mut program, 32, FailureKind::Compile, said);
    }
}

#[test]
fn a_launch_that_takes_too_long_is_killed_with_all_its_children() {
    let log = Log::new();
    let mut program = program(&format!("(sleep 2; touch {}) & wait", log.path()), "");
    program.time_out = Duration::from_millis(200);
    let begun = Instant::now();
    fails(&mut program, 8, FailureKind::TimeOut, "");
    assert!(
        begun.elapsed() < Duration::from_millis(1900),
        "it was not waited for"
    );
    std::thread::sleep(Duration::from_millis(2200));
    assert!(
        !Path::new(&log.path()).exists(),
        "what the shell had started went on"
    );
}

#[test]
fn background_processes_of_a_program_end_with_it() {
    let log = Log::new();
    let pipe = log.path();
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let command = format!("exec 3>{pipe}; (sleep 5; echo alive >&3) & echo 1");
    // It ends with the last process that could write to the pipe.
    let reader = std::thread::spawn(move || std::fs::read_to_string(pipe).unwrap());
    assert_eq!(launch(&mut program(&command, "1"), 8), Times(vec![1.0]));
    assert_eq!(reader.join().unwrap(), "");
}

#[test]
fn a_build_runs_once_for_each_combination_that_it_sees() {
    // What stands only in the environment is seen too, and of a command that names nothing all of
    // it. The mode is not in the first build.
    for (build, builds) in [
        ("echo {tile}", 2),
        ("echo $TUNE_tile$TUNE_mode", 3),
        ("env | grep TUNE_", 3),
        ("echo ${{TUNE_tile}}$TUNE_mod", 2),
    ] {
        let log = Log::new();
        let mut program = program("cat {build}/seen; echo took {tile}", "took ([0-9]+)");
        let build_and_log = format!("({build}) > {{build}}/seen; echo b >> {}", log.path());
        program.build = Some(Template::new(&build_and_log));
        for (tile, mode) in [(8, "a"), (8, "b c"), (16, "a"), (8, "a")] {
            let measured = program.measure(&config(tile, mode), 2);
            assert_eq!(measured, Times(vec![tile as f64; 2]), "{build}");
        }
        assert_eq!(log.lines().len(), builds, "{build}");
    }
}

#[test]
fn a_wrong_answer_is_excluded_by_its_exit_code_or_its_output() {
    for (check, same_output_as) in [
        ("test {tile} -ne 32", None),
        (
            "test {tile} -eq 32 && echo other || echo same",
            Some(config(8, "a")),
        ),
    ] {
        let mut program = program("echo 5", "5");
        (program.check, program.same_output_as) = (Some(Template::new(check)), same_output_as);
        assert_eq!(launch(&mut program, 16), Times(vec![5.0]));
        fails(&mut program, 32, FailureKind::WrongResult, "");
    }
}

#[test]
fn a_hanging_default_does_not_hang_other_configurations() {
    let log = Log::new();
    let hangs = "test {tile} -ne 8 || sleep 20; echo 5";
    let mut program = program(&format!("echo {{tile}} >> {}; {hangs}", log.path()), "5");
    program.same_output_as = Some(config(8, "a"));
    program.time_out = Duration::from_millis(300);
    fails(&mut program, 8, FailureKind::TimeOut, "");
    for tile in [16, 32] {
        let said = "the configuration it is compared with: killed after";
        fails(&mut program, tile, FailureKind::WrongResult, said);
    }
    // Itself, and once to be compared with.
    assert_eq!(log.lines().iter().filter(|line| *line == "8").count(), 2);
}

#[test]
fn a_placeholder_that_no_parameter_fills_is_an_error_before_anything_runs() {
    let named = parse_toml("[[parameter]]\nname = \"build\"\nvalues = [1, 2]\n").unwrap();
    let (space, named) = (space(), named.build().unwrap());
    for (space, command, reads, build, refused) in [
        (
            &space,
            "./mm {tile} {threads}",
            None,
            None,
            Some("there is no {threads}"),
        ),
        // There is no build.
        (&space, "{build}/mm", None, None, Some("{build}")),
        (&space, "./mm {tile} $TUNE_mode", None, None, None),
        (
            &space,
            "./mm {tile} $TUNE_mode2",
            None,
            None,
            Some("no command names the parameter mode"),
        ),
        (&space, "./mm {tile} $TUNE_mode2", Some("mode"), None, None),
        (&named, "./mm {build}", None, None, None),
        (
            &named,
            "./mm {build}",
            None,
            Some("make {build}"),
            Some("rename the parameter"),
        ),
    ] {
        let mut program = ProgramDevice::new(space, command);
        program.reads = reads.into_iter().map(str::to_owned).collect();
        program.build = build.map(Template::new);
        match (program.validate(), refused) {
            (Err(error), Some(said)) => says(error, said),
            (validated, _) => assert_eq!(validated.is_ok(), refused.is_none(), "{command}"),
        }
    }
}

/// Tunes the example in C as docs/tuning-programs.md does, with a budget of launches.
#[test]
fn the_c_example_is_compiled_checked_and_tuned() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let (space, default) = read_space(&examples.join("mm.toml")).unwrap();
    let mut program = ProgramDevice::new(&space, "{build}/mm");
    program.build = Some(Template::new(&format!(
        "cc -O2 -DTILE={{tile}} -DUNROLL={{unroll}} {}/mm.c -o {{build}}/mm -lm",
        examples.display()
    )));
    program.check = Some(Template::new("{build}/mm check"));
    program.reading = Reading::regex("([0-9.]+) ms").unwrap();
    program.validate().unwrap();
    let key = Key::of(space);
    let session = key.session(StrategyKind::Exhaustive, "launches=200");
    let evidence = tuned(
        &Session {
            default: default.clone(),
            launches: 2,
            ..session
        },
        &mut program,
    )
    .evidence;
    // Every tile compiles and multiplies right.
    assert!(
        evidence.launches <= 200 && evidence.failed == 0,
        "{evidence:?}"
    );
    // Other load may hide that blocks of two are several times as slow as larger ones, so that the
    // default stays; nothing makes them faster.
    let chosen = &evidence.chosen.config;
    let tile = key.space.named(chosen).int("tile");
    assert!(
        tile > 2 || Some(chosen) == default.as_ref(),
        "{}",
        evidence.verdict
    );
}
