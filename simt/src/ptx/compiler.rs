//! Compiles a crate of kernels to PTX.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::check::check;

/// Oldest architecture that the assembler of CUDA 13 knows; the driver compiles from here for newer
/// ones.
pub const TARGET: &str = "sm_75";

/// Flags of every crate: `core`, this one, and the kernels.
const COMMON_FLAGS: [&str; 8] = [
    "--target=nvptx64-nvidia-cuda",
    "--edition=2024",
    "-Ctarget-cpu=sm_75",
    "-Copt-level=3",
    // A panic is a `trap`: no formatting, no `.func`, no strings.
    "-Cpanic=immediate-abort",
    "-Zunstable-options",
    "-Cdebuginfo=0",
    // MIR jump threading duplicates barriers.
    "-Zmir-enable-passes=-JumpThreading",
];

const KERNEL_FLAGS: [&str; 5] = [
    "--crate-type=cdylib",
    "-Clto=fat",
    "-Ccodegen-units=1",
    "-Clinker=true",
    "-Dwarnings",
];

/// Folders and files below this crate's `src` that are compiled into device code.
const DEVICE_SOURCES: [&str; 8] = [
    "lib.rs",
    "atomics.rs",
    "block.rs",
    "kernel.rs",
    "math.rs",
    "memory.rs",
    "primitives",
    "nvptx",
];

/// A crate of kernels.
#[derive(Clone, Copy, Debug)]
pub struct KernelCrate<'a> {
    /// The crate's name, as in `use name::…`.
    pub name: &'a str,
    /// Folder of the crate; the root module is `src/lib.rs` below it.
    pub folder: &'a Path,
    /// Names and folders of other crates that the kernels use, each after the crates that it needs
    /// itself. They must be `no_std`, with `src/lib.rs` as root; they see `core`, this crate and
    /// the dependencies before them. Cargo features are not set.
    pub dependencies: &'a [(&'a str, &'a Path)],
    /// Folder of this crate if it lies in the same repository; `None`: the folder from which cargo
    /// compiled it.
    pub simt: Option<&'a Path>,
    /// Maximum number of registers per thread for entry points whose name begins so; others have no
    /// limit.
    pub max_registers: &'a [(&'a str, u32)],
    /// Command that makes the PTX again, for the files' headers.
    pub rebuild: &'a str,
}

impl KernelCrate<'_> {
    /// Returns the hash of all sources of the PTX: names and contents of the Rust files of the
    /// kernels, of their dependencies, and of this crate's device code.
    ///
    /// The hash is 64-bit FNV-1a: it finds a forgotten rebuild, not malice.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn source_hash(&self) -> Result<String, String> {
        let top = self.folder.join("src");
        let mut files = Vec::new();
        sources_below(&top, &top, "", &mut files)?;
        files.extend(self.library_sources()?);
        files.sort();
        hash_of(&files)
    }

    /// Lists the sources of all crates that are compiled before the kernels.
    fn library_sources(&self) -> Result<Vec<(String, PathBuf)>, String> {
        let mut files = self.device_sources()?;
        for (name, folder) in self.dependencies {
            let top = folder.join("src");
            sources_below(&top, &top, &format!("{name}/"), &mut files)?;
        }
        files.sort();
        Ok(files)
    }

    fn own_sources(&self) -> PathBuf {
        self.simt
            .unwrap_or(Path::new(env!("CARGO_MANIFEST_DIR")))
            .join("src")
    }

    fn device_sources(&self) -> Result<Vec<(String, PathBuf)>, String> {
        let top = self.own_sources();
        let mut files = Vec::new();
        for name in DEVICE_SOURCES {
            sources_below(&top, &top.join(name), "simt/", &mut files)?;
        }
        Ok(files)
    }
}

/// Rust compiler that can make PTX, because the source of its `core` is installed.
#[derive(Debug)]
pub struct Compiler {
    rustc: PathBuf,
    core_source: PathBuf,
    /// Versions of rustc and its LLVM, as they stand in the header of a PTX file.
    pub version: String,
}

