//! `ut-decode groups` and `ut-decode workloads`, as a person uses them.

use std::path::Path;

use crate::made::Place;
use predicates::prelude::*;
use serde_json::json;
use tuner::store::{Locations, Matching};
use ut_decoding::bench::tunable;
use ut_decoding::decoder::Backend;
use ut_decoding::detector::{BankVersion, DetectorTables, Grouping};
use ut_decoding::{DecodeOptions, synth};

/// A recorded space of `width` 1 to 4 with these times, as compact CSV.
fn recording(times: [f64; 4]) -> String {
    let head = "# a kernel\nwidth,status,mean_ms,median_ms,min_ms,sd_ms,n,compile_ms\n";
    let row = |(width, time): (i32, f64)| format!("{width},ok,{time},{time},{time},0,1,0\n");
    head.to_owned() + &(1..=4).zip(times).map(row).collect::<String>()
}

#[test]
fn kernels_of_a_step_are_tuned_on_its_time_and_independent_ones_by_themselves() {
    let place = Place::new();
    place.write("cluster.csv", &recording([4.0, 3.0, 2.0, 1.0]));
    place.write("scan.csv", &recording([2.0, 1.5, 1.8, 1.9]));
    place.write("sort.csv", &recording([3.0, 3.5, 2.5, 4.0]));
    let file = place.write(
        "groups.toml",
        r#"
        [[kernel]]
        name = "cluster"
        device = "replay:cluster.csv"
        [[kernel]]
        name = "scan"
        device = "replay:scan.csv"
        [[kernel]]
        name = "sort"
        device = "replay:sort.csv"
        default = { width = 2 }
        [[group]]
        name = "first step"
        together = ["cluster", "scan"]
        concurrent = true
        "#,
    );
    let found = place.json(&["tune", "groups", &file]);
    let groups = found["groups"].as_array().unwrap();
    let of = |i: usize| (groups[i]["group"].as_str().unwrap(), groups[i]["configurations"].as_u64().unwrap());
    assert_eq!((groups.len(), of(0), of(1)), (2, ("first step", 16), ("sort", 4)));
    assert_eq!(groups[0]["parameters"], json!(["cluster.width", "scan.width"]));
    // The step takes as long as the slower of the two: a scan of 2 is as fast as it need be beside a cluster of 4.
    let chain = &found["chain"];
    assert_eq!(chain["configs"][0], json!([4]));
    assert_eq!(chain["configs"][2], json!([3]));
    let judgement = &chain["comparison"]["judgement"];
    assert_eq!((judgement["verdict"].as_str(), judgement["detail"].as_str()), (Some("better"), Some("b")));
    // 4 + 3.5 against 1.5 + 2.5.
    assert!((judgement["difference"].as_f64().unwrap() - (4.0 / 7.5 - 1.0)).abs() < 1e-9, "{judgement}");
    // A run for each group, and one for the chain, which decided for what was chosen.
    let runs = place.store().runs().unwrap();
    assert_eq!(runs.len(), 3);
    assert_eq!(runs[2].record.tunable.name, "chain of cluster, scan, sort");
    assert!(runs[2].record.decision.as_ref().unwrap().verdict.starts_with("better than the default"));
    place
        .tool(&["tune", "groups", &file])
        .assert()
        .code(0)
        .stdout(predicate::str::contains("cluster.width=4 scan.width=").and(predicate::str::contains("sort.width=3")))
        .stdout(predicate::str::contains("verdict             B is better: use what was chosen"));
}

/// The example of a chain of programs, as its first lines say.
#[test]
fn a_chain_of_programs_is_tuned_by_groups_for_each_workload_and_measured_as_a_whole() {
    let place = Place::new();
    for name in ["chain.toml", "width.toml"] {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("tuner/examples/chain").join(name);
        std::fs::copy(example, place.path(name)).unwrap();
    }
    let quick = ["--rule", "alice", "--rounds", "2", "--looks", "10", "--others", "100"];
    let found = place.json(&[&["tune", "groups", "chain.toml"][..], &quick].concat());
    let of = found["workloads"].as_array().unwrap();
    assert_eq!(of.len(), 2);
    for (found, width) in of.iter().zip([3, 6]) {
        let names: Vec<_> = found["groups"].as_array().unwrap().iter().map(|g| g["group"].as_str().unwrap()).collect();
        // The sort is best with its default.
        assert_eq!(names, ["first step", "sort"]);
        assert_eq!(found["groups"][0]["configurations"], 36);
        let set = &found["chain"]["configs"];
        assert_eq!((&set[0], &set[2]), (&json!([width]), &json!([1])), "{found}");
        // The step takes as long as the slower of the two.
        assert_eq!(found["groups"][0]["decision"]["chosen"]["time_ms"], 0.1, "{found}");
        let judgement = &found["chain"]["comparison"]["judgement"];
        assert_eq!(judgement["detail"], "b", "{found}");
        assert_eq!(judgement["kept"], 40, "every launch of the whole chain");
    }
    assert!(of[1]["what"].as_str().unwrap().contains("workload=PbPb"), "{found}");
}

