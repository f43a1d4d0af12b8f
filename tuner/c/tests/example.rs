//! The example in C, compiled with the header, linked with the library, and run.
#![cfg(unix)]

use std::path::Path;
use std::process::Command;

// So that the library is built.
use tuner_c as _;

#[test]
fn the_example_in_c_tunes_its_loop() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("loop");
    // Cargo leaves it beside the tests.
    let library = std::env::current_exe().unwrap().with_file_name("libtuner_c.a");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O2", "-I"]).arg(package.join("include"));
    compiler.arg(package.join("examples/loop.c")).arg(&library).args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program);
    let compiled = compiler.output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program).output().unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success() && said.contains(" launches; rows="), "{said}");
    let number =
        |name: &str| said.split(name).nth(1).unwrap().split_whitespace().next().unwrap().parse::<i64>().unwrap();
    // 22 combinations of at most 4096 numbers, five times each at least.
    assert!(number("rows=") * number("columns=") <= 4096, "{said}");
    assert!(said.split(' ').next().unwrap().parse::<usize>().unwrap() >= 5 * 22, "{said}");
}
