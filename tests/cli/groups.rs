//! `ut-decode tune groups` and `tune workloads`, as a person uses them.

use std::path::Path;

use serde_json::json;
use tuner::store::Locations;
use ut_decoding::bench::tunable;
use ut_decoding::decoder::Backend;
use ut_decoding::detector::{BankVersion, DetectorTables, Grouping};
use ut_decoding::{DecodeOptions, synth};

use crate::support::{STORE, device, empty, json_of, run_to, says, shows, small, store, write};

/// A recorded space of `width` 1 to 4 with these times, as compact CSV.
fn recording(times: [f64; 4]) -> String {
    let head = "# a kernel\nwidth,status,mean_ms,median_ms,min_ms,sd_ms,n,compile_ms\n";
    let row = |(width, time): (i32, f64)| format!("{width},ok,{time},{time},{time},0,1,0\n");
    head.to_owned() + &(1..=4).zip(times).map(row).collect::<String>()
}

#[test]
fn kernels_of_a_step_are_tuned_on_its_time_and_independent_ones_by_themselves() {
    let folder = &empty();
    write(folder, "cluster.csv", recording([4.0, 3.0, 2.0, 1.0]).as_bytes());
    write(folder, "scan.csv", recording([2.0, 1.5, 1.8, 1.9]).as_bytes());
    write(folder, "sort.csv", recording([3.0, 3.5, 2.5, 4.0]).as_bytes());
    let kernel = |name: &str| format!("[[kernel]]\nname = \"{name}\"\ndevice = \"replay:{name}.csv\"\n");
    let kernels = ["cluster", "scan", "sort"].map(kernel).concat() + "default = { width = 2 }\n";
    let group = "[[group]]\nname = \"first step\"\ntogether = [\"cluster\", \"scan\"]\nconcurrent = true\n";
    write(folder, "groups.toml", (kernels + group).as_bytes());
    let (found, _) = json_of(0, folder, "tune groups groups.toml");
    let groups = found["groups"].as_array().unwrap();
    let of = |i: usize| (groups[i]["group"].as_str().unwrap(), groups[i]["configurations"].as_u64().unwrap());
    assert_eq!((groups.len(), of(0), of(1)), (2, ("first step", 16), ("sort", 4)));
    assert_eq!(groups[0]["parameters"], json!(["cluster.width", "scan.width"]));
    // The step takes as long as the slower of the two: a scan of 2 is as fast as it need be beside a cluster of 4.
    let chain = &found["chain"];
    assert_eq!((&chain["configs"][0], &chain["configs"][2]), (&json!([4]), &json!([3])));
    let judgement = &chain["comparison"]["judgement"];
    assert_eq!((judgement["verdict"].as_str(), judgement["detail"].as_str()), (Some("better"), Some("b")));
    // 4 + 3.5 against 1.5 + 2.5.
    assert!((judgement["difference"].as_f64().unwrap() - (4.0 / 7.5 - 1.0)).abs() < 1e-9, "{judgement}");
    // A run for each group, and one for the chain, which decided for what was chosen.
    let runs = store(folder).runs().unwrap();
    assert_eq!(runs.len(), 3);
    assert_eq!(runs[2].record.tunable.name, "chain of cluster, scan, sort");
    assert!(runs[2].record.decision.as_ref().unwrap().verdict.starts_with("better than the default"));
    let text = shows(folder, "tune groups groups.toml", "verdict             B is better: use what was chosen");
    assert!(text.contains("cluster.width=4 scan.width=") && text.contains("sort.width=3"), "{text}");
}

/// The example of a chain of programs, as its first lines say.
#[test]
fn a_chain_of_programs_is_tuned_by_groups_for_each_workload_and_measured_as_a_whole() {
    let folder = &empty();
    for name in ["chain.toml", "width.toml"] {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("tuner/examples/chain").join(name);
        std::fs::copy(example, folder.join(name)).unwrap();
    }
    let (found, _) = json_of(0, folder, "tune groups chain.toml --rule alice --others 100");
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
        assert_eq!((&judgement["detail"], &judgement["kept"]), (&json!("b"), &json!(40)), "every launch: {found}");
    }
    assert!(of[1]["what"].as_str().unwrap().contains("workload=PbPb"), "{found}");
}

