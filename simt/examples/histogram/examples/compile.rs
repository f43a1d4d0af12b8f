//! Compiles the kernel, as a build script would: `cargo run --example compile -- histogram.ptx`.

use std::error::Error;
use std::path::Path;

use simt::ptx::{Compiler, KernelCrate};

fn main() -> Result<(), Box<dyn Error>> {
    let target = std::env::args().nth(1).ok_or("usage: compile FILE.ptx")?;
    let kernels = KernelCrate {
        name: "histogram_kernel",
        folder: Path::new(env!("CARGO_MANIFEST_DIR")),
        dependencies: &[],
        simt: Some(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")),
        max_registers: &[],
        rebuild: "cargo run --example compile",
    };
    let work = tempfile::tempdir()?;
    let ptx = Compiler::find("HISTOGRAM_RUSTC")?.compile(&kernels, "histogram", work.path())?;
    Ok(std::fs::write(target, ptx)?)
}
