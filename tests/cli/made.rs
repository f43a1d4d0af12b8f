//! A folder for tuning, and recordings of devices that do not exist.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tuner::store::Store;
use tuner_score::synthetic::Synthetic;

/// A folder in which the tool runs, with a store of its own.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file; its whole name.
    pub fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name).display().to_string()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ut-decode"));
        let arguments = arguments.iter().map(|argument| self::argument(self.folder.path(), argument));
        command.current_dir(self.folder.path()).args(arguments);
        command.env("UT_DECODE_TUNE_DB", self.path("tune.sqlite")).env_remove("UT_DECODE_TUNE_MATCH");
        command
    }

    pub fn tool(&self, arguments: &[&str]) -> assert_cmd::Command {
        assert_cmd::Command::from_std(self.command(arguments))
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Returns what a successful command prints.
    pub fn says(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the JSON that a successful command prints.
    pub fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.says(&[arguments, &["--json", "-"]].concat())).unwrap()
    }

    /// Returns what a failing command says.
    pub fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).unwrap()
    }

    pub fn store(&self) -> Store {
        Store::open(&self.path("tune.sqlite")).unwrap()
    }
}

/// Returns an argument of the tool; for `synthetic:SPEC`, the replay of such a device, recorded in `folder`.
fn argument(folder: &Path, argument: &str) -> String {
    let Some(spec) = argument.strip_prefix("synthetic:") else { return argument.to_owned() };
    let file = folder.join(format!("synthetic {spec}.json"));
    if !file.exists() {
        std::fs::write(&file, Synthetic::new(spec.parse().unwrap()).recording(20)).unwrap();
    }
    format!("replay:{}", file.display())
}
