//! Takes care of the PTX in `kernels/ptx`: rebuilds it when `UT_DECODE_BUILD_PTX=1` asks for it,
//! and otherwise warns where the kernels have changed since. Packages from a registry have neither
//! kernels nor this script.

// The compiler's own sources, not the crate: whoever builds the library alone builds no `simt`.
#[path = "simt/src/ptx/mod.rs"]
#[allow(dead_code, unused_imports, missing_docs)]
mod ptx;
#[path = "kernels/src/ptx/units.rs"]
mod units;

use std::path::{Path, PathBuf};
use std::{env, fs};

use ptx::{ARCHS, Compiler, KernelCrate, Ptxas, header_field};
use units::{MAX_REGISTERS, UNITS};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    for path in [
        "build.rs",
        "kernels/src",
        "kernels/format/src",
        "kernels/ptx",
        "simt/src",
    ] {
        println!("cargo:rerun-if-changed={path}");
    }
    for name in [
        "UT_DECODE_BUILD_PTX",
        "UT_DECODE_PTX_RUSTC",
        "UT_DECODE_PTXAS",
    ] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    if env::var_os("UT_DECODE_BUILD_PTX").is_some_and(|v| !v.is_empty() && v != "0") {
        let work = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
        match rebuild(&root, &work) {
            Err(e) => {
                eprintln!("{e}");
                std::process::exit(1);
            }
            // What uses the PTX may have been compiled at the same time.
            Ok(true) => println!("cargo:warning=kernels/ptx has changed: build again to use it"),
            Ok(false) => {}
        }
    } else if let Some(stale) = stale_unit(&root) {
        println!(
            "cargo:warning=kernels/src, kernels/format or simt/src has changed since {stale} was made: the GPU backend still runs \
             the older kernels; rebuild with UT_DECODE_BUILD_PTX=1 cargo build (kernels/install-ptx-tools.sh installs the compiler)"
        );
    }
}

/// Compiles every unit, and asks ptxas, if there is one, what each kernel uses. Returns true
/// if a file changed.
fn rebuild(root: &Path, work: &Path) -> Result<bool, String> {
    let compiler = Compiler::find("UT_DECODE_PTX_RUSTC")?;
    let folder = root.join("kernels/ptx");
    // Takes all units or none, because the PTX files of one build belong together.
    let compile = |unit| {
        with_kernels(root, |kernels| compiler.compile(&kernels, unit, work))
            .map(|text| (unit, text))
    };
    let units = UNITS
        .into_iter()
        .map(compile)
        .collect::<Result<Vec<_>, _>>()?;
    let mut changed = false;
    for (unit, text) in &units {
        changed |= write(&folder.join(format!("{unit}.ptx")), text)?;
    }
    let Some(ptxas) = Ptxas::find("UT_DECODE_PTXAS", &root.join("target/ptx-tools/bin")) else {
        println!(
            "cargo:warning=no ptxas: kernels/ptx/resources.json is unchanged (kernels/install-ptx-tools.sh installs it)"
        );
        return Ok(changed);
    };
    let mut lines = Vec::new();
    for (unit, text) in &units {
        for arch in ARCHS {
            for usage in ptxas.assemble(text, arch, work)? {
                lines.push(usage.to_json(unit, arch));
            }
        }
    }
    let json = format!(
        "{{\n  \"ptxas\": \"{}\",\n  \"kernels\": [\n    {}\n  ]\n}}\n",
        ptxas.version()?,
        lines.join(",\n    ")
    );
    Ok(write(&folder.join("resources.json"), &json)? || changed)
}

fn with_kernels<T>(root: &Path, run: impl FnOnce(KernelCrate<'_>) -> T) -> T {
    run(KernelCrate {
        name: "ut_kernels",
        folder: &root.join("kernels"),
        dependencies: &[("ut_format", &root.join("kernels/format"))],
        simt: Some(&root.join("simt")),
        max_registers: MAX_REGISTERS,
        rebuild: "UT_DECODE_BUILD_PTX=1 cargo build",
    })
}

/// Writes only what differs, so that an unchanged rebuild leaves the tree, and what depends on it,
/// alone. Returns true if it wrote.
fn write(path: &Path, text: &str) -> Result<bool, String> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(false);
    }
    fs::write(path, text)
        .map(|()| true)
        .map_err(|e| format!("{}: {e}", path.display()))
}

/// Returns the first unit whose PTX is missing or was made from other sources than the present
/// ones.
fn stale_unit(root: &Path) -> Option<String> {
    let hash = with_kernels(root, |kernels| kernels.source_hash()).ok()?;
    UNITS
        .iter()
        .map(|unit| format!("kernels/ptx/{unit}.ptx"))
        .find(|name| {
            let text = fs::read_to_string(root.join(name)).unwrap_or_default();
            header_field(&text, "sources") != Some(hash.as_str())
        })
}
