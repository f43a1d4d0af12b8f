//! Compiles the commit into optimised programs.

mod commit;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=commit.rs");
    commit::commit(std::path::Path::new("../.."));
}
