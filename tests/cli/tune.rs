//! `ut-decode tune`, its store and `explain`, as a person uses them.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;
use tuner::{FailureKind, Outcome};
use tuner_score::synthetic::Synthetic;

use crate::support::{
    Folder, Line, STORE, TABLES, device, empty, json_of, read, run_to, says, shows, small, store, tool, write,
};

/// A quick tuning of a made device, with its options replaced by those given.
fn tune(folder: &Path, spec: &str, more: &str) -> String {
    let quick = ["--budget 12", "--finalists 1", "--strategy random"];
    let is_kept = |option: &&str| !more.contains(option.split(' ').next().unwrap());
    let kept: Vec<&str> = quick.into_iter().filter(is_kept).collect();
    format!("tune run --backend {} {} {more}", device(folder, spec), kept.join(" "))
}

/// Starts a command, whose standard error comes line by line.
fn start(folder: &Path, args: impl Line) -> (Child, impl Iterator<Item = String>) {
    let mut child = tool(folder, args).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    (child, lines)
}

#[test]
fn a_tuning_is_listed_explained_and_removed() {
    let folder = &empty();
    let text = shows(folder, tune(folder, "seed=3,noise=0.02", "--finalists 2"), "Chosen:\n  block=");
    assert!(text.contains("Tried 12 of 1152"), "{text}");
    assert_eq!(shows(folder, "tune explain", "Final rounds, "), text);
    assert!(text.contains("What matters: "), "{text}");
    let (json, _) = json_of(0, folder, "tune explain");
    assert_eq!(json["importance"].as_array().map(Vec::len), Some(5));
    assert!(json["decision"]["details"]["decisions"][0]["candidates"][0]["blocks"].as_u64() >= Some(4), "{json}");
    let list = shows(folder, "tune store list", ": 1 run\n");
    assert!(list.contains("decided: "), "{list}");
    says(1, folder, "tune explain 7", "there is no run 7");
    shows(folder, "tune store prune 1", "removed 1 run: 1");
    says(1, folder, "tune explain", "no run decided anything yet");
    run_to(2, folder, "tune store prune");
}

#[test]
fn a_configuration_that_hangs_is_killed_and_one_that_crashes_costs_only_itself() {
    let folder = &empty();
    write(folder, "space.toml", b"[[parameter]]\nname = \"x\"\nrange = { from = 1, to = 12 }\n");
    let command = ["--command", "case {x} in 3|7) sleep 100;; 5|9) kill -6 $$;; *) echo {x};; esac"];
    let options = "--regex [0-9]+ --timeout 0.4 --budget 12 --finalists 0";
    let timed_out = "failed: time-out (one says: killed after 0.400 s)";
    let text = shows(folder, ("tune run --space space.toml", command, options), timed_out);
    assert!(text.contains("one says: signal: 6"), "{text}");
}