impl Compiler {
    /// Takes the compiler in the environment variable `variable`; else Debian's `rustc-web` in
    /// `/usr/bin`, a rustup nightly, or the compiler on the path, in this order.
    ///
    /// # Errors
    /// If no compiler has the source of its `core`; the message says what to install.
    pub fn find(variable: &str) -> Result<Self, String> {
        if let Some(rustc) = std::env::var_os(variable) {
            return Self::at(Path::new(&rustc));
        }
        let nightly = Command::new("rustup")
            .args(["which", "--toolchain", "nightly", "rustc"])
            .output()
            .ok();
        let nightly = nightly
            .filter(|o| o.status.success())
            .map(|o| String::from_utf8_lossy(&o.stdout).trim().into());
        let candidates = [
            Some("/usr/bin/rustc".into()),
            nightly,
            Some("rustc".to_owned()),
        ];
        let mut failures = String::new();
        for candidate in candidates.into_iter().flatten() {
            match Self::at(Path::new(&candidate)) {
                Ok(compiler) => return Ok(compiler),
                Err(e) => _ = write!(failures, "\n  {e}"),
            }
        }
        Err(format!(
            "no compiler for PTX: install Debian's rustc-web and rust-web-src, or a rustup nightly with rust-src, or name \
             one in {variable}. Tried:{failures}"
        ))
    }

