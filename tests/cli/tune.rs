//! `ut-decode tune`, `store` and `explain`, as a person uses them.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::made::Place;
use tuner::{FailureKind, Outcome};
use tuner_score::synthetic::Synthetic;

/// A quick tuning, with its options replaced by those given.
fn tune<'a>(device: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let quick = [["--budget", "12"], ["--finalists", "1"], ["--strategy", "random"]];
    let kept = quick.into_iter().filter(|option| !more.contains(&option[0]));
    ["tune", "run", "--backend", device].into_iter().chain(kept.flatten()).chain(more.iter().copied()).collect()
}

#[test]
fn a_tuning_is_listed_explained_and_removed() {
    let place = Place::new();
    let text = place.says(&tune("synthetic:seed=3,noise=0.02", &["--finalists", "2"]));
    assert!(text.contains("Chosen:\n  block=") && text.contains("Tried 12 of 1152"), "{text}");
    assert_eq!(place.says(&["tune", "explain"]), text);
    assert!(text.contains("Final rounds, ") && text.contains(" blocks\n"), "{text}");
    let effects = text.split("What matters: ").nth(1).unwrap();
    for parameter in ["block", "per_thread", "unroll", "stage", "layout"] {
        assert!(effects.lines().any(|line| line.trim_start().starts_with(parameter) && line.contains(" ms")), "{text}");
    }
    assert!(effects.contains("* ") && effects.contains(" %  "), "{text}");
    let json: serde_json::Value = serde_json::from_str(&place.says(&["tune", "explain", "--json", "-"])).unwrap();
    assert_eq!(json["importance"].as_array().map(Vec::len), Some(5));
    assert!(json["decision"]["details"]["decisions"][0]["candidates"][0]["blocks"].as_u64() >= Some(4), "{json}");
    let list = place.says(&["tune", "store", "list"]);
    assert!(list.contains(": 1 run\n") && list.contains("decided: "), "{list}");
    assert!(place.fails(&["tune", "explain", "7"]).contains("there is no run 7"));
    assert!(place.says(&["tune", "store", "prune", "1"]).contains("removed 1 run: 1"));
    assert!(place.fails(&["tune", "explain"]).contains("no run decided anything yet"));
    assert_eq!(place.run(&["tune", "store", "prune"]).status.code(), Some(2));
}

#[test]
fn a_configuration_that_hangs_is_killed_and_one_that_crashes_costs_only_itself() {
    let place = Place::new();
    let space = place.path("space.toml");
    std::fs::write(&space, "[[parameter]]\nname = \"x\"\nrange = { from = 1, to = 12 }\n").unwrap();
    let command = "case {x} in 3|7) sleep 100;; 5|9) kill -6 $$;; *) echo {x};; esac";
    let program = ["tune", "run", "--space", space.to_str().unwrap(), "--command", command, "--regex", "[0-9]+"];
    let arguments = [&program[..], &["--timeout", "0.4", "--budget", "12", "--finalists", "0"]].concat();
    let text = place.says(&arguments);
    assert!(text.contains("failed: timed out (one says: killed after 0.400 s)"), "{text}");
    assert!(text.contains("one says: signal: 6"), "{text}");
    // The same ones again are not waited for again.
    let kinds = |run| {
        let failed = |observation: tuner::store::Observation| match observation.outcome {
            Outcome::Failed(failure) if failure.kind == FailureKind::TimeOut => Some(observation.took_ms),
            _ => None,
        };
        place.store().observations(run).unwrap().into_iter().filter_map(failed).collect::<Vec<f64>>()
    };
    assert!(!kinds(1).is_empty() && kinds(1).iter().all(|&took| took >= 400.0));
    place.says(&arguments);
    assert!(kinds(2).len() == kinds(1).len() && kinds(2).iter().all(|&took| took < 400.0));
}

/// The process that measures for `tune`, once there is another one than `before`.
#[cfg(target_os = "linux")]
fn measuring_process(tune: u32, before: Option<u32>) -> u32 {
    for _ in 0..6000 {
        let children = std::fs::read_to_string(format!("/proc/{tune}/task/{tune}/children")).unwrap_or_default();
        let pids = children.split_whitespace().filter_map(|pid| pid.parse().ok());
        // The other child is the keeper of what is measured.
        let measures = |pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("measure"))
        };
        let child = pids.filter(measures).find(|&pid| Some(pid) != before);
        if let Some(child) = child {
            return child;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{tune} measures nothing");
}

