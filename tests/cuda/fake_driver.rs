//! The fake CUDA driver of `tests/fake_cuda` in place of `libcuda`, for child processes of a test.
//!
//! The library that opens `libcuda` looks for it along `LD_LIBRARY_PATH`, and cargo has built the
//! fake into the folder of the tests: a folder with a link of the right name is enough. The process
//! of the test itself never sees the fake.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

/// Set in processes that have the fake.
const INSIDE: &str = "UT_DECODE_TEST_ON_FAKE";

/// Line that the fake prints once in every process.
const BANNER: &str = "fake cuda: this is not a GPU";

/// A folder with the fake under the name of the driver.
pub struct FakeDriver(TempDir);

impl FakeDriver {
    pub fn new() -> Self {
        let test = std::env::current_exe().expect("a test has a path");
        let library = test
            .parent()
            .expect("it lies in a folder")
            .join("libfake_cuda.so");
        let folder = tempfile::tempdir().expect("room for a link");
        std::os::unix::fs::symlink(&library, folder.path().join("libcuda.so"))
            .expect("a link can be made");
        assert!(
            library.is_file(),
            "cargo builds {} with the tests",
            library.display()
        );
        Self(folder)
    }

    /// Returns the fake without one of its functions.
    pub fn without(function: &str) -> Self {
        let fake = Self::new();
        let place = fake.0.path().join("libcuda.so");
        let mut bytes = std::fs::read(&place).expect("the library");
        let name = format!("\0{function}\0").into_bytes();
        let places: Vec<_> = bytes
            .windows(name.len())
            .enumerate()
            .filter(|(_, of)| *of == name)
            .map(|(i, _)| i)
            .collect();
        assert!(!places.is_empty(), "the fake has no {function}");
        // Under another name it is not found.
        for i in places {
            bytes[i + 1] = b'x';
        }
        std::fs::remove_file(&place)
            .and_then(|()| std::fs::write(&place, bytes))
            .expect("room for a library");
        fake
    }

    /// Has `command` find the fake, with these settings of it.
    pub fn give_to(&self, command: &mut Command, settings: &[(&str, &str)]) {
        let before = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let path: Vec<PathBuf> = [self.0.path().to_path_buf()]
            .into_iter()
            .chain(std::env::split_paths(&before))
            .collect();
        let path: OsString = std::env::join_paths(path).expect("paths without colons");
        command
            .env("LD_LIBRARY_PATH", path)
            .env(INSIDE, "1")
            .env_remove("CUDA_VISIBLE_DEVICES");
        // Copies that are not from and to pinned memory would wait for the device.
        command.env("FAKE_CUDA_PAGEABLE", "refuse");
        command.envs(settings.iter().copied());
    }

    /// Runs the tool with the fake; the line is split at spaces.
    pub fn run_tool(&self, settings: &[(&str, &str)], line: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ut-decode"));
        self.give_to(&mut command, settings);
        command
            .args(line.split_whitespace())
            .output()
            .expect("the tool can be run")
    }
}

/// Runs the tool with the fake, which must have no complaint; it must end with `code`. Returns what
/// it printed, to standard output and standard error.
#[track_caller]
pub fn tool(code: i32, settings: &[(&str, &str)], line: &str) -> (String, String) {
    let output = FakeDriver::new().run_tool(settings, line);
    let [out, err] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert_eq!(
        output.status.code(),
        Some(code),
        "{line}\n--- stdout\n{out}\n--- stderr\n{err}"
    );
    assert_eq!(complaints(&output), [""; 0], "{line}");
    (out, err)
}

/// Returns the complaints of the fake in the output of a process.
pub fn complaints(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = text.lines().filter(|line| line.contains("fake cuda:"));
    said.filter(|line| !line.starts_with(BANNER) && !line.starts_with("fake cuda: note:"))
        .map(str::to_owned)
        .collect()
}

/// Returns the name of the test in which a closure is written, taken from the name of the closure's
/// type: `cuda::streams::test::{{closure}}`.
fn test_of<F>() -> &'static str {
    let path = std::any::type_name::<F>()
        .split("::{{closure}}")
        .next()
        .expect("a first part");
    path.split_once("::")
        .expect("the program's name comes first")
        .1
}

/// Runs the test's `body` in a new process, with the fake as its driver, and returns that process's
/// output after it has ended well. In the new process itself it runs `body` and returns `None`.
pub fn on_the_fake<F: Fn()>(settings: &[(&str, &str)], body: &F) -> Option<Output> {
    if std::env::var_os(INSIDE).is_some() {
        body();
        return None;
    }
    let fake = FakeDriver::new();
    let mut command = Command::new(std::env::current_exe().expect("a test has a path"));
    fake.give_to(&mut command, settings);
    let output = command
        .args([
            "--exact",
            test_of::<F>(),
            "--nocapture",
            "--include-ignored",
        ])
        .output()
        .expect("the test can be run");
    let [out, err] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    let text = format!("{settings:?}\n--- stdout\n{out}\n--- stderr\n{err}");
    assert!(
        output.status.success() && out.contains("1 passed"),
        "{text}"
    );
    assert!(err.contains(BANNER), "the fake was not used: {text}");
    Some(output)
}

/// Runs [on the fake](on_the_fake) once with each of these settings, and the fake must have found
/// nothing wrong.
pub fn on_the_fakes<F: Fn(), S: AsRef<[(&'static str, &'static str)]>>(all: &[S], body: F) {
    for settings in all {
        if let Some(output) = on_the_fake(settings.as_ref(), &body) {
            assert_eq!(complaints(&output), [""; 0], "{:?}", settings.as_ref());
        }
    }
}

/// Runs [on the fake](on_the_fake), and the fake must have found nothing wrong.
pub fn well_on_the_fake<F: Fn()>(settings: &[(&str, &str)], body: F) {
    if let Some(output) = on_the_fake(settings, &body) {
        assert_eq!(complaints(&output), [""; 0], "{settings:?}");
    }
}
