//! The header must be the one that cbindgen makes from the sources. After a change of the
//! interface:
//! `UT_WRITE_HEADER=1 cargo test -p ut-decoding-c --test header`.

use std::path::Path;

use cbindgen::{Builder, Config};

/// Source files in the order in which the header has their declarations.
const SOURCES: [&str; 7] = [
    "version", "status", "tables", "batch", "hits", "decoder", "cuda",
];

#[test]
fn the_header_is_made_from_the_sources() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = Config::from_file(package.join("cbindgen.toml")).expect("a good configuration");
    let mut builder = Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(package.join(format!("src/{source}.rs")));
    }
    let mut made = Vec::new();
    builder
        .generate()
        .expect("sources that cbindgen takes")
        .write(&mut made);
    // The preconditions have a heading in Rust.
    let made = String::from_utf8(made)
        .expect("UTF-8")
        .replace("// # Safety\n", "// Preconditions:\n");

    let path = package.join("include/ut_decoding.h");
    if std::env::var_os("UT_WRITE_HEADER").is_some() {
        std::fs::write(&path, &made).expect("the header can be written");
    }
    let committed = std::fs::read_to_string(&path).expect("the header is there");
    assert!(
        made == committed,
        "include/ut_decoding.h is not what the sources give; tests/header.rs says how to make it"
    );
}