#[test]
fn a_program_is_tuned_for_each_of_its_inputs() {
    let folder = &empty();
    write(folder, "one.toml", b"[[parameter]]\nname = \"x\"\nvalues = [1, 2, 3, 4, 5]\n[default]\nx = 1\n");
    let command = ["--command", "echo $(( 10 + ({x} - {workload}) * ({x} - {workload}) ))"];
    let program = (command, "--space one.toml --regex [0-9]+ --name mine");
    let quick = "--others 100 --rounds 3 --weights 1,9 --for-all mean";
    let (found, _) = json_of(0, folder, ("tune workloads small=2 large=4", program, quick));
    let chosen: Vec<_> =
        found["decided"].as_array().unwrap().iter().map(|of| of["chosen"]["config"][0].clone()).collect();
    assert_eq!(chosen, [2, 4], "{found}");
    assert_eq!(found["matrix"]["workloads"], json!(["small", "large"]));
    let set = found["mean"][0].as_u64().unwrap() as usize;
    assert_eq!(found["matrix"]["sets"][set], json!([4]));
    assert!(found["kept"].as_str().unwrap().contains("better than the default"), "{found}");
    let record = store(folder).runs().unwrap().remove(0).record;
    let workload = record.workload.keys()["workload"].to_string();
    assert_eq!((record.tunable.name.as_str(), workload.as_str()), ("mine", "small"));
    says(2, folder, ("tune workloads small", program), "NAME=INPUT");
}

#[test]
fn parameters_of_one_device_are_grouped_and_the_defaults_stay_without_evidence() {
    let folder = &empty();
    let pairs = "[[group]]\ntogether = [\"block\", \"per_thread\"]\n[[group]]\nname = \"rest\"\n\
                 together = [\"unroll\", \"stage\"]\n";
    write(folder, "groups.toml", format!("[default]\nblock = 128\n{pairs}").as_bytes());
    let of = |spec: &str| format!("tune groups groups.toml --backend {}", device(folder, spec));
    let (found, _) = json_of(0, folder, of("seed=3,noise=0.01"));
    let names: Vec<&str> = found["groups"].as_array().unwrap().iter().map(|g| g["group"].as_str().unwrap()).collect();
    // No group names `layout`, so it is tuned by itself.
    assert_eq!(names, ["block + per_thread", "rest", "layout"]);
    assert_eq!(found["groups"][0]["configurations"], 48);
    assert_eq!(found["parameters"], json!(["block", "per_thread", "unroll", "stage", "layout"]));
    assert_eq!(found["chain"]["comparison"]["judgement"]["detail"], "b");
    assert!(found["kept"]["verdict"].as_str().unwrap().starts_with("better than the default"));
    // Nothing is faster than anything else.
    write(folder, "equal.csv", recording([2.0; 4]).as_bytes());
    write(folder, "groups.toml", b"[default]\nwidth = 1\n[[group]]\ntogether = [\"width\"]\n");
    let (text, _) = run_to(0, folder, "tune groups groups.toml --backend replay:equal.csv");
    assert!(text.contains("the defaults stay") || text.contains("every group keeps its default"), "{text}");
}