#[cfg(target_os = "linux")]
#[test]
fn the_cpu_decoder_is_measured_by_a_process_that_may_be_killed() {
    let folder = &small(50);
    let args = "tune run events.mdf --backend cpu --budget 15 --finalists 0 --strategy random";
    let (mut tuning, mut lines) = start(folder, args);
    assert!(lines.any(|line| line.contains("tried, best")));
    // One that has answered is replaced, and its request repeated; the next one dies with it. The other child is the keeper.
    let children = format!("/proc/{0}/task/{0}/children", tuning.id());
    let mut last = String::new();
    for _ in 0..2 {
        let is_next = |pid: &&str| {
            let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
            *pid != last && line.is_ok_and(|line| line.contains("measure"))
        };
        let next = loop {
            let pids = std::fs::read_to_string(&children).unwrap();
            if let Some(pid) = pids.split_whitespace().find(is_next) {
                break pid.to_owned();
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(std::process::Command::new("kill").args(["-KILL", &next]).status().unwrap().success());
        last = next;
    }
    let said: Vec<String> = lines.collect();
    assert!(tuning.wait().unwrap().success(), "{said:?}");
    let observations = store(folder).observations(1).unwrap();
    let killed = |outcome: &Outcome| matches!(outcome, Outcome::Failed(f) if f.kind == FailureKind::Launch && f.message.contains("signal: 9"));
    let n_killed = observations.iter().filter(|observation| killed(&observation.outcome)).count();
    assert_eq!((observations.len(), n_killed), (15, 1));
}

#[test]
fn the_kernels_are_tuned_and_decode_uses_what_was_found() {
    let folder = &small(1);
    let kernels = "events.mdf --backend emulated --pipeline fused --config tables.toml";
    let tune = "tune run --budget 5 --finalists 0 --strategy random --launches 1 --timeout 60";
    let text = shows(folder, (tune, kernels), "emulated-fused-decoder v1 for banks=v5");
    assert!(text.contains("fused.block_x="), "{text}");
    // An interrupted one would go on only with these very events and tables.
    let sample = store(folder).run_record(1).unwrap().plan.sample;
    assert!(sample.contains("events.mdf ("), "{sample}");
    let observations = store(folder).observations(1).unwrap();
    assert_eq!(observations.len(), 5);
    assert!(observations.iter().all(|observation| matches!(observation.outcome, Outcome::Times(_))));
    says(0, folder, ("decode", kernels), "tuned values: ");
}

#[test]
fn what_the_measuring_process_cannot_read_is_the_error_of_the_tuning() {
    let folder = &empty();
    write(folder, "nothing.mdf", b"");
    let error = says(1, folder, "tune run --backend cpu nothing.mdf", "there is no event");
    assert!(error.starts_with("error: "), "{error}");
    assert!(!folder.join(STORE).exists());
}

#[test]
fn a_report_has_the_best_configuration_the_verdict_and_the_importance_that_explain_gives() {
    let folder = &empty();
    let tuning = tune(folder, "seed=3,noise=0.02,fail=0.2", "--budget 40 --finalists 2 --report new/report");
    run_to(0, folder, tuning);
    let (evidence, measured) =
        (store(folder).run_record(1).unwrap().decision.unwrap(), store(folder).observations(1).unwrap().len());
    let report = |kind: &str| String::from_utf8(read(folder, &format!("new/report/run-1.{kind}"))).unwrap();
    let [html, json] = ["html", "json"].map(report);
    let best = format!("block={}", evidence.chosen.config.0[0]);
    assert!(html.contains(&best) && html.contains(&evidence.verdict));
    assert!(json.contains(&best) && json.contains(&evidence.verdict), "{json}");
    let value: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["report"]["evaluations"].as_array().map(Vec::len), Some(measured), "{json}");
    let (explained, _) = json_of(0, folder, "tune explain");
    assert_eq!(explained["importance"], value["summary"]["importance"]);
    // A report that cannot be written is an error; the run is kept all the same.
    write(folder, "file", b"");
    says(1, folder, tune(folder, "seed=4", "--report file"), "file");
    assert!(store(folder).run_record(2).unwrap().decision.is_some());
}

#[test]
fn killed_it_goes_on_where_it_was_and_says_so() {
    let folder = &empty();
    write(folder, "space.toml", b"[[parameter]]\nname = \"x\"\nrange = { from = 1, to = 64 }\n");
    // Without a command that takes some time, all would be over too soon.
    write(folder, "slow", b"sleep 0.01; echo $1\n");
    let command = ["--command", "sh slow {x}", "--regex", "[0-9]+"];
    let args = (
        "tune run --space space.toml --strategy random --budget 40 --finalists 0 --report report --others 100",
        command,
    );
    let (mut child, mut lines) = start(folder, args);
    assert!(lines.any(|line| line.contains("tried, best")));
    // Some configurations are measured to their end.
    while store(folder).runs().unwrap().first().is_none_or(|run| run.measured < 10) {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    shows(folder, "tune store list", "unfinished");
    says(0, folder, args, "continuing run 1: ");
    assert_eq!(store(folder).runs().unwrap().len(), 1);
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.filter(|name| name.as_encoded_bytes().ends_with(b".lock")).count(), 0);
    // The report has the measurements of both processes.
    let report: Value = serde_json::from_slice(&read(folder, "report/run-1.json")).unwrap();
    let measured = store(folder).observations(1).unwrap().len();
    assert_eq!(report["report"]["evaluations"].as_array().map(Vec::len), Some(measured), "{report}");
}

/// Returns true if a process still runs.
#[cfg(target_os = "linux")]
fn runs(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[cfg(target_os = "linux")]
#[test]
fn killed_it_leaves_no_program_running_and_no_build() {
    let folder = &program();
    std::fs::create_dir(folder.join("temporary folder")).unwrap();
    let command =
        format!("sleep 1000 & echo $! $$ > {0}.new; mv {0}.new {0}; sleep 1000", folder.join("pids").display());
    let programs = ["--build", "touch {build}/x", "--command", &command];
    let mut tuning = tool(folder, ("tune run --space space.toml --timeout 600", programs));
    let tuning = tuning.env("TMPDIR", folder.join("temporary folder")).stderr(Stdio::null()).stdout(Stdio::null());
    let mut tuning = tuning.spawn().unwrap();
    let wait = |until: &dyn Fn() -> bool| {
        (0..1000).any(|_| {
            until() || {
                std::thread::sleep(Duration::from_millis(10));
                false
            }
        })
    };
    let n_builds = || std::fs::read_dir(folder.join("temporary folder")).unwrap().count();
    assert!(wait(&|| folder.join("pids").exists()), "nothing was started");
    assert!(n_builds() > 0, "nothing was built");
    tuning.kill().unwrap();
    tuning.wait().unwrap();
    let pids = String::from_utf8(read(folder, "pids")).unwrap();
    assert!(wait(&|| !pids.split_whitespace().any(runs)), "{pids}");
    assert!(wait(&|| n_builds() == 0));
}

#[test]
fn a_tuning_begins_with_what_was_best_on_another_device_and_says_so() {
    let folder = &empty();
    let recorded = Synthetic::new("seed=3".parse().unwrap()).recording(20);
    let tuned = |name: &str, more: &str| {
        write(folder, name, recorded.replace("synthetic 3", name).as_bytes());
        let quick = "--budget 12 --finalists 1 --strategy random";
        run_to(0, folder, (format!("tune run --backend replay:{name}"), quick, more)).1
    };
    let said = tuned("old", "");
    assert!(!said.contains("beginning with"), "{said}");
    let said = tuned("new", "");
    assert!(said.contains("beginning with the best of old [replay]: tuned ") && said.contains("(run 1 of "), "{said}");
    assert!(said.contains("for device old instead of new"), "{said}");
    assert_eq!([1, 2].map(|run| store(folder).run_record(run).unwrap().plan.seeds.len()), [0, 1]);
    let said = tuned("newest", "--no-seeds");
    assert!(!said.contains("beginning with"), "{said}");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let folder = &empty();
    let made = device(folder, "");
    for (args, said) in [
        ("--backend abacus", ""),
        ("--backend reference", ""),
        ("--timeout=-1", ""),
        ("--pipeline fused", ""),
        (&format!("--backend {made} --budget forever"), ""),
        (&format!("--backend {made} --budget time=1e300"), "at most 31536000"),
        (&format!("--backend {made} --strategy prayer"), ""),
        (&format!("--backend {made} run.mdf"), ""),
    ] {
        says(2, folder, ("tune run", args), said);
    }
    says(2, folder, "throughput --duration 1e18", "at most a year");
    says(1, folder, "tune run --backend replay:/nowhere.json", "/nowhere.json");
    assert!(!folder.join(STORE).exists(), "a mistake makes no store");
    write(folder, STORE, b"my notes");
    for args in ["tune store list", "tune explain", &format!("tune run --backend {made}")] {
        let error = says(1, folder, args, "not an SQLite file");
        assert!(error.contains("name another store"), "{error}");
    }
    assert_eq!(read(folder, STORE), b"my notes");
}

#[test]
fn decode_uses_tuned_values_by_itself_says_so_and_gives_the_same_hits_without() {
    let folder = &small(5);
    let decode = |more: &str| {
        let (_, said) = run_to(0, folder, ("decode events.mdf --output hits.csv", TABLES, more));
        (said, read(folder, "hits.csv"))
    };
    let (said, untouched) = decode("");
    assert!(!said.contains("tuned") && !folder.join(STORE).exists(), "{said}");
    run_to(0, folder, "tune run events.mdf --backend cpu --budget 2 --finalists 0 --strategy random");
    // Throughput, too, and says in its result whether they were used.
    let throughput = |more: &str| {
        let (json, said) = json_of(0, folder, ("throughput --profile pp-low --events 40 --duration 0", more));
        let (is_tuned, batch) = (json["tuned"].as_bool().unwrap(), json["batch"].as_u64().unwrap());
        assert_eq!(said.contains("tuned values: "), is_tuned, "{said}");
        (is_tuned, batch, said)
    };
    let (is_tuned, batch, said) = throughput("");
    // A value that is the default's is not named.
    let found =
        said.split("batch=").nth(1).map_or(256, |rest| rest.split([',', ';']).next().unwrap().parse::<u64>().unwrap());
    assert_eq!((is_tuned, batch), (true, found.min(40)), "{said}");
    for (more, expected) in
        [("--batch 7", (true, 7)), ("--untuned", (false, 40)), ("--set cpu.simd=scalar", (false, 40))]
    {
        let (is_tuned, batch, _) = throughput(more);
        assert_eq!((is_tuned, batch), expected, "{more}");
    }
    let (said, tuned) = decode("");
    assert!(said.contains("tuned values: ") && said.contains("(run 1 of "), "{said}");
    assert_eq!(tuned, untouched);
    for by_hand in ["--untuned", "--set cpu.simd=scalar"] {
        let (said, untuned) = decode(by_hand);
        assert!(!said.contains("tuned") && untuned == untouched, "{said}");
    }
    // A store that cannot be read costs a warning, not the hits.
    write(folder, STORE, b"my notes");
    let (said, hits) = decode("");
    assert!(said.contains("warning: no tuned values") && said.contains("not an SQLite file"), "{said}");
    assert_eq!(hits, untouched);
}

/// A folder with a space of four tiles.
fn program() -> Folder {
    let folder = empty();
    let space = "[[parameter]]\nname = \"tile\"\nvalues = [8, 16, 32, 64]\n\n[default]\ntile = 8\n";
    write(&folder, "space.toml", space.as_bytes());
    folder
}

/// A program whose rate is highest with a tile of 32.
const FASTEST_AT_32: [&str; 2] =
    ["--command", "case {tile} in 32) echo 400 401 399;; *) echo 1{tile} 1{tile} 1{tile};; esac"];

#[test]
fn any_program_is_tuned_from_the_command_line_and_found_again() {
    let folder = &program();
    let tune = "tune run --space space.toml --others 100";
    let more = "--regex [0-9]+ --objective rate --report report";
    let text = shows(folder, (tune, FASTEST_AT_32, more), "Chosen:\n  tile=32\n    400.0/s");
    assert!(text.contains("Default:\n  tile=8") && text.contains("times as fast") && !text.contains(" ms"), "{text}");
    let page = String::from_utf8(read(folder, "report/run-1.html")).unwrap();
    assert!(page.contains("rate, per second") && page.contains("tile=32: 400.0/s"));
    let list = shows(folder, "tune store list", "400.0/s tile=32");
    assert!(list.contains("objective=rate"), "{list}");
    // Smaller numbers are better; the value comes from the environment, and a tile fails.
    let command = ["--command", "test $TUNE_tile -ne 64 || exit 3; echo \"{{\\\"cost\\\": $TUNE_tile}}\""];
    let smaller = "--json-pointer /cost --objective smaller --budget launches=60";
    let text = shows(folder, (tune, command, smaller), "Chosen:\n  tile=8\n    8.000");
    assert!(text.contains("exit status: 3"), "{text}");
}

#[test]
fn a_second_tuning_on_this_machine_waits_for_the_first() {
    let folder = &program();
    let first = store(folder).measure_alone().unwrap();
    let (mut second, mut lines) = start(folder, "tune run --space space.toml --command true --others 100");
    assert!(lines.any(|line| line.contains("another tuning is measuring")));
    drop(first);
    assert!(lines.any(|line| line.contains("tried, best")));
    assert!(second.wait().unwrap().success());
}

#[test]
fn decode_tunes_on_first_use_where_the_settings_say_so() {
    let folder = &small(3);
    let tables = read(folder, "tables.toml");
    write(folder, "first.toml", &[&tables[..], b"tune = \"first-use\""].concat());
    let decode = |settings: &str| {
        let (_, said) = run_to(0, folder, ("decode events.mdf --output hits.csv --config", settings));
        (said, read(folder, "hits.csv"))
    };
    let (said, untuned) = decode("tables.toml");
    assert!(!said.contains("tun"), "{said}");
    let (said, tuned) = decode("first.toml");
    assert!(said.contains("nothing was tuned for"), "{said}");
    // On a busy machine nothing is decided, and the next run tunes again.
    let busy = said.contains("cannot tell");
    assert!(said.contains("tuned values: ") != busy, "{said}");
    let (said, again) = decode("first.toml");
    assert!(said.contains("nothing was tuned") == busy && (busy || said.contains("tuned values: ")), "{said}");
    assert!(tuned == untuned && again == untuned);
}
