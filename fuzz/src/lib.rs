//! Fuzzing targets: functions of bytes, one for each way in which bytes come from outside. A target panics if the code under
//! it panics, or gives different results in two ways that must agree.
//!
//! `fuzz/run.sh TARGET SECONDS` runs one under libFuzzer, on stable Rust; `tests/replay.rs` runs `fixtures/fuzz/TARGET`.

mod batches;
mod files;
mod tuning;

/// A target.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also the name of its folder in `fixtures/fuzz`.
pub const TARGETS: [(&str, Target); 6] = [
    ("decode", batches::decode),
    ("c-batch", batches::c_batch),
    ("file", files::file),
    ("tables", files::tables),
    ("store", tuning::store),
    ("text", tuning::text),
];

/// Takes the bytes of an input from the front; zeros once there are none left.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn u8(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    /// Takes at most `n` bytes.
    fn take(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Takes up to as many words as the next byte says.
    fn words(&mut self) -> Vec<u32> {
        let n = usize::from(self.u8());
        self.take(4 * n).as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
    }
}

/// Writes `data` to the file `name` in a folder of this process, in memory where there is such a folder.
fn file_of(name: &str, data: &[u8]) -> std::path::PathBuf {
    static FOLDER: std::sync::OnceLock<tempfile::TempDir> = std::sync::OnceLock::new();
    let make = || tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary folder");
    let path = FOLDER.get_or_init(make).path().join(name);
    std::fs::write(&path, data).expect("memory takes a small file");
    path
}
