//! How `kernels/src` becomes `kernels/ptx/*.ptx`.
//!
//! Shared by the build script, which rebuilds on request, and by the tests, which compare what is committed with what
//! the compiler makes. Only the standard library is used, and no cargo runs inside cargo: three calls of `rustc` make
//! `core`, an empty `compiler_builtins` and the kernels, so that nothing is downloaded and nothing outside the source
//! tree and the compiler decides what comes out. `docs/ptx.md` says why each flag is there.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The files of `kernels/ptx`, without `.ptx`; each is compiled with `--cfg ptx_unit="…"` and stands on its own, so
/// that a decoder loads the kernels of its own format and layout and no others.
pub const UNITS: [&str; 9] = [
    "v4_allen",
    "v4_mep",
    "v5_allen",
    "v5_mep",
    "v5_allen_ladder",
    "v4_allen_fused",
    "v4_mep_fused",
    "v5_allen_fused",
    "v5_mep_fused",
];

/// Oldest architecture that has all the collectives in use (`redux.sync`); the driver compiles on from here.
pub const TARGET: &str = "sm_80";

/// What both `core` and the kernels are compiled with.
const COMMON_FLAGS: [&str; 8] = [
    "--target=nvptx64-nvidia-cuda",
    "--edition=2024",
    "-Ctarget-cpu=sm_80",
    "-Copt-level=3",
    // A panic is a `trap`: no formatting, no `.func`, no strings.
    "-Cpanic=immediate-abort",
    "-Zunstable-options",
    "-Cdebuginfo=0",
    // MIR jump threading duplicates barriers.
    "-Zmir-enable-passes=-JumpThreading",
];

/// What only the kernels are compiled with.
const KERNEL_FLAGS: [&str; 5] =
    ["--crate-type=cdylib", "-Clto=fat", "-Ccodegen-units=1", "-Clinker=true", "-Dwarnings"];

/// A compiler that can make PTX: one whose own `core` source is at hand.
pub struct Compiler {
    rustc: PathBuf,
    core_source: PathBuf,
    /// `rustc --version` with LLVM's, as the header has it.
    pub version: String,
}

impl Compiler {
    /// Looks at `UT_DECODE_PTX_RUSTC`, Debian's `rustc-web` in `/usr/bin`, a rustup nightly, and the compiler on the
    /// path, in this order; the error says what to install.
    pub fn find() -> Result<Self, String> {
        if let Some(rustc) = std::env::var_os("UT_DECODE_PTX_RUSTC") {
            return Self::at(Path::new(&rustc));
        }
        let nightly = Command::new("rustup").args(["which", "--toolchain", "nightly", "rustc"]).output().ok();
        let nightly = nightly.filter(|o| o.status.success()).map(|o| String::from_utf8_lossy(&o.stdout).trim().into());
        let candidates = [Some("/usr/bin/rustc".into()), nightly, Some("rustc".to_owned())];
        let mut failures = String::new();
        for candidate in candidates.into_iter().flatten() {
            match Self::at(Path::new(&candidate)) {
                Ok(compiler) => return Ok(compiler),
                Err(e) => _ = write!(failures, "\n  {e}"),
            }
        }
        Err(format!(
            "no compiler for PTX: install Debian's rustc-web and rust-web-src (kernels/install-ptx-tools.sh), or a \
             rustup nightly with rust-src, or name one in UT_DECODE_PTX_RUSTC. Tried:{failures}"
        ))
    }

