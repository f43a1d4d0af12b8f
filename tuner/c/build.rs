//! The name under which programs look for the shared library: it has the version of the interface.
//! And the commit.

#[path = "../../host/bench/commit.rs"]
mod commit;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../host/bench/commit.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libonline_tuner.so.1");
    }
    commit::commit(std::path::Path::new("../.."));
}
