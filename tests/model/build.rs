//! Takes the sources that are checked as they are, with the model checkers' threads and locks in place of the standard ones.

use std::path::Path;
use std::{env, fs};

/// The source below `host`, and what stands in place of what.
const SOURCES: [(&str, &[(&str, &str)]); 2] = [
    (
        "pipeline.rs",
        &[
            ("use std::sync::", "use shuttle::sync::"),
            ("use std::thread;", "use shuttle::thread;"),
            ("thread::Builder::new().spawn_scoped(scope, worker).is_ok()", "{ scope.spawn(worker); true }"),
            // A thread that ends by a panic would end the check: it ends without.
            ("resume_unwind(panic);", "drop(panic); return;"),
            (", resume_unwind}", "}"),
        ],
    ),
    (
        "decoder/cpu/schedule.rs",
        &[
            ("use std::sync::Mutex;", "use loom::sync::Mutex;"),
            ("use std::sync::atomic::", "use loom::sync::atomic::"),
            ("std::hint::spin_loop()", "loom::hint::spin_loop()"),
            ("std::thread::yield_now()", "loom::thread::yield_now()"),
        ],
    ),
];

fn main() {
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../host");
    let out = env::var_os("OUT_DIR").expect("cargo sets it");
    for (file, changes) in SOURCES {
        let from = host.join(file);
        println!("cargo::rerun-if-changed={}", from.display());
        let mut text = fs::read_to_string(&from).expect("the source is there");
        if let Some((code, _tests)) = text.split_once("#[cfg(test)]") {
            text = code.to_owned();
        }
        for (old, new) in changes {
            assert!(text.contains(old), "{file} has no {old:?} any more");
            text = text.replace(old, new);
        }
        // A file that is included has no comments about itself.
        let text: String = text.lines().filter(|line| !line.starts_with("//!")).flat_map(|line| [line, "\n"]).collect();
        fs::write(Path::new(&out).join(from.file_name().expect("a name")), text).expect("the folder is there");
    }
}