    fn at(rustc: &Path) -> Result<Self, String> {
        let says = |arguments: &[&str]| {
            let output = clean(rustc).args(arguments).output().map_err(|e| format!("{}: {e}", rustc.display()))?;
            if !output.status.success() {
                return Err(format!("{}: {}", rustc.display(), String::from_utf8_lossy(&output.stderr).trim()));
            }
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let sysroot = says(&["--print=sysroot"])?;
        let core_source = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/core/src/lib.rs");
        if !core_source.is_file() {
            return Err(format!("{}: its source is not installed ({})", rustc.display(), core_source.display()));
        }
        let verbose = says(&["--version", "--verbose"])?;
        let llvm = verbose.lines().find(|l| l.starts_with("LLVM")).unwrap_or("LLVM version: unknown");
        let version = format!("{}, {llvm}", verbose.lines().next().unwrap_or("unknown"));
        Ok(Self { rustc: rustc.to_owned(), core_source, version })
    }

    /// Compiles one of [`UNITS`] and returns the file's text, header included. `root` is the top of the source tree;
    /// `work` is a folder for `core` (made once for each compiler) and for intermediate files.
    pub fn compile(&self, root: &Path, work: &Path, unit: &str) -> Result<String, String> {
        let libraries = self.libraries(work)?;
        let ptx = work.join(format!("{unit}.s"));
        let mut command = clean(&self.rustc);
        command.args(COMMON_FLAGS).args(KERNEL_FLAGS).arg("--crate-name=ut_kernels");
        command.arg(format!("--cfg=ptx_unit=\"{unit}\"")).arg(format!("--emit=asm={}", ptx.display()));
        command.arg(format!("--remap-path-prefix={}=.", root.display()));
        // A sysroot without libraries: another `core` for the target, should one be installed, is not in the way.
        command.arg("--sysroot").arg(&libraries).arg("-L").arg(&libraries).arg(root.join("kernels/src/lib.rs"));
        succeed(&mut command)?;
        let mut text = self.header(unit, &source_hash(root)?);
        for line in fs::read_to_string(&ptx).map_err(|e| format!("{}: {e}", ptx.display()))?.lines() {
            // A fifth of the file otherwise, saying nothing.
            if !line.ends_with("inline asm") && !line.trim().is_empty() {
                text.push_str(line);
                text.push('\n');
            }
        }
        Ok(text)
    }

    fn header(&self, unit: &str, hash: &str) -> String {
        let flags = [&COMMON_FLAGS[..], &KERNEL_FLAGS[..]].concat().join(" ");
        format!(
            "// Made from kernels/src by build.rs; rebuild: UT_DECODE_BUILD_PTX=1 cargo build\n\
             // unit: {unit}\n// compiler: {}\n// target: {TARGET}\n// flags: {flags}\n// sources: {hash}\n",
            self.version
        )
    }

    /// The folder with `core` and the empty `compiler_builtins` that `no_std` crates link; the back end expands every
    /// memory function in place, so that nothing of the real one is missed.
    fn libraries(&self, work: &Path) -> Result<PathBuf, String> {
        let mut key = Fnv::new();
        key.add(self.version.as_bytes());
        for flag in COMMON_FLAGS {
            key.add(flag.as_bytes());
        }
        let done = work.join(format!("core-{}", key.hex()));
        if done.is_dir() {
            return Ok(done);
        }
        // Made aside and renamed, so that an interrupted build leaves nothing that looks complete.
        let folder = work.join(format!("core-{}.{}", key.hex(), std::process::id()));
        let io = |e: std::io::Error| format!("{}: {e}", folder.display());
        fs::create_dir_all(&folder).map_err(io)?;
        let library = |name: &str, source: &Path| {
            let mut command = clean(&self.rustc);
            command.args(COMMON_FLAGS).args(["--crate-type=rlib", "--cap-lints=allow", "--crate-name", name]);
            command
                .arg("--sysroot")
                .arg(&folder)
                .arg("-L")
                .arg(&folder)
                .arg("-o")
                .arg(folder.join(format!("lib{name}.rlib")));
            succeed(command.arg(source))
        };
        library("core", &self.core_source)?;
        let stub = folder.join("compiler_builtins.rs");
        let attributes = "#![no_std]\n#![feature(compiler_builtins)]\n#![compiler_builtins]\n";
        fs::write(&stub, attributes).map_err(io)?;
        library("compiler_builtins", &stub)?;
        match fs::rename(&folder, &done) {
            Err(e) if !done.is_dir() => Err(io(e)),
            _ => Ok(done),
        }
    }
}

/// A command that nothing of the surrounding cargo or rustup reaches.
fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("RUSTC_BOOTSTRAP", "1");
    for name in ["LD_LIBRARY_PATH", "RUSTUP_TOOLCHAIN", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "SOURCE_DATE_EPOCH"] {
        command.env_remove(name);
    }
    command
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// Hash of everything that the PTX is made from, besides the compiler and its flags: names and contents of the files
/// under `kernels/src`. It guards against forgetting to rebuild, not against malice: 64-bit FNV-1a.
pub fn source_hash(root: &Path) -> Result<String, String> {
    let top = root.join("kernels/src");
    let mut files = Vec::new();
    let mut folders = vec![top.clone()];
    while let Some(folder) = folders.pop() {
        let io = |e: std::io::Error| format!("{}: {e}", folder.display());
        for entry in fs::read_dir(&folder).map_err(io)? {
            let path = entry.map_err(io)?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name = path.strip_prefix(&top).unwrap_or(&path).to_string_lossy().replace('\\', "/");
                files.push((name, path));
            }
        }
    }
    files.sort();
    let mut hash = Fnv::new();
    for (name, path) in files {
        let text = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        for part in [name.as_bytes(), &text] {
            hash.add(&part.len().to_le_bytes());
            hash.add(part);
        }
    }
    Ok(hash.hex())
}

/// A field of a PTX file's header, such as `sources` or `compiler`.
pub fn header_field<'a>(ptx: &'a str, name: &str) -> Option<&'a str> {
    let comments = ptx.lines().map_while(|line| line.strip_prefix("// "));
    comments.filter_map(|line| line.split_once(": ")).find(|(field, _)| *field == name).map(|(_, value)| value)
}

struct Fnv(u64);

impl Fnv {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn hex(&self) -> String {
        format!("{:016x}", self.0)
    }
}
