//! `ut-decode tune`, its store and `explain`, as a person uses them.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::json;
use tuner::store::Locations;
use tuner::{FailureKind, Outcome};
use ut_decoding::bench::tunable;
use ut_decoding::decoder::Backend;
use ut_decoding::detector::{BankVersion, DetectorTables, Grouping};
use ut_decoding::{DecodeOptions, synth};

use crate::support::{
    Line, STORE, TABLES, empty, json_of, read, run_to, says, shows, small, store, tool, write,
};

/// Starts a command, whose standard error comes line by line.
fn start(folder: &Path, args: impl Line) -> (Child, impl Iterator<Item = String>) {
    let mut child = tool(folder, args)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok);
    (child, lines)
}

#[cfg(target_os = "linux")]
#[test]
fn the_cpu_decoder_is_measured_by_a_process_that_may_be_killed() {
    let folder = &small(50);
    let args = "tune run events.mdf --backend cpu --budget 15 --finalists 0 --strategy random";
    let (mut tuning, mut lines) = start(folder, args);
    assert!(lines.any(|line| line.contains("tried, best")));
    // One that has answered is replaced, and its request repeated; the next one dies with it. The
    // other child is the keeper.
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
        assert!(
            std::process::Command::new("kill")
                .args(["-KILL", &next])
                .status()
                .unwrap()
                .success()
        );
        last = next;
    }
    let said: Vec<String> = lines.collect();
    assert!(tuning.wait().unwrap().success(), "{said:?}");
    let observations = store(folder).observations(1).unwrap();
    let killed = |outcome: &Outcome| matches!(outcome, Outcome::Failed(f) if f.kind == FailureKind::Launch && f.message.contains("signal: 9"));
    let n_killed = observations
        .iter()
        .filter(|observation| killed(&observation.outcome))
        .count();
    assert_eq!((observations.len(), n_killed), (15, 1));
}

#[test]
fn the_kernels_are_tuned_and_decode_uses_what_was_found() {
    let folder = &small(1);
    let kernels = "events.mdf --backend emulated --config tables.toml";
    let tune = "tune run --budget 5 --finalists 0 --strategy random --launches 1 --timeout 60";
    let text = shows(
        folder,
        (tune, kernels),
        "emulated-ranked-decoder v1 for banks=v5",
    );
    assert!(text.contains("ranked.sort_block_x="), "{text}");
    // An interrupted one would go on only with these very events and tables.
    let sample = store(folder).run_record(1).unwrap().plan.sample;
    assert!(sample.contains("events.mdf ("), "{sample}");
    let observations = store(folder).observations(1).unwrap();
    assert_eq!(observations.len(), 5);
    assert!(
        observations
            .iter()
            .all(|observation| matches!(observation.outcome, Outcome::Times(_)))
    );
    says(0, folder, ("decode", kernels), "tuned values: ");
}

#[test]
fn an_unreadable_input_of_the_measuring_process_fails_the_tuning() {
    let folder = &empty();
    write(folder, "nothing.mdf", b"");
    let error = says(
        1,
        folder,
        "tune run --backend cpu nothing.mdf",
        "there is no event",
    );
    assert!(error.starts_with("error: "), "{error}");
    assert!(!folder.join(STORE).exists());
}

