//! The command `tuner`, as users run it.
#![cfg(unix)]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tuner::store::Store;
use tuner_score::synthetic::Synthetic;

/// Returns the command, run in `folder`, where its store lies. `line` is split at blanks; `more` is
/// passed on unchanged.
fn tool(folder: &TempDir, line: &str, more: &[&str]) -> Command {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_tuner"));
    tool.current_dir(folder)
        .args(line.split(' ').filter(|arg| !arg.is_empty()))
        .args(more);
    tool.env("TUNER_TUNE_DB", folder.path().join("tune.sqlite"));
    tool
}

/// Runs the command, which must end with `code`; standard output and standard error.
#[track_caller]
fn run(code: i32, folder: &TempDir, line: &str, more: &[&str]) -> (String, String) {
    let output = tool(folder, line, more).output().unwrap();
    let [out, err] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert_eq!(
        output.status.code(),
        Some(code),
        "{line}\n--- stdout\n{out}\n--- stderr\n{err}"
    );
    (out, err)
}

#[track_caller]
fn shows(folder: &TempDir, line: &str, more: &[&str], part: &str) -> String {
    let (out, _) = run(0, folder, line, more);
    assert!(out.contains(part), "{part:?} is not in\n{out}");
    out
}

#[track_caller]
fn says(code: i32, folder: &TempDir, line: &str, more: &[&str], part: &str) -> String {
    let (_, err) = run(code, folder, line, more);
    assert!(err.contains(part), "{part:?} is not in\n{err}");
    err
}

fn write(folder: &TempDir, name: &str, text: &str) {
    std::fs::write(folder.path().join(name), text).unwrap();
}

fn read(folder: &TempDir, name: &str) -> String {
    std::fs::read_to_string(folder.path().join(name))
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn json_of(folder: &TempDir, line: &str, more: &[&str]) -> Value {
    let (out, _) = run(0, folder, &format!("{line} --json -"), more);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error} in {out}"))
}

fn store(folder: &TempDir) -> Store {
    Store::open(&folder.path().join("tune.sqlite")).unwrap()
}

fn empty() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Makes a folder with a space of four tiles.
fn tiles() -> TempDir {
    let folder = empty();
    write(
        &folder,
        "space.toml",
        "[[parameter]]\nname = \"tile\"\nvalues = [8, 16, 32, 64]\n\n[default]\ntile = 8\n",
    );
    folder
}

/// Returns a recording in `folder` of a made device.
fn recording(folder: &TempDir, spec: &str) -> String {
    let name = format!("made{spec}.json");
    write(
        folder,
        &name,
        &Synthetic::new(spec.parse().unwrap()).recording(20),
    );
    name
}

/// Waits up to ten seconds.
fn wait(until: impl Fn() -> bool) -> bool {
    (0..1000).any(|_| {
        until() || {
            std::thread::sleep(Duration::from_millis(10));
            false
        }
    })
}

fn start(command: &mut Command) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = command
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok);
    (child, lines)
}

/// A program whose rate is highest with a tile of 32.
const FASTEST_AT_32: [&str; 2] = [
    "--command",
    "case {tile} in 32) echo 400 401 399;; *) echo 1{tile} 1{tile} 1{tile};; esac",
];

#[test]
fn any_program_is_tuned_explained_and_found_again() {
    let folder = &tiles();
    let tune =
        "run --space space.toml --others 100 --regex [0-9]+ --objective rate --report report";
    let text = shows(
        folder,
        tune,
        &FASTEST_AT_32,
        "Chosen:\n  tile=32\n    400.0/s",
    );
    assert!(
        text.contains("Default:\n  tile=8")
            && text.contains("times as fast")
            && !text.contains(" ms"),
        "{text}"
    );
    let page = read(folder, "report/run-1.html");
    assert!(page.contains("rate, per second") && page.contains("tile=32: 400.0/s"));
    let list = shows(folder, "store list", &[], "400.0/s tile=32");
    assert!(list.contains("objective=rate"), "{list}");
    assert_eq!(shows(folder, "explain", &[], "Final rounds, "), text);
    // Smaller numbers are better; the value comes from the environment, and a tile fails.
    let command = [
        "--command",
        "test $TUNE_tile -ne 64 || exit 3; echo \"{{\\\"cost\\\": $TUNE_tile}}\"",
    ];
    let smaller = "run --space space.toml --others 100 --json-pointer /cost --objective smaller --budget launches=60";
    let text = shows(folder, smaller, &command, "Chosen:\n  tile=8\n    8.000");
    assert!(text.contains("exit status: 3"), "{text}");
    says(1, folder, "explain 7", &[], "there is no run 7");
    shows(folder, "store prune 1 2", &[], "removed 2 runs: 1 2");
    says(1, folder, "explain", &[], "no run decided anything yet");
    says(1, folder, "store prune", &[], "say which runs");
}

