//! Has the commit compiled into the wheel.

#[path = "../host/commit.rs"]
mod commit;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../host/commit.rs");
    commit::commit(std::path::Path::new(".."));
}