#[test]
fn programs_that_run_at_once_are_measured_beside_each_other() {
    let place = Place::new();
    place.write("one.toml", "[[parameter]]\nname = \"x\"\nvalues = [1, 2]\n");
    // Each waits for the other, which would be forever if they took turns.
    let command = |mine: &str, other: &str| {
        format!("touch {mine}; until test -e {other}; do sleep 0.01; done; sleep 0.1; rm -f {mine}; echo {{x}}")
    };
    let kernel = |name: &str, other: &str| {
        let command = command(name, other);
        format!(
            "[[kernel]]\nname = \"{name}\"\nprogram = {{ space = \"one.toml\", command = \"{command}\", regex = \"[12]\" }}\n"
        )
    };
    let group = "[[group]]\ntogether = [\"a\", \"b\"]\nconcurrent = true\n";
    let file = place.write("chain.toml", &(kernel("a", "b") + &kernel("b", "a") + group));
    let found = place.json(&["tune", "groups", &file, "--others", "100", "--budget", "launches=12"]);
    assert_eq!(found["groups"][0]["decision"]["failed"], 0, "{found}");
}

#[test]
fn a_program_is_tuned_for_each_of_its_inputs() {
    let place = Place::new();
    let space = place.write("one.toml", "[[parameter]]\nname = \"x\"\nvalues = [1, 2, 3, 4, 5]\n[default]\nx = 1\n");
    let command = "echo $(( 10 + ({x} - {workload}) * ({x} - {workload}) ))";
    let program = ["--space", &space, "--command", command, "--regex", "[0-9]+", "--name", "mine"];
    let quick = ["--others", "100", "--rounds", "3", "--weights", "1,9", "--for-all", "mean"];
    let found = place.json(&[&["tune", "workloads", "small=2", "large=4"][..], &program, &quick].concat());
    let chosen: Vec<_> =
        found["decided"].as_array().unwrap().iter().map(|of| of["chosen"]["config"][0].clone()).collect();
    assert_eq!(chosen, [2, 4], "{found}");
    assert_eq!(found["matrix"]["workloads"], json!(["small", "large"]));
    let set = found["mean"][0].as_u64().unwrap() as usize;
    assert_eq!(found["matrix"]["sets"][set], json!([4]));
    assert!(found["kept"].as_str().unwrap().contains("better than the default"), "{found}");
    let record = place.store().runs().unwrap().remove(0).record;
    assert_eq!(
        (record.tunable.name.as_str(), record.workload.keys()["workload"].to_string()),
        ("mine", "small".to_owned())
    );
    let refused = place.tool(&[&["tune", "workloads", "small"][..], &program].concat()).assert().code(2);
    refused.stderr(predicate::str::contains("NAME=INPUT"));
}

#[test]
fn parameters_of_one_device_are_grouped_and_the_defaults_stay_without_evidence() {
    let place = Place::new();
    let file = place.write(
        "groups.toml",
        "[default]\nblock = 128\n[[group]]\ntogether = [\"block\", \"per_thread\"]\n[[group]]\nname = \"rest\"\n\
         together = [\"unroll\", \"stage\"]\n",
    );
    let arguments = ["tune", "groups", &file, "--backend", "synthetic:seed=3,noise=0.01", "--looks", "10"];
    let found = place.json(&arguments);
    let names: Vec<&str> = found["groups"].as_array().unwrap().iter().map(|g| g["group"].as_str().unwrap()).collect();
    // No group names `layout`, so it is tuned by itself.
    assert_eq!(names, ["block + per_thread", "rest", "layout"]);
    assert_eq!(found["groups"][0]["configurations"], 48);
    assert_eq!(found["parameters"], json!(["block", "per_thread", "unroll", "stage", "layout"]));
    assert_eq!(found["chain"]["comparison"]["judgement"]["detail"], "b");
    assert!(found["kept"]["verdict"].as_str().unwrap().starts_with("better than the default"));

    // Noise in which nothing can be shown.
    let loud = ["tune", "groups", &file, "--backend", "synthetic:seed=3,noise=2", "--looks", "4", "--rounds", "2"];
    place.tool(&loud).assert().code(0).stdout(
        predicate::str::contains("the defaults stay").or(predicate::str::contains("every group keeps its default")),
    );
}