    fn at(rustc: &Path) -> Result<Self, String> {
        let says = |arguments: &[&str]| {
            let output = clean(rustc)
                .args(arguments)
                .output()
                .map_err(|e| format!("{}: {e}", rustc.display()))?;
            if !output.status.success() {
                return Err(format!(
                    "{}: {}",
                    rustc.display(),
                    String::from_utf8_lossy(&output.stderr).trim()
                ));
            }
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let sysroot = says(&["--print=sysroot"])?;
        let core_source =
            Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/core/src/lib.rs");
        if !core_source.is_file() {
            return Err(format!(
                "{}: its source is not installed ({})",
                rustc.display(),
                core_source.display()
            ));
        }
        let verbose = says(&["--version", "--verbose"])?;
        let llvm = verbose
            .lines()
            .find(|l| l.starts_with("LLVM"))
            .unwrap_or("LLVM version: unknown");
        let version = format!("{}, {llvm}", verbose.lines().next().unwrap_or("unknown"));
        Ok(Self {
            rustc: rustc.to_owned(),
            core_source,
            version,
        })
    }

    /// Compiles a crate of kernels with `--cfg ptx_unit="unit"`, and returns the PTX with a header.
    /// A crate with several sets of entry points selects one by `ptx_unit`. `work` is an existing
    /// folder for intermediate files, and for `core` and this crate, which are compiled once per
    /// compiler.
    ///
    /// # Errors
    /// If the compiler fails, a file cannot be read or written, or [`check()`](super::check())
    /// finds something that a kernel must not contain.
    pub fn compile(
        &self,
        kernels: &KernelCrate<'_>,
        unit: &str,
        work: &Path,
    ) -> Result<String, String> {
        let text = self.compile_unchecked(kernels, unit, work, &[])?;
        if check(&text, &[]).is_empty() {
            return Ok(text);
        }
        let located =
            self.compile_unchecked(kernels, unit, work, &["-Cdebuginfo=line-tables-only"])?;
        let findings = check(&located, &[])
            .into_iter()
            .map(|finding| format!("\n  {finding}"));
        Err(format!(
            "{}: not fit for a GPU:{}",
            kernels.name,
            findings.collect::<String>()
        ))
    }

    /// Compiles like [`compile`](Self::compile), with more flags and without the check.
    pub fn compile_unchecked(
        &self,
        kernels: &KernelCrate<'_>,
        unit: &str,
        work: &Path,
        flags: &[&str],
    ) -> Result<String, String> {
        let libraries = self.libraries(kernels, work)?;
        let ptx = work.join(format!("{}-{unit}.s", kernels.name));
        let mut command = clean(&self.rustc);
        // Two compilers may run in one folder: each call has its own names for intermediate files.
        command.arg("--out-dir").arg(work);
        command
            .args(COMMON_FLAGS)
            .args(KERNEL_FLAGS)
            .args(flags)
            .args(["--crate-name", kernels.name]);
        command
            .arg(format!("--cfg=ptx_unit=\"{unit}\""))
            .arg(format!("--emit=asm={}", ptx.display()));
        command.arg(format!(
            "--remap-path-prefix={}=.",
            kernels.folder.display()
        ));
        // A sysroot without libraries hides any other installed `core` for the target.
        command
            .arg("--sysroot")
            .arg(&libraries)
            .arg("-L")
            .arg(&libraries);
        command.arg("--extern=simt").args(
            kernels
                .dependencies
                .iter()
                .map(|(name, _)| format!("--extern={name}")),
        );
        succeed(command.arg(kernels.folder.join("src/lib.rs")))?;
        let mut text = self.header(kernels, unit, &kernels.source_hash()?);
        let mut max_registers = None;
        for line in fs::read_to_string(&ptx)
            .map_err(|e| format!("{}: {e}", ptx.display()))?
            .lines()
        {
            // Comments around inline assembly are a fifth of the file, and say nothing.
            if !line.ends_with("inline asm") && !line.trim().is_empty() {
                text.push_str(line);
                text.push('\n');
                if let Some(name) = line.strip_prefix(".visible .entry ") {
                    let limit = kernels
                        .max_registers
                        .iter()
                        .find(|(beginning, _)| name.starts_with(beginning));
                    max_registers = limit.map(|(_, registers)| registers);
                }
                // The parameters of an entry point end here, and a limit stands after them.
                if line == ")"
                    && let Some(registers) = max_registers
                {
                    _ = writeln!(text, ".maxnreg {registers}");
                }
            }
        }
        Ok(text)
    }

    /// Checks that the compiler keeps shared loads where they are between barriers, and all
    /// barriers.
    ///
    /// Rust has no notion of a barrier of a block. It is inline assembly that may change memory,
    /// and a compiler that ignored this would make kernels that fail now and then.
    fn probe(&self, libraries: &Path) -> Result<(), String> {
        let (source, ptx) = (libraries.join("probe.rs"), libraries.join("probe.s"));
        let io = |e: std::io::Error| format!("{}: {e}", libraries.display());
        fs::write(&source, PROBE).map_err(io)?;
        let mut command = clean(&self.rustc);
        command
            .args(COMMON_FLAGS)
            .args(KERNEL_FLAGS)
            .args(["--crate-name=probe", "--sysroot"])
            .arg(libraries);
        command.arg("--out-dir").arg(libraries);
        command
            .arg(format!("--emit=asm={}", ptx.display()))
            .arg("-L")
            .arg(libraries);
        command.arg(format!(
            "--extern=simt={}",
            libraries.join("libsimt.rlib").display()
        ));
        succeed(command.arg(&source))?;
        let text = fs::read_to_string(&ptx).map_err(io)?;
        let names = text
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        let found: Vec<_> = names.filter(|name| PROBED.contains(name)).collect();
        if found == PROBED {
            return Ok(());
        }
        Err(format!(
            "{} moves shared loads across barriers: {found:?}; take another compiler",
            self.version
        ))
    }

    fn header(&self, kernels: &KernelCrate<'_>, unit: &str, hash: &str) -> String {
        let flags = [&COMMON_FLAGS[..], &KERNEL_FLAGS[..]].concat().join(" ");
        format!(
            "// Made from the sources of {} and of simt; rebuild: {}\n\
             // unit: {unit}\n// compiler: {}\n// target: {TARGET}\n// flags: {flags}\n\
             // sources: {hash}\n",
            kernels.name, kernels.rebuild, self.version
        )
    }

    /// Returns the folder with `core`, this crate, the dependencies, and an empty
    /// `compiler_builtins`, which provides nothing that could be called.
    fn libraries(&self, kernels: &KernelCrate<'_>, work: &Path) -> Result<PathBuf, String> {
        let mut key = SourceHash::new();
        key.add(self.version.as_bytes());
        for flag in COMMON_FLAGS {
            key.add(flag.as_bytes());
        }
        key.add(hash_of(&kernels.library_sources()?)?.as_bytes());
        let done = work.join(format!("core-{}", key.hex()));
        if done.is_dir() {
            return Ok(done);
        }
        // The folder gets its name when it is complete: an interrupted build leaves none by that
        // name.
        let n = BUILDS.fetch_add(1, Ordering::Relaxed);
        let folder = work.join(format!("core-{}.{}-{n}", key.hex(), std::process::id()));
        let io = |e: std::io::Error| format!("{}: {e}", folder.display());
        fs::create_dir_all(&folder).map_err(io)?;
        let library = |name: &str, source: &Path, uses: &[String]| {
            let mut command = clean(&self.rustc);
            command
                .args(COMMON_FLAGS)
                .args([
                    "--crate-type=rlib",
                    "--cap-lints=allow",
                    "--crate-name",
                    name,
                ])
                .args(uses);
            command
                .arg("--sysroot")
                .arg(&folder)
                .arg("-L")
                .arg(&folder)
                .arg("-o")
                .arg(folder.join(format!("lib{name}.rlib")));
            succeed(command.arg(source))
        };
        library("core", &self.core_source, &[])?;
        let stub = folder.join("compiler_builtins.rs");
        let attributes = "#![no_std]\n#![feature(compiler_builtins)]\n#![compiler_builtins]\n";
        fs::write(&stub, attributes).map_err(io)?;
        library("compiler_builtins", &stub, &[])?;
        library("simt", &kernels.own_sources().join("lib.rs"), &[])?;
        let mut uses = vec!["--extern=simt".to_owned()];
        for (name, of_dependency) in kernels.dependencies {
            library(name, &of_dependency.join("src/lib.rs"), &uses)?;
            uses.push(format!("--extern={name}"));
        }
        self.probe(&folder)?;
        match fs::rename(&folder, &done) {
            Err(e) if !done.is_dir() => Err(io(e)),
            // Another thread or process was faster.
            Err(_) => fs::remove_dir_all(&folder).map_err(io).map(|()| done),
            Ok(()) => Ok(done),
        }
    }
}

static BUILDS: AtomicU32 = AtomicU32::new(0);

/// Kernel with a shared load between any two barriers.
const PROBE: &str = "#![no_std]
#![feature(abi_ptx, asm_experimental_arch)]
simt::declare_shared_memory!();
#[unsafe(no_mangle)]
pub unsafe extern \"ptx-kernel\" fn probe(to: simt::GlobalMut<'_, u32>) {
    use simt::{Block, FULL_MASK, SharedLayout};
    let block = unsafe { simt::nvptx::Hardware::new() };
    let (array, t) = (SharedLayout::new().array::<u32>(64), block.thread());
    block.shared_store(array, t, t);
    block.sync_warp(FULL_MASK);
    let mut sum = block.shared_load(array, t ^ 1);
    block.sync_warp(FULL_MASK);
    sum += block.shared_load(array, t ^ 1);
    block.sync_threads();
    sum += block.shared_load(array, t ^ 1);
    block.sync_threads();
    if t > 3 {
        block.store(to, t, sum);
    }
}
";