#[cfg(target_os = "linux")]
#[test]
fn the_cpu_decoder_is_measured_by_a_process_that_may_hang_or_be_killed() {
    let place = Place::new();
    let more = ["--budget", "30", "--finalists", "0", "--timeout", "3", "--profile", "pp-low"];
    let mut tuning = place.command(&tune("cpu", &more)).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(tuning.stderr.take().unwrap()).lines();
    lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("tried, best"))).unwrap().unwrap();
    let signal = |what: &str, pid: u32| {
        assert!(Command::new("kill").args([what, &pid.to_string()]).status().unwrap().success());
    };
    let first = measuring_process(tuning.id(), None);
    signal("-STOP", first);
    signal("-KILL", measuring_process(tuning.id(), Some(first)));
    let said: Vec<String> = lines.map_while(Result::ok).collect();
    assert!(tuning.wait().unwrap().success(), "{said:?}");
    let observations = place.store().observations(1).unwrap();
    assert_eq!(observations.len(), 30);
    let failed = |kind: FailureKind, word: &str| {
        let this =
            |outcome: &Outcome| matches!(outcome, Outcome::Failed(f) if f.kind == kind && f.message.contains(word));
        observations.iter().filter(|observation| this(&observation.outcome)).count()
    };
    assert!(failed(FailureKind::TimeOut, "killed after 3.000 s") >= 1);
    assert_eq!(failed(FailureKind::Launch, "signal: 9"), 1);
}

#[test]
fn the_kernels_are_tuned_and_decode_uses_what_was_found() {
    let place = Place::new();
    let folder = place.path("sample");
    let folder = folder.to_str().unwrap();
    place.says(&["generate", "--profile", "pp-low", "--events", "1", "--seed", "1", "--output", folder]);
    let [events, boards, geometry] =
        ["events.mdf", "boards.bin", "geometry.bin"].map(|name| format!("{folder}/{name}"));
    let settings = place.path("tables.toml");
    std::fs::write(&settings, format!("boards = {boards:?}\ngeometry = {geometry:?}\n")).unwrap();
    let tables = ["--config", settings.to_str().unwrap()];
    let more = ["--budget", "5", "--finalists", "0", "--launches", "1", events.as_str(), "--timeout", "60"];
    let text = place.says(&tune("emulated", &[&more[..], &tables[..], &["--pipeline", "fused"]].concat()));
    assert!(text.contains("emulated-fused-decoder v1 for banks=v5") && text.contains("fused.block_x="), "{text}");
    // An interrupted one would go on only with these very events and tables.
    let sample = place.store().run_record(1).unwrap().plan.sample;
    assert!(sample.contains(&format!("{events} (")), "{sample}");
    let observations = place.store().observations(1).unwrap();
    assert_eq!(observations.len(), 5);
    assert!(observations.iter().all(|observation| matches!(observation.outcome, Outcome::Times(_))));
    let decode = ["decode", events.as_str(), "--backend", "emulated", "--pipeline", "fused"];
    let output = place.run(&[&decode[..], &tables[..]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("tuned values: "), "{said}");
}

#[test]
fn what_the_measuring_process_cannot_read_is_the_error_of_the_tuning() {
    let place = Place::new();
    let nothing = place.path("nothing.mdf");
    std::fs::write(&nothing, "").unwrap();
    let error = place.fails(&tune("cpu", &[nothing.to_str().unwrap()]));
    assert!(error.starts_with("error: ") && error.contains("there is no event"), "{error}");
    assert!(!place.path("tune.sqlite").exists());
}

#[test]
fn a_report_has_the_best_configuration_and_the_verdict() {
    let place = Place::new();
    let folder = place.path("new/report");
    place.says(&tune(
        "synthetic:seed=3,noise=0.02,fail=0.2",
        &["--finalists", "2", "--report", folder.to_str().unwrap()],
    ));
    let store = place.store();
    let evidence = store.run_record(1).unwrap().decision.unwrap();
    let measured = store.observations(1).unwrap().len();
    let [html, csv, json] =
        ["html", "csv", "json"].map(|kind| std::fs::read_to_string(folder.join(format!("run-1.{kind}"))).unwrap());
    let best = format!("block={}", evidence.chosen.config.0[0]);
    assert!(html.contains(&best) && html.contains(&evidence.verdict));
    assert!(json.contains(&best) && json.contains(&evidence.verdict), "{json}");
    // The final rounds with their intervals, on the page and beside it.
    assert!(html.contains("<h2>Decisions</h2>") && html.contains("difference from the search's best, %"));
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["report"]["decisions"][0]["candidates"].as_array().map(Vec::len), Some(1), "{json}");
    assert_eq!(csv.lines().count(), measured + 1, "{csv}");
    // What cannot be written is said; the run is kept all the same.
    std::fs::write(place.path("file"), "").unwrap();
    let file = place.path("file");
    let error = place.fails(&tune("synthetic:seed=4", &["--report", file.to_str().unwrap()]));
    assert!(error.contains(file.to_str().unwrap()), "{error}");
    assert!(place.store().run_record(2).unwrap().decision.is_some());
}