#[test]
fn a_recording_is_replayed_and_imported_and_seeds_another_device() {
    let folder = &empty();
    let name = recording(folder, "seed=3,noise=0.02,fail=0.2");
    let quick = "--budget 40 --finalists 2 --strategy random";
    let text = shows(
        folder,
        &format!("run --replay {name} {quick} --report new/report"),
        &[],
        "Tried 40 of ",
    );
    assert!(text.contains("What matters: "), "{text}");
    let explained = json_of(folder, "explain", &[]);
    assert_eq!(explained["importance"].as_array().map(Vec::len), Some(5));
    assert!(
        explained["decision"]["details"]["decisions"][0]["candidates"][0]["blocks"].as_u64()
            >= Some(4)
    );
    let report: Value = serde_json::from_str(&read(folder, "new/report/run-1.json")).unwrap();
    assert_eq!(explained["importance"], report["summary"]["importance"]);
    let measured = store(folder).observations(1).unwrap().len();
    assert_eq!(
        report["report"]["evaluations"].as_array().map(Vec::len),
        Some(measured)
    );
    // A report that cannot be written is an error; the run is kept all the same.
    write(folder, "file", "");
    says(
        1,
        folder,
        &format!("run --replay {name} {quick} --seed 2 --report file"),
        &[],
        "file",
    );
    assert!(store(folder).run_record(2).unwrap().decision.is_some());
    shows(
        folder,
        &format!("store import {name}"),
        &[],
        "new measurements",
    );
    shows(
        folder,
        &format!("store import {name}"),
        &[],
        "0 new measurements",
    );
    let other = read(folder, &name).replace("synthetic 3", "another");
    write(folder, "another.json", &other);
    let said = says(
        0,
        folder,
        &format!("run --replay another.json {quick}"),
        &[],
        "beginning with the best of",
    );
    assert!(said.contains("(run "), "{said}");
}

#[test]
fn a_configuration_that_hangs_is_killed_and_one_that_crashes_costs_only_itself() {
    let folder = &empty();
    write(
        folder,
        "space.toml",
        "[[parameter]]\nname = \"x\"\nrange = { from = 1, to = 12 }\n",
    );
    let command = [
        "--command",
        "case {x} in 3|7) sleep 100;; 5|9) kill -6 $$;; *) echo {x};; esac",
    ];
    let options = "run --space space.toml --regex [0-9]+ --timeout 0.4 --budget 12 --finalists 0";
    let text = shows(
        folder,
        options,
        &command,
        "failed: time-out (one says: killed after 0.400 s)",
    );
    assert!(text.contains("one says: signal: 6"), "{text}");
}

#[test]
fn after_a_kill_it_resumes_where_it_was_and_reports_this() {
    let folder = &empty();
    write(
        folder,
        "space.toml",
        "[[parameter]]\nname = \"x\"\nrange = { from = 1, to = 64 }\n",
    );
    // Without a command that takes some time, all would be over too soon.
    write(folder, "slow", "sleep 0.01; echo $1\n");
    let command = ["--command", "sh slow {x}", "--regex", "[0-9]+"];
    let args = "run --space space.toml --strategy random --budget 40 --finalists 0 --report report --others 100";
    let (mut child, mut lines) = start(&mut tool(folder, args, &command));
    assert!(lines.any(|line| line.contains("tried, best")));
    assert!(wait(|| store(folder)
        .runs()
        .unwrap()
        .first()
        .is_some_and(|run| run.measured >= 10)));
    child.kill().unwrap();
    child.wait().unwrap();
    shows(folder, "store list", &[], "unfinished");
    says(0, folder, args, &command, "continuing run 1: ");
    assert_eq!(store(folder).runs().unwrap().len(), 1);
    // The report has the measurements of both processes.
    let report: Value = serde_json::from_str(&read(folder, "report/run-1.json")).unwrap();
    let measured = store(folder).observations(1).unwrap().len();
    assert_eq!(
        report["report"]["evaluations"].as_array().map(Vec::len),
        Some(measured),
        "{report}"
    );
}

