//! Has the commit compiled into the wheel.

#[path = "../host/bench/commit.rs"]
mod commit;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../host/bench/commit.rs");
    commit::commit(std::path::Path::new(".."));
}
