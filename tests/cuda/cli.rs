//! `--backend cuda` and `auto` on the command line.

use std::path::Path;

use ut_decoding::decoder::cuda::choose;

use crate::fake_driver::{FakeDriver, tool, well_on_the_fake};

/// Returns the line that decodes a small file of the fixtures.
fn decode(input: &str) -> String {
    let at = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/v5");
    format!("decode {at}/{input} --boards {at}/boards.bin --geometry {at}/geometry.bin")
}

#[test]
fn without_a_gpu_every_command_gives_the_reason_and_auto_reports_that_it_takes_the_cpu() {
    let folder = tempfile::tempdir().unwrap();
    let [store, output] =
        ["tune.sqlite", "sweep"].map(|name| folder.path().join(name).display().to_string());
    let events = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/v5/events.mdf");
    let run = |code, line: &str| {
        let (_, err) = tool(
            code,
            &[("FAKE_CUDA_DEVICES", "0"), ("UT_DECODE_TUNE_DB", &store)],
            line,
        );
        assert!(
            err.contains("the NVIDIA driver finds no GPU"),
            "{line}: {err}"
        );
        err
    };
    for line in [
        "throughput --events 1 --profile pp-low --backend cuda".to_owned(),
        format!("ablation {events} --backend cuda"),
        format!("sweep {events} --backend cuda --axis streams=1 --output {output}"),
        "tune run --backend cuda".to_owned(),
        format!("{} --backend cuda", decode("events.mdf")),
    ] {
        run(1, &line);
    }
    let err = run(0, &format!("{} --backend auto", decode("events.mdf")));
    assert!(err.contains("taking cpu"), "{err}");
    assert!(!Path::new(&store).exists(), "nothing is stored");
}

#[test]
#[ignore = "needs a GPU"]
fn on_a_gpu_auto_takes_it_silently_and_gives_the_hits_of_the_reference() {
    choose(0).expect("a GPU");
    let run = |backend| {
        let line = format!("{} --backend {backend}", decode("events.mdf"));
        let mut tool = std::process::Command::new(env!("CARGO_BIN_EXE_ut-decode"));
        let output = tool
            .args(line.split(' '))
            .output()
            .expect("the tool can be run");
        assert!(output.status.success(), "{output:?}");
        (
            output.stdout,
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (hits, said) = run("auto");
    assert!(!said.contains("taking"), "{said}");
    assert!(hits == run("reference").0);
}

/// Runs the tool with the fake, whose streams run ahead.
fn on_the_fake(line: &str) -> (String, String) {
    tool(0, &[("FAKE_CUDA_SEED", "3")], line)
}

#[test]
fn with_a_driver_a_file_is_decoded_as_by_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let decode = |options: &str| {
        let file = decode("events.mdf");
        let output = on_the_fake(&format!(
            "{file} --batch 2 --output {at}/hits.csv --json - {options}"
        ));
        (
            std::fs::read(folder.path().join("hits.csv")).unwrap(),
            output,
        )
    };
    let (expected, _) = decode("--backend reference");
    for layout in ["allen", "mep"] {
        let (hits, (out, err)) = decode(&format!("--backend auto --set layout={layout}"));
        assert!(hits == expected, "{layout}");
        assert!(
            out.contains("\"cuda\"") && err.contains("this is not a GPU"),
            "auto took another backend"
        );
    }
}

/// Decodes a fixture on the fake; gives hits, and what the fake said.
fn decoded(input: &str, more: &str) -> (Vec<u8>, String) {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("hits.csv");
    let (decode, to) = (decode(input), csv.display());
    let (_, said) = on_the_fake(&format!(
        "{decode} --output {to} --untuned --backend cuda {more}"
    ));
    (std::fs::read(csv).unwrap(), said)
}

#[test]
fn registers_and_carve_out_reach_the_kernels_and_change_no_hit() {
    let (hits, said) = decoded("events.mdf", "");
    // The PTX says so itself.
    assert!(
        said.contains("cluster__v5_allen_ranked has at most 40 registers"),
        "{said}"
    );
    let prefers: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("shared memory"))
        .collect();
    let of = |kernel: &str| {
        let name = format!(" {kernel}__v5_allen_ranked prefers");
        prefers
            .iter()
            .any(|line| line.contains(&name) && !line.contains(" 100 %"))
    };
    assert!(
        prefers.len() == 2 && of("cluster") && of("sort_groups"),
        "{prefers:?}"
    );
    let (limited, said) = decoded(
        "events.mdf",
        "--set cuda.registers=56 --set ranked.carve_out=58",
    );
    assert!(
        said.contains("cluster__v5_allen_ranked has at most 56 registers"),
        "{said}"
    );
    let others = "cluster_unusual__v5_allen_ranked has at most 64 registers";
    assert!(
        said.contains(others) && said.contains("prefers 58 %"),
        "{said}"
    );
    assert!(limited == hits);
    let (unset, said) = decoded("events.mdf", "--set ranked.carve_out=1");
    assert!(!said.contains("prefers") && unset == hits, "{said}");
}

#[test]
fn memory_is_allocated_a_few_times_and_damaged_events_share_batches() {
    // The counts that the fake gives when the context ends.
    let counts = |said: &str| -> Vec<usize> {
        let line = said
            .lines()
            .find(|line| line.contains("the context ends after"))
            .expect("the counts");
        line.split(|c: char| !c.is_ascii_digit())
            .filter_map(|word| word.parse().ok())
            .collect()
    };
    let (hits, said) = decoded("troubles.mdf", "");
    let [_, _, _, launches, allocations, pinned, waits, 0] = counts(&said)[..] else {
        panic!("{said}")
    };
    // Two decoders take turns: each has its own tables, and one decoder has the batch.
    assert!(
        allocations <= 6 && pinned <= 4 && waits <= 2 && launches <= 10,
        "{said}"
    );
    let (mep, said) = decoded("troubles.mdf", "--set layout=mep");
    assert!(counts(&said)[3] <= 24 && mep == hits, "{said}");
}

#[test]
fn a_function_that_the_driver_lacks_is_named_and_nothing_panics() {
    let throughput = "throughput --events 1 --profile pp-low --duration 0 --backend cuda";
    let output = FakeDriver::without("cuMemHostAlloc").run_tool(&[], throughput);
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(1) && err.contains("libcuda has no cuMemHostAlloc:"),
        "{err}"
    );
}

#[test]
fn a_store_knows_a_gpu_by_name_uuid_capability_multiprocessors_and_driver() {
    use ut_decoding::Backend;
    use ut_decoding::bench::tunable;

    well_on_the_fake(&[], || {
        let device = tunable::device(Backend::Cuda).unwrap();
        let gpu = choose(0).unwrap();
        assert_eq!(
            (&device.name, device.sm_count),
            (&gpu.name, gpu.multiprocessors as u32)
        );
        assert_eq!(device.uuid, "GPU-fafafafa-fafa-fafa-fafa-fafafafafafa");
        assert_eq!(
            device.compute_capability,
            format!("{}.{}", gpu.capability.0, gpu.capability.1)
        );
        assert!(
            device.driver.starts_with("CUDA ") && device.platform == "CUDA",
            "{device:?}"
        );
        assert_eq!(tunable::tunable(Backend::Cuda).kernel_hash.len(), 16);
    });
}