#[test]
fn all_failing_is_an_error_with_the_last_cause() {
    let place = Place::new();
    let error = place.fails(&tune("synthetic:fail=1", &[]));
    assert!(error.contains("all 12 configurations") && error.contains("too many resources"), "{error}");
}

#[test]
fn killed_it_goes_on_where_it_was_and_says_so() {
    let place = Place::new();
    let folder = place.path("report");
    let report = folder.to_str().unwrap();
    let space = place.path("space.toml");
    std::fs::write(&space, "[[parameter]]\nname = \"x\"\nrange = { from = 1, to = 64 }\n").unwrap();
    let command = "sleep 0.005; echo {x}";
    let program = ["tune", "run", "--space", space.to_str().unwrap(), "--command", command, "--regex", "[0-9]+"];
    let arguments =
        [&program[..], &["--strategy", "random", "--budget", "40", "--report", report, "--others", "100"]].concat();
    for attempt in 0.. {
        assert!(attempt < 20, "nothing is ever measured");
        let mut child = place.command(&arguments).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        // Some time after the first measurement.
        lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("tried, best")));
        std::thread::sleep(std::time::Duration::from_millis(100));
        child.kill().unwrap();
        child.wait().unwrap();
        if place.store().runs().unwrap().first().is_some_and(|run| run.measured > 0) {
            break;
        }
    }
    assert!(place.says(&["tune", "store", "list"]).contains("unfinished"));
    let output = place.run(&arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("continuing run 1: "), "{said}");
    let store = place.store();
    assert_eq!(store.runs().unwrap().len(), 1);
    let names = std::fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.filter(|name| name.as_encoded_bytes().ends_with(b".lock")).count(), 0);
    // The report has the measurements of both processes.
    let csv = std::fs::read_to_string(folder.join("run-1.csv")).unwrap();
    assert_eq!(csv.lines().count(), store.observations(1).unwrap().len() + 1, "{csv}");
}

