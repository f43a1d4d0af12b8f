//! Machine and program of a measurement, without which its numbers are worth nothing.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use ut_decoders::parameters::cores;

/// Machine and program.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Machine {
    pub cpu: Option<String>,
    /// Hardware threads that this process may use.
    pub cores: usize,
    pub version: String,
    /// Commit of the sources, with `-dirty` if files differ from it; `None` if unknown.
    pub commit: Option<String>,
    /// True if the compiler optimised it.
    pub optimised: bool,
}

impl Machine {
    /// Describes this machine and this program, once a process: git and `/proc` are slow.
    pub fn this() -> Self {
        static THIS: LazyLock<Machine> = LazyLock::new(|| Machine {
            cpu: tuner::watch::cpu::model(),
            cores: cores(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: option_env!("UT_DECODE_COMMIT").map(ToOwned::to_owned).or_else(commit),
            optimised: !cfg!(debug_assertions),
        });
        THIS.clone()
    }
}

/// Commit of the checkout in whose `target` this program lies, unless its sources have changed since it was built.
fn commit() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let top = program.ancestors().find(|directory| directory.file_name().is_some_and(|name| name == "target"))?;
    let top = top.parent()?;
    if !top.join("kernels/Cargo.toml").exists() || is_outdated(&program, top) {
        return None;
    }
    let output =
        Command::new("git").arg("-C").arg(top).args(["describe", "--always", "--dirty", "--abbrev=12"]).output();
    let output = output.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// Returns true if a source of `program`, as cargo lists them beside it, has changed or gone since, as after a `git
/// pull`.
fn is_outdated(program: &Path, top: &Path) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|of| of.modified());
    let (Ok(list), Ok(built)) = (std::fs::read_to_string(program.with_extension("d")), modified(program)) else {
        return false;
    };
    let Some((_, sources)) = list.lines().next().and_then(|line| line.split_once(": ")) else { return false };
    // As in a makefile, a backslash stands before a space in a path.
    let sources = sources.replace("\\ ", "\0");
    let mut sources = sources.split(' ').map(|path| top.join(path.replace('\0', " ")));
    sources.any(|source| modified(&source).map_or(true, |changed| changed > built))
}

#[cfg(test)]
mod tests {
    use std::fs::{File, write};
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn a_program_is_outdated_if_one_of_its_sources_is_newer_or_gone() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let age = |name: &str, s: u64| {
            let file = File::options().write(true).open(at(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(s)).unwrap();
        };
        for name in ["program", "a.rs", "b c.rs"] {
            write(at(name), "").unwrap();
        }
        let is_outdated = || is_outdated(&at("program"), folder.path());
        assert!(!is_outdated(), "there is no list");
        let absolute = at("a.rs").display().to_string();
        write(at("program.d"), format!("{}: {absolute} b\\ c.rs\n\nb\\ c.rs:\n", at("program").display())).unwrap();
        for (name, s) in [("a.rs", 300), ("b c.rs", 300), ("program", 200)] {
            age(name, s);
        }
        assert!(!is_outdated());
        age("b c.rs", 100);
        assert!(is_outdated());
        age("program", 50);
        assert!(!is_outdated());
        std::fs::remove_file(at("a.rs")).unwrap();
        assert!(is_outdated());
    }
}
