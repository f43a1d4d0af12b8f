//! What a measurement was made on, and of what: a number without it is worth nothing.

use std::process::Command;
use std::sync::LazyLock;

/// The machine and the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Machine {
    /// The processor, as it calls itself.
    pub cpu: Option<String>,
    /// Hardware threads that this process may use.
    pub cores: usize,
    /// Version of this library.
    pub version: String,
    /// Commit it was built from, with `-dirty` when files differ from it; `None` if unknown.
    pub commit: Option<String>,
    /// Whether the compiler optimised it.
    pub optimised: bool,
}

impl Machine {
    /// This machine and this program. Looked up once a process: git and `/proc` are slow.
    pub fn this() -> Self {
        static THIS: LazyLock<Machine> = LazyLock::new(|| Machine {
            cpu: tuner::watch::cpu::model(),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: option_env!("UT_DECODE_COMMIT").map(ToOwned::to_owned).or_else(commit),
            optimised: !cfg!(debug_assertions),
        });
        THIS.clone()
    }
}

/// The commit of the checkout in whose `target` this program lies.
fn commit() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let top = program.ancestors().find(|directory| directory.file_name().is_some_and(|name| name == "target"))?;
    let top = top.parent()?;
    if !top.join("kernels/Cargo.toml").exists() {
        return None;
    }
    let output =
        Command::new("git").arg("-C").arg(top).args(["describe", "--always", "--dirty", "--abbrev=12"]).output();
    let output = output.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