/// Returns true if a process still runs.
#[cfg(target_os = "linux")]
fn runs(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[cfg(target_os = "linux")]
#[test]
fn killed_it_leaves_no_program_running_and_no_build() {
    let place = Place::new();
    let [space, _] = program(&place);
    let temporary = place.path("temporary folder");
    std::fs::create_dir(&temporary).unwrap();
    let pids = place.path("pids");
    let command = format!("sleep 1000 & echo $! $$ > {0}.new; mv {0}.new {0}; sleep 1000", pids.display());
    let arguments = ["tune", "run", "--space", &space, "--build", "touch {build}/x", "--command", &command];
    let mut tuning = place.command(&[&arguments[..], &["--timeout", "600"]].concat());
    let mut tuning = tuning.env("TMPDIR", &temporary).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let wait = |until: &dyn Fn() -> bool| {
        (0..1000).any(|_| {
            until() || {
                std::thread::sleep(std::time::Duration::from_millis(10));
                false
            }
        })
    };
    assert!(wait(&|| pids.exists()), "nothing was started");
    assert!(std::fs::read_dir(&temporary).unwrap().count() > 0, "nothing was built");
    tuning.kill().unwrap();
    tuning.wait().unwrap();
    let pids = std::fs::read_to_string(pids).unwrap();
    assert!(wait(&|| !pids.split_whitespace().any(runs)), "{pids}");
    assert!(wait(&|| std::fs::read_dir(&temporary).unwrap().count() == 0));
}

#[test]
fn runs_move_between_stores() {
    let (one, other) = (Place::new(), Place::new());
    one.says(&tune("synthetic:seed=3,fail=0.3", &[]));
    let export = one.path("export.json");
    let export = export.to_str().unwrap();
    one.says(&["tune", "store", "export", "--output", export]);
    assert!(other.says(&["tune", "store", "import", export]).contains("1 new run,"));
    assert!(other.says(&["tune", "store", "import", export]).contains("0 new runs, 0 new measurements"));
    assert_eq!(other.says(&["tune", "store", "export"]), std::fs::read_to_string(export).unwrap());
}

#[test]
fn a_store_that_cannot_be_written_is_listed_explained_and_exported() {
    let place = Place::new();
    place.says(&tune("synthetic:seed=3", &["--budget", "3", "--finalists", "0"]));
    let file = place.path("tune.sqlite");
    // Permissions would not stop root. SQLite does not write a file that asks for a format of writing that it does not know.
    let mut bytes = std::fs::read(&file).unwrap();
    [bytes[18], bytes[19]] = [3, 1];
    std::fs::write(&file, &bytes).unwrap();
    assert!(place.says(&["tune", "store", "list"]).contains(": 1 run\n"));
    assert!(place.says(&["tune", "explain", "1"]).contains("block="));
    assert!(place.says(&["tune", "store", "export"]).contains("\"runs\""));
    let err = place.fails(&["tune", "store", "prune", "1"]);
    assert!(err.contains("tune.sqlite") && err.contains("readonly"), "{err}");
    assert!(std::fs::read(&file).unwrap() == bytes);
}

#[test]
fn the_words_for_matching_are_those_of_the_help() {
    let place = Place::new();
    place.says(&tune("synthetic:seed=3", &["--budget", "3", "--finalists", "0"]));
    assert!(place.says(&["--help"]).contains("which tuned values count: exact, or nearest"));
    for (word, code) in [("exact", 0), ("nearest", 0), ("compatible", 1)] {
        let mut list = place.command(&["tune", "store", "list"]);
        let output = list.env("UT_DECODE_TUNE_MATCH", word).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{word}: {err}");
        assert_eq!(err.contains("UT_DECODE_TUNE_MATCH: \"compatible\" is neither"), code == 1, "{word}: {err}");
    }
}

#[test]
fn a_tuning_begins_with_what_was_best_on_another_device_and_says_so() {
    let place = Place::new();
    let recorded = Synthetic::new("seed=3".parse().unwrap()).recording(20);
    let device = |name: &str| format!("replay:{}", place.write(name, &recorded.replace("synthetic 3", name)));
    let tuned = |device: &str, more: &[&str]| {
        let output = place.run(&tune(device, more));
        assert!(output.status.success());
        [output.stderr, output.stdout].map(|bytes| String::from_utf8(bytes).unwrap())
    };
    let [said, _] = tuned(&device("old"), &[]);
    assert!(!said.contains("beginning with"), "{said}");
    let [said, _] = tuned(&device("new"), &[]);
    assert!(said.contains("beginning with the best of old [replay]: tuned ") && said.contains("(run 1 of "), "{said}");
    assert!(said.contains("for device old instead of new"), "{said}");
    let begun_with = |run| place.store().run_record(run).unwrap().plan.seeds.len();
    assert_eq!([begun_with(1), begun_with(2)], [0, 1]);
    let [said, _] = tuned(&device("newest"), &["--no-seeds"]);
    assert!(!said.contains("beginning with"), "{said}");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let place = Place::new();
    for arguments in [
        &["tune", "run", "--backend", "abacus"][..],
        &["tune", "run", "--backend", "reference"],
        &["tune", "run", "--timeout=-1"],
        &["tune", "run", "--pipeline", "fused"],
        &["tune", "run", "--backend", "synthetic:", "--budget", "forever"],
        &["tune", "run", "--backend", "synthetic:", "--strategy", "prayer"],
        &["tune", "run", "--backend", "synthetic:", "run.mdf"],
    ] {
        assert_eq!(place.run(arguments).status.code(), Some(2), "{arguments:?}");
    }
    assert!(place.fails(&["tune", "run", "--backend", "replay:/nowhere.json"]).contains("/nowhere.json"));
    assert!(!place.path("tune.sqlite").exists(), "a mistake makes no store");
    std::fs::write(place.path("tune.sqlite"), "my notes").unwrap();
    for arguments in [&["tune", "store", "list"][..], &["tune", "explain"], &["tune", "run", "--backend", "synthetic:"]]
    {
        let error = place.fails(arguments);
        assert!(error.contains("not an SQLite file") && error.contains("name another store"), "{error}");
    }
    assert_eq!(std::fs::read_to_string(place.path("tune.sqlite")).unwrap(), "my notes");
}

#[test]
fn decode_uses_tuned_values_by_itself_says_so_and_gives_the_same_hits_without() {
    use tuner::store::{Contender, Evidence, Plan, Task};
    use ut_decoding::Backend::Cpu;
    use ut_decoding::bench::tunable;
    use ut_decoding::detector::{BankVersion, DetectorTables, Grouping};
    use ut_decoding::{DecodeOptions, synth};

    let place = Place::new();
    let sample = place.path("sample");
    let sample = sample.to_str().unwrap();
    place.says(&["generate", "--profile", "pp-low", "--events", "5", "--output", sample]);
    let [events, boards, geometry] =
        ["events.mdf", "boards.bin", "geometry.bin"].map(|name| format!("{sample}/{name}"));
    let decode = |name: &str, more: &[&str]| {
        let hits = place.path(name);
        let arguments =
            ["decode", &events, "--boards", &boards, "--geometry", &geometry, "--output", hits.to_str().unwrap()];
        let output = place.run(&[&arguments[..], more].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        (said, std::fs::read(hits).unwrap())
    };
    let (said, untouched) = decode("a.csv", &[]);
    assert!(!said.contains("tuned") && !place.path("tune.sqlite").exists(), "{said}");

    let (boards_file, geometry_file) = synth::detector(BankVersion::V5, 1);
    let tables = DetectorTables::new(boards_file, geometry_file, Grouping::default()).unwrap();
    let device = tunable::device(Cpu).unwrap();
    let (thing, space) = (tunable::tunable(Cpu), tunable::space(Cpu, device.sm_count as usize).unwrap());
    let workload = tunable::workload(&tables, &DecodeOptions::default()).unwrap();
    let task = Task { device: &device, tunable: &thing, workload: &workload, space: &space };
    let mut store = place.store();
    let run = store.begin(&task, &Plan::default()).unwrap();
    let chosen = Contender { config: space.config(0), time_ms: 1.0, interval_ms: None, samples: 1 };
    let evidence = Evidence {
        chosen,
        default: None,
        runner_up: None,
        tried: 1,
        failed: 0,
        valid: space.len(),
        launches: 1,
        stopped: String::new(),
        expected_gain: None,
        verdict: String::new(),
        details: None,
    };
    store.finish(run, Some(&evidence)).unwrap();
    drop(store);

    // Throughput, too, and says in its result whether they were used.
    let throughput = |more: &[&str]| {
        let quick = ["throughput", "--profile", "pp-low", "--events", "40", "--duration", "0", "--json", "-"];
        let output = place.run(&[&quick[..], more].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (said.contains("tuned values: "), json["tuned"].clone(), json["batch"].clone())
    };
    assert_eq!(throughput(&[]), (true, true.into(), 32.into()));
    assert_eq!(throughput(&["--batch", "7"]), (true, true.into(), 7.into()));
    assert_eq!(throughput(&["--untuned"]), (false, false.into(), 40.into()));
    assert_eq!(throughput(&["--set", "cpu.chunk=2"]), (false, false.into(), 40.into()));

    let (said, tuned) = decode("b.csv", &[]);
    assert!(
        said.contains("tuned values: ") && said.contains("cpu.chunk=1,batch=32; ") && said.contains("(run 1 of "),
        "{said}"
    );
    assert_eq!(tuned, untouched);
    for by_hand in [&["--untuned"][..], &["--set", "cpu.chunk=2"], &["--set", "cpu.simd=scalar"]] {
        let (said, untuned) = decode("c.csv", by_hand);
        assert!(!said.contains("tuned"), "{said}");
        assert_eq!(untuned, untouched);
    }
    // A store that cannot be read costs a warning, not the hits.
    std::fs::write(place.path("tune.sqlite"), "my notes").unwrap();
    let (said, hits) = decode("d.csv", &[]);
    assert!(said.contains("warning: no tuned values") && said.contains("not an SQLite file"), "{said}");
    assert_eq!(hits, untouched);
}

/// A space of four tiles, and what measures it: a program whose rate is highest at 32.
fn program(place: &Place) -> [String; 2] {
    let space = "[[parameter]]\nname = \"tile\"\nvalues = [8, 16, 32, 64]\n\n[default]\ntile = 8\n";
    std::fs::write(place.path("space.toml"), space).unwrap();
    let file = place.path("space.toml").to_string_lossy().into_owned();
    [file, "case {tile} in 32) echo 400 401 399;; *) echo 1{tile} 1{tile} 1{tile};; esac".to_owned()]
}

#[test]
fn any_program_is_tuned_from_the_command_line_and_found_again() {
    let place = Place::new();
    let [space, command] = program(&place);
    let report = place.path("report");
    let arguments =
        ["tune", "run", "--space", &space, "--command", &command, "--regex", "[0-9]+", "--objective", "rate"];
    let more = ["--others", "100", "--report", report.to_str().unwrap()];
    let text = place.says(&[&arguments[..], &more[..]].concat());
    assert!(text.contains("Chosen:\n  tile=32\n    400.0/s") && text.contains("Default:\n  tile=8"), "{text}");
    assert!(text.contains("of its rate") && !text.contains(" ms"), "{text}");
    let page = std::fs::read_to_string(report.join("run-1.html")).unwrap();
    assert!(page.contains("rate, per second") && page.contains("tile=32: 400.0/s"));
    let list = place.says(&["tune", "store", "list"]);
    assert!(list.contains("400.0/s tile=32") && list.contains("objective=rate"), "{list}");
    // The same with smaller numbers better, by the environment and a failing tile.
    let command = "test $TUNE_tile -ne 64 || exit 3; echo \"{{\\\"cost\\\": $TUNE_tile}}\"";
    let smaller = ["--json-pointer", "/cost", "--objective", "smaller", "--budget", "launches=60", "--others", "100"];
    let text = place.says(&[&["tune", "run", "--space", &space, "--command", command], &smaller[..]].concat());
    assert!(text.contains("Chosen:\n  tile=8\n    8.000") && text.contains("exit status: 3"), "{text}");
}

#[test]
fn a_second_tuning_on_this_machine_waits_for_the_first() {
    let place = Place::new();
    let [space, _] = program(&place);
    let first = place.store().measure_alone().unwrap();
    let arguments = ["tune", "run", "--space", &space, "--command", "true", "--others", "100"];
    let mut second = place.command(&arguments).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(second.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("another tuning is measuring")));
    drop(first);
    assert!(lines.any(|line| line.contains("tried, best")));
    assert!(second.wait().unwrap().success());
}

#[test]
fn decode_tunes_on_first_use_where_the_settings_say_so() {
    let place = Place::new();
    let sample = place.path("sample");
    place.says(&["generate", "--profile", "pp-low", "--events", "3", "--output", sample.to_str().unwrap()]);
    let settings = sample.join("ut-decode.toml");
    let tables = "boards = \"boards.bin\"\ngeometry = \"geometry.bin\"\n";
    let decode = |tune: &str, name: &str| {
        std::fs::write(&settings, format!("{tables}{tune}")).unwrap();
        let [events, hits] = [sample.join("events.mdf"), place.path(name)].map(|path| path.display().to_string());
        let output = place.run(&["decode", &events, "--config", settings.to_str().unwrap(), "--output", &hits]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        (said, std::fs::read(hits).unwrap())
    };
    let (said, untuned) = decode("", "a.csv");
    assert!(!said.contains("tun"), "{said}");
    let (said, tuned) = decode("tune = \"first-use\"", "b.csv");
    assert!(said.contains("nothing was tuned for") && said.contains("tuned values: "), "{said}");
    let (said, again) = decode("tune = \"first-use\"", "c.csv");
    assert!(!said.contains("nothing was tuned") && said.contains("tuned values: "), "{said}");
    assert!(tuned == untuned && again == untuned);
}

#[test]
fn what_is_wrong_with_a_program_is_said_before_anything_is_measured() {
    let place = Place::new();
    let [space, command] = program(&place);
    let said = |more: &[&str], part: &str| {
        let output = place.run(&[&["tune", "run", "--space", &space], more].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(part), "{more:?}: {error}");
    };
    said(&["--command", "./mm {tille}"], "there is no {tille}; there are tile");
    said(&["--command", &command, "--regex", "("], "\"(\"");
    said(&["--command", &command, "--objective", "rate"], "--regex or --json-pointer");
    said(&["--command", &command, "--objective", "watt"], "none of time, rate, smaller, larger");
    said(&["--command", &command, "--backend", "cpu"], "--backend");
    said(&["--command", &command, "--timeout", "0"], "above 0");
    said(&["--command", "exit 1"], "exit status: 1");
    said(&[], "--command");
    std::fs::write(place.path("space.toml"), "[[parameter]]\nname = \"tile\"\nvalues = [8]\n[default]\ntlie = 8\n")
        .unwrap();
    said(&["--command", &command], "no parameter \"tlie\"");
}

#[test]
fn explain_and_the_page_of_a_run_give_the_same_importance() {
    let place = Place::new();
    let report = place.path("report");
    place.says(&tune("synthetic:seed=3,noise=0.02", &["--budget", "40", "--report", report.to_str().unwrap()]));
    let explained: serde_json::Value = serde_json::from_str(&place.says(&["tune", "explain", "--json", "-"])).unwrap();
    let page = std::fs::read_to_string(report.join("run-1.json")).unwrap();
    let page: serde_json::Value = serde_json::from_str(&page).unwrap();
    assert_eq!(explained["importance"], page["summary"]["importance"]);
    assert!(explained["importance"][0]["share"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_named_store_that_is_not_there_is_said_and_a_kept_default_is_called_so() {
    let place = Place::new();
    let output = place.run(&["throughput", "--events", "2", "--duration", "0", "--tune-db", "/nowhere/x.db"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/x.db: there is no such file"));
    let folder = place.path("").to_string_lossy().into_owned();
    place.says(&["generate", "--events", "2", "--output", &folder]);
    let [events, boards, geometry] =
        ["events.mdf", "boards.bin", "geometry.bin"].map(|name| place.path(name).to_string_lossy().into_owned());
    let output =
        place.run(&["decode", &events, "--boards", &boards, "--geometry", &geometry, "--tune-db", "/nowhere/x.db"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/x.db: there is no such file"));
    for (arguments, said) in [
        (&["throughput", "--duration", "1e18"][..], "at most a year"),
        (&["tune", "run", "--backend", "synthetic:", "--budget", "time=1e300"], "at most 31536000"),
    ] {
        let output = place.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(said), "{arguments:?}");
    }
}

#[test]
fn explain_without_a_run_says_that_it_took_the_latest_of_several_devices() {
    let place = Place::new();
    let said = "The latest decision of any device; the store has runs on 2";
    place.says(&tune("synthetic:seed=3", &[]));
    assert!(!place.says(&["tune", "explain"]).contains(said), "there is one device");
    let [space, _] = program(&place);
    let run = ["tune", "run", "--space", &space, "--command", "echo {tile}", "--regex", "[0-9]+", "--finalists", "0"];
    place.says(&run);
    assert!(place.says(&["tune", "explain"]).contains(said));
    assert!(!place.says(&["tune", "explain", "1"]).contains(said), "the run was named");
}
