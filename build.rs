//! Sees to the PTX in `kernels/ptx`: rebuilds it when `UT_DECODE_BUILD_PTX=1` asks for it, and otherwise takes what is
//! committed, with a warning where the kernels have changed since.

#[path = "kernels/ptx_units.rs"]
mod ptx_units;

use std::path::{Path, PathBuf};
use std::{env, fs};

use ptx_units::{MAX_REGISTERS, UNITS};
use simt::ptx::{ARCHS, Compiler, KernelCrate, Ptxas, header_field};

fn main() {
    // The package that has the PTX is host/decoders.
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let root = package.ancestors().nth(2).expect("it lies two folders deep").to_owned();
    for path in ["build.rs", "kernels/ptx_units.rs", "kernels/src", "kernels/ptx", "simt/src"] {
        println!("cargo:rerun-if-changed={}", root.join(path).display());
    }
    for name in ["UT_DECODE_BUILD_PTX", "UT_DECODE_PTX_RUSTC", "UT_DECODE_PTXAS"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    if env::var_os("UT_DECODE_BUILD_PTX").is_some_and(|v| !v.is_empty() && v != "0") {
        let work = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
        if let Err(e) = rebuild(&root, &work) {
            eprintln!("{e}");
            std::process::exit(1);
        }
    } else if let Some(stale) = stale_unit(&root) {
        println!(
            "cargo:warning=kernels/src or simt/src has changed since {stale} was made: the GPU backend still runs the older kernels; \
             rebuild with UT_DECODE_BUILD_PTX=1 cargo build (kernels/install-ptx-tools.sh installs the compiler)"
        );
    }
}

/// Compiles every unit, and has ptxas, where there is one, say what each kernel uses.
fn rebuild(root: &Path, work: &Path) -> Result<(), String> {
    let compiler = Compiler::find("UT_DECODE_PTX_RUSTC")?;
    let folder = root.join("kernels/ptx");
    let folders = (root.join("kernels"), root.join("simt"));
    let kernels = kernels(&folders);
    // All or none: what is there belongs together.
    let units = UNITS.map(|unit| compiler.compile(&kernels, unit, work).map(|text| (unit, text)));
    let units = units.into_iter().collect::<Result<Vec<_>, _>>()?;
    for (unit, text) in &units {
        write(&folder.join(format!("{unit}.ptx")), text)?;
    }
    let Some(ptxas) = Ptxas::find("UT_DECODE_PTXAS", &root.join("target/ptx-tools/bin")) else {
        println!(
            "cargo:warning=no ptxas: kernels/ptx/resources.json was left as it was (kernels/install-ptx-tools.sh installs it)"
        );
        return Ok(());
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
    write(&folder.join("resources.json"), &json)
}

fn kernels((folder, simt): &(PathBuf, PathBuf)) -> KernelCrate<'_> {
    KernelCrate {
        name: "ut_kernels",
        folder,
        simt: Some(simt),
        max_registers: MAX_REGISTERS,
        rebuild: "UT_DECODE_BUILD_PTX=1 cargo build",
    }
}

/// Writes only what differs, so that an unchanged rebuild leaves the tree, and what depends on it, alone.
fn write(path: &Path, text: &str) -> Result<(), String> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

/// The first unit whose PTX was made from other sources than are here, or that is missing.
fn stale_unit(root: &Path) -> Option<String> {
    let folders = (root.join("kernels"), root.join("simt"));
    let hash = kernels(&folders).source_hash().ok()?;
    UNITS.iter().map(|unit| format!("kernels/ptx/{unit}.ptx")).find(|name| {
        let text = fs::read_to_string(root.join(name)).unwrap_or_default();
        header_field(&text, "sources") != Some(hash.as_str())
    })
}