const PROBED: [&str; 8] = [
    "st.shared.u32",
    "bar.warp.sync",
    "ld.shared.u32",
    "bar.warp.sync",
    "ld.shared.u32",
    "bar.sync",
    "ld.shared.u32",
    "bar.sync",
];

/// Makes a command without the environment variables of the surrounding cargo and rustup.
fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("RUSTC_BOOTSTRAP", "1");
    for name in [
        "LD_LIBRARY_PATH",
        "RUSTUP_TOOLCHAIN",
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "SOURCE_DATE_EPOCH",
    ] {
        command.env_remove(name);
    }
    command
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    ))
}

/// Adds the Rust files at and below `path`. A file's name is `prefix` and its path relative to
/// `top`.
fn sources_below(
    top: &Path,
    path: &Path,
    prefix: &str,
    files: &mut Vec<(String, PathBuf)>,
) -> Result<(), String> {
    if path.is_dir() {
        let io = |e: std::io::Error| format!("{}: {e}", path.display());
        for entry in fs::read_dir(path).map_err(io)? {
            sources_below(top, &entry.map_err(io)?.path(), prefix, files)?;
        }
    } else if path.extension().is_some_and(|e| e == "rs") {
        let name = path
            .strip_prefix(top)
            .unwrap_or(path)
            .to_string_lossy()
            .replace('\\', "/");
        files.push((format!("{prefix}{name}"), path.to_owned()));
    }
    Ok(())
}

fn hash_of(files: &[(String, PathBuf)]) -> Result<String, String> {
    let mut hash = SourceHash::new();
    for (name, path) in files {
        let text = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        for part in [name.as_bytes(), &text] {
            hash.add(&part.len().to_le_bytes());
            hash.add(part);
        }
    }
    Ok(hash.hex())
}

/// Returns a field of a PTX file's header, such as `sources` or `compiler`.
pub fn header_field<'a>(ptx: &'a str, name: &str) -> Option<&'a str> {
    let comments = ptx.lines().map_while(|line| line.strip_prefix("// "));
    comments
        .filter_map(|line| line.split_once(": "))
        .find(|(field, _)| *field == name)
        .map(|(_, value)| value)
}

struct SourceHash(u64);

impl SourceHash {
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