#[test]
fn a_second_tuning_on_this_machine_waits_for_the_first() {
    let folder = &tiles();
    let first = store(folder).measure_alone().unwrap();
    let tune = "run --space space.toml --reads tile --others 100";
    let (mut second, mut lines) = start(&mut tool(folder, tune, &["--command", "true"]));
    assert!(lines.any(|line| line.contains("another tuning is measuring")));
    drop(first);
    assert!(lines.any(|line| line.contains("tried, best")));
    assert!(second.wait().unwrap().success());
}

/// Returns true if a process still runs.
#[cfg(target_os = "linux")]
fn runs(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Starts a tuning whose programs leave two processes in the background, both in sessions of their
/// own, and none in the program's group; waits for their numbers in `pids`.
#[cfg(target_os = "linux")]
fn escaping(folder: &TempDir, more: &[&str]) -> (Child, String) {
    std::fs::create_dir(folder.path().join("temporary folder")).unwrap();
    // The last one is a grandchild whose parent has ended.
    let escape = "setsid sleep 1000 & a=$!; \
                  sh -c 'setsid sh -c \"echo \\$\\$ > last; exec sleep 1000\" & exit'; \
                  while ! test -s last; do sleep 0.01; done; echo $a $$ $(cat last) > new; mv new pids; ";
    let command = format!("{escape}{}", more[0]);
    let programs = [&["--command", &command], &more[1..]].concat();
    let mut tuning = tool(
        folder,
        "run --space space.toml --reads tile --timeout 600",
        &programs,
    );
    let tuning = tuning
        .env("TMPDIR", folder.path().join("temporary folder"))
        .stderr(Stdio::null())
        .stdout(Stdio::null());
    let child = tuning.spawn().unwrap();
    assert!(
        wait(|| folder.path().join("pids").exists()),
        "nothing was started"
    );
    (child, read(folder, "pids"))
}

#[cfg(target_os = "linux")]
#[test]
fn killing_it_ends_its_programs_and_builds_in_every_session() {
    let folder = &tiles();
    let (mut tuning, pids) = escaping(folder, &["sleep 1000", "--build", "touch {build}/x"]);
    let n_builds = || {
        std::fs::read_dir(folder.path().join("temporary folder"))
            .unwrap()
            .count()
    };
    assert!(n_builds() > 0, "nothing was built");
    assert!(
        pids.split_whitespace().count() == 3 && pids.split_whitespace().all(runs),
        "{pids}"
    );
    tuning.kill().unwrap();
    tuning.wait().unwrap();
    assert!(wait(|| !pids.split_whitespace().any(runs)), "{pids}");
    assert!(wait(|| n_builds() == 0));
}

#[cfg(target_os = "linux")]
#[test]
fn processes_that_a_launch_left_in_another_session_end_with_the_launch() {
    let folder = &tiles();
    let (mut tuning, pids) = escaping(folder, &["true", "--budget", "2", "--finalists", "0"]);
    // The tuning goes on while they end.
    assert!(wait(|| !pids.split_whitespace().any(runs)), "{pids}");
    assert!(tuning.wait().unwrap().success());
}

#[cfg(target_os = "linux")]
#[test]
fn a_program_that_stays_ends_with_the_tuner_and_so_does_what_it_started() {
    let folder = &tiles();
    let stays = "setsid sleep 1000 & echo $! $$ > new; mv new pids; echo '\"ready\"'; \
                 while read -r line; do sleep 1000; done";
    let mut tuning = tool(
        folder,
        "run --space space.toml --stays --timeout 600",
        &["--command", stays],
    );
    let mut tuning = tuning
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    assert!(
        wait(|| folder.path().join("pids").exists()),
        "nothing was started"
    );
    let pids = read(folder, "pids");
    assert!(pids.split_whitespace().all(runs));
    tuning.kill().unwrap();
    tuning.wait().unwrap();
    assert!(wait(|| !pids.split_whitespace().any(runs)), "{pids}");
}

#[test]
fn a_parameter_that_no_program_sees_is_refused() {
    let folder = &empty();
    let space = "[[parameter]]\nname = \"tile\"\nvalues = [1, 2]\n[[parameter]]\nname = \"flags\"\n\
                 values = [\"-a -b\", \"$(touch stolen)\"]\n";
    write(folder, "space.toml", space);
    write(folder, "build.sh", "echo \"$TUNE_flags\" > $1/flags\n");
    let tune = "run --space space.toml --others 100 --finalists 0 --regex took.([0-9]+)";
    let build = [
        "--build",
        "sh build.sh {build} {tile}",
        "--command",
        "cat {build}/flags >> seen; echo took {tile}",
    ];
    let said = says(
        1,
        folder,
        tune,
        &build,
        "no command names the parameter flags",
    );
    assert!(said.contains("--reads flags"), "{said}");
    run(0, folder, &format!("{tune} --reads flags"), &build);
    let seen = read(folder, "seen");
    assert!(
        seen.contains("-a -b") && seen.contains("$(touch stolen)"),
        "the build saw them: {seen}"
    );
    says(
        1,
        folder,
        &format!("{tune} --reads flag"),
        &build,
        "there is no parameter \"flag\"",
    );
    // A value in quotes is its text; several words come from the environment.
    let words = "set -- $TUNE_flags; echo \"{flags}\" '{flags}' $# >> words; echo took {tile}";
    run(0, folder, tune, &["--command", words]);
    let words = read(folder, "words");
    assert!(
        words.contains("-a -b -a -b 2\n") && words.contains("$(touch stolen) $(touch stolen) 2\n"),
        "{words}"
    );
    assert!(!folder.path().join("stolen").exists());
    let refused = ["--command", "echo ${tile} {flags}"];
    says(
        1,
        folder,
        tune,
        &refused,
        "{tile} has no meaning behind a $; write $TUNE_tile there",
    );
}

#[test]
fn a_time_below_the_resolution_of_a_clock_is_refused() {
    let folder = &tiles();
    let tune = "run --space space.toml --others 100 --budget 4";
    let command = [
        "--command",
        "echo took $(test {tile} -eq 8 && echo 1 || echo 1e-320)",
        "--regex",
        "took (.*)",
    ];
    let text = shows(
        folder,
        tune,
        &command,
        "no clock resolves less than a nanosecond",
    );
    assert!(
        text.contains("Chosen:\n  tile=8") && !text.contains("inf"),
        "{text}"
    );
    let stays = "echo '\"ready\"'; while read -r line; do case $line in \
                 *[[]8]*) echo '{\"times\":[1,1,1]}';; *) echo '{\"times\":[1e-320,1,1]}';; esac; done";
    let text = shows(
        folder,
        &format!("{tune} --finalists 0 --stays"),
        &["--command", stays],
        "below a nanosecond",
    );
    assert!(text.contains("Chosen:\n  tile=8"), "{text}");
}

#[test]
fn explain_gives_no_shares_from_two_configurations() {
    let folder = &empty();
    write(
        folder,
        "space.toml",
        "[[parameter]]\nname = \"a\"\nvalues = [1, 2]\n[[parameter]]\nname = \"b\"\nvalues = [1, 2]\n",
    );
    let command = ["--command", "echo {a}{b}", "--regex", "[0-9]+"];
    let text = shows(
        folder,
        "run --space space.toml --others 100 --budget 2 --finalists 0",
        &command,
        "Too few configurations to tell",
    );
    assert!(
        text.contains("No default was given") && !text.contains("What matters"),
        "{text}"
    );
}

/// Runs the example of a chain as its first lines say.
#[test]
fn a_chain_of_programs_is_tuned_for_each_workload_and_has_a_page() {
    let folder = &empty();
    for name in ["chain.toml", "width.toml"] {
        let example = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../examples/chain")
            .join(name);
        std::fs::copy(example, folder.path().join(name)).unwrap();
    }
    let found = json_of(
        folder,
        "chain chain.toml --rule alice --others 100 --report report --for-all worst",
        &[],
    );
    let of = found["workloads"].as_array().unwrap();
    assert_eq!(of.len(), 2);
    for (found, width) in of.iter().zip([3, 6]) {
        // Clustering and scan share a step, the sort shares the layout.
        let groups = found["groups"].as_array().unwrap();
        assert_eq!(
            (groups.len(), &groups[0]["group"]),
            (1, &json!("first step + sort@x layers")),
            "{found}"
        );
        let place = |name: &str| {
            found["parameters"]
                .as_array()
                .unwrap()
                .iter()
                .position(|known| known == name)
                .unwrap()
        };
        let set = &found["chosen"];
        assert_eq!(
            (&set[place("cluster.width")], &set[place("layout")]),
            (&json!(width), &json!("columns")),
            "{found}"
        );
        let judgement = &found["comparison"]["judgement"];
        assert_eq!(
            (&judgement["detail"], &judgement["discarded"]),
            (&json!("b"), &json!(0)),
            "{found}"
        );
        let names: Vec<&str> = found["times"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row[0].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            [
                "cluster",
                "scan",
                "step of cluster, scan",
                "sort@x layers",
                "sort@stereo layers"
            ]
        );
    }
    assert!(
        of[1]["what"].as_str().unwrap().contains("workload=PbPb"),
        "{found}"
    );
    assert_eq!(found["all"]["weights"], json!([10.0, 1.0]));
    let page = read(folder, "report/chain.html");
    assert!(
        page.contains("first step + sort@x layers")
            && page.contains("\"heat\":{")
            && page.contains("sort@stereo layers")
    );
    let text = shows(folder, "chain chain.toml --others 100", &[], "One for each");
    assert!(
        text.contains("step of cluster, scan") && text.contains("in the whole chain"),
        "{text}"
    );
    // Its own file is not written over.
    says(
        1,
        folder,
        "chain chain.toml --json chain.toml",
        &[],
        "would overwrite",
    );
    says(
        1,
        folder,
        "chain chain.toml --json width.toml",
        &[],
        "would overwrite",
    );
}

#[test]
fn impossible_settings_are_refused() {
    let folder = &tiles();
    let name = recording(folder, "");
    for (args, said) in [
        ("run", "--replay"),
        ("run --space space.toml", "--command"),
        (
            &format!("run --replay {name} --command true --space space.toml"),
            "--replay",
        ),
        (&format!("run --replay {name} --budget forever"), "--budget"),
        (
            &format!("run --replay {name} --strategy prayer"),
            "--strategy",
        ),
        (
            &format!("run --replay {name} --others=-1"),
            "not a share in %",
        ),
        (&format!("run --replay {name} --timeout 0"), "above 0"),
    ] {
        says(2, folder, args, &[], said);
    }
    says(
        1,
        folder,
        "run --replay /nowhere.json",
        &[],
        "/nowhere.json",
    );
    says(
        1,
        folder,
        &format!("run --replay {name} --json {name}"),
        &[],
        "would overwrite",
    );
    write(folder, "run-1.toml", "");
    says(
        1,
        folder,
        "run --space run-1.toml --report .",
        &["--command", "true"],
        "would overwrite",
    );
    says(1, folder, "chain nowhere.toml", &[], "nowhere.toml");
    write(
        folder,
        "chain.toml",
        "[[kernel]]\nname = \"a\"\nprogram = { comand = \"true\" }\n",
    );
    says(1, folder, "chain chain.toml", &[], "program of a: ");
    assert!(
        !folder.path().join("tune.sqlite").exists(),
        "a mistake makes no store"
    );
    write(folder, "tune.sqlite", "my notes");
    for args in ["store list", "explain", &format!("run --replay {name}")] {
        let error = says(1, folder, args, &[], "not an SQLite file");
        assert!(error.contains("name another store"), "{error}");
    }
    assert_eq!(read(folder, "tune.sqlite"), "my notes");
}

#[test]
fn everything_that_changes_a_programs_times_is_part_of_its_workload() {
    #[derive(clap::Parser)]
    struct Args {
        #[command(flatten)]
        program: tuner_command::program::ProgramArgs,
    }
    let folder = tempfile::tempdir().unwrap();
    let space = folder.path().join("space.toml");
    std::fs::write(&space, "[[parameter]]\nname = \"tile\"\nvalues = [8, 16]\n").unwrap();
    let parse = |more: &[&str]| {
        let common = [
            "tuner",
            "--command",
            "true",
            "--space",
            space.to_str().unwrap(),
        ];
        <Args as clap::Parser>::try_parse_from(common.iter().chain(more))
    };
    let workload = |more: &[&str]| {
        parse(more)
            .ok()
            .unwrap()
            .program
            .program()
            .unwrap()
            .workload
            .to_string()
    };
    assert_eq!(workload(&["--unit", "ms"]), workload(&[]));
    let all: Vec<String> = [
        &[][..],
        &["--unit", "s"],
        &["--same-output"],
        &["--stays"],
        &["--reads", "tile"],
        &["--regex", "a"],
        &["--json-pointer", "/a"],
    ]
    .iter()
    .map(|more| workload(more))
    .collect();
    for (at, one) in all.iter().enumerate() {
        assert!(!all[..at].contains(one), "{one}");
    }
    assert!(
        parse(&["--stays", "--unit", "s"]).is_err() && parse(&["--objective", "watt"]).is_err()
    );
    // Its command may name other files in another folder.
    let folder = std::env::current_dir().unwrap().display().to_string();
    assert_eq!(
        parse(&[]).ok().unwrap().program.program().unwrap().sample,
        folder
    );
    let alone = |option: &str, value: &str| {
        <Args as clap::Parser>::try_parse_from(["tuner", option, value])
    };
    assert!(alone("--unit", "s").is_err() && alone("--objective", "larger").is_err());
}