#[test]
fn a_recording_with_other_times_is_another_search_and_its_fixed_parameters_are_part_of_the_workload() {
    let place = Place::new();
    let file = place.write("groups.toml", "[default]\nwidth = 1\n[[group]]\ntogether = [\"width\"]\n");
    let kernels = "[[kernel]]\nname = \"scan\"\ndevice = \"replay:scan.csv\"\n";
    let kernels = place.write("kernels.toml", kernels);
    let (groups, chain) = (["tune", "groups", &file, "--backend", "replay:scan.csv"], ["tune", "groups", &kernels]);
    let run = ["tune", "run", "--backend", "replay:scan.csv", "--finalists", "0"];
    let mut plans = Vec::new();
    for times in [[2.0, 1.5, 1.8, 1.9], [2.0, 1.0, 1.8, 1.9]] {
        place.write("scan.csv", &recording(times).replace("# a kernel", "# kernel=scan; fixed={\"items\": 7}"));
        for arguments in [&groups[..], &chain[..], &run[..]] {
            let before = place.store().runs().unwrap().len();
            place.tool(arguments).assert().code(0);
            plans.push(place.store().runs().unwrap()[before].record.clone());
        }
    }
    for (one, other) in plans[..3].iter().zip(&plans[3..]) {
        assert_eq!((&one.tunable, &one.workload), (&other.tunable, &other.workload));
        assert_ne!(one.plan.sample, other.plan.sample);
    }
    assert!(plans[0].workload.to_string().contains("items"), "{}", plans[0].workload);
    assert_eq!(plans[0].workload, plans[2].workload);
}

#[test]
fn groups_that_cannot_be_meant_are_named() {
    let place = Place::new();
    place.write("a.csv", &recording([4.0, 3.0, 2.0, 1.0]));
    let kernel = |name: &str, more: &str| format!("[[kernel]]\nname = \"{name}\"\ndevice = \"replay:a.csv\"\n{more}\n");
    for (text, part) in [
        ("together = 1".to_owned(), "unknown field"),
        ("[[group]]\ntogether = [\"sort\"]".to_owned(), "there is no \"sort\"; there are block, "),
        ("[[group]]\ntogether = []".to_owned(), "is empty"),
        (
            "[[group]]\ntogether = [\"block\"]\n[[group]]\ntogether = [\"block\"]".to_owned(),
            "\"block\" is in a group already",
        ),
        ("[default]\nblock = 7".to_owned(), "no valid configuration has block=7"),
        (kernel("a", "default = { height = 1 }"), "no valid configuration has height=1"),
        (kernel("a", "") + &kernel("a", ""), "two kernels called \"a\""),
        (kernel("a", "").replace("replay:a.csv", "cpu"), "not a kernel of a chain"),
        (kernel("a", "").replace("replay:a.csv", "abacus"), "none of cpu, "),
        (kernel("a", "program = { command = \"true\" }"), "either a device or a program"),
        ("[[kernel]]\nname = \"a\"\nprogram = { comand = \"true\" }".to_owned(), "comand"),
        (kernel("a", "") + "[[workload]]\nname = \"pp\"", "there is no program"),
        (kernel("a", "") + "[default]\nwidth = 1", "each has a default of its own"),
    ] {
        let file = place.write("groups.toml", &text);
        let tool = place.tool(&["tune", "groups", &file, "--backend", "synthetic:"]).assert().code(1);
        tool.stderr(predicate::str::contains(part));
    }
    place.tool(&["tune", "groups", "nowhere.toml"]).assert().code(1).stderr(predicate::str::contains("nowhere.toml"));
}

