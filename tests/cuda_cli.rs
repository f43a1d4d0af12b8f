//! `--backend cuda` and `auto` on the command line, where there is a GPU and where there is none.

#[cfg(target_os = "linux")]
mod fake_driver;

use std::path::Path;

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use ut_decoding::backend::cuda::{Cuda, choose};

/// `decode` of a small file with this backend, hits to standard output.
fn decode(backend: &str) -> Command {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/v5");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ut-decode"));
    command.arg("decode").arg(fixture.join("events.mdf")).args(["--backend", backend]);
    command.arg("--boards").arg(fixture.join("boards.bin")).arg("--geometry").arg(fixture.join("geometry.bin"));
    command
}

#[test]
fn without_a_gpu_cuda_says_why_and_auto_takes_the_cpu_and_says_so() {
    let Err(reason) = choose(&Cuda, 0) else {
        eprintln!("SKIPPED: there is a GPU");
        return;
    };
    decode("cuda").assert().code(1).stderr(contains(reason.to_string()));
    decode("auto").assert().success().stderr(contains("taking cpu").and(contains(reason.to_string())));
}

#[test]
fn with_a_gpu_auto_takes_it_silently() {
    if let Err(reason) = choose(&Cuda, 0) {
        eprintln!("SKIPPED on the cuda backend: {reason}");
        return;
    }
    decode("auto").assert().success();
}

/// The tool, with the fake driver.
#[cfg(target_os = "linux")]
fn on_the_fake(args: &[&str]) -> std::process::Output {
    let output = fake_driver::FakeDriver::new().run_tool(&[("FAKE_CUDA_SEED", "3")], args);
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {err}");
    assert!(fake_driver::complaints(&output).is_empty(), "{args:?}: {err}");
    output
}

#[test]
#[cfg(target_os = "linux")]
fn with_a_driver_a_file_is_decoded_as_by_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    on_the_fake(&["generate", "--events", "3", "--profile", "pp-low", "--output", &at("")]);
    let (events, boards, geometry) = (at("events.mdf"), at("boards.bin"), at("geometry.bin"));
    let decode = |backend: &str, layout: &str, csv: &str| {
        let tables = ["--boards", &boards, "--geometry", &geometry, "--layout", layout, "--batch-size", "2"];
        let output = ["--backend", backend, "--output", csv, "--json", "-"];
        let output = on_the_fake(&[&["decode", &events], &tables[..], &output[..]].concat());
        (std::fs::read(csv).unwrap(), output)
    };
    let (expected, _) = decode("reference", "allen", &at("reference.csv"));
    for layout in ["allen", "mep"] {
        let (hits, output) = decode("auto", layout, &at("cuda.csv"));
        assert!(hits == expected, "{layout}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("\"cuda\""), "auto took another backend");
        assert!(String::from_utf8_lossy(&output.stderr).contains("this is no GPU"));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn with_a_driver_throughput_runs() {
    let sample = ["throughput", "--events", "2", "--batch", "1", "--profile", "pp-low", "--duration", "0"];
    let output = on_the_fake(&[&sample[..], &["--backend", "cuda", "--threads", "1", "--json", "-"]].concat());
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["backend"], "cuda", "{json}");
    assert_eq!(json["events"], 2, "{json}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_limit_of_registers_reaches_the_drivers_compiler_and_changes_no_hit() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    on_the_fake(&["generate", "--events", "1", "--profile", "pp-low", "--output", &at("")]);
    let (events, boards, geometry) = (at("events.mdf"), at("boards.bin"), at("geometry.bin"));
    let decode = |csv: &str, set: &[&str]| {
        let args =
            ["decode", &events, "--boards", &boards, "--geometry", &geometry, "--backend", "cuda", "--output", csv];
        let output = on_the_fake(&[&args[..], set].concat());
        (std::fs::read(csv).unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (free, said) = decode(&at("free.csv"), &[]);
    assert!(!said.contains("registers"), "{said}");
    let (limited, said) = decode(&at("limited.csv"), &["--set", "cuda.registers=40"]);
    assert!(said.contains("at most 40 registers"), "{said}");
    assert!(limited == free);
}

#[test]
#[cfg(target_os = "linux")]
fn a_store_knows_a_gpu_by_name_uuid_capability_multiprocessors_and_driver() {
    use ut_decoding::Backend;
    use ut_decoding::bench::tunable;

    let name = "a_store_knows_a_gpu_by_name_uuid_capability_multiprocessors_and_driver";
    fake_driver::well_on_the_fake(name, &[], || {
        let device = tunable::device(Backend::Cuda).unwrap();
        let gpu = choose(&Cuda, 0).unwrap();
        assert_eq!((&device.name, device.sm_count), (&gpu.name, gpu.multiprocessors as u32));
        assert_eq!(device.uuid, "GPU-fafafafa-fafa-fafa-fafa-fafafafafafa");
        assert_eq!(device.compute_capability, format!("{}.{}", gpu.capability.0, gpu.capability.1));
        assert!(device.driver.starts_with("CUDA ") && device.platform == "CUDA", "{device:?}");
        assert_eq!(tunable::tunable(Backend::Cuda).kernel_hash.len(), 16);
    });
}
