//! `--backend cuda` and `auto` on the command line, where there is a GPU and where there is none.

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