/// Returns true if a lookup for these banks finds a result, of a workload or of any.
fn found(store: &Path, workload: Option<&str>) -> bool {
    let (boards, geometry) = synth::detector(BankVersion::V5, 1);
    let tables = DetectorTables::new(boards, geometry, Grouping::default()).unwrap();
    let locations = Locations { user: store.to_owned(), matching: Matching::Nearest };
    let options = DecodeOptions::default();
    let workload = match workload {
        None => tunable::workload(&tables, &options),
        Some(name) => tunable::workload_of(&tables, &options, name),
    };
    let found = tunable::look_up(&locations, Backend::Cpu, &workload.unwrap());
    found.unwrap().is_some()
}

#[test]
fn workloads_are_tuned_one_by_one_and_their_sets_are_never_taken_for_each_others() {
    let place = Place::new();
    place.tool(&["generate", "--events", "5", "--output", "."]).assert().code(0);
    let quick = ["--budget", "3", "--rounds", "3", "--others", "100"];
    place.write("tables.toml", "boards = \"boards.bin\"\ngeometry = \"geometry.bin\"\n");
    let detector = ["--config", "tables.toml"];
    let arguments = [&["tune", "workloads", "pp-low", "events.mdf"][..], &quick, &detector].concat();
    let value = place.json(&arguments);
    let matrix = &value["matrix"];
    assert_eq!(matrix["workloads"], json!(["pp-low", "events"]));
    let sets = matrix["sets"].as_array().unwrap().len();
    assert!((2..=5).contains(&sets), "the default, and what each search found: {matrix}");
    let times = matrix["times"].as_array().unwrap();
    assert!(
        times.len() == sets
            && times.iter().flat_map(|row| row.as_array().unwrap()).all(|time| time.as_f64() > Some(0.0))
    );
    assert!(value["mean"][0].as_u64() < Some(sets as u64) && value["worst"][0].as_u64() < Some(sets as u64));
    let of_workload = value["of_workload"].as_array().unwrap();
    assert!(
        of_workload.len() == 2 && of_workload.iter().all(|set| value["portfolio"].as_array().unwrap().contains(set))
    );
    let looks = value["looks"].as_array().unwrap();
    assert!(
        looks[0]["looks"]["hits_per_event"].as_f64().unwrap() < looks[1]["looks"]["hits_per_event"].as_f64().unwrap()
    );

    let store = place.path("tune.sqlite");
    let of = |workload: Option<&str>| found(&store, workload);
    assert_eq!((of(Some("pp-low")), of(Some("events")), of(Some("pp-high")), of(None)), (true, true, false, false));
    let decode = |more: &[&str]| {
        let arguments = [&["decode", "events.mdf", "--output", "hits.csv"][..], &detector, more].concat();
        place.tool(&arguments).assert().code(0)
    };
    decode(&[]).stderr(predicate::str::contains("tuned values").not());
    decode(&["--workload", "events"]).stderr(predicate::str::contains("tuned values: "));
    decode(&["--workload", "pp-high"]).stderr(predicate::str::contains(
        "warning: nothing was tuned for the workload \"pp-high\": the defaults are used",
    ));
    for (arguments, part) in [
        (&["tune", "workloads", "pp-low", "pp-low"][..], "two workloads called pp-low"),
        (&["tune", "workloads", "pp-low", "--weights", "1,2"], "--weights"),
        (&["tune", "workloads", "pp-low", "--weights", "0"], "--weights"),
    ] {
        place.tool(arguments).assert().code(2).stderr(predicate::str::contains(part));
    }
    place.tool(&["tune", "workloads", "no-such"]).assert().code(1).stderr(predicate::str::contains("no-such"));
}

#[test]
fn a_recording_that_is_replayed_is_not_written_over() {
    let place = Place::new();
    let text = recording([2.0, 1.5, 1.8, 1.9]);
    place.write("scan.csv", &text);
    let kernel = place.write("kernels.toml", "[[kernel]]\nname = \"scan\"\ndevice = \"replay:scan.csv\"\n");
    let group = place.write("groups.toml", "[[group]]\ntogether = [\"width\"]\n");
    for args in [
        &["tune", "run", "--finalists", "0", "--backend", "replay:scan.csv"][..],
        &["tune", "groups", &group, "--backend", "replay:scan.csv"],
        &["tune", "groups", &kernel],
    ] {
        let refused = place.tool(args).args(["--json", "scan.csv"]).assert().code(2);
        refused
            .stderr(predicate::str::contains("would overwrite").and(predicate::str::contains(", which is an input")));
        assert_eq!(std::fs::read_to_string(place.path("scan.csv")).unwrap(), text, "{args:?}");
    }
}