#[test]
fn impossible_settings_are_refused() {
    let folder = &empty();
    for (args, said) in [
        (
            "run --backend abacus",
            "[possible values: cpu, cuda, emulated]",
        ),
        (
            "run --backend reference",
            "[possible values: cpu, cuda, emulated]",
        ),
        ("run --timeout=-1", "above 0"),
        ("run --pipeline fused", "ranked has replaced it"),
        ("run --budget forever", "--budget"),
        ("run --strategy prayer", "--strategy"),
        // Programs are another command's.
        ("run --command true", "--command"),
        ("groups groups.toml", "ut-decode tune chain groups.toml"),
        (
            "workloads pp-low pbpb-low --budget 3",
            "groups and workloads are given in one file",
        ),
    ] {
        says(2, folder, ("tune", args), said);
    }
    says(2, folder, "throughput --duration 1e18", "at most a year");
    write(
        folder,
        "programs.toml",
        b"[[kernel]]\nname = \"a\"\nreplay = \"a.csv\"\n",
    );
    says(1, folder, "tune chain programs.toml", "tuner chain FILE");
    write(folder, "chain.toml", b"[[workload]]\nname = \"no-such\"\n");
    says(
        1,
        folder,
        "tune chain chain.toml",
        "none of the profiles pp-low, ",
    );
    write(folder, "chain.toml", b"[[group]]\ntogether = [\"sort\"]\n");
    says(
        1,
        folder,
        "tune chain chain.toml",
        "there is no \"sort\"; there are ",
    );
    assert!(!folder.join(STORE).exists(), "a mistake makes no store");
    write(folder, STORE, b"my notes");
    for args in ["tune store list", "tune explain", "tune run --budget 2"] {
        let error = says(1, folder, args, "not an SQLite file");
        assert!(error.contains("name another store"), "{error}");
    }
    assert_eq!(read(folder, STORE), b"my notes");
}

#[test]
fn decode_uses_tuned_values_by_default_reports_them_and_gives_the_same_hits_without() {
    let folder = &small(5);
    let decode = |more: &str| {
        let (_, said) = run_to(
            0,
            folder,
            ("decode events.mdf --output hits.csv", TABLES, more),
        );
        (said, read(folder, "hits.csv"))
    };
    let (said, untouched) = decode("");
    assert!(
        !said.contains("tuned") && !folder.join(STORE).exists(),
        "{said}"
    );
    run_to(
        0,
        folder,
        "tune run events.mdf --backend cpu --budget 2 --finalists 0 --strategy random",
    );
    // Throughput, too, and says in its result whether they were used.
    let throughput = |more: &str| {
        let (json, said) = json_of(
            0,
            folder,
            ("throughput --profile pp-low --events 40 --duration 0", more),
        );
        let (is_tuned, batch) = (
            json["tuned"].as_bool().unwrap(),
            json["batch"].as_u64().unwrap(),
        );
        assert_eq!(said.contains("tuned values: "), is_tuned, "{said}");
        (is_tuned, batch, said)
    };
    let (is_tuned, batch, said) = throughput("");
    // A value that is the default's is not named.
    let found = said.split("batch=").nth(1).map_or(256, |rest| {
        rest.split([',', ';'])
            .next()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    });
    assert_eq!((is_tuned, batch), (true, found.min(40)), "{said}");
    for (more, expected) in [
        ("--batch 7", (true, 7)),
        ("--untuned", (false, 40)),
        ("--set cpu.simd=scalar", (false, 40)),
    ] {
        let (is_tuned, batch, _) = throughput(more);
        assert_eq!((is_tuned, batch), expected, "{more}");
    }
    let (said, tuned) = decode("");
    assert!(
        said.contains("tuned values: ") && said.contains("(run 1 of "),
        "{said}"
    );
    assert_eq!(tuned, untouched);
    for by_hand in ["--untuned", "--set cpu.simd=scalar"] {
        let (said, untuned) = decode(by_hand);
        assert!(!said.contains("tuned") && untuned == untouched, "{said}");
    }
    // A store that cannot be read costs a warning, not the hits.
    write(folder, STORE, b"my notes");
    let (said, hits) = decode("");
    assert!(
        said.contains("warning: no tuned values") && said.contains("not an SQLite file"),
        "{said}"
    );
    assert_eq!(hits, untouched);
}