#[test]
fn groups_that_cannot_be_meant_are_named() {
    let folder = &empty();
    write(folder, "a.csv", recording([4.0, 3.0, 2.0, 1.0]).as_bytes());
    let kernel = |name: &str, more: &str| format!("[[kernel]]\nname = \"{name}\"\ndevice = \"replay:a.csv\"\n{more}\n");
    let group = |members: &str| format!("[[group]]\ntogether = [{members}]\n");
    for (text, part) in [
        ("together = 1".to_owned(), "unknown field"),
        (group("\"sort\""), "there is no \"sort\"; there are block, "),
        ("[default]\nblock = 7".to_owned(), "no valid configuration has block=7"),
        (kernel("a", "").replace("replay:a.csv", "cpu"), "not a kernel of a chain"),
        (kernel("a", "").replace("replay:a.csv", "abacus"), "none of cpu, "),
        ("[[kernel]]\nname = \"a\"\nprogram = { comand = \"true\" }".to_owned(), "comand"),
    ] {
        write(folder, "groups.toml", text.as_bytes());
        says(1, folder, ("tune groups groups.toml --backend", device(folder, "")), part);
    }
    says(1, folder, "tune groups nowhere.toml", "nowhere.toml");
    // The recording that is replayed is not written over.
    write(folder, "groups.toml", kernel("a", "").as_bytes());
    for command in ["tune groups groups.toml", "tune run --backend replay:a.csv --finalists 0"] {
        says(2, folder, (command, "--json a.csv"), "would overwrite");
    }
}

/// Returns true if a lookup for these banks finds a result, of a workload or of any.
fn found(store: &Path, workload: Option<&str>) -> bool {
    let (boards, geometry) = synth::detector(BankVersion::V5, 1);
    let tables = DetectorTables::new(boards, geometry, Grouping::default()).unwrap();
    let locations = Locations { user: store.to_owned() };
    let options = DecodeOptions::default();
    let workload = match workload {
        None => tunable::workload(&tables, &options),
        Some(name) => tunable::workload_of(&tables, &options, name),
    };
    tunable::look_up(&locations, Backend::Cpu, &workload.unwrap()).unwrap().is_some()
}

#[test]
fn workloads_are_tuned_one_by_one_and_their_sets_are_never_taken_for_each_others() {
    let folder = &small(5);
    let detector = "--config tables.toml";
    let tune = "tune workloads pp-low events.mdf --budget 3 --rounds 3 --others 100";
    let (value, _) = json_of(0, folder, (tune, detector));
    let matrix = &value["matrix"];
    assert_eq!(matrix["workloads"], json!(["pp-low", "events"]));
    let sets = matrix["sets"].as_array().unwrap().len();
    assert!((2..=5).contains(&sets), "the default, and what each search found: {matrix}");
    let times = matrix["times"].as_array().unwrap();
    let all_times = times.iter().flat_map(|row| row.as_array().unwrap());
    assert!(times.len() == sets && all_times.into_iter().all(|time| time.as_f64() > Some(0.0)));
    assert!(value["mean"][0].as_u64() < Some(sets as u64) && value["worst"][0].as_u64() < Some(sets as u64));
    for (of, name) in value["of_workload"].as_array().unwrap().iter().zip(["pp-low", "events"]) {
        assert!(of["workload"] == name && of["set"].as_u64() < Some(sets as u64), "{of}");
        assert!(of["parameters"].as_str().unwrap().contains("threads="), "{of}");
    }

    let store = folder.join(STORE);
    let of = |workload: Option<&str>| found(&store, workload);
    assert_eq!((of(Some("pp-low")), of(Some("events")), of(Some("pp-high")), of(None)), (true, true, false, false));
    let decode = ("decode events.mdf --output hits.csv", detector);
    let (_, err) = run_to(0, folder, decode);
    assert!(!err.contains("tuned values"), "{err}");
    says(0, folder, (decode, "--workload events"), "tuned values: ");
    says(0, folder, (decode, "--workload pp-high"), "warning: nothing was tuned for the workload \"pp-high\"");
    for (code, args, part) in [
        (2, "tune workloads pp-low pp-low", "two workloads called pp-low"),
        (2, "tune workloads pp-low --weights 1,2", "--weights"),
        (2, "tune workloads pp-low --weights 0", "--weights"),
        (1, "tune workloads no-such", "no-such"),
    ] {
        says(code, folder, args, part);
    }
}
