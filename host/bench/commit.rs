//! For build scripts: compiles the commit into optimised programs, which may run far from the
//! checkout.
//!
//! The environment variable `UT_DECODE_COMMIT` takes precedence over git. Programs of other
//! profiles do not know the commit, because crates that do are compiled again after each.

use std::path::Path;
use std::process::Command;

/// Sets `UT_DECODE_COMMIT` for rustc, if cargo noted the commit in the package, or git knows the
/// commit of `root`.
pub fn commit(root: &Path) {
    println!("cargo::rerun-if-env-changed=UT_DECODE_COMMIT");
    if std::env::var_os("UT_DECODE_COMMIT").is_some()
        || std::env::var("PROFILE").as_deref() != Ok("release")
    {
        return;
    }
    if let Ok(packed) = std::fs::read_to_string(".cargo_vcs_info.json") {
        // A package from a registry: cargo noted the commit when it packed it.
        if let Some((_, hash)) = packed.split_once("\"sha1\": \"") {
            println!(
                "cargo::rustc-env=UT_DECODE_COMMIT={:.12}",
                hash.split('"').next().unwrap_or_default()
            );
        }
        return;
    }
    let git = |args: &[&str]| {
        let output = Command::new("git")
            .arg("-C")
            .arg(root)
            .args(args)
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        (output.status.success() && !text.is_empty()).then_some(text)
    };
    let Some(commit) = git(&["describe", "--always", "--dirty", "--abbrev=12"]) else {
        return;
    };
    println!("cargo::rustc-env=UT_DECODE_COMMIT={commit}");
    let head = git(&["rev-parse", "--git-path", "logs/HEAD"]).map(|head| root.join(head));
    let sources = [
        "capi",
        "host",
        "kernels",
        "page",
        "python/src",
        "simt",
        "tuner",
        "Cargo.lock",
    ]
    .map(|of| root.join(of));
    for path in head.into_iter().chain(sources).filter(|path| path.exists()) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}