#[test]
fn decode_tunes_on_first_use_where_the_settings_say_so() {
    let folder = &small(3);
    let tables = read(folder, "tables.toml");
    write(
        folder,
        "first.toml",
        &[&tables[..], b"tune = \"first-use\""].concat(),
    );
    let decode = |settings: &str| {
        let (_, said) = run_to(
            0,
            folder,
            ("decode events.mdf --output hits.csv --config", settings),
        );
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
    assert!(
        said.contains("nothing was tuned") == busy && (busy || said.contains("tuned values: ")),
        "{said}"
    );
    assert!(tuned == untuned && again == untuned);
}

/// Returns true if a lookup for these banks finds a result, of a workload or of any.
fn found(store: &Path, workload: Option<&str>) -> bool {
    let (boards, geometry) = synth::detector(BankVersion::V5, 1);
    let tables = DetectorTables::new(boards, geometry, Grouping::default()).unwrap();
    let locations = Locations {
        user: store.to_owned(),
    };
    let options = DecodeOptions::default();
    let workload = match workload {
        None => tunable::workload(&tables, &options),
        Some(name) => tunable::workload_of(&tables, &options, name),
    };
    tunable::look_up(&locations, Backend::Cpu, &workload.unwrap())
        .unwrap()
        .is_some()
}

#[test]
fn workloads_are_tuned_one_by_one_and_never_share_their_sets() {
    let folder = &small(5);
    let detector = "--config tables.toml";
    let file = "[[workload]]\nname = \"pp-low\"\n[[workload]]\nname = \"mine\"\nevents = [\"events.mdf\"]\nweight = 9\n";
    write(folder, "chain.toml", file.as_bytes());
    let tune = "tune chain chain.toml --budget 3 --rounds 3 --others 100 --report page";
    let (value, _) = json_of(0, folder, (tune, detector));
    let matrix = &value["all"]["matrix"];
    assert_eq!(
        (&matrix["workloads"], &value["all"]["weights"]),
        (&json!(["pp-low", "mine"]), &json!([1.0, 9.0]))
    );
    let sets = matrix["sets"].as_array().unwrap().len();
    assert!(
        (1..=3).contains(&sets),
        "the default, and what each search found: {matrix}"
    );
    let times = matrix["times"].as_array().unwrap();
    let all_times = times.iter().flat_map(|row| row.as_array().unwrap());
    assert!(times.len() == sets && all_times.into_iter().all(|time| time.as_f64() > Some(0.0)));
    assert!(
        String::from_utf8(read(folder, "page/chain.html"))
            .unwrap()
            .contains("All sets on all workloads")
    );

    let store = folder.join(STORE);
    assert!(!found(&store, Some("pp-high")) && !found(&store, None));
    let decode = ("decode events.mdf --output hits.csv", detector);
    let (_, err) = run_to(0, folder, decode);
    assert!(!err.contains("tuned values"), "{err}");
    for (tuning, name) in value["workloads"]
        .as_array()
        .unwrap()
        .iter()
        .zip(["pp-low", "mine"])
    {
        // Where neither the searches nor the comparison of the whole can tell, nothing is kept.
        let kept = tuning["kept"][1].as_str();
        assert_eq!(
            found(&store, Some(name)),
            kept.is_some_and(|verdict| !verdict.starts_with("nothing is decided")),
            "{tuning}"
        );
        if found(&store, Some(name)) {
            says(0, folder, (decode, ["--workload", name]), "tuned values: ");
        }
    }
    says(
        0,
        folder,
        (decode, "--workload pp-high"),
        "warning: nothing was tuned for the workload \"pp-high\"",
    );
}

#[test]
fn parameters_are_tuned_in_groups_and_those_in_none_one_by_one() {
    let folder = &small(3);
    write(
        folder,
        "chain.toml",
        b"[[group]]\ntogether = [\"batch\"]\n[default]\nbatch = 64\n",
    );
    let tune = "tune chain chain.toml events.mdf --budget 2 --others 100 --config tables.toml";
    let (value, _) = json_of(0, folder, tune);
    let of = &value["workloads"][0];
    let groups: Vec<&str> = of["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|g| g["group"].as_str().unwrap())
        .collect();
    // With one core there is no choice of threads.
    assert!(
        groups == ["batch", "threads"] || groups == ["batch"],
        "{of}"
    );
    let names: Vec<&str> = of["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    let batch = names.iter().position(|name| *name == "batch").unwrap();
    assert_eq!(of["default"][batch], 64, "{of}");
}
